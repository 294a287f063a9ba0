"""Beats of a watch, without Spark: beside old events that are folded, and beside a query that ends."""

from __future__ import annotations

import time

import pytest

from dtoss.commits.lease import held_by, take
from dtoss.commits.offsets import Source
from dtoss.errors import InputError
from dtoss.watch.events.watch_document import head_of
from dtoss.watch.processing.watch_plan import Options, plan_batch
from dtoss.watch.watch_folder import Home
from pipelines.loop import queries
from pipelines.watch import watch, watch_files
from pipelines.watching.watch_batches import Watching
from tests.dtoss.watch.streams import BEGIN, SECOND, change, circle, rows_of, settings_of
from tests.dtoss.watch.watch_batch import run_batch
from tests.pipelines.loop.test_beats_of_queries import Frame
from tests.pipelines.watching.arrivals import all_told

HOUR = 3600 * SECOND


def batches(home, count):
    """Commit batches of hours ago, each with an event."""
    since = time.time_ns() // 1000 - 9 * HOUR
    change(home, [circle("a", 0.0, 0.0, 1000.0)])
    for number in range(count):
        row = {"id": number, "t": BEGIN + number, "x": 0.0, "y": 0.0, "attributes": {}}
        plan = plan_batch(home, settings_of(), Source(query="q", batch=number), Options(), since + number)
        run_batch(plan, rows_of([row]))


def test_a_beat_folds_what_is_old_and_adopts_what_is_asked(tmp_path):
    """To fold is a commit: it comes before the plan, and what was asked is not put off by a failure."""
    home = Home(str(tmp_path / "store"))
    batches(home, 3)
    change(home, [], ["a"])
    (tmp_path / "in").mkdir()
    warned = []
    done = watch_files(str(tmp_path / "in"), home.store, lambda: None, once=True, warn=warned.append)
    assert (done.batches, warned) == (1, [])
    assert head_of(home).folded is not None
    assert all_told(home.store)[-1] == [("reset", "a", 1, None, None, "removed")]


class Query:
    """A query that has ended, but for some looks."""

    isActive = False

    def __init__(self, looks):
        self.left = looks

    def awaitTermination(self, seconds):
        self.left -= 1
        return self.left < 0


def beaten(home, watching, looks):
    """Let a thread beat for a query of a watch, and hold its lease."""
    home.folder.make()
    lease = take(home.folder, "it", print, lambda: None)
    taken = queries.Batches(home.path, None, lambda: watching.beat(), watching.end, watching.warn)
    queries.start(Frame(Query(looks)), taken, lease, None, None, 1e-9)


def test_a_beat_that_fails_ends_neither_the_beats_nor_the_lease(tmp_path, monkeypatch):
    """Whatever the error is: the query goes on."""
    home, told, held = Home(str(tmp_path)), [], []
    watching = Watching(home, Options(), warn=told.append)

    def beat():
        held.append(held_by(home.folder) is not None)
        raise RuntimeError("odd")

    monkeypatch.setattr(watching, "beat", beat)
    beaten(home, watching, 3)
    queries.make_way(home.path)
    assert held == [True] * 3
    assert told == ["a beat has failed: RuntimeError: odd"] * 3
    assert held_by(home.folder) is None


def test_the_lease_is_held_until_the_batch_in_hand_has_ended(tmp_path):
    """Spark stops a query without waiting for the function that has its last batch; a later one is refused."""
    home = Home(str(tmp_path))
    batches(home, 1)
    watching = Watching(home, Options())
    with watching._turns.turn():  # a batch is in hand
        beaten(home, watching, 0)
        time.sleep(0.1)
        assert held_by(home.folder) is not None
    queries.make_way(home.path)
    assert held_by(home.folder) is None
    with pytest.raises(InputError, match="the query that ran watch default has ended: nothing of this batch counts"):
        watching.batch(None, None, Source(query="q", batch=1))


@pytest.mark.parametrize("paces", [{"every": 0.0}, {"every": float("nan")}, {"beat": 0.0}, {"every": None, "beat": -1}])
def test_paces_that_cannot_be(tmp_path, paces):
    class Frame:
        isStreaming = True

    with pytest.raises(InputError, match="more than 0 is wanted"):
        watch(Frame(), str(tmp_path), **paces)
    assert list(tmp_path.iterdir()) == []
