"""What a manifest says of the rows that it was made of: what their times are, and where they stood in the input."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pipelines.rows.positions import Positions


def time_of(positions: Positions) -> dict[str, Any] | None:
    """Return the manifest's ``time``: the column, Spark's type, and the unit where times are numbers; None without.

    Numbers are seconds unless the time format says milliseconds.
    """
    from pyspark.sql import types as T

    if not positions.timed:
        return None
    kind, source = positions.frame.schema["t"].dataType, positions.source
    unit = None
    if isinstance(kind, T.NumericType):
        unit = "ms" if source is not None and source.time_format == "epoch_ms" else "s"
    column = "t" if source is None or source.time is None else source.time
    return {"column": column, "type": kind.simpleString(), "unit": unit}


def source_of(positions: Positions) -> dict[str, Any] | None:
    """Return the manifest's ``source``: which columns meant what and how text was read; a cycle takes them again."""
    if positions.source is None:
        return None
    asked = asdict(positions.source)
    wanted = asked.pop("attributes")
    return asked | {"columns": wanted if isinstance(wanted, str) else list(wanted)}
