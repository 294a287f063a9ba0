"""GDAL reads all features, those of a box and those of a time; the examples of the page answer."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import dtoss
from tests.dtoss.serve.served import running, town

GDAL = pytest.mark.skipif(shutil.which("ogr2ogr") is None, reason="there is no GDAL")
PAGE = Path(__file__).parents[4] / "docs" / "features.md"
SHOWN = "http://127.0.0.1:8080"


def read(server, layer, *more):
    """The features of a layer as GDAL writes them."""
    source = f"OAPIF:http://127.0.0.1:{server.at[1]}/ogc"
    line = ["ogr2ogr", "-f", "GeoJSON", "/vsistdout/", "-oo", "PAGE_SIZE=90", *more, source, layer]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)["features"]


@GDAL
def test_gdal_reads_what_brute_force_finds():
    index = town(objects=400, strings=True)  # of numbers GDAL knows those from 0 on alone
    rows = {id_: index[id_] for id_ in index}
    with running(index) as server:
        said = {**server.serving.now.manifest, "time": {"column": "seen", "type": "timestamp", "unit": None}}
        object.__setattr__(server.serving.now, "manifest", said)
        found = {one["properties"]["id"]: one["geometry"]["coordinates"] for one in read(server, "objects")}
        assert found == {id_: [row["lon"], row["lat"]] for id_, row in rows.items()}
        box = (9.97, 49.96, 10.05, 50.02)
        inside = {id_ for id_, row in rows.items() if box[0] <= row["lon"] <= box[2] and box[1] <= row["lat"] <= box[3]}
        found = read(server, "objects", "-spat", *map(str, box))
        assert {one["properties"]["id"] for one in found} == inside != set()
        # GDAL compares milliseconds
        where = "seen >= '2026/01/01 00:05:00+00' AND seen <= '2026/01/01 00:09:00+00'"
        between = {id_ for id_, row in rows.items() if 5 <= row["seen"].minute < 9 and row["seen"].hour == 0}
        assert {one["properties"]["id"] for one in read(server, "objects", "-where", where)} == between != set()
        cells = read(server, "cells", "-spat", *map(str, box))
        assert {one["properties"]["id"] for one in cells} > {min(inside)}
        assert len(read(server, "partitions")) == len(index.parts)
        assert {status for _, status in server.heard.answers} == {200}


@pytest.mark.parametrize("tool", ["curl", pytest.param("ogr", marks=GDAL)])
def test_each_example_of_the_page_answers_with_features(tool, tmp_path):
    """Of a store with objects where the page asks; the servers that it shows are started by other tests."""
    rng = np.random.default_rng(0)
    places = rng.uniform([139.5, 35.5], [139.9, 35.9], (300, 2))
    index = dtoss.build(np.arange(300), places, columns={"occupied": rng.integers(0, 2, 300)})
    blocks = re.findall(r"^```\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    lines = [line for line in "".join(blocks).splitlines() if line.startswith(tool)]
    assert len(lines) >= 2
    with running(index) as server:
        for line in lines:
            line = line.replace(SHOWN, f"http://127.0.0.1:{server.at[1]}").replace("curl", "curl -sS --fail-with-body")
            done = subprocess.run(
                line, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
            )
            assert done.returncode == 0, (line, done.stdout, done.stderr)
            told = json.loads(done.stdout) if tool == "curl" else {}
            assert told.get("features") != [], line
    if tool == "ogr":
        assert (tmp_path / "near.gpkg").stat().st_size > 0
