"""Work on groups of partitions: in this process where it is little, in Spark's tasks where it is much.

What a rebuild or a cycle runs with beside what is wanted of it: how much this process does itself, stages, who is told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from dtoss.commits.lease import Writer
from dtoss.snapshots.store import on_stderr
from pipelines.engines.progress import Stages
from pipelines.engines.spark_rows import done_by_number
from pipelines.spark.session import cores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


T = TypeVar("T")


def groups_of(items: Sequence[T], weights: Sequence[float], many: int) -> list[list[T]]:
    """Return items in at most so many groups, about equally heavy: the heaviest first, each to the lightest group.

    Examples
    --------
    >>> groups_of("abcd", [5.0, 1.0, 2.0, 3.0], 2)
    [['a', 'b'], ['d', 'c']]
    >>> groups_of("abc", [0.0, 0.0, 0.0], 2)  # none is empty
    [['a', 'c'], ['b']]
    """
    groups: list[list[T]] = [[] for _ in range(min(many, len(items)))]
    loads = [0.0] * len(groups)
    for i in sorted(range(len(items)), key=lambda i: (-weights[i], i)):
        lightest = min(range(len(groups)), key=lambda g: (loads[g], len(groups[g]), g))
        groups[lightest].append(items[i])
        loads[lightest] += weights[i]
    return groups


def spread_work(
    session: SparkSession | None,
    work: Callable[[list[T]], list[Any]],
    items: Sequence[T],
    weights: Sequence[float],
    *,
    here: bool,
) -> list[Any]:
    """Return what ``work`` gives for all items, in any order; a group of them is a task.

    ``here``: do it at once in this process: a job of Spark's costs a third of a second.
    """
    if not items:
        return []
    if here:
        return work(list(items))
    groups = groups_of(items, weights, cores(session))
    made = done_by_number(session, len(groups), lambda number: work(groups[number]))
    return [one for some in made for one in some]


class Here(NamedTuple):
    """Up to how much of each step is done here; with -1 nothing is. What comes out is the same."""

    # Of updates, as far as Spark can estimate them, that come to this process: shuffling so few costs more
    update_bytes: int = 64 << 20
    compared: int = 4_000_000  # Objects whose partitions are compared with the updates, where their files are local
    built: int = 100_000  # Objects of partitions that are built, where files are local
    copies: int = 1_000_000  # Replicas from which the border table is made, where files are local


USUAL = Here()
NOTHING = Here(-1, -1, -1, -1)
"""All is done by Spark's tasks."""


@dataclass(frozen=True)
class WorkContext:
    """The context of one run."""

    stages: Stages | None = None  # Times the stages and shows them
    warn: Callable[[str], None] | None = None  # Is told what looks wrong but is legal
    lock: Writer | None = None  # The right to write to the store, if the caller has it already
    here: Here = USUAL  # How much this process does itself

    @property
    def warn_or_stderr(self) -> Callable[[str], None]:
        """Who is told what could not be done; stderr where nobody is named."""
        return self.warn or on_stderr

    @property
    def warn_or_silent(self) -> Callable[[str], None]:
        """Who is told what looks wrong; nobody where nobody is named."""
        return self.warn or (lambda message: None)
