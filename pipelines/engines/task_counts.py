"""How many of something tasks of either engine have seen, said beside the rows that they yield."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class TaskCounts(Protocol):
    """Counts by the number of the task; one that runs again says its own again."""

    value: dict[int, int]

    def add(self, counts: dict[int, int]) -> None:
        """Take over counts of some tasks."""
        ...


@dataclass
class CountsHere:
    """Counts of tasks of this process."""

    value: dict[int, int] = field(default_factory=dict)

    def add(self, counts: dict[int, int]) -> None:
        """As :meth:`TaskCounts.add`."""
        self.value.update(counts)


def task_counts(session: SparkSession | None) -> TaskCounts:
    """Return counts that tasks can add to, none yet; they are known once an action has ended."""
    if session is None:
        return CountsHere()
    from pipelines.spark.counts_by_task import BY_TASK

    return session.sparkContext.accumulator({}, BY_TASK)
