"""Cells, neighbours and areas of single sites, exact across partitions."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.building.border import BorderTable
from dtoss.cells.cell_polygons import CellPolygons, shapes
from dtoss.cells.edge_doubt import edge_length, edges_in_doubt
from dtoss.compiled.kernel import operand
from dtoss.errors import StoreError
from dtoss.geometry.distance import EARTH_RADIUS
from dtoss.geometry.rounding import PRUNE
from dtoss.geometry.space import Space
from dtoss.locks import once
from dtoss.partition import Ids, Partition, numbers
from dtoss.queries.batch_answer import answer
from dtoss.queries.find_by_id import Place
from dtoss.queries.one_cell import CROWDED, Drawn, drawn_cell
from dtoss.queries.one_edge import counts as edge_counts
from dtoss.queries.open_snapshot import OpenSnapshot

SHORTEST = 1e-9
"""Edges no longer than this share of the Earth's radius, or of the diagonal of the bounds, make no neighbours."""
MOST_ASKED = 48
"""Sites of one end's list that are asked where the ends of an edge list many."""
CROWD = 128
"""Sites among which neighbours in and beside such crowds are decided by exact arithmetic, 0.2 s a cell at the most."""
_CORNER = 3
"""Sites that are as near to a corner of a cell, unless more borders than three meet in it."""
KEPT_CELLS = 4096
"""Cells that are kept for those asked for next."""


@dataclass(frozen=True)
class Cut:
    """The cell of a site, its candidates and their ids; which of them have an edge for sure, and which are in doubt.

    ``crowded`` says that candidates are those of whole crowds or rows of sites, and that all edges are for exact
    arithmetic to decide. ``listed`` are those that the diagram lists; ``owner`` are those with an edge, in the order of
    these.
    """

    shape: CellPolygons
    others: NDArray[np.float64]
    ids: Ids
    counts: NDArray[np.bool_]
    doubt: NDArray[np.bool_]
    crowded: bool
    listed: NDArray[np.bool_]
    owner: NDArray[np.int64]


@dataclass(frozen=True)
class CellCache:
    """What is known of cells and of edges in doubt; no answer depends on it. Any thread may empty it at any time."""

    cuts: dict[tuple[int, int], Cut] = field(default_factory=dict)  # By partition and site
    edges: dict[tuple[bytes, ...], bool] = field(default_factory=dict)  # By the vectors of both sites in order
    # By the vector of a site in a row: where it is, and what its candidates are
    listed: dict[bytes, tuple[Partition, int, NDArray[np.float64]]] = field(default_factory=dict)


@dataclass(frozen=True)
class CellView:
    """What questions about cells need of an index."""

    space: Space
    opened: OpenSnapshot
    bounds: NDArray[np.float64] | None
    border: BorderTable | None

    @once
    def shortest(self) -> float:
        """The length, in CRS units or as a chord, up to which an edge makes no neighbours."""
        if self.bounds is None:
            return SHORTEST
        return SHORTEST * float(np.hypot(self.bounds[2] - self.bounds[0], self.bounds[3] - self.bounds[1]))

    @once
    def seen(self) -> CellCache:
        """What is known of cells and of edges in doubt: those that are asked for one after another share it."""
        return CellCache()


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
        ids = partition.ids.take(numbers(lowest)) if isinstance(partition.ids, pa.Array) else partition.ids[lowest]
        parts.append((partition.sites[near], ids))
    table = view.border
    point = -1 if table is None or len(table.sites) == 0 else table.find(partition.sites[site])
    if table is not None and point >= 0:
        near = table.neighbours[table.first[point] : table.first[point + 1]]
        ids = table.ids.take(numbers(near)) if isinstance(table.ids, pa.Array) else table.ids[near]
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
        merged = pa.concat_arrays([parts[0][1], parts[1][1].take(numbers(extra))])
    else:
        merged = np.concatenate([parts[0][1], parts[1][1][extra]])
    return sites, merged


def _among(ascending: NDArray[np.int32], value: int) -> bool:
    at = bisect_left(ascending, value)  # numpy would copy them to search them: they have 32 bits
    return at < len(ascending) and int(ascending[at]) == value


