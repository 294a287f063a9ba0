"""Updates that keep arriving in, snapshot after snapshot out: a cycle at every beat at which something has changed.

Also a script for spark-submit: ``spark-submit pipelines/ticks/run.py --updates DIR --store STORE``, with the options of
``dtoss run``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dtoss.errors import DtossError, StoreError
from dtoss.rows.input_columns import columns_of
from dtoss.snapshots.store import Store
from pipelines.loop.known_sources import current_manifest
from pipelines.loop.stopping import Stopping
from pipelines.options.snapshot_options import SnapshotOptions
from pipelines.options.streaming import Beats
from pipelines.spark.session import cause_text, renew_session
from pipelines.ticks.three_commits import Beside, Busy, Listeners, Steady
from pipelines.ticks.tick import beat as beat_once
from pipelines.ticks.tick import write_metrics
from pipelines.windowing.feed_windows import PARTITION, feeds_of, release

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FAILURES = 3
"""Cycles that may fail in a row; the last of them ends the loop."""
RETRY_SECONDS = (5.0, 20.0)
"""What is waited after a first failure, and after a second one in a row; never longer than a beat."""


class CyclesFailed(Exception):
    """Too many cycles in a row have failed."""


@dataclass(frozen=True)
class Ran:
    """What a loop has done."""

    cycles: int = 0
    skipped: int = 0  # Beats at which nothing had changed
    failures: int = 0
    stopped: bool = False  # Whether a signal has ended it


def run(
    updates: str,
    store: str,
    sessions: Callable[[], SparkSession | None],
    options: SnapshotOptions,
    *,
    beats: Beats,
    beside: Beside,
    listeners: Listeners,
    stopping: Stopping | None = None,
    renew: Callable[[], None] | None = None,
) -> Ran:
    """Make a cycle of the files that arrive at every beat, until a signal comes, and return what was done.

    A beat is skipped where nothing has arrived and nothing expires; Spark starts with the first one that is not. A
    cycle that fails is tried again after a while. The store keeps which files it has read, in the same commit as what
    became of them. So a loop that was killed goes on where the store is, and one of several loops, or a cycle from
    cron, finds what the others have left.

    ``store``: path or URI of the store. Where it has no snapshot, the first files make one; ``stopping``: knows whether
    a signal has come; one that listens to SIGINT and SIGTERM when None; ``renew``: lets go of a session that has ended,
    so that ``sessions`` makes another; None where that cannot be.
    """
    home, warn = Store(str(store)).absolute, listeners.warn
    if beside.pivots_hash is not None:
        options = _keep_pivots(options, "a plan")
    reading = options.reading
    named = columns_of(current_manifest(home) if beside.windows else None, reading.said)
    unit = "ms" if named.time_format == "epoch_ms" else None
    feeds = feeds_of(beside.windows, home, reading, unit, listeners.say_windows, warn, options.keeping.lease)
    try:
        if any(one.by == PARTITION for one in feeds):
            options = _keep_pivots(options, "windows by partition")
        loop = Steady(updates, home, sessions, options, beside, listeners, stopping or Stopping(), feeds)
        with loop.stopping.listening():
            return _beats(loop, beats, renew)
    finally:
        release(feeds)


def _keep_pivots(options: SnapshotOptions, why: str) -> SnapshotOptions:
    """Let a cycle keep the pivots of the store: partition numbers have to go on meaning the same places."""
    if options.merging.pivots not in (None, "keep"):
        raise ValueError(f"pivots is {options.merging.pivots!r}: with {why} they are only kept")
    return replace(options, merging=replace(options.merging, pivots="keep"))


def _beats(loop: Steady, beats: Beats, renew: Callable[[], None] | None) -> Ran:
    ran, in_a_row, beat, done = Ran(), 0, time.monotonic(), 0
    while not loop.stopping.asked:
        try:
            with loop.stopping.cycle():
                made = beat_once(loop)
        except Busy as busy:
            # it ends some time, and has then read its updates, or left them
            if ran == Ran():
                raise StoreError(str(busy)) from None
            loop.listeners.warn(f"this cycle is left out: {busy}")
            loop.listeners.metrics.skipped()
            made = False
        except Exception as error:
            if loop.stopping.asked:
                break  # fails because Spark was told to end, or would be tried again
            if ran == Ran() and isinstance(error, (DtossError, ValueError)):
                raise
            in_a_row += 1
            ran = replace(ran, failures=ran.failures + 1)
            _failed(loop, error, in_a_row)
            renew_session(renew, error, in_a_row, loop.listeners.warn)
            pause = min(RETRY_SECONDS[in_a_row - 1], beats.every)
            loop.listeners.warn(f"the cycle is tried again in {pause:g} s")
            loop.stopping.wait(pause)
            continue
        in_a_row = 0
        ran = replace(ran, cycles=ran.cycles + made, skipped=ran.skipped + (not made))
        done += 1
        if done == beats.cycles:
            break
        # beats that were missed are left out
        beat += beats.every * max(math.ceil((time.monotonic() - beat) / beats.every), 1)
        loop.stopping.wait(beat - time.monotonic())
    return replace(ran, stopped=loop.stopping.asked)


def _failed(loop: Steady, error: Exception, in_a_row: int) -> None:
    """Tell of a cycle that failed."""
    loop.listeners.metrics.failed(in_a_row)
    write_metrics(loop)
    if in_a_row >= FAILURES:
        raise CyclesFailed(f"{in_a_row} cycles in a row have failed, the last one: {cause_text(error)}") from error
    loop.listeners.warn(f"a cycle has failed: {cause_text(error)}")


if __name__ == "__main__":
    from pipelines.command.main import run_script

    run_script("run")
