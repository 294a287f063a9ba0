"""The life of a store without Spark: committing, rolling back, clearing, faults at every step, two writers at once."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

import dtoss.snapshots.retention
import dtoss.snapshots.store
from dtoss.commits.folder import LocalFolder
from dtoss.commits.lease import Holder
from dtoss.commits.verify_report import verify_chain
from dtoss.errors import StoreError
from dtoss.snapshots.store import Store
from tests.dtoss.snapshots.small_stores import (
    as_before_commits,
    assert_clean,
    assert_sound,
    commit,
    immutable,
    read,
    script,
    silent,
    told,
)  # fmt: skip


@pytest.fixture
def store(tmp_path):
    return Store(str(tmp_path / "store"))


EVERY_STEP = pytest.mark.deep("each step of it; a third of the steps, and all of them for a kill, are in make test")


@pytest.mark.parametrize(
    ("how", "first", "stride"),
    [
        ("kill", 1, 1),
        ("error", 1, 3),
        ("interrupt", 2, 3),
        *(pytest.param(how, 1, 1, marks=EVERY_STEP) for how in ("error", "interrupt")),
    ],
)
def test_a_commit_that_breaks_at_any_step_leaves_a_good_store(tmp_path, how, first, stride):
    """The old snapshot or the new one is current and whole, the next commit goes through, nothing is left behind."""
    found = told(script(how, tmp_path / "store", first, stride))
    assert found["broken"] > 40 // stride
    assert 0 < found["moved"] < found["broken"], "faults on both sides of the pointer's move"


def test_two_writers_and_two_readers_at_once(tmp_path):
    """Only one snapshot stays (--keep 1): each open gives a whole one, none is lost, the pointer never goes back."""
    store = tmp_path / "store"
    commit(Store(str(store)), 0)
    readers = [script("reader", store) for _ in range(2)]
    writers = [script("writer", store, 12, seed) for seed in (1, 2)]
    wrote = [told(process) for process in writers]
    (tmp_path / "store.done").touch()
    saw = [told(process) for process in readers]
    assert [found["committed"] for found in wrote] == [12, 12]
    assert sum(found["refused"] for found in wrote) > 0, "they were never at it at once"
    assert all(found["opened"] > found["snapshots"] > 1 for found in saw)
    assert_sound(Store(str(store)))
    assert_clean(Store(str(store)))


def test_reading_goes_on_where_the_pointer_moves_under_it(store):
    """A snapshot that is replaced and removed between the look at the pointer and the look at it is no error."""
    commit(store, 1)
    moved = []

    def slow(name):
        if len(moved) < 5:
            moved.append(commit(store, 10 + len(moved), keep=1))
        return store.manifest(name)["number"]

    assert store.of_current(slow) == 14
    with pytest.raises(StoreError, match="replaced faster than it can be opened: keep more"):
        store.of_current(lambda name: store.manifest(name + commit(store, 0, keep=1)), tries=3)


def test_a_clear_that_fails_is_a_warning(store, monkeypatch):
    """The new snapshot is current; what could not be removed is no snapshot any more, and goes the next time."""
    first = commit(store, 1)

    def held(self, *parts):
        raise OSError(1, "Operation not permitted", self.path(*parts))

    warnings = []
    with monkeypatch.context() as patch:
        patch.setattr(LocalFolder, "remove_folder", held)
        second = commit(store, 2, keep=1, warn=warnings.append)
    assert read(store) == 2
    assert store.snapshots() == [second]
    assert len(warnings) == 1
    assert first in warnings[0]
    assert "could not be removed (Operation not permitted): the next rebuild tries again" in warnings[0]
    ((left, why),) = store.unfinished()
    assert left.startswith(f".removed.{first}")
    assert "could not be removed" in why
    with pytest.raises(StoreError, match=f"no snapshot before '{second}'"):
        store.rollback()
    assert store.clear(None) == []
    assert_clean(store)
    move = LocalFolder.move

    def stuck(self, source, target):
        if target[-1].startswith(".removed."):
            held(self, *source)
        move(self, source, target)

    monkeypatch.setattr(LocalFolder, "move", stuck)
    third = commit(store, 3, keep=1, warn=warnings.append)
    assert (read(store), store.snapshots()) == (3, [second, third])
    assert_sound(store)


def test_a_file_that_cannot_be_removed_costs_no_snapshot(store):
    """As ``chattr +i`` makes them, or a shared disk while a client holds one."""
    if shutil.which("chattr") is None:
        pytest.skip("no chattr here")
    first = commit(store, 1)
    file = Path(store.file("snapshots", first, "partitions", "00000.arrow"))
    if not immutable(file, "+i"):
        pytest.skip("no right to make files immutable here")
    try:
        warnings = []
        second = commit(store, 2, keep=1, warn=warnings.append)
        assert (read(store), store.snapshots()) == (2, [second])
        assert len(warnings) == 1
        commit(store, 3, keep=1)
        assert read(store) == 3
    finally:
        immutable(next(Path(store.path).rglob("00000.arrow")), "-i")
        for found in Path(store.path).rglob("00000.arrow"):
            immutable(found, "-i")
    store.clear(None)
    assert_clean(store)


def test_what_is_current_is_never_abandoned(store):
    """Whatever is raised when the pointer has moved."""
    names = []

    def interrupted(*, moved):
        with store.fresh() as name:
            names.append(name)
            Path(store.file("snapshots", name, "manifest.json")).write_text("{}")
            if moved:
                store.chain.append({"snapshot": name}, store.head())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted(moved=True)
    with pytest.raises(KeyboardInterrupt):
        interrupted(moved=False)
    assert store.current() == names[0]
    assert store.folder.folders("snapshots") == names[:1]


def test_what_was_current_for_a_moment_is_never_abandoned(store):
    """Another process may have committed between the commit and what is raised after it."""

    def interrupted():
        with store.fresh() as name:
            Path(store.file("snapshots", name, "manifest.json")).write_text("{}")
            store.chain.append({"snapshot": name}, store.head())
            commit(store, 2)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert read(store) == 2
    assert len(store.snapshots()) == 2


def test_rolling_back_goes_to_what_was_current_before(store):
    """Not to a snapshot that was rolled away from; and what rolling back needs is kept before others."""
    first, second, third = (commit(store, number, keep=None) for number in (1, 2, 3))
    assert store.rollback() == (second, third)
    fourth = commit(store, 4, keep=None)
    assert store.manifest()["parent"] == second
    assert store.rollback() == (second, fourth)
    assert store.rollback() == (first, second)
    with pytest.raises(StoreError, match=f"no snapshot before '{first}' to roll back to"):
        store.rollback()
    fifth = commit(store, 5, keep=3)
    assert store.snapshots() == [first, fourth, fifth], "its parent, and the latest of the others"
    assert store.rollback() == (first, fifth)
    sixth = commit(store, 6, keep=2)
    assert store.snapshots() == [first, sixth]
    assert store.manifest(first)["parent"] is None


def test_a_store_whose_manifests_name_no_parent(store):
    """One of an earlier version: the snapshot before is the one with the greatest lesser name."""
    names = [commit(store, number, keep=None) for number in range(4)]
    for name in names:
        path = Path(store.file("snapshots", name, "manifest.json"))
        manifest = json.loads(path.read_text())
        del manifest["parent"]
        path.write_text(json.dumps(manifest))
    as_before_commits(store)
    assert store.rollback() == (names[2], names[3])
    assert store.rollback() == (names[1], names[2])
    new = commit(store, 9, keep=3)
    assert store.snapshots() == [*names[:2], new]


@pytest.mark.parametrize("harm", ["missing", "short", "manifest", "fields"])
def test_rolling_back_passes_over_what_is_not_whole(store, harm):
    """A warning names it."""
    first, second, third = (commit(store, number) for number in (1, 2, 3))
    file = Path(store.file("snapshots", second, "partitions", "00001.arrow"))
    manifest = Path(store.file("snapshots", second, "manifest.json"))
    if harm == "missing":
        file.unlink()
    elif harm == "short":
        file.write_bytes(b"short")
    elif harm == "manifest":
        manifest.write_text("{")
    else:
        manifest.write_text('{"format": 2, "partitions": 7}')
    warnings = []
    assert store.rollback(warnings.append) == (first, third)
    assert len(warnings) == 1
    assert warnings[0].startswith(f"{second} is passed over: ")
    assert read(store) == 1


def test_names_grow_whatever_the_clock_says(store, monkeypatch):
    """A clock that goes back makes no older name; one that stands still none twice."""

    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime(2020, 2, 29, 23, 59, 59, 999_999, tzinfo=UTC)

    first = commit(store, 1)
    monkeypatch.setattr(dtoss.snapshots.retention, "datetime", Clock)
    second, third = commit(store, 2), commit(store, 3)
    assert first < second < third
    assert (first[:8], second[:-4]) == (second[:8], first[:-4])
    store.rollback()
    fourth = commit(store, 4, keep=1)
    assert fourth > third
    assert read(store) == 4


def test_a_snapshot_is_never_made_twice(store, monkeypatch):
    """Not even by a writer that knows of no lock."""
    name = commit(store, 1)
    monkeypatch.setattr(dtoss.snapshots.store, "later_than", lambda names: name)
    with pytest.raises(StoreError, match=f"has a snapshot '{name}' already"):
        commit(store, 2)
    assert read(store) == 1
    assert_clean(store)


DAMAGED = [b"", b"\n", b"\xff\xfe\x00\x80" * 3, b"nothing", b"../../etc", b"..", b"a\x00b", b"x" * 100_000, b"a/b"]


@pytest.mark.parametrize("text", [*DAMAGED, b"00000000000000000009\n", b"00000000000000000001 01234567\n", None])
def test_a_damaged_hint_is_a_warning(store, text, capsys):
    """The last commit is found by listing, and the next one mends the hint."""
    commit(store, 1)
    second = commit(store, 2)
    hint = Path(store.path) / "CURRENT"
    hint.unlink() if text is None else hint.write_bytes(text)
    again = Store(store.path)
    assert again.current() == second
    assert read(again) == 2
    said = capsys.readouterr().err
    assert re.fullmatch(r"warning: \S*CURRENT is missing or damaged: \S*/0{19}2\.json is the highest .*\n", said)
    assert commit(again, 3) == Store(store.path).current()
    assert again.chain.hint() == 3
    assert capsys.readouterr().err == ""
    assert_clean(store)


def test_a_hint_that_lags_is_none_of_a_readers_business(store, capsys):
    """A process that was killed between its commit and the hint; or whose disk was full then."""
    commit(store, 1)
    hint = (Path(store.path) / "CURRENT").read_bytes()
    commit(store, 2)
    third = commit(store, 3)
    (Path(store.path) / "CURRENT").write_bytes(hint)
    assert store.current() == third
    assert store.rollback()[1] == third
    assert read(store) == 2
    assert capsys.readouterr().err == ""
    assert_clean(store)


@pytest.mark.parametrize("harm", ["flip", "empty", "json"])
def test_a_damaged_commit_is_one_line_and_can_be_mended(store, harm):
    """By rolling back, to the latest snapshot, and by a commit; its file is named until it is folded."""
    first, second = commit(store, 1), commit(store, 2)
    path = Path(store.chain.path(2))
    data = path.read_bytes()
    path.write_bytes({"flip": data.replace(b"rebuild", b"rebuilt"), "empty": b"", "json": b"{}\n"}[harm])
    for ask in (store.current, store.manifest, store.head):
        with pytest.raises(StoreError, match=r"commits/0{19}2\.json is damaged: .*; roll back or rebuild$"):
            ask()
    assert store.snapshots() == [first, second]
    assert store.rollback(silent) == (second, "nothing")
    third = commit(store, 3, keep=1)
    assert read(store) == 3
    assert store.snapshots() == [third]
    assert [line for line in verify_chain(store.chain) if path.name in line]
    assert store.head().number == 4


def test_a_store_of_an_earlier_version_gets_commits(store):
    """It is read as it is; the first writer commits what is current, and then its own."""
    first, second = commit(store, 1), commit(store, 2)
    as_before_commits(store)
    before = {path: path.read_bytes() for path in Path(store.path).rglob("*") if path.is_file()}
    assert store.head() is None
    assert (store.current(), read(store)) == (second, 2)
    assert {path: path.read_bytes() for path in Path(store.path).rglob("*") if path.is_file()} == before
    third = commit(store, 3)
    named = [commit.document["snapshot"] for commit in store.chain.newest_first()]
    assert named == [third, second]
    assert store.manifest()["parent"] == second
    assert store.rollback() == (second, third)
    assert store.rollback() == (first, second)
    assert_clean(store)
    as_before_commits(store)
    assert store.current() == first
    Path(store.file("CURRENT")).write_text(f"{second}\n")
    assert store.rollback() == (first, second)
    assert [commit.document["snapshot"] for commit in store.chain.newest_first()] == [first, second]


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_pointer_is_one_line_and_can_be_mended(store, text):
    """That of a store of an earlier version: by rolling back, to the latest snapshot, and by a commit."""
    first, second = commit(store, 1), commit(store, 2)
    as_before_commits(store, text)
    for ask in (store.current, store.manifest):
        with pytest.raises(
            StoreError, match=r"^CURRENT of .*store is damaged: it says .* roll back .*or rebuild$"
        ) as e:
            ask()
        assert len(str(e.value)) < 500
        assert str(e.value).isprintable()
    assert store.snapshots() == [first, second]
    assert store.rollback()[0] == second
    as_before_commits(store, text)
    third = commit(store, 3, keep=1)
    assert read(store) == 3
    assert third in store.snapshots()


def test_a_pointer_that_is_a_folder(store):
    """Nothing can be written until it is moved away: said at once, not when all is built."""
    name = commit(store, 1)
    (Path(store.path) / "CURRENT").unlink()
    (Path(store.path) / "CURRENT").mkdir()
    assert store.current() == name
    shutil.rmtree(store.file("commits"))
    with pytest.raises(StoreError, match=r"CURRENT cannot be read: Is a directory; roll back or rebuild"):
        store.current()
    assert store.snapshots() == [name]
    for write in (lambda: commit(store, 2), store.rollback):
        with pytest.raises(StoreError, match="CURRENT is a folder: move it away"):
            write()
    (Path(store.path) / "CURRENT").rmdir()
    with pytest.raises(StoreError, match=r"^CURRENT of .* is missing: roll back"):
        store.current()
    assert store.rollback() == (name, "nothing")
    assert read(store) == 1


@pytest.mark.parametrize("name", ["../store", ".", "..", "a/b", "", ".removed.x", "é"])
def test_a_name_leads_nowhere_else(store, name):
    """Whoever names a snapshot reads nothing outside of the store's."""
    known = commit(store, 1)
    with pytest.raises(StoreError, match=f"has no snapshot .*; it has {known}"):
        store.manifest(name or "/")


