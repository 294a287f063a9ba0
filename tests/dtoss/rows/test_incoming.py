"""Rows that come to a store are judged as those of its files are, whatever its ids, times and places are."""

from __future__ import annotations

import json
from datetime import date, datetime

import numpy as np
import pyarrow as pa
import pytest

from dtoss.errors import InputError
from dtoss.geometry.space import space_of
from dtoss.log.log_reader import log_schema, roles_of
from dtoss.rows.incoming import Incoming
from dtoss.rows.input_columns import REASON, columns_of, types_of
from dtoss.snapshots.manifest_fields import Wishes
from pipelines.rows.position_frame import screen_positions
from pipelines.rows.read_files import read_positions

SOURCE = {"id": "id", "x": None, "y": None, "time": "t", "deleted": None, "columns": "all"}
MANIFEST = {
    "snapshot": "a", "source": SOURCE, "time": {"column": "t", "type": "timestamp", "unit": None},
    "columns": {"t": "timestamp", "size": "double", "name": "string"}, "id_type": "int64", "crs": "EPSG:4326",
    "metric": "sphere", "to_lonlat": False, "parameters": Wishes().facts(),
}  # fmt: skip
ROW = {"id": 7, "lon": 1.5, "lat": 2.5, "t": "2026-01-01T00:00:00Z", "size": 3, "name": "n"}


def incoming(**more):
    manifest = {**MANIFEST, **more}
    schema = log_schema(manifest)
    return Incoming(manifest, schema, roles_of(schema))


def judged(comes, *rows, now=None):
    """What is taken, and why the others are not."""
    lines = "\n".join(json.dumps(row) for row in rows).encode()
    done = comes.judge(comes.of_json(lines, "here"), now)
    assert done.rows.schema.equals(comes.schema)
    return done.rows.to_pylist(), [reason for _, reason in done.refused]


def test_columns_are_called_as_in_the_input():
    """By its names, a path among them; or else as most call them, in any of the usual pairs."""
    said = {"column": "when", "type": "timestamp", "unit": None}
    source = SOURCE | {"id": "car.id", "x": "east", "y": "north", "time": "when"}
    comes = incoming(source=source, time=said, columns={"size": "double", "name": "string"})
    rest = {"size": None, "name": "n"}
    named = {"east": 1, "north": 2, "when": ROW["t"], **rest}
    rows = [{"car.id": 7, **named}, {"car": {"id": 7}, **named}, {"id": 7, **named}]
    rows.append({"id": 7, "lng": 1, "lat": 2, "t": ROW["t"], **rest})
    for row in rows:
        taken, refused = judged(comes, row)
        assert refused == [], row
        assert [*taken[0].values()][:3] == [7, 1.0, 2.0]
    taken, refused = judged(comes, rows[0] | {"more": 1}, rows[0] | {"east": None}, {"car.id": 7, "deleted": True})
    assert (len(taken), refused) == (1, ["no position", "no time"])


@pytest.mark.parametrize(
    ("kind", "unit", "given", "wanted", "bad"),
    [
        ("bigint", "s", 5, 5, "x"), ("bigint", "s", "5", 5, 1.5), ("double", "ms", 5, 5.0, "x"),
        ("date", None, "2026-01-02", date(2026, 1, 2), "soon"),
        ("timestamp_ntz", None, "2026-01-02T03:04:05", datetime(2026, 1, 2, 3, 4, 5), "soon"),
        ("timestamp_ntz", None, "2026-01-02T03:04:05+01:00", datetime(2026, 1, 2, 2, 4, 5), "soon"),
    ],
)  # fmt: skip
def test_times_are_of_the_store_s_type(kind, unit, given, wanted, bad):
    comes = incoming(time={"column": "t", "type": kind, "unit": unit})
    taken, refused = judged(comes, ROW | {"t": given}, ROW | {"t": bad}, ROW | {"t": None})
    assert [row["t"] for row in taken] == [wanted]
    assert refused == ["time cannot be read", "no time"]


def test_a_time_may_be_ahead_of_now_by_five_minutes():
    comes = incoming(time={"column": "t", "type": "bigint", "unit": "s"})
    taken, refused = judged(comes, ROW | {"t": 1_300}, ROW | {"t": 1_301}, now=1_000)
    assert ([row["t"] for row in taken], refused) == ([1_300], ["time is ahead of now"])
    rows = comes.of_json(json.dumps(ROW | {"t": 9_000}).encode(), "here")
    assert not comes.judge(rows, 1_000, None).refused


