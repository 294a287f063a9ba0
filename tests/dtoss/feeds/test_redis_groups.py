"""Entries of Redis that are read from where a log says: none is skipped, whoever dies and whatever is forgotten."""

from __future__ import annotations

import random
import time

import pytest

from dtoss.client.endpoint import Access, place_of
from dtoss.client.http_connections import Later
from dtoss.feeds.redis_entries import RedisEntries
from tests.dtoss.watch.targets.servers import redis_port
from tests.examples import examples


class Log:
    """Rows and offsets that share a sync, and a copy of them."""

    def __init__(self):
        self.rows, self.upto, self.copy = set(), {}, None

    def put(self, batch):
        self.rows |= {int(one) for one in batch.messages}
        self.upto = dict(batch.upto.offsets)

    def keep(self):
        if self.upto:  # without any the group says where it goes on
            self.copy = set(self.rows), dict(self.upto)

    def restore(self):
        if self.copy is not None:
            self.rows, self.upto = set(self.copy[0]), dict(self.copy[1])


@pytest.fixture(scope="module")
def redis():
    client = pytest.importorskip("redis")
    with redis_port() as port:
        found = client.Redis("127.0.0.1", port)
        found.config_set("hz", 500)  # who waits for nothing is told soon
        found.url = f"redis://127.0.0.1:{port}/0?stream=rows&field=row"
        yield found


@pytest.fixture
def read(redis):
    """What makes a reader of a log, as somebody."""
    redis.flushall()

    def reader(log, me="dtoss"):
        place = place_of(f"{redis.url}&consumer={me}", "--from")
        return RedisEntries(place, Access(upto=lambda _: log.upto), idle=1)

    return reader


def send(redis, *rows):
    for row in rows:
        redis.xadd("rows", {"row": row})


def take(feed, log, acknowledged=True):
    """The rows that come now."""
    found = []
    while (batch := feed.take(0.001)) is not None:
        found += map(int, batch.messages)
        log.put(batch)
        if acknowledged:
            feed.acknowledge(batch)
    return found


def test_a_stream_is_read_from_where_the_log_says(redis, read):
    """Whatever its group knows: less or more than the log, or nothing; another stream of its name is begun anew."""
    log = Log()
    send(redis, 0, 1, 2)
    assert take(read(log), log) == [0, 1, 2]
    log.keep()
    send(redis, 3, 4)
    assert take(read(log), log) == [3, 4]
    log.restore()
    assert take(read(log), log) == [3, 4]
    redis.xgroup_destroy("rows", "dtoss")
    assert take(read(log), log) == []
    send(redis, 5)
    batch = read(log).take(0.001)
    assert batch.messages == (b"5",)
    log.put(batch)  # killed before Redis was told
    assert take(read(log), log) == []
    assert redis.xpending("rows", "dtoss")["pending"] == 0
    redis.xgroup_setid("rows", "dtoss", "0")  # whoever wants all of it again has it
    assert take(read(log), log) == [0, 1, 2, 3, 4, 5]
    redis.delete("rows")
    redis.xadd("rows", {"row": 6}, "1-1")
    assert take(read(log), log) == [6]
    assert log.upto == {0: 1, 1: 1}


def test_the_log_is_not_told_more_than_all_readers_have(redis, read):
    """What another one has in hand comes again where the group is forgotten."""
    log = Log()
    send(redis, 0, 1)
    slow = read(log, "slow")
    assert slow.take(0.001).messages == (b"0", b"1")
    send(redis, 2)
    quick = read(log, "quick")
    batch = quick.take(0.001)
    log.put(batch)
    quick.acknowledge(batch)
    assert log.rows == {2}
    redis.xgroup_destroy("rows", "dtoss")
    assert take(read(log), log) == [0, 1, 2]


def test_where_the_log_cannot_be_asked_the_source_is_away(redis, read):
    def away(source):
        raise Later("busy")

    send(redis, 0)
    feed = RedisEntries(place_of(redis.url, "--from"), Access(upto=away))
    with pytest.raises(Later, match="busy"):
        feed.take(0.001)


@pytest.mark.parametrize("seed", range(examples(300, 12)))
def test_no_entry_is_skipped_whoever_dies(redis, read, seed):
    """Up to three readers, killed at any step; a log that is restored from a copy; groups that are forgotten."""
    rng, log, sent = random.Random(seed), Log(), 0
    readers = {me: read(log, me) for me in "abc"[: rng.randrange(1, 4)]}
    held = dict.fromkeys(readers)

    def kill(*some):
        for me in some:
            readers[me].close()
            readers[me], held[me] = read(log, me), None

    def go_on(me):
        log.put(held[me])
        if rng.random() < 0.7:
            readers[me].acknowledge(held[me])
            held[me] = None

    for _ in range(60):
        me, what = rng.choice([*readers]), rng.random()
        if what < 0.3:
            fresh = range(sent, sent + rng.randrange(1, 6))
            send(redis, *fresh)
            sent = fresh.stop
        elif what < 0.8:
            if held[me] is None:
                held[me] = readers[me].take(0.001)
            else:
                go_on(me)
        elif what < 0.88:
            kill(me)
        elif what < 0.92:
            log.keep()
        elif what < 0.96:
            log.restore()
            kill(*readers)
        elif redis.exists("rows"):
            redis.xgroup_destroy("rows", "dtoss")
            kill(*readers)
    kill(*readers)
    for _ in range(2):
        time.sleep(0.002)  # from then on what others have is taken over
        for feed in readers.values():
            take(feed, log)
    assert log.rows == set(range(sent))