def _cut(view: CellView, partition: Partition, site: int) -> Cut:
    """Return an owned site's cell and what it says of its candidates."""
    seen, key = view.seen, (partition.number, site)
    known = seen.cuts.get(key)
    if known is not None:
        return known
    centre, listed = partition.sites[site][None], candidates(view, partition, site)[0]
    others, ids, shape, crowded = _outline(view, partition, site)
    owner, first = shape.owner, np.array([0, len(others)])
    rows = None if crowded else _with_rows(view, partition, site, others, shape.vertices)
    if rows is not None:
        # drawn as it is everywhere: what a row adds is too short to be seen
        others, ids = rows
        owner = shapes(centre, np.array([0, len(others)]), others).owner
    counts, doubt = np.zeros(len(others), np.bool_), np.ones(len(others), np.bool_)
    if not crowded and rows is None:
        real = owner >= 0
        length = np.bincount(owner[real], shape.length[real], minlength=len(others)).astype(np.float64)
        counts = length > view.shortest
        doubt = ~counts | edges_in_doubt(shape, centre, first, others, length, view.shortest)
    if len(seen.cuts) >= KEPT_CELLS:
        seen.cuts.clear()
        seen.edges.clear()
        seen.listed.clear()
    names = {row.tobytes() for row in listed}
    among = np.array([row.tobytes() in names for row in others], np.bool_)
    made = Cut(shape, others, ids, counts & ~doubt, doubt, crowded or rows is not None, among, owner)
    seen.cuts[key] = made
    return made


def _outline(view: CellView, partition: Partition, site: int) -> tuple[NDArray[np.float64], Ids, CellPolygons, bool]:
    """Return an owned site's candidates, their ids, its cell, and whether candidates are those of whole crowds."""
    others, ids = candidates(view, partition, site)
    crowds = _with_crowds(view, partition, site) if _crowded(partition.sites[site], others) else None
    if crowds is not None:
        others, ids = crowds
    shape = shapes(partition.sites[site][None], np.array([0, len(others)]), others, view.bounds)
    return others, ids, shape, crowds is not None


def cell_at(view: CellView, place: Place) -> Cell:
    """Return the cell of the site on which an object is."""
    drawn = _draw(view, place.partition, place.site)
    if drawn is not None:
        cell, ids = drawn
        count = cell.sure if cell.clear else _settled(view, place.partition, place.site, cell)
        if count is not None:
            around = cell.owner[cell.owner >= 0] if cell.clear else _around_cell(cell.owner, len(cell.others))
            return Cell(cell.vertices, _taken(ids, around[count[around]]), _area(view, cell.area))
    site = place.partition.sites[place.site]
    own = _cut(view, place.partition, place.site)
    shape, others, ids, counts = own.shape, own.others, own.ids, own.counts.copy()
    which = np.flatnonzero(own.doubt)
    if own.crowded:
        # more sites leave less of an edge: most have none among these already
        which = which[[bool(own.listed[i]) or _exactly(view, site, others[i], others) for i in which.tolist()]]
    for i, (partition, at) in zip(which.tolist(), _places(view, others[which]), strict=True):
        counts[i] = _is_edge(view, site, own, partition, at)
    around = _around_cell(own.owner, len(others))
    around = around[counts[around]]
    return Cell(shape.vertices, _taken(ids, around), _area(view, float(shape.area[0])))


def _draw(view: CellView, partition: Partition, site: int) -> tuple[Drawn, Ids] | None:
    """Return an owned site's cell and the ids of its candidates, None where it has to be made in another way."""
    others, ids = candidates(view, partition, site)
    drawn = drawn_cell(partition.sites[site], others, view.opened.box, view.shortest)
    return None if drawn is None else (drawn, ids)


