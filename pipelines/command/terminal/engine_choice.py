"""Which engine carries out a command: Spark where it is asked for or needed, else this process."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pipelines.command.terminal.output import Sessions, start_spark

if TYPE_CHECKING:
    from pipelines.rows.input_columns import Columns
    from pipelines.rows.inputs import Inputs

Engine = Annotated[
    Literal["auto", "local", "spark"],
    typer.Option(help="What does the work: this process, or Spark; auto takes it for --master or large files."),
]
IN_MEMORY = {"parquet": 4.0, "csv": 1.5, "tsv": 1.5, "json": 3.0, "arrow": 1.0, "geojson": 1.0, "gpx": 1.0}
"""Bytes of rows in memory for each byte of their files, about."""
PACKED_MORE = 6.0


def session_for(
    engine: str,
    master: str | None,
    driver_memory: str | None,
    inputs: Inputs | None = None,
    columns: Columns | None = None,
    needs: str | None = None,
) -> Any:
    """Return the Spark that does the work, or None where this process does.

    ``inputs``: what is read, where it is known; ``needs``: what of the command only Spark does; None for nothing.
    """
    why = why_spark(engine, master, driver_memory, inputs, columns, needs)
    if why is None:
        return None
    if why:
        print(f"Spark does this: {why}", file=sys.stderr)
    return start_spark(master, driver_memory)


def sessions_for(engine: str, master: str | None, driver_memory: str | None, columns: Columns | None) -> Sessions:
    """Return what starts the Spark of a command that goes on, once there are rows; or says that this process works."""
    why = why_spark(engine, master, driver_memory, None, columns, None)
    if why:
        print(f"Spark does this: {why}", file=sys.stderr)
    return Sessions(master, driver_memory, why is not None)


def why_spark(
    engine: str,
    master: str | None,
    driver_memory: str | None,
    inputs: Inputs | None,
    columns: Columns | None,
    needs: str | None,
) -> str | None:
    """Return why Spark is taken, empty where the user has said so; None where this process does the work."""
    if engine == "spark" or (engine == "auto" and (master or driver_memory or "PYSPARK_GATEWAY_PORT" in os.environ)):
        return ""
    if engine == "local":
        return None
    if needs is not None:
        return needs
    written = None if columns is None else columns.time_format
    if written is not None:
        from pipelines.text.text_times import reads

        if not reads(written):
            return f"times written as {written} are read by it alone"
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
    from pipelines.rows.file_splits import size_of
    from pipelines.rows.table_formats import PACKED

    each = IN_MEMORY[inputs.kind]
    return sum(each * size_of(place) * (PACKED_MORE if place[1].endswith(PACKED) else 1.0) for place in inputs.places)
