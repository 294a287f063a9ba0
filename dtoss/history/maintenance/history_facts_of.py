"""What there is to know of a history, and what was done to it, for people and programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dtoss.errors import StoreError
from dtoss.history.query.block_queries import time_text
from dtoss.history.row_blocks import BY_TIME, ORDER_NAMES
from dtoss.history.versions import Version


def orders_of(version: Version) -> dict[str, dict[str, int]]:
    """Return what a version has of each order, by its name. Cost O(leaves)."""
    leaves, files, orders = version.leaves, version.files, {}
    for code, name in enumerate(ORDER_NAMES):
        mine = leaves.order == code
        if mine.any():
            held = np.unique(leaves.file[mine])
            orders[name] = {
                "periods": len(np.unique(leaves.period[mine])),
                "files": len(held),
                "leaves": int(mine.sum()),
                "blocks": int(leaves.count[mine].sum()),
                "rows": int(leaves.rows[mine].sum()),
                "bytes": int(leaves.bytes[mine].sum()),
                "dead_bytes": int(files.bytes[held].sum()) - int(leaves.bytes[mine].sum()),
            }
    return orders


def facts_of(version: Version) -> dict[str, Any]:
    """Return rows, bytes by order, times, periods, leaves and batches of a version. Cost O(leaves)."""
    leaves, files, periods = version.leaves, version.files, version.periods
    truth = leaves.order == BY_TIME
    schema = version.schema
    return {
        "version": version.number,
        "time": version.time,
        "what": version.what,
        "oldest": int(version.document.get("oldest", 1)),
        "rows": version.rows,
        "sum": f"{version.sum:016x}",
        "deletions": int(leaves.marks[truth].sum()),
        "batches": sum(int(part["rows"]) for part in version.document["ledger"]),
        "crs": schema.space.crs,
        "metric": schema.space.metric,
        "id_type": schema.id_type,
        "t_type": schema.t_type,
        "columns": {name: str(kind) for name, kind in schema.attributes.items()},
        "first": time_text(leaves.t_from[truth].min(), schema) if truth.any() else None,
        "last": time_text(leaves.t_to[truth].max(), schema) if truth.any() else None,
        "bytes": int(files.bytes.sum()),
        "orders": orders_of(version),
        "periods": [
            {"period": int(number), "tier": int(tier), "rows": int(rows), "bytes": int(size),
             "orders": [name for code, name in enumerate(ORDER_NAMES) if has >> code & 1]}
            for number, tier, rows, size, has in zip(
                periods.number, periods.tier, periods.rows, periods.bytes, periods.orders.tolist(), strict=True
            )
        ],
        "options": dict(version.options),
    }  # fmt: skip


@dataclass(frozen=True)
class CountingFile:
    """A file of a history all of whose rows count."""

    number: int  # Among the files of the version
    name: str  # Below the history's folder
    rows: int
    bytes: int


def counting_files(version: Version) -> list[CountingFile]:
    """Return the files that have each row of a version once: those by time that it names. Cost O(leaves).

    In the folder there may be others, of which gc removes those that no version has.
    """
    leaves, files = version.leaves, version.files
    live = np.bincount(leaves.file, weights=leaves.rows, minlength=len(files.name))
    found = []
    for number in np.unique(leaves.file[leaves.order == BY_TIME]).tolist():
        if live[number] != files.rows[number]:
            raise StoreError(f"{files.name[number]} has rows that stand no more: settle the history first")
        found.append(CountingFile(number, files.name[number], int(files.rows[number]), int(files.bytes[number])))
    return found
