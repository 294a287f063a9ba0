"""Building one partition from the objects it knows: sites, diagram, hierarchy, certificate, border set.

Blocks: runs of 16 sites along the curve, a ball round each, and which blocks are neighbours.

Two blocks are neighbours where a site of one is a Voronoi neighbour of a site of the other. The sites of a disc are
connected in the Voronoi graph, so the blocks that hold them are connected in the graph of blocks: a search that visits
neighbours of visited blocks, as far as their balls meet the disc, misses none.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.building.border import Border, border_of
from dtoss.building.certificate import uncertified
from dtoss.building.stood import Cells, Stood
from dtoss.cells.changed_cells import changed_cells
from dtoss.cells.diagram import renumber
from dtoss.cells.voronoi import voronoi
from dtoss.compiled.kernel import kernel, operand
from dtoss.geometry.hilbert import curve_keys, curve_order, take_rows
from dtoss.geometry.rounding import PRUNE
from dtoss.geometry.space import Space
from dtoss.id_filter import filter_of_ids, order_of_ids
from dtoss.partition import BLOCK, FAN, RADIUS, Blocks, Graph, Ids, Partition, numbers
from dtoss.partitioning.regions import Regions
from dtoss.row_runs import offsets

TOP = 64
"""Sites at the top of the hierarchy at the most: they are looked at one by one."""


@dataclass(frozen=True)
class BuiltPartition:
    """A partition, its share of the border set, and what the manifest says about it."""

    partition: Partition  # As it is written to its file
    border: Border  # Its share of the border set
    area: float  # Sum of the areas of the owned cells that are certified: square CRS units or steradians
    cells: Cells  # Of its sites, for when it is built once more


def construct(
    number: int,
    ids: Ids,
    positions: NDArray[np.float64],
    home: NDArray[np.int32],
    space: Space,
    regions: Regions,
    reach: float,
    bounds: NDArray[np.float64] | None = None,
    *,
    times: pa.Array | None = None,
    attributes: dict[str, pa.Array] | None = None,
    engine: str = "kernel",
    threads: int = 1,
    stood: Stood | None = None,
    with_levels: bool = True,
) -> BuiltPartition:
    """Return partition ``number``, built from its own objects and its replicas, in any order.

    ``ids``: int64 (n,) or large strings, distinct; ``positions``: float64 (n, 2), legal; ``home``: int32 (n,). The
    partition that owns each object; those of other partitions are replicas; ``times``: of the objects, an Arrow array
    of length n without nulls; None where they have none; ``engine``: of the diagram: "kernel" or "scipy"; ``threads``:
    the diagram is split among so many; the result is the same; ``stood``: the partition as it was before, some of whose
    objects come first here: only cells that may have changed are cut (:mod:`dtoss.cells.changed_cells`);
    ``with_levels``: make the hierarchy, a tenth of the work. Without it a search that knows no place on the curve looks
    at a sixteenth of the sites.

    The result depends on the objects alone, not on their order or the number of threads; with ``stood`` it may list
    other edges without length. Cost O(n).
    """
    vectors = space.vectors(positions)
    if stood is None:
        keys = curve_keys(vectors, bounds)
    else:
        keys = np.concatenate([stood.keys(), curve_keys(vectors[len(stood.rows) :], bounds)])
    order = curve_order(vectors, _ranks(ids), bounds, keys)
    sorted_vectors = take_rows(vectors, order)
    starts = np.ones(len(order), np.bool_)
    if len(order):
        # an axis after the other takes a fraction of the time of all
        starts[1:] = reduce(np.logical_or, (axis[1:] != axis[:-1] for axis in sorted_vectors.T))
    first = np.append(np.flatnonzero(starts), len(order)).astype(np.int32)
    sites = take_rows(sorted_vectors, first[:-1])
    lowest = order[first[:-1]]
    site_home, keys = home[lowest], keys[lowest]
    owned = site_home == number
    if stood is None:
        diagram, cut = voronoi(sites, bounds, threads=threads, engine=engine), owned
    else:
        before = stood.numbers(sites, first, order)
        diagram, cut = changed_cells(sites, bounds, stood.before(), before)
    open_cells = uncertified(
        sites, diagram.radius, diagram.first, diagram.neighbours, owned & cut, bounds, regions, number, reach
    )
    if stood is not None:
        # the same cell, the same verdict
        open_cells = np.sort(np.append(open_cells, np.flatnonzero(~cut & stood.uncertified(before))))
    certified = owned.copy()
    certified[open_cells] = False
    area = float(diagram.area[certified].sum())

    graph = Graph(diagram.first, diagram.neighbours)
    rim = diagram.rim if space.dimension == 2 else np.zeros(len(sites), np.bool_)
    cells = Cells(diagram.area, diagram.radius, diagram.compact, keys)
    if not owned.all():
        # owned sites first
        to_old = np.concatenate([np.flatnonzero(owned), np.flatnonzero(~owned)]).astype(np.int32)
        to_new = np.empty_like(to_old)
        to_new[to_old] = np.arange(len(to_old), dtype=np.int32)
        graph = Graph(*renumber(graph.first, graph.neighbours, to_old, to_new))
        size = np.diff(first)
        mine = np.repeat(owned, size)
        order = np.concatenate([order[mine], order[~mine]])
        first = offsets(size[to_old], np.int32)
        sites, site_home, rim = take_rows(sites, to_old), site_home[to_old], rim[to_old]
        cells = Cells(cells.area[to_old], cells.radius[to_old], cells.compact[to_old], keys[to_old])
        open_cells = np.sort(to_new[open_cells])
    owned_sites = int(owned.sum())
    taken = numbers(order)
    sorted_ids = ids.take(taken) if isinstance(ids, pa.Array) else ids[order]
    owned_ids = sorted_ids[: int(first[owned_sites])]
    partition = Partition(
        number=number,
        ids=sorted_ids,
        positions=take_rows(positions, order),
        sites=sites,
        first_object=first,
        owned_sites=owned_sites,
        replica_home=site_home[owned_sites:].astype(np.int32),
        graph=graph,
        rim=np.flatnonzero(rim).astype(np.int32),
        levels=_hierarchy(sites[:owned_sites], bounds, engine) if with_levels else (),
        keys=np.ascontiguousarray(cells.keys[:owned_sites:FAN]),
        blocks=make_blocks(sites, graph.first, graph.neighbours),
        uncertified=open_cells.astype(np.int32),
        furthest=_furthest(sites[:owned_sites], regions.pivots[number]),
        id_order=order_of_ids(owned_ids),
        id_filter=filter_of_ids(owned_ids),
        times=None if times is None else _plain(times.take(taken)),
        attributes={name: _plain(column.take(taken)) for name, column in (attributes or {}).items()},
    )
    return BuiltPartition(partition, border_of(partition), area, cells)


def _ranks(ids: Ids) -> NDArray[np.int64]:
    if not isinstance(ids, pa.Array):
        return ids
    ranks = np.empty(len(ids), np.int64)
    ranks[order_of_ids(ids)] = np.arange(len(ids))
    return ranks


def _plain(column: Any) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _furthest(sites: NDArray[np.float64], pivot: NDArray[np.float64]) -> float:
    if len(sites) == 0:
        return -1.0
    return float(np.sqrt(sum((axis - at) ** 2 for axis, at in zip(sites.T, pivot, strict=True)).max()))


def _hierarchy(sites: NDArray[np.float64], bounds: NDArray[np.float64] | None, engine: str) -> tuple[Graph, ...]:
    """Return the graphs over every 16th, 256th, ... site, down to the level that is looked at one by one.

    Each level is a Voronoi diagram of its own, so a walk ends in the site of that level nearest to the query, and
    goes on from the same site one level below (dissertation, section 3.2, with levels thinned along the curve).
    """
    levels: list[Graph] = []
    stride = FAN
    while len(level := np.ascontiguousarray(sites[::stride])) > TOP:
        diagram = voronoi(level, bounds, engine=engine)
        levels.append(Graph(diagram.first, diagram.neighbours))
        stride *= FAN
    return tuple(levels)


FEWEST_LINKS = 64
"""Neighbours of blocks that there is room for at first, at the least."""


def make_blocks(sites: NDArray[np.float64], first: NDArray[np.int32], neighbours: NDArray[np.int32]) -> Blocks:
    """Return the blocks of sites (m, dimension) in curve order with their Voronoi graph. Cost O(m).

    Examples
    --------
    >>> sites = np.array([[float(i), 0.0] for i in range(20)])
    >>> first = np.array([0, *range(1, 39, 2), 38], np.int32)
    >>> neighbours = np.array([1, *(j for i in range(1, 19) for j in (i - 1, i + 1)), 18], np.int32)
    >>> blocks = make_blocks(sites, first, neighbours)
    >>> blocks.neighbours.tolist(), blocks.balls[1].round(6).tolist()
    ([1, 0], [17.5, 0.0, 0.0, 1.5])
    """
    return Blocks(*_blocks(operand(sites), operand(first), operand(neighbours)))


@kernel("Tuple((float64[:, ::1], int32[::1], int32[::1]))(float64[:, ::1], int32[::1], int32[::1])")
def _blocks(sites, first, neighbours):
    n, dimension = sites.shape
    count = (n + BLOCK - 1) // BLOCK
    balls = np.zeros((count, 4))
    starts = np.zeros(count + 1, np.int32)
    stamp = np.full(count, -1, np.int32)
    out = np.empty(max(neighbours.size // 4, FEWEST_LINKS), np.int32)
    end = 0
    for b in range(count):
        begin, stop = b * BLOCK, min(b * BLOCK + BLOCK, n)
        for axis in range(dimension):
            low = high = sites[begin, axis]
            for i in range(begin + 1, stop):
                low, high = min(low, sites[i, axis]), max(high, sites[i, axis])
            balls[b, axis] = 0.5 * (low + high)
        most = 0.0
        for i in range(begin, stop):
            gap = 0.0
            for axis in range(dimension):
                d = sites[i, axis] - balls[b, axis]
                gap += d * d
            most = max(most, gap)
        balls[b, RADIUS] = np.sqrt(most) * (1.0 + PRUNE)
        stamp[b] = b
        most_links = end + first[stop] - first[begin]
        if most_links > out.size:
            more = np.empty(2 * most_links, np.int32)
            more[:end] = out[:end]
            out = more
        for t in range(first[begin], first[stop]):
            other = neighbours[t] // BLOCK
            out[end] = other  # kept where it is new: to ask before costs six times as much
            end += stamp[other] != b
            stamp[other] = b
        starts[b + 1] = end
    return balls, starts, out[:end].copy()
