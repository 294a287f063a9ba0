"""The lock of a store: one writer at a time, and no store that stays locked."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from pyarrow import fs

import dtoss.commits.folder
import dtoss.commits.lease
import dtoss.snapshots.store
from dtoss.commits.chain import Conflict
from dtoss.commits.folder import LocalFolder, RemoteFolder
from dtoss.commits.lease import LEASE, LEASE_SECONDS, Holder, held_by, take_over
from dtoss.errors import StoreError
from dtoss.snapshots.store import Store
from tests.disks import elsewhere, without_links
from tests.dtoss.snapshots.small_stores import assert_clean, commit, manifest_of, read, script, told


@pytest.fixture
def store(tmp_path):
    made = Store(str(tmp_path / "store"))
    commit(made, 1)
    return made


def locked(store, holder, seconds_ago=0.0):
    """Put a lock there as another process would, touched so long ago."""
    path = Path(store.file(LEASE))
    path.write_bytes(holder if isinstance(holder, bytes) else holder.data)
    then = time.time() - seconds_ago
    os.utime(path, (then, then))
    return path


def assert_refused(store, *words):
    for write in (lambda: commit(store, 9), store.rollback, lambda: store.clear(1)):
        with pytest.raises(StoreError, match=r"is being written by .*: one writer at a time") as error:
            write()
        assert all(word in str(error.value) for word in words), error.value
    assert Path(store.file(LEASE)).exists()


def test_the_second_is_refused_and_told_who_writes(store):
    """Building, rolling back and clearing, also in the same process; afterwards all goes on."""
    commit(store, 2)
    with store.writer():
        assert_refused(store, f"process {os.getpid()} on {socket.gethostname()} since 20")
        assert store.writes().pid == os.getpid()
        assert read(store) == 2
    assert store.writes() is None
    assert not Path(store.file(LEASE)).exists()
    commit(store, 3)
    store.rollback()
    assert read(store) == 2


def test_a_lock_of_a_process_that_is_gone_is_taken_over_at_once(store):
    """One that has ended, one that waits to be reaped, one whose number another process has now."""
    with subprocess.Popen([sys.executable, "-c", "pass"], stdin=subprocess.PIPE) as ended:
        me = Holder.me()
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        for gone in (replace(me, pid=ended.pid), replace(me, pid=os.getppid(), start="1"), replace(me, pid=2**22 + 5)):
            locked(store, gone)
            assert held_by(store.folder) is None
            commit(store, 2)
            assert not Path(store.file(LEASE)).exists()
    locked(store, replace(me, pid=ended.pid))
    commit(store, 3)
    assert read(store) == 3


def test_a_lock_of_another_machine_counts_while_it_is_touched(store, monkeypatch):
    """By the store's clock: this machine's may be hours off. A start of this machine before the last is another one."""
    theirs = replace(Holder.me(), host="elsewhere", pid=1)
    earlier = replace(Holder.me(), boot="before/pid:[1]")
    for clock in (0.0, -9_000.0, 9_000.0):
        now = time.time
        with monkeypatch.context() as patch:
            patch.setattr(dtoss.commits.lease.time, "time", lambda now=now, clock=clock: now() + clock)
            for other in (theirs, earlier):
                path = Path(store.file(LEASE))
                path.write_bytes(other.data)
                ago = now() - LEASE_SECONDS + 20.0
                os.utime(path, (ago, ago))
                assert_refused(store, "on elsewhere" if other is theirs else f"process {os.getpid()} on")
                ago -= 21.0
                os.utime(path, (ago, ago))
                commit(store, 4)
                assert not path.exists()


@pytest.mark.parametrize("text", [b"", b"?", b"[]", b'{"host": 1}', b"\xff\x00"])
def test_a_lock_that_cannot_be_read(store, text):
    """Is one that is just being written, and nobody's after two minutes."""
    locked(store, text)
    assert_refused(store, "another process")
    locked(store, text, LEASE_SECONDS + 1.0)
    commit(store, 2)
    assert not Path(store.file(LEASE)).exists()


def test_one_of_many_takes_over(tmp_path):
    """Six processes find the lock of a dead one at the same time; and the claim of one that died taking over."""
    assert told(script("takers", tmp_path / "store", 20, 6)) == {"rounds": 20}


def test_a_late_one_takes_nothing_over(store):
    """Who has seen a lock of a dead process leaves the lock alone that another one has put in its place."""
    old = replace(Holder.me(), pid=2**22 + 5, token="old")
    with store.writer() as lock:
        assert not take_over(store.folder, store.path, old, Holder.me())
        lock.check()
        assert store.folder.files() == ["CURRENT", LEASE]


def test_who_takes_over_is_told_to_the_next(store):
    """While a living process is about it, the third is refused."""
    locked(store, replace(Holder.me(), pid=2**22 + 5, token="old"))
    Path(store.file(f"{LEASE}.old")).write_bytes(replace(Holder.me(), pid=os.getppid(), start="").data)
    assert_refused(store, f"process {os.getppid()}")
    assert store.folder.files() == ["CURRENT", LEASE, f"{LEASE}.old"]


