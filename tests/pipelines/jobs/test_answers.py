"""A store answers as brute force does: ids, distances and order, for any number of partitions.

Stores are built in process: a rebuild in Spark writes the same bytes, see ``test_in_process.py``.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import dtoss
from datasets.cities.taxis import make_fleet
from datasets.degenerate import PLANE, SPHERE, degenerate
from datasets.fleet import fleet_at, fleet_updates
from datasets.hotspots import hotspots
from datasets.uniform import uniform_plane, uniform_sphere
from dtoss.geometry.space import space_of
from tests.dtoss.strategies import lonlat_queries, planar_queries
from tests.examples import ALL
from tests.pipelines.stores import assert_answers, brute, made, positions_of, real, rebuilt, rows

PARTITIONS = [1, 2, 7, 64]
ROWS = 700

KINDS = [2, 64]
"""For degenerate input, of which the tests of the index try all numbers of partitions."""

MADE = {
    "uniform": lambda: uniform_sphere(ROWS, seed=1),
    "uniform over the antimeridian": lambda: uniform_sphere(ROWS, seed=2, box=(170.0, -20.0, -170.0, 20.0)),
    "hotspots": lambda: hotspots(ROWS, seed=3, count=10),
    "fleet": lambda: fleet_at(make_fleet(ROWS, 5, seed=4), 3600.0),
    "uniform plane": lambda: uniform_plane(ROWS, seed=5),
    **{f"{kind} sphere": lambda kind=kind: degenerate(kind, ROWS, 6, "sphere") for kind in SPHERE},
    **{f"{kind} plane": lambda kind=kind: degenerate(kind, ROWS, 7, "plane") for kind in PLANE},
}


def opened(table, **options):
    """The index of a store of a table."""
    return dtoss.open(made(table, **options))


def queries_for(space, positions, seed=8, n=8):
    """On objects, between them, far outside, at the poles, on the other side of the globe."""
    rng = np.random.default_rng(seed)
    return (lonlat_queries if space.metric == "sphere" else planar_queries)(rng, positions, n)


def radii_for(space, positions, queries):
    """None, one that just holds an object, one that holds some, and all."""
    far = brute(space, np.arange(len(positions)), positions, queries[:1], [len(positions)], [])
    distances = [d for _, _, d in far["k", len(positions)]]
    return sorted({0.0, distances[len(distances) // 300], distances[len(distances) // 20], 2.1e7})


UNLIKE = (
    "uniform over the antimeridian", "hotspots", "fleet", "uniform plane", "antimeridian sphere", "poles sphere",
    "point sphere", "grid plane",
)  # fmt: skip
LIKE = pytest.mark.deep("tests/dtoss/queries/test_worlds.py has all of these worlds, a level below")


@pytest.mark.parametrize("name", [pytest.param(one, marks=() if one in UNLIKE else LIKE) for one in MADE])
def test_generated_positions(name):
    """Every generator, on the sphere and in the plane; range, kNN and k = all; in many partitions, or in any number."""
    table = pa.Table.from_batches(list(MADE[name]()))
    space = space_of("none") if "x" in table.column_names else space_of()
    positions = positions_of(table)
    queries = queries_for(space, positions)
    ks, radii = [1, 8, ROWS + 5], radii_for(space, positions, queries)
    expected = brute(space, table["id"].to_numpy(), positions, queries, ks, radii)
    several = KINDS if " " in name and "uniform" not in name else PARTITIONS
    for partitions in several if ALL[0] else several[-1:]:
        index = opened(table, crs=space.crs, partitions=partitions)
        assert len(index) == ROWS
        assert len(index.partitioning) == min(partitions, index.sites)
        assert_answers(index, expected, queries)


MORE = pytest.mark.deep("more real sets of the same kind")
REAL = {
    "gowalla_checkins": (), "earthquakes_usgs_month": (), "ais_piraeus": (), "cabspotting_sf": MORE, "cities500": MORE,
    "uber_nyc_apr_may_2014": MORE, "brightkite_checkins": MORE, "aircraft_adsb": MORE, "gowalla_poi_weights": MORE,
}  # fmt: skip


@pytest.mark.parametrize("name", [pytest.param(name, marks=marks) for name, marks in REAL.items()])
def test_real_positions(name):
    """50,000 rows of each real set; the full ones are compared by ``make check-data``."""
    table = real(name, 50_000)
    positions, space = positions_of(table), space_of()
    queries = queries_for(space, positions, n=5)
    radii = radii_for(space, positions[:2000], queries)[:3]
    expected = brute(space, table["id"].to_numpy(), positions, queries, [1, 10], radii)
    for partitions in (7, 64):
        index = opened(table, partitions=partitions)
        assert_answers(index, expected, queries)


@pytest.mark.parametrize("metric", ["sphere", "plane"])
@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_few_objects(metric, count):
    """Nothing at all is a legal snapshot; k beyond n, radius 0, and more partitions than objects."""
    space = space_of() if metric == "sphere" else space_of("none")
    positions = np.array([[179.5, 10.0], [-179.5, 10.0], [0.0, 90.0]])[:count]
    table = pa.table({"id": pa.array([7, 5, 6][:count], pa.int64()), "x": positions[:, 0], "y": positions[:, 1]})
    index = opened(table, crs=space.crs, partitions=64)
    assert len(index) == count
    assert len(index.partitioning) == max(count, 1)
    queries = np.concatenate([positions, [[180.0, 10.0], [0.0, -90.0], [33.0, 44.0]]])
    assert_answers(index, brute(space, table["id"].to_numpy(), positions, queries, [1, 9], [0.0, 2e5]), queries)


@pytest.mark.parametrize("shape", ["one site", "line", "two sites"])
def test_many_objects_on_little_ground(shape):
    """All on one place, all on a line, two places: with more partitions than sites where there are so few."""
    ids = np.random.default_rng(9).permutation(200)
    along = {"one site": ids * 0, "line": ids, "two sites": ids % 2}[shape].astype(float)
    table = pa.table({"id": ids, "lon": 10.0 + along * 0.25, "lat": np.full(200, 45.0)})
    positions = positions_of(table)
    queries = np.array([[10.0, 45.0], [10.1, 45.0], [10.125, 44.0], [-170.0, -45.0], [0.0, 90.0]])
    expected = brute(space_of(), ids, positions, queries, [1, 5, 300], [0.0, 1e4, 1.2e5])
    for partitions in (1, 7, 300):
        index = opened(table, partitions=partitions)
        assert index.sites == len(np.unique(along))
        assert_answers(index, expected, queries)


@pytest.mark.parametrize("reach", [0.0, 1e-4])
def test_any_lambda_gives_the_same_answers(reach):
    """Without replicas no cell near a border is certified; answers, cells and neighbours are the same."""
    table = pa.Table.from_batches(list(fleet_at(make_fleet(1200, 2, seed=10), 60.0)))
    positions = positions_of(table)
    queries = queries_for(space_of(), positions)
    expected = brute(space_of(), table["id"].to_numpy(), positions, queries, [1, 12], [0.0, 500.0])
    index = opened(table, partitions=7, reach=reach)
    assert_answers(index, expected, queries)
    alone = opened(table, partitions=1)
    for i in range(0, 1200, 60):
        assert sorted(index.neighbours(i)) == sorted(alone.neighbours(i))
        assert index.area(i) == pytest.approx(alone.area(i), rel=1e-9)


@pytest.mark.parametrize("pivots", ["balanced", "spread"])
def test_pivots_of_either_method(pivots):
    """The dissertation's pivots, and ours, whose partitions are even."""
    table = pa.Table.from_batches(list(hotspots(3000, seed=11, count=20)))
    positions = positions_of(table)
    queries = queries_for(space_of(), positions)
    index = opened(table, partitions=8, pivots=pivots)
    assert_answers(index, brute(space_of(), table["id"].to_numpy(), positions, queries, [4], [1e5]), queries)
    sizes = [fact.objects for fact in index.parts.facts]
    assert sum(sizes) == 3000
    if pivots == "balanced":
        assert max(sizes) <= 1.25 * np.mean(sizes)


