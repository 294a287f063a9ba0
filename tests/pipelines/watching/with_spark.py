"""A watch of a real Spark whose processes are killed in mid-batch, and what all its commits tell: a script.

``python -m tests.pipelines.watching.with_spark FOLDER STORE SEED KIND...`` watches a folder once. Each KIND is a kill,
in a batch of its own, a little after its tasks began: "worker", "java", or "driver", which ends this process.
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

import pipelines.watch
import pipelines.watching.batches
from dtoss.watch.asked.live import table_at
from dtoss.watch.home import Home
from pipelines.spark.session import forget_spark, spark_session
from tests.dtoss.watch.streams import SECOND, SPHERE, change, random_asked, random_rows, settings_of, told
from tests.oracles import Watched
from tests.pipelines.cycles.with_spark import victims
from tests.pipelines.watching.arrivals import arrive

ROOT = Path(__file__).parents[3]
FEW = {"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false"}
MOST_ROWS = 1
"""A batch for each file."""
EXPIRE = 60.0


def made(folder, store, seed, files=10, rows=20):
    """Write the files of a random stream, and subscribe; return the rows of each file by its path."""
    rng = np.random.default_rng(seed)
    home = Home(str(store))
    change(home, [random_asked(rng, f"s{number}") | {"expires": None} for number in range(12)])
    stream = sorted(random_rows(rng, files * rows, objects=6, seconds=200), key=lambda row: row["t"])
    parts = np.array_split(np.arange(len(stream)), files)
    return {
        str(arrive(folder, f"part{number:03}", [stream[row] for row in part])): [stream[row] for row in part]
        for number, part in enumerate(parts)
    }


def assert_told_once(store, files):
    """Hold every commit to the loop, fed with the rows of the files that it has read."""
    home = Home(str(store))
    loop = Watched(SPHERE, settings_of().schema, round(EXPIRE * SECOND))
    known: set[str] = set()
    head = home.batches.head()
    for number in range(1, head.number + 1):
        document = home.batches.read(number).document
        fresh = sorted(set(document["ledger"]["files"]) - known)
        known |= set(fresh)
        rows = [row for file in fresh for row in files[file]]
        wanted = loop.batch(rows, document["changes"], table_at(home, document["changes"]).to_pylist())
        assert Counter(told(home, number)) == Counter(wanted), number
    assert known == set(files)


def watched(folder, store, seed, *kinds):
    """Watch in a process of its own with these kills; return its exit code, what it counted, and its errors."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.pipelines.watching.with_spark", *map(str, (folder, store, seed, *kinds))],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        out, err = process.communicate(timeout=280)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, json.loads(out) if out else {}, err[-3000:]


def main(folder: str, store: str, seed: int, kinds: list[str]) -> None:
    """Watch, and be killed."""
    rng = np.random.default_rng(seed)
    counts: Counter[str] = Counter()
    waiting = list(kinds)
    real = pipelines.watching.batches.run_tasks
    # kills may follow one another in the same batch
    pipelines.watch.RETRIED_AFTER, pipelines.watch.FAILURES_IN_A_ROW = (0.1,) * 20, 20

    def kill(kind: str, delay: float, over: threading.Event) -> None:
        time.sleep(delay)
        while not over.is_set():
            found = [os.getpid()] if kind == "driver" else victims(kind)
            for process in found:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
                    counts[kind] += 1
            if found:
                return
            time.sleep(0.002)

    def run_tasks(frame, plan, tasks):
        over = threading.Event()
        if frame is not None and waiting and plan.number > 1:
            # a batch that is over before the moment comes is none: another one is killed
            kind, delay = waiting[0], float(rng.uniform(0.0, 0.3))
            before = counts[kind]
            threading.Thread(target=kill, args=(kind, delay, over), daemon=True).start()
            try:
                return real(frame, plan, tasks)
            finally:
                over.set()
                if counts[kind] > before:
                    waiting.pop(0)
        return real(frame, plan, tasks)

    pipelines.watching.batches.run_tasks = run_tasks
    started = []

    def session():
        if not started:
            started.append(spark_session("local[2]", driver_memory="512m", name="killed", settings=FEW))
        return started[0]

    def renew():
        counts["renewed"] += 1
        started.clear()
        forget_spark()

    done = pipelines.watch.watch_files(
        folder, store, session, once=True, renew=renew, most_rows=MOST_ROWS, expire=EXPIRE,
        warn=lambda text: print(text, file=sys.stderr), patient=True,
    )  # fmt: skip
    counts["batches"] = done.batches
    print(json.dumps(counts))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:])
