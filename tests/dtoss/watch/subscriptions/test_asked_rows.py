"""Rows of subscriptions: what is kept of good ones, and the one line that each bad one gets."""

from __future__ import annotations

import datetime
import math

import numpy as np
import pyarrow as pa
import pytest

from dtoss.geometry.space import space_of
from dtoss.watch.subscription import AROUND, BOX, CIRCLE, EVERYWHERE, POLYGON, SUBSCRIPTION_SCHEMA
from dtoss.watch.subscriptions.subscription_text import write_rows
from dtoss.watch.subscriptions.validation import Against, Bad, check_subscriptions, checked_table

TRIANGLE = {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 0]]]}
ATTRIBUTES = {"speed": pa.float64(), "kind": pa.string(), "id": pa.int64()}
PLANE = Against(space_of("EPSG:32610"))


def reason_of(row, against=None):
    """The reason why a row is bad, which is one line."""
    table, bad = check_subscriptions([{"id": "good", "circle": [1, 2, 3]}, row], against)
    assert table["id"].to_pylist() == ["good"]
    assert [one.row for one in bad] == [2]
    assert "\n" not in str(bad[0])
    assert len(str(bad[0])) < 1500
    return bad[0].reason


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"circle": [8, 50, math.nan]}, "radius is nan: a finite number that is not negative is wanted"),
        ({"circle": [8, 50, -1]}, "radius is -1: a finite"),
        ({"circle": [8, 50, math.inf]}, "radius is inf: a finite"),
        ({"circle": [math.nan, 50, 1]}, "the centre is (nan, 50)"),
        (
            {"circle": [50, 95, 1]},
            "the centre is (50, 95): lon in [-180, 180] and lat in [-90, 90] is legal; lon comes",
        ),
        ({"circle": [200, 5, 1]}, "subtract 360"),
        ({"circle": [8, 50]}, "circle is [8, 50]: [lon, lat, metres] is wanted"),
        ({"circle": [8, "50", 1]}, "all numbers"),
        ({"circle": [8, True, 1]}, "all numbers"),
        ({"circle": "8 50 1"}, "all numbers"),
        ({"lon": 8, "lat": 50}, "and no radius"),
        ({"lon": 8, "lat": 50, "radius": "5"}, "radius is '5': a number is wanted"),
        ({"lat": 50, "radius": 5}, "and no lon and lat"),
        ({"around": {"object": 7}}, '{"object": ID, "metres": NUMBER} is wanted'),
        ({"around": {"object": 7, "metres": -2}}, "radius is -2"),
        ({"around": {"object": 7, "metres": "near"}}, "metres of around is 'near'"),
        ({"around": {"object": None, "metres": 5}}, "object is None"),
        ({"around": {"object": 7, "metres": 5}, "events": ["enter"]}, "around goes with inside only"),
        ({"box": [1, 1, 1, 2]}, "box has no width"),
        ({"box": [180, 1, -180, 2]}, "box has no width"),
        ({"box": [1, 2, 2, 1]}, "south <= north"),
        ({"box": [1, 2, 2]}, "[west, south, east, north] is wanted"),
        ({"box": [1, math.nan, 2, 3]}, "all legal, is wanted"),
        ({"west": 1, "south": 1, "east": 2}, "the box has no north"),
        (
            {
                "polygon": {"type": "Polygon", "coordinates": [[[0, 0], [120, 0], [-120, 0], [0, 0]]]},
                "edges": "spherical",
            },
            "in a hemisphere",
        ),
        ({"polygon": TRIANGLE, "edges": "round"}, "edges are 'round': 'planar' or 'spherical' is wanted"),
        ({"box": [1, 2, 3, 4], "edges": "planar"}, "edges is 'planar', and there is no polygon"),
        ({"polygon": {"type": "Polygon", "coordinates": [[[0, 0], [1, 1], [0, 0]]]}}, "2 distinct corners"),
        ({"polygon": {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 95]]]}}, "(1, 95)"),
        ({"polygon": {"type": "Polygon", "coordinates": []}}, "no rings"),
        ({"polygon": {"type": "MultiPolygon", "coordinates": []}}, "no polygons"),
        ({"polygon": {"type": "Point", "coordinates": [1, 2]}}, "Polygon or MultiPolygon is wanted"),
        ({"polygon": "POLYGON"}, "is not GeoJSON"),
        ({"polygon": 5}, "is not GeoJSON"),
        ({"polygon": {"type": "Polygon", "coordinates": [[["a", "b"], [1, 0], [1, 1]]]}}, "not numbers"),
        ({"polygon": {"type": "Polygon", "coordinates": [[[10**400, 0], [1, 0], [1, 1]]]}}, "polygon: "),
        ({"circle": [1, 2, 3], "box": [1, 2, 3, 4]}, "there are circle and box: one place is wanted"),
        ({"circle": [1, 2, 3], "lon": 1, "lat": 2, "radius": 3}, "two places"),
        ({"where": ""}, "where is ''"),
        ({"where": "speed >"}, "where 'speed >'"),
        ({"where": "speed > 3; drop table x"}, "where"),
        ({"where": 5}, "where is 5: a text is wanted"),
        ({"where": "x = 1 and " * 20_000 + "x = 1"}, "where has 200,005 characters: at most 100,000"),
        ({"where": "(" * 40_000 + "1 = 1" + ")" * 40_000}, "where"),
        ({"where": "speed > '\ud800'"}, "a text is wanted"),
        ({"events": []}, "some of inside, enter, leave, cross and dwell are wanted"),
        ({"events": ["inside", "exit"]}, "events is ['inside', 'exit']"),
        ({"events": 7}, "events is 7"),
        ({"events": [["inside"]]}, "events is"),
        ({"expires": "soon"}, "expires is 'soon': seconds since 1970, or a time"),
        ({"expires": math.inf}, "expires is 'inf'"),
        ({"expires": True}, "expires is 'True'"),
        ({"expires": 1e300}, "expires is"),
        ({"meta": {"a": object()}}, "JSON cannot hold it"),
        ({"meta": [math.nan]}, "JSON cannot hold it"),
        ({"meta": "\ud800"}, "JSON cannot hold it"),
        ({"meta": "x" * 1_000_000}, "meta has 1,000,002 characters: at most 100,000"),
        ({"circl": [1, 2, 3]}, "'circl' is nothing that a subscription has; did you mean circle?"),
        ({"name_of_zone": 1}, "belongs into meta"),
        ({"id": None}, "there is no id"),
        ({"id": ""}, "there is no id"),
        ({"id": 1.5}, "id is 1.5: a text or a whole number is wanted"),
        ({"id": True}, "id is True"),
        ({"id": 10**40}, "a text or a whole number is wanted"),
        ({"id": "\udc00"}, "id is"),
        ({"id": "x" * 1_000_000}, "id has 1,000,000 characters: at most 1,000"),
        ({"id": "good"}, "the id 'good' stands twice: row 1 has it too"),
        (17, "it is of type int"),
        (None, "it is of type NoneType"),
    ],
)
def test_a_bad_row_is_named_with_its_reason(row, said):
    """Whatever else stands beside it, which stays."""
    assert said in reason_of({"id": 5} | row if isinstance(row, dict) else row)


