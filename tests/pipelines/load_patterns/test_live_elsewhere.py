"""Live patterns on an object store, and through processes that are killed."""

from __future__ import annotations

import io
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import ceps
import dtoss
from dtoss.snapshots.store_location import filesystem_of
from tests.dtoss.snapshots.damaged_stores import stored
from tests.object_store import object_store
from tests.pipelines.load_patterns.logs import (
    OBJECTS,
    World,
    flushes,
    in_one_go,
    objects,
    patterns_bytes,
    world_in,
    write,
)

SECONDS = 120.0


def test_on_an_object_store(tmp_path):
    """The log and what is counted are below the store's prefix; the numbers are those of a disk."""
    pytest.importorskip("moto")
    pytest.importorskip("obstore")
    here = world_in(tmp_path / "store", count=200)
    files = list(flushes(here.rows, np.random.default_rng(3), 2, 8).items())
    write(here.log, dict(files))
    wanted = in_one_go(here, tmp_path / "here.parquet")
    with object_store() as place:
        store = place.uri()
        there = World(store, here.table, here.rows, here.manifest)
        stored(dtoss.build(np.arange(OBJECTS), objects(), partitions=9), store)
        filesystem, root = filesystem_of(store)
        for some in (files[::2], files[1::2]):
            for name, rows in some:
                sink = io.BytesIO()
                pq.write_table(rows, sink)
                with filesystem.open_output_stream(f"{root}/accesses/{name}") as stream:
                    stream.write(sink.getvalue())
            found = patterns_bytes(there, tmp_path / "there.parquet")
        assert found == wanted
        assert patterns_bytes(there, tmp_path / "there.parquet") == wanted


@pytest.mark.parametrize("kills", [1, pytest.param(3, marks=pytest.mark.deep("more kills; one is in make test"))])
def test_killed_while_it_follows(tmp_path, kills):
    """Each process is killed at some time, with files on their way; the next one takes over from it at once."""
    world = world_in(tmp_path / "store", count=400)
    files = list(flushes(world.rows, np.random.default_rng(4), files=40).items())
    out = tmp_path / "live.parquet"
    command = [sys.executable, "-m", "dtoss", "patterns", "--live", "--store", world.store, "--out", str(out)]
    rng = random.Random(5)
    lease = Path(world.store) / "patterns" / "live" / "LEASE"
    shares = np.array_split(np.arange(len(files)), kills + 1)
    before = None
    for share in shares[:kills]:
        process = subprocess.Popen([*command, "--every", "10ms"], stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + SECONDS
        while not lease.exists() or lease.read_bytes() == before:
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < end
            time.sleep(0.01)
        for i in share:
            write(world.log, dict([files[i]]))
            time.sleep(rng.uniform(0.0, 0.3 / len(share)))
        before = lease.read_bytes()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stderr.close()
    write(world.log, dict(files[i] for i in shares[kills]))
    assert patterns_bytes(world, out) == in_one_go(world, tmp_path / "all.parquet")
    assert ceps.read_patterns(out, week=False).reads.total == world.rows["weight"].to_numpy().sum() / 5
