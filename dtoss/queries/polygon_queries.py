"""All objects within many polygons, or only how many: each partition that may hold some is searched once.

Memory does not grow with the objects that are counted: nothing but counts is held. Hits are listed where they are found
and put in order at the end.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.compiled.kernel import operand
from dtoss.geometry.point_in_polygon import inside
from dtoss.geometry.polygon_tables import Areas, areas_of
from dtoss.geometry.polygons import Polygon
from dtoss.partitioning.partition_bounds import owners_near
from dtoss.queries.gather import take
from dtoss.queries.kernels.address_table import OWNED_SITES
from dtoss.queries.kernels.zone_kernel import IN, held_kernel, zone_kernel
from dtoss.queries.open_snapshot import OpenSnapshot, addresses_of_runs
from dtoss.queries.raw_hits import RawHits
from dtoss.queries.threads import in_pieces
from dtoss.row_runs import runs

CORNERS = 1 << 20
"""Corners of the polygons whose tables are made at a time, unless one shape has more: some hundred megabytes."""


def count_in_zones(opened: OpenSnapshot, shapes: list[list[Polygon]], threads: int = 1) -> NDArray[np.int64]:
    """Return how many objects lie within each shape, int64 (m,), an object once where its polygons overlap.

    Cost O(r log v) for r objects near the shapes and v corners, most often; O(v) an object at worst.
    """
    pieces = [_searched(opened, shapes[a:b], threads, False)[0] for a, b in _slices(shapes)]
    return np.concatenate([np.zeros(0, np.int64), *pieces])


def find_in_zones(opened: OpenSnapshot, shapes: list[list[Polygon]], threads: int = 1) -> RawHits:
    """Return the objects within each shape, by id, each once; distances are 0. Cost as :func:`count_in_zones`."""
    pieces = [_ordered(opened, *_searched(opened, shapes[a:b], threads, True)) for a, b in _slices(shapes)]
    empty = np.zeros(0, np.int32)
    part, item = (np.concatenate([empty, *(piece[i] for piece in pieces)]) for i in (1, 2))
    count = np.concatenate([np.zeros(0, np.int64), *(piece[0] for piece in pieces)])
    ids = None
    if not opened.string_ids:
        ids = np.concatenate([np.zeros(0, np.int64), *(piece[3] for piece in pieces if piece[3] is not None)])
    return RawHits(count, part, item, np.zeros(len(part)), ids, np.zeros(len(shapes), np.int32))


def _slices(shapes: list[list[Polygon]]) -> list[tuple[int, int]]:
    """Return consecutive shapes, first and last, with so many corners together, one shape at least."""
    cuts, corners = [0], 0
    for number, shape in enumerate(shapes):
        size = sum(len(polygon.corners) for polygon in shape)
        if corners and corners + size > CORNERS:
            cuts.append(number)
            corners = 0
        corners += size
    return list(pairwise([*cuts, len(shapes)])) if shapes else []


def _searched(
    opened: OpenSnapshot, shapes: list[list[Polygon]], threads: int, listing: bool
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Return how many objects each shape holds, and if they are listed, shape, partition and number of each."""
    polygons = [polygon for shape in shapes for polygon in shape]
    empty = np.zeros(0, np.int32)
    count = np.zeros(len(shapes), np.int64)
    if not polygons:
        return count, empty, empty, empty
    owner = np.repeat(np.arange(len(shapes)), [len(shape) for shape in shapes])
    middles = np.stack([polygon.middle for polygon in polygons])
    sizes = np.array([len(polygon.corners) for polygon in polygons])
    reach = np.concatenate([polygon.corners for polygon in polygons]) - np.repeat(middles, sizes, axis=0)
    far = np.sqrt(np.maximum.reduceat((reach * reach).sum(axis=1), np.cumsum(sizes) - sizes))
    table = opened.parts.table
    near, part = owners_near(opened.regions, middles, far, table.furthest)
    wanted = np.unique(part)
    opened.parts.open(wanted.tolist())
    order = np.argsort(part, kind="stable")
    near, begin = near[order], np.searchsorted(part[order], np.append(wanted, len(table.rows)))
    areas = areas_of(polygons)

    def work(first: int, last: int) -> tuple[NDArray[np.int64], list[list[NDArray[np.int32]]]]:
        total, hits = np.zeros(len(shapes), np.int64), []
        for i in range(first, last):
            found, *columns = _in_partition(
                opened, int(wanted[i]), near[begin[i] : begin[i + 1]], polygons, owner, areas, listing, len(shapes)
            )
            total += found
            hits.append(columns)
        return total, hits

    pieces = in_pieces(len(wanted), threads, work, least=1)
    for total, _ in pieces:
        count += total
    shape, part, item = (
        np.concatenate([empty, *(columns[i] for _, hits in pieces for columns in hits)]) for i in range(3)
    )
    return count, shape, part, item


