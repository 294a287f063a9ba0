"""The columns of a log are those of the input that a store was built of."""

from __future__ import annotations

import pyarrow as pa
import pytest

import dtoss
from dtoss.errors import InputError
from dtoss.log.log_reader import log_schema, roles_of
from dtoss.snapshots.store import Store
from pipelines.rebuild import rebuild


def manifest_of(tmp_path, rows, **options):
    rebuild(pa.table(rows), str(tmp_path / "store"), **options)
    return Store.at(tmp_path / "store").manifest()


def test_usual_names(tmp_path):
    rows = {"id": [7, 8], "lon": [0.0, 1.0], "lat": [0.0, 0.0], "t": [10, 10], "word": ["a", "b"]}
    dtoss.build(rows).save(tmp_path / "store")
    schema = log_schema(Store.at(tmp_path / "store").manifest())
    assert [str(field) for field in schema] == [
        "pyarrow.Field<id: int64 not null>", "pyarrow.Field<lon: double>", "pyarrow.Field<lat: double>",
        "pyarrow.Field<t: int64 not null>", "pyarrow.Field<word: string>", "pyarrow.Field<deleted: bool not null>",
    ]  # fmt: skip
    assert roles_of(schema) == {"id": "id", "x": "lon", "y": "lat", "time": "t", "deleted": "deleted"}


def test_names_and_types_of_the_input(tmp_path):
    """A path to a field of structs is the name of a column here; reserved names are those of the input."""
    stamps = pa.array([1, 2], pa.timestamp("ms", "Europe/Berlin"))
    rows = {
        "who": ["a", "b"], "where": [{"e": 0.0, "n": 5.0}, {"e": 1.0, "n": 6.0}], "at": stamps, "rank": [1, 2],
        "kinds": [["x"], []],
    }  # fmt: skip
    manifest = manifest_of(
        tmp_path, rows, id="who", x="where.e", y="where.n", time="at", columns=["rank", "kinds"], crs="none"
    )
    schema = log_schema(manifest)
    assert roles_of(schema) == {"id": "who", "x": "where.e", "y": "where.n", "time": "at", "deleted": "deleted"}
    assert schema.names == ["who", "where.e", "where.n", "at", "kinds", "rank", "deleted"]
    assert [str(schema.field(name).type) for name in ("who", "at", "rank", "kinds")] == [
        "string", "timestamp[us, tz=UTC]", "int64", "list<element: string>",
    ]  # fmt: skip


def test_names_of_a_plane(tmp_path):
    rows = {"id": [1, 2], "geo": [{"x": 0.0}, {"x": 1.0}], "X": [0.0, 1.0], "Y": [0.0, 1.0], "t": [1, 2]}
    assert log_schema(manifest_of(tmp_path, rows, crs="none", columns="none")).names == ["id", "x", "y", "t", "deleted"]


def test_stores_that_can_have_no_log(tmp_path):
    rows = {"id": [1, 2], "lon": [0.0, 1.0], "lat": [0.0, 1.0]}
    with pytest.raises(InputError, match=r"^snapshot \S+ has no times, .*: rebuild it with --time COLUMN$"):
        log_schema(manifest_of(tmp_path, rows))
    rows |= {"t": [1, 2], "Deleted": [True, False]}
    with pytest.raises(InputError, match=r"^the objects of snapshot \S+ carry a column 'deleted', .*--columns"):
        log_schema(manifest_of(tmp_path, rows))
    assert "deleted" in log_schema(manifest_of(tmp_path, rows, columns="none")).names
