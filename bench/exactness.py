"""Whether cells are exact, at full size, against scipy's diagrams and long double: ``python -m bench.exactness``.

It compares 200,000 planar and 50,000 spherical sites, uniform and taxi, in 1, 2, 7 and 64 partitions, with
``scipy.spatial.Voronoi`` and ``SphericalVoronoi``. Exits 1 where a comparison fails. Taxis are read from the folder
named by DTOSS_DATA, and made where they are missing.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import SphericalVoronoi, Voronoi, cKDTree

import dtoss
from bench.measuring.points import metres, missing, positions, streets
from dtoss.cells.cell_polygons import shapes
from dtoss.export.cell_rings import border_edges, cells_of
from dtoss.geometry.distance import EARTH_RADIUS
from dtoss.geometry.hilbert import curve_keys, radix_order
from dtoss.geometry.space import space_of
from dtoss.partition import Partition
from dtoss.queries.cell_of import CellView

PARTITIONS = (1, 2, 7, 64)
SHORT = 1e-9
"""Edges no longer than this share of the Earth's radius, or of the bounds' diagonal, make no neighbours."""
NEAREST = 40
"""Nearest sites that a spherical cell is clipped by at first."""
SMALL = 10.0
"""Square metres below which an area may differ by 1e-7 instead of 1e-9."""
Floats = NDArray[np.float64]
Pairs = NDArray[np.int64]


@dataclass(frozen=True)
class Answer:
    """What somebody says of n sites.

    Parameters
    ----------
    edges : int64, sorted: each edge twice, as ``i * n + j``.
    length : float64: of the edges, CRS units or radians.
    area : float64 (n,): square CRS units or square metres; NaN where nothing is said.
    corner : float64 (n,): squared distance of the furthest corner in the tangent plane, where it is known.
    """

    edges: Pairs
    length: Floats
    area: Floats
    corner: Floats | None = None


def taxi_lonlat(count: int, seed: int = 0) -> Floats:
    """Return distinct taxi positions, float64 (count, 2); made ones where there is no real data."""
    rng = np.random.default_rng(seed)
    every = positions("taxi", 2 * count, seed) if not missing("taxi") else streets(rng, 4 * count)
    every = np.unique(every, axis=0)
    return every[np.sort(rng.permutation(len(every))[:count])]


def scene(name: str, scale: float) -> tuple[str, Floats]:
    """Return the CRS and the positions of one comparison."""
    rng = np.random.default_rng(3)
    plane, sphere = int(200_000 * scale), int(50_000 * scale)
    if name == "uniform plane":
        return "none", rng.uniform(0, 100_000, (plane, 2))
    if name == "taxi plane":
        return "EPSG:32610", metres(taxi_lonlat(plane))
    if name == "uniform sphere":
        lon = rng.uniform(-180, 180, sphere)
        return "EPSG:4326", np.column_stack([lon, np.degrees(np.arcsin(rng.uniform(-1, 1, sphere)))])
    return "EPSG:4326", taxi_lonlat(sphere)


SCENES = ("uniform plane", "taxi plane", "uniform sphere", "taxi sphere")


# -- what the oracles say ---------------------------------------------------------------------------------------------


def planar_oracle(sites: Floats, bounds: Floats) -> Answer:
    """scipy's planar diagram of centred sites, its neighbours clipped to the bounds in long double."""
    theirs = Voronoi(sites - sites.mean(axis=0))
    pairs = np.concatenate([theirs.ridge_points, theirs.ridge_points[:, ::-1]]).astype(np.int64)
    pairs = pairs[np.lexsort(pairs.T[::-1])]
    first = np.searchsorted(pairs[:, 0], np.arange(len(sites) + 1))
    return clipped(sites, first, pairs[:, 1], bounds)


