"""Answers of a history equal those of a loop over all rows in plain Python: every order alone, and mixed."""

from __future__ import annotations

import math
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dtoss
from dtoss.errors import InputError
from dtoss.geometry.distance import distance
from dtoss.history.history_commit import Change, commit
from dtoss.history.layouts.compaction import make_order, settle
from dtoss.history.maintenance.erase_rows import forget
from dtoss.history.query.place_batches import TOGETHER_FROM
from dtoss.history.row_blocks import BY_TIME
from tests.dtoss.history.drop_orders import drop_orders
from tests.dtoss.history.worlds import (
    EPOCH,
    LAT,
    LON,
    PLANE,
    SPHERE,
    new_home,
    put_batch,
    schema_of,
    small_rows,
    table_of,
)
from tests.examples import examples

SCHEMAS = [
    schema_of(SPHERE), schema_of(SPHERE, "string", "int64"), schema_of(PLANE), schema_of(PLANE, "int64", "double"),
]  # fmt: skip
RADII = {"sphere": [0.0, 1e5, 5e6, 3e7, math.inf], "plane": [0.0, 1.0, 60.0, 1e9, math.inf]}
BOXES = {
    "sphere": [(-1.0, -1.0, 10.0, 45.0), (170.0, -90.0, -170.0, 90.0), (-180.0, 89.0, 180.0, 90.0)],
    "plane": [(-1.0, -1.0, 10.0, 45.0), (0.0, 0.0, 0.0, 0.0)],
}
POLYGON = [[-10.0, -10.0], [20.0, -10.0], [5.0, 50.0]]


def word(value):
    """Text is in the order of its bytes."""
    return value.encode() if isinstance(value, str) else value


def moment(schema, second):
    return EPOCH + timedelta(seconds=second) if schema.t_type == "timestamp" else second


def answers(hits):
    """Query, distance, id and time of hits."""
    times = hits.columns["t"].to_pylist()
    return list(zip(hits.query.tolist(), hits.distance.tolist(), map(word, hits.id.tolist()), times, strict=True))


class Oracle:
    """All rows in a list, and loops."""

    def __init__(self, rows, schema):
        self.schema = schema
        self.rows = rows.to_pylist()
        self.live = [row for row in self.rows if not row["deleted"]]

    def timely(self, between):
        first, last = between
        return [row for row in self.live if (first is None or row["t"] >= first) and (last is None or row["t"] <= last)]

    def far(self, row, place):
        space = self.schema.space
        found = float(distance(*(space.vectors(np.array([one])) for one in ((row["x"], row["y"]), place)))[0])
        if space.geographic:  # and by other means
            lon1, lat1, lon2, lat2 = map(math.radians, (row["x"], row["y"], *place))
            h = math.sin((lat2 - lat1) / 2) ** 2
            h += math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2) ** 2
            assert math.isclose(found, 2 * 6_371_008.8 * math.asin(min(1.0, math.sqrt(h))), rel_tol=1e-6, abs_tol=1e-3)
        return found

    def range(self, place, radius, between):
        near = [(self.far(row, place), word(row["id"]), row["t"]) for row in self.timely(between)]
        return [(0, *one) for one in sorted(near) if one[0] <= radius]

    def knn(self, place, k, between, per):
        found, seen = [], set()
        for one in self.range(place, math.inf, between):
            if per == "row" or one[2] not in seen:
                found.append(one)
                seen.add(one[2])
        return found[:k]

    def trajectory(self, id, between):
        return sorted(row["t"] for row in self.timely(between) if row["id"] == id)

    def at(self, time, max_age):
        standing = {}
        for row in self.rows:
            age = time - row["t"]
            age = age.total_seconds() if isinstance(age, timedelta) else age
            if age < 0 or (max_age is not None and age > max_age):
                continue
            nowhere = row["x"] != row["x"]
            key = (row["t"], row["deleted"], math.inf if nowhere else row["x"], math.inf if nowhere else row["y"])
            standing[row["id"]] = max(standing.get(row["id"], key), key)
        return sorted((word(id), key[0]) for id, key in standing.items() if not key[1])

    def box(self, west, south, east, north, between):
        def within(row):
            x, y = row["x"], row["y"]
            if not south <= y <= north:
                return False
            if not self.schema.space.geographic:
                return west <= x <= east
            names = [x, -x] if abs(x) == 180.0 else [x]
            return abs(y) == 90.0 or any(
                west <= lon <= east if west <= east else lon >= west or lon <= east for lon in names
            )

        return sorted((word(row["id"]), row["t"]) for row in self.timely(between) if within(row))