def test_of_several_bad_rows_each_is_named_by_file_line_and_id():
    """As messages show them."""
    rows = [{"id": 1, "box": [1, 1, 1, 2]}, {"id": 2}, {"circle": [1, 2, 3]}]
    _, bad = check_subscriptions(rows, file="a.jsonl", lines=[3, 4, 9])
    assert [(one.file, one.row, one.id) for one in bad] == [("a.jsonl", 3, "1"), ("a.jsonl", 9, None)]
    assert str(bad[0]).startswith("a.jsonl:3 ('1'): box has no width")
    assert str(Bad("", 4, None, "so")) == "row 4: so"


def test_conditions_are_checked_against_the_columns_where_these_are_known():
    """Unknown names and wrong types; without columns, only what is no condition at all."""
    known = Against(schema=ATTRIBUTES)
    assert "they carry speed, kind, id; did you mean speed?" in reason_of({"id": 1, "where": "sped > 3"}, known)
    assert "where" in reason_of({"id": 1, "where": "kind > 3"}, known)
    assert "is a value of type double" in reason_of({"id": 1, "where": "speed + 1"}, known)
    for against in (known, None):
        table, bad = check_subscriptions([{"id": 1, "where": "speed > 3 and kind in ('taxi')"}], against)
        assert (len(table), bad) == (1, [])
    assert check_subscriptions([{"id": 1, "where": "sped > 3"}])[1] == []


