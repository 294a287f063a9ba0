"""One key over all ends of a time, also those at which nothing was told of it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.windows.aggregation.columns import Columns


def dense(rows: pa.Table, ends: NDArray[np.int64], key: int) -> pa.Table:
    """Return a row for each end; what has none is 0, and a speed null.

    ``rows``: results of the key, one an end at the most; ``ends``: int64 (n,). Rising.
    """
    at = pc.index_in(pa.array(ends), value_set=rows["end"].combine_chunks())
    taken = rows.take(at)
    made = {}
    for one in taken.schema:
        column = taken[one.name]
        if one.name not in ("end", "key") and not Columns.is_speed(one.name):
            column = pc.fill_null(column, False if pa.types.is_boolean(one.type) else 0)
        made[one.name] = column
    made["end"], made["key"] = pa.array(ends), pa.array(np.full(len(ends), key))
    return pa.table(made)
