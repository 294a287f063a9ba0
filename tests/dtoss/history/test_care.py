"""Care: damage is found, named and restored where another order has the rows; what has to go goes, all else stays."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dtoss
from dtoss.commits.table import log_of
from dtoss.errors import StoreError, Unreadable
from dtoss.history.layouts.compaction import make_order, settle
from dtoss.history.maintenance.erase_rows import forget, retain
from dtoss.history.maintenance.history_facts_of import counting_files, facts_of
from dtoss.history.maintenance.history_table import clear, restore, verify_history
from dtoss.history.maintenance.history_table import table_of as history_table
from dtoss.history.sums import sum_of
from dtoss.history.versions import files_of
from tests.dtoss.history.worlds import new_home, put_batch, schema_of, table_of
from tests.refusals import NO_MORE, REFUSAL, descriptors, files_in, unopenable

SCHEMA = schema_of(kind=pa.large_string())
ROOMS = ("time", "place", "object", "segments")


def made_rows(n, seed=0):
    random_ = np.random.default_rng(seed)
    positions = random_.uniform(-90, 90, (n, 2)).round(3)
    return table_of(
        SCHEMA, random_.integers(0, 9, n), random_.integers(0, 5 * n, n), positions, kind=["a", None] * (n // 2)
    )


def full_history(folder, batches=3, n=400):
    """A history with all orders of all periods, and its rows."""
    home, parts = new_home(folder), [made_rows(n, seed) for seed in range(batches)]
    for i, rows in enumerate(parts):
        put_batch(home, rows, SCHEMA, str(i))
    for number in range(batches):
        for order in ("place", "object"):
            make_order(home, number, order, leaf_bytes=1500.0)
    return home, pa.concat_tables(parts)


def flipped(path, rng):
    """Flip a bit of a byte of a file."""
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(bytes(data))


def test_what_could_not_be_read_is_not_damaged(tmp_path):
    """Whichever file it is, and all of them where there are no descriptors left; nothing is made again of a guess."""
    home, _ = full_history(tmp_path / "h", batches=2, n=100)
    assert verify_history(home).damaged == []
    needed = {str(Path(home.folder.path(name))) for name in files_of(home.version())}
    for path in files_in(tmp_path / "h"):
        with unopenable(path):
            found = verify_history(home)
            if str(path) in needed:
                with pytest.raises(Unreadable, match=f"{path.name} could not be read: {REFUSAL}; nothing is made"):
                    restore(home)
            if path.parent.name == "time":
                with pytest.raises(OSError, match=REFUSAL):
                    dtoss.history.open(str(tmp_path / "h")).box([-180, -90, 180, 90])
        assert found.damaged == [], path
        assert found.unread[:1] == [f"{path} could not be read: {REFUSAL}"] or str(path) not in needed
    with descriptors(0):
        found = verify_history(home)
    assert (found.damaged, [NO_MORE in line for line in found.unread]) == ([], [True])
    assert verify_history(home).damaged == []


def test_the_files_that_count_have_each_row_once(tmp_path):
    """DuckDB counts with them what the history does, and more with all that lie there, until gc."""
    duckdb = pytest.importorskip("duckdb")
    home, rows = full_history(tmp_path / "h")
    for number in range(10):
        put_batch(home, made_rows(40, 50 + number), SCHEMA, f"small{number}")
    settle(home)
    forget(home, [3])

    def counted(files):
        return duckdb.sql(f"SELECT count(*) FROM read_parquet({files!r})").fetchall()[0][0]

    every = [str(path) for path in (tmp_path / "h" / "time").glob("*.parquet")]
    found = counting_files(home.version())
    assert counted([home.folder.path(*one.name.split("/")) for one in found]) == home.version().rows
    assert sum(one.rows for one in found) == home.version().rows
    assert counted(every) > home.version().rows
    older = counting_files(home.version(3))
    assert counted([home.folder.path(*one.name.split("/")) for one in older]) == len(rows)
    clear(home, now=True, grace=0.0)
    every = [str(path) for path in (tmp_path / "h" / "time").glob("*.parquet")]
    assert counted(every) == home.version().rows


def test_every_flipped_byte_is_found_and_its_file_named(tmp_path):
    """Of rows in each order, tables and commits; files and numbers are drawn."""
    home, _ = full_history(tmp_path / "h")
    assert verify_history(home).damaged == []
    version, rng = home.version(), random.Random(4)
    rooms = {room: sorted(name for name in files_of(version) if name.startswith(room)) for room in
             ("time", "place", "object", "segments")}  # fmt: skip
    rooms["commits"] = [f"commits/{number:020}.json" for number in range(1, version.number)]
    for room, names in rooms.items():
        for name in rng.sample(names, min(len(names), 6)):
            path = tmp_path / "h" / name
            whole = path.read_bytes()
            flipped(path, rng)
            found = verify_history(home, version).damaged
            assert any(Path(name).name in what for what in found), (room, name, found)
            path.write_bytes(whole)
            path.unlink()
            assert any(Path(name).name in what for what in verify_history(home, version).damaged)
            path.write_bytes(whole)
    assert verify_history(home).damaged == []


@pytest.mark.parametrize("order", ["time", "place", "object"])
def test_what_another_order_has_is_restored(tmp_path, order):
    """The rows and sums are those that were there, and answers too; without another order it is lost, and said so."""
    home, rows = full_history(tmp_path / "h")
    before = dtoss.history.open(home.path).range([0.0, 0.0], 5e6)
    rng = random.Random(1)
    for name in home.version().files.name:
        if name.startswith(order):
            flipped(tmp_path / "h" / name, rng)
    assert len(verify_history(home).damaged) == 3
    done = restore(home)
    assert [made for made, _ in done.made] == [order] * 3
    assert done.lost == ()
    assert verify_history(home).damaged == []
    assert (done.version.rows, done.version.sum) == (len(rows), sum_of(rows))
    assert dtoss.history.open(home.path).range([0.0, 0.0], 5e6) == before


def test_what_no_order_has_is_lost_and_said(tmp_path):
    """A file by time without a copy."""
    home = new_home(tmp_path / "h")
    version = put_batch(home, made_rows(40), SCHEMA, "a")
    (tmp_path / "h" / version.files.name[0]).unlink()
    assert restore(home).lost == ("the order by time of period 0: no other order of it is whole",)


def raw_ids(folder):
    """The ids in all files of rows, whichever version they are of."""
    found = set()
    for room in ("time", "place", "object"):
        for path in (Path(folder) / room).glob("*.parquet"):
            found |= set(pq.read_table(path, columns=["id"]).column("id").to_pylist())
    return found


def test_forgotten_objects_are_nowhere(tmp_path):
    """In no order and no answer at once, in no byte after gc --now; all other rows stay, and sums can be checked."""
    home, rows = full_history(tmp_path / "h")
    settle(home)
    gone = int(rows.column("id").to_numpy()[0])
    count = int((rows.column("id").to_numpy() == gone).sum())
    done = forget(home, [gone])
    assert done.rows == count > 0
    kept = rows.filter(pa.array(rows.column("id").to_numpy() != gone))
    assert (done.version.rows, done.version.sum) == (len(kept), sum_of(kept))
    history = dtoss.history.open(home.path)
    assert len(history.trajectory([gone])) == 0
    assert history.count().tolist() == [len(kept)]
    assert verify_history(home).damaged == []
    ledger = done.version.ledger().to_pylist()[-1]
    assert (ledger["kind"], ledger["rows"]) == ("forget", -count)
    assert gone in raw_ids(tmp_path / "h")
    clear(home, now=True)
    assert gone not in raw_ids(tmp_path / "h")
    assert verify_history(home).damaged == []
    assert forget(home, [gone]).rows == 0
    with pytest.raises(ValueError, match="those of this history are int64"):
        forget(home, ["a"])
    everyone = np.unique(kept.column("id").to_numpy()).tolist()
    assert forget(home, everyone).version.rows == 0
    assert verify_history(home).damaged == []
    put_batch(home, made_rows(10), SCHEMA, "again")
    assert len(dtoss.history.open(home.path)) == 10


def test_old_rows_go_and_no_others(tmp_path):
    """From every order, whole periods too."""
    home, rows = full_history(tmp_path / "h")
    t = rows.column("t").cast(pa.int64()).to_numpy()
    cut = int(np.sort(t)[len(t) // 2])
    done = retain(home, cut)
    kept = rows.filter(pa.array(t >= cut))
    assert done.rows == len(rows) - len(kept)
    assert (done.version.rows, done.version.sum) == (len(kept), sum_of(kept))
    assert verify_history(home).damaged == []
    assert retain(home, cut).rows == 0
    assert len(retain(home, int(t.max()) + 1).version.periods) == 0


def test_gc_keeps_what_versions_need_and_what_writers_make(tmp_path):
    """Versions by number and age; a file that nobody has committed yet stays for a while."""
    home, _ = full_history(tmp_path / "h")
    for i in range(8):
        put_batch(home, made_rows(4, 50 + i), SCHEMA, f"more {i}")
    settle(home)
    stray = tmp_path / "h" / "time" / "0123456789abcdef.parquet"
    stray.write_bytes(b"being written")
    head = home.version().number
    old = home.version(2)
    before = {room: home.folder.sizes(room) for room in ROOMS}
    done = clear(home, keep=4, keep_for=0.0)
    went = [size for room in ROOMS for name, size in before[room].items() if name not in home.folder.sizes(room)]
    assert (done.removed.files, done.removed.bytes) == (len(went), sum(went)) > (0, 0)
    assert home.version(head - 3).number == head - 3
    with pytest.raises(
        StoreError, match=f"version {head - 4} of .* is not there: versions {head - 3} to {head + 1} are"
    ):
        home.version(head - 4)
    assert stray.exists()
    assert done.ended == head - 4
    assert verify_history(home).damaged == []
    clear(home, keep=1, keep_for=0.0, grace=0.0)
    assert not stray.exists()
    found = {f"{room}/{path.name}" for room in ROOMS for path in (tmp_path / "h" / room).iterdir()}
    assert found == files_of(home.version())
    with pytest.raises(StoreError, match=r"is gone: .* open the history again"):
        dtoss.history.History(home, old).range([0.0, 0.0], 1e9)
    with pytest.raises(ValueError, match="keep is 0"):
        clear(home, keep=0)


def test_readers_see_one_version_through_commits_and_clearing(tmp_path):
    """Each of many opens is whole: its rows have the sum that its version says."""
    home = new_home(tmp_path / "h")
    put_batch(home, made_rows(20), SCHEMA, "0")
    failures, opened, ended = [], [0], threading.Event()

    def read():
        while not ended.is_set():
            try:
                history = dtoss.history.open(home.path)
                found = history.at("2100-01-01")
                rows = history.count().tolist()[0]
                assert rows == history.version.rows
                assert len(found) <= 9
                opened[0] += 1
            except BaseException as error:
                failures.append(error)
                raise

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for i in range(1, 30):
            put_batch(home, made_rows(20, i), SCHEMA, str(i))
            settle(home)
            if i % 7 == 0:
                clear(home, keep=3, keep_for=600.0)
    finally:
        ended.set()
        reader.join()
    assert failures == []
    assert opened[0] > 5


def test_facts_and_log(tmp_path):
    """What info and log say."""
    home, rows = full_history(tmp_path / "h", batches=2)
    facts = facts_of(home.version())
    assert facts["rows"] == len(rows)
    assert {name: one["rows"] for name, one in facts["orders"].items()} == dict.fromkeys(
        ("time", "place", "object"), len(rows)
    )
    assert facts["batches"] == 2
    assert facts["first"] < facts["last"]
    assert [one["what"] for one in log_of(history_table(home), 3)] == ["settle"] * 3
    assert [one["number"] for one in log_of(history_table(home), 100)] == list(range(home.version().number, 0, -1))