def test_enter_and_leave_need_a_time():
    """A stream without one, or one of messages, gives inside only."""
    for events in (["enter"], ["inside", "leave"]):
        assert "with a time: these have none" in reason_of({"id": 1, "events": events}, Against(time=False))
    assert check_subscriptions([{"id": 1, "events": ["inside"]}], Against(time=False))[1] == []
    assert check_subscriptions([{"id": 1, "events": ["enter"]}], Against(time=True))[1] == []


def test_words_are_checked():
    """Without a word, without a text, only negated ones without a place, and with enter."""
    pytest.importorskip("dtoss.watch.words.formula")
    place = {"circle": [1, 2, 3]}
    for words in ("", "and", "()", "coffee and", '"', "not"):
        assert reason_of({"id": 1, "words": words}).startswith("words ")
    assert "the rows have no text" in reason_of({"id": 1, "words": "coffee"}, Against(text=False))
    assert "words go with inside only" in reason_of({"id": 1, "words": "coffee", "events": ["enter"]})
    assert "--allow-everything" in reason_of({"id": 1, "words": "not decaf"})
    assert "at most 100,000" in reason_of({"id": 1, "words": "x " * 500_000})
    for row in ({"words": "not decaf"} | place, {"words": "coffee and not decaf"}, {"words": '"red car" or not blue'}):
        assert (
            check_subscriptions([{"id": 1} | row], Against(text=True, allow_everything="or not" in row["words"]))[1]
            == []
        )
    table, bad = check_subscriptions([{"id": 1, "words": "not decaf"}], Against(allow_everything=True))
    assert (table["words"].to_pylist(), bad) == (["not decaf"], [])


def test_what_a_good_row_becomes():
    """Every kind of place; inside where no events are said; ids as text."""
    rows = [
        {"id": 1},
        {"id": "c", "circle": [8, 50, 0], "events": ["leave", "enter"], "meta": {"to": ["a", 1]}},
        {"id": "b", "box": [170, -10, -170, 10], "expires": 12.5, "meta": "text"},
        {"id": "p", "polygon": TRIANGLE, "where": "speed > 3"},
        {"id": "a", "around": {"object": 7, "metres": 5}},
        {"id": "f", "lon": 1, "lat": 2, "radius": 3},
        {"id": "w", "west": 1, "south": 2, "east": 3, "north": 4, "events": "inside, enter"},
    ]
    table, bad = check_subscriptions(rows)
    assert (bad, table.schema) == ([], SUBSCRIPTION_SCHEMA)
    assert table["id"].to_pylist() == ["1", "c", "b", "p", "a", "f", "w"]
    assert table["kind"].to_pylist() == [EVERYWHERE, CIRCLE, BOX, POLYGON, AROUND, CIRCLE, BOX]
    assert table["events"].to_pylist() == [1, 6, 1, 1, 1, 1, 3]
    assert table["expires"].to_pylist() == [None, None, 12_500_000, None, None, None, None]
    assert table["meta"].to_pylist()[:3] == [None, '{"to":["a",1]}', '"text"']
    assert table["x"].to_pylist() == [None, 8.0, None, None, None, 1.0, None]
    assert table["radius"].to_pylist() == [None, 0.0, None, None, 5.0, 3.0, None]
    assert table["west"].to_pylist() == [None, None, 170.0, None, None, None, 1.0]
    assert table["object"].to_pylist() == [None] * 4 + ["7", None, None]
    assert table["version"].null_count == len(table)


