"""`dtoss gc` and `dtoss log`: what stays, what is said, and what a second writer hears."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import dtoss
from dtoss.commits.lease import LEASE, Holder
from dtoss.errors import StoreError
from dtoss.snapshots.store import Store
from tests.dtoss.snapshots.small_stores import assert_clean, commit, read

HEAVY = {"numpy", "pandas", "pyarrow", "numba", "pyspark", "obstore"}


@pytest.fixture
def store(tmp_path):
    made = Store(str(tmp_path / "store"))
    for number in range(5):
        commit(made, number, keep=None)
    return made


def test_gc_keeps_what_was_current_lately(store, command):
    """Ten minutes if nothing is said; then so many as are to be kept."""
    names = store.snapshots()
    assert command("gc", "--store", store.path, "--keep", 1) == (0, "5 snapshots stay\n", "")
    assert store.snapshots() == names
    ran = command("gc", "--store", store.path, "--keep", 2, "--keep-for", "0s", "--json")
    assert (ran.code, ran.json, ran.err) == (0, {"removed": names[:3], "snapshots": names[3:]}, "")
    ran = command("gc", "--store", store.path, "--keep", 1, "--keep-for", "0s")
    assert ran == (0, f"{names[3]} is removed\n1 snapshots stay\n", "")
    assert_clean(store)
    assert read(store) == 4


def test_a_store_that_was_saved_is_one_like_any_other(tmp_path, command):
    """It is told of, verified, rolled back and cleared, and so is a copy of it."""
    index = dtoss.build([1, 2, 3], [[8.0, 50.0], [9.0, 51.0], [10.0, 52.0]], columns={"free": [True, False, True]})
    first, second = index.save(tmp_path / "store"), index.save(tmp_path / "store")
    dtoss.open(tmp_path / "store").save(tmp_path / "copy")
    for name in ("store", "copy"):
        told = command.works("info", "--store", tmp_path / name, "--json").json
        assert (told["objects"], told["columns"]) == (3, {"free": "boolean"})
        assert "damaged    nothing" in command.works("verify", "--store", tmp_path / name).out
    command.works("rollback", "--store", tmp_path / "store")
    assert dtoss.open(tmp_path / "store").snapshot == first
    command.works("gc", "--store", tmp_path / "store", "--keep", 1, "--keep-for", "0s")
    assert Store(str(tmp_path / "store")).snapshots() == [first] != [second]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--keep", "0"], "keep is 0: a whole number of at least 1 is wanted"),
        (["--keep-for", "10"], "'10' is no duration"),
        (["--store", "/proc/nowhere"], "is not a store, or holds no snapshot yet"),
    ],
)
def test_gc_of_what_cannot_be(store, command, options, why):
    """One line, and nothing has changed."""
    assert why in command.fails("gc", "--store", store.path, *options)
    assert len(store.snapshots()) == 5


def test_the_log_says_who_committed_what(store, command):
    """The last commits first, as a table and as JSON; a damaged one is told of."""
    store.rollback()
    ran = command("log", "--store", store.path, "--json")
    commits = ran.json
    assert (ran.code, ran.err) == (0, "")
    assert [commit["number"] for commit in commits] == [6, 5, 4, 3, 2, 1]
    assert [commit["what"] for commit in commits] == ["rollback", *["rebuild"] * 5]
    assert [commit["snapshot"] for commit in commits[1:]] == store.snapshots()[::-1]
    assert commits[0]["snapshot"] == store.current() == commits[2]["snapshot"]
    assert {commit["writer"].partition(":")[0] for commit in commits} == {socket.gethostname()}
    assert (commits[1]["objects"], commits[0]["updated"]) == (0, None)
    code, out, err = command("log", "--store", store.path, "-n", 2)
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines[0].split() == ["table", "number", "time", "what", "writer"]
    assert [line.split()[:2] + line.split()[3:5] for line in lines[1:]] == [
        ["snapshots", str(one["number"]), f"{one['what']}:", f"{one['snapshot']},"] for one in commits[:2]
    ]
    path = Path(store.chain.path(4))
    path.write_bytes(path.read_bytes()[:-1])
    code, _, err = command("log", "--store", store.path)
    assert code == 0
    assert f"warning: {path} is damaged" in err
    assert command("log", "--store", f"{store.path}/none").code == 2


def refused_here(sleep):
    """What fails instead of sleeping, in this thread alone."""

    def refuse(seconds):
        if threading.current_thread() is threading.main_thread():
            pytest.fail(f"slept for {seconds} s")
        sleep(seconds)

    return refuse


def test_the_second_writer_ends_at_once(store, command, monkeypatch):
    """With the holder's name and exit code 2, and nothing else happens; without leases it is not kept out."""
    wanted = f"is being written by process {Holder.me().pid} on {socket.gethostname()} since"
    with store.writer():
        before = store.folder.read(LEASE)
        code = "import sys; from pipelines.command.main import main; main(sys.argv[1:])"
        other = [sys.executable, "-c", code, "rollback", "--store", store.path]
        done = subprocess.run(other, capture_output=True, text=True, timeout=120, check=False)
        assert (done.returncode, done.stdout, done.stderr.count("\n"), wanted in done.stderr) == (2, "", 1, True)
        with monkeypatch.context() as patched:
            # a lease that is waited for takes sixty seconds; threads of a Spark that other tests have begun may sleep
            patched.setattr("time.sleep", refused_here(time.sleep))
            for name in ("rollback", "gc"):
                assert wanted in command.fails(name, "--store", store.path)
            with pytest.raises(StoreError, match="is being written by"):
                store.writer()
        assert store.folder.read(LEASE) == before
        assert store.head().number == 5
        assert command("rollback", "--store", store.path, "--lease", "off").code == 0
        assert store.head().number == 6
    assert_clean(store)


@pytest.mark.parametrize("name", ["log", "gc"])
def test_care_loads_no_library(store, name):
    """On a local disk."""
    code = f"from pipelines.command.main import main\ntry:\n    main([{name!r}, '--store', {store.path!r}])\n"
    code += "finally:\n    import sys; print('loaded', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0
    assert not HEAVY & set(done.stdout.rpartition("loaded ")[2].split())
