"""Voronoi diagrams: equal to scipy's and to long double, and to what theorems say."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import SphericalVoronoi, Voronoi

from dtoss.cells.diagram import PIECE, symmetric
from dtoss.cells.voronoi import voronoi
from dtoss.geometry.hilbert import curve_keys, radix_order
from dtoss.geometry.space import space_of
from tests import oracles
from tests.dtoss.scenes import along, box_of, neighbour_sets, random_sphere, taxis
from tests.dtoss.strategies import lonlat, planar
from tests.examples import examples

# an edge no longer than this share of the bounds' diagonal, or of the Earth's radius, counts for nothing
SHORT = 1e-9


def distinct(vectors):
    return along(np.unique(vectors, axis=0)) if len(vectors) else vectors


# -- the plane --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["kernel", "scipy"])
@pytest.mark.parametrize("shape", ["uniform", "clusters"])
def test_planar_neighbours_and_areas_equal_scipys(engine, shape):
    """The same neighbours wherever the shared edge lies inside the bounds and is not of no length."""
    rng = np.random.default_rng(11)
    if shape == "uniform":
        sites = along(rng.uniform(0, 1000, (4000, 2)))
    else:
        centres = rng.uniform(0, 1000, (20, 2))
        sites = along(centres[rng.integers(0, 20, 4000)] + rng.exponential(2.0, (4000, 1)) * rng.normal(size=(4000, 2)))
    bounds = box_of(sites)
    diagram = voronoi(sites, bounds, engine=engine)
    theirs = Voronoi(sites - sites.mean(axis=0))
    corner = theirs.vertices + sites.mean(axis=0)
    inside = ((corner >= bounds[:2]) & (corner <= bounds[2:])).all(axis=1)
    expected = [set() for _ in sites]
    open_ended = np.zeros(len(sites), bool)
    for (a, b), (u, v) in zip(theirs.ridge_points, theirs.ridge_vertices, strict=True):
        if u < 0 or v < 0 or not inside[u] or not inside[v]:
            open_ended[[a, b]] = True
        elif np.linalg.norm(corner[u] - corner[v]) > SHORT * np.hypot(*(bounds[2:] - bounds[:2])):
            expected[a].add(int(b))
            expected[b].add(int(a))
    found = neighbour_sets(diagram)
    closed = np.flatnonzero(~open_ended)
    assert len(closed) > 3800
    assert all(expected[i] <= found[i] for i in range(len(sites)))
    diagonal = np.hypot(*(bounds[2:] - bounds[:2]))
    extra = [(i, j) for i in closed.tolist() for j in found[i] - expected[i]]
    assert len(extra) < 0.001 * len(diagram.neighbours)
    assert all(oracles.planar_cell(sites, i, bounds)[0].get(j, 0.0) <= SHORT * diagonal for i, j in extra)
    for i in closed[:300].tolist():
        region = corner[theirs.regions[theirs.point_region[i]]]
        order = np.argsort(np.arctan2(*(region - sites[i]).T))
        x, y = (region - sites[i])[order].T
        area = abs(0.5 * (x * np.roll(y, -1) - y * np.roll(x, -1)).sum())
        assert diagram.area[i] == pytest.approx(area, rel=1e-9)
        assert diagram.radius[i] == pytest.approx(np.linalg.norm(region - sites[i], axis=1).max(), rel=1e-9)


@settings(max_examples=examples(150), deadline=None)
@given(planar(), st.sampled_from(["kernel", "scipy"]))
def test_small_planar_diagrams_equal_long_double(positions, engine):
    """Ties, lines, circles, duplicates removed: neighbours, areas and rim against brute force."""
    sites = distinct(positions)
    if len(sites) == 0:
        assert len(voronoi(np.zeros((0, 2)), np.array([0.0, 0, 1, 1]), engine=engine).area) == 0
        return
    bounds = box_of(sites)
    try:
        diagram = voronoi(sites, bounds, engine=engine)
    except ValueError as error:
        assert engine == "scipy"
        assert "lost" in str(error)  # noqa: PT017
        return
    check_plane(sites, bounds, diagram, range(len(sites)))
    assert diagram.area.sum() == pytest.approx((bounds[2] - bounds[0]) * (bounds[3] - bounds[1]), rel=1e-9)


def check_plane(sites, bounds, diagram, which):
    diagonal = np.hypot(*(bounds[2:] - bounds[:2]))
    found = neighbour_sets(diagram)
    for i in which:
        edges, area = oracles.planar_cell(sites, i, bounds)
        real = {j for j, length in edges.items() if length > SHORT * diagonal}
        assert real <= found[i]
        # what is listed besides is an edge of no length, or one that only rounding shows
        assert all(edges.get(j, 0.0) <= SHORT * diagonal for j in found[i] - real)
        assert diagram.area[i] == pytest.approx(area, rel=1e-9, abs=1e-12 * diagonal**2)
        assert all(i in found[j] for j in found[i])


def test_taxis_in_the_plane_equal_long_double():
    """Streets, stands and outliers in metres: cells a thousand times denser downtown."""
    rng = np.random.default_rng(12)
    degrees = taxis(rng, 6000)
    metres = (degrees - degrees.mean(axis=0)) * np.array([88_000.0, 111_000.0]) + np.array([5.5e5, 4.18e6])
    sites = distinct(metres)
    bounds = box_of(sites)
    diagram = voronoi(sites, bounds)
    check_plane(sites, bounds, diagram, rng.choice(len(sites), examples(120, 15), replace=False).tolist())
    assert diagram.area.sum() == pytest.approx((bounds[2] - bounds[0]) * (bounds[3] - bounds[1]), rel=1e-12)
    assert_symmetric(diagram)


def test_a_site_in_the_middle_of_a_ring_has_hundreds_of_neighbours():
    """More vertices than the polygon's first workspace holds, and more than a machine word has bits."""
    angle = np.linspace(0, 2 * np.pi, 700, endpoint=False)
    ring = np.stack([np.cos(angle), np.sin(angle)], axis=1) * 100
    sites = along(np.concatenate([ring, [[0.01, 0.02]]]))
    centre = int(np.argmin((sites**2).sum(axis=1)))
    diagram = voronoi(sites, box_of(sites))
    edges, area = oracles.planar_cell(sites, centre, box_of(sites))
    assert len(neighbour_sets(diagram)[centre]) >= 690
    assert len(edges) >= 690
    assert diagram.area[centre] == pytest.approx(area, rel=1e-9)