def test_what_is_kept_is_written_as_it_came_and_reads_the_same():
    """From rows to the table, to rows, to the table; and the table itself."""
    holes = [[[0, 0], [9, 0], [9, 9], [0, 9]], [[1, 1], [2, 1], [2, 2]]]
    rows = [
        {"id": "1", "circle": [8.0, 50.5, 3.0], "events": ["enter", "leave"], "expires": "2030-01-01T00:00:00Z"},
        {"id": "2", "box": [170.0, -10.0, -170.0, 10.0], "events": ["inside"], "meta": {"a": None}},
        {"id": "3", "polygon": {"type": "Polygon", "coordinates": holes, "edges": "planar"}, "events": ["inside"]},
        {
            "id": "4",
            "polygon": {"type": "MultiPolygon", "coordinates": [holes, [holes[1]]], "edges": "spherical"},
            "events": ["leave"],
        },
        {"id": "4b", "polygon": {"type": "Polygon", "coordinates": holes, "edges": "vectors"}, "events": ["inside"]},
        {"id": "5", "around": {"object": "x", "metres": 2.0}, "events": ["inside"], "where": "a = 1"},
        {"id": "6", "events": ["inside"], "expires": "1969-12-31T23:59:59.500000Z"},
    ]
    table, bad = check_subscriptions(rows)
    assert bad == []
    assert write_rows(table) == rows
    assert check_subscriptions(write_rows(table))[0].equals(table)
    assert checked_table(table)[0].equals(table)


def test_moments_of_all_kinds_mean_the_same():
    """Seconds, text with and without a zone, Python's and Arrow's."""
    when = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
    said = [when.timestamp(), int(when.timestamp()), "2030-01-01", "2030-01-01T01:00:00+01:00", when, when.date()]
    table, bad = check_subscriptions([{"id": n, "expires": value} for n, value in enumerate(said)])
    assert (bad, set(table["expires"].to_pylist())) == ([], {1_893_456_000_000_000})
    for kind in (pa.timestamp("s"), pa.timestamp("ns", "Europe/Paris"), pa.timestamp("us", "UTC")):
        column = pa.array([when, None], pa.timestamp("us", "UTC")).cast(kind)
        table, bad = checked_table(pa.table({"id": [1, 2], "expires": column}))
        assert (bad, table["expires"].to_pylist()) == ([], [1_893_456_000_000_000, None])


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"circle": [1e100, 0, 1]}, "finite and at most 1e+90 in size"),
        ({"box": [5, 0, 1, 1]}, "xmin, ymin, xmax, ymax"),
        ({"box": [5, 0, 5, 1]}, "box has no width"),
        ({"polygon": {"type": "Polygon", "coordinates": [[[0, 0], [1e100, 0], [1, 1]]]}}, "1e+90"),
    ],
)
def test_a_plane_has_its_own_bounds(row, said):
    """In units of the CRS, without an antimeridian and without hemispheres."""
    assert said in reason_of({"id": 1} | row, PLANE)
    wide = {"type": "Polygon", "coordinates": [[[0, 0], [6e6, 0], [6e6, 6e6]]]}
    good = [{"id": 1, "circle": [5e5, 4e6, 10]}, {"id": 2, "box": [0, 0, 6e6, 6e6]}, {"id": 3, "polygon": wide}]
    assert check_subscriptions(good, PLANE)[1] == []


def test_a_projected_crs_that_is_compared_on_the_sphere_has_no_boxes():
    """As the queries have none; and a place has to be one of the CRS."""
    sphere = Against(space_of("EPSG:32610", "sphere"))
    table, bad = check_subscriptions([{"id": 1, "circle": [5e5, 4e6, 10]}, {"id": 2, "box": [0, 0, 1, 1]}], sphere)
    assert table["id"].to_pylist() == ["1"]
    assert "search within a polygon instead" in bad[0].reason
    _, bad = check_subscriptions([{"id": 1, "circle": [1e80, 4e6, 10]}], sphere)
    assert "is no place of EPSG:32610" in bad[0].reason


