"""Cells, neighbours and areas of single sites, exact across partitions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.batch import answer
from dtoss.border import BorderTable
from dtoss.distance import EARTH_RADIUS
from dtoss.edge_doubt import edges_in_doubt
from dtoss.edge_length import edge_length
from dtoss.errors import StoreError
from dtoss.lookup import Place
from dtoss.partition import Ids, Partition
from dtoss.shapes import Shapes, shapes
from dtoss.space import Space
from dtoss.world import World

SHORTEST = 1e-9
"""Edges no longer than this share of the Earth's radius, or of the diagonal of the bounds, make no neighbours."""
MOST = 48
"""Sites of one end's list that are asked where the ends of an edge list many."""
KEPT = 4096
"""Cells that are kept for those asked for next."""


@dataclass(frozen=True)
class CellView:
    """What questions about cells need of an index."""

    space: Space
    world: World
    bounds: NDArray[np.float64] | None
    border: BorderTable | None

    @property
    def shortest(self) -> float:
        """The length, in CRS units or as a chord, up to which an edge makes no neighbours."""
        if self.bounds is None:
            return SHORTEST
        return SHORTEST * float(np.hypot(self.bounds[2] - self.bounds[0], self.bounds[3] - self.bounds[1]))


@dataclass(frozen=True)
class Cell:
    """One cell: vertices float64 (v, dimension) counter-clockwise, neighbours' ids, square metres or CRS units."""

    vertices: NDArray[np.float64]
    neighbours: NDArray[Any]
    area: float


def candidates(view: CellView, partition: Partition, site: int) -> tuple[NDArray[np.float64], Ids]:
    """Return sites (c, dimension) that hold all Voronoi neighbours of an owned site, and the lowest id on each.

    A certified site's are listed in its partition, and those that only the other side saw in the border table; an
    uncertified one's are in the border table alone.
    """
    is_open = _among(partition.uncertified, site)
    parts: list[tuple[NDArray[np.float64], Ids]] = []
    if not is_open:
        graph = partition.graph
        near = graph.neighbours[graph.first[site] : graph.first[site + 1]]
        lowest = partition.first_object[near]
        ids = partition.ids.take(pa.array(lowest)) if isinstance(partition.ids, pa.Array) else partition.ids[lowest]
        parts.append((partition.sites[near], ids))
    table = view.border
    point = -1 if table is None or len(table.sites) == 0 else table.find(partition.sites[site])
    if table is not None and point >= 0:
        near = table.neighbours[table.first[point] : table.first[point + 1]]
        ids = table.ids.take(pa.array(near)) if isinstance(table.ids, pa.Array) else table.ids[near]
        parts.append((table.sites[near], ids))
    if not parts:
        return np.zeros((0, view.space.dimension)), np.zeros(0, np.int64)
    if len(parts) == 1:
        return parts[0]
    # those that the partition lists as well stand once
    known = {row.tobytes() for row in parts[0][0]}
    extra = np.array([i for i, row in enumerate(parts[1][0]) if row.tobytes() not in known], np.int64)
    sites = np.concatenate([parts[0][0], parts[1][0][extra]])
    merged: Ids
    if isinstance(parts[0][1], pa.Array):
        merged = pa.concat_arrays([parts[0][1], parts[1][1].take(pa.array(extra))])
    else:
        merged = np.concatenate([parts[0][1], parts[1][1][extra]])
    return sites, merged


def _among(ascending: NDArray[np.int32], value: int) -> bool:
    at = int(np.searchsorted(ascending, value))
    return at < len(ascending) and int(ascending[at]) == value


@dataclass(frozen=True)
class Cut:
    """The cell of a site, its candidates and their ids; which of them have an edge for sure, and which are in doubt."""

    shape: Shapes
    others: NDArray[np.float64]
    ids: Ids
    counts: NDArray[np.bool_]
    doubt: NDArray[np.bool_]


@dataclass(frozen=True)
class Seen:
    """What is known of cells and of edges in doubt, so that cells asked for one after another share it.

    Parameters
    ----------
    cuts : by partition and site; edges : by the vectors of both sites in order.
    """

    cuts: dict[tuple[int, int], Cut] = field(default_factory=dict)
    edges: dict[tuple[bytes, ...], bool] = field(default_factory=dict)


