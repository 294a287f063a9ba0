"""A file that is mapped holds no descriptor, and what could not be read is never called damaged."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import dtoss
from dtoss.commits.file_entry import map_file
from dtoss.errors import StoreError, Unreadable, of_system
from dtoss.serve.core.server_settings import Settings
from dtoss.serve.reload.prepare import first_snapshot, head_of
from dtoss.snapshots.snapshots_table import verify_store
from dtoss.snapshots.store import Store
from pipelines.rows.survey import objects_now
from tests.dtoss.snapshots.damaged_stores import stored
from tests.refusals import NO_MORE, REFUSAL, descriptors, files_in, unopenable

PARTITIONS, SPARE = 24, 8


def made(path, partitions=PARTITIONS):
    index = dtoss.build(np.arange(200), np.random.default_rng(0).uniform(-50.0, 50.0, (200, 2)), partitions=partitions)
    return stored(index, path)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store of more partitions than there are descriptors."""
    path = made(tmp_path_factory.mktemp("descriptors") / "store")
    dtoss.open(path).knn([0.0, 0.0], 1)
    verify_store(Store(path))  # what is loaded at first use wants descriptors too
    return path


def test_a_store_of_more_partitions_than_descriptors(store):
    """It opens time and again, answers from all files, also those that are found late, and is whole."""
    with descriptors(SPARE):
        held = [dtoss.open(store, lazy=lazy) for lazy in (False, True, False)]
        for index in held:
            assert len(index.range([0.0, 0.0], 2e7).id) == 200
        found = verify_store(Store(store))
    assert (found.damaged, found.unread, found.files) == ([], [], PARTITIONS + 1)


def test_a_server_holds_two_snapshots_of_them(store):
    """As between one and the next, with what was verified and warmed of each."""
    first_snapshot(Settings(store))
    with descriptors(SPARE):
        held = [first_snapshot(Settings(store)), first_snapshot(Settings(store))]
        assert [len(one.index.range([0.0, 0.0], 2e7).id) for one in held] == [200, 200]


@pytest.mark.deep("a thousand partitions; more than there are descriptors, and two indexes of them, are in make test")
def test_a_thousand_partitions_at_a_small_limit(tmp_path):
    path = made(tmp_path / "store", 1024)
    with descriptors(64):
        before = dtoss.open(path)
        assert len(before.range([0.0, 0.0], 2e7).id) == 200
        after = dtoss.open(path)
        assert len(after.range([0.0, 0.0], 2e7).id) == 200
        assert verify_store(Store(path)).as_json()["damaged"] == []


@pytest.mark.parametrize("spare", range(4))
def test_without_descriptors_nothing_is_damaged(store, spare):
    """However few there are: an answer, or what the system says, and no advice to roll back."""
    with descriptors(spare):
        found = verify_store(Store(store))
        try:
            assert dtoss.open(store).snapshot
        except Unreadable as error:
            said = str(error)
        else:
            said = ""
    assert found.damaged == []
    assert [NO_MORE in line for line in found.unread] == [True] * len(found.unread)
    assert bool(found.unread) == (spare == 0)
    assert said.endswith(f"could not be read: {NO_MORE}") == (spare == 0)


def test_a_file_that_is_refused_is_not_damaged(store):
    """Whichever it is; `verify` names it, and who opens the store is told why."""
    for path in files_in(Path(store)):
        with unopenable(path):
            found = verify_store(Store(store))
            assert found.damaged == [], path
            assert any(REFUSAL in line and "roll back" not in line for line in found.unread), path
            if path.suffix == ".arrow":
                assert found.unread == [f"{path} could not be read: {REFUSAL}"]
                with pytest.raises(Unreadable, match=f"{path.name} could not be read: {REFUSAL}$"):
                    dtoss.open(store)
    assert verify_store(Store(store)).unread == []


