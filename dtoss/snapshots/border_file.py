"""The file of the border table, and of a partition's share of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from dtoss.building.border import Border, BorderTable
from dtoss.errors import StoreError
from dtoss.partition import values_of
from dtoss.snapshots.partition_file import UNREADABLE, pack, read_packed, to_bytes, whole


def encode_border(border: Border | BorderTable) -> pa.Buffer:
    """Return a share of the border set, or the border table, as an Arrow IPC file."""
    arrays: dict[str, Any] = {
        "sites": border.sites.ravel(),
        "home": border.home,
        "ids": border.ids,
        "open": border.open.view(np.uint8),
    }
    if isinstance(border, BorderTable):
        arrays |= {"first": border.first, "neighbours": border.neighbours, "area": border.area}
    else:
        arrays["edges"] = border.edges.ravel()
    return to_bytes(pack(arrays, {"dimension": border.sites.shape[1]}))


_TYPES = {"sites": pa.float64(), "home": pa.int32(), "open": pa.uint8()}


_TABLE = {"first": pa.int32(), "neighbours": pa.int32(), "area": pa.float64()}


def decode_border(source: pa.Buffer, name: str) -> Border | BorderTable:
    """Return the share or table in a file.

    What its arrays hold is not looked at: :func:`dtoss.snapshots.structure.check_border` does that.
    """
    try:
        arrays, facts = read_packed(source, _TYPES)
        ids = arrays["ids"] if pa.types.is_large_string(arrays["ids"].type) else values_of(arrays["ids"])
        sites = values_of(arrays["sites"]).reshape(-1, whole(facts, "dimension", 3))
        home, is_open = values_of(arrays["home"]), values_of(arrays["open"]).view(np.bool_)
        if "edges" in arrays:
            return Border(sites, home, ids, is_open, values_of(arrays["edges"]).reshape(-1, 2))
        if wrong := [key for key, kind in _TABLE.items() if arrays[key].type != kind or arrays[key].null_count]:
            raise ValueError(f"{wrong[0]} is {arrays[wrong[0]].type}, not {_TABLE[wrong[0]]} without nulls")
        first, neighbours, area = (values_of(arrays[key]) for key in _TABLE)
    except UNREADABLE as error:
        reason = " ".join(str(error).split())
        raise StoreError(f"{name} is not a border file or is damaged ({reason}); roll back or rebuild") from None
    return BorderTable(sites, home, ids, is_open, first, neighbours, area)