def spherical_oracle(sites: Floats) -> Answer:
    """scipy's spherical diagram, each cell clipped by its neighbours in the tangent plane in long double.

    A town's sites are flatter than the rounding of Qhull's hull, which loses edges: the truth is long double by the
    nearest sites, and in how many cells scipy differs from it is printed.
    """
    theirs = SphericalVoronoi(sites, threshold=1e-14)
    owner = np.repeat(np.arange(len(sites)), [len(region) for region in theirs.regions])
    corner = np.concatenate(theirs.regions)
    # cells that share a corner are candidates: edges of no length are there too
    order = np.argsort(corner, kind="stable")
    group = np.split(owner[order], np.flatnonzero(np.diff(corner[order])) + 1)
    pairs = np.concatenate([np.stack(np.meshgrid(g, g), axis=-1).reshape(-1, 2) for g in group])
    pairs = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)
    first = np.searchsorted(pairs[:, 0], np.arange(len(sites) + 1))
    alone = clipped(sites, first, pairs[:, 1], None)
    truth = nearest_clipped(sites)
    lost = int((np.abs(alone.area / truth.area - 1.0) > 1e-12).sum())
    print(f"  SphericalVoronoi alone has {lost:,} wrong cells")
    return truth


def nearest_clipped(sites: Floats) -> Answer:
    """Each spherical cell clipped by its nearest sites, more of them until none further off could cut it."""
    tree, n = cKDTree(sites), len(sites)
    area = np.full(n, np.nan)
    edges, length = [], []
    left, k = np.arange(n), min(NEAREST, n - 1)
    while len(left):
        distance, near = tree.query(sites[left], k + 1)
        others = near[near != left[:, None]].reshape(len(left), k).astype(np.int64)
        found = clipped(sites, np.arange(len(left) + 1) * k, others.ravel(), None, left)
        # the furthest corner at c in the tangent plane: sites beyond the chord 2 c / sqrt(1 + c^2) are too far
        far = found.corner[left]
        done = (k == n - 1) | (distance[:, -1] ** 2 > 4.0 / (1.0 / far + 1.0) * (1.0 + 1e-9))
        area[left[done]] = found.area[left[done]]
        kept = np.isin(found.edges // n, left[done])
        edges.append(found.edges[kept])
        length.append(found.length[kept])
        left, k = left[~done], min(8 * k, n - 1)
    return _sorted(np.concatenate(edges), np.concatenate(length), area)


def clipped(sites: Floats, first: Pairs, near: Pairs, bounds: Floats | None, which: Pairs | None = None) -> Answer:
    """Clip each cell, or those of some sites, by the sites near it in long double, in the plane of its site."""
    wide = np.longdouble
    area, corner = np.full(len(sites), np.nan), np.full(len(sites), np.inf)
    edges, length = [], []
    for row, i in enumerate(range(len(sites)) if which is None else which.tolist()):
        js = near[first[row] : first[row + 1]]
        s, d = sites[i].astype(wide), sites[js].astype(wide) - sites[i].astype(wide)
        if bounds is None:
            s = s / np.sqrt((s * s).sum())
            helper = np.zeros(3, wide)
            helper[np.argmin(np.abs(s))] = 1
            e1 = np.cross(helper, s)
            e1 /= np.sqrt((e1 * e1).sum())
            e2 = np.cross(s, e1)
            lines = np.stack([d @ e1, d @ e2], axis=1)
            half = 6 * wide(1)
            corners = [(-half, -half), (half, -half), (half, half), (-half, half)]
        else:
            lines = d
            low, high = bounds[:2].astype(wide) - s, bounds[2:].astype(wide) - s
            corners = [(low[0], low[1]), (high[0], low[1]), (high[0], high[1]), (low[0], high[1])]
        h = (d * d).sum(axis=1) / 2
        polygon = [(u, v, -1) for u, v in corners]
        for j in np.argsort(h, kind="stable").tolist():
            polygon = _cut(polygon, lines[j, 0], lines[j, 1], h[j], j)
        if bounds is None and any(j < 0 for _, _, j in polygon):
            continue  # reaches further than the picture: the whole sphere's sum covers it
        total = wide(0)
        corner[i] = max(float(u * u + v * v) for u, v, _ in polygon)
        for (u, v, j), (u2, v2, _) in zip(polygon, polygon[1:] + polygon[:1], strict=True):
            cross = u * v2 - u2 * v
            if bounds is None:
                a, b = np.sqrt(1 + u * u + v * v), np.sqrt(1 + u2 * u2 + v2 * v2)
                total += 2 * np.arctan2(cross, a * b + u * u2 + v * v2 + 1 + a + b)
                gap = np.sqrt((u2 - u) ** 2 + (v2 - v) ** 2 + cross * cross) / (a * b)
            else:
                total += cross / 2
                gap = np.sqrt((u2 - u) ** 2 + (v2 - v) ** 2)
            if j >= 0:
                edges.append(i * len(sites) + int(js[j]))
                length.append(float(gap))
        area[i] = float(total) * (EARTH_RADIUS**2 if bounds is None else 1.0)
    return _sorted(np.array(edges, np.int64), np.array(length), area, corner)


def _cut(polygon: list[tuple], dx, dy, h, number: int) -> list[tuple]:
    past = [u * dx + v * dy - h for u, v, _ in polygon]
    if max(past) <= 0:
        return polygon
    out = []
    for i, (u, v, owner) in enumerate(polygon):
        u2, v2, _ = polygon[(i + 1) % len(polygon)]
        a, b = past[i], past[(i + 1) % len(polygon)]
        if a <= 0:
            out.append((u, v, owner))
        if (a <= 0) != (b <= 0):
            share = a / (a - b)
            # the edge goes on with its owner where it comes in, and with the cut's where it leaves
            out.append((u + share * (u2 - u), v + share * (v2 - v), number if a <= 0 else owner))
    return out


def _sorted(edges: Pairs, length: Floats, area: Floats, corner: Floats | None = None) -> Answer:
    order = np.argsort(edges, kind="stable")
    return Answer(edges[order], length[order], area, corner)


# -- what we say ------------------------------------------------------------------------------------------------------


def ours(index: dtoss.Index, sites: Floats) -> Answer:
    """What an index says of its sites, put together from all partitions and the border table."""
    n = len(sites)
    number = {site.tobytes(): i for i, site in enumerate(sites)}
    view = CellView(index.space, index.engine.opened, index._bounds, index.border)
    area = np.full(n, np.nan)
    edges = []
    for partition in index.parts.all():
        own = np.array([number[s.tobytes()] for s in partition.sites[: partition.owned_sites]], np.int64)
        if not np.isnan(area[own]).all():
            raise RuntimeError(f"partition {partition.number} owns a site that another one owns")
        area[own] = np.concatenate([cells.area for cells in cells_of(view, partition)] or [np.zeros(0)])
        edges.append(_listed(partition, index.border, own, number, n))
    every = np.unique(np.concatenate(edges))
    pairs = np.stack([every // n, every % n], axis=1)
    first = np.searchsorted(pairs[:, 0], np.arange(n + 1))
    bounds = None if index.bounds is None else np.array(index.bounds)
    made = shapes(sites, first, sites[pairs[:, 1]], bounds)
    real = made.owner >= 0
    length = np.bincount(made.owner[real], made.length[real], minlength=len(every))
    return Answer(every, length, area)


def _listed(partition: Partition, border, own: Pairs, number: dict[bytes, int], n: int) -> Pairs:
    """Every edge that a partition or the border table lists for the partition's own sites."""
    graph = partition.graph
    all_sites = np.array([number[s.tobytes()] for s in partition.sites], np.int64)
    source = np.repeat(np.arange(partition.owned_sites), np.diff(graph.first[: partition.owned_sites + 1]))
    target = graph.neighbours[: len(source)]
    certified = ~np.isin(source, partition.uncertified)
    edges = own[source[certified]] * n + all_sites[target[certified]]
    site, first, others = border_edges(partition, border)
    ends = np.array([number[s.tobytes()] for s in others], np.int64)
    return np.concatenate([edges, np.repeat(own[site], np.diff(first)) * n + ends])


def compare(name: str, scale: float = 1.0) -> list[str]:
    """Compare one scene in all numbers of partitions; print a line for each, and return what is wrong."""
    crs, positions = scene(name, scale)
    space = space_of(crs)
    sites = np.unique(space.vectors(positions), axis=0)
    sites = np.ascontiguousarray(sites[radix_order(curve_keys(sites))])
    one = dtoss.build(np.arange(len(positions)), positions, crs=crs, partitions=1)
    bounds = None if one.bounds is None else np.array(one.bounds)
    begin = time.perf_counter()
    theirs = spherical_oracle(sites) if bounds is None else planar_oracle(sites, bounds)
    print(f"{name}: oracle of {len(sites):,} sites in {time.perf_counter() - begin:.0f} s", flush=True)
    shortest = SHORT if bounds is None else SHORT * float(np.hypot(*(bounds[2:] - bounds[:2])))
    whole = 4 * np.pi * EARTH_RADIUS**2 if bounds is None else float(np.prod(bounds[2:] - bounds[:2]))
    wrong = []
    for partitions in PARTITIONS:
        for reach in (None, 0.0) if partitions > 1 else (None,):
            index = dtoss.build(np.arange(len(positions)), positions, crs=crs, partitions=partitions, reach=reach)
            mine = ours(index, sites)
            found = differences(mine, theirs, len(sites), shortest, whole)
            title = f"{name}, {partitions} partitions, lambda {'chosen' if reach is None else reach}"
            print(f"  {title}: {found['text']}", flush=True)
            if not found["equal"]:
                wrong.append(title)
    return wrong


def differences(mine: Answer, theirs: Answer, n: int, shortest: float, whole: float) -> dict:
    """Count the neighbours that differ and return the largest errors of areas."""
    # rounding of the two lengths decides at the threshold itself
    said, meant = _long(mine, shortest), _long(theirs, shortest)
    seen = ~np.isnan(theirs.area)
    missing = np.setdiff1d(meant[seen[meant // n]], mine.edges[mine.length > 0.999 * shortest])
    extra = np.setdiff1d(said[seen[said // n]], theirs.edges[theirs.length > 0.999 * shortest])
    one_sided = np.setdiff1d(said, (said % n) * n + said // n)
    one_sided = one_sided[~np.isclose(mine.length[np.searchsorted(mine.edges, one_sided)], shortest, rtol=1e-3)]
    error = np.abs(mine.area[seen] / theirs.area[seen] - 1.0)
    small = theirs.area[seen] < SMALL
    large_error, small_error = float(error[~small].max(initial=0.0)), float(error[small].max(initial=0.0))
    total = abs(mine.area.sum() / whole - 1.0)
    equal = len(missing) == len(extra) == len(one_sided) == 0
    equal = equal and large_error <= 1e-9 and small_error <= 1e-7 and total <= 1e-9
    text = (
        f"{len(missing)} neighbours missing, {len(extra)} extra, {len(one_sided)} one-sided of {len(meant):,}; "
        f"areas within {large_error:.1e} ({small_error:.1e} of {int(small.sum()):,} below {SMALL:g} m2), "
        f"sum within {total:.1e}, {int((~seen).sum())} cells by their sum alone"
    )
    return {"equal": equal, "text": text}


def _long(answer: Answer, shortest: float) -> Pairs:
    return answer.edges[answer.length > shortest]


def main() -> None:
    """Compare all of them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--scale", type=float, default=1.0, help="of the sizes of the comparison")
    options = parser.parse_args()
    wrong = [title for name in SCENES for title in compare(name, options.scale)]
    for title in wrong:
        print(f"not equal: {title}", file=sys.stderr)
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
