"""The border set: every site whose cell its partition could not certify, made exact from all partitions' shares.

A true neighbour of an uncertified site is either uncertified itself, or certified in its own partition and then lists
that site. So the uncertified sites with their local neighbours, and the edges of certified sites to replicas and to
uncertified sites, hold all there is to know (dissertation, section 3.1.3, in one round).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.cells.voronoi import voronoi
from dtoss.geometry.hilbert import curve_keys, radix_order
from dtoss.partition import Ids, Partition, numbers
from dtoss.row_runs import runs


@dataclass(frozen=True)
class Border:
    """The share of the border set of one partition, or of some: b points and their known edges."""

    sites: NDArray[np.float64]  # float64 (b, dimension)
    home: NDArray[np.int32]  # int32 (b,). The partition that owns each point
    ids: Ids  # The lowest id on each point
    open: NDArray[np.bool_]  # bool (b,). The point is owned by a sender and not certified
    edges: NDArray[np.int32]  # int32 (e, 2). Pairs of points; true edges of certified cells


@dataclass(frozen=True)
class BorderTable:
    """The exact neighbours of border sites, sorted by their vectors."""

    sites: NDArray[np.float64]  # sites, home, ids: as in :class:`Border`, for b distinct sites
    home: NDArray[np.int32]
    ids: Ids
    # bool (b,). The whole neighbour list of the site is here; otherwise only what crosses its partition's border
    open: NDArray[np.bool_]
    # first, neighbours: int32. The neighbours of point i, as points, are ``neighbours[first[i]:first[i + 1]]``
    first: NDArray[np.int32]
    neighbours: NDArray[np.int32]
    area: NDArray[np.float64]  # float64 (b,). Of the open sites' cells: square CRS units or steradians; 0 elsewhere

    def find(self, site: NDArray[np.float64]) -> int:
        """Return the number of the point at a vector, or -1."""
        # numpy would copy the column to search it
        along, x = self.sites[:, 0], site[0]
        low = bisect_left(along, x)
        if low == len(along) or along[low] != x:
            return -1
        high = bisect_right(along, x, low)
        same = np.flatnonzero((self.sites[low:high] == site).all(axis=1))
        return low + int(same[0]) if len(same) else -1


def border_of(partition: Partition) -> Border:
    """Return a partition's uncertified sites with their neighbours, and its certified edges to them and to replicas."""
    graph, owned = partition.graph, partition.owned_sites
    m = len(partition.sites)
    open_site = np.zeros(m, np.bool_)
    open_site[partition.uncertified] = True
    # who is listed lists, too: so few lists need be looked at
    some = np.concatenate([partition.uncertified, np.arange(owned, m, dtype=np.int32)])
    count = graph.first[some + 1] - graph.first[some]
    target, source = np.repeat(some, count), graph.neighbours[runs(graph.first[some], count)]
    crossing = (source < owned) & ~open_site[source]
    used = open_site.copy()
    used[source[open_site[target]]] = True
    used[source[crossing]] = True
    used[target[crossing]] = True
    points = np.flatnonzero(used)
    at = np.full(m, -1, np.int32)
    at[points] = np.arange(len(points), dtype=np.int32)
    home = np.full(len(points), partition.number, np.int32)
    replica = points >= owned
    home[replica] = partition.replica_home[points[replica] - owned]
    lowest = partition.first_object[points]
    return Border(
        sites=partition.sites[points],
        home=home,
        ids=partition.ids.take(numbers(lowest)) if isinstance(partition.ids, pa.Array) else partition.ids[lowest],
        open=open_site[points],
        edges=np.stack([at[source[crossing]], at[target[crossing]]], axis=1),
    )


def join_shares(shares: Sequence[Border]) -> Border:
    """Return several shares as one; a point may stand in it more than once."""
    first = np.cumsum([0] + [len(share.sites) for share in shares])
    ids = [share.ids for share in shares]
    return Border(
        sites=np.concatenate([share.sites for share in shares]),
        home=np.concatenate([share.home for share in shares]),
        ids=pa.concat_arrays(ids) if isinstance(ids[0], pa.Array) else np.concatenate(ids),
        open=np.concatenate([share.open for share in shares]),
        edges=np.concatenate([share.edges + at for share, at in zip(shares, first[:-1], strict=True)]).astype(np.int32),
    )


def fix(
    shares: Sequence[Border], bounds: NDArray[np.float64] | None, *, threads: int = 1, engine: str = "kernel"
) -> BorderTable:
    """Return the exact cells of all uncertified sites and the symmetric graph across the borders.

    The cells are cut by all points of the border set, which hold all their true neighbours. An edge listed by either
    side is kept by both. Cost O(b log b) for b points.
    """
    known = join_shares(shares)
    order = np.lexsort(known.sites.T[::-1])
    changes = np.ones(len(order), np.bool_)
    changes[1:] = (known.sites[order[1:]] != known.sites[order[:-1]]).any(axis=1)
    point = np.empty(len(order), np.int32)
    point[order] = np.cumsum(changes) - 1
    kept = order[changes]
    count = len(kept)
    open_site = np.zeros(count, np.bool_)
    open_site[point[known.open]] = True
    points = np.ascontiguousarray(known.sites[kept])

    along = radix_order(curve_keys(points)) if count else np.zeros(0, np.int32)
    diagram = voronoi(points[along], bounds, wanted=open_site[along], threads=threads, engine=engine)
    area = np.zeros(count)
    area[along] = diagram.area
    area[~open_site] = 0.0
    source = along[np.repeat(np.arange(count), np.diff(diagram.first))]
    made = np.stack([source, along[diagram.neighbours]], axis=1)
    edges = np.concatenate([made, point[known.edges]]).astype(np.int64)
    both = np.sort(np.concatenate([edges[:, 0] * count + edges[:, 1], edges[:, 1] * count + edges[:, 0]]))
    both = both[np.append(True, both[1:] != both[:-1])[: len(both)]]
    both = np.stack(np.divmod(both, max(count, 1)), axis=1)
    first = np.searchsorted(both[:, 0], np.arange(count + 1)).astype(np.int32)
    return BorderTable(
        sites=points,
        home=known.home[kept],
        ids=known.ids.take(numbers(kept)) if isinstance(known.ids, pa.Array) else known.ids[kept],
        open=open_site,
        first=first,
        neighbours=both[:, 1].astype(np.int32),
        area=area,
    )
