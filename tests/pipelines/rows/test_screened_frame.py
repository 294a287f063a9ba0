"""Rows of this process with what they were read as: only those that may be set aside, each its own; none is lost."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from dtoss.rows.input_columns import RAW, REASON, Columns
from pipelines.engines.local_rows import LocalRows
from pipelines.rows.read_files import positions_of
from pipelines.rows.row_sources import TableSource


def positions(tables=4, rows=50):
    """Rows of several tasks, an eighth of them without a place, with columns of which nothing is made."""
    rng = np.random.default_rng(0)
    whole = pa.table(
        {
            "id": np.arange(tables * rows), "lat": np.zeros(tables * rows),
            "lon": [None if bad else 1.0 for bad in rng.integers(0, 8, tables * rows) == 0],
            "said": [f"row {i}" for i in range(tables * rows)],
        }
    )  # fmt: skip
    halves = [whole.slice(begin, rows // 2) for begin in range(0, tables * rows, rows // 2)]
    source = TableSource([pa.concat_tables(halves[i : i + 2]) for i in range(0, 2 * tables, 2)])
    return positions_of(source, whole.schema, Columns(attributes="none"))


def rows_in(found):
    return pa.Table.from_batches([batch for some in found.collect() for batch in some]).to_pylist()


def test_rows_that_are_bad_or_doubted_are_told_as_they_were_read():
    """Of several tasks and batches; rows that a step leaves out shift nobody's."""
    frame = positions().frame.where(lambda rows: rows.column("id").to_numpy() % 3 > 0)
    frame = frame.doubt(lambda rows: rows.column("id").to_numpy() % 5 == 0)
    found = rows_in(frame.with_raw())
    assert [row["id"] for row in found] == [i for i in range(200) if i % 3]
    told = [row for row in found if row[RAW] is not None]
    assert [json.loads(row[RAW])["said"] for row in told] == [f"row {row['id']}" for row in told]
    assert {row["id"] for row in told} == {row["id"] for row in found if row[REASON] is not None or row["id"] % 5 == 0}
    assert 30 < len(told) < 100


def test_columns_of_which_nothing_is_made_are_read_where_a_row_is_bad():
    asked = []

    class Told(TableSource):
        def rows(self, task, columns, schema):
            def heard(read):
                return lambda columns: asked.append(list(columns)) or read(columns)

            return super().rows(lambda number, read: task(number, heard(read)), columns, schema)

    table = pa.table({"id": [1, 2], "lon": [0.0, 1.0], "lat": [0.0, 1.0], "more": ["a", "b"]})
    for lon, reads in ([0.0, 1.0], 1), ([None, 1.0], 2):
        asked.clear()
        some = table.set_column(1, "lon", pa.array(lon))
        rows_in(positions_of(Told([some]), some.schema, Columns(attributes="none")).with_raw())
        assert [("more" in columns) for columns in asked] == [False, True][:reads]


@pytest.mark.parametrize("column", ["id", None])
def test_rows_of_a_task_are_those_of_its_buckets(column):
    """By ids, and by the number of a row; a table says which task has a bucket; no row is lost; their order stays."""
    rows = positions().with_raw()
    for tasks, task_of in ((1, None), (3, None), (5, np.random.default_rng(1).integers(0, 5, 256).tolist())):
        parts = rows.exchange_by_bucket(tasks, column, task_of).collect()
        found = [[i for batch in part for i in batch["id"].to_pylist()] for part in parts]
        assert sorted(i for part in found for i in part) == list(range(200))
        assert all(part == sorted(part) for part in found)
        assert min(map(len, found)) > 10
        assert set(parts[0][0].schema.names) == {"id", "x", "y", REASON, RAW}


def test_tasks_know_their_number():
    rows = positions().with_raw().map_numbered(lambda task, batches: (b.slice(0, 1) for b in batches if task == 2))
    assert isinstance(rows, LocalRows)
    assert [row["id"] for row in rows_in(rows)] == [100, 125]
