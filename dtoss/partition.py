"""One partition: its objects, sites, graph and hierarchy as flat arrays.

Owned sites come first, in curve order, then replicas, in
curve order; objects follow their sites, in id order on each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

BLOCK = 16
"""Sites in a block; the last one may hold fewer."""
BALL, RADIUS = 4, 3
"""Numbers of the ball of a block: the radius stands behind the three of its centre."""


def numbers(values: NDArray[Any], valid: NDArray[np.bool_] | None = None) -> pa.Array:
    """Return numbers as an Arrow array on the same memory, where they stand in one piece; null where not valid.

    ``pa.array`` says the same, and loads pandas first, which takes half a second.

    Examples
    --------
    >>> numbers(np.array([1.5, np.nan])).to_pylist(), numbers(np.array([1, 2]), np.array([True, False])).to_pylist()
    ([1.5, nan], [1, None])
    """
    if values.dtype.kind not in "biuf" or not values.dtype.isnative:
        return pa.array(values, mask=None if valid is None else ~valid)
    mask = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    plain = np.packbits(values, bitorder="little") if values.dtype == np.bool_ else np.ascontiguousarray(values)
    held = pa.py_buffer(plain)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [mask, held])


def values_of(column: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    """Return the numbers, or the truths, of a column without nulls; ``to_numpy`` says the same, and loads pandas first.

    Examples
    --------
    >>> values_of(pa.array([1, 2, 3]).slice(1)), values_of(pa.array([True, False]))
    (array([2, 3]), array([ True, False]))
    """
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if array.null_count:
        raise ValueError(f"{array.null_count:,} of {len(array):,} values are null, where none may be")
    held = array.buffers()[1] or b""
    if pa.types.is_boolean(array.type):
        return np.unpackbits(np.frombuffer(held, np.uint8), bitorder="little")[array.offset :][: len(array)].view(
            np.bool_
        )
    kind = np.dtype(array.type.to_pandas_dtype())
    return np.frombuffer(held, kind, len(array), array.offset * kind.itemsize)


def texts(values: Sequence[str]) -> pa.Array:
    """Return texts as an Arrow array, without pandas, as :func:`numbers`."""
    data = [value.encode() for value in values]
    ends = np.cumsum([0, *map(len, data)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(data), pa.py_buffer(ends), pa.py_buffer(b"".join(data)))


@dataclass(frozen=True)
class Blocks:
    """The blocks of m sites, b = m / 16 of them, rounded up."""

    # float64 (b, 4). Centre, z = 0 in the plane, and a radius within which all sites of the block lie
    balls: NDArray[np.float64]
    # first, neighbours: int32. The neighbours of block i are ``neighbours[first[i]:first[i + 1]]``
    first: NDArray[np.int32]
    neighbours: NDArray[np.int32]
    # Balls of runs of blocks, made when large discs are first searched: :mod:`dtoss.queries.open_snapshot`
    runs: list[NDArray[np.float64]] = field(default_factory=list, repr=False, compare=False)


FAN = BLOCK
"""Each level of the hierarchy keeps every 16th site of the level below, the first of each block."""

Ids: TypeAlias = NDArray[np.int64] | Any
"""int64 (n,), or an Arrow array of large strings."""


@dataclass(frozen=True)
class Graph:
    """Neighbours of sites: those of site i are ``neighbours[first[i]:first[i + 1]]``, both int32."""

    first: NDArray[np.int32]
    neighbours: NDArray[np.int32]


@dataclass(frozen=True)
class Partition:
    """A partition with m sites and n objects, owned ones first."""

    number: int  # Which partition this is
    ids: Ids  # int64 (n,) or strings
    positions: NDArray[np.float64]  # float64 (n, 2): lon, lat or x, y as they were read
    sites: NDArray[np.float64]  # float64 (m, dimension). Distinct vectors
    first_object: NDArray[np.int32]  # int32 (m + 1,). The objects on site i are ``first_object[i]:first_object[i + 1]``
    owned_sites: int  # Sites ``0:owned_sites`` are owned, the others replicas
    replica_home: NDArray[np.int32]  # int32 (m - owned_sites,). The partitions that own the replicas
    graph: Graph  # The diagram of all sites, clipped to the bounds in the plane
    rim: NDArray[np.int32]  # int32. Sites whose cells reach the bounds; empty on the sphere
    # Graphs over the owned sites 0, F, 2F, ...; 0, F^2, ...; and so on, F = 16: to find where a query starts
    levels: tuple[Graph, ...]
    # int64. Places on the curve of the owned sites 0, F, 2F, ...: where a batch in curve order starts
    keys: NDArray[np.int64]
    blocks: Blocks  # Runs of F sites, owned or not, and their graph: how a search spreads
    uncertified: NDArray[np.int32]  # int32, ascending. Owned sites whose cells the border table holds
    furthest: float  # Distance or chord from the pivot to the furthest owned site; -1 where there is none
    # int32 (owned objects,). The numbers of the owned objects in the order of their ids, strings by UTF-8 bytes
    id_order: NDArray[np.int32]
    # uint64 (owned objects / 4 rounded up,). Which ids are not among them: :func:`dtoss.id_filter.filter_of_ids`
    id_filter: NDArray[np.uint64]
    times: pa.Array | None = None  # Of all n objects, an Arrow array without nulls; None where objects have no time
    # Further columns, Arrow arrays of length n; none has a reserved name (:mod:`dtoss.names`)
    attributes: dict[str, pa.Array] = field(default_factory=dict)

    @property
    def owned_objects(self) -> int:
        """Objects that belong to this partition."""
        return int(self.first_object[self.owned_sites])


MOST_LEVELS = 7
"""Levels of a hierarchy: 16 to this power is more sites than there can be."""
