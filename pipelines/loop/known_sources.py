"""What a store knows of its sources: what was read of them, and which of their columns mean what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dtoss.commits.offsets import Ledger
from dtoss.geometry.space import NO_CRS
from dtoss.snapshots.store import Store
from pipelines.rows.input_columns import Columns


def current_manifest(home: Store) -> dict[str, Any] | None:
    """Return the manifest of a store's current snapshot; None where there is no snapshot yet."""
    # one of an earlier version has no commit
    there = home.head() is not None or home.folder.is_file("CURRENT") or home.snapshots()
    return home.manifest() if there else None


def ledger_of(manifest: Mapping[str, Any] | None) -> Ledger:
    """Return what was read of the sources of a snapshot; nothing where there is none."""
    return Ledger.of((manifest or {}).get("ledger"))


def columns_of(manifest: Mapping[str, Any] | None, asked: Mapping[str, Any]) -> Columns:
    """Return which columns of updates mean what, and how text is written.

    ``manifest``: of a snapshot, which says how the rows were that it was made of; None where there is none; ``asked``:
    fields of :class:`pipelines.rows.input_columns.Columns` that are otherwise; None stands for what is not.
    """
    stored = dict((manifest or {}).get("source") or {})
    if manifest is not None and manifest.get("crs") == NO_CRS:
        stored["crs"] = NO_CRS  # numbers on a plane are taken as they are
    said = {name: value for name, value in asked.items() if value is not None}
    if "geometry" in said or {"x", "y"} & set(said):
        # the other way to say where positions are holds no more
        stored |= dict.fromkeys(("x", "y") if "geometry" in said else ("geometry",))
    return Columns.of(stored | said)