def test_debris_goes_before_anything_is_written(store):
    """And what is no folder of a snapshot: pointers and folders under passing names."""
    first = commit(store, 1)
    place = Path(store.path)
    name = store.begin()
    mark = place / "snapshots" / name / "WRITING"
    mark.write_bytes(Holder("here", 1).data)  # of another machine, long ago
    (place / "CURRENT.0123456789abcdef").write_text("x")
    for passing in (".new.1", ".removed.2"):
        (place / "snapshots" / passing / "partitions").mkdir(parents=True)
        (place / "snapshots" / passing / "manifest.json").write_text("{}")
    assert store.snapshots() == [first]
    assert {found for found, _ in store.unfinished()} == {name, ".new.1", ".removed.2"}
    with store.writer() as lock:
        assert store.clear(None, lock=lock) == [name]
        with store.fresh() as fresh:
            seen = store.folder.folders("snapshots")
            files = store.folder.files()
    assert seen == [first, fresh]
    assert files == ["CURRENT", "LEASE"]


def test_what_may_still_be_written_is_kept_and_named(store):
    """A folder that a living process made, or one of another machine within a day."""
    commit(store, 1)
    ours = store.begin()
    theirs = store.begin()
    Path(store.file("snapshots", theirs, "WRITING")).write_bytes(
        json.dumps({"host": "elsewhere", "pid": 7, "began": datetime.now(UTC).timestamp()}).encode()
    )
    assert store.clear(1) == []
    why = dict(store.unfinished())
    assert set(why) == {ours, theirs}
    assert "process 7 on elsewhere since 20" in why[theirs]
    assert "kept, for that may still run" in why[ours]


