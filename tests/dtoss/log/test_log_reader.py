"""Readers of a log see what was synced, each row once and in order, whatever file it is in."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dtoss.commits.offsets import Ledger
from dtoss.errors import StoreError
from dtoss.log.log_reader import Gone, LogReader
from dtoss.log.open_segment import durable_of
from tests.dtoss.log.logs import (
    BROKEN,
    COLUMNS,
    LITTLE,
    FaultyDisk,
    Stopped,
    ids_in,
    opened,
    rows_of,
    sealed,
    writer_of,
)
from tests.examples import examples


def followed(reader, after):
    """Return the last number and the ids behind one."""
    last, rows = reader.follow(after)
    assert rows.schema.equals(reader.schema)
    return last, rows.column("id").to_pylist()


def test_following_a_log_over_its_segments(tmp_path):
    reader = LogReader(tmp_path, COLUMNS)
    assert (reader.last(), followed(reader, 0)) == (0, (0, []))
    writer = writer_of(tmp_path)
    assert (reader.last(), followed(reader, 0)) == (0, (0, []))
    writer.append(rows_of([1, 2]))
    assert followed(reader, 0) == (0, [])  # it may be taken back
    writer.sync()
    assert (reader.last(), followed(reader, 0)) == (2, (2, [1, 2]))
    assert followed(reader, 2) == (2, [])
    # what was synced in the old file and in the new one since
    writer.append(rows_of([3]))
    writer.seal()
    writer.append(rows_of([4]))
    writer.sync()
    assert followed(reader, 2) == (4, [3, 4])
    # two segments later; in the midst of a record; from the start; behind the end
    writer.seal()
    writer.append(rows_of([5, 6, 7]))
    writer.seal()
    assert followed(reader, 4) == (7, [5, 6, 7])
    assert followed(reader, 5) == (7, [6, 7])
    assert followed(reader, 0) == (7, [1, 2, 3, 4, 5, 6, 7])
    assert followed(reader, 7) == (7, [])
    writer.close()
    reader.close()


def test_following_a_file_that_is_made_anew(tmp_path):
    """As after a sync that has failed, or by another writer."""
    disk = FaultyDisk()
    writer, reader = writer_of(tmp_path, disk=disk), LogReader(tmp_path, COLUMNS)
    writer.append(rows_of([1]))
    writer.sync()
    assert followed(reader, 0) == (1, [1])
    writer.append(rows_of([2, 3]))
    disk.at, disk.fault = disk.steps + 1, BROKEN
    with pytest.raises(StoreError, match="cannot be written: Input/output error"):
        writer.sync()
    assert followed(reader, 1) == (1, [])
    assert writer.append(rows_of([4])) == 2
    writer.sync()
    assert followed(reader, 1) == (2, [4])
    writer.close()
    writer = writer_of(tmp_path)
    writer.append(rows_of([5]))
    writer.sync()
    assert followed(reader, 2) == (3, [5])
    writer.close()
    reader.close()


def test_rows_that_all_have_read_are_gone(tmp_path):
    """A ledger forgets files that are no longer there; what is behind all that it has was not forgotten."""
    writer = writer_of(tmp_path)
    for ids in ([1, 2], [3], [4, 5]):
        writer.append(rows_of(ids))
        writer.seal()
    writer.append(rows_of([6]))
    writer.sync()
    first, second, third = sealed(tmp_path)
    (tmp_path / first).unlink()
    assert ids_in(tmp_path, Ledger({second: 1})) == [4, 5, 6]
    assert ids_in(tmp_path, Ledger({third: 1})) == [3, 6]
    assert ids_in(tmp_path) == [3, 4, 5, 6]
    with pytest.raises(Gone, match=r"rows 1 to 2 of the log of .* are no longer there: .* take the newest one"):
        LogReader(tmp_path, COLUMNS).follow(0)
    (tmp_path / second).unlink()
    (tmp_path / third).unlink()
    assert ids_in(tmp_path, Ledger({third: 1})) == [6]
    with pytest.raises(Gone, match="rows 4 to 5 of the log"):
        ids_in(tmp_path, Ledger({second: 1}))
    writer.close()


def test_files_of_another_log_are_not_of_this_one(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        writer = writer_of(tmp_path / name)
        writer.append(rows_of([1, 2]))
        writer.seal()
        writer.append(rows_of([3]))
        writer.close()
    (name,) = sealed(tmp_path / "a")
    (tmp_path / "a" / name).rename(tmp_path / "b" / name)
    assert ids_in(tmp_path / "b", Ledger({name: 1})) == [1, 2, 3]


def test_what_is_damaged_is_an_error(tmp_path):
    writer = writer_of(tmp_path)
    writer.append(rows_of([1, 2]))
    writer.seal()
    writer.append(rows_of([3]))
    writer.close()
    path, (name,) = opened(tmp_path), sealed(tmp_path)
    data, table = path.read_bytes(), (tmp_path / name).read_bytes()
    for at, where in ((20, "0: whoever writes the log next mends it"), (100, "64"), (len(data) - 20, r"[0-9,]+")):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(StoreError, match=f"is damaged at byte {where}"):
            ids_in(tmp_path)
    path.write_bytes(data)
    (tmp_path / name).write_bytes(table[: len(table) // 2])
    with pytest.raises(StoreError, match=f"{name} is damaged: "):
        ids_in(tmp_path)
    (tmp_path / name).rename(tmp_path / name.replace(f"{2:020}", f"{1:020}"))
    (tmp_path / name.replace(f"{2:020}", f"{1:020}")).write_bytes(table)
    with pytest.raises(StoreError, match="has 2 rows, its name says others"):
        ids_in(tmp_path)


class AnyOrder(RuleBasedStateMachine):
    """A log against a list: of what was acknowledged nothing is lost, twice, or at another place."""

    @initialize()
    def begin(self):
        self.folder = tempfile.TemporaryDirectory()
        self.place = Path(self.folder.name)
        # ids of rows that were acknowledged, and were only written; what was disposed of, and what was followed since
        self.known, self.pending, self.next_id, self.gone, self.seen = [], [], 1, 0, []
        self.back: list[int] = []  # What a failure has taken back, which is still on the disk
        self.reader = LogReader(self.place, LITTLE)
        self.open_anew()

    def open_anew(self):
        self.disk = FaultyDisk()
        self.writer = writer_of(self.place, LITTLE, disk=self.disk, warn=lambda _: None)

    def tried(self, work):
        """Return whether the disk lets something be done."""
        try:
            work()
        except StoreError:
            self.disk.at = None
            return False
        return True

    def settle(self):
        """Take what is durable for acknowledged; what a failure has taken back is not pending any more."""
        more = self.writer.durable - len(self.known)
        self.known += self.pending[:more]
        rest, stay = self.pending[more:], self.writer.next - 1 - self.writer.durable
        self.pending, self.back = rest[:stay], rest[stay:] or self.back

    @rule(count=st.integers(1, 4))
    def append(self, count):
        ids = list(range(self.next_id, self.next_id + count))
        self.next_id += count
        if self.tried(lambda: self.writer.append(rows_of(ids, LITTLE))):
            self.pending, self.back = self.pending + ids, []
        self.settle()

    @rule()
    def sync(self):
        before = self.writer.next - 1
        if self.tried(self.writer.sync):
            assert self.writer.durable == before
        self.settle()

    @rule()
    def seal(self):
        if self.tried(self.writer.seal):
            assert not self.writer.due(float("inf"))
        self.settle()

    @rule(step=st.integers(1, 6))
    def break_disk(self, step):
        self.disk.at, self.disk.fault = self.disk.steps + step, BROKEN

    @rule(
        step=st.integers(1, 8),
        work=st.sampled_from(["append", "sync", "seal"]),
        left=st.sampled_from(["all", "none", "zeros", "the end"]),
    )
    def crash(self, step, work, left):
        """The process ends at a step of what it does, or after it; what was not synced may be in or not.

        Of that the power may have left nothing, zeros, or the later half.
        """
        self.disk.at, self.disk.fault = self.disk.steps + step, None
        with suppress(Stopped):
            getattr(self, work)(*([1] if work == "append" else []))
        self.disk.dead = True
        self.disk.let_go()
        for path in (self.place / ".log").glob("*.open"):
            data = path.read_bytes()
            durable = durable_of(self.writer.log, data)
            if durable is not None and left != "all":
                tail = data[durable.end :]
                kept = {
                    "none": b"",
                    "zeros": bytes(len(tail)),
                    "the end": tail[len(tail) // 2 :].rjust(len(tail), b"\0"),
                }
                path.write_bytes(data[: durable.end] + kept[left])
        self.open_anew()
        self.pending += self.back
        self.settle()
        self.back = []

    @rule()
    def follow(self):
        last, ids = followed(self.reader, self.gone + len(self.seen))
        self.seen += ids
        assert last == self.gone + len(self.seen)

    @rule(data=st.data())
    def read_unread(self, data):
        names = sealed(self.place)
        read = data.draw(st.sets(st.sampled_from(names))) if names else set()
        covered = {seq for name in read for seq in range(int(name[19:39]), int(name[40:60]) + 1)}
        upto = data.draw(st.none() | st.integers(0, len(self.known) + 2))
        last = len(self.known) if upto is None else min(upto, len(self.known))
        wanted = [self.known[seq - 1] for seq in range(self.gone + 1, last + 1) if seq not in covered]
        assert ids_in(self.place, Ledger(dict.fromkeys(read, 1)), upto, LITTLE) == wanted

    @precondition(lambda self: sealed(self.place))
    @rule()
    def dispose(self):
        """All have read the first segment, and it goes; who follows has read it, too."""
        self.follow()
        name = sealed(self.place)[0]
        (self.place / name).unlink()
        self.seen = self.seen[int(name[40:60]) - self.gone :]
        self.gone = int(name[40:60])

    @invariant()
    def numbers(self):
        assert self.writer.durable == len(self.known)
        assert self.writer.next == len(self.known) + len(self.pending) + 1
        assert self.seen == self.known[self.gone : self.gone + len(self.seen)]

    def teardown(self):
        self.disk.at = None
        with self.folder:
            self.reader.close()
            self.writer.close()


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(
    max_examples=examples(400, 40),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