def test_ids_are_of_the_store_s_type():
    assert judged(incoming(id_type="string"), ROW)[0][0]["id"] == "7"
    assert judged(incoming(), ROW | {"id": "7"})[0][0]["id"] == 7
    assert judged(incoming(), ROW | {"id": 2**63 - 1})[0][0]["id"] == 2**63 - 1
    assert judged(incoming(), ROW | {"id": "07"}, ROW | {"id": ""}, ROW | {"id": "9" * 30})[1] == [
        "id is not an integer as the others are", "no id", "id is not an integer as the others are",
    ]  # fmt: skip
    with pytest.raises(InputError, match="column 'id' is double"):
        judged(incoming(), ROW, ROW | {"id": 1.5})  # of large ids a double would keep another one


def test_places_are_those_of_the_space_and_within_given_bounds():
    plane = {"crs": "none", "metric": "plane", "parameters": Wishes(bounds=(0, 0, 10, 10)).facts()}
    row = {"id": 1, "x": 1, "y": 9, "t": ROW["t"], "size": 1, "name": None}
    taken, refused = judged(incoming(**plane), row, row | {"x": 11}, row | {"x": 1e99})
    assert (len(taken), refused) == (1, ["position outside the bounds", "position out of range"])


def test_points_are_read_where_a_store_was_built_of_some():
    comes = incoming(source=SOURCE | {"geometry": "place"})
    rest = {"id": 1, "t": ROW["t"], "size": 1, "name": None}
    taken, refused = judged(comes, {**rest, "place": "POINT (1 2)"}, {**rest, "place": "nowhere"})
    assert ((taken[0]["lon"], taken[0]["lat"]), refused) == ((1.0, 2.0), ["geometry is no point"])
    assert judged(comes, {**rest, "lon": 1, "lat": 2})[1] == []


def test_attributes_are_of_the_store_s_types_or_their_row_is_bad():
    kinds = {"a": "int", "b": "float", "c": "boolean", "d": "timestamp", "e": "date", "f": "array<bigint>"}
    good = {"a": 3, "b": 0.1, "c": True, "d": "2026-01-01T00:00:00Z", "e": "2026-01-01", "f": [1, 2]}
    base = {name: ROW[name] for name in ("id", "lon", "lat", "t")}
    comes = incoming(columns=kinds)
    (taken,), refused = judged(comes, {**base, **good})
    assert refused == []
    assert taken["b"] == np.float32(0.1)
    assert (taken["a"], taken["c"], taken["e"], taken["f"]) == (3, True, date(2026, 1, 1), [1, 2])
    assert judged(comes, {**base, **dict.fromkeys(good)})[1] == []
    for name, value in (("a", 2**40), ("a", 1.5), ("a", "x"), ("b", "x"), ("c", "x"), ("d", "x"), ("e", "x")):
        taken, refused = judged(comes, {**base, **good}, {**base, **good, name: value})
        assert (len(taken), refused) == (1, ["value is of another type than the column"]), (name, value)
    with pytest.raises(InputError, match="column 'f' is bigint in the rows"):
        judged(comes, {**base, **good, "f": 1})


def test_a_body_is_judged_as_a_file_of_the_same_lines(tmp_path):
    """The same rows are good, with the same values, and the others are bad for the same reasons."""
    odd = [
        None,
        "",
        "x",
        "7",
        7,
        -1,
        1.5,
        181,
        1e400,
        2**70,
        True,
        "2026-01-01",
        "NaN",
        "2026-01-01T00:00:00+09:00",
        "é",
    ]
    rng = np.random.default_rng(0)
    rows = [ROW | {name: odd[rng.integers(len(odd))] for name in rng.choice([*ROW], 2)} for _ in range(400)]
    rows = [row for row in rows if not isinstance(row["id"], (float, bool))]
    comes = incoming()
    lines = "".join(json.dumps(row) + "\n" for row in rows) + "[1]\n{\n"
    (tmp_path / "a.jsonl").write_text(lines)
    columns = columns_of(MANIFEST, {})
    read = read_positions(None, [str(tmp_path / "a.jsonl")], columns, wanted=types_of(MANIFEST, columns))
    screened = screen_positions(read, space_of(None, None)).frame
    file = pa.Table.from_batches([one for task in screened.all_rows().tasks for one in task()], screened.schema)
    done = comes.judge(comes.of_json(lines.encode(), "here"), ahead=None)
    reasons = file.column(REASON).to_pylist()
    assert [reason for _, reason in done.refused] == [reason for reason in reasons if reason is not None]
    assert [row for row, _ in done.refused] == [row for row, reason in enumerate(reasons, 1) if reason is not None]
    good = file.filter(file.column(REASON).is_null())
    assert 0 < len(good) < len(rows)
    for name, column in (("id", "id"), ("lon", "x"), ("lat", "y"), ("t", "t"), ("size", "a:size"), ("name", "a:name")):
        assert str(done.rows[name].to_pylist()) == str(good[column].to_pylist()), name
    assert len({reason for reason in reasons if reason}) > 8
