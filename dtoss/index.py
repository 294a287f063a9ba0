"""The index: an immutable snapshot, open for questions."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from dtoss.border import BorderTable
from dtoss.curve import curve_keys, radix_order
from dtoss.distance import chord_of
from dtoss.hits import Hits
from dtoss.knn_kernel import NEIGHBOURHOOD, knn_kernel
from dtoss.partition import Partition
from dtoss.range_kernel import range_kernel
from dtoss.regions import Regions
from dtoss.space import Space, as_positions, same_crs
from dtoss.table import Table, make_table
from dtoss.walk import plan_starts

SORTED_FROM = 16
"""Queries from which on a batch is put in curve order first."""
BATCH = 4_000_000
"""Hits that one kernel call makes room for at the most, unless one query has more."""


@dataclass(frozen=True)
class Found:
    """Raw hits of a batch, query by query: which partition, which object in it, how far."""

    count: NDArray[np.int64]
    part: NDArray[np.int32]
    item: NDArray[np.int32]
    distance: NDArray[np.float64]
    ids: NDArray[np.int64] | None
    reads: NDArray[np.int32]


class Scratch(threading.local):
    """Workspaces of the kernels, one for each thread, that grow to what its queries need."""

    def __init__(self) -> None:
        self.sites = 0
        self.seen = np.zeros(0, np.uint8)
        self.found = np.empty(256, np.int64)
        self.hits = 1024
        self.hit_distance = np.empty(self.hits + NEIGHBOURHOOD)
        self.hit_place = np.empty(2 * self.hits, np.int64)
        self.counters = np.empty(4097, np.int64)

    def fit(self, sites: int) -> None:
        """Make room for a bit a site."""
        if sites > self.sites:
            self.sites = sites
            self.seen = np.zeros(sites // 8 + 1, np.uint8)

    def grow(self) -> None:
        """Double what a query may list and hit."""
        self.found = np.empty(2 * len(self.found), np.int64)
        self.hits = max(2 * self.hits, len(self.found))
        self.hit_distance = np.empty(self.hits + NEIGHBOURHOOD)
        self.hit_place = np.empty(2 * self.hits, np.int64)


_scratch = Scratch()


class Index:
    """An immutable index of objects; thread-safe, and read by any number of processes at once.

    Made by :func:`dtoss.open` from a store or by :func:`dtoss.build` in process.
    """

    def __init__(
        self,
        space: Space,
        regions: Regions,
        reach: NDArray[np.float64],
        partitions: Sequence[Partition | None],
        *,
        bounds: NDArray[np.float64] | None = None,
        snapshot: str | None = None,
        string_ids: bool = False,
        border: BorderTable | None = None,
    ) -> None:
        self.space = space
        self.regions = regions
        self.reach = np.ascontiguousarray(reach, dtype=np.float64)
        self.partitions = tuple(partitions)
        self._bounds = bounds
        self.snapshot = snapshot
        self.string_ids = string_ids
        self._border = border
        self._table: Table = make_table(self.partitions)
        self._box = np.ascontiguousarray(bounds if bounds is not None else np.zeros(4), dtype=np.float64)

    def __len__(self) -> int:
        return sum(p.owned_objects for p in self.partitions if p is not None)

    def __repr__(self) -> str:
        name = f", snapshot {self.snapshot}" if self.snapshot else ""
        return (
            f"<dtoss.Index of {len(self):,} objects in {len(self.partitions)} partitions, {self.crs}{name}>"
        )

    @property
    def crs(self) -> str:
        """The CRS of positions, as it was named when the snapshot was made."""
        return self.space.crs

    @property
    def bounds(self) -> tuple[float, float, float, float] | None:
        """The rectangle that planar cells are clipped to: xmin, ymin, xmax, ymax; None on the sphere."""
        return None if self._bounds is None else tuple(self._bounds.tolist())

    @property
    def sites(self) -> int:
        """Distinct places of the objects."""
        return sum(p.owned_sites for p in self.partitions if p is not None)

    @property
    def column_names(self) -> list[str]:
        """Names of the attributes that the objects carry."""
        for partition in self.partitions:
            if partition is not None:
                return sorted(partition.attributes)
        return []

    # -- questions ------------------------------------------------------------------------------------------------

    def knn(
        self,
        positions: ArrayLike,
        k: int = 1,
        *,
        max_distance: float | None = None,
        columns: Sequence[str] = (),
        crs: str | None = None,
        threads: int = 1,
    ) -> Hits:
        """Return the k nearest objects of each position, ordered by (query, distance, id).

        Parameters
        ----------
        positions : (2,) or (m, 2): lon, lat in degrees or x, y in CRS units.
        k : at least 1; where fewer objects are known (or within ``max_distance``), all of them.
        max_distance : metres on the sphere, CRS units in the plane; objects at exactly this distance belong to the answer.
        columns : attributes to return with the hits.
        crs : of the positions, to be sure that it is the index's own.
        threads : a batch is split among so many; the answer is the same.

        Raises
        ------
        ValueError
            If k is not a whole number of at least 1, a position is not legal, ``max_distance`` is negative or NaN, a column
            is unknown, or the CRS is another one.

        Notes
        -----
        Ties are resolved by id, strings by code point. Cost O(k) a query, once it is found where it starts.
        """
        k = _whole("k", k, 1)
        self._same_crs(crs)
        queries = self.space.vectors(as_positions(positions, self.space))
        radius = _radii("max_distance", np.inf if max_distance is None else max_distance, len(queries))
        return self._hits(self._run(queries, radius, k, threads), columns)

    def range(
        self,
        positions: ArrayLike,
        radius: ArrayLike,
        *,
        columns: Sequence[str] = (),
        crs: str | None = None,
        threads: int = 1,
    ) -> Hits:
        """Return all objects within a radius of each position, ordered by (query, distance, id).

        Parameters
        ----------
        positions : (2,) or (m, 2): lon, lat in degrees or x, y in CRS units.
        radius : one, or one a position: metres on the sphere, CRS units in the plane. The disc is closed: an object at
            exactly this distance belongs to the answer.
        columns, crs, threads : as in :meth:`knn`.

        Raises
        ------
        ValueError
            If a radius is negative or NaN, a position is not legal, a column is unknown, or the CRS is another one.

        Notes
        -----
        Cost O(hits) a query, once it is found where it starts.
        """
        self._same_crs(crs)
        queries = self.space.vectors(as_positions(positions, self.space))
        return self._hits(self._run(queries, _radii("radius", radius, len(queries)), 0, threads), columns)

    def count(
        self, positions: ArrayLike, radius: ArrayLike, *, crs: str | None = None, threads: int = 1
    ) -> NDArray[np.int64]:
        """Return how many objects lie within a radius of each position, int64 (m,); as :meth:`range`, without a list."""
        self._same_crs(crs)
        queries = self.space.vectors(as_positions(positions, self.space))
        return self._run(queries, _radii("radius", radius, len(queries)), -1, threads).count

    def locate(self, positions: ArrayLike, *, crs: str | None = None, threads: int = 1) -> NDArray[Any]:
        """Return the id of the object whose cell holds each position: the nearest one, ties to the lowest id.

        Raises
        ------
        ValueError
            If the index is empty, a position is not legal, or the CRS is another one.
        """
        if len(self) == 0:
            raise ValueError("the index is empty: no object owns a place")
        return self.knn(positions, 1, crs=crs, threads=threads).id

    # -- how ------------------------------------------------------------------------------------------------------

    def _same_crs(self, crs: str | None) -> None:
        if crs is not None and not same_crs(crs, self.crs):
            raise ValueError(
                f"crs {crs!r} of the query is not {self.crs!r} of the snapshot: transform the query first"
            )

    def _run(self, queries: NDArray[np.float64], radius: NDArray[np.float64], k: int, threads: int) -> Found:
        """Answer a batch: k nearest for k > 0, all within the radius for 0, their number for -1."""
        m = len(queries)
        order: NDArray[np.int32] | None = None
        homes, blocks = _NONE, _NONE
        if m >= SORTED_FROM:
            keys = curve_keys(queries, self._box if self.space.dimension == 2 else None)
            if (keys[1:] < keys[:-1]).any():
                order = radix_order(keys)
                queries, radius, keys = queries[order], radius[order], keys[order]
            homes, blocks = np.empty(m, np.int32), np.empty(m, np.int32)
            b = self.regions.borders
            plan_starts(
                self._table.rows,
                self.regions.pivots,
                self.regions.weights,
                b.order,
                b.distance,
                queries,
                keys,
                homes,
                blocks,
            )
        chord = (chord_of(radius) if self.space.dimension == 3 else radius) ** 2
        if self.space.dimension == 3:
            chord[radius >= np.pi * 6_371_008.8] = np.inf
        threads = min(_whole("threads", threads, 1), max(m // 256, 1))
        one = self._knn_piece if k > 0 else self._range_piece
        if threads == 1:
            found = one(queries, homes, blocks, radius, chord, k)
        else:
            cuts = np.linspace(0, m, 4 * threads + 1).astype(int)
            with ThreadPoolExecutor(threads) as pool:
                jobs = [
                    pool.submit(one, queries[a:b], homes[a:b], blocks[a:b], radius[a:b], chord[a:b], k)
                    for a, b in zip(cuts[:-1], cuts[1:], strict=True)
                ]
                found = _joined([job.result() for job in jobs])
        return found if order is None else _unsorted(found, order)

    def _arguments(self) -> tuple[Any, ...]:
        b = self.regions.borders
        return (
            self._table.rows,
            self._table.furthest,
            self.regions.pivots,
            self.regions.weights,
            b.order,
            b.distance,
            self.reach,
            self._box,
        )

    def _knn_piece(
        self,
        queries: NDArray[np.float64],
        homes: NDArray[np.int32],
        blocks: NDArray[np.int32],
        radius: NDArray[np.float64],
        chord: NDArray[np.float64],
        k: int,
    ) -> Found:
        m = len(queries)
        k = min(k, max(len(self), 1))
        step = max(BATCH // k, 1)
        if m > step:
            return _joined(
                [
                    self._knn_piece(
                        *(part[a : a + step] for part in (queries, homes, blocks, radius, chord)), k
                    )
                    for a in range(0, m, step)
                ]
            )
        scratch = _scratch
        scratch.fit(self._table.most_sites)
        ids = np.empty((0, 0) if self.string_ids else (m, k), np.int64)
        distance = np.empty((m, k))
        part, item = np.empty((m, k), np.int32), np.empty((m, k), np.int32)
        count, reads = np.empty(m, np.int64), np.empty(m, np.int32)
        at = 0
        while True:
            at = knn_kernel(
                *self._arguments(),
                queries,
                homes,
                blocks,
                at,
                k,
                self.string_ids,
                radius,
                chord,
                scratch.found,
                scratch.seen,
                scratch.hit_distance,
                scratch.hit_place,
                ids,
                distance,
                part,
                item,
                count,
                reads,
            )
            if at == m:
                break
            scratch.grow()
        if (count == k).all():
            flat: Any = slice(None)
            shaped = [a.reshape(-1) for a in (part, item, distance, ids)]
        else:
            flat = (np.arange(k) < count[:, None]).reshape(-1)
            shaped = [a.reshape(-1)[flat] if a.size else a.reshape(-1) for a in (part, item, distance, ids)]
        return Found(count, shaped[0], shaped[1], shaped[2], None if self.string_ids else shaped[3], reads)

    def _range_piece(
        self,
        queries: NDArray[np.float64],
        homes: NDArray[np.int32],
        blocks: NDArray[np.int32],
        radius: NDArray[np.float64],
        chord: NDArray[np.float64],
        k: int,
    ) -> Found:
        m = len(queries)
        counting = k < 0
        scratch = _scratch
        scratch.fit(self._table.most_sites)
        room = 0 if counting else max(64 * m, 4096) if m < BATCH // 64 else BATCH
        count, reads = np.zeros(m, np.int64), np.zeros(m, np.int32)
        parts: list[tuple[NDArray[Any], ...]] = []
        at = 0
        while True:
            out_distance, out_id = np.empty(room), np.empty(0 if self.string_ids else room, np.int64)
            out_part, out_item = np.empty(room, np.int32), np.empty(room, np.int32)
            came, total = range_kernel(
                *self._arguments(),
                queries,
                homes,
                blocks,
                at,
                self.string_ids,
                counting,
                radius,
                chord,
                scratch.found,
                scratch.seen,
                scratch.hit_distance,
                scratch.hit_place,
                scratch.counters,
                out_distance,
                out_part,
                out_item,
                out_id,
                count,
                reads,
            )
            if total < 0:
                total = -1 - total
                scratch.grow()
            elif came < m and total == 0:
                room *= 4
            if total > 0:
                keep = slice(0, total)
                parts.append((out_part[keep], out_item[keep], out_distance[keep], out_id[keep]))
            at = came
            if at == m:
                break
        part, item, distance, ids = (
            parts[0]
            if len(parts) == 1
            else tuple(np.concatenate([p[c] for p in parts]) if parts else _EMPTY[c] for c in range(4))
        )
        return Found(count, part, item, distance, None if self.string_ids else ids, reads)

    def _hits(self, found: Found, columns: Sequence[str]) -> Hits:
        if isinstance(columns, str):
            raise ValueError(f"columns is the string {columns!r}: give a list of names")
        for name in columns:
            if name not in self.column_names:
                raise ValueError(
                    f"column {name!r} is not carried by the objects; they carry {self.column_names or 'none'}"
                )
        query = np.repeat(np.arange(len(found.count)), found.count)
        ids: NDArray[Any]
        if found.ids is not None:
            ids = found.ids
        else:
            ids = self._take(found, lambda p: p.ids).to_numpy(zero_copy_only=False).astype(object)
        taken = {name: self._take(found, lambda p, name=name: p.attributes[name]) for name in columns}
        return Hits(query, ids, found.distance, taken)

    def _take(self, found: Found, column: Any) -> pa.Array:
        """Return a column's values for raw hits, in their order."""
        order = np.argsort(found.part, kind="stable")
        sorted_part = found.part[order]
        pieces = []
        for number in np.unique(sorted_part).tolist():
            low, high = np.searchsorted(sorted_part, [number, number + 1])
            pieces.append(column(self.partitions[number]).take(pa.array(found.item[order[low:high]])))
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        if not pieces:
            present = next((p for p in self.partitions if p is not None), None)
            return column(present).slice(0, 0) if present is not None else pa.array([], pa.large_string())
        return pa.concat_arrays(pieces).take(pa.array(back))