def test_cells_on_the_bounds_are_clipped():
    """Sites on the corners and edges of the bounds own what lies inside."""
    sites = along(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.5, 0.0], [0.5, 0.4]]))
    bounds = np.array([0.0, 0.0, 1.0, 1.0])
    diagram = voronoi(sites, bounds)
    check_plane(sites, bounds, diagram, range(6))
    assert diagram.area.sum() == pytest.approx(1.0, rel=1e-12)
    below = sites.tolist().index([0.5, 0.0])
    assert diagram.area[below] == pytest.approx(0.5 * 0.2, abs=0.03)


# -- the sphere -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["kernel", "scipy"])
@pytest.mark.parametrize("shape", ["globe", "hemisphere", "cap"])
def test_spherical_neighbours_and_areas_equal_scipys(engine, shape):
    """Against SphericalVoronoi: neighbours, areas, the sum of areas, Euler's formula."""
    rng = np.random.default_rng(13)
    v = random_sphere(rng, 3000)
    if shape == "hemisphere":
        v[:, 2] = np.abs(v[:, 2])
    if shape == "cap":
        v = v * 0.2 + np.array([0.3, 0.5, -0.8])
        v /= np.linalg.norm(v, axis=1)[:, None]
    sites = along(v)
    diagram = voronoi(sites, engine=engine)
    theirs = SphericalVoronoi(sites, threshold=1e-14)
    theirs.sort_vertices_of_regions()
    shared = {}
    for i, region in enumerate(theirs.regions):
        for a, b in zip(region, region[1:] + region[:1], strict=True):
            shared.setdefault((min(a, b), max(a, b)), []).append(i)
    expected = [set() for _ in sites]
    for (a, b), owners in shared.items():
        if len(owners) == 2 and np.linalg.norm(theirs.vertices[a] - theirs.vertices[b]) > SHORT:
            expected[owners[0]].add(owners[1])
            expected[owners[1]].add(owners[0])
    found = neighbour_sets(diagram)
    assert all(expected[i] <= found[i] for i in range(len(sites)))
    assert sum(len(f) for f in found) - sum(len(e) for e in expected) < 10
    assert np.abs(diagram.area / theirs.calculate_areas() - 1).max() < 1e-6
    assert diagram.area.sum() == pytest.approx(4 * np.pi, rel=1e-11)
    # n sites have 3n - 6 edges where no four share a circle
    assert len(diagram.neighbours) == pytest.approx(2 * (3 * len(sites) - 6), abs=12)


