"""Raw hits of a batch: what kernels wrote, put together in the order of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.compiled.kernel import kernel
from dtoss.compiled.pointers import pointer


@dataclass(frozen=True)
class RawHits:
    """Raw hits of a batch, query by query: which partition, which object in it, how far."""

    count: NDArray[np.int64]  # int64 (m,). Hits of each query
    # part, item: int32 (n,). Empty where nobody asked for more than ids that are numbers, and distances
    part: NDArray[np.int32]
    item: NDArray[np.int32]
    distance: NDArray[np.float64]  # float64 (n,)
    ids: NDArray[np.int64] | None  # int64 (n,), or None where they are strings: found by part and item
    reads: NDArray[np.int32]  # int32 (m,). Partitions that each query read


@dataclass(frozen=True)
class Written:
    """What a kernel wrote of consecutive queries, the hits of one after those of another."""

    count: NDArray[np.int64]  # int64. Hits of each query
    # Part, item, distance and id of each hit, of any length from there on; those that nobody asked for are empty
    columns: tuple[NDArray[Any], ...]


def put_together(
    written: list[Written], reads: NDArray[np.int32], order: NDArray[np.int32] | None, string_ids: bool
) -> RawHits:
    """Return the hits of a batch in the order of its rows, in memory of their own.

    ``reads``: int32 (m,). Partitions that each query read; ``order``: int32 (m,). The row of each query that was
    answered; None where they are in order.
    """
    sizes = [some.count for some in written]
    size = sizes[0] if len(sizes) == 1 else np.concatenate([np.zeros(0, np.int64), *sizes])
    total = int(size.sum())
    columns = []
    if order is None:
        hits = [int(count.sum()) for count in sizes]
        for c, kind in enumerate(KINDS):
            parts = [some.columns[c][:n] for some, n in zip(written, hits, strict=True) if len(some.columns[c])]
            columns.append(np.concatenate(parts) if parts else np.zeros(0, kind))
        return RawHits(size, columns[0], columns[1], columns[2], None if string_ids else columns[3], reads)
    count, read = np.empty_like(size), np.empty_like(reads)
    count[order], read[order] = size, reads
    begin = (np.cumsum(count) - count)[order]
    for c, kind in enumerate(KINDS):
        parts = [some.columns[c] for some in written]
        out = np.empty(total if any(len(part) for part in parts) else 0, kind)
        columns.append(out)
        at = 0
        for part, own in zip(parts, sizes, strict=True):
            if len(part):
                _scatter(_bits(part), own, begin[at : at + len(own)], _bits(out))
            at += len(own)
    return RawHits(count, columns[0], columns[1], columns[2], None if string_ids else columns[3], read)


KINDS = (np.int32, np.int32, np.float64, np.int64)
"""Of the columns part, item, distance and id."""


def _bits(column: NDArray[Any]) -> NDArray[Any]:
    return column.view(np.int64) if column.dtype == np.float64 else column


@kernel("void(int64[::1], int64[::1], int64[::1], int64[::1])", "void(int32[::1], int64[::1], int64[::1], int32[::1])")
def _scatter(values: Any, size: Any, begin: Any, out: Any) -> None:
    """Put the values of queries, so many of each one after another, where the hits of each begin."""
    source, target = pointer(values), pointer(out)
    at = 0
    for r in range(size.size):
        to = begin[r]
        for t in range(size[r]):
            target[to + t] = source[at + t]
        at += size[r]
