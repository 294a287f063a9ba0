"""What Spark reads of files, without a rebuild: the rows that objects are made of, and those that are set aside.

That a rebuild builds the former and keeps the latter in its quarantine is tested in ``test_bad_input.py``.
"""

from __future__ import annotations

import json
import struct
from collections import Counter
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from dtoss.geometry.space import space_of
from pipelines.rows.position_frame import RAW, REASON, Columns, attribute_name, screen_positions
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


def read_rows(spark, paths, *, wanted=None, crs=None, metric=None, wrap=False, **columns):
    """Read files as a rebuild does; ``columns`` are those of :class:`Columns`."""
    paths = [str(path) for path in (paths if isinstance(paths, list) else [paths])]
    read = read_positions(spark, paths, Columns(**columns), wanted=wanted)
    space = space_of(crs or read.crs, metric)
    try:
        frame = screen_positions(read, space, wrap).frame
        rows = frame.toArrow()
    finally:
        read.release()
    x, y = ("lon", "lat") if space.geographic else ("x", "y")
    names = {"id": "id", "x": x, "y": y, "t": "t"}
    kept = [name for name in rows.column_names if name not in (REASON, RAW, "a:t")]  # a time is one already
    called = [names.get(name) or attribute_name(name) for name in kept]
    good = rows.filter(rows[REASON].is_null()).select(kept).rename_columns(called)
    bad = rows.filter(rows[REASON].is_valid())
    pairs = zip(bad[REASON].to_pylist(), map(json.loads, bad[RAW].to_pylist()), strict=True)
    types = {name: frame.schema[column].dataType.simpleString() for column, name in zip(kept, called, strict=True)}
    return Rows(good, list(pairs), types)


def with_points(path, about, places=((10.0, 20.0), (10.0, 25.0), (40.0, 60.0))):
    """Write GeoParquet of points, of which the metadata say something."""
    wkb = pa.array([struct.pack("<BIdd", 1, 1, *place) for place in places], pa.binary())
    geo = {"version": "1.1.0", "primary_column": "geometry"}
    geo["columns"] = {"geometry": {"encoding": "WKB", "geometry_types": ["Point"], **about}}
    table = pa.table({"id": range(1, len(places) + 1), "geometry": wkb})
    pq.write_table(table.replace_schema_metadata({"geo": json.dumps(geo)}), path)
