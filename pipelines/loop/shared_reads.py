"""Files of one beat, read once for all who take them: a store, its history and windows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipelines.loop.arriving import Arrivals
from pipelines.rows.inputs import Inputs
from pipelines.rows.position_frame import Positions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Reads:
    """Positions of files that have arrived; who asks for the same files gets the same positions."""

    read: Callable[[SparkSession, Inputs], Positions]  # Reads files in a session
    schema: str = "union"  # Of the files, as they were asked for
    encoding: str | None = None  # Of the files, as they were asked for
    _inputs: dict[frozenset[str], Inputs | None] = field(default_factory=dict)
    _positions: dict[frozenset[str], Positions] = field(default_factory=dict)

    def inputs(self, some: Arrivals) -> Inputs | None:
        """Return the fresh files of what has arrived, as Spark is to read them; None where there is nothing in them."""
        which = frozenset(some.fresh)
        if which not in self._inputs:
            self._inputs[which] = some.inputs(schema=self.schema, encoding=self.encoding)
        return self._inputs[which]

    def positions(self, session: SparkSession, some: Arrivals) -> Positions | None:
        """Return the positions in the fresh files of what has arrived; None where there is nothing in them."""
        which, inputs = frozenset(some.fresh), self.inputs(some)
        if inputs is None:
            return None
        if which not in self._positions:
            self._positions[which] = self.read(session, inputs)
        return self._positions[which]

    def last(self) -> Inputs | None:
        """Return the files that were read last; None where none were."""
        for which in reversed(self._positions):
            return self._inputs[which]
        return None

    def release(self) -> None:
        """Let go of what is kept of the files."""
        for positions in self._positions.values():
            positions.release()