def _cut(view: CellView, partition: Partition, site: int, seen: Seen) -> Cut:
    """Return an owned site's cell and what it says of its candidates."""
    known = seen.cuts.get((partition.number, site))
    if known is not None:
        return known
    others, ids = candidates(view, partition, site)
    centre, first = partition.sites[site][None], np.array([0, len(others)])
    shape = shapes(centre, first, others, view.bounds)
    real = shape.owner >= 0
    length = np.bincount(shape.owner[real], shape.length[real], minlength=len(others)).astype(np.float64)
    counts = length > view.shortest
    doubt = ~counts | edges_in_doubt(shape, centre, first, others, length, view.shortest)
    if len(seen.cuts) >= KEPT:
        seen.cuts.clear()
        seen.edges.clear()
    made = seen.cuts[partition.number, site] = Cut(shape, others, ids, counts & ~doubt, doubt)
    return made


def cell_at(view: CellView, place: Place, seen: Seen | None = None) -> Cell:
    """Return the cell of the site on which an object is."""
    site = place.partition.sites[place.site]
    seen = Seen() if seen is None else seen
    own = _cut(view, place.partition, place.site, seen)
    shape, others, ids, counts = own.shape, own.others, own.ids, own.counts.copy()
    which = np.flatnonzero(own.doubt)
    for i, (partition, at) in zip(which.tolist(), _places(view, others[which]), strict=True):
        counts[i] = _is_edge(view, site, others, partition, at, seen)
    # in the order of their edges; an arc of a hemisphere's rim is in pieces; what only the other side sees comes last
    owners = dict.fromkeys(shape.owner.tolist())
    around = np.array([i for i in owners if i >= 0] + [i for i in range(len(others)) if i not in owners], np.int64)
    around = around[counts[around]]
    if isinstance(ids, pa.Array):
        neighbours = ids.take(pa.array(around)).to_numpy(zero_copy_only=False).astype(object)
    else:
        neighbours = ids[around]
    scale = EARTH_RADIUS**2 if view.space.dimension == 3 else 1.0
    return Cell(shape.vertices, neighbours, float(shape.area[0]) * scale)


def _places(view: CellView, sites: NDArray[np.float64]) -> Iterator[tuple[Partition, int]]:
    """Return the partition and the number in it of each of some sites (m, dimension) that others list."""
    found = answer(view.world, sites, np.zeros(len(sites)), 1) if len(sites) else None
    for i in range(len(sites)):
        if found is None or found.count[i] == 0:
            raise StoreError(
                f"the border table lists {sites[i].tolist()}, where no object is: it is damaged; roll back or rebuild"
            )
        row = int(found.count[:i].sum())
        partition = view.world.parts[int(found.part[row])]
        yield partition, int(np.searchsorted(partition.first_object, found.item[row], side="right")) - 1


def _is_edge(
    view: CellView, site: NDArray[np.float64], others: NDArray[np.float64], partition: Partition, at: int, seen: Seen
) -> bool:
    """Return whether the edge between a site, with its candidates, and another counts: the same from either end.

    Rounding decides whether cells of sites an ulp apart, or far apart for their size, have an edge. Where the cell of
    one end leaves no doubt it counts, and else exact numbers say.
    """
    cut, other = _cut(view, partition, at, seen), partition.sites[at]
    if cut.counts[(cut.others == site).all(axis=1)].any():
        return True
    ends = tuple(sorted((site.tobytes(), other.tobytes())))
    if ends not in seen.edges:
        around = _around(site, others, other, cut.others)
        seen.edges[ends] = edge_length(site, other, around, view.bounds) > view.shortest
    return seen.edges[ends]


def _around(
    one: NDArray[np.float64], near_one: NDArray[np.float64], two: NDArray[np.float64], near_two: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return sites that may bound the edge of two sites, the same from either end.

    The list of one end is enough in truth. The longer one, that of a site in the middle of a ring, say, is asked for
    what is near the other end only.
    """
    if (len(near_one), one.tolist()) > (len(near_two), two.tolist()):
        one, near_one, two, near_two = two, near_two, one, near_one
    if len(near_two) > MOST:
        gap2 = ((near_two - one) ** 2).sum(axis=1)
        near_two = near_two[np.argsort(gap2, kind="stable")[:MOST]]
    return np.concatenate([near_one, near_two])
