"""Cycles of a real Spark whose processes are killed, at a moment of each stage: a script, see :func:`main`."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from bench.measuring.machine import family
from dtoss.snapshots.store import Store
from pipelines.cycles.spread import NOTHING
from pipelines.engines.progress import Stages
from pipelines.spark.session import forget_spark, spark_session
from tests.dtoss.snapshots.small_stores import silent
from tests.oracles import apply, standing
from tests.pipelines.cycles.stored import compared, held, merged
from tests.pipelines.cycles.without_spark import assert_clean, assert_holds, begin, rows_of

STAGES = ("updates", "compare", "build", "borders")
RULES = {
    "deleted_for": None, "max_ahead": None, "expire": 90, "pivots": "keep", "keep": 2, "in_place_until": 1e9,
    "here": NOTHING,
}  # fmt: skip
"""Of its cycles: tasks do what a job does in the driver where there is little of it."""
FEW = {"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false"}


def session():
    """A Spark of this process that tries no task twice."""
    return spark_session("local[2]", driver_memory="512m", name="killed", settings=FEW)


def victims(kind: str) -> list[int]:
    """The processes of a kind: Python workers (not the daemon that they fork from), or Java."""
    java = [process for process in family(os.getpid()) if _command(process).startswith("java")]
    if kind == "java":
        return java[:1]
    return [process for process in family(os.getpid())[1:] if _command(process).startswith("python")][1:]


def _command(process: int) -> str:
    try:
        return Path(f"/proc/{process}/comm").read_text()
    except OSError:
        return ""


@contextmanager
def killing(kind: str, stage: str, delay: float):
    """Kill processes of a kind, or this one ("driver"), so many seconds after a stage has begun."""
    real, told = Stages.stage, Counter()

    def kill():
        ends = time.monotonic() + 5.0
        time.sleep(delay)
        while not told["killed"] and time.monotonic() < ends and not told["over"]:
            for process in [os.getpid()] if kind == "driver" else victims(kind):
                os.kill(process, signal.SIGKILL)
                told["killed"] += 1
            time.sleep(0.005)

    @contextmanager
    def staged(self, name):
        if name == stage and not told["begun"]:
            told["begun"] += 1
            threading.Thread(target=kill, daemon=True).start()
        with real(self, name):
            yield

    Stages.stage = staged
    try:
        yield told
    finally:
        told["over"] = 1
        Stages.stage = real


def kills(path: str, rounds: list[tuple[str, str]], seed: int) -> dict[str, int]:
    """Kill in each round of (kind, stage), and look: the old or the new state, and the next cycle applies all once."""
    rng, store, told = np.random.default_rng(seed), Store(path), Counter()
    spark, state = session(), {}
    for number, (kind, stage) in enumerate(rounds, 1):
        rows, now, before = rows_of(number, at=(number, 100 + number)), 100 + number, state
        state, _ = apply(before, rows, now=now, expire=90)
        with killing(kind, stage, float(rng.uniform(0.0, 0.3))) as happened:
            try:
                merged(spark, path, rows, now=now, warn=silent, **RULES)
                told["finished"] += 1
            except Exception:
                told["failed"] += 1
        told["killed"] += happened["killed"]
        found = compared(standing(held(path)))
        assert found in (compared(standing(before)), compared(standing(state))), (kind, stage)
        assert_holds(store, state if found == compared(standing(state)) else before)
        if kind == "java":
            forget_spark()
            spark = session()
        merged(spark, path, rows, now=now, warn=silent, **RULES)
        assert_holds(store, state)
        assert_clean(store)
    spark.stop()
    return dict(told)


def driver(path: str, stage: str, delay: float) -> None:
    """Make a cycle, and be killed in it."""
    spark = session()
    with killing("driver", stage, delay):
        merged(spark, path, rows_of(1, at=(1, 101)), now=101, warn=silent, **RULES)


def cluster(path: str, master: str, marks: str) -> None:
    """Make a cycle on a cluster; while partitions are built a file tells so, and another one is waited for."""
    few = FEW | {"spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"], "spark.executor.memory": "512m"}
    spark = spark_session(master, driver_memory="512m", name="cluster", settings=few)
    real = Stages.stage

    @contextmanager
    def staged(self, name):
        if name == "build":
            # all executors are there by now
            spark.range(0, 4, 1, 4).count()
            threading.Timer(0.2, (Path(marks) / "build").touch).start()
        with real(self, name):
            yield

    Stages.stage = staged
    merged(spark, path, rows_of(1, count=60), now=100, warn=silent, **RULES)
    ends = time.monotonic() + 60.0
    while not (Path(marks) / "killed").exists() and time.monotonic() < ends:
        time.sleep(0.05)
    spark.stop()


def main(arguments: list[str]) -> None:
    """Run ``kills PATH SEED KIND:STAGE ...`` and print what it returns, ``driver PATH STAGE DELAY``, or ``cluster``."""
    what, path, *rest = arguments
    if what == "cluster":
        cluster(path, *rest)
    elif what == "driver":
        driver(path, rest[0], float(rest[1]))
    else:
        begin(path)
        rounds = [tuple(one.split(":")) for one in rest[1:]]
        print(json.dumps(kills(path, rounds, int(rest[0]))))


if __name__ == "__main__":
    main(sys.argv[1:])