def laid_out(home, version, layout):
    """A history whose periods lie as a layout says: by time alone, with place, object or both, each other period."""
    for number in version.periods.number.tolist():
        if layout == "time" or (layout == "mixed" and number % 2):
            continue
        for order in ("place", "object"):
            if layout in (order, "all", "mixed"):
                version = make_order(home, number, order, leaf_bytes=120.0)
    return version


def check(history, oracle, data):
    """One question of each kind, drawn by hypothesis."""
    schema, metric = oracle.schema, oracle.schema.space.metric
    place = data.draw(st.tuples(st.sampled_from(LON), st.sampled_from(LAT)))
    ends = sorted(data.draw(st.lists(st.integers(-1, 10), min_size=2, max_size=2)))
    between = tuple(None if data.draw(st.booleans()) else moment(schema, second) for second in ends)
    radius = data.draw(st.sampled_from(RADII[metric]))
    wanted = oracle.range(place, radius, between)
    assert answers(history.range([place], radius, between=between)) == wanted
    assert history.count([place], radius, between=between).tolist() == [len(wanted)]
    assert history.count(between=between).tolist() == [len(oracle.timely(between))]
    k, per = data.draw(st.integers(1, 6)), data.draw(st.sampled_from(["object", "row"]))
    assert answers(history.knn([place], k, per=per, between=between)) == oracle.knn(place, k, between, per)
    furthest = [one for one in oracle.knn(place, k, between, per) if one[1] <= radius]
    assert answers(history.knn([place], k, per=per, between=between, max_distance=radius)) == furthest
    box = data.draw(st.sampled_from(BOXES[metric]))
    inside = oracle.box(*box, between)
    found = history.box([box], between=between)
    assert [one[2:] for one in answers(found)] == inside
    assert history.count_box([box], between=between).tolist() == [len(inside)]
    polygon = history.within([POLYGON], between=between)
    index = dtoss.build(range(len(oracle.timely(between))), [(r["x"], r["y"]) for r in oracle.timely(between)],
                        crs=schema.space.crs) if oracle.timely(between) else None  # fmt: skip
    held = [] if index is None else [oracle.timely(between)[i] for i in index.within([POLYGON]).id.tolist()]
    assert [one[2:] for one in answers(polygon)] == sorted((word(row["id"]), row["t"]) for row in held)
    assert history.count_within([POLYGON], between=between).tolist() == [len(held)]
    if oracle.live:
        id = data.draw(st.sampled_from([row["id"] for row in oracle.live]))
        tracks = history.trajectory([id, id], between=between)
        assert tracks.columns["t"].to_pylist() == oracle.trajectory(id, between) * 2
    second, age = data.draw(st.integers(-1, 11)), data.draw(st.sampled_from([None, 0, 3]))
    standing = history.at(moment(schema, second), max_age=age)
    assert [one[2:] for one in answers(standing)] == oracle.at(moment(schema, second), age)


@pytest.mark.checked
@settings(max_examples=examples(40), deadline=None)
@given(st.sampled_from(SCHEMAS), st.sampled_from(["time", "place", "object", "all", "mixed"]), st.data())
def test_every_question_from_every_layout(tmp_path_factory, schema, layout, data):
    """Ties, duplicates, deletions without a place, poles and the antimeridian, one instant, nothing at all."""
    home = new_home(tmp_path_factory.mktemp("h") / "h")
    batches = data.draw(st.lists(small_rows(schema), min_size=1, max_size=4))
    for i, rows in enumerate(batches):
        version = put_batch(home, rows, schema, str(i))
    laid_out(home, version, layout)
    history = dtoss.history.open(home.path)
    oracle = Oracle(pa.concat_tables(batches), schema)
    assert len(history) == len(oracle.rows)
    for _ in range(2):
        check(history, oracle, data)