@settings(max_examples=examples(150), deadline=None)
@given(lonlat(), st.sampled_from(["kernel", "scipy"]))
def test_small_spherical_diagrams_cover_the_sphere(positions, engine):
    """Poles, parallels, antipodal towns and more: areas sum to the sphere, small cells equal long double."""
    sites = distinct(space_of().vectors(positions))
    try:
        diagram = voronoi(sites, engine=engine)
    except ValueError as error:
        assert engine == "scipy"
        assert "lost" in str(error)  # noqa: PT017
        return
    if len(sites) == 0:
        assert len(diagram.area) == 0
        return
    assert diagram.area.sum() == pytest.approx(4 * np.pi, rel=1e-9)
    found = neighbour_sets(diagram)
    assert all(i in found[j] for i in range(len(sites)) for j in found[i])
    for i in range(len(sites)):
        edges, area, small = oracles.tangent_cell(sites, i)
        if not small or diagram.rim[i]:
            continue
        real = {j for j, length in edges.items() if length > SHORT}
        assert real <= found[i]
        assert all(edges.get(j, 0.0) <= SHORT for j in found[i] - real)
        assert diagram.area[i] == pytest.approx(area, rel=1e-9, abs=1e-15)


def test_taxis_on_the_sphere_equal_long_double():
    """Cells of a square metre: within 1e-9, or 1e-7 below 10 square metres."""
    rng = np.random.default_rng(14)
    sites = distinct(space_of().vectors(taxis(rng, 6000)))
    diagram = voronoi(sites)
    found = neighbour_sets(diagram)
    for i in rng.choice(np.flatnonzero(~diagram.rim), examples(120, 15), replace=False).tolist():
        edges, area, _ = oracles.tangent_cell(sites, i)
        real = {j for j, length in edges.items() if length > SHORT}
        assert real <= found[i]
        assert diagram.area[i] == pytest.approx(area, rel=1e-9 if area * 6.371e6**2 > 10 else 1e-7)
    assert diagram.area.sum() == pytest.approx(4 * np.pi, rel=1e-9)
    assert 3 <= diagram.rim.sum() < 100
    assert_symmetric(diagram)


def test_one_two_and_three_sites_share_the_sphere():
    """n = 1 is the sphere, 2 two hemispheres, 3 three lunes; also two at antipodes."""
    one = voronoi(np.array([[0.0, 0.0, 1.0]]))
    assert one.area.tolist() == pytest.approx([4 * np.pi])
    two = voronoi(along(np.array([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]])))
    assert two.area.tolist() == pytest.approx([2 * np.pi] * 2)
    near = voronoi(along(space_of().vectors(np.array([[2.0, 48.0], [2.00001, 48.0]]))))
    assert near.area.tolist() == pytest.approx([2 * np.pi] * 2)
    three = voronoi(along(space_of().vectors(np.array([[0.0, 0.0], [120.0, 0.0], [-120.0, 0.0]]))))
    assert three.area.tolist() == pytest.approx([4 * np.pi / 3] * 3)
    assert np.diff(three.first).tolist() == [2, 2, 2]


def test_a_neighbour_is_listed_once_where_four_cells_share_a_corner():
    side = np.arange(200) * 1e-4
    lonlat = np.stack(np.meshgrid(side - 74.0, side + 40.7), axis=-1).reshape(-1, 2)
    vectors = space_of().vectors(lonlat)
    sites = np.ascontiguousarray(vectors[radix_order(curve_keys(vectors))])
    diagram = voronoi(sites)
    owner = np.repeat(np.arange(len(sites)), np.diff(diagram.first))
    pairs = np.stack([owner, diagram.neighbours], axis=1)
    assert len(np.unique(pairs, axis=0)) == len(pairs)


def test_scaling_and_turning_change_nothing():
    """A power of two scales a planar diagram exactly; a mirrored sphere keeps its areas."""
    rng = np.random.default_rng(15)
    sites = along(rng.uniform(-1, 1, (500, 2)))
    bounds = box_of(sites)
    plain, scaled = voronoi(sites, bounds), voronoi(sites * 1024.0, bounds * 1024.0)
    assert plain.neighbours.tolist() == scaled.neighbours.tolist()
    assert (plain.area * 1024.0**2).tolist() == scaled.area.tolist()
    globe = along(random_sphere(rng, 500))
    turned = globe[:, [1, 2, 0]]
    assert voronoi(turned).area == pytest.approx(voronoi(globe).area, rel=1e-9)


def assert_symmetric(diagram):
    source = np.repeat(np.arange(len(diagram.area)), np.diff(diagram.first))
    forth = set(zip(source.tolist(), diagram.neighbours.tolist(), strict=True))
    assert forth == {(b, a) for a, b in forth}


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_nothing(threads):
    """The same bytes for any number of threads."""
    rng = np.random.default_rng(16)
    sites = distinct(space_of().vectors(taxis(rng, 40_000)))
    assert len(sites) > 2 * PIECE
    one, many = voronoi(sites), voronoi(sites, threads=threads)
    for name in ("first", "neighbours", "area", "radius", "rim"):
        assert getattr(one, name).tobytes() == getattr(many, name).tobytes()


