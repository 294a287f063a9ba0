"""Objects on one line: every cell reaches round the Earth, and each costs no more than its logarithm."""

import numpy as np
import pytest

import dtoss
from dtoss.cells import voronoi as module
from dtoss.cells.line_order import line_order
from dtoss.cells.oriented_boxes import Oriented
from dtoss.cells.voronoi import voronoi
from dtoss.geometry.hilbert import curve_keys, radix_order, take_rows
from dtoss.geometry.space import space_of
from tests import oracles
from tests.dtoss.scenes import in_partitions


def circle(name, n, seed=5):
    """Places along a circle by angle, in order, and their unit vectors: areas are known in closed form."""
    rng = np.random.default_rng(seed)
    angle = np.sort(rng.uniform(0.0, np.radians(1.0) if "track" in name else 2 * np.pi, n))
    latitude = {"parallel": np.pi / 4, "small circle": np.radians(89.0)}.get(name, 0.0)
    vectors = np.stack(
        [np.cos(latitude) * np.cos(angle), np.cos(latitude) * np.sin(angle), np.full(n, np.sin(latitude))], axis=1
    )
    if "equator" not in name:
        turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))
        vectors = vectors @ turn.T
        vectors /= np.linalg.norm(vectors, axis=1)[:, None]
    return angle, vectors


CIRCLES = ("equator", "great circle", "track", "track on the equator", "parallel", "small circle")


def diagram_of(vectors, bounds=None):
    order = radix_order(curve_keys(vectors))
    diagram = voronoi(take_rows(vectors, order), bounds)
    area, near = np.empty(len(vectors)), [set() for _ in vectors]
    area[order] = diagram.area
    for i, site in enumerate(order.tolist()):
        near[site] = set(order[diagram.neighbours[diagram.first[i] : diagram.first[i + 1]]].tolist())
    return area, near


@pytest.fixture
def seen(monkeypatch):
    """What each call of ``rim_cells`` made."""
    made, rim = [], module.rim_cells

    def counted(*arguments):
        made.append(rim(*arguments))
        return made[-1]

    monkeypatch.setattr(module, "rim_cells", counted)
    return made


@pytest.mark.parametrize("name", CIRCLES)
def test_cells_of_a_circle_are_lunes(name):
    """Each between the great circles half way to the next ones: the area is the sum of the two gaps."""
    n = 700
    angle, vectors = circle(name, n)
    area, near = diagram_of(vectors)
    gap = np.diff(angle, append=angle[0] + 2 * np.pi)
    # the last digit of a site turns the border with a near one, by so much over the gap
    digit = 1e-13 if name == "small circle" else 1e-15
    turned = digit / gap + digit / np.roll(gap, 1)
    assert (np.abs(area - gap - np.roll(gap, 1)) <= 2e-12 + turned).all()
    assert area.sum() == pytest.approx(4 * np.pi, rel=1e-12)
    for i in range(n):
        assert {(i - 1) % n, (i + 1) % n} <= near[i]
        assert all(i in near[j] for j in near[i])


@pytest.mark.parametrize("name", CIRCLES)
def test_the_work_grows_as_the_logarithm(name, seen):
    """Nodes of the tree looked into for a cell; without boxes along the sites it was one in eight of all sites."""
    for n in (4_000, 16_000):
        seen.clear()
        diagram_of(circle(name, n)[1])
        assert sum(len(made.degree) for made in seen) == n
        most = 20 if name == "small circle" else 5
        assert sum(made.visits for made in seen) <= most * np.log2(n) * n


def test_a_crowd_makes_no_tree_along_lines(monkeypatch):
    """Its outermost cells are cut by many sites, and the tree would take longer than all of them."""
    asked = []
    lines = Oriented.lines
    monkeypatch.setattr(Oriented, "lines", lambda self: asked.append(self) or lines(self))
    rng = np.random.default_rng(0)
    diagram_of(space_of(None, None).vectors(np.array([10.0, 50.0]) + rng.normal(size=(60_000, 2))))
    assert not asked
    diagram_of(circle("great circle", 2_000)[1])
    assert asked


def meeting(name, n):
    """Places on lines that meet, or nearly do: the sites of all of them lie between each other on the curve."""
    rng = np.random.default_rng(4)
    along, none = rng.uniform(-80, 80, n), np.zeros(n)
    if name == "cross":
        return np.where(
            (rng.random(n) < 0.5)[:, None], np.stack([along, none], axis=1), np.stack([none, along], axis=1)
        )
    if name == "two parallels":
        return np.stack([2 * along, np.where(rng.random(n) < 0.5, 10.0, 10.001)], axis=1)
    return np.stack([rng.integers(0, {"two meridians": 2, "ten meridians": 10}[name], n) * 0.001, along], axis=1)


