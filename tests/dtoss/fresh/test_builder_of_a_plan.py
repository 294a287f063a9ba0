"""One builder for servers of a plan: who is it, who stands by, and what one that was away for too long still does."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa
import pytest

import dtoss
from dtoss.commits.chain import Conflict
from dtoss.commits.folder import LocalFolder
from dtoss.commits.lease import LEASE, Holder
from dtoss.errors import StoreError
from dtoss.fresh.builder import Fresh, first_generation, generations_of, keep_right, stand_by
from dtoss.fresh.fresh_counts import FreshCounts
from dtoss.fresh.shared_folder import shared_path
from dtoss.log.log_reader import log_schema
from dtoss.log.log_writer import LogWriter
from dtoss.snapshots.store import Store

NOW = int(time.time()) - 1000
WAIT = 60


@pytest.fixture
def world(tmp_path):
    """A store, the folder of a log, and two servers of a plan."""
    (tmp_path / "in").mkdir()
    dtoss.build({"id": [1, 2], "lon": [8.0, 9.0], "lat": [50.0, 51.0], "t": [NOW] * 2}).save(tmp_path / "store")
    store, updates = Store(str(tmp_path / "store")), str(tmp_path / "in")

    def server(number):
        return Fresh(store.path, updates, str(tmp_path / f"server{number}"), True, FreshCounts(), number)

    schema = log_schema(store.manifest())
    return SimpleNamespace(
        updates=updates, schema=schema, one=server(0), other=server(1), home=Store(shared_path(updates))
    )


def put(log, seconds):
    """A row of object 1 in a log; its sequence number."""
    rows = {"id": [1], "lon": [8.0], "lat": [50.0 + seconds], "t": [NOW + seconds], "deleted": [False]}
    log.append(pa.table(rows).select(log.schema.names).cast(log.schema))
    return log.sync()


def untold(what, **facts):
    pass


def test_the_first_server_makes_a_generation_and_the_next_one_takes_it(world):
    """Which says who made it; where nobody makes one, the other says who writes."""
    log = LogWriter.open(world.updates, world.schema)
    with pytest.raises(StoreError, match="has made no generation for servers of this plan in 0 s"):
        first_generation(world.other, 0.0)
    put(log, 1)
    log.close()
    first_generation(world.one)
    assert world.home.manifest()["fresh"] | {"base": ""} == {
        "base": "", "commit": 1, "seq": 1, "generation": 1, "server": 0
    }  # fmt: skip
    log = LogWriter.open(world.updates, world.schema)
    first_generation(world.other, 0.0)
    assert world.home.head().number == 1
    log.close()
    first_generation(world.other)
    assert world.home.manifest()["fresh"]["server"] == 1


def test_a_server_that_is_alone_says_who_writes(world):
    log = LogWriter.open(world.updates, world.schema)
    with pytest.raises(StoreError, match="is being written by process"):
        first_generation(replace(world.one, server=None))
    log.close()


def test_who_takes_over_goes_on_and_who_was_replaced_changes_nothing(world):
    """Names and numbers rise, and no row goes; a late generation is a conflict, also when its number is free again."""
    log = LogWriter.open(world.updates, world.schema)
    late = generations_of(world.one, untold)
    late.begin()
    put(log, 1)
    late.step()
    name = world.home.current()
    put(log, 2)
    made = generations_of(world.other, untold)
    made.begin()
    assert world.home.current() > name
    assert world.home.manifest()["fresh"] | {"base": ""} == {
        "base": "", "commit": 1, "seq": 2, "generation": 3, "server": 1
    }  # fmt: skip
    stands = world.home.head()
    with pytest.raises(Conflict):
        late.step()
    assert world.home.head() == stands
    put(log, 3)
    made.step()
    (Store(shared_path(world.updates)).folder).remove("commits", f"{stands.number:020}.json")
    with pytest.raises(Conflict):
        late.step()
    assert world.home.manifest()["fresh"]["seq"] == 3
    assert dtoss.open(world.home).knn([8.0, 53.0], 1, max_distance=0.1).id.tolist() == [1]
    log.close()


def test_who_stands_by_tells_how_the_other_gets_on_and_follows_it(world):
    """It takes the log once that is given back; one that is told to end before that does."""
    log = LogWriter.open(world.updates, world.schema)
    made = generations_of(world.one, untold)
    made.begin()
    put(log, 1)
    put(log, 2)
    made.step()
    put(log, 3)
    of, told = world.other.counts.of, []

    async def wait(until):
        stop, ready = asyncio.Event(), []
        waiting = asyncio.create_task(
            stand_by(world.other, stop, lambda: ready.append(1), lambda what, **_: told.append(what), 0.01)
        )
        async with asyncio.timeout(WAIT):
            while of("seq") < 3:
                await asyncio.sleep(0.01)
            assert ready
            until(stop)
            return await waiting

    assert asyncio.run(wait(lambda stop: stop.set())) is None
    assert [of(field) for field in ("seq", "seen", "commit", "builds", "begun")] == [3, 2, 1, 0, 0]
    assert world.other.counts.unseen == 1
    assert time.time() - of("made") / 1e6 < WAIT
    world.other.counts.note_seq(0)
    taken = asyncio.run(wait(lambda stop: log.close()))
    assert put(taken, 4) == 4
    assert told == ["builder stands by"] * 2
    taken.close()


def test_a_builder_ends_once_another_one_has_the_right(world):
    log, told = LogWriter.open(world.updates, world.schema), []

    async def keep():
        stop = asyncio.Event()
        keeping = asyncio.create_task(keep_right(log, stop, lambda what, **_: told.append(what), 0.01))
        await asyncio.sleep(0.05)
        assert not stop.is_set()
        LocalFolder(f"{world.updates}/.log").replace(Holder.me().data, LEASE)
        async with asyncio.timeout(WAIT):
            await stop.wait()
            await keeping

    asyncio.run(keep())
    assert told == ["log not held"]
    with pytest.raises(StoreError):
        put(log, 1)
    log.close()