@pytest.mark.parametrize("room", [7, 1])
@pytest.mark.parametrize("metric", ["plane", "sphere"])
def test_pieces_change_nothing_but_rounding(metric, room):
    """What earlier cells have found is used within a piece only; the diagram is the same without it.

    A line that cuts its own edge again, rounded while the cell was still large, would cost five digits of the area.
    """
    degrees = taxis(np.random.default_rng(18), 6000)
    if metric == "sphere":
        sites, bounds = distinct(space_of().vectors(degrees)), None
    else:
        sites = distinct((degrees - degrees.mean(axis=0)) * np.array([88_000.0, 111_000.0]))
        bounds = box_of(sites)
    whole = voronoi(sites, bounds)
    pieces = voronoi(sites, bounds, piece=64, room=room)
    assert_symmetric(pieces)
    differ = sum(a != b for a, b in zip(neighbour_sets(whole), neighbour_sets(pieces), strict=True))
    assert differ < 20  # an edge as short as rounding may be listed by one and not by the other
    assert pieces.area == pytest.approx(whole.area, rel=1e-12)
    assert pieces.radius == pytest.approx(whole.radius, rel=1e-8)
    assert (pieces.rim == whole.rim).all()


def test_a_site_may_be_listed_by_more_than_are_kept():
    """Cells before it on the curve with this neighbour in common: it does not rely on what is noted of them."""
    angle = np.linspace(0, 2 * np.pi, 23)[:-1]
    ring = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    sites = np.concatenate([ring, [[0.01, 0.02]], 3 * ring])
    bounds = box_of(sites)
    check_plane(sites, bounds, voronoi(sites, bounds), range(len(sites)))


def test_a_long_cell_reaches_a_site_that_has_not_listed_it():
    """A wedge of 1e-5 that ends 3e-8 wide: its end is an edge, and too shallow a cut of the cell on the other side."""
    turn = 1e-5
    beside = np.array([[np.sin(turn), 1.0 - np.cos(turn)]])
    end = 2.0 * (1.0 - 3e-8 / turn)
    before = np.array([[0.0, end], [0.3, end], [-0.3, end], [0.0, end + 0.3]])
    sites = np.concatenate([before, beside, beside * [-1.0, 1.0], [[0.0, 0.0], [0.0, -0.3]]])
    bounds = box_of(sites)
    diagram = voronoi(sites, bounds)
    assert 0 in neighbour_sets(diagram)[6]
    check_plane(sites, bounds, diagram, range(len(sites)))


@pytest.mark.parametrize("room", [None, 8, 16])
@pytest.mark.parametrize("doubt", [None, [0, 0, 0, 1, 1]])
def test_symmetric_adds_what_one_end_lists(doubt, room):
    """0-1, 1-2 and 2-0 are listed by both, 0-3, 1-3 and 4-2 by one; all edges of a site in doubt are looked at."""
    first, neighbours = np.array([0, 3, 6, 8, 8, 9], np.int32), np.array([1, 2, 3, 3, 2, 0, 0, 1, 2], np.int32)
    doubt = None if doubt is None else np.array(doubt, np.uint8)
    if room is not None:
        space = np.full(room, -7, np.int32)
        space = np.concatenate([neighbours, space[len(neighbours) :]])
        neighbours = space[: len(neighbours)]
    new_first, merged = symmetric(first, neighbours, doubt, None if room is None else space)
    assert new_first.tolist() == [0, 3, 6, 9, 11, 12]
    assert merged.tolist() == [1, 2, 3, 3, 2, 0, 0, 1, 4, 0, 1, 2]
    assert (room == 16) == (merged.base is not None and room is not None and merged.base is space)


def test_wanted_cells_alone():
    """Only the cells asked for are made, and they are the same."""
    rng = np.random.default_rng(17)
    sites = along(random_sphere(rng, 2000))
    whole = neighbour_sets(voronoi(sites))
    wanted = rng.random(2000) < 0.1
    some = neighbour_sets(voronoi(sites, wanted=wanted))
    assert all(some[i] == (whole[i] if wanted[i] else set()) for i in range(2000))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"engine": "magic"}, "magic"),
        ({"bounds": None}, "bounds"),
        ({"sites": np.zeros((2, 4))}, "4 coordinates"),
    ],
)
def test_wrong_arguments_are_named(arguments, words):
    """ValueError with the value."""
    call = {"sites": np.array([[0.0, 0.0], [1.0, 1.0]]), "bounds": np.array([0.0, 0, 1, 1])} | arguments
    with pytest.raises(ValueError, match=words):
        voronoi(call.pop("sites"), call.pop("bounds"), **call)
