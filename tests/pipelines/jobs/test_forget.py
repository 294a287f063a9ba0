"""``dtoss forget``: no byte of anybody is left anywhere, others stay as they were, whatever ends it on its way."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta

import pytest
from pyarrow import fs

from dtoss.erasure.forgotten import forgotten_in
from dtoss.errors import InputError, StoreError
from dtoss.history.versions import Home as PastHome
from dtoss.snapshots.read_file import ledger_of
from dtoss.snapshots.store import Store
from dtoss.snapshots.store_location import filesystem_of
from dtoss.watch.watch_folder import Home as WatchHome
from dtoss.windows.storage.window_document import Home as WindowsHome
from pipelines.cycle import cycle
from pipelines.forget import allow_again, forget, typed_ids
from pipelines.loop.batch_report import take_lease
from tests.dtoss.erasure.decoding import found_in
from tests.dtoss.snapshots.small_stores import killed_at, silent
from tests.erasure_worlds import WHO, answers, bytes_without, damages, later, make, stored_bytes
from tests.object_store import object_store

HOLDERS = (
    "store/snapshots", "store/watch/default/events", "store/watch/default/state", "store/watch/default/quarantine",
    "store/windows/w/objects", "store/windows/w/quarantine", "history/time", "history/object", "history/place",
    "history/segments", "history/quarantine",
)  # fmt: skip


@pytest.fixture(scope="module")
def worlds(tmp_path_factory):
    """Folders with all that may hold an id, by the type of ids; they are only read."""
    made = {}
    for kind in WHO:
        made[kind] = tmp_path_factory.mktemp(kind)
        make(made[kind], kind)
    return made


def copied(worlds, kind, folder):
    return shutil.copytree(worlds[kind], folder / "copy")


def forgotten(folder, kind, **more):
    return forget(str(folder / "store"), [str(WHO[kind])], histories=[str(folder / "history")], **more)


def bytes_of(folder):
    return {str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()}


@pytest.mark.parametrize("kind", WHO)
def test_no_byte_of_anybody_is_left_and_others_stay_as_they_were(worlds, tmp_path, kind):
    folder = copied(worlds, kind, tmp_path)
    there = found_in(folder, [WHO[kind]])
    assert all(any(one.startswith(holder) for one in there) for holder in HOLDERS), "the look finds where it is"
    before = answers(folder, kind)

    report = forgotten(folder, kind)

    assert found_in(folder, [WHO[kind]]) == []
    assert damages(folder) == []
    after = answers(folder, kind)
    for name in ("objects", "past", "windows"):
        assert after[name] == before[name], name
    assert len(after["events"]) == len(before["events"])
    gone = 0
    for one, was in zip(after["events"], before["events"], strict=True):
        if was["object"] == WHO[kind]:
            gone += 1
            was |= dict.fromkeys(set(was) - {"id", "batch", "kind", "subscription", "version", "reason", "meta"})
        assert one == was
    assert stored_bytes(Store(str(folder / "store"))) == bytes_without(kind)
    went = {(one.where.split()[0], one.what): one.count for one in report.went}
    assert went["watch", "events have lost their object"] == gone > 0
    assert went["history", "rows"] == 3
    assert went["store", "objects"] == 1
    assert any("reader billing" in one.what for one in report.stays)
    assert forgotten(folder, kind).went == [], "a second time there is nothing"


def test_what_comes_later_is_told_as_if_they_had_fallen_silent(worlds, tmp_path):
    folder, other = copied(worlds, "int64", tmp_path), copied(worlds, "int64", tmp_path / "other")
    forgotten(folder, "int64")
    assert later(folder, "int64") == later(other, "int64")
    assert damages(folder) == []


def test_somebody_who_was_deleted_is_erased_from_the_tombstones(tmp_path):
    make(tmp_path, "string", deleted=True)
    assert any("tombstones" in one for one in found_in(tmp_path, [WHO["string"]]))
    forgotten(tmp_path, "string")
    assert found_in(tmp_path, [WHO["string"]]) == []
    assert damages(tmp_path) == []


def test_a_ledger_of_many_files_stays_when_somebody_is_erased(worlds, tmp_path):
    folder = copied(worlds, "string", tmp_path)
    store, many = Store(str(folder / "store")), {f"{number}": 1 for number in range(1001)}
    cycle(None, store.path, now=datetime.now(UTC), ledger=lambda before: before.reading(many))
    forgotten(folder, "string")
    assert ledger_of(store, store.manifest()).files.items() >= many.items(), "what was read stays read"
    assert found_in(folder, [WHO["string"]]) == []
    assert damages(folder) == []


def test_a_dry_run_says_the_same_and_changes_no_byte(worlds, tmp_path):
    folder = copied(worlds, "string", tmp_path)
    before = bytes_of(folder)
    said = forgotten(folder, "string", dry_run=True)
    assert bytes_of(folder) == before
    done = forgotten(folder, "string")
    assert (said.dry, done.dry) == (True, False)
    assert said.went == done.went
    assert said.stays == done.stays


def interrupted(worlds, folder, steps):
    """Kill at some changes of files; what is done again ends right. Return whether the last kill came too late."""
    for step in steps:
        place = copied(worlds, "string", folder / str(step))
        done = killed_at(step, lambda place=place: forgotten(place, "string")) == 0
        forgotten(place, "string")
        assert found_in(place, [WHO["string"]]) == [], step
        assert damages(place) == [], step
        assert answers(place, "string")["objects"] == answers(worlds["string"], "string")["objects"], step
        shutil.rmtree(place)
        if done:
            return True
    return False


def test_who_is_killed_on_the_way_does_it_again(worlds, tmp_path):
    forgotten(copied(worlds, "string", tmp_path), "string")  # nothing is compiled in a process that is killed
    assert not interrupted(worlds, tmp_path, (12, 75, 140))


@pytest.mark.deep("a kill at each change of a file, some three hundred; a few are in the test above")
@pytest.mark.parametrize("first", range(1, 9))
def test_a_kill_at_any_step_loses_nothing_and_leaves_nobody(worlds, tmp_path, first):
    forgotten(copied(worlds, "string", tmp_path), "string")
    assert interrupted(worlds, tmp_path, range(first, 2000, 8))


@pytest.mark.parametrize("who", ["store", "watch", "windows"])
def test_another_writer_is_named_before_anything_changes(worlds, tmp_path, who):
    folder = copied(worlds, "int64", tmp_path)
    store = str(folder / "store")
    lease = {
        "store": lambda: Store(store).writer(silent),
        "watch": lambda: take_lease(WatchHome(store).folder, "watch default", silent),
        "windows": lambda: take_lease(WindowsHome(store, "w").folder, "windows w", silent),
    }[who]()
    before = bytes_of(folder)
    with lease, pytest.raises(StoreError, match="is being written by process"):
        forgotten(folder, "int64")
    after = bytes_of(folder)
    assert {name: data for name, data in before.items() if "LEASE" not in name} == after


def test_ids_stay_away_until_they_are_allowed(worlds, tmp_path):
    folder = copied(worlds, "string", tmp_path)
    places = [str(folder / "store"), str(folder / "history")]
    assert forgotten(folder, "string").remembered == 1
    assert all(len(forgotten_in(place)) == 1 for place in places)
    assert allow_again(places[0], [WHO["string"]], histories=places[1:]) == 1
    assert [forgotten_in(place) for place in places] == [None, None]
    assert allow_again(places[0], [WHO["string"]], histories=places[1:]) == 0


def test_an_id_that_nothing_holds_is_remembered_all_the_same(worlds, tmp_path):
    folder = copied(worlds, "int64", tmp_path)
    before = answers(folder, "int64")
    report = forget(str(folder / "store"), ["anna"], histories=[str(folder / "history")])
    assert (report.went, report.remembered) == ([], 1)
    assert answers(folder, "int64") == before


def test_on_an_object_store_readers_have_ten_minutes_and_the_report_says_until_when(worlds, tmp_path):
    with object_store() as place:
        uris = {name: place.uri(name) for name in ("store", "history")}
        for name, uri in uris.items():
            there, path = filesystem_of(uri)
            fs.copy_files(str(worlds["string"] / name), path, destination_filesystem=there)
        report = forget(uris["store"], [WHO["string"]], histories=[uris["history"]])
        waits = [one for one in report.stays if "readers may be opening" in one.what]
        until = max(datetime.fromisoformat(one.until.partition(",")[0]) for one in waits)
        assert timedelta(minutes=9) < until - datetime.now(UTC) <= timedelta(minutes=10)
        home = Store(uris["store"])
        lately = sorted(one.what.split()[1].rstrip(",") for one in waits)
        assert home.snapshots()[-len(waits) - 1 :] == [*lately, home.current()]
        home.clear(1, keep_for=0.0)
        for name, uri in uris.items():
            there, path = filesystem_of(uri)
            fs.copy_files(path, str(tmp_path / name), source_filesystem=there)
        assert found_in(tmp_path, [WHO["string"]]) == []
        assert damages(tmp_path) == []


def test_whole_numbers_are_those_that_are_written_as_such():
    assert typed_ids(frozenset(["7", "007", "-0", "-3", str(2**63), "anna"]), "int64").to_pylist() == [-3, 7]
    assert typed_ids(frozenset(["7", "anna"]), "string").to_pylist() == ["7", "anna"]


def test_the_command_says_what_went_and_what_is_left(worlds, tmp_path, command):
    folder = copied(worlds, "string", tmp_path)
    own = tmp_path / "arriving"
    own.mkdir()
    (own / "late.csv").write_text(f"id,lon,lat\ncar-1,1,2\n{WHO['string']},1,2\n")
    (own / "others.csv").write_text("id,lon,lat\ncar-1,1,2\n")
    (tmp_path / "ids.txt").write_text(f"\n{WHO['string']}\n")
    where = ("--store", folder / "store", "--history", folder / "history", "--updates", own)
    said = command.works("forget", *where, "--ids", tmp_path / "ids.txt", "--dry-run", "--json").json
    assert said["dry"]
    assert said["ids"] == 1
    assert [one["where"] for one in said["stays"] if "yours" in one["what"]] == [str(own / "late.csv")]
    out = command.works("forget", *where, "--ids", tmp_path / "ids.txt").out
    assert out.splitlines()[0] == "1 id forgotten, 1 of them anew"
    assert "events have lost their object" in out
    assert WHO["string"] not in out
    again = command.works("forget", *where[:4], "--id", WHO["string"])
    assert again.lines[0] == ["1 id forgotten, 0 of them anew", "nothing was held of them"]
    assert command.works("forget", *where[:4], "--id", WHO["string"], "--allow-again").out == "1 ids may come again\n"


def test_wrong_arguments_change_nothing(worlds, tmp_path, command):
    folder = copied(worlds, "string", tmp_path)
    store, before = folder / "store", bytes_of(folder)
    assert "--id ID, or --ids FILE" in command.fails("forget", "--store", store)
    assert "--store S or --history H" in command.fails("forget", "--id", "7")
    assert "is not a store" in command.fails("forget", "--store", tmp_path / "none", "--id", "7")
    assert "--ids" in command.fails("forget", "--store", store, "--ids", tmp_path / "none")
    assert "is not there" in command.fails("forget", "--store", store, "--id", "7", "--updates", tmp_path / "none")
    assert "--allow-again" in command.fails("forget", "--store", store, "--id", "7", "--allow-again", "--dry-run")
    assert bytes_of(folder) == before
    assert not (tmp_path / "none").exists()
    with pytest.raises(InputError, match="an id is wanted"):
        forget(str(store), [""])
    with pytest.raises(StoreError):
        forget(None, ["7"], histories=[str(tmp_path / "none")])
    assert PastHome(str(folder / "history")).version().rows > 0
