"""dtoss.subscriptions: the same matches and events as the loop's, from any table, without a store."""

from __future__ import annotations

import datetime
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dtoss
from dtoss.errors import InputError
from tests.dtoss.watch.oracle import Watched
from tests.dtoss.watch.place_worlds import SPHERE, pairs_in, pairs_of, random_world, same, table_of
from tests.dtoss.watch.streams import ATTRIBUTES, random_asked, random_rows
from tests.examples import examples

STATION = {"id": "station", "circle": [8.66, 50.11, 400.0]}


def frame_of(rows):
    """Rows as a table."""
    x, y = rows.positions.T
    return pa.table({"lon": x, "lat": y, "id": rows.ids, **rows.attributes})


@pytest.mark.parametrize("seed", [1, 2])
def test_matches_are_those_of_the_loop(seed):
    subscriptions, rows = random_world(seed)
    subscriptions = [one for one in subscriptions if one["kind"] != 4]
    wanted = pairs_of(SPHERE, subscriptions, rows)
    schema = pa.schema([("occupied", pa.int64()), ("name", pa.string()), ("id", pa.int64())])
    for watch in (
        dtoss.subscriptions(table_of(subscriptions)),
        dtoss.subscriptions(table_of(subscriptions), schema=schema),
    ):
        assert same(pairs_in(watch.match(frame_of(rows))), wanted)
        pieces = list(watch.pieces(frame_of(rows).to_pandas(), most=50))
        assert len(pieces) > 1
        assert sum(len(piece) for piece in pieces) >= 0.9 * len(wanted)
        assert watch.ids.tolist() == [one["id"] for one in subscriptions]
        assert len(watch) == len(subscriptions)


def table_of_rows(rows):
    """Rows of the loop as a table."""
    return pa.table(
        {
            "id": pa.array([row["id"] for row in rows], pa.int64()),
            "t": pa.array([row["t"] for row in rows], pa.timestamp("us", "UTC")),
            "lon": pa.array([row["x"] for row in rows], pa.float64()),
            "lat": pa.array([row["y"] for row in rows], pa.float64()),
            **{n: pa.array([row["attributes"][n] for row in rows], kind) for n, kind in ATTRIBUTES.items()},
        }
    )


@pytest.mark.parametrize("seed", range(examples(8, 4)))
def test_events_are_those_of_the_loop(seed):
    rng = np.random.default_rng(seed)
    asked = [random_asked(rng, f"s{i:02}", stays=False) | {"expires": None, "version": 0} for i in range(12)]
    rows = random_rows(rng, 80, seconds=40)
    rows.sort(key=lambda row: row["t"])
    first, second = rows[:40], rows[40:]
    loop = Watched(SPHERE, {**ATTRIBUTES, "id": pa.int64()})
    loop.batch(first, 0, asked)
    wanted = [event for event in loop.batch(second, 0, asked) if event[0] != "reset"]
    watch = dtoss.subscriptions(table_of(asked))
    found = watch.events(table_of_rows(first), table_of_rows(second), carry=["occupied"])
    columns = (found[name].to_pylist() for name in ("kind", "subscription", "object"))
    told = list(zip(*columns, found["t"].cast(pa.int64()).to_pylist(), strict=True))
    assert told == [(kind, name, object, t) for kind, name, _, object, t, _ in wanted]
    assert len(told) > 20
    assert found.column_names == ["kind", "subscription", "object", "t", "lon", "lat", "distance", "meta", "occupied"]
    # from nothing, all that holds a row at first is entered
    begun = watch.events(None, table_of_rows(first))
    fresh = Watched(SPHERE, {**ATTRIBUTES, "id": pa.int64()}).batch(first, 0, asked)
    assert begun["kind"].to_pylist() == [event[0] for event in fresh]


@pytest.mark.parametrize("schema", [None, {}])
def test_speeds_are_of_two_rows(schema):
    """Of the one before and this one, 100 m in 10 s; null at first, and behind a gap; a column of the rows counts."""
    fast = [{"id": "fast", "where": "speed > 9.99", "events": ["enter", "leave"]}]
    watch = dtoss.subscriptions(fast, crs="none", metric="plane", schema=schema)
    rows = {"id": [1] * 4, "t": [0, 10, 20, 5000], "x": [0.0, 100.0, 110.0, 1e9], "y": [0.0] * 4}
    told = watch.events(None, rows, carry=["speed"]).select(["kind", "t", "speed"]).to_pylist()
    assert told == [{"kind": "enter", "t": 10.0, "speed": 10.0}, {"kind": "leave", "t": 20.0, "speed": 1.0}]
    later = {"id": [1], "t": [5010], "x": [1e9 + 100.0], "y": [0.0]}
    assert watch.events(rows, later)["kind"].to_pylist() == ["enter"]
    if schema is None:
        own = watch.events(None, rows | {"speed": [99, 0, 0, 0]}, carry=["speed"])
        assert own.select(["kind", "speed"]).to_pylist()[0] == {"kind": "enter", "speed": 99}
    with pytest.raises(InputError, match="it is made of two rows of an object"):
        watch.match(rows)
    with pytest.raises(InputError, match="it is made of two rows of an object"):
        watch.events(None, {"x": [0.0], "y": [0.0]})