def test_a_projected_crs_and_its_sphere():
    """UTM in its own plane, and the same positions compared on the sphere."""
    rng = np.random.default_rng(12)
    table = pa.table({"id": np.arange(400), "x": rng.uniform(4e5, 6e5, 400), "y": rng.uniform(4e6, 4.2e6, 400)})
    positions = positions_of(table)
    queries = positions[:9] + 17.0
    for metric in ("plane", "sphere"):
        space = space_of("EPSG:32610", metric)
        index = opened(table, crs="EPSG:32610", metric=metric, partitions=5)
        assert_answers(index, brute(space, np.arange(400), positions, queries, [3], [5000.0]), queries)


def test_updates_of_a_fleet_cycle_by_cycle(engine, tmp_path):
    """Each cycle's snapshot holds the latest position of every taxi and nothing of the last one."""
    fleet, store = make_fleet(300, 1, seed=13), tmp_path / "store"
    updates = pa.Table.from_batches(list(fleet_updates(fleet, 900)))
    options = {"id": "uid", "time": "t", "partitions": 4}
    made(updates.slice(0, 300), store, **options)
    for cycles in (1, 3):
        seen = updates.slice(0, 300 * cycles)
        index = dtoss.open(str(store)) if cycles == 1 else rebuilt(engine, seen, store, **options)
        newest = seen.slice(300 * (cycles - 1))
        positions = positions_of(newest)
        queries = queries_for(space_of(), positions)
        expected = brute(space_of(), newest["uid"].to_numpy(), positions, queries, [3], [800.0])
        assert len(index) == 300
        assert_answers(index, expected, queries)


def test_string_ids_come_in_the_order_of_code_points():
    """Ties go by the id as text: capitals, accents, other planes of Unicode."""
    ids = ["b", "a", "Z", "é", "z", "10", "9", "😀", "\uffff"]
    table = pa.table({"id": ids, "lon": [1.0] * 9, "lat": [2.0] * 9})
    index = opened(table, partitions=2)
    assert [i for _, i, _ in rows(index.knn([[1.0, 2.0]], 9))] == sorted(ids)
