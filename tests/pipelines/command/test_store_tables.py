"""One verify, one gc and one log of all that a store holds; and what is promised of each table, of all of them."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import numpy as np
import pytest

from dtoss.commits.table import orphans_of, remove_orphans, verify
from dtoss.erasure.forgotten import forget_ids
from dtoss.errors import StoreError
from dtoss.history.maintenance.history_table import clear, verify_history
from dtoss.history.maintenance.history_table import table_of as history_table
from dtoss.history.versions import Home as PastHome
from dtoss.snapshots.store import Store
from pipelines.command.maintenance import parts_of
from tests.erasure_worlds import make
from tests.pipelines.load_patterns.logs import flushes, patterns_bytes, world_in, write
from tests.refusals import NO_MORE, REFUSAL, descriptors, unopenable

NAMES = ["watch default", "windows w", "live patterns live", "forgotten"]
"""What the store has beside its snapshots."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A store with a table of each kind, and a history beside it."""
    folder = tmp_path_factory.mktemp("all")
    make(folder, "int64")
    world = world_in(folder / "of patterns", count=60)
    write(world.log, flushes(world.rows, np.random.default_rng(1)))
    patterns_bytes(world, folder / "live.parquet")
    shutil.copytree(Path(world.store) / "patterns", folder / "store" / "patterns")
    forget_ids(str(folder / "store"), ["7", "8"])
    clear(PastHome(str(folder / "history")), now=True)  # older versions are looked at by their numbers
    return folder


@pytest.fixture
def folder(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "copy")
    return tmp_path / "copy"


def tables_in(folder):
    """All tables, by name."""
    found = [table for one in parts_of(str(folder / "store")) for table in one.tables()]
    return {table.name: table for table in [*found, history_table(PastHome(str(folder / "history")))]}


def named_files(table):
    """The paths of the files that have to be there."""
    folder, head = table.chain.folder, table.chain.head()
    return {
        Path(folder.path(*one.room.split("/"), one.file.name))
        for one in table.named(None, range(1, head.number + 1))
        if one.needed
    }


def test_one_verify_one_gc_and_one_log_of_all_that_a_store_holds(command, folder):
    """Each with the same form for all, in words and in JSON; what is damaged in any of them ends with exit code 2."""
    store = str(folder / "store")
    report = command.works("verify", "--store", store, "--json").json
    assert list(report["tables"]) == ["snapshots", *NAMES]
    for name in ("commits", "files", "bytes"):
        assert report[name] == sum(one[name] for one in report["tables"].values()) > 0
    assert report["damaged"] == report["unread"] == []
    for option, name in (("--watch", "default"), ("--windows", "w"), ("--patterns", "live")):
        alone = command.works("verify", "--store", store, option, name, "--json").json
        assert alone in report["tables"].values()
    said = command.works("verify", "--store", store).out.splitlines()
    assert [any(line.startswith(name) for line in said) for name in ["snapshots", *NAMES, "damaged"]] == [True] * 6

    log = command.works("log", "--store", store, "-n", 100, "--json").json
    assert {one["table"] for one in log} == {"snapshots", *tables_in(folder)} - {f"history {folder}/history"}
    assert [one["time"] for one in log] == sorted((one["time"] for one in log), reverse=True)
    assert all(one["what"] and one["number"] and one["writer"] for one in log)
    assert command.works("log", "--store", store, "-n", 3, "--json").json == log[:3]
    lines = command.works("log", "--store", store, "-n", 100).out.splitlines()
    assert (lines[0].split(), len(lines)) == (["table", "number", "time", "what", "writer"], len(log) + 1)

    strays = {}
    for name, table in tables_in(folder).items():
        if table.rooms and "history" not in name:
            stray = Path(table.chain.folder.path(table.rooms[0], "0123456789abcdef.parquet"))
            stray.write_bytes(b"left")
            os.utime(stray, (time.time() - 7200,) * 2)
            strays[name] = stray
    gone = command.works("gc", "--store", store, "--json").json["tables"]
    assert list(gone) == NAMES
    assert all(gone[name]["files"] >= 1 and gone[name]["bytes"] >= 4 for name in NAMES)
    assert not any(stray.exists() for stray in strays.values())
    assert command.works("verify", "--store", store, "--json").json["damaged"] == []
    assert {file["files"] for file in command.works("gc", "--store", store, "--json").json["tables"].values()} == {0}

    for name, table in tables_in(folder).items():
        if named_files(table) and "history" not in name:
            path = sorted(named_files(table))[0]
            data = path.read_bytes()
            path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
            ran = command("verify", "--store", store)
            assert (ran.code, path.name in ran.err) == (2, True)
            path.write_bytes(data)