def _around_cell(owner: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return candidates in the order of their edges; what only the other side sees comes last.

    An arc of a hemisphere's rim is in pieces.
    """
    owners = dict.fromkeys(owner.tolist())
    return np.array([i for i in owners if i >= 0] + [i for i in range(count) if i not in owners], np.int64)


def _settled(view: CellView, partition: Partition, site: int, cell: Drawn) -> NDArray[np.bool_] | None:
    """Return which candidates of a drawn cell have an edge that counts, None where :func:`_is_edge` has to say.

    Where the edge counts in truth it does, and where it does not, and neither end's cell says that it might, it does
    not: so says that as well.
    """
    graph, here = partition.graph, partition.sites[site]
    near = graph.neighbours[graph.first[site] : graph.first[site + 1]].tolist()
    listed_here = not _among(partition.uncertified, site)
    settled = cell.sure.copy()
    for i in np.flatnonzero(~cell.sure).tolist():
        there = cell.others[i]
        if listed_here and i < len(near) and near[i] < partition.owned_sites:
            part, at = partition, near[i]
        else:
            part, at = next(iter(_places(view, there[None])))
        found = _draw(view, part, at)
        if found is None:
            return None
        known = _exactly(view, here, there, _around(here, cell.others, there, found[0].others))
        if not known:
            listed = np.flatnonzero((found[0].others == here).all(axis=1)).tolist()
            if any(found[0].length_of(j) > view.shortest for j in listed) or cell.length_of(i) > view.shortest:
                return None
        settled[i] = known
    return settled


def _exactly(view: CellView, one: NDArray[np.float64], two: NDArray[np.float64], around: NDArray[np.float64]) -> bool:
    """Return whether the edge of two sites is longer than what counts, with others in its way."""
    known = edge_counts(one, two, around, view.opened.box, view.shortest)
    return edge_length(one, two, around, view.bounds) > view.shortest if known is None else known


def outline_at(view: CellView, place: Place) -> tuple[NDArray[np.float64], float]:
    """Return the vertices and the area of the cell of the site on which an object is, as in :class:`Cell`.

    They do not depend on which of its edges count.
    """
    drawn = _draw(view, place.partition, place.site)
    if drawn is not None:
        return drawn[0].vertices, _area(view, drawn[0].area)
    shape = _outline(view, place.partition, place.site)[2]
    return shape.vertices, _area(view, float(shape.area[0]))


def _taken(ids: Ids, rows: NDArray[np.int64]) -> NDArray[Any]:
    if isinstance(ids, pa.Array):
        found: NDArray[Any] = ids.take(numbers(rows)).to_numpy(zero_copy_only=False).astype(object)
        return found
    return ids[rows]


def _area(view: CellView, area: float) -> float:
    return area * (EARTH_RADIUS**2 if view.space.dimension == 3 else 1.0)


def _crowded(site: NDArray[np.float64], others: NDArray[np.float64]) -> bool:
    """Return whether any two of a site and its candidates are so near each other that rounding chose the candidates.

    In the plane nothing is rounded.
    """
    if len(site) == 2:
        return False
    points = np.concatenate([site[None], others])
    points = points[np.argsort(points[:, 0])]
    apart = 1
    # along one axis first: few are as near as that
    while apart < len(points):
        step = points[apart:] - points[:-apart]
        near = step[:, 0] <= CROWDED
        if not near.any():
            return False
        if (np.abs(step[near]) <= CROWDED).all(axis=1).any():
            return True
        apart += 1
    return False


def _with_crowds(view: CellView, partition: Partition, site: int) -> tuple[NDArray[np.float64], Ids] | None:
    """Return sites (c, 3) that hold all neighbours of one in or beside a crowd, and the lowest id on each.

    None where these are more than CROWD. Of sites an ulp apart not all that share an edge list each other; what cuts a
    cell in truth is in the crowd of a site that one of its own crowd lists.
    """
    own = _crowds(view, partition.sites[site][None])
    listed = np.concatenate([candidates(view, part, at)[0] for part, at in own])
    found = _crowds(view, np.unique(np.concatenate([partition.sites[site][None], listed]), axis=0))
    rows: dict[bytes, tuple[Partition, int]] = {part.sites[at].tobytes(): (part, at) for part, at in found}
    if len(rows) > CROWD:
        return None
    rows.pop(partition.sites[site].tobytes(), None)
    return _with_ids(partition, list(rows.values()))


def _with_ids(partition: Partition, rows: list[tuple[Partition, int]]) -> tuple[NDArray[np.float64], Ids]:
    """Return sites (c, 3) of partitions and the lowest id on each, typed as those of one of them."""
    sites = np.array([part.sites[at] for part, at in rows]).reshape(-1, 3)
    ids = [part.ids[int(part.first_object[at])] for part, at in rows]
    if isinstance(partition.ids, pa.Array):
        return sites, pa.array([id_.as_py() for id_ in ids], partition.ids.type)
    return sites, np.array(ids, np.int64)


def _with_rows(
    view: CellView,
    partition: Partition,
    site: int,
    listed: NDArray[np.float64],
    corners: NDArray[np.float64],
) -> tuple[NDArray[np.float64], Ids] | None:
    """Return sites (c, 3) that hold all neighbours of one whose cell is cut in 3-D, and the lowest id on each.

    None where no corner has more than three sites, or these are more than CROWD. A row of sites along a meridian, say,
    is as near within rounding, all of it, to the two poles in which the borders of its cells meet: rounding chose which
    of them cut there. They are connected in the diagram, as the sites of any disc are.
    """
    here = partition.sites[site]
    if view.bounds is not None or not 0 < len(listed) <= CROWD:
        return None
    if drawn_cell(here, listed, view.opened.box, view.shortest) is not None:
        return None
    reach2 = ((corners - here) ** 2).sum(axis=1) * (1.0 + PRUNE)
    # where all objects are on one line, those beside the site on the curve are more than enough
    beside = partition.sites[max(site - CROWD, 0) : site + CROWD]
    if (_gaps2(beside, corners) <= reach2).any(axis=1).sum() > CROWD:
        return None
    rows: dict[bytes, tuple[Partition, int]] = {here.tobytes(): (partition, site)}
    sites, fresh = here[None], listed
    while len(fresh):
        names = [row.tobytes() for row in fresh]
        around = {name: found for name in names if (found := view.seen.listed.get(name)) is not None}
        unseen = fresh[np.array([name not in around for name in names], np.bool_)]
        for row, spot in zip(unseen, _locate(view, unseen), strict=True):
            if spot is not None:
                around[row.tobytes()] = view.seen.listed[row.tobytes()] = (*spot, candidates(view, *spot)[0])
        rows |= {name: (part, at) for name, (part, at, _) in around.items()}
        sites = np.concatenate([sites, fresh])
        if len(rows) > CROWD or len(rows) < len(sites):
            return None
        near = np.concatenate([others for _, _, others in around.values()])
        near = np.unique(near[(_gaps2(near, corners) <= reach2).any(axis=1)], axis=0)
        fresh = near[np.array([row.tobytes() not in rows for row in near], np.bool_)]
    if (_gaps2(sites, corners) <= reach2).sum(axis=0).max(initial=0) <= _CORNER:
        return None
    del rows[here.tobytes()]
    return _with_ids(partition, [rows[key] for key in sorted(rows)])


def _gaps2(sites: NDArray[np.float64], places: NDArray[np.float64]) -> NDArray[np.float64]:
    gaps2: NDArray[np.float64] = ((sites[:, None] - places[None]) ** 2).sum(axis=2)
    return gaps2


def _crowds(view: CellView, places: NDArray[np.float64]) -> list[tuple[Partition, int]]:
    """Return the partition and number of the sites within CROWDED of some sites (m, 3), the nearest MOST of each."""
    # a site of a file is mapped, which no kernel takes
    found = answer(view.opened, operand(places), np.full(len(places), CROWDED * EARTH_RADIUS), MOST_ASKED)
    pairs = np.unique(np.stack([found.part, found.item], axis=1), axis=0)
    sites: dict[tuple[int, int], tuple[Partition, int]] = {}
    for number, item in pairs.tolist():
        part = view.opened.parts[number]
        at = int(np.searchsorted(part.first_object, item, side="right")) - 1
        sites[number, at] = (part, at)
    return list(sites.values())


def _places(view: CellView, sites: NDArray[np.float64]) -> Iterator[tuple[Partition, int]]:
    """Return the partition and the number in it of each of some sites (m, dimension) that others list."""
    for place, spot in zip(sites, _locate(view, sites), strict=True):
        if spot is None:
            raise StoreError(
                f"the border table lists {place.tolist()}, where no object is: it is damaged; roll back or rebuild"
            )
        yield spot


def _locate(view: CellView, sites: NDArray[np.float64]) -> Iterator[tuple[Partition, int] | None]:
    """Return the partition and the number in it of each of some sites (m, dimension), None where there is no object."""
    if len(sites) == 0:
        return
    found, row = answer(view.opened, operand(sites), np.zeros(len(sites)), 1), 0
    for count in found.count.tolist():
        if count == 0:
            yield None
            continue
        partition = view.opened.parts[int(found.part[row])]
        yield partition, bisect_right(partition.first_object, int(found.item[row])) - 1
        row += count


def _is_edge(view: CellView, site: NDArray[np.float64], own: Cut, partition: Partition, at: int) -> bool:
    """Return whether the edge between a site, with its cell, and another counts: the same from either end.

    Rounding decides whether cells of sites an ulp apart, or far apart for their size, have an edge. Where the cell of
    one end leaves no doubt it counts, and else exact numbers say. Where both are in or beside crowds, or in rows, these
    always do. Both have to list each other.
    """
    cut, other = _cut(view, partition, at), partition.sites[at]
    crowded, listed = own.crowded and cut.crowded, (cut.others == site).all(axis=1)
    if cut.counts[listed].any() and not crowded:
        return True
    if not listed.any():
        return False
    ends = tuple(sorted((site.tobytes(), other.tobytes())))
    known = view.seen.edges.get(ends)
    if known is None:
        around = np.concatenate([own.others, cut.others]) if crowded else _around(site, own.others, other, cut.others)
        known = view.seen.edges[ends] = _exactly(view, site, other, around)
    return known


def _around(
    one: NDArray[np.float64], near_one: NDArray[np.float64], two: NDArray[np.float64], near_two: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return sites that may bound the edge of two sites, the same from either end.

    The list of one end is enough in truth. The longer one, that of a site in the middle of a ring, say, is asked for
    what is near the other end only.
    """
    if (len(near_one), one.tolist()) > (len(near_two), two.tolist()):
        one, near_one, two, near_two = two, near_two, one, near_one
    if len(near_two) > MOST_ASKED:
        gap2 = ((near_two - one) ** 2).sum(axis=1)
        near_two = near_two[np.argsort(gap2, kind="stable")[:MOST_ASKED]]
    return np.concatenate([near_one, near_two])
