"""Which engine carries out a command: Spark where it is asked for or needed, else this process."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from dtoss.option import Option
from pipelines.command.terminal.output import Sessions, start_spark

if TYPE_CHECKING:
    from pipelines.rows.inputs import Inputs

IN_MEMORY = {"parquet": 4.0, "csv": 1.5, "tsv": 1.5, "json": 3.0}
"""Bytes of rows in memory for each byte of their files, about; 1 of other formats."""
PACKED_MORE = 6.0


@dataclass(frozen=True)
class Engine:
    """What does the work of a command."""

    title: ClassVar[str] = "Where the work is done"
    engine: Annotated[
        str,
        Option(
            "What does the work: this process, or Spark; auto takes it for --master or large files.",
            written=Literal["auto", "local", "spark"],
        ),
    ] = "auto"
    master: Annotated[str | None, Option("Spark master; local[*] if not given.")] = None
    driver_memory: Annotated[
        str | None, Option("Heap of a local Spark, such as 4g; a sixth of the machine's if not given.")
    ] = None

    @property
    def has_master(self) -> bool:
        """Whether a master of Spark's is named here, or by spark-submit."""
        return self.master is not None or "PYSPARK_GATEWAY_PORT" in os.environ

    def session(self, inputs: Inputs | None = None, needs: str | None = None) -> Any:
        """Return the Spark that does the work, or None where this process does.

        ``inputs``: what is read, where it is known; ``needs``: what of the command only Spark does; None for nothing.
        """
        return start_spark(self.master, self.driver_memory) if self._is_spark(inputs, needs) else None

    def sessions(self, begun: Callable[[], None] = lambda: None) -> Sessions:
        """Return what starts the Spark of a command that goes on, once there are rows; or says that it is not needed.

        ``begun``: is called whenever one has started.
        """
        return Sessions(self.master, self.driver_memory, self._is_spark(None, None), begun)

    def _is_spark(self, inputs: Inputs | None, needs: str | None) -> bool:
        """Return whether Spark does the work, and say why where nobody has asked for it."""
        why = self.why_spark(inputs, needs)
        if why:
            print(f"Spark does this: {why}", file=sys.stderr)
        return why is not None

    def why_spark(self, inputs: Inputs | None, needs: str | None) -> str | None:
        """Return why Spark is taken, empty where the user has said so; None where this process does the work."""
        said = self.has_master or self.driver_memory
        if self.engine == "spark" or (self.engine == "auto" and said):
            return ""
        if self.engine == "local":
            return None
        if needs is not None:
            return needs
        if inputs is None:
            return None
        if not inputs.places:
            return f"{', '.join(inputs.paths)} is reached by it alone"
        return too_large(expected_bytes(inputs))


def too_large(expected: float) -> str | None:
    """Return why Spark is taken for rows of so many bytes; None where this process has room for them."""
    from pipelines.engines.spool import MEMORY, bytes_for_rows

    room = bytes_for_rows()
    if expected > room:
        return (
            f"the rows take some {expected / 2**30:.1f} GiB, and {room / 2**30:.1f} are for them here (--engine local "
            f"writes to disk what does not fit, {MEMORY} allows more)"
        )
    return None


def expected_bytes(inputs: Inputs) -> float:
    """Return about how much memory the rows of files take."""
    from pipelines.rows.table_formats import PACKED

    each = IN_MEMORY.get(inputs.kind, 1.0)
    files = zip(inputs.sizes, inputs.files, strict=True)
    return sum(each * size * (PACKED_MORE if file.endswith(PACKED) else 1.0) for size, file in files)
