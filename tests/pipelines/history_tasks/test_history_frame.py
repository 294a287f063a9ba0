"""Rows of a history in Spark are those that went in, and only the blocks that can hold them are read."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from dtoss.errors import InputError, StoreError
from dtoss.history.data_file import write_file
from dtoss.history.history_commit import Change, Entry, NewPeriod, commit
from dtoss.history.row_blocks import sorted_rows
from dtoss.history.schema import interval_of
from pipelines.history_frame import history_frame
from pipelines.history_tasks.scans import PastScan
from tests.dtoss.history.worlds import EPOCH, PLANE, SPHERE, new_home, put_batch, schema_of, table_of

N = 3000


@pytest.fixture(scope="module")
def schema():
    return schema_of(SPHERE, speed=pa.uint16(), kind=pa.large_string(), gap=pa.float64())


@pytest.fixture(scope="module")
def rows(schema):
    """Three batches that overlap in time, round the antimeridian; a tenth are deletions, some of them nowhere."""
    rng = np.random.default_rng(4)
    tables = []
    for batch in range(3):
        positions = np.round(np.array([179.99, 0.0]) + rng.normal(0, 0.05, (N, 2)), 3)
        positions[:, 0] = np.where(positions[:, 0] > 180, positions[:, 0] - 360, positions[:, 0])
        deleted = rng.random(N) < 0.1
        positions[deleted & (rng.random(N) < 0.5)] = np.nan
        tables.append(
            table_of(
                schema,
                rng.integers(0, 50, N),
                rng.integers(0, 600, N) + 300 * batch,
                positions,
                deleted.tolist(),
                speed=rng.integers(0, 60_000, N),
                kind=rng.choice(["taxi", "van", None], N).tolist(),
                gap=np.where(rng.random(N) < 0.1, np.nan, 1.0),
            )
        )
    return tables


@pytest.fixture(scope="module")
def history(tmp_path_factory, rows, schema):
    home = new_home(tmp_path_factory.mktemp("frame") / "h")
    for i, table in enumerate(rows):
        put_batch(home, table, schema, f"batch {i}")
    return home.path


def in_order(rows):
    return sorted(map(repr, rows))


def standing(tables, test):
    """Rows without deletions that pass a test, as dictionaries of the columns of the frame."""
    found = []
    for row in pa.concat_tables(tables).to_pylist():
        if not row.pop("deleted") and test(row):
            x, y = row.pop("x"), row.pop("y")
            found.append({"id": row["id"], "t": row["t"], "lon": x, "lat": y, **row})
    return in_order(found)


def test_all_rows_come_in_their_types(spark, history, rows):
    """Deletions do not; nulls stay nulls; types that Spark lacks are the next larger ones."""
    frame = history_frame(spark, history)
    assert [(f.name, f.dataType.simpleString()) for f in frame.schema.fields] == [
        ("id", "bigint"), ("t", "timestamp"), ("lon", "double"), ("lat", "double"),
        ("speed", "int"), ("kind", "string"), ("gap", "double"),
    ]  # fmt: skip
    assert in_order(frame.toArrow().to_pylist()) == standing(rows, lambda row: True)


def test_an_interval_a_box_and_a_condition(spark, history, rows):
    """All closed; the box crosses the antimeridian; a condition may name the time and the position."""
    box = [179.95, -0.05, -179.99, 0.05]
    first, last = "2020-01-01T00:05", "2020-01-01T00:10:00+00:00"
    frame = history_frame(
        spark, history, between=[first, last], box=box, where="kind = 'van' and lat < 0.04 and t <> '2020-01-01 00:06'"
    )

    def wanted(row):
        seconds = (row["t"] - EPOCH).total_seconds()
        inside = (row["x"] >= 179.95 or row["x"] <= -179.99) and -0.05 <= row["y"] < 0.04
        return 300 <= seconds <= 600 and inside and row["kind"] == "van" and seconds != 360

    found = in_order(frame.toArrow().to_pylist())
    assert found == standing(rows, wanted)
    assert 20 < len(found) < N
    assert history_frame(spark, history, between=["2021-01-01", None]).count() == 0


def test_columns_come_in_the_order_that_is_asked_for(spark, history):
    """None but those are read."""
    frame = history_frame(spark, history, columns=["kind", "lat", "id"], between=["-", "2020-01-01T00:00:09"])
    assert frame.columns == ["kind", "lat", "id"]
    assert 0 < frame.count() < N


def test_an_older_version_has_its_own_rows(spark, history, rows):
    """Fixed when it is asked for."""
    assert history_frame(spark, history, version=2).count() == len(standing(rows[:2], lambda row: True))


def test_only_blocks_of_the_interval_are_chosen(tmp_path):
    """Sorted by time, a tenth of the span is a tenth of the blocks."""
    n, schema = 100_000, schema_of(PLANE, t_type="int64")
    home = new_home(tmp_path / "h")
    table = sorted_rows(table_of(schema, np.arange(n), np.arange(n), np.zeros((n, 2))), "time")
    file = write_file(home.folder, 0, [(table, None)], schema)
    entry = Entry("a", "given", "", -1, n, file.sum)
    version = commit(
        home, Change("append", ((file, -1),), periods=(NewPeriod(0),), entries=(entry,), schema=schema), None
    )
    assert version.number == 1
    spans = [(50_000, 59_999), interval_of(None, "int64"), (n, n)]
    assert [len(PastScan(home, 1, ("id",), span).chosen()) for span in spans] == [2, 13, 0]


def test_planes_text_ids_and_numbers_as_times(spark, tmp_path):
    """Columns are x and y then."""
    schema = schema_of(PLANE, "string", "double")
    home = new_home(tmp_path / "h")
    put_batch(home, table_of(schema, ["a", "é", ""], [0.5, 1.5, 2.5], [[0, 0], [5, 5], [9, 9]]), schema, "k")
    frame = history_frame(spark, str(home.path), between=[1, "2.5"], box=[4, 4, 6, 6], where="x = 5 and t > 1")
    assert frame.toArrow().to_pylist() == [{"id": "é", "t": 1.5, "x": 5.0, "y": 5.0}]


def test_a_history_without_rows_is_an_empty_frame(spark, tmp_path):
    schema = schema_of()
    home = new_home(tmp_path / "h")
    put_batch(home, schema.arrow.empty_table(), schema, "k")
    assert history_frame(spark, home.path).toArrow().num_rows == 0


def test_what_is_wrong_is_one_line(spark, history, tmp_path):
    """Before anything is read."""
    for error, text, options in [
        (InputError, "'colour' is not carried", {"columns": ["colour"]}),
        (ValueError, "'colour' is not carried", {"where": "colour = 1"}),
        (InputError, "the first is after", {"between": ["2021-01-01", "2020-01-01"]}),
        (ValueError, "box 0 is", {"box": [0, 5, 1, 4]}),
        (InputError, "a time such as", {"between": ["noon", None]}),
        (StoreError, "version 9", {"version": 9}),
    ]:
        with pytest.raises(error, match=text):
            history_frame(spark, history, **options)
    with pytest.raises(StoreError, match="is no history"):
        history_frame(spark, str(tmp_path / "none"))