def test_rows_come_as_any_table():
    watch = dtoss.subscriptions([STATION | {"where": "occupied = 0"}])
    columns = {"lon": [8.66, 8.66, 9.0], "lat": [50.11, 50.11, 50.0], "occupied": [0, 1, 0]}
    for rows in (columns, pa.table(columns), pd.DataFrame(columns), {k: np.array(v) for k, v in columns.items()}):
        found = watch.match(rows)
        assert (found.row.tolist(), found.subscription.tolist(), found.distance.tolist()) == ([0], [0], [0.0])
    # the types of columns may differ from time to time
    assert len(watch.match(columns | {"occupied": [0.0, 1.5, 0.0]})) == 1


def test_subscriptions_come_as_any_table():
    columns = {"id": ["a", "b"], "lon": [0.0, 5.0], "lat": [0.0, 5.0], "radius": [10.0, 10.0]}
    for given in (columns, pa.table(columns), pd.DataFrame(columns)):
        watch = dtoss.subscriptions(given)
        assert watch.ids[watch.match({"lon": [5.0], "lat": [5.0]}).subscription].tolist() == ["b"]
    assert len(dtoss.subscriptions([]).match({"lon": [5.0], "lat": [5.0]})) == 0


def test_geometries_of_geopandas_are_places():
    """Polygons, and points with a radius, in the CRS that is said."""
    geopandas = pytest.importorskip("geopandas")
    from shapely import Point, box

    zones = geopandas.GeoDataFrame({"id": ["z"]}, geometry=[box(0, 0, 1, 1)], crs="EPSG:4326")
    here = {"lon": [0.5, 2.0], "lat": [0.5, 2.0]}
    assert dtoss.subscriptions(zones).match(here).row.tolist() == [0]
    points = geopandas.GeoDataFrame({"id": [1], "radius": [50.0]}, geometry=[Point(2, 2)], crs="EPSG:4326")
    found = dtoss.subscriptions(points).match(here)
    assert (found.row.tolist(), found.distance.tolist()) == ([1], [0.0])
    with pytest.raises(ValueError, match="the places are in EPSG:32631 and the watch in EPSG:4326"):
        dtoss.subscriptions(zones.to_crs("EPSG:32631"))


def test_planes_have_x_and_y():
    watch = dtoss.subscriptions([{"id": 1, "circle": [1000.0, 2000.0, 5.0]}], crs="none", metric="plane")
    found = watch.events(None, {"id": ["v"], "t": [1.5], "x": [1003.0], "y": [2004.0]})
    assert found.to_pylist() == [
        {"kind": "inside", "subscription": "1", "object": "v", "t": 1.5, "x": 1003.0, "y": 2004.0, "distance": 5.0,
         "meta": None}
    ]  # fmt: skip


def test_words_of_messages():
    watch = dtoss.subscriptions(
        [{"id": "flood", "words": "flood or fire"}, {"id": "here", "circle": [0, 0, 1000], "words": "not fire"}],
        text="said",
    )
    rows = {"lon": [0.0, 50.0], "lat": [0.0, 0.0], "said": ["A Flood!", "nothing"]}
    found = watch.match(rows)
    assert list(zip(found.row.tolist(), watch.ids[found.subscription].tolist(), strict=True)) == [
        (0, "flood"),
        (0, "here"),
    ]
    told = watch.events(None, rows)
    assert told["subscription"].to_pylist() == ["flood", "here"]
    assert told["object"].to_pylist() == [None, None]
    with pytest.raises(InputError, match="no column is called 'said'"):
        watch.match({"lon": [0.0], "lat": [0.0]})


def test_what_expired_does_not_count():
    ends = "2020-01-01T00:00:00Z"
    watch = dtoss.subscriptions([STATION | {"expires": ends}, STATION | {"id": "still"}])
    rows = {"lon": [8.66], "lat": [50.11]}
    assert watch.match(rows).subscription.tolist() == [0, 1]
    after = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    assert watch.match(rows, clock=after).subscription.tolist() == [1]
    assert watch.match(rows, clock=after.timestamp() - 1).subscription.tolist() == [0, 1]
    told = watch.events(None, rows | {"id": [1], "t": [0]}, clock=after)
    assert told["subscription"].to_pylist() == ["still"]
    with pytest.raises(ValueError, match="clock is 'soon'"):
        watch.match(rows, clock="soon")


