"""What a manifest says of the rows that it was made of: what their times are, and where they stood in the input."""

from __future__ import annotations

from typing import Any

from dtoss.names import renamed_of_manifest
from pipelines.rows.input_columns import Columns
from pipelines.rows.position_frame import Positions
from pipelines.text.time_columns import is_numeric


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


def types_of(manifest: dict[str, Any] | None, columns: Columns) -> dict[str, str]:
    """Return the Spark types that a snapshot has of the columns of an input, by their names there.

    Text and JSON say them only by their values, and those of a few rows may look like others.

    ``manifest``: of the snapshot; None where there is none.
    """
    if manifest is None:
        return {}
    called = {stored: name for name, stored in renamed_of_manifest(manifest).items()}
    types = {called.get(name, name): kind for name, kind in manifest["columns"].items()}
    time = manifest.get("time")
    if time is not None:
        types[columns.time or time["column"]] = time["type"]
    if columns.id is not None:
        types[columns.id] = "string" if manifest["id_type"] == "string" else "bigint"
    return types
