"""The objects that are nearer to a new place than to any other object: its influence set."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.cells.cell_polygons import shapes
from dtoss.geometry.distance import distance
from dtoss.geometry.rounding import NEARLY_AS_NEAR, ROUGH_CHORD2
from dtoss.hits import Hits
from dtoss.partition import BLOCK, Partition, numbers
from dtoss.queries.batch_answer import answer
from dtoss.queries.cell_of import CellView

FIRST_CUT, LAST_CUT = 24, 96
"""Nearest objects by which the cell of a place is cut at first, and at last."""


def reverse_nearest(view: CellView, places: NDArray[np.float64], last_cut: int = LAST_CUT) -> Hits:
    """Return the objects nearer to each place (m, 2) than to any other object.

    They are among the Voronoi neighbours of the place in the diagram that has it as a site. Its cell is cut by its
    nearest sites. Where its ``last_cut`` nearest do not bound the cell (objects on a line, a place far outside),
    objects are looked for by blocks instead: cost O(blocks) then.
    """
    queries = view.space.vectors(places)
    m = len(queries)
    near = _neighbours_of_new(view, queries, last_cut)
    query = np.repeat(np.arange(m), [len(rows) for rows in near]).astype(np.int64)
    handle = np.concatenate(near) if m else np.zeros((0, 2), np.int64)
    if len(query) == 0:
        ids: NDArray[Any] = np.zeros(0, object if view.opened.string_ids else np.int64)
        return Hits(query, ids, np.zeros(0), {})
    vectors, own_ids, alone = _objects_at(view, handle)
    to_query = distance(vectors, queries[query])
    second = answer(view.opened, vectors, np.full(len(vectors), np.inf), 2)
    other = np.full(len(vectors), np.inf)
    ends = np.cumsum(second.count)
    other[second.count > 1] = second.distance[ends[second.count > 1] - 1]
    keep = alone & (to_query < other)
    query, to_query, own_ids = query[keep], to_query[keep], own_ids[keep]
    order = np.lexsort((own_ids, to_query, query)) if len(query) else np.zeros(0, np.int64)
    return Hits(query[order], own_ids[order], to_query[order], {})


def _neighbours_of_new(view: CellView, queries: NDArray[np.float64], last_cut: int) -> list[NDArray[np.int64]]:
    """Return for each new site (partition, object) of one object on each site that it may be nearest to."""
    out: list[NDArray[np.int64]] = [np.zeros((0, 2), np.int64)] * len(queries)
    box = view.bounds
    if box is not None and len(queries):
        # the middle between a place and an object it is nearest to lies on their common edge: hold them all
        box = np.concatenate([np.minimum(box[:2], queries.min(axis=0)), np.maximum(box[2:], queries.max(axis=0))])
    left, k = np.arange(len(queries)), FIRST_CUT
    while len(left) and k <= last_cut:
        found = answer(view.opened, queries[left], np.full(len(left), np.inf), k)
        ends = np.cumsum(found.count)
        vectors = _site_vectors(view, found.part, found.item)
        shape = shapes(queries[left], np.concatenate([[0], ends]), vectors, box)
        again = []
        for i, row in enumerate(left.tolist()):
            low, high = int(ends[i] - found.count[i]), int(ends[i])
            furthest = float(np.linalg.norm(vectors[high - 1] - queries[row])) if high > low else 0.0
            # a site further than twice the radius cannot cut the cell
            if (
                high - low < min(k, view.opened.objects)
                or high - low == view.opened.objects
                or furthest > 2.0 * shape.radius[i]
            ):
                owners = np.unique(shape.owner[shape.first[i] : shape.first[i + 1]])
                near = ((vectors[low:high] - queries[row]) ** 2).sum(axis=1)
                same = np.flatnonzero(near <= (ROUGH_CHORD2 if box is None else 0.0)) + low
                rows = np.unique(np.concatenate([owners[owners >= 0], same]))
                out[row] = np.stack([found.part[rows], found.item[rows]], axis=1).astype(np.int64)
            else:
                again.append(row)
        left, k = np.array(again, dtype=np.int64), 4 * k
    for row in left.tolist():
        out[row] = _by_blocks(view, queries[row])
    return out


def _by_blocks(view: CellView, query: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return (partition, object) of one object on each site that a place may be nearest to.

    Two sites in a ball of radius r are at most 2 r apart, so a place further than 3 r from its centre is nearest to
    none of them: so for partitions, for blocks, and at last each site is compared with the one beside it on the curve.
    """
    facts, pivots = view.opened.parts.facts, view.opened.regions.pivots
    size = 1.0 if view.bounds is None else float(np.abs(np.concatenate([query, view.bounds])).max())
    rough = 16.0 * float(np.spacing(size))
    rows = []
    for number, fact in enumerate(facts):
        away = float(np.linalg.norm(pivots[number] - query))
        if fact.sites and (fact.sites == 1 or away <= NEARLY_AS_NEAR * 3.0 * fact.furthest + rough):
            partition = view.opened.parts[number]
            sites = _sites_by_blocks(partition, query, rough)
            rows.append(np.stack([np.full(len(sites), number), partition.first_object[sites]], axis=1))
    return np.concatenate(rows).astype(np.int64) if rows else np.zeros((0, 2), np.int64)


