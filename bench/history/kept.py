"""Cabspotting as a history: a batch a day, each with an order by place of even leaves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dtoss.geometry.hilbert import curve_keys
from dtoss.geometry.space import space_of
from dtoss.history.data_file import write_file
from dtoss.history.history_commit import Change, Entry, NewPeriod, commit
from dtoss.history.row_blocks import BY_PLACE, BY_TIME, rows_of, sorted_rows
from dtoss.history.schema import Schema
from dtoss.history.versions import Home, Version

LEAF_ROWS = 60_000
"""Rows of a leaf of the order by place, about: half a megabyte."""
METRES = 111_195.0
"""Of a degree of latitude."""
BAY = (-122.60, 37.20, -121.80, 38.05)
"""lon, lat, lon, lat around San Francisco: rows outside are the fixes of broken receivers."""
HOTSPOTS = {
    "airport": (-122.3885, 37.6155),
    "Union Square": (-122.4075, 37.7880),
    "4th and King": (-122.3945, 37.7765),
    "Mission": (-122.4190, 37.7599),
    "Richmond": (-122.4780, 37.7800),
}
SPREAD = 800.0
"""Metres by which the centres of questions scatter around a hotspot."""


def cab_rows(data: Path, deletions: float = 0.0, seed: int = 0) -> tuple[pa.Table, Schema]:
    """Return all rows of Cabspotting as those of a history, cabs as objects; a share of them made deletions."""
    table = pq.read_table(data / "cabspotting_sf.parquet", columns=["uid", "t", "lon", "lat", "occupied"])
    table = table.rename_columns(["id", "t", "x", "y", "occupied"])
    gone = np.random.default_rng(seed).random(len(table)) < deletions
    schema = Schema(space_of(), "int64", "timestamp", {"occupied": pa.int8()})
    return rows_of(table.append_column("deleted", pa.array(gone)), schema), schema


def kept(home: Home, rows: pa.Table, schema: Schema, *, batches: int, placed: bool) -> Version:
    """Append rows in so many batches, cut by time, and return the version; with an order by place where wanted."""
    rows = sorted_rows(rows, "time")
    version = home.head()
    for number in range(batches):
        begin, end = (len(rows) * (number + i) // batches for i in (0, 1))
        some = rows.slice(begin, end - begin)
        file = write_file(home.folder, BY_TIME, [(some, None)], schema)
        entry = Entry(f"batch {number}", "given", "", -1, file.rows, file.sum)
        files = [(file, -1)]
        if placed:
            vectors = schema.space.vectors(np.stack([some[name].to_numpy() for name in ("x", "y")], axis=1))
            order = np.argsort(curve_keys(np.ascontiguousarray(vectors)), kind="stable")
            leaves = max(len(order) // LEAF_ROWS, 1)
            parts = [(some.take(pa.array(np.sort(leaf))), None) for leaf in np.array_split(order, leaves)]
            files.append((write_file(home.folder, BY_PLACE, parts, schema), -1))
        change = Change("append", tuple(files), periods=(NewPeriod(0),), entries=(entry,), schema=schema)
        version = commit(home, change, version)
    assert version is not None
    return version
