"""What stays when a store is cleared, and that nobody rolls back to what is just going."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtoss.commits.chain import Commit
from dtoss.commits.folder import LocalFolder, RemoteFolder
from dtoss.errors import StoreError
from dtoss.snapshots.retention import current_within, kept, remove_snapshot, snapshot_of
from dtoss.snapshots.store import Store
from tests.disks import elsewhere, without_links
from tests.dtoss.snapshots.small_stores import assert_clean, commit, read, silent

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def commits(*told):
    """Commits, the newest first, of (snapshot, seconds ago)."""
    for number, (name, ago) in enumerate(told):
        yield Commit(len(told) - number, {"snapshot": name}, None, "h:1", (NOW - timedelta(seconds=ago)).isoformat())


@pytest.mark.parametrize(
    ("seconds", "wanted"),
    [(0.0, "e"), (5.0, "ed"), (10.0, "ed"), (10.5, "edc"), (29.0, "edc"), (30.5, "edcb"), (500.0, "edcba")],
)
def test_what_was_current_lately(seconds, wanted):
    """A snapshot is current until the next one is: so the one before the first that counts stays too."""
    told = commits(("e", 1.0), ("d", 10.0), ("c", 30.0), ("b", 100.0), ("a", 200.0))
    assert current_within(told, seconds, NOW) == set(wanted)


def test_what_was_rolled_back_to_is_current_again():
    """However old it is; and a clock that was ahead keeps rather more."""
    assert current_within(commits(("a", 1.0), ("b", 50.0), ("a", 90.0)), 10.0, NOW) == {"a", "b"}
    assert current_within(commits(("c", -50.0), ("b", -70.0), ("a", 90.0)), 10.0, NOW) == {"a", "b", "c"}
    assert current_within(iter([]), 10.0, NOW) == frozenset()


NAMES = st.lists(st.sampled_from("abcdefgh"), unique=True, min_size=1)


@settings(deadline=None)
@given(NAMES, st.data(), st.integers(1, 9))
def test_so_many_stay(finished, data, keep):
    """The current one and its line before all others, what was current lately beside them."""
    finished = sorted(finished)
    line = data.draw(st.lists(st.sampled_from(finished), unique=True, min_size=1))
    lately = frozenset(data.draw(st.lists(st.sampled_from(finished), unique=True)))
    staying = kept(line[0], finished, line, keep, frozenset())
    assert len(staying) == min(keep, len(finished))
    assert set(line[:keep]) <= staying
    others = [name for name in finished if name not in line]
    assert sorted(staying - set(line)) == others[max(len(others) - max(keep - len(line), 0), 0) :]
    assert kept(line[0], finished, line, keep, lately) == staying | lately
    assert kept(line[0], finished, line, None, lately) == set(finished)


@pytest.fixture(params=["disk", "elsewhere"])
def store(request, tmp_path, monkeypatch):
    """A store on a disk, and one where folders cannot be renamed but files are put exclusively."""
    if request.param == "disk":
        return Store(str(tmp_path / "store"))
    from obstore.store import LocalStore
    from pyarrow import fs

    (tmp_path / "store").mkdir()
    place = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    folder = RemoteFolder(place, "store", LocalStore(str(tmp_path / "store")))
    elsewhere(monkeypatch, folder)
    return Store("s3://bucket/store")


def test_a_rollback_to_what_is_just_going(store, monkeypatch):
    """Whoever clears without a lease sees the commit, and puts back what is current again."""
    names = [commit(store, number, keep=None) for number in range(3)]
    kind = type(store.folder)
    real, rolled = kind.move if store.folder.renames else kind.remove, []

    def slow(self, *parts):
        real(self, *parts)
        if not rolled and names[1] in str(parts):
            monkeypatch.undo()
            rolled.append(store.chain.append(store.head().document | {"snapshot": names[1]}, store.head()))

    monkeypatch.setattr(kind, "move" if store.folder.renames else "remove", slow)
    folders = store.folder
    assert remove_snapshot(folders, names[0], lambda: snapshot_of(store.head()))
    assert not remove_snapshot(folders, names[1], lambda: snapshot_of(store.head()))
    assert len(rolled) == 1
    assert store.current() == names[1]
    assert store.snapshots() == names[1:]


def test_a_rollback_to_what_has_just_gone(store, monkeypatch):
    """It looks after its commit, and goes further back: the store is never left on what is not there."""
    names = [commit(store, number, keep=None) for number in range(3)]
    real = Store._commit

    def late(self, name, *rest, **options):
        made = real(self, name, *rest, **options)
        if name == names[1]:
            assert remove_snapshot(self.folder, name, lambda: None)
        return made

    monkeypatch.setattr(Store, "_commit", late)
    told = []
    assert store.rollback(told.append, lease=False) == (names[0], names[2])
    assert told == [f"{names[1]} is passed over: it was removed meanwhile"]
    assert store.current() == names[0]
    assert store.head().number == 5


def test_files_that_no_manifest_lists_do_not_stay(tmp_path):
    """A task that was killed while it wrote, or one that ran twice with another result, leaves them."""
    store = Store(str(tmp_path / "store"))
    real = Store.finish

    def littered(self, name, manifest, *rest):
        for file in ("partitions/00000-0.arrow", "partitions/00000.arrow.0123", "borders-1.arrow"):
            self.folder.write(b"x", "snapshots", name, *file.split("/"))
        self.folder.make("snapshots", name, "quarantine")
        self.folder.write(b"", "snapshots", name, "quarantine", "_SUCCESS")
        return real(self, name, manifest, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Store, "finish", littered)
        name = commit(store, 1)
    home = store.folder
    assert home.files("snapshots", name) == ["borders.arrow", "manifest.json"]
    assert home.files("snapshots", name, "partitions") == [f"0000{number}.arrow" for number in range(3)]
    assert home.files("snapshots", name, "quarantine") == ["_SUCCESS"]
    assert read(store) == 1


def test_a_file_is_linked_from_another_snapshot(tmp_path, monkeypatch):
    """The same bytes on the disk, which stay when the other one goes; copied where there are no links."""
    store = Store(str(tmp_path / "store"))
    first = commit(store, 1)
    second = store.begin()
    store.link(second, "partitions/00001.arrow", first)
    store.link(second, "partitions/00001.arrow", first)
    here, there = (tmp_path / "store" / "snapshots" / name / "partitions" / "00001.arrow" for name in (first, second))
    assert here.samefile(there)
    data = here.read_bytes()
    with monkeypatch.context() as patch:
        without_links(patch)
        store.link(second, "partitions/00002.arrow", first)
    assert there.with_name("00002.arrow").read_bytes() == here.with_name("00002.arrow").read_bytes()
    assert not here.with_name("00002.arrow").samefile(there.with_name("00002.arrow"))
    with pytest.raises(FileNotFoundError):
        store.link(second, "partitions/none.arrow", first)
    assert sorted(path.name for path in there.parent.iterdir()) == ["00001.arrow", "00002.arrow"]
    store.folder.remove_folder("snapshots", first)
    assert there.read_bytes() == data


def test_what_is_just_begun_is_never_debris(store, monkeypatch):
    """Whoever clears without a lease, at whatever step of its beginning: the mark stands before the name does."""
    commit(store, 1)
    other, kind, cleared, busy = Store(store.path), type(store.folder), [], []

    def then_cleared(real):
        def call(self, *parts):
            found = real(self, *parts)
            if not busy:
                busy.append(True)
                cleared.append(other.clear(None, lease=False, warn=silent))
                busy.clear()
            return found

        return call

    for name in ("make", "create", "replace", "move"):
        monkeypatch.setattr(kind, name, then_cleared(getattr(kind, name)))
    mine = store.begin()
    monkeypatch.undo()
    # what is judged to be debris may be gone a moment later, with all that was written meanwhile
    assert cleared == [[]] * (3 if store.folder.renames else 2)
    assert store.folder.is_file("snapshots", mine, "WRITING")
    assert mine in store.folder.folders("snapshots")


def test_two_snapshots_begun_at_one_moment_have_two_names(tmp_path, monkeypatch):
    """Where the clock stands still, or is behind: whoever is slower takes the next name."""
    stores = [Store(str(tmp_path / "store")) for _ in range(2)]
    commit(stores[0], 1)
    names, real = [], LocalFolder.move

    def slow(self, source, target):
        if not names:
            names.append("")
            following = iter([target[1], "z"])
            monkeypatch.setattr("dtoss.snapshots.store.later_than", lambda there: next(following))
            names[0] = stores[1].begin()
        real(self, source, target)

    monkeypatch.setattr(LocalFolder, "move", slow)
    mine = stores[0].begin()
    assert (mine, len(names)) == ("z", 1)
    assert sorted([mine, *names, stores[0].current()]) == stores[0].folder.folders("snapshots")


def test_a_store_is_not_committed_twice_from_one_parent(tmp_path):
    """The second one is a conflict, its folder goes, and the first one stays current."""
    store = Store(str(tmp_path / "store"))
    commit(store, 1)
    after = store.head()
    commit(store, 2)
    from tests.dtoss.snapshots.small_stores import manifest_of

    def late(parent):
        with store.fresh() as name:
            files = {"partitions/0.arrow": b"p", "borders.arrow": b"b"}
            for file, data in files.items():
                store.write(name, file, data)
            store.finish(name, manifest_of(name, files), None, parent)

    for parent in (after, None):
        with pytest.raises(StoreError, match=r"version [12] was committed by \S+ meanwhile"):
            late(parent)
    assert read(store) == 2
    store.clear(None, warn=silent)
    assert_clean(store)
