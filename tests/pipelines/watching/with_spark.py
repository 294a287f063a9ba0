"""A watch of a real Spark whose processes are killed in mid-batch, and what all its commits tell: a script.

``python -m tests.pipelines.watching.with_spark FOLDER STORE SEED KIND...`` watches a folder once. Each KIND is a fault,
at a moment of a batch that is drawn: "worker" and "java" are killed while tasks run, "driver" too, "commit" is this
process around its commit, and "full" lets the disk of the store have little room for a batch. Each Spark that is
started has 1, 2 or 3 cores. A line of FOLDER.faults tells of each fault. With "spread" for the first KIND rows are
spread over three workers by a layout that is drawn anew for each batch.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import pipelines.loop.arriving_batches
import pipelines.watch
import pipelines.watching.spreading
import pipelines.watching.watch_batches
from dtoss.watch.events.event_log import events
from dtoss.watch.events.watch_tables import verify_watch
from dtoss.watch.subscriptions.current import table_at
from dtoss.watch.watch_folder import Home
from pipelines.spark.session import forget_spark, spark_session
from pipelines.watching.spreading import SpreadOptions
from pipelines.watching.watch_batches import Watching
from tests.dtoss.watch.oracle import Watched
from tests.dtoss.watch.processing.scripted import small
from tests.dtoss.watch.streams import SECOND, SPHERE, change, random_asked, random_rows, settings_of
from tests.pipelines.cycles.with_spark import victims
from tests.pipelines.watching.arrivals import arrive
from tests.pipelines.watching.drawn_layouts import Drawn

ROOT = Path(__file__).parents[3]
FEW = {"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false"}
MOST_ROWS = 1
"""A batch for each file."""
EXPIRE = 60.0
AHEAD_US = 2 * 3_600 * SECOND
"""Old events are folded as if it were so much later: those of the hour in hand are old at once."""
COMMIT_SECONDS = 0.03
"""After a commit began a process is killed so much later at most."""
ROOM_BYTES = 40_000
"""That a full disk may have left."""
DUE = 0.6
"""Share of the batches in which the next fault happens, if its moment comes."""
PATIENCE = 2
"""So many batches may pass without the next fault; then it happens as soon as it can."""
BALLAST = ".ballast"
SPREAD = "spread"


def made(folder, store, seed, files=10, rows=20):
    """Write the files of a random stream, and subscribe; return the rows of each file by its path."""
    rng = np.random.default_rng(seed)
    change(Home(str(store)), [random_asked(rng, f"s{number}") | {"expires": None} for number in range(12)])
    stream = sorted(random_rows(rng, files * rows, objects=6, seconds=200), key=lambda row: row["t"])
    parts = np.array_split(np.arange(len(stream)), files)
    return {
        str(arrive(folder, f"part{number:03}", [stream[row] for row in part])): [stream[row] for row in part]
        for number, part in enumerate(parts)
    }


def assert_told_once(store, files):
    """Hold what is told to the loop over the files that each commit says it has read; return how many events."""
    home = Home(str(store))
    assert verify_watch(home).damaged == []
    loop = Watched(SPHERE, settings_of().schema, round(EXPIRE * SECOND))
    found, last = {}, (0, -1)
    for table in events(home):
        for row in table.to_pylist():
            assert (row["batch"], row["number"]) > last, "twice, or not in order"
            last = (row["batch"], row["number"])
            event = (row["kind"], row["subscription"], row["version"], row["object"], row["t"], row["reason"])
            found.setdefault(row["batch"], []).append(event)
    total = sum(map(len, found.values()))
    known: set[str] = set()
    folded = None
    for number in range(1, home.batches.head().number + 1):
        document = home.batches.read(number).document
        if document["folded"] != folded:
            folded = document["folded"]
            continue
        fresh = sorted(set(document["ledger"]["files"]) - known)
        known |= set(fresh)
        rows = [row for file in fresh for row in files[file]]
        wanted = loop.batch(rows, document["changes"], table_at(home, document["changes"]).to_pylist())
        assert Counter(found.pop(number, [])) == Counter(wanted), number
    assert known == set(files)
    assert found == {}
    return total


def watched(folder, store, seed, *kinds):
    """Watch in a process of its own with these faults; return its exit code and its errors."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.pipelines.watching.with_spark", *map(str, (folder, store, seed, *kinds))],
        cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        _, err = process.communicate(timeout=1800)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, err[-3000:]


