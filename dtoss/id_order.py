"""The objects of a partition in the order of their ids, by which one of them is found."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.geometry.curve import radix_order
from dtoss.partition import Ids

_WIDEST = 2**63 - 1


def order_of_ids(ids: Ids) -> NDArray[np.int32]:
    """Return the order, int32 (n,), in which ids ascend; strings by their UTF-8 bytes, which is code point order.

    Parameters
    ----------
    ids
        int64 (n,) or an Arrow array of large strings, less than 2^31 of them.

    Notes
    -----
    Equal ids stay in the order in which they stand. Cost O(n) for numbers, O(n log n) for strings.

    Examples
    --------
    >>> order_of_ids(np.array([7, -3, 40])).tolist()
    [1, 0, 2]
    >>> order_of_ids(pa.array(["b", "", "é", "a"], pa.large_string())).tolist()
    [1, 3, 0, 2]
    """
    if isinstance(ids, pa.Array):
        # Arrow compares UTF-8 bytes
        order: NDArray[np.int32] = pc.array_sort_indices(ids).to_numpy().astype(np.int32)
        return order
    if len(ids) == 0:
        return np.empty(0, np.int32)
    low = int(ids.min())
    if int(ids.max()) - low > _WIDEST:
        return np.argsort(ids, kind="stable").astype(np.int32)
    return radix_order(ids - low)
