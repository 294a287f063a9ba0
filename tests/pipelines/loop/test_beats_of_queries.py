"""When a query beats: once no rows have come for long enough, and never while it makes a batch."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest

from dtoss.errors import InputError
from pipelines.loop.queries import Batches, start

BEAT = 10.0


class Query:
    """A query that Spark would run: it ends when it is told to. A second takes no time."""

    def __init__(self):
        self.ended, self.looks = threading.Event(), 0

    def awaitTermination(self, seconds):
        self.looks += 1
        return self.ended.wait(0.001)

    def looked(self):
        """Wait until whoever waits for its end has looked at the clock."""
        looks, ends = self.looks, time.monotonic() + 120
        while self.looks < looks + 2:
            assert time.monotonic() < ends
            time.sleep(0.001)


class Frame:
    """A stream whose batches a test gives by hand."""

    def __init__(self, query):
        self.query, self.writeStream = query, self

    def foreachBatch(self, function):
        context = SimpleNamespace(getLocalProperty=lambda name: "q")
        rows = SimpleNamespace(sparkSession=SimpleNamespace(sparkContext=context))
        self.give = lambda number: function(rows, number)
        return self

    def option(self, name, value):
        return self

    def trigger(self, **how):
        return self

    def start(self):
        return self.query


def test_a_query_beats_only_without_rows(tmp_path):
    """Not in the middle of a batch that takes longer than a beat, nor right after, nor between batches; then it does,
    also after a batch that has failed."""
    query, beats, ended, released = Query(), [], threading.Event(), threading.Event()
    frame, fails, now = Frame(query), [False], [0.0]

    def later(seconds):
        now[0] += seconds
        query.looked()

    def batch(rows, source):
        later(2 * BEAT)
        if fails[0]:
            raise InputError("bad rows")

    batches = Batches(str(tmp_path), batch, lambda: beats.append(now[0]), ended.set, print)
    start(frame, batches, SimpleNamespace(release=released.set), None, 1.0, BEAT, lambda: now[0])
    for number in range(3):
        frame.give(number)
        query.looked()
        assert not beats
        later(0.9 * BEAT)
        assert not beats
    later(0.2 * BEAT)
    assert beats == [now[0]]
    later(0.9 * BEAT)
    assert len(beats) == 1
    later(0.2 * BEAT)
    assert len(beats) == 2
    fails[0] = True
    with pytest.raises(InputError, match="bad rows"):
        frame.give(3)
    later(0.9 * BEAT)
    assert len(beats) == 2
    later(0.2 * BEAT)
    assert len(beats) == 3
    query.ended.set()
    assert ended.wait(120)
    assert released.wait(120)