def test_what_is_missing_is_damaged(store):
    """A file that is not there, or a folder in its place, beside one that is refused."""
    one, two, three = sorted(Path(store).rglob("partitions/*"))[:3]
    data = [one.read_bytes(), two.read_bytes()]
    one.unlink()
    two.unlink()
    two.mkdir()
    try:
        with unopenable(three):
            found = verify_store(Store(store))
        assert found.damaged == [f"{path} is missing; roll back or rebuild" for path in (one, two)]
        assert found.unread == [f"{three} could not be read: {REFUSAL}"]
    finally:
        two.rmdir()
        for path, was in zip((one, two), data, strict=True):
            path.write_bytes(was)


def test_a_commit_that_is_a_folder_is_damaged(tmp_path):
    """As any other file that is one: no later try would read it."""
    store = Store(made(tmp_path / "store", 2))
    commit = next((tmp_path / "store" / "commits").iterdir())
    commit.unlink()
    commit.mkdir()
    with pytest.raises(StoreError, match=f"cannot be read: {os.strerror(errno.EISDIR)}; roll back or rebuild") as said:
        store.head()
    assert not isinstance(said.value, Unreadable)


def test_nothing_is_decided_by_what_could_not_be_read(tmp_path):
    """No older snapshot is taken for the current one, no shrink goes unseen, no server takes it for another store."""
    store = Store(made(tmp_path / "store", 2))
    made(tmp_path / "store", 2)
    before, now = store.snapshots()
    with unopenable(Path(store.file("snapshots", now, "manifest.json"))):
        for decide in (store.rollback, lambda: objects_now(store), store.snapshots):
            with pytest.raises(Unreadable, match=REFUSAL):
                decide()
    files = Path(store.file("snapshots", before, "partitions"))
    files.rename(tmp_path / "aside")
    files.symlink_to(files.name)
    with pytest.raises(Unreadable, match=f"partitions could not be read: {REFUSAL}$"):
        store.rollback()
    files.unlink()
    (tmp_path / "aside").rename(files)
    with unopenable(Path(store.file("CURRENT"))), pytest.raises(Unreadable, match=REFUSAL):
        head_of(store)
    assert (store.current(), objects_now(store)) == (now, 200)
    assert store.rollback() == (before, now)


def test_a_file_that_was_replaced_or_removed_stays_as_it_was(tmp_path):
    """Only the file that is mapped matters, not what has its name by now; one that is cut short is an error."""
    path = made(tmp_path / "store", 3)
    wanted = dtoss.open(path).knn([0.0, 0.0], 200).id.tolist()
    removed, replaced, cut = (dtoss.open(path) for _ in range(3))
    one = next(Path(path).rglob("partitions/*"))
    data = one.read_bytes()
    one.unlink()
    assert removed.knn([0.0, 0.0], 200).id.tolist() == wanted
    one.write_bytes(b"short")
    assert replaced.knn([0.0, 0.0], 200).id.tolist() == wanted
    one.write_bytes(data)
    cut = dtoss.open(path)
    os.truncate(one, 100)
    with pytest.raises(StoreError, match="has 100 bytes, it had"):
        cut.knn([0.0, 0.0], 200)


def test_what_the_system_refuses():
    """As pyarrow says it too; what cannot be decoded is none of it."""
    assert [of_system(error) for error in (MemoryError(), pa.ArrowMemoryError(), OSError(errno.EIO, "?"))] == [True] * 3
    assert [of_system(error) for error in (OSError("no footer"), pa.ArrowInvalid("no magic"))] == [False] * 2


def test_a_map_of_a_file(tmp_path):
    """Its bytes as they are, whatever its name; an empty one has none; what is refused names it."""
    for name, data in ((b"plain", b"x" * 9000), (b"\xff", b"y"), (b"empty", b"")):
        path = os.fsdecode(os.path.join(os.fsencode(tmp_path), name))  # noqa: PTH118
        Path(path).write_bytes(data)
        mapped, there = map_file(path)
        Path(path).unlink()
        assert (mapped.to_pybytes(), there.st_size) == (data, len(data))
    for path, number in ((tmp_path / "nothing", errno.ENOENT), (tmp_path, errno.EISDIR)):
        with pytest.raises(OSError, match=os.strerror(number)) as said:
            map_file(str(path))
        assert (said.value.errno, said.value.filename) == (number, str(path))