@pytest.mark.parametrize("name", ["two parallels", "two meridians", "ten meridians", "cross"])
def test_the_work_of_lines_that_meet_or_nearly_do(name, seen):
    for n in (4_000, 16_000):
        seen.clear()
        area, _ = diagram_of(space_of(None, None).vectors(meeting(name, n)))
        count = sum(len(made.degree) for made in seen)
        assert count > n / 6
        most = 8 if name == "cross" else 5
        assert sum(made.visits for made in seen) <= most * np.log2(n) * count
        assert area.sum() == pytest.approx(4 * np.pi, rel=1e-12)


@pytest.mark.parametrize("name", ["two meridians", "ten meridians"])
def test_sites_of_a_line_follow_each_other(name):
    """But for those at its ends, eight sites of a leaf are of one line."""
    places = meeting(name, 4_000)
    order = line_order(space_of(None, None).vectors(places))
    assert np.array_equal(np.sort(order), np.arange(4_000))
    leaves = places[order, 0].reshape(-1, 8)
    assert (leaves != leaves[:, :1]).any(axis=1).sum() <= 20


@pytest.mark.parametrize("n", [1, 2, 8, 9, 64, 65, 1000])
@pytest.mark.parametrize("kind", ["sphere", "plane", "one place", "few places", "line"])
def test_every_site_has_its_place_in_the_order(n, kind):
    rng = np.random.default_rng(n)
    sites = rng.normal(size=(n, 2 if kind == "plane" else 3))
    sites *= {"one place": [[0.0]], "few places": rng.integers(1, 4, (n, 1)), "line": [[1.0, 0.0, 0.0]]}.get(kind, 1.0)
    if kind == "few places":
        sites[:] = sites[:, :1]
    assert np.array_equal(np.sort(line_order(sites)), np.arange(n))


def test_cells_of_tilted_lines_in_the_plane():
    """Coordinates of millions of metres, whose last digits put no site exactly on the line."""
    rng = np.random.default_rng(3)
    along = np.sort(rng.uniform(0, 1e5, 3000))
    sites = np.stack([4e5 + along, 5e6 + 0.3 * along], axis=1)
    low, high = sites.min(axis=0) - 1e4, sites.max(axis=0) + 1e4
    area, near = diagram_of(sites, np.concatenate([low, high]))
    assert area.sum() == pytest.approx(np.prod(high - low), rel=1e-12)
    for i in range(len(sites)):
        assert {j for j in (i - 1, i + 1) if 0 <= j < len(sites)} <= near[i]
    for i in rng.choice(len(sites), 20, replace=False).tolist():
        assert area[i] == pytest.approx(oracles.planar_cell(sites, i, np.concatenate([low, high]))[1], rel=1e-7)


@pytest.mark.parametrize(("name", "partitions"), in_partitions(["meridian", "two meridians", "track"], "two meridians"))
def test_an_index_of_a_line_answers(name, partitions):
    """Nearest, areas, neighbours and reverse nearest; almost no cell is certified, so the border table holds them."""
    rng = np.random.default_rng(8)
    n = 150
    along = rng.permutation(np.linspace(-80, 80, n) + rng.uniform(-0.2, 0.2, n))
    lon = {"meridian": np.full(n, 17.0), "two meridians": np.where(rng.random(n) < 0.5, 17.0, 107.0)}.get(name)
    places = np.stack([along / 100, along / 300], axis=1) if lon is None else np.stack([lon, along], axis=1)
    index = dtoss.build(np.arange(n), places, partitions=partitions)
    space = space_of(None, None)
    queries = np.concatenate([places[:10] + np.array([0.0, 0.01]), rng.uniform(-90, 90, (10, 2)) * [2.0, 1.0]])
    hits = index.knn(queries, 4)
    expected = oracles.knn(space, np.arange(n), places, queries, 4)
    assert list(zip(hits.query.tolist(), hits.id.tolist(), strict=True)) == [row[:2] for row in expected]
    total = 0.0
    for i in range(n):
        total += index.area(i)
    assert total == pytest.approx(4 * np.pi * dtoss.geometry.distance.EARTH_RADIUS**2, rel=1e-9)
    ranks = np.argsort(along)
    if name != "two meridians":
        for a, b in zip(ranks[:-1].tolist(), ranks[1:].tolist(), strict=True):
            assert b in index.neighbours(a).tolist()
            assert a in index.neighbours(b).tolist()
    found = index.reverse_nearest(queries[:6])
    wanted = oracles.reverse_nearest(space, list(range(n)), places, queries[:6])
    assert list(zip(found.query.tolist(), found.id.tolist(), strict=True)) == [row[:2] for row in wanted]
