"""``dtoss patterns --live``: what it prints, how it goes on until a signal, and one line for whatever is wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import ceps
from tests.pipelines.command.processes import commands_without
from tests.pipelines.load_patterns.logs import flushes, in_one_go, world_in, write

SECONDS = 120.0


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return world_in(tmp_path_factory.mktemp("command") / "store")


@pytest.fixture(scope="module")
def files(world):
    return list(flushes(world.rows, np.random.default_rng(2)).items())


def until(ready, process):
    """Wait for something that a process does."""
    end = time.monotonic() + SECONDS
    while not ready():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < end
        time.sleep(0.02)


def test_it_needs_no_spark_and_goes_on_until_a_signal(world, files, command, tmp_path):
    """The file follows the log; ended, all is in, and the next run has nothing to add."""
    write(world.log, dict(files[:5]))
    out = tmp_path / "live.parquet"
    options = ["--live", "--store", world.store, "--out", out]
    (ran,) = commands_without(("pyspark", "py4j", "pandas"), ("patterns", *options, "--json"))
    assert (ran.code, ran.err) == (0, "")
    facts = ran.json
    assert facts["new_files"] == facts["files"] == 5
    assert facts["new_rows"] == facts["read"] == sum(len(rows) for _, rows in files[:5])
    first = out.read_bytes()
    arguments = [sys.executable, "-m", "dtoss", "patterns", *map(str, options), "--every", "100ms"]
    following = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
    try:
        head = Path(world.store) / "patterns" / "live" / "LEASE"
        until(head.exists, following)
        write(world.log, dict(files[5:]))
        until(lambda: out.read_bytes() != first and ceps.read_patterns(out).reads.total > 0, following)
        wanted = in_one_go(world, tmp_path / "all.parquet")
        until(lambda: out.read_bytes() == wanted, following)
        os.kill(following.pid, signal.SIGTERM)
        assert following.wait(SECONDS) == 0
    finally:
        following.kill()
        said = following.stderr.read()
        following.wait()
        following.stderr.close()
    assert "rows; days 2026-03-26 to 2026-03-30" in said
    assert not head.exists()
    facts = command("patterns", *options, "--json").json
    assert (facts["new_files"], facts["files"], facts["read"]) == (0, len(files), len(world.rows))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.parquet", "live.parquet"]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--live", "-k", "3"], "-k does not go with --live"),
        (["--live", "--x", "east"], "--x does not go with --live"),
        (["--live", "a", "b"], "2 folders are named"),
        (["--live", "--every", "5"], "--every: '5' is no duration"),
        (["--live", "--every", "0s"], "--every is 0 s: more than 0 is wanted"),
        (["--live", "--name", "a/b"], "name 'a/b' cannot be a name"),
        (["--live", "nothing"], "nothing is at nothing: name the folder"),
        (["a", "--every", "1min"], "--every is about a log that grows"),
        (["a", "--recount"], "--recount is about a log that grows"),
        ([], "no accesses are named"),
    ],
)
def test_options_that_do_not_go_together(world, tmp_path, command, options, why):
    """One line, exit code 2."""
    assert why in command.fails("patterns", *options, "--store", world.store, "--out", tmp_path / "out.parquet")
