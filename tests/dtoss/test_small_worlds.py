"""All kinds of answers about worlds of some dozen objects, small enough for kernels that run as Python."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import dtoss
from dtoss.cells import rim
from dtoss.cells import voronoi as diagrams
from dtoss.cells.box_tree import box_tree, child_columns, leaf_columns
from dtoss.cells.line_order import line_order
from dtoss.cells.oriented_boxes import Oriented
from dtoss.cells.rim import Search, rim_cells
from dtoss.cells.voronoi import voronoi
from dtoss.compiled.checked import CheckedKernel
from dtoss.compiled.kernel import kernel
from dtoss.compiled.lanes16 import LANES
from dtoss.compiled.pointers import pointer
from dtoss.compiled.rank_sort import sort_keys
from dtoss.geometry.hilbert import curve_keys, radix_order, take_rows
from dtoss.queries.workspace import workspace
from dtoss.snapshots.partition_file import decode, encode
from tests import oracles, worlds
from tests.dtoss.scenes import room_for
from tests.dtoss.snapshots.damaged_stores import stored

pytestmark = pytest.mark.checked

AWKWARD = ("ulps", "flat lattice")
"""Kinds of worlds of which one of a few objects is asked everything."""


@pytest.fixture(autouse=True)
def _nothing_is_seen():
    """Whatever way a search ended, no block is marked as seen by the next one."""
    yield
    assert not workspace.seen.any()


def rows(hits):
    return list(zip(hits.query.tolist(), hits.id.tolist(), hits.distance.tolist(), strict=True))


class Small:
    """An index, and what it was made of."""

    def __init__(self, metric: str, partitions: int, strings: bool) -> None:
        rng = np.random.default_rng(partitions)
        some = rng.uniform([-170.0, -80.0], [170.0, 80.0], (26, 2)).round(1)
        crowd = np.array([20.0, 40.0]) + rng.integers(-3, 4, (14, 2)) * 1e-3
        edges = [[0.0, 90.0], [0.0, -90.0], [180.0, 3.0], [-180.0, 3.0]]
        self.positions = np.concatenate([some, some[:4], crowd, edges])
        n = len(self.positions)
        self.ids = rng.permutation(n).tolist()
        if strings:
            self.ids = [f"z{i}" if i % 3 else f"é{i}" for i in self.ids]
        self.grade = np.array(self.ids if not strings else np.arange(n)) % 3
        self.index = dtoss.build(
            np.array(self.ids, dtype=object if strings else np.int64), self.positions, partitions=partitions,
            columns={"grade": pa.array(self.grade)}, crs="none" if metric == "plane" else None,
        )  # fmt: skip
        far = rng.uniform([-170.0, -89.0], [170.0, 89.0], (8, 2))
        self.asked = np.concatenate([far, self.positions[::9], self.positions[32:34] + 1e-4, [[0.0, 90.0]]])
        self.reach = 2.5e6 if metric == "sphere" else 25.0


@pytest.fixture(
    scope="module", params=[("sphere", 1, False), ("sphere", 7, True), ("plane", 2, True), ("plane", 7, False)],
    ids=lambda kind: f"{kind[0]} {kind[1]}",
)  # fmt: skip
def small(request):
    return Small(*request.param)


@pytest.mark.parametrize("k", [1, 8, 32])
def test_the_nearest(small, k):
    """In a batch in curve order, and each by itself."""
    expected = oracles.knn(small.index.space, small.ids, small.positions, small.asked, k)
    assert rows(small.index.knn(small.asked, k)) == expected
    alone = [small.index.knn(place, k) for place in small.asked]
    assert [row for q, hits in enumerate(alone) for row in rows(hits)] == [(0, *row[1:]) for row in expected]
    near = oracles.knn(small.index.space, small.ids, small.positions, small.asked, k, small.reach)
    assert rows(small.index.knn(small.asked, k, max_distance=small.reach)) == near


@pytest.mark.parametrize("k", [1, 8])
def test_one_place_by_itself(small, k):
    """With too little room at first, within a distance, on and beyond the edge of what is legal."""
    with room_for(first=4, kept=3):
        workspace.trim()
        for place in small.asked[::3]:
            for reach in (np.inf, 0.0, small.reach, 1e9):
                expected = oracles.knn(small.index.space, small.ids, small.positions, place[None], k, reach)
                assert rows(small.index.knn(place, k, max_distance=reach)) == expected
                if k == 1:
                    within = oracles.within(small.index.space, small.ids, small.positions, place[None], reach)
                    assert rows(small.index.range(place, reach)) == within
                    assert small.index.count(place, reach).tolist() == [len(within)]
    for ask in (small.index.knn, small.index.range):
        with pytest.raises(ValueError, match="legal"):
            ask([1e91, 0.0], k)


def test_objects_by_their_ids(small):
    """Each is where it was put, and there is no other."""
    for one, place in zip(small.ids, small.positions, strict=True):
        found = small.index[one]
        assert [found["lon" if "lon" in found else "x"], found["lat" if "lat" in found else "y"]] == place.tolist()
    assert not any(one in small.index for one in (-1, len(small.ids), "z", "zz9", "y1"))


def test_ranges_and_counts(small):
    """Of nothing, of some and of all."""
    for radius in (0.0, small.reach, 1e9):
        expected = oracles.within(small.index.space, small.ids, small.positions, small.asked, radius)
        assert rows(small.index.range(small.asked, radius)) == expected
        counts = np.bincount([q for q, _, _ in expected], minlength=len(small.asked)).tolist()
        assert small.index.count(small.asked, radius).tolist() == counts
        assert [int(small.index.count(place, radius)[0]) for place in small.asked] == counts


def test_conditions(small):
    """Through a mask, which two thirds of the objects pass, and from an index of the third that passes another."""
    asked = small.asked[::2]
    for where, passes in (("grade > 0", small.grade > 0), ("grade = 0", small.grade == 0)):
        ids = [i for i, one in zip(small.ids, passes, strict=True) if one]
        for k in (1, 8, 32):
            expected = oracles.knn(small.index.space, ids, small.positions[passes], asked, k)
            assert rows(small.index.knn(asked, k, where=where)) == expected
        expected = oracles.within(small.index.space, ids, small.positions[passes], asked, small.reach)
        assert rows(small.index.range(asked, small.reach, where=where)) == expected
        counts = np.bincount([q for q, _, _ in expected], minlength=len(asked)).tolist()
        assert small.index.count(asked, small.reach, where=where).tolist() == counts


def test_cells(small):
    """Those of all partitions fill the bounds or the sphere, and each edge has two ends."""
    index = small.index
    place = [tuple(vector) for vector in index.space.vectors(small.positions).tolist()]
    one = {at: min(i for i, there in zip(small.ids, place, strict=True) if there == at) for at in place}
    area = [index.area(i) for i in one.values()]
    if index.space.metric == "plane":
        xmin, ymin, xmax, ymax = index.bounds
        assert sum(area) == pytest.approx((xmax - xmin) * (ymax - ymin), rel=1e-9)
    else:
        assert sum(area) == pytest.approx(4.0 * np.pi * 6_371_008.8**2, rel=1e-9)
    near = {i: set(index.neighbours(i).tolist()) for i in one.values()}
    assert all(i in near[j] for i in near for j in near[i])
    for i in list(one.values())[::7]:
        ring = index.cell(i)
        assert np.isfinite(ring).all()
        assert len(ring) > 2


def test_a_partition_goes_through_its_file(small):
    """What is read back is equal, and its blocks hold their sites."""
    for partition in small.index.parts.all():
        again = decode(encode(partition), "a partition")
        assert again.sites.tobytes() == partition.sites.tobytes()
        assert again.blocks.neighbours.tolist() == partition.blocks.neighbours.tolist()
        home = np.arange(len(again.sites)) // 16
        centre, radius = again.blocks.balls[home, : again.sites.shape[1]], again.blocks.balls[home, 3]
        assert (np.linalg.norm(again.sites - centre, axis=1) <= radius).all()


@pytest.mark.parametrize("ids", [range(-20, 20), [-(2**63), -1, 0, 2**63 - 1], [f"é{i}"[i % 2 :] for i in range(40)]])
def test_ids_of_all_kinds_through_files(ids, tmp_path):
    """Through the order and the filter of a file, which are checked when it is opened."""
    positions = np.random.default_rng(0).uniform(-50.0, 50.0, (len(ids), 2))
    index = dtoss.open(stored(dtoss.build(list(ids), positions, partitions=3), tmp_path / "store"))
    for one, place in zip(ids, positions.tolist(), strict=True):
        assert [index[one]["lon"], index[one]["lat"]] == place
    assert all(one not in index for one in ([20, -21, 2**62] if isinstance(ids[0], int) else ["", "é", "é400", "x"]))


@pytest.mark.parametrize("kind", AWKWARD)
def test_awkward_worlds(kind):
    """A world of 3 to 5 objects, and an oracle that shares no code."""
    seed = next(seed for seed in range(100) if 3 <= len(worlds.world(kind, seed).ids) <= 5)
    world = worlds.world(kind, seed)
    index = worlds.build(world)
    assert worlds.compare(world, index) + worlds.compare_cells(world, index) == []


def along(sites):
    return take_rows(sites, radix_order(curve_keys(sites)))


def neighbours_of(diagram):
    return [sorted(diagram.neighbours[a:b].tolist()) for a, b in zip(diagram.first, diagram.first[1:], strict=False)]


def test_lines_in_the_plane(monkeypatch):
    """With the tree along lines from the start, as where upright boxes have been looked into in vain."""
    t = np.arange(30.0)
    sites = along(np.concatenate([np.stack([t, 0.3 * t], axis=1), np.stack([t, 40.0 - 0.5 * t], axis=1)]))
    bounds = np.array([-5.0, -5.0, 45.0, 45.0])
    plain = voronoi(sites, bounds)
    monkeypatch.setattr(diagrams, "NO_LINES", Oriented(sites).lines())
    guided = voronoi(sites, bounds)
    assert neighbours_of(guided) == neighbours_of(plain)
    assert guided.area == pytest.approx(plain.area, rel=1e-12)


@pytest.mark.parametrize("aligned", [False, True])
def test_cells_of_the_sphere_that_reach_far(aligned):
    """Sites on a tilted circle and at a pole, cut in 3-D by the tree in curve order or by the one along lines."""
    turn = np.radians(np.arange(0.0, 360.0, 30.0))
    ring = np.stack([np.cos(turn), np.sin(turn), 0.2 * np.cos(turn) + 0.1], axis=1)
    sites = along(np.concatenate([ring / np.linalg.norm(ring, axis=1)[:, None], [[0.0, 0.0, 1.0]]]))
    oriented = Oriented(sites)
    lines, tree = oriented.lines(), box_tree(sites)
    search = Search(tree, leaf_columns(sites), child_columns(tree), oriented)
    if aligned:
        search = Search(tree, lines.columns, lines.children, oriented)
    with pytest.MonkeyPatch.context() as patch:
        if aligned:
            patch.setattr(rim, "NO_LINES", lines)
        found = rim_cells(
            sites, search, np.arange(len(sites)), np.zeros(len(sites) + 1, np.int64), np.zeros(0, np.int32)
        )
    area, edges = oracles.exact_cells(sites)
    assert found.area == pytest.approx(area, rel=1e-9)
    begin = np.cumsum(found.degree) - found.degree
    listed = {(i, int(j)) for i, a in enumerate(begin.tolist()) for j in found.neighbours[a : a + found.degree[i]]}
    assert {edge for edge, length in edges.items() if length > 1e-9} <= listed


def test_a_site_in_a_ring_has_more_edges_than_a_mask_has_bits():
    """Polygons of more than 48 vertices are cut without masks."""
    turn = np.linspace(0.0, 2.0 * np.pi, 60, endpoint=False)
    ring = np.concatenate([np.stack([np.cos(turn), np.sin(turn)], axis=1), [[0.001, 0.002]]])
    sites = along(ring)
    centre = int(np.argmin((sites**2).sum(axis=1)))
    bounds = np.array([-2.0, -2.0, 2.0, 2.0])
    wanted = np.arange(len(sites)) == centre
    diagram = voronoi(sites, bounds, wanted=wanted)
    edges, area = oracles.planar_cell(sites, centre, bounds)
    assert len(edges) > 50
    assert neighbours_of(diagram)[centre] == sorted(edges)
    assert diagram.area[centre] == pytest.approx(area, rel=1e-9)


def test_more_hits_than_are_sorted_by_counting():
    """Many objects on few places, all of them asked for: they are put into rings by their distance first."""
    rng = np.random.default_rng(5)
    positions = np.repeat(rng.uniform(-50.0, 50.0, (40, 2)), 5, axis=0)
    ids = rng.permutation(len(positions))
    index, asked = dtoss.build(ids, positions, crs="none"), np.array([[1.0, 2.0], [70.0, 0.0]])
    expected = oracles.within(index.space, ids.tolist(), positions, asked, 200.0)
    assert rows(index.range(asked, 200.0)) == expected
    assert rows(index.knn(asked, 150)) == oracles.knn(index.space, ids.tolist(), positions, asked, 150)


@pytest.mark.parametrize("metric", ["sphere", "plane"])
def test_partitions_are_opened_when_a_query_needs_them(tmp_path, metric):
    """Each question begins with a snapshot of which nothing is open, and all of its partitions are asked for."""
    rng = np.random.default_rng(8)
    positions, ids = rng.uniform(-80.0, 80.0, (24, 2)), np.arange(24)
    crs = "none" if metric == "plane" else None
    path = stored(dtoss.build(ids, positions, partitions=7, crs=crs), tmp_path)
    asked = rng.uniform(-80.0, 80.0, (3, 2))
    space = dtoss.open(path).space
    for k in (1, 20):
        assert rows(dtoss.open(path).knn(asked, k)) == oracles.knn(space, ids, positions, asked, k)
    for radius in (50.0, 1e9) if metric == "plane" else (5e6, 1e9):
        expected = oracles.within(space, ids, positions, asked, radius)
        assert rows(dtoss.open(path).range(asked, radius)) == expected
        assert rows(dtoss.open(path).range(asked[0], radius)) == [hit for hit in expected if hit[0] == 0]


@pytest.mark.parametrize("metric", ["sphere", "plane"])
def test_objects_in_a_polygon(metric):
    """Inside, on its edges and corners, and beside it."""
    ring = [[-20.0, -15.0], [30.0, -15.0], [25.0, 40.0], [5.0, 10.0], [-20.0, 35.0], [-20.0, -15.0]]
    x, y = np.meshgrid(np.arange(-40.0, 41.0, 20.0), np.arange(-15.0, 50.0, 12.5))
    positions = np.concatenate([np.stack([x.ravel(), y.ravel()], axis=1), ring[:5], [[-20.0, 10.0]]])
    index = dtoss.build(np.arange(len(positions)), positions, crs="none" if metric == "plane" else None)
    inside = np.flatnonzero(oracles.in_polygon(index.space, [ring[:5]], positions))
    assert sorted(index.within(np.array(ring)).id.tolist()) == inside.tolist()


@pytest.mark.parametrize("crs", [None, "none"])
def test_neighbours_on_a_lattice(crs):
    """Four sites on one circle: none of them is a neighbour across it."""
    places = np.array([[x, y] for x in range(4) for y in range(4)]) * 10.0
    index = dtoss.build(np.arange(16), places, crs=crs, partitions=2)
    for i in (0, 5, 6):
        beside = np.flatnonzero(np.abs(places - places[i]).sum(axis=1) == 10.0)
        found = set(index.neighbours(i).tolist())
        assert found >= set(beside.tolist())
        assert not any(np.abs(places[j] - places[i]).tolist() == [10.0, 10.0] for j in found)


def test_many_objects_on_few_places():
    """More than are put in order one after another, in any order of their ids."""
    ids = np.random.default_rng(9).permutation(60)
    positions = np.repeat([[0.0, 0.0], [10.0, 5.0], [10.0, 5.1]], 20, axis=0)
    index = dtoss.build(ids, positions)
    asked = np.array([[10.0, 5.0], [0.0, 0.0]])
    for k in (1, 7, 50):
        assert rows(index.knn(asked, k)) == oracles.knn(index.space, ids.tolist(), positions, asked, k)


def test_many_objects_as_far():
    """48 places of whole numbers on one circle, with descending ids along the curve and with others."""
    side = np.arange(-75, 76)
    x, y = (a.ravel() for a in np.meshgrid(side, side))
    positions = np.column_stack([x, y])[x * x + y * y == 5525].astype(float)
    for ids in (np.random.default_rng(4).permutation(48), np.arange(48)[::-1]):
        index = dtoss.build(ids, positions, crs="none")
        assert index.range([0.0, 0.0], 75.0).id.tolist() == list(range(48))
        assert index.knn([0.0, 0.0], 40).id.tolist() == list(range(40))


def test_a_disc_of_many_blocks():
    """What a search comes to next is asked for ahead: sites, objects and ids; with one object a site and with two."""
    positions = np.random.default_rng(2).uniform(0.0, 9.0, (150, 2))
    for ids, at in ((np.arange(150), positions), (np.arange(300), np.repeat(positions, 2, axis=0))):
        index, asked = dtoss.build(ids, at, crs="none"), np.array([[4.0, 5.0]])
        expected = oracles.within(index.space, ids.tolist(), at, asked, 20.0)
        assert rows(index.range(asked, 20.0)) == expected
        assert index.count(asked, 20.0).tolist() == [len(expected)]


def test_sites_of_one_line_follow_each_other():
    """Two tilted circles of the sphere, and sites that lie on neither: at random they would alternate 80 times."""
    rng, turn = np.random.default_rng(2), np.linspace(0.0, 6.0, 36)
    some = [rng.normal(size=(30, 3))]
    for axis in ([1.0, 2.0, 3.0], [-1.0, 0.5, 2.0]):
        a = np.cross(axis, [0.0, 0.0, 1.0]) / np.linalg.norm(np.cross(axis, [0.0, 0.0, 1.0]))
        some.append(np.cos(turn)[:, None] * a + np.sin(turn)[:, None] * np.cross(axis, a) / np.linalg.norm(axis))
    vectors, mixed = np.concatenate(some), rng.permutation(102)
    vectors = vectors / np.linalg.norm(vectors, axis=1)[:, None]
    order = line_order(vectors[mixed])
    assert sorted(order.tolist()) == list(range(102))
    kind = np.repeat([0, 1, 2], [30, 36, 36])[mixed][order]
    assert np.count_nonzero(np.diff(kind)) < 30


@kernel
def keys_in_order(keys, n, out):
    sort_keys(pointer(keys), n, pointer(out))


@pytest.mark.parametrize("n", [0, 15, 16, 32, 40, 64, 70, 100, 300])
def test_sorted_keys(n):
    """By networks of 16, 32 and 64, by counting who is greater, and as a heap."""
    rng = np.random.default_rng(n)
    keys = np.zeros(max(n + LANES, 64), np.int64)
    keys[:n] = rng.permutation(3 * n)[:n]
    expected, out = np.sort(keys[:n]), np.empty(len(keys), np.int64)
    CheckedKernel(keys_in_order.py_func)(keys, n, out)
    assert out[:n].tolist() == expected.tolist()
