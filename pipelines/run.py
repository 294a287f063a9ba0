"""Updates that keep arriving in, snapshot after snapshot out: a cycle at every beat at which something has changed.

Also a script for spark-submit: ``spark-submit pipelines/run.py --updates DIR --store STORE``, with the options of
``dtoss run``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from dtoss.commits.ledger import Ledger, in_all
from dtoss.commits.source import Source
from dtoss.errors import DtossError, InputError, StoreError
from dtoss.geometry.space import Space, space_of
from dtoss.snapshots.store import Store, on_stderr
from pipelines.cycle import cycle
from pipelines.history import append_files, options_of_cycle
from pipelines.loop.arriving import Arrived, Patience, arrived
from pipelines.loop.batches import Vanished
from pipelines.loop.disposal import Disposal, dispose
from pipelines.loop.expiry import something_expires
from pipelines.loop.known import columns_of, current_manifest, ledger_of
from pipelines.loop.metrics import Metrics
from pipelines.loop.reads import Reads
from pipelines.loop.stopping import Stopping
from pipelines.past.file_keys import KeyedFile, keyed
from pipelines.past.place import home_of
from pipelines.rows.described import types_of
from pipelines.rows.inputs import Inputs
from pipelines.rows.positions import Columns, Positions
from pipelines.rows.read_files import read_positions, unreadable
from pipelines.spark.causes import said
from pipelines.spark.renewal import renewed
from pipelines.windowing.asked import Asked
from pipelines.windowing.feeding import PARTITION, Feed, feed, feeds_of, release
from pipelines.windowing.feeding import beat as feed_beat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.loop.ran import Ran as RanWindows

FAILURES = 3
"""Cycles that may fail in a row; the last of them ends the loop."""
RETRY_SECONDS = (5.0, 20.0)
"""What is waited after a first failure, and after a second one in a row; never longer than a beat."""
VANISHED = 3
"""How often a cycle begins again at once because files went while they were read."""


class CyclesFailed(Exception):
    """Too many cycles in a row have failed."""


class _Busy(Exception):
    """Another process writes to the store."""


@dataclass(frozen=True)
class Ran:
    """What a loop has done.

    Parameters
    ----------
    cycles
        That became current.
    skipped
        Beats at which nothing had changed.
    failures
        Cycles that failed.
    stopped
        Whether a signal has ended it.
    """

    cycles: int = 0
    skipped: int = 0
    failures: int = 0
    stopped: bool = False


@dataclass(frozen=True)
class _Loop:
    """What stays the same from beat to beat, and what is remembered of the folder."""

    updates: str
    home: Store
    sessions: Callable[[], SparkSession]
    columns: Mapping[str, Any]
    schema: str
    disposal: Disposal | None
    pivots_hash: str | None
    metrics: Metrics
    stopping: Stopping
    say: Callable[[dict[str, Any], float | None], None]
    warn: Callable[[str], None]
    lease: bool
    history: str | None
    feeds: Sequence[Feed]
    options: Mapping[str, Any]
    patience: Patience = field(default_factory=Patience)


def run(
    updates: str,
    store: str,
    sessions: Callable[[], SparkSession],
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
    windows: Sequence[Asked] = (),
    say_windows: Callable[[str, RanWindows], None] | None = None,
    **options: Any,
) -> Ran:
    """Make a cycle of the files that arrive at every beat, until a signal comes, and return what was done.

    A beat is skipped where nothing has arrived and nothing expires; Spark starts with the first one that is not. A
    cycle that fails is tried again after a while. The store keeps which files it has read, in the same commit as what
    became of them. So a loop that was killed goes on where the store is, and one of several loops, or a cycle from
    cron, finds what the others have left.

    Parameters
    ----------
    updates
        The folder in which files arrive, :func:`pipelines.loop.arriving.arrived`.
    store
        Path or URI of the store. Where it has no snapshot, the first files make one.
    sessions
        Returns the session, or a new one where there is none.
    every
        Seconds from beat to beat; one that is missed is left out.
    cycles
        Beats after which the loop ends; it does not when None.
    columns
        Of :class:`pipelines.rows.positions.Columns`, what is not as the store's last rebuild had it.
    schema
        Of Parquet files: "union" or "strict", as :func:`pipelines.rows.inputs.look`.
    disposal
        What is done with files that every snapshot has read; they stay when None.
    pivots_hash
        Of the plan by which partitions are served: pivots are kept, and are an error where they are others.
    metrics
        Where numbers go; nowhere when None.
    stopping
        Knows whether a signal has come; one that listens to SIGINT and SIGTERM when None.
    renew
        Lets go of a session that has ended, so that ``sessions`` makes another; None where that cannot be.
    say
        Is told of every cycle: its manifest, and the age in seconds of its oldest update.
    warn
        Is told what looks wrong but is legal, and of cycles that fail; stderr when None.
    lease
        As :func:`pipelines.cycle.cycle`.
    history
        Path or URI of a history of positions, to which all rows that are not rejected are appended before they become
        current, and which is settled and adapts between beats; None for none.
    windows
        Windows of the store, in which all rows count before they become current. Each of them reads what it has not
        read, so one that begins later counts the files that are still there.
    say_windows
        Is told of each batch of windows, after their name.
    **options
        Other arguments of :func:`pipelines.cycle.cycle`.

    Raises
    ------
    InputError
        If the plan is for other pivots, there is nothing to look at, or windows cannot begin.
    StoreError
        If another process writes to the store at the first beat, runs windows of it, or it is damaged.
    ValueError
        If an argument is out of its bounds.
    CyclesFailed
        If three cycles in a row fail. The error of the very first one is raised as it is where it is the user's.
    """
    if not (math.isfinite(every) and every > 0.0):
        raise ValueError(f"every is {every!r}: seconds above 0 are wanted")
    if cycles is not None and cycles < 1:
        raise ValueError(f"cycles is {cycles!r}: a whole number of at least 1 is wanted")
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
        loop = _Loop(
            updates, home, sessions, columns or {}, schema, disposal, pivots_hash, metrics or Metrics(),
            stopping or Stopping(), say or (lambda manifest, staleness: None), warn, lease, history, feeds, options,
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


def _beats(loop: _Loop, every: float, cycles: int | None, renew: Callable[[], None] | None) -> Ran:
    ran, in_a_row, beat, beats = Ran(), 0, time.monotonic(), 0
    while not loop.stopping.asked:
        try:
            with loop.stopping.cycle():
                made = _beat(loop)
        except _Busy as busy:
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
            renewed(renew, error, in_a_row, loop.warn)
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


def _failed(loop: _Loop, error: Exception, in_a_row: int) -> None:
    """Tell of a cycle that failed.

    Raises
    ------
    CyclesFailed
        If that is enough.
    """
    loop.metrics.failed(in_a_row)
    _write(loop)
    if in_a_row >= FAILURES:
        raise CyclesFailed(f"{in_a_row} cycles in a row have failed, the last one: {said(error)}") from error
    loop.warn(f"a cycle has failed: {said(error)}")


def _beat(loop: _Loop) -> bool:
    """Make a cycle if something has changed; return whether it has."""
    for attempt in range(VANISHED):
        manifest = _current(loop)
        ledger = ledger_of(manifest)
        read = Ledger(in_all([ledger, *(one.ledger() for one in loop.feeds)]))
        found = arrived(loop.updates, read, loop.patience, loop.warn)
        mine = found.unread(ledger)
        loop.metrics.files(waiting=len(found.waiting))
        due = any(mine.fresh.values()) or something_expires(loop.home, manifest, loop.options)
        made: dict[str, Any] | None = None
        if not due and not any(found.fresh.values()):
            for one in loop.feeds:
                feed_beat(one)
        else:
            try:
                made = _cycle(loop, found, mine, manifest, due)
            except Exception as error:
                gone = [] if loop.stopping.asked else found.gone()
                if not gone or attempt == VANISHED - 1:
                    raise
                loop.warn(f"{gone[0]} has gone or changed while it was read: the cycle begins again ({said(error)})")
                continue
        if made is None:
            loop.metrics.skipped()
            _dispose(loop, found)
            _write(loop)
            return False
        staleness = None if mine.oldest is None else max(time.time() - mine.oldest, 0.0)
        loop.metrics.committed(made, staleness)
        _dispose(loop, found)
        _write(loop)
        loop.say(made, staleness)
        _settle(loop)
        return True
    raise AssertionError("the last attempt returns or raises")


def _current(loop: _Loop) -> dict[str, Any] | None:
    """Return the manifest of the current snapshot; None where there is none yet.

    Raises
    ------
    InputError
        If it has other pivots than the plan.
    """
    home = loop.home
    manifest = current_manifest(home)
    if loop.pivots_hash is None:
        return manifest
    if manifest is None:
        raise InputError(f"{home.path} has no snapshot yet: a plan is for the pivots of one (dtoss rebuild)")
    if manifest["pivots_hash"] != loop.pivots_hash:
        raise InputError(
            f"the plan is for pivots {loop.pivots_hash or 'unknown'}, snapshot {manifest['snapshot']} of "
            f"{home.path} has {manifest['pivots_hash']}: partition numbers mean other regions; run dtoss patterns "
            "and dtoss plan again"
        )
    return manifest


def _cycle(
    loop: _Loop, found: Arrived, mine: Arrived, manifest: dict[str, Any] | None, due: bool
) -> dict[str, Any] | None:
    """Append what has arrived to the history, count it in windows, and make it current; return the manifest of that.

    Each of the three commits by itself, in this order, and skips files that it has: whoever is killed between two of
    them goes on with the next one. None where the store has read all of it.
    """
    columns = columns_of(manifest, loop.columns)
    # a second writer is told before Spark starts
    try:
        lock = loop.home.writer(loop.warn) if loop.lease and due else None
    except StoreError as error:
        if loop.home.writes() is None:
            raise
        raise _Busy(str(error)) from None
    try:
        wanted = types_of(manifest, columns)
        reads = Reads(partial(_read, columns, wanted), loop.schema, columns.encoding)
        inputs = reads.inputs(mine)
        with loop.stopping.starting():
            session = loop.sessions()
        loop.stopping.listen_again()
        keys = [] if loop.history is None or inputs is None else keyed(inputs)
        early = [one for one in loop.feeds if manifest is not None or one.by != PARTITION]
        try:
            positions = reads.positions(session, mine)
            if loop.history is not None and inputs is not None:
                _append(loop, session, inputs, columns, positions, keys, manifest)
            _feed(early, session, reads, found)
            if not due:
                return None
            made = cycle(
                positions,
                loop.home.path,
                deleted=columns.deleted,
                ledger=mine.read,
                warn=loop.warn,
                lock=lock,
                lease=loop.lease,
                **loop.options,
            )
            # partitions of a first snapshot are keys from now on
            _feed([one for one in loop.feeds if one not in early], session, reads, found)
            return made
        except DtossError:
            raise
        except Exception as error:
            last = reads.last()
            if last is None:
                raise
            # a file of which the damage shows only when all of it is read
            raise unreadable(error, last) from None
        finally:
            reads.release()
    finally:
        if lock is not None:
            lock.release()


def _read(columns: Columns, wanted: Mapping[str, str], session: SparkSession, inputs: Inputs) -> Positions:
    return read_positions(session, inputs, columns, wanted=wanted)


def _feed(feeds: Sequence[Feed], session: SparkSession, reads: Reads, found: Arrived) -> None:
    """Count what has arrived in windows, each of which leaves out the files that it has."""
    for one in feeds:
        for some in one.batches(found.unread(one.ledger())):
            positions = reads.positions(session, some)
            if positions is None:
                feed_beat(one)
                continue

            def check(some: Arrived = some) -> None:
                if changed := some.changed():
                    raise Vanished(f"{changed[0]} has changed while it was read")

            feed(one, session, positions, Source(files=some.fresh, there=tuple(found.there)), check)


def _append(
    loop: _Loop,
    session: SparkSession,
    inputs: Inputs,
    columns: Columns,
    positions: Positions | None,
    keys: Sequence[KeyedFile],
    manifest: Mapping[str, Any] | None,
) -> None:
    """Append what has arrived to the history: first, so that what is current was kept."""
    assert loop.history is not None
    append_files(
        lambda: session,
        inputs,
        loop.history,
        columns,
        warn=loop.warn,
        schema=loop.schema,
        read=positions,
        files=keys,
        **options_of_cycle(manifest, loop.options),
    )


def _settle(loop: _Loop) -> None:
    """Merge small files of the history, and cut where questions go; what fails is tried again after the next cycle."""
    if loop.history is None:
        return
    from dtoss.history.adapting.adapt import adapt
    from dtoss.history.orders.settle import settle

    try:
        settle(home_of(loop.history))
        adapt(home_of(loop.history))
    except (DtossError, OSError) as error:
        loop.warn(f"the history is not settled: {said(error)}")


def _dispose(loop: _Loop, found: Arrived) -> None:
    if loop.disposal is not None:
        others = [one.ledger() for one in loop.feeds]
        loop.metrics.files(gone=dispose(loop.disposal, loop.home, found.where, loop.warn, others))


def _write(loop: _Loop) -> None:
    """Write the file of metrics; a disk that is full is no reason to stop."""
    try:
        loop.metrics.write()
    except InputError as error:
        loop.warn(str(error))


if __name__ == "__main__":
    from pipelines.command.main import run_script

    run_script("run")