def test_a_mark_that_outlived_its_writer_hides_nothing(store):
    """Killed between the pointer's move and the mark's end: the snapshot counts, and the mark goes."""
    first, second = commit(store, 1), commit(store, 2)
    mark = Path(store.file("snapshots", second, "WRITING"))
    mark.write_bytes(Holder("here", 1).data)
    assert store.snapshots() == [first, second]
    assert store.rollback() == (first, second)
    assert store.snapshots() == [first, second]
    assert not mark.exists()


def test_files_that_are_not_there_stop_the_commit(store):
    """Before the pointer moves."""
    commit(store, 1)
    manifest = {"partitions": [], "borders": {"file": "b.arrow", "bytes": 3}, "timings": {}}
    missing = pytest.raises(StoreError, match=r"b\.arrow is missing: the disk has lost it")
    with missing, store.writer() as lock, store.fresh() as name:
        store.finish(name, manifest, lock)
    assert read(store) == 1
    assert_clean(store)


def test_a_lock_that_is_lost_while_clearing_is_a_warning(store):
    """The snapshot is current by then."""
    commit(store, 1)
    warnings = []
    with store.writer() as lock:
        Path(store.file("LEASE")).unlink()
        store.tidy(1, lock, warnings.append)
    assert len(warnings) == 1
    assert "could not be removed (the lease LEASE of " in warnings[0]


