"""The Spark of commands that go on: started when there are rows, and anew after it has gone."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pipelines.command.terminal.output import start_spark

END_SECONDS = 1.5
"""That Java may take to end after a signal."""


@dataclass
class Sessions:
    """A session that is started once it is asked for."""

    master: str | None
    driver_memory: str | None
    _started: list[Any] = field(default_factory=list)

    def __call__(self) -> Any:
        """Return the session."""
        if not self._started:
            self._started.append(start_spark(self.master, self.driver_memory, END_SECONDS))
        return self._started[0]

    @property
    def renew(self) -> Callable[[], None] | None:
        """Lets go of a session that has ended; None where spark-submit has started the Spark that it gives us."""
        return None if "PYSPARK_GATEWAY_PORT" in os.environ else self._renew

    def _renew(self) -> None:
        from pipelines.spark.session import forget_spark

        self._started.clear()
        forget_spark()
