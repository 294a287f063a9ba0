"""Inputs whose snapshots are compared byte by byte."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from datasets.cities.taxis import make_fleet
from datasets.fleet import fleet_updates

N = 3000


def plain():
    """Objects on few places, with attributes, some rows bad."""
    rng = np.random.default_rng(7)
    lon = rng.normal(0, 1, N).round(2)
    lon[::500] = np.nan
    text = pa.array([None if i % 7 == 0 else f"n{i % 13}" for i in range(N)])
    return pa.table({"id": rng.permutation(N), "lon": lon, "lat": rng.normal(0, 1, N).round(2), "text": text})


def named():
    """The same with string ids."""
    table = plain()
    return table.set_column(0, "id", pa.array([f"é{i}" for i in table["id"].to_pylist()]))


def updates():
    """Several rows an object, of which the latest counts, and ties that attributes settle."""
    table = pa.Table.from_batches(list(fleet_updates(make_fleet(N // 4, 3, seed=8), N)))
    tied = table.slice(0, 200).set_column(5, "occupied", pa.array([1] * 200, pa.int8()))
    return pa.concat_tables([table, tied])


CASES = {
    "plain": (plain, {"partitions": 7}),
    "string ids": (named, {"partitions": 7, "pivots": "spread"}),
    "updates": (updates, {"partitions": 7, "id": "uid", "time": "t", "columns": "occupied"}),
    "times that tie": (updates, {"partitions": 3, "id": "uid", "time": "occupied", "columns": "none"}),
    "plane": (plain, {"partitions": 2, "crs": "none"}),
}
