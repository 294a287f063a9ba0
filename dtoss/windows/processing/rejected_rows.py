"""Rows that are set aside, as texts for the quarantine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dtoss.windows.trajectories.sorted_rows import WindowRows

REJECTED_ROWS = pa.schema([("reason", pa.large_string()), ("row", pa.large_string())])


def set_aside(reason: str, rows: WindowRows, raw: pa.Array | None) -> pa.Table:
    """Return rows that are set aside, of :data:`REJECTED_ROWS`.

    ``raw``: (n,). Each as it was read, null where that is not known: it is written as JSON then. None where it is of no
    row.
    """
    texts = pa.nulls(len(rows), pa.large_string()) if raw is None else raw.cast(pa.large_string())
    if texts.null_count:
        texts = pc.coalesce(texts, _as_json(rows))
    return pa.table([pa.repeat(pa.scalar(reason, pa.large_string()), len(rows)), texts], schema=REJECTED_ROWS)


def _as_json(rows: WindowRows) -> pa.Array:
    if pa.types.is_integer(rows.ids.type):
        ids = rows.ids.cast(pa.large_string())
    else:
        coded = rows.ids.dictionary_encode()
        ids = _values(coded.dictionary.to_pylist()).take(coded.indices)
    t = pa.array(rows.t).cast(pa.large_string())
    x, y = (_values(np.ascontiguousarray(column).tolist()) for column in rows.positions.T)
    parts: list[Any] = ['{"id": ', ids, ', "t_us": ', t, ', "x": ', x, ', "y": ', y, "}", ""]
    made = [pa.scalar(part, pa.large_string()) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*made)


def _values(values: Sequence[Any]) -> pa.Array:
    """Return each value as JSON; a line end is in none of them."""
    whole = json.dumps(list(values), separators=("\n", ":"))[1:-1]
    return pa.array(whole.split("\n") if values else [], pa.large_string())
