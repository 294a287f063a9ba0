"""What a store says of the columns of rows that come to it: which of them mean what, and their types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dtoss.geometry.space import NO_CRS
from dtoss.names import types_in_input
from dtoss.snapshots.source_columns import Columns


def columns_of(manifest: Mapping[str, Any] | None, asked: Mapping[str, Any]) -> Columns:
    """Return which columns of updates mean what, and how text is written.

    ``manifest``: of a snapshot, which says how the rows were that it was made of; None where there is none; ``asked``:
    fields of :class:`dtoss.snapshots.source_columns.Columns` that are otherwise; None stands for what is not.
    """
    stored = dict((manifest or {}).get("source") or {})
    if manifest is not None and manifest.get("crs") == NO_CRS:
        stored["crs"] = NO_CRS  # numbers on a plane are taken as they are
    said = {name: value for name, value in asked.items() if value is not None}
    if "geometry" in said or {"x", "y"} & set(said):
        # the other way to say where positions are holds no more
        stored |= dict.fromkeys(("x", "y") if "geometry" in said else ("geometry",))
    return Columns.of(stored | said)


def types_of(manifest: dict[str, Any] | None, columns: Columns) -> dict[str, str]:
    """Return the Spark types that a snapshot has of the columns of an input, by their names there.

    Text and JSON say them only by their values, and those of a few rows may look like others.

    ``manifest``: of the snapshot; None where there is none.
    """
    if manifest is None:
        return {}
    types = types_in_input(manifest)
    time = manifest.get("time")
    if time is not None:
        types[columns.time or time["column"]] = time["type"]
    if columns.id is not None:
        types[columns.id] = "string" if manifest["id_type"] == "string" else "bigint"
    return types
