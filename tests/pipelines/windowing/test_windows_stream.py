"""Streaming DataFrames counted in windows: a commit for each micro-batch, and none twice."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

import dtoss
from dtoss.errors import InputError
from dtoss.geometry.space import space_of
from dtoss.windows.query.window_query import open_windows
from pipelines.windows import windows
from tests.dtoss.windows.storage.kept import SITES
from tests.pipelines.windowing.counted_files import run_windows

SCHEMA = "id bigint, x double, y double, t double"


def put(folder, name, seed):
    """Write some rows."""
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(seed)
    who, t = rng.integers(5, size=40).tolist(), (seed * 30 + rng.integers(60, size=40)).tolist()
    x, y = rng.uniform(0, 9, (2, 40)).tolist()
    rows = [dict(zip(("id", "t", "x", "y"), row, strict=True)) for row in zip(who, map(float, t), x, y, strict=True)]
    (folder / f"{name}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_a_stream_is_counted_once_and_as_its_files(spark, tmp_path):
    """Another run goes on; a lost checkpoint is refused; files alone give the same results."""
    sites, folder, store = tmp_path / "sites.csv", tmp_path / "in", str(tmp_path / "store")
    sites.write_text("id,x,y\n" + "".join(f"{i},{x},{y}\n" for i, (x, y) in enumerate(SITES.tolist())))
    wanted = {
        "lengths": "20s,1min", "slide": "10s", "measures": "rows,objects,here,speed,flow", "by": f"sites:{sites}",
        "late": "2min",
    }  # fmt: skip
    plane = space_of(None, "plane")

    def streamed(checkpoint=None):
        frame = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder))
        query = windows(frame, store, "w", wanted, space=plane, every=None, checkpoint=checkpoint)
        query.awaitTermination(600)
        return open_windows(store, "w")

    put(folder, "a", 1)
    assert streamed().head.number == 1
    shutil.copytree(tmp_path / "store" / "windows" / "w" / "checkpoint", tmp_path / "older")
    put(folder, "b", 2)
    found = streamed()
    assert found.head.number == 2
    assert streamed().head.number == 2
    with pytest.raises(Exception, match=r"the checkpoint is older than the store, .* --rebuild FROM TO"):
        streamed(str(tmp_path / "older"))
    with pytest.raises(Exception, match="the checkpoint is not that of windows w"):
        streamed(str(tmp_path / "another"))
    with pytest.raises(InputError, match="is not a stream"):
        windows(spark.range(1), store, "w", wanted)
    done = run_windows(
        str(folder), str(tmp_path / "files"), "w", lambda: spark, wanted, space=plane, once=True, patient=True
    )
    assert done.counts["rows"] == found.counts["rows"] == 80
    other = dtoss.open_windows(str(tmp_path / "files"), "w")
    assert other.watermark == found.watermark
    for window in ("20s", "1min", "30s"):
        assert other.at(window=window).drop(["revision"]).equals(found.at(window=window).drop(["revision"]))
        assert other.flow(window=window).equals(found.flow(window=window))
    assert len(found.at(window="1min")) == 3
