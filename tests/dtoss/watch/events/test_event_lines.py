"""Events as JSON lines: each is JSON, and says what the event is."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from dtoss.geometry.space import Space
from dtoss.watch.events.event_lines import json_lines, line_column, plain_rows
from dtoss.watch.watch_settings import Settings
from tests.dtoss.watch.events.made import SETTINGS, event, some_events, table_of
from tests.examples import examples

TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
EVENT = st.builds(
    event,
    TEXT,
    st.sampled_from(["leave", "enter", "inside", "reset"]),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-(10**15), 10**16),
    x=st.floats(allow_nan=False, allow_infinity=False),
    distance=st.one_of(st.none(), st.floats()),
    meta=st.one_of(st.none(), st.builds(json.dumps, st.dictionaries(TEXT, st.one_of(st.integers(), TEXT), max_size=3))),
)


def lines_of(table, settings=SETTINGS):
    text = json_lines(table, settings).to_pybytes().decode()
    assert text.endswith("\n") or not len(table)
    found = text.split("\n")[:-1]
    assert found == line_column(table, settings).to_pylist()
    return [json.loads(line) for line in found]


def expected_of(row):
    """A dict of :func:`plain_rows` as JSON has it."""
    row = dict(row)
    for name, value in row.items():
        if isinstance(value, float) and not np.isfinite(value):
            row[name] = None
    if isinstance(row["t"], datetime):
        row["t"] = row["t"].isoformat().replace("+00:00", "Z")
    return row


@settings(deadline=None, max_examples=examples(80))
@given(st.lists(EVENT, max_size=6))
def test_lines_are_the_rows(found):
    table = table_of(found, 3, 1)
    assert lines_of(table) == [expected_of(row) for row in plain_rows(table, SETTINGS)]


def test_a_line_is_as_documented():
    table = table_of([event("a", "enter", 7, 1_500_000, distance=2.5, meta='{"name":\n "x"}')], 12, 1)
    text = json_lines(table, SETTINGS).to_pybytes().decode()
    assert text == (
        '{"id":"12-4294967296","subscription":"a","version":1,"kind":"enter","object":7,"t":"1970-01-01T00:00:01.500000Z",'
        '"lon":1.5,"lat":-2.25,"distance":2.5,"batch":12,"reason":null,"meta":{"name":  "x"},"speed":0.5}\n'
    )
    (row,) = plain_rows(table, SETTINGS)
    assert row["t"] == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=1.5)
    assert row["meta"] == {"name": "x"}
    assert json_lines(table.slice(1), SETTINGS).size == 0


def test_seconds_planes_and_texts():
    plane = Settings(Space("none", "plane"), "string", "double", None, False, {})
    table = table_of([event('say "hi"\\', "inside", "o\tö", 2_500_000)], 1, 2, plane)
    (line,) = lines_of(table, plane)
    assert (line["t"], line["x"], line["y"], line["object"]) == (2.5, 1.5, -2.25, "o\tö")
    assert line["subscription"] == 'say "hi"\\'
    assert "lon" not in line
    assert [expected_of(row) for row in plain_rows(table, plane)] == [line]
    for t in (1_700_000_000_123_457, 9_007_199_254_740_993, -9_007_199_254_740_993, 253_402_300_799_000_000):
        far = table_of([event("a", "inside", "o", t)], 1, 2, plane)
        assert [row["t"] for row in plain_rows(far, plane)] == [line["t"] for line in lines_of(far, plane)] == [t / 1e6]


def test_what_is_carried_along_has_its_type():
    table = table_of([event("a", "enter", 7), event("b", "enter", 7)], 1, 1)
    moment = datetime(2024, 2, 29, 12, 30)
    for name, column in {
        "whole": pa.array([1, None], pa.int16()),
        "flag": pa.array([True, None]),
        "word": pa.array(["x", None]).dictionary_encode(),
        'odd "name"': pa.array(["y", None], pa.large_string()),
        "small": pa.array([0.5, float("nan")], pa.float32()),
        "when": pa.array([moment, None], pa.timestamp("ms")),
        "zoned": pa.array([moment, None], pa.timestamp("us", "UTC")),
        "far": pa.array([moment.replace(tzinfo=UTC), None], pa.timestamp("ns", "Asia/Kathmandu")),
        "day": pa.array([moment.date(), None]),
        "list": pa.array([[1, 2], None]),
        "code": pa.array([5, None], pa.int32()).dictionary_encode(),
    }.items():
        table = table.append_column(name, column)
    one, two = lines_of(table)
    assert [one[name] for name in ("whole", "flag", "word", 'odd "name"', "small")] == [1, True, "x", "y", 0.5]
    assert (one["when"], one["zoned"]) == ("2024-02-29T12:30:00", "2024-02-29T12:30:00Z")
    assert one["far"] == one["zoned"]
    assert (one["day"], one["list"], one["code"]) == ("2024-02-29", [1, 2], 5)
    assert {two[name] for name in table.column_names[13:]} == {None}


def test_many_chunks_are_one_text():
    random = np.random.default_rng(0)
    parts = [table_of(some_events(random, 50), 1, ordinal) for ordinal in range(4)]
    whole = pa.concat_tables(parts)
    assert lines_of(whole) == [line for part in parts for line in lines_of(part)]
    assert lines_of(whole.slice(70, 60)) == lines_of(whole)[70:130]


def test_times_of_years_that_python_has_not_are_texts():
    """Beside others of the same column; both ways say the same, and nested values are JSON."""
    far, early = 253_402_300_800_000_000, -62_135_596_800_000_001
    table = table_of([event("a", "enter", 7, far), event("b", "enter", 7, 0), event("c", "enter", 7, early)], 1, 1)
    order = [row["t"] for row in table.to_pylist()]
    moments = pa.array(order, pa.int64())
    table = table.append_column("when", moments.cast(pa.timestamp("us", "America/New_York")))
    table = table.append_column("day", pa.array([3_000_000, None, 1], pa.int32()).cast(pa.date32()))
    table = table.append_column("parts", pa.array([{"a": [float("nan"), 1.0]}, None, {"a": None}]))
    lines, rows = lines_of(table), list(plain_rows(table, SETTINGS))
    said = {early: "0000-12-31T23:59:59.999999Z", 0: "1970-01-01T00:00:00Z", far: "10000-01-01T00:00:00Z"}
    assert [line["t"] for line in lines] == [line["when"] for line in lines] == [said[t] for t in order]
    assert [row["t"] for row in rows] == [said[t] if t else datetime(1970, 1, 1, tzinfo=UTC) for t in order]
    assert [row["when"] for row in rows] == [row["t"] for row in rows]
    assert [line["day"] for line in lines] == ["10183-09-21", None, "1970-01-02"]
    assert [row["day"] for row in rows] == ["10183-09-21", None, date(1970, 1, 2)]
    assert [line["parts"] for line in lines] == [{"a": [None, 1.0]}, None, {"a": None}]
