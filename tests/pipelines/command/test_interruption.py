"""Rebuilds that are ended by a signal or by another rebuild: one line, and a store as it was."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dtoss
from dtoss.snapshots.store import Store
from tests.dtoss.snapshots.damaged_stores import stored
from tests.dtoss.snapshots.small_stores import assert_clean, commit
from tests.pipelines.stores import listing, rebuilt

ROOT = Path(__file__).parents[3]
STARTS_JAVA = pytest.mark.deep("starts Java; in one process it is always run")
KINDS = [
    ("local", signal.SIGTERM, False),
    ("local", signal.SIGINT, False),
    pytest.param("spark", signal.SIGTERM, False, marks=STARTS_JAVA),
    pytest.param("spark", signal.SIGINT, True, marks=STARTS_JAVA),
    pytest.param("spark", signal.SIGINT, False, marks=STARTS_JAVA),
]
SLOW = """
import sys, time
import dtoss.snapshots.store, pipelines.rebuild, pipelines.cycles.partitions
from pipelines.command.main import main

real = pipelines.cycles.partitions.builder

def builder(plan, tasks):
    build = real(plan, tasks)

    def slow(batches):
        for batch in build(batches):
            yield batch
        open(sys_argv_mark, "w").close()
        ends = time.monotonic() + 600
        while time.monotonic() < ends:
            time.sleep(0.05)
            yield batch.slice(0, 0)

    return slow

sys_argv_mark = sys.argv.pop(1)
pipelines.cycles.partitions.builder = builder
main(sys.argv[1:])
"""
"""The command, whose tasks of the build write their files and then take ten minutes."""
HOLDER = """
import sys, time
from dtoss.snapshots.store import Store

with Store(sys.argv[1]).writer(print), Store(sys.argv[1]).fresh(print) as name:
    Store(sys.argv[1]).write(name, "partitions/00000.arrow", b"half of it")
    print("writes", flush=True)
    time.sleep(600)
"""
"""What writes to a store and takes ten minutes for it."""
STORE = "a store of two objects"
INTERRUPTED_AT = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == wanted:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

wanted, sys.argv[1:] = sys.argv[1], sys.argv[2:]
sys.meta_path.insert(0, Finder())
from pipelines.command.main import main
main()
"""
"""The command, with a Ctrl-C at the moment when it begins to load a module."""


def stored_of(positions, count, store):
    """The path of a store of the first of some positions."""
    table = pq.read_table(positions).slice(0, count)
    places = np.stack([table["lon"].to_numpy(), table["lat"].to_numpy()], axis=1)
    return stored(dtoss.build(table["id"].to_numpy(), places), store)


@pytest.fixture
def positions(tmp_path):
    rng = np.random.default_rng(20)
    path = tmp_path / "positions.parquet"
    pq.write_table(pa.table({"id": np.arange(90), "lon": rng.uniform(-5, 5, 90), "lat": rng.uniform(-5, 5, 90)}), path)
    return path