def test_late_rows_are_left_out():
    watch = dtoss.subscriptions([STATION | {"events": ["enter", "leave"]}])
    inside, outside = {"lon": [8.66], "lat": [50.11]}, {"lon": [0.0], "lat": [0.0]}
    before = {"id": [3, 3], "t": [10, 5], "lon": [8.66, 0.0], "lat": [50.11, 0.0]}
    assert watch.events(before, inside | {"id": [3], "t": [11]}).num_rows == 0
    assert watch.events(before, outside | {"id": [3], "t": [11]})["kind"].to_pylist() == ["leave"]
    assert watch.events(before, outside | {"id": [3], "t": [10]}).num_rows == 0
    assert watch.events(before, inside | {"id": [4], "t": [1]})["kind"].to_pylist() == ["enter"]


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ({"lon": [0.0]}, "not the other coordinate"),
        ({"a": [0.0]}, "lon and lat, or x and y, are wanted"),
        ({"lon": [0.0], "lat": [91.0], "occupied": [0]}, "91"),
        ({"lon": [0.0], "lat": [0.0]}, "'occupied'"),
        ({"lon": [0.0], "lat": [0.0], "occupied": ["no"]}, "occupied"),
        ({"lon": [0.0], "lat": [0.0], "occupied": [0, 1]}, "'occupied' has 2 values"),
        ({"lon": [0.0], "lat": [0.0], "occupied": [0], "t": [None]}, "row 0 has no t"),
        ({"lon": [0.0], "lat": [0.0], "occupied": [0], "t": [float("inf")]}, "row 0 has t inf"),
        ({"lon": [0.0], "lat": [0.0], "occupied": [0], "t": ["now"]}, "seconds since 1970, are wanted"),
        ({"lon": [0.0], "lat": [0.0], "occupied": [0], "id": [1.5]}, "whole numbers or texts"),
    ],
)
def test_rows_that_cannot_be_matched(rows, reason):
    for schema in (None, {"occupied": pa.int64()}):
        watch = dtoss.subscriptions([STATION | {"where": "occupied = 0"}], schema=schema)
        with pytest.raises((InputError, ValueError), match=reason):
            watch.match(rows)
    with pytest.raises(TypeError, match="rows are int"):
        watch.match(3)


def test_rows_that_can_have_no_events():
    watch = dtoss.subscriptions([STATION | {"events": ["enter"]}])
    place = {"lon": [0.0], "lat": [0.0]}
    with pytest.raises(
        InputError, match="'station' wants enter, leave, dwell or cross, and the rows have no column 't'"
    ):
        watch.events(None, place)
    with pytest.raises(InputError, match="rows have no column 'id'"):
        watch.events(None, place | {"t": [0]})
    with pytest.raises(InputError, match="row 0 of rows has no id"):
        watch.events(None, place | {"t": [0], "id": [None]})
    with pytest.raises(InputError, match="rows before have no column 't'"):
        watch.events(place | {"id": [1]}, place | {"t": [0], "id": [1]})
    with pytest.raises(InputError, match="ids of rows before are string, and those of rows int64"):
        watch.events(place | {"t": [0], "id": ["a"]}, place | {"t": [0], "id": [1]})
    with pytest.raises(InputError, match="no column 'colour' to carry along"):
        watch.events(None, place | {"t": [0], "id": [1]}, carry=["colour"])


def test_subscriptions_that_are_none():
    with pytest.raises(InputError, match=r"2 subscriptions cannot be asked: row 1 \('a'\): .*radius.*; row 3"):
        dtoss.subscriptions([{"id": "a", "circle": [0, 0, -1]}, {"id": "b"}, {"id": "c", "box": [0, 0, 0, 1]}])
    with pytest.raises(InputError, match="colour"):
        dtoss.subscriptions([{"id": "a", "where": "colour > 1"}], schema={"occupied": pa.int64()})
    with pytest.raises(InputError, match="'a' is around an object"):
        dtoss.subscriptions([{"id": "a", "around": {"object": 7, "metres": 5}}])
    with pytest.raises(InputError, match="no text"):
        dtoss.subscriptions([{"id": "a", "words": "fire"}])
    with pytest.raises(InputError, match="a list of them, or a table, is wanted"):
        dtoss.subscriptions("fences.jsonl")