_NONE = np.zeros(0, np.int32)
_EMPTY = (np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0), np.zeros(0, np.int64))


def _joined(pieces: list[Found]) -> Found:
    if len(pieces) == 1:
        return pieces[0]
    ids = None if pieces[0].ids is None else np.concatenate([p.ids for p in pieces if p.ids is not None])
    return Found(
        count=np.concatenate([p.count for p in pieces]),
        part=np.concatenate([p.part for p in pieces]),
        item=np.concatenate([p.item for p in pieces]),
        distance=np.concatenate([p.distance for p in pieces]),
        ids=ids,
        reads=np.concatenate([p.reads for p in pieces]),
    )


def _unsorted(found: Found, order: NDArray[np.int32]) -> Found:
    """Put a batch that was answered in curve order back into the order of its rows."""
    count = np.empty_like(found.count)
    count[order] = found.count
    reads = np.empty_like(found.reads)
    reads[order] = found.reads
    if len(found.part) == 0:
        return Found(count, found.part, found.item, found.distance, found.ids, reads)
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

    return Found(
        count,
        back(found.part),
        back(found.item),
        back(found.distance),
        None if found.ids is None else back(found.ids),
        reads,
    )


def _whole(name: str, value: Any, least: int) -> int:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"{name} is {value!r}: a whole number of at least {least} is wanted")
    return int(value)


def _radii(name: str, value: ArrayLike, count: int) -> NDArray[np.float64]:
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} is {value!r}: a number that is not negative is wanted") from None
    if array.ndim > 1 or (array.ndim == 1 and array.shape[0] != count):
        raise ValueError(
            f"{name} has shape {array.shape}: one number, or one for each of the {count} positions"
        )
    bad = ~(array >= 0.0)
    if bad.any():
        first = float(array[bad][0]) if array.ndim else float(array)
        raise ValueError(f"{name} is {first:g}: a number that is not negative is wanted")
    return np.broadcast_to(array, (count,)).astype(np.float64)
