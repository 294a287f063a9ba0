"""A log that is written, sealed, and found again, whatever it was cut off in."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dtoss.commits.offsets import Ledger
from dtoss.errors import InputError, StoreError
from dtoss.log.log_reader import LogReader, roles_of
from dtoss.log.log_writer import LogWriter
from dtoss.log.segment_names import ask_to_seal, is_asked
from dtoss.snapshots.xxh64 import xxh64
from tests.dtoss.log.logs import (
    BROKEN,
    COLUMNS,
    FULL,
    LITTLE,
    FaultyDisk,
    Stopped,
    Unsynced,
    ids_in,
    opened,
    refuse,
    rows_of,
    sealed,
    writer_of,
)

MANY = 100
"""More steps than what is tried here takes."""


def test_rows_have_the_numbers_in_which_they_were_appended(tmp_path):
    writer = writer_of(tmp_path)
    assert (writer.next, writer.durable, writer.sync()) == (1, 0, 0)
    assert [writer.append(rows_of(ids)) for ids in ([1, 2], [], [3], [4, 5, 6])] == [1, 3, 3, 4]
    assert (writer.next, writer.durable) == (7, 0)
    assert ids_in(tmp_path) == []  # of what is not synced nobody knows
    assert writer.sync() == 6
    assert ids_in(tmp_path) == [1, 2, 3, 4, 5, 6]
    assert ids_in(tmp_path, upto=4) == [1, 2, 3, 4]
    writer.close()


def test_a_sealed_segment_is_a_file_of_updates(tmp_path):
    writer = writer_of(tmp_path)
    assert writer.seal() is None
    writer.append(rows_of(range(1, 6)))
    name = writer.seal()
    assert name == f"positions-{writer.log}-{1:020}-{5:020}.parquet"
    assert sealed(tmp_path) == [name]
    table = pq.read_table(tmp_path / name)
    assert table.equals(rows_of(range(1, 6)))
    assert roles_of(table.schema)["deleted"] == "deleted"
    assert writer.append(rows_of([6])) == 6
    assert writer.sync() == 6
    assert ids_in(tmp_path) == [1, 2, 3, 4, 5, 6]
    assert ids_in(tmp_path, Ledger({f"elsewhere/{name}": 1})) == [6]
    assert ids_in(tmp_path, Ledger({name: 1}), upto=4) == []
    assert ids_in(tmp_path, Ledger({name: 1}, refused={name: "its rows count nowhere"})) == [1, 2, 3, 4, 5, 6]
    writer.close()


def test_a_log_goes_on_where_it_ended(tmp_path):
    writer = writer_of(tmp_path)
    writer.append(rows_of([1, 2]))
    writer.seal()
    writer.append(rows_of([3]))
    writer.close()
    again = writer_of(tmp_path)
    assert (again.log, again.next, again.durable) == (writer.log, 4, 3)
    again.append(rows_of([4]))
    again.close()
    assert ids_in(tmp_path) == [1, 2, 3, 4]
    assert len(sealed(tmp_path)) == 1


def test_one_process_writes_at_a_time(tmp_path):
    writer = LogWriter.open(tmp_path, COLUMNS, warn=refuse)
    with pytest.raises(StoreError, match=r"^the log of \S+ is being written by process \d+ on .*: one writer at a"):
        LogWriter.open(tmp_path, COLUMNS)
    writer.append(rows_of([1]))
    (tmp_path / ".log" / "LEASE").write_text("{}")
    with pytest.raises(StoreError, match="LEASE of the log of"):
        writer.sync()  # nobody who has lost the right says that a row is in
    (tmp_path / ".log" / "LEASE").unlink()
    writer.close()
    LogWriter.open(tmp_path, COLUMNS, warn=refuse).close()


def test_a_late_writer_reaches_nothing_of_the_next_one(tmp_path):
    late = writer_of(tmp_path)
    late.append(rows_of([1]))
    late.sync()
    writer = writer_of(tmp_path)
    writer.append(rows_of([2]))
    writer.sync()
    late.append(rows_of([7, 8, 9]))
    late.sync()
    assert ids_in(tmp_path) == [1, 2]
    writer.close()
    assert ids_in(tmp_path) == [1, 2]


def test_other_columns_begin_a_segment(tmp_path):
    """A store whose columns changed; readers want those that it has now."""
    writer = writer_of(tmp_path)
    writer.append(rows_of([1, 2]))
    writer.close()
    at = COLUMNS.get_field_index("word")
    wider = COLUMNS.set(at, pa.field("word", pa.large_string())).append(pa.field("speed", pa.float64()))
    writer = writer_of(tmp_path, wider)
    assert len(sealed(tmp_path)) == 1
    writer.append(rows_of([3], wider))
    writer.close()
    assert ids_in(tmp_path, schema=wider) == [1, 2, 3]
    assert ids_in(tmp_path) == [1, 2, 3]
    # of none that has rows there is nothing to seal
    writer_of(tmp_path, wider).seal()
    writer_of(tmp_path).close()
    assert len(sealed(tmp_path)) == 2
    other = COLUMNS.set(at, pa.field("word", pa.int64()))
    with pytest.raises(StoreError, match=r"column 'word' is string in .*parquet and int64 in the store"):
        ids_in(tmp_path, schema=other)
    with pytest.raises(StoreError, match="has no column 'kind'"):
        ids_in(tmp_path, schema=COLUMNS.append(pa.field("kind", pa.int8(), nullable=False)))


def test_rows_that_do_not_fit_are_refused(tmp_path):
    writer = writer_of(tmp_path)
    with pytest.raises(ValueError, match=r"rows have the columns id \(int64 not null\), and the log id"):
        writer.append(rows_of([1]).select(["id"]))
    nulls = pa.table({name: pa.nulls(1, COLUMNS.field(name).type) for name in COLUMNS.names}, schema=COLUMNS)
    with pytest.raises(ValueError, match="column 'id' holds no value in 1 of 1 rows"):
        writer.append(nulls)
    assert writer.next == 1
    writer.close()


def test_a_folder_that_cannot_have_a_log(tmp_path):
    with pytest.raises(InputError, match=r"nothing is at .*: make the folder in which updates arrive"):
        writer_of(tmp_path / "none")
    with pytest.raises(InputError, match="is not on a disk"):
        writer_of("s3://bucket/updates")
    assert LogReader(tmp_path / "none", COLUMNS).last() == 0
    for number in (1, 2):
        (tmp_path / str(number)).mkdir()
        writer_of(tmp_path / str(number)).close()
    path = opened(tmp_path / "1")
    path.rename(tmp_path / "2" / ".log" / path.name)
    with pytest.raises(StoreError, match="has segments of two logs"):
        writer_of(tmp_path / "2")


def test_when_a_segment_is_sealed(tmp_path):
    now = [100.0]
    writer = writer_of(tmp_path, seal_bytes=5_000, seal_seconds=5.0, clock=lambda: now[0])
    assert not ask_to_seal(tmp_path / "none")
    assert not writer.due(1000.0)  # of nothing there is no age
    writer.append(rows_of([1]))
    assert [writer.due(at) for at in (104.9, 105.0)] == [False, True]
    writer.seal()
    assert not writer.due(200.0)
    writer.append(rows_of(range(2, 200)))
    assert writer.due()
    writer.seal()
    assert not writer.due()
    # who asks while nothing is open is answered, too
    for _ in range(2):
        assert ask_to_seal(tmp_path)
        assert writer.due()
        writer.seal()
        assert not writer.due()
        assert not is_asked(tmp_path)
        writer.append(rows_of([200]))
    assert len(sealed(tmp_path)) == 3
    writer.close()
    # age counts from when the writer begins
    assert writer_of(tmp_path, seal_seconds=5.0, clock=lambda: now[0]).due(106.0)


def test_an_open_segment_is_as_the_document_says(tmp_path):
    """`docs/format.md`: read by its tables alone."""
    text = (Path(__file__).parents[3] / "docs" / "format.md").read_text(encoding="utf-8")
    begins = []
    for heading in ("The slot of an open segment", "A record of an open segment"):
        lines = text.split(f"### {heading}\n", 1)[1].split("\n#", 1)[0].splitlines()
        cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
        begins.append([int(one[0]) for one in cells if one[0].isdigit()])
    (_, of_sum, of_end, of_last, zeros), (_, record_sum, of_first, of_rows, of_size, of_bytes) = begins
    writer = writer_of(tmp_path)
    for ids in ([1, 2, 3], [4]):
        writer.append(rows_of(ids))
    writer.close()
    data, seed = opened(tmp_path).read_bytes(), int(writer.log, 16)

    def number(at):
        return int.from_bytes(data[at : at + 8], "little")

    assert data[:of_sum] == b"dtosslg1"
    assert (number(of_end), number(of_last), data[zeros:64]) == (len(data), 4, bytes(32))
    assert data[of_sum:of_end].hex() == xxh64(data[of_end:64], seed)
    at, found = 64, []
    while at < len(data):
        end = at + of_bytes + number(at + of_size)
        assert data[at : at + record_sum] == b"dtossrow"
        assert data[at + record_sum : at + of_first].hex() == xxh64(data[at + of_first : end], seed)
        found.append((number(at + of_first), number(at + of_rows), data[at + of_bytes : end]))
        at = end
    assert [one[:2] for one in found] == [(1, 0), (1, 3), (4, 1)]
    schema = pa.ipc.read_schema(pa.py_buffer(found[0][2]))
    batches = [pa.ipc.read_record_batch(pa.py_buffer(one[2]), schema) for one in found[1:]]
    assert pa.Table.from_batches(batches).equals(rows_of([1, 2, 3, 4]))


def three_records(folder):
    """Make a log of a record that was synced, and two that were not; return its file, and where records end."""
    writer = writer_of(folder, LITTLE)
    ends = [opened(folder).stat().st_size]
    for ids in ([1, 2, 3], [4, 5], [6]):
        writer.append(rows_of(ids, LITTLE))
        if ids[0] == 1:
            writer.sync()
        ends.append(opened(folder).stat().st_size)
    return opened(folder), ends


def test_a_file_that_is_cut_anywhere_behind_what_was_synced(tmp_path):
    path, ends = three_records(tmp_path)
    data, counts = path.read_bytes(), [3, 5, 6]
    for size in range(ends[1], ends[3] + 1):
        path.write_bytes(data[:size])
        told = []
        writer = writer_of(tmp_path, LITTLE, warn=told.append)
        whole = max(end for end in ends if end <= size)
        rows = counts[ends.index(whole) - 1]
        assert writer.next == rows + 1
        cut = f"{path}: {size - whole:,} bytes at its end were cut off, which were never acknowledged"
        assert told == [cut] * (size > whole)
        assert ids_in(tmp_path, schema=LITTLE) == list(range(1, rows + 1))
        writer.close()


def test_a_file_that_is_cut_before_that_is_an_error(tmp_path):
    path, ends = three_records(tmp_path)
    data = path.read_bytes()
    for size in range(ends[1]):
        path.write_bytes(data[:size])
        with pytest.raises(StoreError, match=rf"^{path} is damaged at byte [0-9,]+, and rows behind it were acknowl"):
            writer_of(tmp_path, LITTLE)
        assert path.stat().st_size == size


@pytest.mark.parametrize("tail", [b"\0" * 4096, b"\0", b"dtossrow", b"dtossrow" + b"\xff" * 100], ids=len)
def test_what_was_never_a_record_is_cut_off(tmp_path, tail):
    """A disk may give room beforehand, full of zeros."""
    path, _ = three_records(tmp_path)
    with path.open("ab") as stream:
        stream.write(tail)
    told = []
    writer_of(tmp_path, LITTLE, warn=told.append).close()
    assert len(told) == 1
    assert ids_in(tmp_path, schema=LITTLE) == [1, 2, 3, 4, 5, 6]


def test_no_byte_that_changes_loses_an_acknowledged_row(tmp_path):
    path, ends = three_records(tmp_path)
    data = path.read_bytes()
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])
        told = []
        if 64 <= at < ends[1]:
            with pytest.raises(StoreError, match=f"{path} is damaged at byte {64 if at < ends[0] else ends[0]:,}"):
                writer_of(tmp_path, LITTLE)
            continue
        # what the slot says may go as long as all records are whole
        writer_of(tmp_path, LITTLE, warn=told.append).close()
        assert len(told) == (at >= ends[1])
        assert ids_in(tmp_path, schema=LITTLE) == list(range(1, 7 if at < 64 else 4 if at < ends[2] else 6))


def test_without_a_slot_a_record_behind_says_that_the_one_before_was_acknowledged(tmp_path):
    path, ends = three_records(tmp_path)
    data = bytearray(path.read_bytes())
    data[8] ^= 1
    data[ends[0] + 50] ^= 1
    path.write_bytes(data)
    with pytest.raises(StoreError, match=f"is damaged at byte {ends[0]:,}"):
        writer_of(tmp_path, LITTLE)
    path.write_bytes(data[: ends[1]])
    writer_of(tmp_path, LITTLE, warn=lambda _: None).close()
    assert ids_in(tmp_path, schema=LITTLE) == []


def worked(writer):
    """Let a writer do all that it can; return the ids that it said are in."""
    known, next_id = [], writer.durable + 1
    for count, seals in ((3, False), (2, True), (1, False), (4, True), (2, False)):
        ids = list(range(next_id, next_id + count))
        writer.append(rows_of(ids))
        writer.sync()
        yield ids
        next_id += count
        known += ids
        if seals:
            writer.seal()
            yield []


def test_whatever_step_is_the_last_one(tmp_path):
    """All that was acknowledged is there once, before the next writer and after it, which goes on with it."""
    for at in range(1, MANY):
        folder = tmp_path / str(at)
        folder.mkdir()
        disk, known = FaultyDisk(at), []
        try:
            for ids in worked(writer_of(folder, disk=disk)):
                known += ids
            ended = False
        except Stopped:
            ended = True
        disk.let_go()
        before = ids_in(folder)
        assert before[: len(known)] == known
        writer = writer_of(folder, warn=lambda _: None)
        again = ids_in(folder)
        assert again[: len(before)] == before
        assert len(again) == writer.next - 1 == writer.durable
        writer.append(rows_of([len(again) + 1]))
        writer.seal()
        writer.close()
        assert ids_in(folder) == list(range(1, len(again) + 2))
        assert {path.name for path in (folder / ".log").iterdir()} == {opened(folder).name}
        firsts = [name.split("-")[2] for name in sealed(folder)]
        assert len(set(firsts)) == len(firsts)
        if not ended:
            break
    assert 30 < at < MANY - 1


def test_whatever_step_fails(tmp_path):
    """The writer says so, what was acknowledged stays, what was not is gone, and it goes on once the disk does."""
    refused = 0
    for at in range(1, MANY):
        folder = tmp_path / str(at)
        folder.mkdir()
        disk = FaultyDisk(at, (FULL, BROKEN)[at % 2])
        try:
            writer = writer_of(folder, disk=disk)
        except StoreError:
            writer = writer_of(folder, disk=disk)
        known, failed = [], 0
        for ids in ([1, 2, 3], [4, 5], [6], [7, 8, 9, 10]):
            try:
                first = writer.append(rows_of(ids))
                assert (first, writer.sync()) == (len(known) + 1, len(known) + len(ids))
                known += ids
            except StoreError:
                failed += 1
            assert ids_in(folder) == known
            assert (writer.durable, writer.next) == (len(known), len(known) + 1)
            try:
                writer.seal()
            except StoreError:
                failed += 1
            assert ids_in(folder) == known
        while disk.numbers and writer.due(float("inf")):
            writer.seal()
        writer.close()
        assert disk.numbers == set()
        assert failed <= 1
        refused += failed
        assert ids_in(folder) == known
        again = writer_of(folder)
        assert again.next == len(known) + 1
        again.close()
        assert ids_in(folder) == known
        if disk.steps < at:
            break
    assert refused > 20
    assert at < MANY - 1


def test_what_fails_again_and_again(tmp_path):
    """Nothing is sealed in vain in a hurry, and nothing that was refused is in the log."""
    now = [0.0]
    disk = FaultyDisk()
    writer = writer_of(tmp_path, disk=disk, clock=lambda: now[0], seal_seconds=5.0)
    writer.append(rows_of([1]))
    writer.sync()
    disk.fault, disk.always = FULL, True
    for ids in ([2], [3, 4]):
        with pytest.raises(StoreError, match=f"^the log of {tmp_path} cannot be written: No space left on device$"):
            writer.append(rows_of(ids))
    now[0] = 6.0
    assert writer.due()
    with pytest.raises(StoreError):
        writer.seal()
    assert not writer.due()
    now[0] = 7.0
    assert writer.due()
    disk.always = False
    writer.append(rows_of([2]))
    writer.seal()
    writer.close()
    assert ids_in(tmp_path) == [1, 2]


def test_rows_that_were_taken_back_are_not_said_to_be_in(tmp_path):
    """What one append loses of others, because not even its half can be cut off, those hear who wait for a sync."""
    disk = FaultyDisk()
    writer = writer_of(tmp_path, disk=disk)
    disk.fault = BROKEN
    for lost, steps in ((lambda: writer.append(rows_of([3])), (1, 2)), (writer.seal, (2,))):
        first = writer.append(rows_of([1, 2]))
        disk.at = {disk.steps + step for step in steps}
        with pytest.raises(StoreError, match="cannot be written: Input/output error"):
            lost()
        assert writer.append(rows_of([4])) == first
        with pytest.raises(StoreError, match="could not be written: rows were taken back"):
            writer.sync()
        assert (writer.sync(), writer.next) == (first - 1, first)
        assert writer.append(rows_of([5])) == first
        assert writer.sync() == first
    writer.close()
    assert ids_in(tmp_path) == [5, 5]


def test_what_is_synced_before_an_open_segment_goes(tmp_path):
    """The file of updates, then its name: no power that fails between them takes rows along."""
    seen = []

    class Watched(Unsynced):
        def sync(self, number):
            seen.append(("sync", ""))

        def rename(self, path, name):
            seen.append(("rename", Path(name).suffix))
            super().rename(path, name)

        def sync_folder(self, path):
            seen.append(("sync_folder", Path(path).name))

        def remove(self, path):
            seen.append(("remove", Path(path).suffix))
            super().remove(path)

    writer = writer_of(tmp_path, disk=Watched())
    writer.append(rows_of([1]))
    del seen[:]
    writer.seal()
    writer.close()
    steps = [step for step, _ in seen]
    assert steps == [
        "rename", "sync", "sync", "rename", "sync_folder", "sync", "rename", "sync_folder", "remove", "sync_folder",
        "remove",
    ]  # fmt: skip
    assert [what for step, what in seen if step != "sync"] == [
        "", ".open", ".log", ".parquet", tmp_path.name, ".open", ".log", "",
    ]  # fmt: skip


def test_a_folder_that_takes_no_files(tmp_path):
    """Rows go on in the open segment, of which there are two at the most, and are sealed once it does."""

    class Refusing(Unsynced):
        refuses = True

        def rename(self, path, name):
            if self.refuses and name.endswith(".parquet"):
                raise PermissionError(13, "Permission denied")
            super().rename(path, name)

    disk = Refusing()
    writer = writer_of(tmp_path, disk=disk)
    for number in (1, 2, 3, 4):
        writer.append(rows_of([number]))
        writer.sync()
        with pytest.raises(StoreError, match="cannot be written: Permission denied"):
            writer.seal()
        assert len(list((tmp_path / ".log").glob("*.open"))) == 2
        assert ids_in(tmp_path) == list(range(1, number + 1))
    disk.refuses = False
    assert writer.seal() == f"positions-{writer.log}-{2:020}-{4:020}.parquet"
    assert len(sealed(tmp_path)) == 2
    assert {path.name for path in (tmp_path / ".log").iterdir()} == {opened(tmp_path).name}
    writer.close()
