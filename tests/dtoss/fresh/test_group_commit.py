"""Rows of several workers that share a sync: numbers, refusals, disks that fail; a log of the test stands in."""

from __future__ import annotations

import asyncio

import pyarrow as pa
import pytest

from dtoss.errors import StoreError
from dtoss.fresh.fresh_counts import FreshCounts
from dtoss.fresh.intake import LENGTH, Away, Bounds, Busy, GroupCommit, Intake, Receipt, message_of
from dtoss.log.read_upto import ReadUpto, together

SCHEMA = pa.schema([("id", pa.int64())])
AT_ONCE = Bounds(group_seconds=0.0)


class Log:
    """What was appended and synced; a failure is raised once."""

    def __init__(self):
        self.next, self.durable, self.syncs, self.sealed = 1, 0, 0, 0
        self.upto, self.said = {}, []
        self.fails = {}

    def may_fail(self, what):
        if what in self.fails:
            raise self.fails.pop(what)

    def append(self, rows, upto=None):
        self.may_fail("append")
        self.said += [] if upto is None else [upto]
        first, self.next = self.next, self.next + len(rows)
        return first

    def sync(self):
        try:
            self.may_fail("sync")
        except StoreError:
            self.next = self.durable + 1
            raise
        self.syncs += 1
        self.durable, self.upto = self.next - 1, together([*self.upto.values(), *self.said])
        return self.durable

    def due(self, now):
        return self.sealed == 0

    def seal(self):
        self.may_fail("seal")
        self.sealed += 1


def taker(log, bounds=AT_ONCE, counts=None, events=None, judge=lambda rows: (1, 0)):
    counts = FreshCounts() if counts is None else counts
    heard = [] if events is None else events
    return GroupCommit(log, SCHEMA, judge, lambda: None, counts, lambda what, **facts: heard.append(what), bounds)


def rows(*ids):
    return pa.table({"id": list(ids)}, SCHEMA)


def test_rows_that_come_together_share_a_sync():
    """Each is told the number of its own last row."""
    log, counts = Log(), FreshCounts()

    async def take():
        group = taker(log, counts=counts)
        return await asyncio.gather(*(group.take(rows(*range(n))) for n in (2, 0, 3)))

    assert asyncio.run(take()) == [Receipt(2, 2, 1, 0), Receipt(0, None, 0, 0), Receipt(3, 5, 1, 0)]
    assert log.syncs == 1
    assert (counts.of("acknowledged"), counts.of("seq"), counts.unseen) == (5, 5, 5)
    counts.add_generation(3, 1, 0.5)
    assert counts.unseen == 2
    assert len(counts.acknowledged_between(0, 5)) == 1
    assert counts.acknowledged_between(5, 9) == []


def test_a_full_group_waits_for_nobody():
    log = Log()

    async def take():
        return await taker(log, Bounds(group_seconds=1e9, group_rows=2)).take(rows(1, 2))

    assert asyncio.run(take()).seq == 2


def test_too_many_rows_that_wait_are_refused():
    """Those that no generation has, until one has them."""
    log, counts = Log(), FreshCounts()

    async def take():
        group = taker(log, Bounds(group_seconds=0.0, unseen_rows=1), counts)
        await group.take(rows(1, 2))
        with pytest.raises(Busy, match="2 rows wait to be found, at most 1 may") as busy:
            await group.take(rows(3))
        assert busy.value.seconds == 1.0
        counts.add_generation(2, 1, 0.1)
        return await group.take(rows(3))

    assert asyncio.run(take()).seq == 3
    assert counts.of("refused") == 1


def test_bytes_of_rows_that_wait_are_bounded(tmp_path):
    """What is beyond the bound is refused and counted, and its sender reads so; later it is taken."""
    log, counts, address, many = Log(), FreshCounts(), str(tmp_path / "in"), rows(*range(20_000))
    bounds = Bounds(group_seconds=0.0, waiting_bytes=2 * many.nbytes)

    async def serve():
        ready, stop = asyncio.Event(), asyncio.Event()
        serving = asyncio.create_task(taker(log, bounds, counts).serve(address, stop, ready.set))
        await ready.wait()
        reader, writer = await asyncio.open_unix_connection(address)
        held = message_of(many)
        writer.write(held[:-1])  # of which the last byte is long in coming
        await writer.drain()
        with pytest.raises(Busy, match="may wait to be written"):
            await Intake(address).put(many)
        writer.write(held[-1:])
        await reader.readexactly(LENGTH)
        writer.close()
        assert await Intake(address).put(many) == Receipt(20_000, 40_000, 1, 0)
        stop.set()
        await serving

    asyncio.run(serve())
    assert counts.of("refused") == 20_000


def test_a_sync_that_fails_acknowledges_none_of_its_group():
    """The next group gets their numbers."""
    log, events = Log(), []
    log.fails["sync"] = StoreError("no space")

    async def take():
        group = taker(log, events=events)
        with pytest.raises(Away, match="cannot be written: no space"):
            await group.take(rows(1, 2))
        return await group.take(rows(3))

    assert asyncio.run(take()).seq == 1
    assert events == ["log not synced"]


def test_a_log_that_cannot_be_sealed_goes_on():
    log, events = Log(), []
    log.fails["seal"] = StoreError("no space")
    group = taker(log, events=events)
    group.seal_if_due()
    group.seal_if_due()
    assert (events, log.sealed) == (["log not sealed"], 1)


def test_rows_go_by_a_socket(tmp_path):
    """From who has a loop and who has none; refusals come as what they are; bytes of strangers end a connection."""
    log, events, address = Log(), [], str(tmp_path / "in")

    async def serve():
        ready, stop = asyncio.Event(), asyncio.Event()
        group = taker(log, Bounds(group_seconds=0.0, unseen_rows=4), events=events)
        with pytest.raises(Away, match="is being started"):
            await Intake(address).put(rows(1))
        serving = asyncio.create_task(group.serve(address, stop, ready.set))
        await ready.wait()
        assert await Intake(address).put(rows(1, 2)) == Receipt(2, 2, 1, 0)
        assert (await asyncio.to_thread(asyncio.run, Intake(address).put(rows(3)))).seq == 3
        taken = [await Intake(address).put(rows(), ReadUpto("s", at)) for at in ({}, {1: 7, 0: 2}, {1: 8}, {})]
        assert taken == [Receipt(0, None, 0, 0, at) for at in ("", "0:2,1:7", "0:2,1:8", "0:2,1:8")]
        log.fails["append"] = StoreError("no space")
        with pytest.raises(Away, match="no space"):
            await Intake(address).put(rows(4))
        with pytest.raises(Away, match="columns"):
            await Intake(address).put(pa.table({"other": [1]}))
        await Intake(address).put(rows(4, 5))
        with pytest.raises(Busy):
            await Intake(address).put(rows(6))
        reader, writer = await asyncio.open_unix_connection(address)
        writer.write(b"\xff" * 8)
        assert await reader.read() == b""
        writer.close()
        stop.set()
        await serving

    asyncio.run(serve())
    assert events == ["rows not taken", "rows not taken"]
