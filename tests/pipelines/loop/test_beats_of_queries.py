"""When a query beats: once no rows have come for long enough, and never while it makes a batch."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest

from dtoss.errors import InputError
from pipelines.loop.queries import Batches, start

BEAT = 0.2


class Query:
    """A query that Spark would run: it ends when it is told to."""

    def __init__(self):
        self.ended = threading.Event()

    def awaitTermination(self, seconds):
        return self.ended.wait(0.01)


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
    frame, fails = Frame(query), [False]

    def batch(rows, source):
        time.sleep(2 * BEAT)
        if fails[0]:
            raise InputError("bad rows")

    batches = Batches(str(tmp_path), batch, lambda: beats.append(time.monotonic()), ended.set, print)
    start(frame, batches, SimpleNamespace(release=released.set), None, 1.0, BEAT)
    for number in range(3):
        frame.give(number)
        assert not beats
        time.sleep(BEAT / 4)
    time.sleep(1.5 * BEAT)
    assert beats
    fails[0] = True
    with pytest.raises(InputError, match="bad rows"):
        frame.give(3)
    count, began = len(beats), time.monotonic()
    while len(beats) == count and time.monotonic() - began < 2:
        time.sleep(0.01)
    assert len(beats) > count
    query.ended.set()
    assert ended.wait(2)
    assert released.wait(2)