def test_threads_share_a_watch():
    subscriptions, rows = random_world(4, subscriptions=20, rows=200)
    watch = dtoss.subscriptions(table_of([one for one in subscriptions if one["kind"] != 4]))
    frame = frame_of(rows)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: pairs_in(watch.match(frame)), range(12)))
    assert all(same(one, found[0]) for one in found)
    assert found[0]


def test_times_are_dates_and_moments_of_any_unit_and_none_is_wrapped():
    watch = dtoss.subscriptions([{"id": "here", "circle": [0, 0, 10.0], "events": ["enter"]}])

    def told(t):
        found = watch.events(None, {"id": list(range(len(t))), "t": t, "lon": [0.0] * len(t), "lat": [0.0] * len(t)})
        return found["t"].cast(pa.timestamp("us", getattr(found["t"].type, "tz", None))).cast(pa.int64()).to_pylist()

    assert told(pa.array([datetime.date(1969, 12, 31)])) == [-86_400_000_000]
    assert told(pa.array([-1, 1, 999, 1000], pa.timestamp("ns"))) == [-1, 0, 0, 1]
    assert told(pa.array([-5], pa.timestamp("s", "Asia/Tokyo"))) == [-5_000_000]
    assert watch.events(None, {"id": [], "t": [], "lon": [], "lat": []}).num_rows == 0
    with pytest.raises(InputError, match="so far from 1970"):
        told(pa.array([1 << 60], pa.timestamp("s")))
    with pytest.raises(InputError, match="row 0 has t -9223372036854775808"):
        told(pa.array([-(1 << 63)]))


def test_rows_before_need_the_columns_that_memberships_are_made_of():
    watch = dtoss.subscriptions([{"id": "a", "circle": [0, 0, 10.0], "events": ["leave"], "where": "occupied = 0"}])
    before, now = {"id": [1], "t": [0], "lon": [0.0], "lat": [0.0]}, {"id": [1], "t": [1], "lon": [9.0], "lat": [0.0]}
    with pytest.raises(InputError, match="rows before have no column 'occupied'"):
        watch.events(before, now | {"occupied": [0]})
    with pytest.raises(InputError, match="column 'occupied' cannot be int64"):
        watch.events(before | {"occupied": ["no"]}, now | {"occupied": [0]})
    assert watch.events(before | {"occupied": np.int8([0])}, now | {"occupied": [0]}).num_rows == 1


def test_rows_without_any_text_have_no_words():
    watch = dtoss.subscriptions([{"id": "fire", "words": "fire"}], text="body")
    assert len(watch.match({"lon": [0.0, 1.0], "lat": [0.0, 1.0], "body": [None, None]})) == 0
    assert len(watch.match({"lon": [], "lat": [], "body": []})) == 0


def test_ends_beyond_all_numbers_are_none():
    with pytest.raises(InputError, match="expires is"):
        dtoss.subscriptions([{"id": "a", "expires": 1e305}])
    with pytest.raises(ValueError, match="clock is 1e"):
        dtoss.subscriptions([{"id": "a"}]).match({"lon": [0.0], "lat": [0.0]}, clock=1e305)


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]])
def test_of_a_moment_the_greatest_row_counts_whatever_the_order(order):
    watch = dtoss.subscriptions([{"id": "a", "circle": [0, 0, 10.0]}])
    values = [1.0, float("nan"), None, float("inf")]
    for column, greatest in (
        (pa.array(values), "nan"),
        (pa.array(["a", "c", None, "b"]).dictionary_encode(), "c"),
        (pa.array([1, 5, None, 2], pa.time64("ns")), "00:00:00"),
        (pa.array([[1], [3], None, [2]]), "[3]"),
        (pa.array([1, 5, None, 2], pa.timestamp("ns")), "1970-01-01 00:00:00.000000005"),
    ):
        rows = pa.table({"id": [1] * 4, "t": [0] * 4, "lon": [0.0] * 4, "lat": [0.0] * 4, "v": column})
        found = watch.events(None, rows.take(order), carry=["v"])["v"]
        assert [str(value) for value in found.to_pylist()] == [greatest]


@pytest.mark.parametrize("t", [9_007_199_255.5, -9_007_199_255.5, 9e12, -9e12])
def test_seconds_of_any_year_are_given_back(t):
    """Also where they have more microseconds than a float64 has digits for."""
    watch = dtoss.subscriptions([{"id": "a", "events": ["enter"]}])
    events = watch.events(None, {"id": [1], "lon": [0.0], "lat": [0.0], "t": [t]})
    assert events["t"].to_pylist() == [t]
