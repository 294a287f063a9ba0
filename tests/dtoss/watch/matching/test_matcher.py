"""Rows against an index of places: equal to the loop in all worlds, whatever levels the grid has."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtoss.conditions.parse import Condition
from dtoss.geometry.space import Space, space_of
from dtoss.watch.index.build_index import build
from dtoss.watch.matching.matcher import Matcher
from dtoss.watch.subscription import BOX, CIRCLE, ENTER, EVERYWHERE, INSIDE, LEAVE, POLYGON, with_later_columns
from dtoss.watch.watch_settings import Rows
from tests.dtoss.watch.place_worlds import (
    COLUMNS,
    SPHERE,
    asked,
    legal,
    pairs_in,
    pairs_of,
    random_world,
    rows_of,
    same,
    table_of,
)
from tests.examples import examples

PLANE = space_of("none", "plane")
SCHEMA = COLUMNS | {"id": pa.int64()}
PLANE_SPOTS = [(0.0, 0.0), (1e6, -5e5), (1e6 + 3, -5e5), (-2.5, 7.0)]
FLAT = [0.0, 1e-3, 1.0, 40.0, 2e5]


def matcher_of(subscriptions, space=SPHERE, **more):
    """What holds rows against subscriptions that are all alive."""
    built = build(table_of(subscriptions), space, SCHEMA, text=False, **more)
    return Matcher(built, np.ones(len(built), np.bool_))


def at(*places):
    """Rows at places, each with attributes."""
    return rows_of(np.random.default_rng(0), np.array(places, float).reshape(-1, 2))


MORE = pytest.mark.deep("more seeds of the same kind")


def held(subscriptions, rows, space=SPHERE, **more):
    """The pairs, which are those of the loop."""
    found = pairs_in(matcher_of(subscriptions, space, **more).match(rows))
    assert same(found, pairs_of(space, subscriptions, rows))
    return [(row, number) for row, number, _ in found]


@pytest.mark.parametrize("seed", [0, 3, *(pytest.param(seed, marks=MORE) for seed in (1, 2, 4, 5, 6, 7, 8)), 9])
def test_worlds_on_the_sphere(seed):
    subscriptions, rows = random_world(seed)
    assert len(held(subscriptions, rows)) > 100


@settings(max_examples=examples(25, 5), deadline=None)
@given(st.integers(0, 1 << 30), st.sampled_from([None, 0, 1, 3, 7, 12]))
def test_small_worlds_at_any_level(seed, level):
    subscriptions, rows = random_world(seed, subscriptions=6, rows=9)
    if level is not None and level > 7:
        subscriptions = [one for one in subscriptions if one["kind"] == CIRCLE and one["radius"] < 1e6]
    held(subscriptions, rows, only_level=level)


@pytest.mark.parametrize("level", [0, 2, 4, 6, 8])
def test_every_single_level_finds_the_same(level):
    subscriptions, rows = random_world(77, subscriptions=20)
    wanted = pairs_in(matcher_of(subscriptions).match(rows))
    assert same(pairs_in(matcher_of(subscriptions, only_level=level).match(rows)), wanted)


@pytest.mark.parametrize("level", [10, 16, 20, 24])
def test_fine_levels_find_the_same(level):
    rng = np.random.default_rng(level)
    side = 90.0 / (1 << level)
    spots = [(0.0, 0.0), (180.0, side), (-180.0, -side), (30.0, 45.0), (side, 90.0)]
    subscriptions = [
        asked(f"s{i}", CIRCLE, x=x, y=y, radius=float(r * side * 111_195.0))
        for i, ((x, y), r) in enumerate((spot, r) for spot in spots for r in (0.0, 0.5, 3.0))
    ]
    places = [(x + side * dx, y + side * dy) for x, y in spots for dx in (-3, -1, 0, 1, 3) for dy in (-3, 0, 1)]
    rows = rows_of(rng, legal(SPHERE, np.array(places)))
    assert held(subscriptions, rows, only_level=level)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=MORE) for seed in (1, 2)), 3])
def test_planes(seed):
    subscriptions, rows = random_world(seed, PLANE, spots=PLANE_SPOTS, sizes=FLAT)
    assert held(subscriptions, rows, PLANE)


def test_a_projected_crs_compared_on_the_sphere():
    pytest.importorskip("pyproj", reason="projected CRS need pyproj")
    space = Space("EPSG:32631", "sphere", to_lonlat=True)
    rng = np.random.default_rng(3)
    places = np.array([500_000.0, 5_000_000.0]) + rng.uniform(-20_000, 20_000, (60, 2))
    around = [asked(f"c{i}", CIRCLE, x=x, y=y, radius=4000.0) for i, (x, y) in enumerate(places[:20].tolist())]
    zones = []
    for i, (x, y) in enumerate(places[20:30].tolist()):
        ring = [[x, y], [x + 9000, y], [x + 9000, y + 5000], [x, y]]
        zones.append(asked(f"p{i}", POLYGON, polygon=json.dumps({"type": "Polygon", "coordinates": [ring]})))
    assert held([*around, *zones], rows_of(rng, np.ascontiguousarray(places)), space)


def test_circles_of_nothing_of_half_and_of_all_of_the_earth():
    places = [(0.0, 0.0), (180.0, 0.0), (-180.0, 0.0), (33.0, 90.0), (-70.0, 90.0), (0.0, -90.0), (90.0, 1e-9)]
    half = np.pi * 6_371_008.8 / 2
    subscriptions = [
        asked(f"{x}/{y}/{r}", CIRCLE, x=x, y=y, radius=r)
        for x, y in places
        for r in (0.0, half, 1.5 * half, 2.1 * half)
    ]
    found = held(subscriptions, at(*places))
    # a place has itself within 0, by whatever name
    numbers = {one["id"]: number for number, one in enumerate(subscriptions)}
    assert (1, numbers["-180.0/0.0/0.0"]) in found
    assert (3, numbers["-70.0/90.0/0.0"]) in found
    assert sum(number % 4 == 3 for _, number in found) == len(places) ** 2


def test_boxes_across_the_antimeridian_and_at_poles():
    sides = [
        (170.0, -10.0, -170.0, 10.0), (-180.0, -10.0, -170.0, 10.0), (170.0, -10.0, 180.0, 10.0),
        (180.0, 0.0, -179.0, 1.0), (-180.0, -90.0, 180.0, 90.0), (10.0, 80.0, 20.0, 90.0), (10.0, -90.0, 20.0, -80.0),
        (179.0, 89.0, -179.0, 90.0), (-180.0, 5.0, 180.0, 6.0),
    ]  # fmt: skip
    subscriptions = [asked(f"b{i}", BOX, west=w, south=s, east=e, north=n) for i, (w, s, e, n) in enumerate(sides)]
    places = [
        (x, y) for x in (-180.0, 180.0, 175.0, -175.0, 170.0, -170.0, 15.0, 0.0) for y in (0, 5.5, 10, 90, -90, 89)
    ]
    for level in (None, 0, 3, 6):
        found = held(subscriptions, at(*places), only_level=level)
        assert len(found) > 100


def test_edges_that_bulge_beyond_the_latitudes_of_their_corners():
    ring = [[-60, 50], [60, 50], [60, 45], [-60, 45], [-60, 50]]
    subscriptions = [
        asked("north", POLYGON, polygon=json.dumps({"type": "Polygon", "coordinates": [ring]})),
        asked("south", POLYGON, polygon=json.dumps({"type": "Polygon", "coordinates": [[[x, -y] for x, y in ring]]})),
        asked("pole", POLYGON, polygon=json.dumps(
            {"type": "Polygon", "coordinates": [[[0, 60], [120, 60], [-120, 60], [0, 60]]]}
        )),
        asked("across", POLYGON, polygon=json.dumps(
            {"type": "Polygon", "coordinates": [[[170, 10], [-170, 10], [-170, 11], [170, 11], [170, 10]]]}
        )),
    ]  # fmt: skip
    places = [(0, 50), (0, 66), (0, 67), (0, 63.5), (0, -66), (5, 90), (180, 10.5), (-180, 10.9), (60, 61), (180, 75)]
    found = held(subscriptions, at(*places), only_level=5)
    assert (1, 0) in found
    assert (0, 0) not in found
    assert (4, 1) in found
    assert (5, 2) in found
    assert {(6, 3), (7, 3)} <= set(found)


def test_parts_that_lie_on_each_other_hold_a_row_once():
    one, two = ([[[x, 0], [x + 2, 0], [x + 2, 2], [x, 2], [x, 0]]] for x in (0, 1))
    shape = json.dumps({"type": "MultiPolygon", "coordinates": [one, two]})
    subscriptions = [asked("m", POLYGON, polygon=shape), asked("n", POLYGON, polygon=shape)]
    # the corners are in doubt in both parts
    assert held(subscriptions, at((1.5, 1.0), (1.0, 0.0), (2.0, 2.0), (5.0, 5.0))) == [
        (0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1),
    ]  # fmt: skip


def test_where_with_nulls_and_with_what_cannot_be_computed():
    wheres = [None, "occupied = 0", "not occupied = 0", "occupied is null", "cast(name as integer) >= 2", "id = 1"]
    subscriptions = [asked(f"c{i}", CIRCLE, x=0.0, y=0.0, radius=10.0, where=w) for i, w in enumerate(wheres)]
    subscriptions += [asked(f"e{i}", EVERYWHERE, where=w) for i, w in enumerate(wheres)]
    rows = Rows(
        np.zeros((4, 2)),
        pa.array([0, 1, 2, 3]),
        attributes={"occupied": pa.array([0, None, 5, 0]), "name": pa.array(["no number", "7", None, "1"])},
    )
    found = held(subscriptions, rows)
    assert [number for row, number in found if row == 1] == [0, 3, 4, 5, 6, 9, 10, 11]
    assert (0, 4) not in found


def test_rows_that_want_some_events_only_and_subscriptions_that_are_dead():
    subscriptions, rows = random_world(5)
    matcher = matcher_of(subscriptions)
    rng = np.random.default_rng(1)
    for wants in (INSIDE, ENTER | LEAVE, rng.integers(0, 8, len(rows)).astype(np.uint8)):
        assert same(pairs_in(matcher.match(rows, wants)), pairs_of(SPHERE, subscriptions, rows, wants))
    alive = rng.random(len(subscriptions)) < 0.5
    some = Matcher(matcher.built, alive)
    assert same(pairs_in(some.match(rows)), pairs_of(SPHERE, subscriptions, rows, alive=alive))


@pytest.mark.parametrize("most", [1, 7, 100])
def test_pieces_are_all_rows_in_turn(most):
    subscriptions, rows = random_world(6)
    matcher = matcher_of(subscriptions)
    pieces = list(matcher.pieces(rows, most=most))
    assert [piece.first_row for piece in pieces] == [0, *(piece.last_row for piece in pieces[:-1])]
    assert pieces[-1].last_row == len(rows)
    assert all(len(piece) <= 16 * most or piece.last_row - piece.first_row == 1 for piece in pieces)
    assert same([pair for piece in pieces for pair in pairs_in(piece)], pairs_in(matcher.match(rows)))


def test_nothing_to_match_and_nobody_to_match_it():
    subscriptions, rows = random_world(1)
    none = Rows(np.zeros((0, 2)), pa.array([], pa.int64()), attributes={k: pa.array([], v) for k, v in COLUMNS.items()})
    assert len(matcher_of(subscriptions).match(none)) == 0
    assert len(matcher_of([]).match(rows)) == 0
    assert len(matcher_of([asked("a", EVERYWHERE)]).match(rows)) == len(rows)


def test_a_million_subscriptions_on_one_place():
    count = 1_000_000
    table = pa.table(
        {
            "id": pa.array(np.arange(count)).cast(pa.string()),
            "kind": pa.array(np.full(count, CIRCLE, np.uint8)),
            "x": np.full(count, 2.0),
            "y": np.full(count, 48.0),
            "radius": np.full(count, 30.0),
            **{name: pa.nulls(count, pa.float64()) for name in ("west", "south", "east", "north")},
            **{name: pa.nulls(count, pa.string()) for name in ("polygon", "object", "where", "words")},
            "events": pa.array(np.full(count, INSIDE, np.uint8)),
            "expires": pa.nulls(count, pa.int64()),
            "meta": pa.nulls(count, pa.string()),
            "version": pa.nulls(count, pa.int64()),
        }
    )
    built = build(with_later_columns(table), SPHERE, {}, text=False)
    matcher = Matcher(built, np.ones(count, np.bool_))
    pieces = list(matcher.pieces(Rows(np.array([[2.0, 48.0], [2.0, 48.001], [2.0, 48.0]])), most=1 << 18))
    assert [len(piece) for piece in pieces if len(piece)] == [count, count]
    assert all((np.diff(piece.subscription) == 1).all() for piece in pieces if len(piece))


def test_threads_share_an_index():
    subscriptions, rows = random_world(8, rows=400)
    matcher = matcher_of(subscriptions)
    wanted = pairs_in(matcher.match(rows))
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: pairs_in(matcher.match(rows)), range(8)))
    assert all(same(one, wanted) for one in found)


@pytest.mark.checked
@pytest.mark.parametrize("space", [SPHERE, PLANE], ids=["sphere", "plane"])
def test_each_line_of_the_kernels_on_small_worlds(space):
    spots = PLANE_SPOTS if space is PLANE else [(0.0, 0.0), (180.0, 1.0), (10.0, 90.0)]
    sizes = FLAT if space is PLANE else [0.5, 40.0]
    for level in (None, 3):
        subscriptions, rows = random_world(2, space, subscriptions=16, rows=12, spots=spots, sizes=sizes)
        held(subscriptions, rows, space, only_level=level)


@pytest.mark.checked
def test_many_hits_of_several_levels_are_put_in_order():
    radii = [30.0, 3e6, 30.0, 2e7] * 12
    subscriptions = [asked(f"s{i:02}", CIRCLE, x=1.0, y=1.0, radius=r) for i, r in enumerate(radii)]
    small = [asked(f"t{i:03}", CIRCLE, x=1.0 + i / 50, y=30.0, radius=20.0) for i in range(400)]
    matcher = matcher_of([*subscriptions, *small])
    assert len(matcher.built.arrays["grid/levels"]) > 1
    found = matcher.match(at((1.0, 1.0), (1.0, 30.0), (50.0, 0.0)))
    assert found.subscription[found.row == 0].tolist() == list(range(48))
    assert same(pairs_in(found), pairs_of(SPHERE, [*subscriptions, *small], at((1.0, 1.0), (1.0, 30.0), (50.0, 0.0))))


def test_rows_behind_a_crowded_place_are_asked_together_again():
    matcher = matcher_of([asked(f"s{number}", CIRCLE, x=0.0, y=0.0, radius=10.0) for number in range(50)])
    pieces = list(matcher.pieces(at(*[(0.0, 0.0)] * 8, *[(9.0, 9.0)] * 1000), most=60))
    assert sum(len(piece) for piece in pieces) == 400
    assert len(pieces) < 25
    assert [piece.first_row for piece in pieces[1:]] == [piece.last_row for piece in pieces[:-1]]


def test_values_that_cannot_be_computed_are_each_looked_for_once(monkeypatch):
    asks = []
    matches = Condition.matches
    monkeypatch.setattr(Condition, "matches", lambda *said: asks.append(1) or matches(*said))
    rows = at(*[(0.0, 0.0)] * 4000)
    names = pa.array(["x", "7", None, "2"] * 1000).dictionary_encode()
    rows = replace(rows, attributes=rows.attributes | {"name": names})
    matcher = matcher_of([asked("s", EVERYWHERE, where="cast(name as integer) > 3 and id >= 0 or occupied = 9")])
    matched = matcher.match(replace(rows, ids=pa.array(np.arange(4000) // 1000)))
    assert matched.row.tolist() == list(range(1, 4000, 4))
    assert len(asks) < 400