def _in_partition(
    opened: OpenSnapshot,
    number: int,
    near: NDArray[np.int64],
    polygons: list[Polygon],
    owner: NDArray[np.int64],
    areas: Areas,
    listing: bool,
    shapes: int,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Return how many objects of one partition each shape holds, and if they are listed, their columns."""
    table = opened.parts.table
    marks = np.zeros(max(int(table.rows[number, OWNED_SITES]), 0), np.int32)
    count, shape, item, doubts = zone_kernel(
        table.rows, addresses_of_runs(table), number, opened.dimension,
        near, owner, shapes, marks, listing, *areas,
    )  # fmt: skip
    if len(doubts):
        more_shape, more_item = _decided(opened, number, doubts.reshape(-1, 2), polygons, owner)
        count += np.bincount(more_shape, minlength=shapes)
        if listing:
            shape = np.concatenate([shape, more_shape.astype(np.int32)])
            item = np.concatenate([item, more_item.astype(np.int32)])
    return count, shape, np.full(len(item), number, np.int32), item


def _decided(
    opened: OpenSnapshot, number: int, doubts: NDArray[np.int64], polygons: list[Polygon], owner: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the shape and the number of each object that a shape holds, of which none of its polygons was sure.

    Objects of one site are looked at one by one: their vectors are equal, what was written of them need not be.
    """
    partition = opened.parts[number]
    first = np.searchsorted(owner, np.arange(int(owner[-1]) + 2))
    doubts = doubts[np.argsort(doubts[:, 0], kind="stable")]
    doubtful = {(polygon, site) for polygon, site in doubts.tolist()}
    item, row = _objects_on(opened, number, doubts[:, 1])
    polygon, site = doubts[row].T
    vectors, positions = np.array(partition.sites[site]), np.array(partition.positions[item])
    held: set[tuple[int, int]] = set()
    begins = np.flatnonzero(np.diff(polygon, prepend=-1)).tolist()
    for a, b in pairwise([*begins, len(polygon)]):
        mine, shape = int(polygon[a]), int(owner[polygon[a]])
        found = inside(vectors[a:b], polygons[mine], positions[a:b])
        for other in range(int(first[shape]), int(first[shape + 1])):  # who holds it without a doubt has counted it
            if other == mine:
                continue
            known = np.array([(other, one) not in doubtful for one in site[a:b].tolist()], np.bool_) & found
            if known.any():
                told = np.empty(int(known.sum()), np.uint8)
                held_kernel(operand(vectors[a:b][known]), *areas_of([polygons[other]]), told)
                found[known] &= told != IN
        held.update((shape, one) for one in item[a:b][found].tolist())
    shapes, items = np.array(sorted(held), np.int64).reshape(-1, 2).T
    return shapes, items


def _objects_on(
    opened: OpenSnapshot, number: int, sites: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the number of each object on sites, of those that count, and the row of its site."""
    objects = opened.parts[number].first_object
    begin, end = objects[sites].astype(np.int64), objects[sites + 1].astype(np.int64)
    sizes = end - begin
    row = np.repeat(np.arange(len(sites)), sizes)
    item = runs(begin, sizes)
    if opened.masks is None:
        return item, row
    kept = opened.masks[number][item] != 0
    return item[kept], row[kept]


def _ordered(
    opened: OpenSnapshot,
    count: NDArray[np.int64],
    shape: NDArray[np.int32],
    part: NDArray[np.int32],
    item: NDArray[np.int32],
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32], NDArray[np.int64] | None]:
    """Return the hits by shape and id: how many of each shape, and part, item, and ids that are numbers."""
    ids = take(opened.parts, part, item, lambda partition: partition.ids) if opened.string_ids else None
    if ids is not None:
        table = pa.table({"shape": shape, "id": ids})
        order = pc.sort_indices(table, [("shape", "ascending"), ("id", "ascending")]).to_numpy()
        return count, part[order], item[order], None
    numbers = np.empty(len(item), np.int64)
    cuts = np.flatnonzero(np.diff(part, prepend=-1))  # a partition's hits follow one another
    for a, b in pairwise([*cuts.tolist(), len(part)]):
        numbers[a:b] = opened.parts[int(part[a])].ids[item[a:b]]
    order = np.lexsort((numbers, shape))
    return count, part[order], item[order], numbers[order]