@pytest.mark.parametrize("faster", [True, False])
def test_who_has_lost_the_lease_may_still_be_the_first(store, faster):
    """One that was stopped for minutes while another machine took over: what counts is who commits first."""
    before = store.current()
    theirs = replace(Holder.me(), host="elsewhere", token="theirs")

    def late():
        with store.writer() as lock, store.fresh() as name:
            store.write(name, "borders.arrow", b"b")
            after = store.head()
            locked(store, theirs)
            if faster:
                others.append(commit(store, 2, lease=False))
            manifest = {"partitions": [], "borders": {"file": "borders.arrow", "bytes": 1}, "timings": {}}
            store.finish(name, manifest, lock, after)
            names.append(name)

    names, others = [], []
    if faster:
        me = f"{socket.gethostname()}:{os.getpid()}"
        with pytest.raises(Conflict, match=rf"store has changed: version 2 was committed by {me} meanwhile"):
            late()
        assert store.folder.folders("snapshots") == [before, *others]
    else:
        late()
    assert store.current() == (others or names)[0]
    assert held_by(store.folder) == theirs, "it is not ours to remove"
    Path(store.file(LEASE)).unlink()
    with store.writer() as lock:
        Path(store.file(LEASE)).unlink()
        with pytest.raises(StoreError, match="is gone: nothing was changed"):
            store.clear(1, lock=lock)


def test_the_lock_of_an_earlier_version_counts_until_it_expires(store):
    """Then it is removed: two minutes, as it was said to hold, or at once where its process is gone."""
    old = Path(store.file("WRITER"))
    old.write_bytes(replace(Holder.me(), host="elsewhere", pid=1).data)
    then = time.time() - LEASE_SECONDS - 10.0
    os.utime(old, (then, then))
    with pytest.raises(StoreError, match=r"is being written by process 1 on elsewhere"):
        commit(store, 2)
    assert held_by(store.folder).host == "elsewhere"
    then -= 60.0
    os.utime(old, (then, then))
    commit(store, 3)
    assert not old.exists()
    old.write_bytes(replace(Holder.me(), pid=2**22 + 5).data)
    Path(store.file("WRITER.abc")).write_bytes(replace(Holder.me(), pid=2**22 + 5).data)
    commit(store, 4)
    assert_clean(store)


def test_without_a_lease_nobody_is_kept_out(store):
    """Nor is a file made; a lease of another one is left alone."""
    with store.writer():
        assert commit(store, 2, lease=False) == store.current()
        assert Path(store.file(LEASE)).exists()
        assert store.rollback(lease=False)[0] == store.current()
        assert read(store) == 1
        assert store.clear(1, lease=False)
    assert not Path(store.file(LEASE)).exists()


def test_a_held_lock_is_touched(store, monkeypatch):
    """By a thread, until it is released."""
    monkeypatch.setattr(dtoss.commits.lease, "RENEWED_SECONDS", 0.02)
    with store.writer():
        path = Path(store.file(LEASE))
        os.utime(path, (0.0, 0.0))
        ends = time.monotonic() + 60.0
        while path.stat().st_mtime == 0.0:
            assert time.monotonic() < ends
            time.sleep(0.01)
    assert not path.exists()


def test_a_child_does_not_release(store):
    """What a process of a pool unpickles or inherits is not its own."""
    with store.writer() as lock:
        other = replace(lock.holder, pid=os.getppid())
        theirs = dtoss.commits.lease.Writer(store.folder, store.path, other)
        theirs.release()
        assert Path(store.file(LEASE)).exists()


def test_a_full_disk_has_a_lock_all_the_same(store, monkeypatch):
    """An empty file needs no room; then debris goes, and the lock gets its text."""
    real, cleared = LocalFolder._write_aside, []

    def full(self, data, parts, **options):
        if not cleared:
            raise OSError(28, "No space left on device")
        return real(self, data, parts, **options)

    monkeypatch.setattr(LocalFolder, "_write_aside", full)
    with pytest.raises(StoreError, match="cannot be written: No space left on device"):
        store.writer()
    assert store.folder.files() == ["CURRENT"]
    held = []

    def clear(self, warn):
        held.extend(store.folder.files())
        cleared.append(True)

    monkeypatch.setattr(Store, "_clear_debris", clear)
    with store.writer():
        assert held == ["CURRENT", LEASE]
        assert json.loads(Path(store.file(LEASE)).read_text())["pid"] == os.getpid()
    assert store.folder.files() == ["CURRENT"]


def test_a_disk_without_links(store, monkeypatch):
    """The file is made exclusively in its place."""
    without_links(monkeypatch)
    with store.writer():
        assert_refused(store, f"process {os.getpid()}")
    assert store.folder.files() == ["CURRENT"]


@pytest.fixture
def remote(tmp_path, monkeypatch):
    """A store on a file system that pyarrow reaches and that is no disk."""
    (tmp_path / "bucket").mkdir()
    place = fs.SubTreeFileSystem(str(tmp_path / "bucket"), fs.LocalFileSystem())
    elsewhere(monkeypatch, RemoteFolder(place, "taxis"))
    return Store("s3://bucket/taxis"), tmp_path / "bucket" / "taxis"


def test_elsewhere_two_writers_are_warned_of(remote):
    """Where nothing is exclusive, both go on; the last to come has its snapshot current."""
    store, place = remote
    said = []
    first = commit_remote(store, place, said)
    assert said == []
    (place / LEASE).write_bytes(replace(Holder.me(), host="elsewhere").data)
    second = commit_remote(store, place, said)
    assert len(said) == 1
    assert "s3://bucket/taxis is being written by process" in said[0]
    assert "this file system cannot keep the two apart" in said[0]
    assert store.snapshots() == [first, second]
    assert store.manifest()["parent"] == first
    assert store.rollback() == (first, second)
    store.clear(1)
    assert store.snapshots() == [first]
    assert sorted(path.name for path in place.iterdir()) == ["CURRENT", "commits", "snapshots"]
    assert [path.name for path in (place / "snapshots").iterdir()] == [first]


def commit_remote(store, place, said):
    with store.writer(said.append) as lock:
        with store.fresh() as name:
            files = {"partitions/0.arrow": b"p", "borders.arrow": b"b"}
            for file, data in files.items():
                store.write(name, file, data)
            store.finish(name, manifest_of(name, files), lock)
        store.clear(3, lock=lock)
    return name