def test_a_store_with_a_watch_alone_is_looked_at(command, folder):
    """It has no snapshot, and that is no damage."""
    store = folder / "store"
    for name in ("snapshots", "commits", "windows", "patterns", "forgotten"):
        shutil.rmtree(store / name)
    (store / "CURRENT").unlink()
    report = command.works("verify", "--store", store, "--json").json
    assert (report["damaged"], report["events"] > 0, "tables" in report) == ([], True, False)
    assert {one["table"] for one in command.works("log", "--store", store, "--json").json} == {
        "watch default", "subscriptions of watch default"
    }  # fmt: skip


def looks(folder):
    """What is looked at, by the path of its folder: what looks, and its tables."""
    store, past = folder / "store", PastHome(str(folder / "history"))
    paths = [store / "watch/default", store / "windows/w", store / "patterns/live", store / "forgotten"]
    found = dict(zip(paths, parts_of(str(store))[1:], strict=True))
    made = {path: (one.verify, one.tables()) for path, one in found.items()}
    return made | {folder / "history": (lambda: verify_history(past), [history_table(past)])}


def looked_at(path, tables):
    """The files below a folder of which every byte counts: those that are needed, and all that no table clears."""
    rooms = {Path(table.chain.folder.path(*room.split("/"))) for table in tables for room in table.rooms}
    needed = set().union(*map(named_files, tables))
    others = [file for file in path.rglob("*") if file.is_file() and file.parent not in rooms]
    # a key is the same in capitals
    return sorted(needed | {file for file in others if file.parent.name != "quarantine" and file.name != "KEY"})


def test_every_byte_of_every_table_is_looked_at(folder):
    """What is flipped, cut or missing is damaged, and what the system refuses is not; each is told with its file.

    All of it of one file of each kind, a bit of each other one.
    """
    rng, kinds = np.random.default_rng(0), set()
    for root, (look, tables) in looks(folder).items():
        assert (look().damaged, look().unread) == ([], []), root
        for path in looked_at(root, tables):
            data = path.read_bytes()
            at = rng.integers(len(data))
            kind = root, path.parent.name, path.suffix
            others = [data[:at] + bytes([data[at] ^ 1 << int(rng.integers(8))]) + data[at + 1 :], data + b"\n"]
            for other in others[: 1 if kind in kinds else 2]:
                path.write_bytes(other)
                assert any(path.name in line for line in look().damaged), (path, at)
            if kind in kinds:
                path.write_bytes(data)
                continue
            kinds.add(kind)
            path.unlink()
            # a reader without a cursor begins anew; of commits and a spec the line names what wants them
            damaged, room = look().damaged, path.parent.name
            assert any(path.name in line or room in ("commits", "w") for line in damaged) or room == "readers", path
            path.write_bytes(data)
            with unopenable(path):
                found = look()
            assert (found.damaged, f"{path} could not be read: {REFUSAL}" in found.unread) == ([], True), path
        assert look().damaged == []
        with descriptors(0):
            found = look()
        assert (found.damaged, [NO_MORE in line for line in found.unread]) == ([], [True]), root


def test_strays_go_once_they_are_old_and_nothing_else(folder):
    for name, table in tables_in(folder).items():
        needed = named_files(table)
        strays = [Path(table.chain.folder.path(*room.split("/"), "00.arrow")) for room in table.rooms]
        for path in strays:
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(b"a batch that is under way")
        remove_orphans(table)
        assert all(path.exists() for path in strays)
        assert all("00.arrow" in files for files in orphans_of(table).values())
        remove_orphans(table, 0.0)
        assert not any(path.exists() for path in strays)
        assert all(path.exists() for path in needed)
        found = verify([table])
        assert (found.damaged, found.broken) == ([], set()), name


def test_nothing_goes_where_the_newest_commit_cannot_be_read(folder):
    for name, table in tables_in(folder).items():
        head = Path(table.chain.path(table.chain.head().number))
        head.write_bytes(head.read_bytes()[:-2])
        before = {room: table.chain.folder.files(*room.split("/")) for room in table.rooms}
        with pytest.raises(StoreError):
            remove_orphans(table, 0.0)
        assert {room: table.chain.folder.files(*room.split("/")) for room in table.rooms} == before, name
        assert any(head.name in line for line in verify([table]).damaged)


def test_erasing_leaves_nothing_that_is_spared(folder):
    """Files that stay for whoever has just listed them go, too."""
    (watch,) = [one for one in parts_of(str(folder / "store")) if one.name == "watch default"]
    batches, _ = watch.tables()
    remove_orphans(batches, 0.0)
    left = orphans_of(batches, erase=True)
    assert sum(map(len, left.values())) > 0 == sum(map(len, orphans_of(batches).values()))
    remove_orphans(batches, 0.0, erase=True)
    assert sum(map(len, orphans_of(batches, erase=True).values())) == 0
    assert verify([batches]).damaged == []
    assert Store(str(folder / "store")).snapshots()
