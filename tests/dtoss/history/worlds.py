"""Small histories for tests: rows that hypothesis makes, and how they are committed without any of the doors."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from dtoss.geometry.space import space_of
from dtoss.history.data_file import write_file
from dtoss.history.history_commit import Change, Entry, NewPeriod, commit
from dtoss.history.row_blocks import rows_of, sorted_rows
from dtoss.history.schema import Schema
from dtoss.history.versions import Home

EPOCH = datetime(2020, 1, 1, tzinfo=UTC)
SPHERE, PLANE = space_of(), space_of(metric="plane")
LON = [-180.0, -179.99, -1.0, -0.0, 0.0, 0.5, 10.0, 179.99, 180.0]
LAT = [-90.0, -89.99, -1.0, 0.0, 0.5, 45.0, 89.99, 90.0]
TEXT_IDS = ["", "a", "b", "é", "😀"]


def schema_of(space=SPHERE, id_type="int64", t_type="timestamp", **attributes):
    """A schema; attributes by name."""
    return Schema(space, id_type, t_type, attributes)


def table_of(schema, ids, t, positions, deleted=None, **attributes):
    """Rows as a table of a schema; times as seconds after EPOCH where they are timestamps."""
    if schema.t_type == "timestamp":
        t = [EPOCH + timedelta(seconds=float(s)) for s in t]
    positions = np.asarray(positions, np.float64).reshape(-1, 2)
    columns = {"id": ids, "t": t, "x": positions[:, 0].tolist(), "y": positions[:, 1].tolist()}
    columns["deleted"] = [False] * len(positions) if deleted is None else deleted
    given = {name: pa.array(list(values), schema.arrow.field(name).type) for name, values in columns.items()}
    given |= {name: pa.array(values, schema.attributes[name]) for name, values in attributes.items()}
    return rows_of(pa.table(given), schema)


@st.composite
def small_rows(draw, schema, most=30):
    """Rows of a schema with ties, duplicates, poles and the antimeridian; some delete, of those some are nowhere."""
    n = draw(st.integers(0, most))
    ids = st.sampled_from(TEXT_IDS) if schema.id_type == "string" else st.integers(-2, 5)
    place = st.tuples(st.sampled_from(LON), st.sampled_from(LAT))
    rows = draw(st.lists(st.tuples(ids, st.integers(0, 9), place, st.sampled_from([0, 0, 0, 0, 1, 2])), max_size=n))
    positions = [(np.nan, np.nan) if kind == 2 else where for _, _, where, kind in rows]
    return table_of(schema, [row[0] for row in rows], [row[1] for row in rows], positions, [row[3] > 0 for row in rows])


def put_batch(home, rows, schema, key, after="head"):
    """Commit rows as a period of tier 0 and return the version; rows need no order."""
    rows = sorted_rows(rows, "time")
    version = home.head() if after == "head" else after
    files, periods, total, count = (), (), 0, 0
    if len(rows):
        file = write_file(home.folder, 0, [(rows, None)], schema)
        files, periods, total, count = ((file, -1),), (NewPeriod(0),), file.sum, file.rows
    entry = Entry(key, "given", "", -1, count, total)
    return commit(home, Change("append", files, periods=periods, entries=(entry,), schema=schema), version)


def new_home(folder):
    """A history that is not there yet."""
    return Home(str(folder))
