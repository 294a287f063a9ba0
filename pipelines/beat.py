"""One beat of a run: what has arrived is read once, for a history, windows and a store, each in a commit of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from dtoss.commits.ledger import Ledger, in_all
from dtoss.commits.source import Source
from dtoss.errors import DtossError, InputError, StoreError
from dtoss.snapshots.store import Store
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
from pipelines.windowing.feeding import PARTITION, Feed, feed
from pipelines.windowing.feeding import beat as feed_beat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VANISHED = 3
"""How often a cycle begins again at once because files went while they were read."""


class Busy(Exception):
    """Another process writes to the store."""


@dataclass(frozen=True)
class Loop:
    """What stays the same from beat to beat, and what is remembered of the folder: the arguments of a run.

    Parameters
    ----------
    updates, sessions, columns, schema, disposal, pivots_hash, metrics, stopping, say, warn, lease, history
        Of :func:`pipelines.run.run`.
    home
        The store.
    feeds
        Windows that count the same rows.
    options
        Of :func:`pipelines.cycle.cycle`.
    patience
        What is known of files that were not read.
    """

    updates: str
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
    home: Store
    feeds: Sequence[Feed]
    options: Mapping[str, Any]
    patience: Patience = field(default_factory=Patience)


def make_beat(loop: Loop) -> bool:
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
            write(loop)
            return False
        staleness = None if mine.oldest is None else max(time.time() - mine.oldest, 0.0)
        loop.metrics.committed(made, staleness)
        _dispose(loop, found)
        write(loop)
        loop.say(made, staleness)
        _settle(loop)
        return True
    raise AssertionError("the last attempt returns or raises")


def _current(loop: Loop) -> dict[str, Any] | None:
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
    loop: Loop, found: Arrived, mine: Arrived, manifest: dict[str, Any] | None, due: bool
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
        raise Busy(str(error)) from None
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
        some = found.unread(one.ledger())
        positions = reads.positions(session, some)
        if positions is None:
            feed_beat(one)
            continue

        def check(some: Arrived = some) -> None:
            if changed := some.changed():
                raise Vanished(f"{changed[0]} has changed while it was read")

        feed(one, session, positions, Source(files=some.fresh, there=tuple(found.there)), check)


def _append(
    loop: Loop,
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


def _settle(loop: Loop) -> None:
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


def _dispose(loop: Loop, found: Arrived) -> None:
    if loop.disposal is not None:
        others = [one.ledger() for one in loop.feeds]
        loop.metrics.files(gone=dispose(loop.disposal, loop.home, found.where, loop.warn, others))


def write(loop: Loop) -> None:
    """Write the file of metrics; a disk that is full is no reason to stop."""
    try:
        loop.metrics.write()
    except InputError as error:
        loop.warn(str(error))