@settings(max_examples=examples(25), deadline=None)
@given(st.sampled_from(SCHEMAS), st.sampled_from(["time", "all", "mixed"]), st.data())
def test_many_places_at_once_are_answered_as_one_by_one(tmp_path_factory, schema, layout, data):
    """Each with a radius and an interval of its own: they are asked together, by another way."""
    home = new_home(tmp_path_factory.mktemp("h") / "h")
    for i in range(2):
        version = put_batch(home, data.draw(small_rows(schema, most=60)), schema, str(i))
    laid_out(home, version, layout)
    history = dtoss.history.open(home.path, learn=False)
    places = data.draw(
        st.lists(st.tuples(st.sampled_from(LON), st.sampled_from(LAT)), min_size=TOGETHER_FROM, max_size=20)
    )
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    radii = rng.choice(RADII[schema.space.metric], len(places))
    ends = np.sort(rng.integers(-1, 11, (len(places), 2)), axis=1)
    spans = [tuple(moment(schema, int(second)) for second in pair) for pair in ends]
    k, per = int(rng.integers(1, 5)), str(rng.choice(["object", "row"]))

    def asked(some):
        at, reach, between = [places[i] for i in some], radii[some], [spans[i] for i in some]
        return (
            history.range(at, reach, between=between, where="id is not null"),
            history.knn(at, k, per=per, between=between),
            history.knn(at, k, per=per, max_distance=reach, having="t is not null"),
        )

    together = asked(list(range(len(places))))
    alone = [asked([i]) for i in range(len(places))]
    for number, found in enumerate(together):
        wanted = [(i, *hit[1:]) for i, one in enumerate(alone) for hit in answers(one[number])]
        assert answers(found) == wanted


@settings(max_examples=examples(15, 3), deadline=None)
@given(st.data())
def test_any_sequence_of_changes_keeps_every_answer(tmp_path_factory, data):
    """Append, settle, make and drop orders, forget: after each one question of each kind, and of an older version."""
    schema = schema_of()
    home = new_home(tmp_path_factory.mktemp("h") / "h")
    rows = [schema.arrow.empty_table()]
    states = {}
    for i in range(data.draw(st.integers(9, 14))):
        what = data.draw(st.sampled_from(["append", "append", "append", "settle", "make", "drop", "forget"]))
        if what == "append" or i == 0:
            fresh = data.draw(small_rows(schema, most=6))
            put_batch(home, fresh, schema, str(i))
            rows.append(fresh)
        elif what == "settle":
            settle(home, orders=["time", "place"], period_bytes=1.0, leaf_bytes=300.0)
        elif what == "make" and len(home.version().periods):
            number = int(data.draw(st.sampled_from(home.version().periods.number.tolist())))
            make_order(home, number, data.draw(st.sampled_from(["place", "object"])), leaf_bytes=200.0)
        elif what == "drop":
            drop_orders(home, ["place"])
        elif what == "forget":
            gone = data.draw(st.integers(-2, 5))
            forget(home, [gone])
            rows = [part.filter(pa.compute.not_equal(part.column("id"), gone)) for part in rows]
        whole = pa.concat_tables(rows)
        states[home.version().number] = whole
        check(dtoss.history.open(home.path), Oracle(whole, schema), data)
    number = data.draw(st.sampled_from(sorted(states)))
    check(dtoss.history.open(home.path, version=number), Oracle(states[number], schema), data)


