"""Updates that keep arriving in, snapshot after snapshot out: a cycle at every beat at which something has changed.

Also a script for spark-submit: ``spark-submit pipelines/ticks/run.py --updates DIR --store STORE``, with the options of
``dtoss run``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dtoss.errors import DtossError, StoreError
from dtoss.geometry.space import Space, space_of
from dtoss.snapshots.store import Store, on_stderr
from pipelines.loop.disposal import Disposal
from pipelines.loop.known_sources import columns_of, current_manifest
from pipelines.loop.loop_metrics import Metrics
from pipelines.loop.odd_columns import REFUSE, check_words
from pipelines.loop.stopping import Stopping
from pipelines.spark.causes import cause_text
from pipelines.spark.session import renew_session
from pipelines.ticks.three_commits import Busy, Steady
from pipelines.ticks.tick import beat as beat_once
from pipelines.ticks.tick import write_metrics
from pipelines.windowing.feed_windows import PARTITION, feeds_of, release
from pipelines.windowing.window_options import WindowOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.loop.batch_report import Ran as RanWindows

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
    *,
    every: float = 60.0,
    cycles: int | None = None,
    columns: Mapping[str, Any] | None = None,
    schema: str = "union",
    disposal: Disposal | None = None,
    pivots_hash: str | None = None,
    metrics: Metrics | None = None,
    stopping: Stopping | None = None,
    renew: Callable[[], None] | None = None,
    say: Callable[[dict[str, Any], float | None], None] | None = None,
    warn: Callable[[str], None] | None = None,
    lease: bool = True,
    history: str | None = None,
    windows: Sequence[WindowOptions] = (),
    say_windows: Callable[[str, RanWindows], None] | None = None,
    on_odd_file: str = REFUSE,
    **options: Any,
) -> Ran:
    """Make a cycle of the files that arrive at every beat, until a signal comes, and return what was done.

    A beat is skipped where nothing has arrived and nothing expires; Spark starts with the first one that is not. A
    cycle that fails is tried again after a while. The store keeps which files it has read, in the same commit as what
    became of them. So a loop that was killed goes on where the store is, and one of several loops, or a cycle from
    cron, finds what the others have left.

    ``store``: path or URI of the store. Where it has no snapshot, the first files make one; ``every``: seconds from
    beat to beat; one that is missed is left out; ``cycles``: beats after which the loop ends; it does not when None;
    ``columns``: of :class:`pipelines.rows.input_columns.Columns`, what is not as the store's last rebuild had it;
    ``schema``: of Parquet files: "union" or "strict", as :func:`pipelines.rows.inputs.look`; ``disposal``: what is done
    with files that every snapshot has read; they stay when None; ``pivots_hash``: of the plan by which partitions are
    served: pivots are kept, and are an error where they are others; ``metrics``: where numbers go; nowhere when None;
    ``stopping``: knows whether a signal has come; one that listens to SIGINT and SIGTERM when None; ``renew``: lets go
    of a session that has ended, so that ``sessions`` makes another; None where that cannot be; ``say``: is told of
    every cycle: its manifest, and the age in seconds of its oldest update; ``warn``: is told what looks wrong but is
    legal, and of cycles that fail; stderr when None; ``history``: path or URI of a history of positions, to which all
    rows that are not rejected are appended before they become current, and which is settled and adapts between beats;
    None for none; ``on_odd_file``: "refuse" sets a file that cannot be read in the types at hand aside, by name, and
    the others go on; "fail" fails the cycle.
    """
    if not (math.isfinite(every) and every > 0.0):
        raise ValueError(f"every is {every!r}: seconds above 0 are wanted")
    if cycles is not None and cycles < 1:
        raise ValueError(f"cycles is {cycles!r}: a whole number of at least 1 is wanted")
    check_words(on_odd_file)
    home, warn = Store(str(store)).absolute, warn or on_stderr
    if pivots_hash is not None:
        _keep_pivots(options, "a plan")
    told = say_windows or (lambda name, ran: None)
    named = columns_of(current_manifest(home) if windows else None, columns or {})
    unit = "ms" if named.time_format == "epoch_ms" else None
    space, bad = _space_of(options), options.get("max_bad", 0.10)
    feeds = feeds_of(windows, home, space, bad, options.get("wrap", False), unit, told, warn, lease)
    try:
        if any(one.by == PARTITION for one in feeds):
            _keep_pivots(options, "windows by partition")
        loop = Steady(
            updates, home, sessions, columns or {}, schema, disposal, pivots_hash, metrics or Metrics(),
            stopping or Stopping(), say or (lambda manifest, staleness: None), warn, lease, history, feeds, options,
            on_odd_file,
        )  # fmt: skip
        with loop.stopping.listening():
            return _beats(loop, every, cycles, renew)
    finally:
        release(feeds)


def _keep_pivots(options: dict[str, Any], why: str) -> None:
    """Let a cycle keep the pivots of the store: partition numbers have to go on meaning the same places."""
    if options.get("pivots", "keep") != "keep":
        raise ValueError(f"pivots is {options['pivots']!r}: with {why} they are only kept")
    options["pivots"] = "keep"


def _space_of(options: Mapping[str, Any]) -> Space | None:
    """Return the space that is named for a store's first snapshot; None where none is."""
    first = options.get("first") or {}
    crs, metric = first.get("crs"), first.get("metric")
    return None if crs is None and metric is None else space_of(crs, metric)


def _beats(loop: Steady, every: float, cycles: int | None, renew: Callable[[], None] | None) -> Ran:
    ran, in_a_row, beat, beats = Ran(), 0, time.monotonic(), 0
    while not loop.stopping.asked:
        try:
            with loop.stopping.cycle():
                made = beat_once(loop)
        except Busy as busy:
            # it ends some time, and has then read its updates, or left them
            if ran == Ran():
                raise StoreError(str(busy)) from None
            loop.warn(f"this beat is left out: {busy}")
            loop.metrics.skipped()
            made = False
        except Exception as error:
            if loop.stopping.asked:
                break  # fails because Spark was told to end, or would be tried again
            if ran == Ran() and isinstance(error, (DtossError, ValueError)):
                raise
            in_a_row += 1
            ran = replace(ran, failures=ran.failures + 1)
            _failed(loop, error, in_a_row)
            renew_session(renew, error, in_a_row, loop.warn)
            pause = min(RETRY_SECONDS[in_a_row - 1], every)
            loop.warn(f"the cycle is tried again in {pause:g} s")
            loop.stopping.wait(pause)
            continue
        in_a_row = 0
        ran = replace(ran, cycles=ran.cycles + made, skipped=ran.skipped + (not made))
        beats += 1
        if beats == cycles:
            break
        # beats that were missed are left out
        beat += every * max(math.ceil((time.monotonic() - beat) / every), 1)
        loop.stopping.wait(beat - time.monotonic())
    return replace(ran, stopped=loop.stopping.asked)


def _failed(loop: Steady, error: Exception, in_a_row: int) -> None:
    """Tell of a cycle that failed."""
    loop.metrics.failed(in_a_row)
    write_metrics(loop)
    if in_a_row >= FAILURES:
        raise CyclesFailed(f"{in_a_row} cycles in a row have failed, the last one: {cause_text(error)}") from error
    loop.warn(f"a cycle has failed: {cause_text(error)}")


if __name__ == "__main__":
    from pipelines.command.main import run_script

    run_script("run")