def _sites_by_blocks(partition: Partition, query: NDArray[np.float64], rough: float) -> NDArray[np.int64]:
    """Return owned sites, among them each that is nearer to a place than to another site of the partition."""
    sites, owned = partition.sites, partition.owned_sites
    balls = partition.blocks.balls[: -(-owned // BLOCK)]
    away = np.sqrt(((balls[:, : sites.shape[1]] - query) ** 2).sum(axis=1))
    wanted = away <= NEARLY_AS_NEAR * 3.0 * balls[:, 3] + rough
    wanted[-1] = True  # it may hold a single site
    near = (np.flatnonzero(wanted)[:, None] * BLOCK + np.arange(BLOCK)).ravel()
    near = near[near < owned]
    far = ((sites[near] - query) ** 2).sum(axis=1)
    for step in (-1, 1):
        beside = np.clip(near + step, 0, len(sites) - 1)
        gap = np.where(beside == near, np.inf, ((sites[beside] - sites[near]) ** 2).sum(axis=1))
        keep = far <= NEARLY_AS_NEAR * gap + rough * rough
        near, far = near[keep], far[keep]
    return near


def _site_vectors(view: CellView, part: NDArray[np.int32], item: NDArray[np.int32]) -> NDArray[np.float64]:
    vectors = np.empty((len(part), view.space.dimension))
    for number in np.unique(part).tolist():
        partition = view.opened.parts[number]
        mine = part == number
        site = np.searchsorted(partition.first_object, item[mine], side="right") - 1
        vectors[mine] = partition.sites[site]
    return vectors


def _objects_at(
    view: CellView, handle: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[Any], NDArray[np.bool_]]:
    """Return the vectors and ids of objects, and which of them have their place to themselves."""
    vectors = np.empty((len(handle), view.space.dimension))
    ids: NDArray[Any] = np.empty(len(handle), object if view.opened.string_ids else np.int64)
    alone = np.zeros(len(handle), np.bool_)
    for number in np.unique(handle[:, 0]).tolist():
        partition = view.opened.parts[number]
        mine = np.flatnonzero(handle[:, 0] == number)
        item = handle[mine, 1]
        site = np.searchsorted(partition.first_object, item, side="right") - 1
        vectors[mine] = partition.sites[site]
        alone[mine] = partition.first_object[site + 1] - partition.first_object[site] == 1
        if isinstance(partition.ids, pa.Array):
            ids[mine] = partition.ids.take(numbers(item)).to_numpy(zero_copy_only=False)
        else:
            ids[mine] = partition.ids[item]
    return vectors, ids, alone