def test_columns_of_arrow_are_read_as_rows_are():
    """Nested and flat, narrow numbers, dictionaries, lists of fixed size, structs; nulls are what is not there."""
    table = pa.table(
        {
            "id": pa.array([1, 2, 3, 4, 5], pa.uint16()),
            "circle": pa.array([[1, 2, 3], None, None, None, None], pa.list_(pa.float32(), 3)),
            "west": pa.array([None, 1, None, None, None], pa.int32()),
            "south": pa.array([None, 1, None, None, None], pa.int32()),
            "east": pa.array([None, 2, None, None, None], pa.int32()),
            "north": pa.array([None, 2, None, None, None], pa.float32()),
            "around": pa.array([None, None, {"object": "x", "metres": 7}, None, None]),
            "polygon": pa.array([None, None, None, '{"type":"Polygon","coordinates":[[[0,0],[1,0],[1,1]]]}', None]),
            "where": pa.array([None, "a = 1", None, None, None]).dictionary_encode(),
            "events": pa.array([["enter"], None, ["inside"], ["leave", "enter"], None]),
            "meta": pa.array(['{"a": 1}', "[broken", "plain", None, None], pa.large_string()),
        }
    )
    found, bad = checked_table(table)
    assert bad == []
    assert write_rows(found) == [
        {"id": "1", "circle": [1.0, 2.0, 3.0], "events": ["enter"], "meta": {"a": 1}},
        {"id": "2", "box": [1.0, 1.0, 2.0, 2.0], "where": "a = 1", "events": ["inside"], "meta": "[broken"},
        {"id": "3", "around": {"object": "x", "metres": 7.0}, "events": ["inside"], "meta": "plain"},
        {
            "id": "4",
            "polygon": {"type": "Polygon", "coordinates": [[[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]], "edges": "planar"},
            "events": ["enter", "leave"],
        },
        {"id": "5", "events": ["inside"]},
    ]
    wrong = pa.table({"id": [1.5, 2.5], "radius": ["1", "2"], "lon": [1, 2], "lat": [1, 2]})
    _, bad = checked_table(wrong)
    assert ["radius is '1'" in bad[0].reason or "id is 1.5" in bad[0].reason, len(bad)] == [True, 2]
    with pytest.raises(ValueError, match=r"column 'wher' is nothing .* did you mean where\?"):
        checked_table(pa.table({"id": [1], "wher": ["a"]}))
    with pytest.raises(ValueError, match="two have one name"):
        checked_table(pa.Table.from_arrays([pa.array([1]), pa.array([1])], ["id", "id"]))


def test_many_at_one_place_and_none_at_all():
    """A hundred thousand equal circles are so many subscriptions; no rows are none."""
    count = 100_000
    table = pa.table(
        {"id": np.arange(count), "x": np.full(count, 8.0), "y": np.full(count, 50.0), "radius": [5.0] * count}
    )
    found, bad = checked_table(table)
    assert (len(found), bad) == (count, [])
    assert check_subscriptions([]) == (SUBSCRIPTION_SCHEMA.empty_table(), [])


def test_a_bad_polygon_among_good_ones_is_found():
    """Those are checked at once, and one by one where something is wrong."""
    rows = [{"id": n, "polygon": TRIANGLE} for n in range(50)]
    wide = {"type": "Polygon", "coordinates": [[[0, 0], [120, 0], [-120, 0]]], "edges": "spherical"}
    rows[17] = {"id": 17, "polygon": wide}
    rows[31] = {"id": 31, "polygon": {"type": "Polygon", "coordinates": [[[0, 0], 5]]}}
    table, bad = check_subscriptions(rows)
    assert (len(table), [one.row for one in bad]) == (48, [18, 32])