def started(tmp_path, positions, store, engine):
    """Start a slow rebuild in a process group of its own; return it when its tasks have written files."""
    mark = tmp_path / "mark"
    mark.unlink(missing_ok=True)
    arguments = [sys.executable, "-c", SLOW, mark, "rebuild", positions, "--store", store, "--partitions", "2"]
    java = ["--master", "local[2]", "--driver-memory", "1g"] if engine == "spark" else []
    process = subprocess.Popen(
        [*map(str, arguments), "--engine", engine, *java],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    ends = time.monotonic() + 300
    while not mark.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < ends
        time.sleep(0.02)
    return process


def living(group):
    """Command lines of the processes of a group that still run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[2]) == group and fields[0] not in ("Z", "X"):
                found.append((path.parent / "cmdline").read_text().replace("\0", " ")[:200])
        except (OSError, IndexError):
            continue
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked for in /proc")
@pytest.mark.parametrize(("engine", "kind", "whole_group"), KINDS)
def test_an_interrupted_rebuild_leaves_nothing(tmp_path, positions, engine, kind, whole_group):
    """SIGINT, from a program or by Ctrl-C to all processes, and SIGTERM: one line, exit code 1, no lock, no Java."""
    store = tmp_path / "store"
    stored_of(positions, 40, store)
    before = listing(store)
    process = started(tmp_path, positions, store, engine)
    try:
        assert (store / "LEASE").exists()
        assert len(Store(str(store)).unfinished()) == 1
        (os.killpg if whole_group else os.kill)(process.pid, kind)
        out, err = process.communicate(timeout=300)
        assert (process.returncode, out, err) == (1, "", "error: interrupted\n")
        assert listing(store) == before
        assert_clean(Store(str(store)))
        ends = time.monotonic() + 120
        while living(process.pid):
            assert time.monotonic() < ends, living(process.pid)
            time.sleep(0.05)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    home, current = Store(str(store)), Store(str(store)).current()
    assert commit(home, 1) > current  # the next rebuild finds no lock
    assert_clean(home)


@pytest.mark.parametrize(
    ("module", "command"),
    [
        ("pipelines.command.ends", ["info", "--store", "x"]),
        ("dtoss", ["info", "--store", "x"]),
        ("dtoss.snapshots.deferred_signals", ["info", "--store", "x"]),
        ("dtoss.snapshots.store", ["info", "--store", "x"]),
        ("numpy", ["knn", "--store", STORE, "--at", "1", "2"]),
        ("numpy.random", ["knn", "--store", STORE, "--at", "1", "2"]),
        ("numba", ["knn", "--store", STORE, "--at", "1", "2"]),
        ("pyarrow", ["knn", "--store", STORE, "--at", "1", "2"]),
        ("typer", ["export", "--store", "x"]),
        ("pipelines.command.export_command", ["export", "--store", "x"]),
    ],
)
def test_a_command_interrupted_while_it_loads_ends_with_one_line(module, command, tmp_path):
    """Whatever is being imported: no traceback, neither of ours nor of what a library makes of it."""
    store = stored(dtoss.build([1, 2], [[0.0, 0.0], [1.0, 1.0]]), tmp_path / "store") if STORE in command else ""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_AT, module, *(store if word == STORE else word for word in command)],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "error: interrupted\n")


def test_a_rebuild_beside_another_writer_ends_at_once(command, tmp_path, positions, no_spark):
    """As below, where no rebuild writes first: its name and exit code 2; once it is killed, the next goes on."""
    store = tmp_path / "store"
    home = Store(stored_of(positions, 40, store))
    current = home.current()
    process = subprocess.Popen([sys.executable, "-c", HOLDER, store], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "writes\n"
        for second in (("rebuild", positions, "--store", store), ("rollback", "--store", store)):
            assert command.fails(*second).startswith(
                f"{store} is being written by process {process.pid} on {socket.gethostname()} since "
            )
        assert len(dtoss.open(str(store))) == 40
    finally:
        process.kill()
        process.communicate()
    assert (store / "LEASE").exists()
    assert len(home.unfinished()) == 1
    assert home.current() == current
    assert commit(home, 1, keep=1) > current
    assert home.unfinished() == []
    assert_clean(home)


@pytest.mark.deep("starts Java; with a writer that is no rebuild it is tested above")
def test_the_second_rebuild_ends_at_once(spark, tmp_path, positions):
    """With exit code 2 and the name of the first, before Spark starts; when the first is killed, the next goes on."""
    store = tmp_path / "store"
    rebuilt(spark, pq.read_table(positions).slice(0, 40), store)
    current = Store(str(store)).current()
    process = started(tmp_path, positions, store, "spark")
    try:
        for second in (["rebuild", positions, "--store", store], ["rollback", "--store", store]):
            done = subprocess.run(
                [sys.executable, "-c", "import sys; from pipelines.command.main import main; main(sys.argv[1:])",
                 *map(str, second)],
                cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
            )  # fmt: skip
            assert (done.returncode, done.stdout) == (2, "")
            assert done.stderr.startswith(
                f"error: {store} is being written by process {process.pid} on {socket.gethostname()} since "
            )
            assert done.stderr.count("\n") == 1
        assert len(dtoss.open(str(store))) == 40
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    assert (store / "LEASE").exists()
    assert Store(str(store)).current() == current
    assert len(rebuilt(spark, pq.read_table(positions), store, keep=1)) == 90
    assert_clean(Store(str(store)))
