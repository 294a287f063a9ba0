"""The loop of cycles: what is read when, and what happens when something fails. Cycles only note what they read."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

import pipelines.ticks.run
from dtoss.commits.offsets import Ledger
from dtoss.errors import InputError, StoreError
from dtoss.snapshots.store import Store
from pipelines.loop.disposal import Disposal
from pipelines.loop.exposition import Metrics
from pipelines.loop.stopping import Stopping
from pipelines.ticks import three_commits
from pipelines.ticks.run import CyclesFailed, Ran
from tests.clocks import clocked
from tests.dtoss.snapshots.small_stores import manifest_of, silent
from tests.pipelines.loops import looped


@dataclass
class Read:
    """Positions that are the lines of files."""

    lines: list
    released: int = 0

    def release(self):
        self.released += 1


@dataclass
class Scene:
    """A folder, a store, and cycles of which each may be told to do something else first."""

    updates: Path
    path: Path
    before: list = field(default_factory=list)
    told: list = field(default_factory=list)
    said: list = field(default_factory=list)
    options: list = field(default_factory=list)
    positions: list = field(default_factory=list)
    sessions: int = 0

    @property
    def store(self):
        return Store(str(self.path))

    def session(self):
        self.sessions += 1

    def write(self, name, age=60.0):
        path = self.updates / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"id,lon,lat,{name}\n")
        moment = time.time() - age
        os.utime(path, (moment, moment))
        return path

    def read_positions(self, session, inputs, columns, *, wanted):
        self.positions.append(Read([Path(file).read_text().strip().rpartition(",")[2] for file in inputs.files]))
        return self.positions[-1]

    def merge(self, positions, store, options, work, *, columns, ledger):
        if self.before and (fault := self.before.pop(0)) is not None:
            fault()
        self.options.append(options)
        home = Store(store)
        parent = home.manifest() if home.snapshots() else {"lines": [], "ledger": None}
        held = work.lock or home.writer(silent)
        with home.fresh(silent) as name:
            written = {"partitions/00000.arrow": name.encode(), "borders.arrow": b"b"}
            for file, data in written.items():
                home.write(name, file, data)
            lines = [] if positions is None else positions.lines
            manifest = manifest_of(name, written) | {
                "ledger": ledger(Ledger.of(parent["ledger"])).as_json(),
                "lines": [*parent["lines"], *lines],
                "timings": {"build": 0.5},
            }
            home.finish(name, manifest, held)
        home.tidy(options.keeping.keep, held, silent, keep_for=0.0)
        if held is not work.lock:
            held.release()
        return manifest

    def run(self, beats, **options):
        wanted = {"every": 0.01, "say": self.say, "warn": self.told.append} | options
        return looped(str(self.updates), str(self.path), self.session, cycles=beats, **wanted)

    def say(self, manifest, staleness):
        self.said.append((manifest["snapshot"], staleness))

    def lines(self):
        """What was read, in its order."""
        return self.store.manifest()["lines"]


@pytest.fixture
def scene(tmp_path, monkeypatch):
    made = Scene(tmp_path / "updates", tmp_path / "store")
    made.updates.mkdir()
    monkeypatch.setattr(three_commits, "merge", made.merge)
    monkeypatch.setattr(three_commits, "read_positions", made.read_positions)
    return made


def fails(error):
    def fault():
        raise error

    return fault


def test_each_file_is_read_once_and_idle_beats_are_skipped(scene):
    scene.write("a.csv")
    scene.write("deep/b.csv")
    assert scene.run(3) == Ran(cycles=1, skipped=2)
    assert scene.lines() == ["a.csv", "deep/b.csv"]
    assert len(scene.store.snapshots()) == 1
    scene.write("c.csv")
    scene.write("young.csv", age=0.0)
    assert scene.run(2) == Ran(cycles=1, skipped=1)
    assert scene.lines() == ["a.csv", "deep/b.csv", "c.csv"]
    assert scene.sessions == 2
    assert scene.told == []
    assert all(positions.released for positions in scene.positions)


def test_spark_is_not_started_where_nothing_has_changed(scene):
    assert scene.run(2) == Ran(skipped=2)
    assert scene.sessions == 0
    assert not scene.path.exists()


def test_what_a_rollback_leaves_is_read_again(scene):
    for name in ("a.csv", "b.csv", "c.csv"):
        scene.write(name)
        scene.run(1)
    scene.store.rollback(silent)
    scene.store.rollback(silent)
    assert scene.lines() == ["a.csv"]
    assert scene.run(1) == Ran(cycles=1)
    assert scene.lines() == ["a.csv", "b.csv", "c.csv"]


def test_a_loop_that_is_killed_goes_on_where_the_store_is(scene):
    """After its commit and before anything else: what was read is in the same commit."""
    scene.write("a.csv")
    scene.run(1)
    scene.write("b.csv")

    def killed(manifest, staleness):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scene.run(1, say=killed)
    assert scene.run(2) == Ran(skipped=2)
    assert scene.lines() == ["a.csv", "b.csv"]


def test_staleness_is_the_age_of_the_oldest_file(scene):
    scene.write("a.csv", age=300.0)
    scene.write("b.csv", age=100.0)
    scene.run(1)
    [(snapshot, staleness)] = scene.said
    assert snapshot == scene.store.current()
    assert 300.0 <= staleness < 360.0


def test_a_cycle_that_fails_is_tried_again(scene):
    scene.write("a.csv")
    scene.run(1)
    scene.write("b.csv")
    scene.before = [fails(OSError("the disk is full")), fails(InputError("a column is missing")), None]
    assert scene.run(3) == Ran(cycles=1, skipped=2, failures=2)
    assert scene.lines() == ["a.csv", "b.csv"]
    assert scene.told == [
        "a cycle has failed: OSError: the disk is full",
        "the cycle is tried again in 0.01 s",
        "a cycle has failed: a column is missing",
        "the cycle is tried again in 0.01 s",
    ]


def test_failures_count_in_a_row_only(scene):
    scene.before = [fails(OSError("no")), fails(OSError("no")), None] * 3
    names = iter(["b.csv", "c.csv", "d.csv"])
    scene.write("a.csv")
    assert scene.run(3, say=lambda manifest, staleness: scene.write(next(names))) == Ran(cycles=3, failures=6)
    assert scene.lines() == ["a.csv", "b.csv", "c.csv"]


def test_three_failures_in_a_row_end_the_loop(scene, tmp_path):
    pytest.importorskip("prometheus_client")
    scene.write("a.csv")
    scene.before = [fails(OSError("the disk is full"))] * 4
    metrics = Metrics(file=str(tmp_path / "m.prom"))
    with pytest.raises(CyclesFailed, match=r"^3 cycles in a row have failed, the last one: OSError: the disk is full$"):
        scene.run(None, metrics=metrics)
    assert len(scene.before) == 1
    assert not scene.store.snapshots()
    text = (tmp_path / "m.prom").read_text()
    assert "dtoss_cycle_failures_total 3.0\n" in text
    assert "dtoss_cycle_failures_in_a_row 3.0\n" in text


def test_an_error_of_the_users_ends_the_loop_at_its_begin(scene):
    scene.write("a.csv")
    scene.before = [fails(InputError("there is no column 'id'"))]
    with pytest.raises(InputError, match="there is no column 'id'"):
        scene.run(None)
    (scene.updates / "b.jsonl").write_text("{}")
    with pytest.raises(InputError, match="files of several formats"):
        scene.run(None)


def test_spark_is_started_anew_after_a_second_failure(scene):
    scene.write("a.csv")
    scene.before = [fails(OSError("no")), fails(OSError("no")), None]
    renewed = []
    scene.run(1, renew=lambda: renewed.append(len(scene.before)))
    assert renewed == [1]


def test_a_store_that_another_writes_to(scene):
    """At the first cycle that is an error; later the cycle is left out, however often."""
    scene.write("a.csv")
    scene.run(1)
    scene.write("b.csv")
    with scene.store.writer(silent), pytest.raises(StoreError, match="is being written by process"):
        scene.run(1)
    scene.write("c.csv")
    held = []

    def another():
        held.append(scene.store.writer(silent))

    def take_after_cycle(manifest, staleness):
        another()
        scene.write("d.csv")

    def let_go(message):
        scene.told.append(message)
        if len(scene.told) == 5:
            held.pop().release()

    assert scene.run(7, say=take_after_cycle, warn=let_go, lease=True) == Ran(cycles=2, skipped=5)
    held.pop().release()
    assert scene.lines() == ["a.csv", "b.csv", "c.csv", "d.csv"]
    assert all(line.startswith("this cycle is left out: ") for line in scene.told)


def test_files_that_vanish_while_they_are_read(scene):
    """The cycle begins again at once, with what is still there; that is no failure."""
    gone = scene.write("a.csv")
    scene.write("b.csv")

    def vanish():
        gone.unlink()
        raise FileNotFoundError("a.csv")

    scene.before = [vanish]
    assert scene.run(1) == Ran(cycles=1)
    assert scene.lines() == ["b.csv"]
    assert set(scene.store.manifest()["ledger"]["files"]) == {str(scene.updates / "b.csv")}
    assert len(scene.told) == 1
    assert scene.told[0].startswith(f"{gone} has gone or changed while it was read: the cycle begins again")


def test_a_plan_keeps_pivots(scene):
    scene.write("a.csv")
    with pytest.raises(InputError, match=r"has no snapshot yet: a plan is for the pivots of one"):
        scene.run(1, pivots_hash="0" * 16)
    scene.run(1)
    assert scene.options[-1].merging.pivots is None
    scene.write("b.csv")
    scene.run(1, pivots_hash="0" * 16)
    assert scene.options[-1].merging.pivots == "keep"
    with pytest.raises(InputError, match=r"the plan is for pivots 1{16}, snapshot .* has 0{16}"):
        scene.run(1, pivots_hash="1" * 16)
    with pytest.raises(ValueError, match="pivots is 'auto': with a plan they are only kept"):
        scene.run(1, pivots_hash="0" * 16, pivots="auto")


def test_what_was_read_by_all_snapshots_is_deleted(scene):
    for number in range(4):
        scene.write(f"{number}.csv")
        scene.run(1, disposal=Disposal(None), keep=2)
    # of two snapshots the older one has read 0, 1 and 2
    assert sorted(path.name for path in scene.updates.iterdir()) == ["3.csv"]
    assert scene.lines() == ["0.csv", "1.csv", "2.csv", "3.csv"]
    scene.store.rollback(silent)
    scene.run(1, disposal=Disposal(None), keep=2)
    assert scene.lines() == ["0.csv", "1.csv", "2.csv", "3.csv"]


def test_metrics_of_a_loop(scene, tmp_path):
    pytest.importorskip("prometheus_client")
    scene.write("a.csv", age=50.0)
    scene.write("b.csv", age=0.0)
    metrics = Metrics(file=str(tmp_path / "m.prom"))
    scene.run(3, metrics=metrics)
    found = dict(line.split(" ") for line in (tmp_path / "m.prom").read_text().splitlines() if line[0] != "#")
    assert found["dtoss_cycles_total"] == "1.0"
    assert found["dtoss_beats_skipped_total"] == "2.0"
    assert found["dtoss_files_waiting"] == "1.0"
    assert found['dtoss_last_cycle_seconds{stage="build"}'] == "0.5"
    assert 50.0 <= float(found["dtoss_staleness_seconds"]) < 110.0


def test_a_file_of_metrics_that_cannot_be_written_stops_nothing(scene, tmp_path):
    pytest.importorskip("prometheus_client")
    (tmp_path / "m").mkdir()
    metrics = Metrics(file=str(tmp_path / "m" / "dtoss.prom"))
    (tmp_path / "m" / "dtoss.prom").unlink()
    (tmp_path / "m").rmdir()
    scene.write("a.csv")
    assert scene.run(1, metrics=metrics) == Ran(cycles=1)
    assert scene.told == [f"metrics cannot be written to {tmp_path / 'm' / 'dtoss.prom'}: No such file or directory"]


def test_beats_that_were_missed_are_left_out(scene, monkeypatch):
    """A cycle of two and a half beats: the next one is at the third, not three at once."""
    clock, began = SimpleNamespace(now=70.0), []
    clocked(monkeypatch, pipelines.ticks.run, lambda: clock.now)

    class Told(Stopping):
        def wait(self, seconds):
            clock.now += seconds
            return False

    def slow():
        began.append(clock.now - 70.0)
        clock.now += 0.5 if len(began) == 1 else 0.01
        scene.write(f"{len(began)}.csv")

    scene.write("0.csv")
    scene.before = [slow] * 3
    assert scene.run(3, every=0.2, stopping=Told()) == Ran(cycles=3)
    assert began == pytest.approx([0.0, 0.6, 0.8])


def test_a_signal_between_beats_ends_the_loop(scene):
    scene.write("a.csv")
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM))
    timer.start()
    # a wait that no signal ends is the end of this test
    assert scene.run(2, every=1000.0) == Ran(cycles=1, stopped=True)
    timer.join()


def test_a_signal_in_a_cycle_lets_it_end_and_no_other_begins(scene):
    def asked():
        os.kill(os.getpid(), signal.SIGTERM)
        scene.write("b.csv")

    scene.write("a.csv")
    scene.before = [asked]
    assert scene.run(None) == Ran(cycles=1, stopped=True)
    assert scene.lines() == ["a.csv"]


def test_a_signal_is_heard_where_a_new_spark_has_set_a_handler_of_its_own(scene):
    def started():
        signal.signal(signal.SIGINT, lambda *_: pytest.fail("Spark was ended in a cycle"))

    scene.write("a.csv")
    scene.session, scene.before = started, [lambda: os.kill(os.getpid(), signal.SIGINT)]
    assert scene.run(None) == Ran(cycles=1, stopped=True)


def test_a_cycle_that_fails_because_spark_was_told_to_end_is_no_failure(scene):
    def asked():
        os.kill(os.getpid(), signal.SIGTERM)
        raise ConnectionRefusedError("Java has gone")

    scene.write("a.csv")
    scene.before = [asked]
    assert scene.run(None) == Ran(stopped=True)
    assert scene.told == []
    assert scene.store.writes() is None


@pytest.mark.parametrize(
    ("options", "said"),
    [({"every": 0.0}, "every is 0.0: seconds above 0 are wanted"), ({"cycles": 0}, "cycles is 0: a whole number")],
)
def test_what_cannot_be(scene, options, said):
    with pytest.raises(ValueError, match=said):
        looped(str(scene.updates), str(scene.path), scene.session, **options)
