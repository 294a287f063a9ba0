"""What is read of files, without a rebuild: the rows that objects are made of, and those that are set aside.

That a rebuild builds the former and keeps the latter in its quarantine is tested in ``test_bad_input.py``.
"""

from __future__ import annotations

import json
import struct
from collections import Counter
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from dtoss.errors import InputError
from dtoss.geometry.space import space_of
from dtoss.rows.input_columns import REASON, Columns, attribute_name
from pipelines.rows.position_frame import screen_positions
from pipelines.rows.read_files import read_positions


class Rows(NamedTuple):
    """What was read.

    Parameters
    ----------
    good
        An Arrow table of id, lon, lat (x, y), t where there is a time, and attributes by their names.
    bad
        (reason, row as it was read) of those that are set aside.
    types
        Spark's, of the columns of ``good``.
    """

    good: pa.Table
    bad: list
    types: dict

    @property
    def reasons(self):
        """How many rows are set aside for each reason."""
        return dict(Counter(reason for reason, _ in self.bad))

    @property
    def by_id(self):
        """Each object's columns but for its time, by its id; an id that stands twice is an error."""
        rows = self.good.drop_columns(["t"]).to_pylist() if "t" in self.good.column_names else self.good.to_pylist()
        found = {row["id"]: row for row in rows}
        assert len(found) == len(rows)
        return found


def read_rows(session, paths, **asked):
    """Read files as a rebuild does, in this process and in a session's Spark, where there is one: they say the same."""
    here = _result(None, paths, asked)
    there = here if session is None else _result(session, paths, asked)
    if isinstance(there, Exception):
        assert (type(here), str(here)) == (type(there), str(there))
        raise there
    if isinstance(here, Exception):
        raise here
    assert here.types == there.types
    assert here.good.schema == there.good.schema
    assert as_said(here.good) == as_said(there.good), (here.good, there.good)
    assert sorted(here.bad, key=repr) == sorted(there.bad, key=repr)
    return there


def as_said(rows):
    """The values of rows, in an order of their own."""
    return sorted(map(repr, rows.to_pylist()))


def _result(session, paths, asked):
    try:
        return _read(session, paths, **asked)
    except (InputError, ValueError) as error:
        return error


def _read(session, paths, *, wanted=None, crs=None, metric=None, wrap=False, **columns):
    """``columns`` are those of :class:`Columns`."""
    paths = [str(path) for path in (paths if isinstance(paths, list) else [paths])]
    read = read_positions(session, paths, Columns(**columns), wanted=wanted)
    space = space_of(crs or read.crs, metric)
    screened = screen_positions(read, space, wrap)
    good, bad = rows_of(screened)
    x, y = ("lon", "lat") if space.geographic else ("x", "y")
    names = {"id": "id", "x": x, "y": y, "t": "t"}
    kept = [name for name in good.column_names if name != "a:t"]  # a time is one already
    called = [names.get(name) or attribute_name(name) for name in kept]
    types = {name: screened.types[column] for column, name in zip(kept, called, strict=True)}
    return Rows(good.select(kept).rename_columns(called), bad, types)


def rows_of(positions):
    """The good rows of positions, and of the others why and as what they were read."""
    names = [name for name in positions.columns if name != REASON]
    kinds = pa.schema([positions.frame.schema.field(name) for name in names])
    good = positions.good(names).table(kinds)
    bad = positions.rejected().table(pa.schema([("reason", pa.string()), ("row", pa.string())]))
    return good, pairs_of(bad["reason"], bad["row"])


def pairs_of(reasons, rows):
    """Reasons, and the rows that their JSON says."""
    return list(zip(reasons.to_pylist(), map(json.loads, rows.to_pylist()), strict=True))


def with_points(path, about, places=((10.0, 20.0), (10.0, 25.0), (40.0, 60.0))):
    """Write GeoParquet of points, of which the metadata say something."""
    wkb = pa.array([struct.pack("<BIdd", 1, 1, *place) for place in places], pa.binary())
    geo = {"version": "1.1.0", "primary_column": "geometry"}
    geo["columns"] = {"geometry": {"encoding": "WKB", "geometry_types": ["Point"], **about}}
    table = pa.table({"id": range(1, len(places) + 1), "geometry": wkb})
    pq.write_table(table.replace_schema_metadata({"geo": json.dumps(geo)}), path)
