"""A rebuild and a cycle of frames of other libraries, in this process: the bytes of those of an Arrow table."""

from __future__ import annotations

import json

import geopandas as gpd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dtoss
from pipelines.cycle import cycle
from pipelines.rebuild import rebuild
from tests.pipelines.stores import snapshot_bytes

RULES = {"partitions": 3, "seed": 1}
N = 60


def fleet(seed):
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "id": rng.permutation(2 * N)[:N],
            "lon": rng.uniform(-170, 170, N),
            "lat": rng.uniform(-80, 80, N),
            "t": pa.array(1_700_000_000_000_000 + seed * 10**6 + rng.integers(0, 10**6, N), pa.timestamp("us", "UTC")),
            "kind": [f"k{i % 3}" for i in range(N)],
        }
    )


def pointed(table):
    rows = table.to_pandas()
    return gpd.GeoDataFrame(
        rows.drop(columns=["lon", "lat"]), geometry=gpd.points_from_xy(rows.lon, rows.lat), crs=4326
    )


FRAMES = {
    "pandas": lambda table: table.to_pandas(),
    "pandas, ids in the index": lambda table: table.to_pandas().set_index("id"),
    "polars": pl.from_arrow,
    "mapping": lambda table: {
        name: table[name] if name == "t" else table[name].to_numpy() for name in table.column_names
    },
}


@pytest.mark.parametrize("kind", FRAMES)
def test_a_cycle_of_a_frame_commits_what_that_of_a_table_does(tmp_path, kind):
    """And a rebuild."""
    stored = []
    for name, frame in (("table", lambda table: table), (kind, FRAMES[kind])):
        store = str(tmp_path / name)
        rebuild(frame(fleet(1)), store, **RULES)
        done = [snapshot_bytes(store)]
        manifest = cycle(frame(fleet(2)), store, now="2023-11-14T23:00:00Z", pivots="keep")
        stored.append((*done, snapshot_bytes(store), manifest["cycle"]))
    assert stored[0] == stored[1]


def test_points_of_geopandas_update_what_was_saved_of_them(tmp_path):
    """Of an index that was built of a frame: a rebuild and a save in one process, then a cycle."""
    dtoss.build(pointed(fleet(1)), partitions=3).save(str(tmp_path / "a"))
    dtoss.build(fleet(1), partitions=3).save(str(tmp_path / "b"))
    for name, rows in (("a", pointed(fleet(2))), ("b", fleet(2))):
        cycle(rows, str(tmp_path / name), now="2023-11-14T23:00:00Z")
    one, other = (snapshot_bytes(tmp_path / name) for name in ("a", "b"))
    said = [json.loads(files.pop("manifest.json"))["input"].pop("taken")["position"] for files in (one, other)]
    assert (one, said) == (other, ["geometry, points", "lon, lat"])
    with pytest.raises(ValueError, match="the positions are in EPSG:3857 and what they are for in EPSG:4326"):
        cycle(pointed(fleet(3)).to_crs(3857), str(tmp_path / "a"))


def test_what_is_no_frame_is_said(tmp_path):
    with pytest.raises(TypeError, match="list is no frame"):
        rebuild([1, 2], str(tmp_path / "a"))
    with pytest.raises(dtoss.InputError, match="no column 'id'"):
        rebuild(pd.DataFrame({"lon": [1.0], "lat": [2.0]}).to_dict("list"), str(tmp_path / "a"))
