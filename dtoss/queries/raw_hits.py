"""Raw hits of a batch: joined from pieces, and put back in the order of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class RawHits:
    """Raw hits of a batch, query by query: which partition, which object in it, how far."""

    count: NDArray[np.int64]
    part: NDArray[np.int32]
    item: NDArray[np.int32]
    distance: NDArray[np.float64]
    ids: NDArray[np.int64] | None
    reads: NDArray[np.int32]


def joined(pieces: list[RawHits]) -> RawHits:
    """Return consecutive pieces of a batch as one."""
    if len(pieces) == 1:
        return pieces[0]
    ids = None if pieces[0].ids is None else np.concatenate([p.ids for p in pieces if p.ids is not None])
    return RawHits(
        count=np.concatenate([p.count for p in pieces]),
        part=np.concatenate([p.part for p in pieces]),
        item=np.concatenate([p.item for p in pieces]),
        distance=np.concatenate([p.distance for p in pieces]),
        ids=ids,
        reads=np.concatenate([p.reads for p in pieces]),
    )


def unsorted(found: RawHits, order: NDArray[np.int32]) -> RawHits:
    """Put a batch that was answered in curve order back into the order of its rows."""
    count = np.empty_like(found.count)
    count[order] = found.count
    reads = np.empty_like(found.reads)
    reads[order] = found.reads
    if len(found.part) == 0:
        return RawHits(count, found.part, found.item, found.distance, found.ids, reads)
    begin = np.cumsum(count) - count
    size = found.count
    if (size == size[0]).all():
        shape = (len(size), int(size[0]))

        def back(a: NDArray[Any]) -> NDArray[Any]:
            out = np.empty(shape, a.dtype)
            out[order] = a.reshape(shape)
            return out.reshape(-1)
    else:
        target = np.repeat(begin[order] - (np.cumsum(size) - size), size) + np.arange(len(found.part))

        def back(a: NDArray[Any]) -> NDArray[Any]:
            out = np.empty_like(a)
            out[target] = a
            return out

    return RawHits(
        count,
        back(found.part),
        back(found.item),
        back(found.distance),
        None if found.ids is None else back(found.ids),
        reads,
    )
