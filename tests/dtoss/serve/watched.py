"""A worker without a server: what a watcher needs of one, and a loop that runs."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pyarrow as pa

import dtoss
from dtoss.serve.answers.open_snapshots import Serving
from dtoss.serve.core.server_settings import PACES, Settings
from dtoss.serve.reload.prepare import adopt_snapshot, first_snapshot
from dtoss.serve.reload.snapshot_watcher import Watcher
from tests.dtoss.snapshots.damaged_stores import stored

OBJECTS = 400
WAIT = 60


def town(seed=0, *, strings=False, plane=False, columns=("speed",)):
    """An index of some hundred objects in three partitions; each seed has other places and the same ids."""
    rng = np.random.default_rng(seed)
    positions = rng.normal([10.0, 50.0], 0.2, (OBJECTS, 2)).round(3)
    ids = [f"é{i}" for i in range(OBJECTS)] if strings else np.arange(OBJECTS)
    carried = {name: rng.permutation(OBJECTS) for name in columns}
    return dtoss.build(ids, positions, crs="none" if plane else None, partitions=3, columns=carried)


def commit(path, seed=0, **how):
    """Make the town of a seed the current snapshot of a store."""
    made = town(seed, **how)
    return stored(made, path, kinds=dict.fromkeys(made.column_names, "bigint"))


def commit_all_kinds(path):
    """Commit a snapshot that has a file of each kind."""
    return stored(
        town(),
        path,
        kinds={"speed": "bigint"},
        times=lambda some: pa.array(np.full(len(some), 7)),
        tombstones=(np.array([-5, -9]), pa.array([1, 2])),
        rejected=pa.table({"reason": ["no id"], "row": ["{}"]}),
    )


class Told:
    """Takes what a worker tells its metrics and its log."""

    def __init__(self):
        self.swaps, self.refusals, self.events = [], 0, []

    def swapped(self, seconds):
        self.swaps.append(seconds)

    def refused(self):
        self.refusals += 1

    def evaluated(self, seconds):
        pass

    def event(self, what, **facts):
        self.events.append((what, facts))


@contextmanager
def running_loop():
    """A loop in a thread of its own, which is its second value."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield loop, thread
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(WAIT)
        loop.close()


@contextmanager
def watched(store, verified=None, pages=lambda: 0, paces=PACES, circle=None, **settings):
    """A watcher of a store that has not looked yet, what it serves, and what it told."""
    told = Told()
    given = Settings(str(store), **settings)
    verified = np.zeros(1, np.int64) if verified is None else verified
    serving = Serving(adopt_snapshot(first_snapshot(given), 2, lambda work: work(), told.evaluated))
    state = SimpleNamespace(
        number=0,
        settings=given,
        serving=serving,
        metrics=told,
        log=told,
        circle=circle,
        paces=paces,
        fresh=None,
    )
    with running_loop() as (loop, thread):
        watcher = Watcher(state, loop, verified, pages)
        try:
            yield SimpleNamespace(watcher=watcher, serving=state.serving, told=told, loop=loop, thread=thread)
        finally:
            watcher.stop(WAIT)
