"""``dtoss gc`` of live patterns: what nothing names goes once it is old, and what counts stays."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

from dtoss.errors import StoreError
from pipelines.load_patterns.patterns_folder import ROOMS, Home, clear_debris
from pipelines.load_patterns.verify_patterns import verify_live
from tests.pipelines.load_patterns.logs import flushes, patterns_bytes, world_in, write


def test_what_nothing_names_goes(tmp_path, command):
    """Files that runs have left, young ones after an hour; nothing where the newest commit cannot be read."""
    world = world_in(tmp_path / "store", count=60)
    write(world.log, flushes(world.rows, np.random.default_rng(1)))
    patterns_bytes(world, tmp_path / "live.parquet")
    home, folder = Home(world.store, "live"), Path(world.store) / "patterns" / "live"
    named = {room: set(home.folder.files(room)) for room in ROOMS}
    for room in ROOMS:
        (folder / room / "0123456789abcdef.parquet").write_bytes(b"left")
    clear = ("gc", "--store", world.store, "--json")
    assert command(*clear).json["patterns"] == {"live": 0}
    for room in ROOMS:
        path = folder / room / "0123456789abcdef.parquet"
        os.utime(path, (time.time() - 7200, time.time() - 7200))
    assert command(*clear).json["patterns"] == {"live": len(ROOMS)}
    assert {room: set(home.folder.files(room)) for room in ROOMS} == named
    assert verify_live(home).damaged == []
    commit = max((folder / "commits").iterdir())
    commit.write_bytes(commit.read_bytes()[:-2])
    with pytest.raises(StoreError):
        clear_debris(home, 0.0)
    assert {room: set(home.folder.files(room)) for room in ROOMS} == named