def faults(folder):
    """The faults that there were, as they were noted: their kind, cores and batch."""
    path = Path(f"{folder}.faults")
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class Faults:
    """Faults that wait for their batch, one at a time."""

    def __init__(self, folder: str, store: str, seed: int, kinds: list[str]) -> None:
        self.rng = np.random.default_rng(seed)
        self.waiting = list(kinds)
        self.cores = ""
        self._notes, self._store = f"{folder}.faults", store
        self._lasts, self._passed = 0.6, 0

    def _is(self, *kinds: str) -> bool:
        # some batches pass between two faults, and some faults follow one another in one batch
        if not self.waiting or self.waiting[0] not in kinds:
            return False
        self._passed += 1
        return self.rng.random() < DUE or self._passed > PATIENCE

    def _happened(self, batch: int) -> None:
        kind, self._passed = self.waiting.pop(0), 0
        with Path(self._notes).open("a") as file:
            file.write(json.dumps({"kind": kind, "cores": self.cores, "batch": batch}) + "\n")

    def tasks(self, work, number):
        """Kill somebody while tasks run; where they are over before the moment comes, others are killed."""
        if not self._is("worker", "java", "driver"):
            return work()
        over = threading.Event()
        delay = float(self.rng.uniform(0.0, 1.1)) * self._lasts * (self._passed <= PATIENCE)
        thread = threading.Thread(target=self._kill, args=(self.waiting[0], number, delay, over), daemon=True)
        began = time.monotonic()
        thread.start()
        try:
            found = work()
            self._lasts = 0.5 * self._lasts + 0.5 * (time.monotonic() - began)
            return found
        finally:
            over.set()
            thread.join()

    def _kill(self, kind: str, number: int, delay: float, over: threading.Event) -> None:
        if over.wait(delay):
            return
        while not over.is_set():
            found = [os.getpid()] if kind == "driver" else victims(kind)
            if found:
                self._happened(number)
                for process in found:
                    with suppress(ProcessLookupError):
                        os.kill(process, signal.SIGKILL)
                return
            time.sleep(0.002)

    def commit(self, work, number):
        """End this process a little after a commit began, which may be after it is made."""
        if self._is("commit"):
            delay = float(self.rng.uniform(0.0, COMMIT_SECONDS))

            def end() -> None:
                time.sleep(delay)
                self._happened(number)
                os.kill(os.getpid(), signal.SIGKILL)

            threading.Thread(target=end, daemon=True).start()
        return work()

    def batch(self, work, number):
        """Leave little room on the disk of the store while a batch is made; what fits is no fault."""
        if not self._is("full"):
            return work()
        left = int(self.rng.integers(0, ROOM_BYTES))
        disk = os.statvfs(self._store)
        ballast = Path(self._store) / BALLAST
        try:
            with ballast.open("wb") as file, suppress(OSError):
                file.write(bytes(max(disk.f_bavail * disk.f_frsize - left, 0)))
            return work()
        except Exception:
            self._happened(number)
            raise
        finally:
            ballast.unlink()


def main(folder: str, store: str, seed: int, kinds: list[str]) -> None:
    """Watch, and be killed."""
    small(pytest.MonkeyPatch())
    batches = pipelines.watching.watch_batches
    # faults may follow one another in the same batch
    pipelines.loop.arriving_batches.RETRIED_AFTER, pipelines.loop.arriving_batches.FAILURES_IN_A_ROW = (0.1,) * 20, 20
    batches.TENDED_EVERY_US = 0
    real_tasks, real_commit, real_fold, real_batch = (
        batches.run_tasks, batches.commit_batch, batches.fold_watch, Watching.batch,
    )  # fmt: skip
    real_workers, real_spread = batches.run_on_workers, batches.commit_on_workers
    spread = None
    if kinds[:1] == [SPREAD]:
        spread, kinds = SpreadOptions("drawn", 3), kinds[1:]
        pipelines.watching.spreading.strategy_as_said = lambda spread: Drawn(spread.workers)
    fault = Faults(folder, store, seed, kinds)

    def run_tasks(frame, plan, tasks):
        if frame is None:
            return real_tasks(frame, plan, tasks)
        return fault.tasks(lambda: real_tasks(frame, plan, tasks), plan.number)

    def batch(watching, *arguments, **named):
        head = watching.home.batches.head()
        number = 1 if head is None else head.number + 1
        return fault.batch(lambda: real_batch(watching, *arguments, **named), number)

    def on_workers(frame, plan, tasks):
        if frame is None:
            return real_workers(frame, plan, tasks)
        return fault.tasks(lambda: real_workers(frame, plan, tasks), plan.number)

    batches.run_tasks, batches.run_on_workers = run_tasks, on_workers

    def committing(real):
        return lambda plan, *rest, **named: fault.commit(lambda: real(plan, *rest, **named), plan.number)

    batches.commit_on_workers, batches.commit_batch = committing(real_spread), committing(real_commit)
    batches.fold_watch = lambda home, now_us, warn: real_fold(home, now_us + AHEAD_US, warn)
    Watching.batch = batch
    started = []

    def session():
        if not started:
            fault.cores = f"local[{fault.rng.integers(1, 4)}]"
            started.append(spark_session(fault.cores, driver_memory="512m", name="killed", settings=FEW))
        return started[0]

    def renew():
        started.clear()
        forget_spark()

    pipelines.watch.watch_files(
        folder, store, session, once=True, renew=renew, most_rows=MOST_ROWS, expire=EXPIRE,
        warn=lambda text: print(text, file=sys.stderr), patient=True, spread=spread,
    )  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:])