def many(tmp_path, n=40_000, periods=3, **attributes):
    """A history of objects that walk through a city, with all orders, and its rows."""
    random = np.random.default_rng(5)
    schema = schema_of(free=pa.int8())
    ids = random.integers(0, 50, n)
    positions = np.stack([-122.4 + random.normal(0, 0.05, n), 37.7 + random.normal(0, 0.05, n)], axis=1).round(5)
    rows = table_of(schema, ids, np.sort(random.integers(0, 5 * n, n)), positions, free=random.integers(0, 2, n))
    home = new_home(tmp_path / "h")
    for i in range(periods):
        version = put_batch(home, rows.slice(i * n // periods, n // periods), schema, str(i))
    for number in version.periods.number.tolist():
        for order in ("place", "object"):
            version = make_order(home, number, order, leaf_bytes=8000.0)
    return dtoss.history.open(home.path), rows.slice(0, n // periods * periods)


def test_the_cheapest_order_is_read_and_little_of_it(tmp_path):
    """A corner by place, ten minutes by time, one object by object; explain says so, and every answer is the same."""
    history, rows = many(tmp_path)
    oracle = Oracle(rows, history.schema)
    corner, radius = [-122.42, 37.69], 300.0
    facts = history.explain("range", corner, radius)
    assert facts["orders"]["place"]["used"] == 3
    assert facts["read"]["rows"] < len(rows) / 4
    assert facts["hits"] == len(oracle.range(corner, radius, (None, None)))
    minutes = (EPOCH + timedelta(seconds=50_000), EPOCH + timedelta(seconds=50_600))
    facts = history.explain("box", [-123, 37, -122, 38], between=minutes)
    assert facts["orders"]["time"]["blocks"] == facts["read"]["blocks"] == 1
    facts = history.explain("trajectory", [7])
    assert facts["orders"]["object"]["used"] == 3
    assert facts["read"]["rows"] < len(rows) / 2
    nearest = history.explain("knn", corner, 5, between=minutes)
    assert max(nearest["rounds"]) <= 3
    leaves = history.version.leaves
    assert facts["pruned"]["of"] == leaves.count[leaves.order == BY_TIME].sum()
    with pytest.raises(ValueError, match="question is 'nearest': one of range"):
        history.explain("nearest", corner)


def test_answers_are_the_same_whatever_the_plan(tmp_path):
    """Requests that cost nothing, or all there is, choose other orders."""
    history, rows = many(tmp_path, 9000)
    asked = ([-122.42, 37.69], 1500.0)
    wanted = answers(history.range(*asked))
    assert wanted == Oracle(rows, history.schema).range(*asked, (None, None))
    used = set()
    for cost in (1, 10**9):
        home = new_home(history.home.path)
        commit(home, Change("options", options={"request_bytes": cost}), home.version())
        history = dtoss.history.open(home.path)
        assert answers(history.range(*asked)) == wanted
        used.add(str(history.explain("range", *asked)["orders"]))
    assert len(used) == 2


def test_conditions_columns_and_many_places(tmp_path):
    """where before, having after; t and positions are always there; places have intervals of their own."""
    history, rows = many(tmp_path, 9000)
    places = [[-122.42, 37.69], [-122.38, 37.75]]
    free = history.range(places, 800.0, where="free = 1 and lat > 37.69", columns=["free"])
    assert list(free.columns) == ["t", "lon", "lat", "free"]
    wanted = [one for one in Oracle(rows, history.schema).live if one["free"] == 1 and one["y"] > 37.69]
    oracle = Oracle(rows, history.schema)
    for number, place in enumerate(places):
        near = sorted((oracle.far(row, place), row["id"], row["t"]) for row in wanted)
        found = [one[1:] for one in answers(free) if one[0] == number]
        assert found == [one for one in near if one[0] <= 800.0]
    five = history.knn(places, 5, per="row", columns=["free"])
    kept = [hit for hit, one in zip(answers(five), five.columns["free"].to_pylist(), strict=True) if one == 1]
    assert answers(history.knn(places, 5, per="row", having="free = 1")) == kept
    spans = [(EPOCH, EPOCH + timedelta(seconds=9000)), (EPOCH + timedelta(seconds=9000), None)]
    each = history.range(places, 800.0, between=spans)
    alone = [answers(history.range([place], 800.0, between=span)) for place, span in zip(places, spans, strict=True)]
    assert [one[1:] for one in answers(each)] == [one[1:] for part in alone for one in part]
    frame = history.knn(places, 2).to_geopandas()
    assert str(frame.crs) == "EPSG:4326"
    assert frame.geometry.x.tolist() == history.knn(places, 2).columns["lon"].to_pylist()


def test_questions_that_are_none(tmp_path):
    """Each says what is wrong, in a line."""
    history, _ = many(tmp_path, 300)
    here = [-122.4, 37.7]
    for call, kind, said in (
        (lambda: history.knn(here, 0), ValueError, "k is 0"),
        (lambda: history.knn(here, per="cab"), ValueError, "per is 'cab': object or row"),
        (lambda: history.range(here, -1.0), ValueError, "radius is -1"),
        (lambda: history.range(here, math.nan), ValueError, "radius is nan"),
        (lambda: history.range([200.0, 0.0], 1.0), ValueError, r"lon in \[-180, 180\]"),
        (lambda: history.range(here, 1.0, between=("2020-01-02", "2020-01-01")), InputError, "after the last"),
        (lambda: history.range(here, 1.0, between=("yesterday", "-")), InputError, "between is 'yesterday'"),
        (lambda: history.range(here, 1.0, between=[("-", "-")] * 3), ValueError, "3 intervals"),
        (lambda: history.range(here, 1.0, columns=["fre"]), ValueError, "'fre' is not carried"),
        (lambda: history.range(here, 1.0, where="speed > 1"), ValueError, "speed"),
        (lambda: history.trajectory(["a"]), ValueError, "whole numbers"),
        (lambda: history.at("2020-01-01", max_age=-1), ValueError, "max_age is -1"),
        (lambda: history.count(here), ValueError, "places and radius go together"),
        (lambda: history.range(here, 1.0, crs="EPSG:3857"), ValueError, "transform the query first"),
    ):
        with pytest.raises(kind, match=said):
            call()
