"""What a manifest says of the rows that it was made of: what their times are, and where they stood in the input."""

from __future__ import annotations

from typing import Any

from dtoss.text.time_columns import is_numeric
from pipelines.rows.position_frame import Positions


def time_of(positions: Positions) -> dict[str, Any] | None:
    """Return the manifest's ``time``: the column, Spark's type, and the unit where times are numbers; None without.

    Numbers are seconds unless the time format says milliseconds.
    """
    if not positions.timed:
        return None
    kind, source = positions.types["t"], positions.source
    unit = None
    if is_numeric(kind):
        unit = "ms" if source is not None and source.time_format == "epoch_ms" else "s"
    column = "t" if source is None or source.time is None else source.time
    return {"column": column, "type": kind, "unit": unit}


def source_of(positions: Positions) -> dict[str, Any] | None:
    """Return the manifest's ``source``: which columns meant what and how text was read; a cycle takes them again."""
    return None if positions.source is None else positions.source.facts()