def test_a_folder_that_is_no_store(store):
    """Is not made one by rolling back."""
    with pytest.raises(StoreError, match="is not a store, or holds no snapshot yet"):
        store.rollback()
    assert not Path(store.path).exists()


def test_an_empty_folder_is_not_left(store, tmp_path):
    """Where a store was to be made and nothing came of it."""
    store.writer().release()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "store").mkdir()
    store.writer().release()
    assert list(tmp_path.iterdir()) == [tmp_path / "store"]


@pytest.mark.parametrize("kind", ["file", "in a file", "read only"])
def test_a_store_that_cannot_be_written(tmp_path, kind):
    """One line with the path."""
    place = tmp_path / "store"
    if kind == "file":
        place.touch()
    elif kind == "in a file":
        (tmp_path / "f").touch()
        place = tmp_path / "f" / "store"
    else:
        place = Path("/proc/store")
    with pytest.raises(StoreError, match=f"^{place} cannot be written: "):
        Store(str(place)).writer()


def test_a_full_disk_is_emptied_of_debris(tmp_path):
    """A small disk that an unfinished snapshot fills: the next commit goes through."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("no right to mount a small disk here")
    try:
        store = Store(str(disk / "store"))
        commit(store, 1)
        left = store.begin()
        Path(store.file("snapshots", left, "WRITING")).write_bytes(Holder("here", 1).data)

        def fill(size):
            for number in range(100):
                store.write(left, f"partitions/{size}-{number}", bytes(size))

        for size in (20_000, 4_000, 100):
            with pytest.raises(OSError, match="No space left"):
                fill(size)
        assert not [
            file for file in Path(store.path).rglob("partitions/*") if "." in file.name and file.parts[-3] == left
        ]
        commit(store, 2)
        assert read(store) == 2
        assert_clean(store)
    finally:
        subprocess.run(["umount", str(disk)], check=True)
