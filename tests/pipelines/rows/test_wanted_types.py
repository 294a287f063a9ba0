"""Updates as text or JSON lines have the types of their store, whatever the values of a few rows look like."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from dtoss.rows.input_columns import MISTYPED, RAW, Columns, types_of
from pipelines.rows.read_files import read_positions

MANIFEST = {
    "id_type": "string",
    "time": {"column": "t", "type": "double", "unit": "s"},
    "columns": {"speed": "double", "count": "bigint", "code": "string", "x_": "bigint"},
    "renamed": {"x": "x_"},
}
COLUMNS = Columns(x="lon", y="lat")
TYPES = {"id": "string", "t": "double", "speed": "double", "count": "bigint", "code": "string", "x": "bigint"}
NAMES = ("id", "lon", "lat", "t", "speed", "count", "code", "x")


def read(session, path, wanted):
    """The types of a file's columns, its rows, and the reasons of those that are set aside."""
    positions = read_positions(session, [str(path)], COLUMNS, wanted=wanted)
    kinds = {name.removeprefix("a:"): kind for name, kind in positions.types.items()}
    frame = positions.frame
    rows = frame.with_raw().table(frame.schema.append(pa.field(RAW, pa.string()))).to_pylist()
    ours = [{"lon": "x", "lat": "y", "id": "id"}.get(name, f"a:{name}") for name in NAMES]
    good = [tuple(row[name] for name in ours) for row in rows if not row["_reason"]]
    bad = {json.loads(row["_raw"])["id"]: row["_reason"] for row in rows if row["_reason"]}
    return kinds, good, bad


def csv(path, *rows):
    path.write_text("".join(",".join(map(str, row)) + "\n" for row in (NAMES, *rows)))
    return path


def jsonl(path, *rows):
    path.write_text("".join(json.dumps(dict(zip(NAMES, row, strict=True))) + "\n" for row in rows))
    return path


def test_types_are_those_of_the_manifest():
    assert types_of(MANIFEST, COLUMNS) == TYPES
    assert types_of(None, COLUMNS) == {}
    assert types_of({**MANIFEST, "time": None, "id_type": "int64"}, Columns(id="name")) == {
        "name": "bigint", "speed": "double", "count": "bigint", "code": "string", "x": "bigint"
    }  # fmt: skip


@pytest.mark.parametrize("write", [csv, jsonl])
def test_values_that_look_like_another_type(session, tmp_path, write):
    """Whole numbers where others have a point, numbers as codes and ids."""
    path = write(tmp_path / f"a.{write.__name__}", (7, 1, 2, 3, 4, 5, 6, 8))
    kinds, good, bad = read(session, path, TYPES)
    assert {name: kinds[name] for name in TYPES} == TYPES
    assert good == [("7", 1.0, 2.0, 3.0, 4.0, 5, "6", 8)]
    assert [type(value) for value in good[0]] == [str, float, float, float, float, int, str, int]
    assert bad == {}
    # without that they are what they look like
    assert read(session, path, None)[0]["speed"] == "bigint"


def test_columns_without_a_value_have_their_type(session, tmp_path):
    wanted = {"id": "string", "t": "double", "speed": "double", "count": "bigint", "code": "string", "x": "bigint"}
    kinds, good, _ = read(session, csv(tmp_path / "a.csv", ("a", 1, 2, 3, "", "", "", "")), wanted)
    assert {name: kinds[name] for name in TYPES} == TYPES
    assert good[0][:6] == ("a", 1.0, 2.0, 3.0, None, None)
    kinds, good, _ = read(session, jsonl(tmp_path / "a.jsonl", ("a", 1, 2, 3, None, None, None, None)), wanted)
    assert {name: kinds[name] for name in TYPES} == TYPES
    assert good == [("a", 1.0, 2.0, 3.0, None, None, None, None)]


def test_a_value_of_another_type_is_set_aside(session, tmp_path):
    rows = [(f"n{i}", 1, 2, 3.5, 4.5, 5, "c", i) for i in range(40)]
    rows[3] = ("speed", 1, 2, 3.5, "fast", 5, "c", 3)
    rows[5] = ("count", 1, 2, 3.5, 4.5, "5.5", "c", 5)
    rows[7] = ("zeros", 1, 2, 3.5, 4.5, "007", "c", 7)
    _, good, bad = read(session, csv(tmp_path / "a.csv", *rows), TYPES)
    assert len(good) == 37
    assert bad == {"speed": MISTYPED, "count": MISTYPED, "zeros": MISTYPED}
    rows[5] = ("count", 1, 2, 3.5, 4.5, 5.5, "c", 5)
    rows[7] = ("n7", 1, 2, 3.5, 4.5, 7, "c", 7)
    _, good, bad = read(session, jsonl(tmp_path / "a.jsonl", *rows), TYPES)
    assert len(good) == 38
    assert bad == {"speed": MISTYPED, "count": MISTYPED}


def test_a_column_of_another_type_stays_what_it_is(session, tmp_path):
    """So that whoever merges it names both types."""
    rows = [(f"n{i}", 1, 2, 3.5, "fast", 5, "c", 1.5) for i in range(10)]
    kinds, good, bad = read(session, csv(tmp_path / "a.csv", *rows), TYPES)
    assert (kinds["speed"], kinds["x"], len(good), bad) == ("string", "double", 10, {})


def test_ids_that_are_whole_numbers_in_the_store(session, tmp_path):
    wanted = {**TYPES, "id": "bigint"}
    rows = [(i, 1, 2, 3, 4, 5, "c", 6) for i in range(20)]
    rows[4] = ("n4", *rows[4][1:])
    for write in (csv, jsonl):
        kinds, good, bad = read(session, write(tmp_path / f"a.{write.__name__}", *rows), wanted)
        assert kinds["id"] == "bigint"
        assert sorted(row[0] for row in good) == [i for i in range(20) if i != 4]
        assert bad == {"n4": "id is not an integer as the others are"}
