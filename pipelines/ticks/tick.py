"""A beat of a loop that makes snapshots: what has changed becomes current, and what all have read goes.

Whether time alone changes a store: an object was not heard of for too long.

A beat whose files do not all go together: those that cannot be read are refused by name, the others count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dtoss.commits.offsets import in_all
from dtoss.errors import DtossError, InputError
from dtoss.names import columns_of_manifest
from dtoss.rows.store_clock import Scale
from dtoss.snapshots.manifest import space_of_manifest
from dtoss.snapshots.partition_file import decode
from dtoss.snapshots.read_file import ledger_of
from dtoss.snapshots.store import Store
from pipelines.cycles.column_agreement import agree_columns, check_columns
from pipelines.history_tasks.scans import home_of
from pipelines.local_joins import first_look
from pipelines.loop.arriving import Arrivals, ask_for_seal, list_arrivals
from pipelines.loop.disposal import dispose
from pipelines.loop.known_sources import current_manifest
from pipelines.loop.odd_columns import REFUSE, check_ids, check_rows, may_refuse, refusal, session_of, take_apart
from pipelines.options.snapshot_options import Merging
from pipelines.rows.inputs import MixedFiles
from pipelines.rows.position_frame import Positions, placed_rows, screen_positions
from pipelines.rows.read_files import unreadable
from pipelines.spark.session import cause_text
from pipelines.ticks.three_commits import Steady, committed, how_read
from pipelines.windowing.feed_windows import beat as feed_beat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VANISHED = 3
"""How often a cycle begins again at once because files went while they were read."""


def beat(loop: Steady) -> bool:
    """Make a cycle if something has changed; return whether it has.

    Files of two kinds, of which each can be read, make a cycle for each.

    ``loop``: what stays the same.
    """
    ask_for_seal(loop.updates, loop.stopping.wait)
    made, more = False, True
    while more and not (made and loop.stopping.asked):
        done, more = _once(loop)
        made |= done
    return made


def _once(loop: Steady) -> tuple[bool, bool]:
    """Make a cycle if something has changed; return whether it has, and whether there is more to read."""
    for attempt in range(VANISHED):
        manifest = _current(loop)
        ledger = ledger_of(loop.home, manifest)
        read = in_all([ledger, *(one.ledger() for one in loop.feeds)])
        refuses = loop.options.reading.on_odd_file == REFUSE and manifest is not None
        found = list_arrivals(loop.updates, read, loop.patience, loop.listeners.warn, refuses=refuses)
        found = loop.patience.hashed(found, read)
        mine = found.unread(ledger)
        loop.listeners.metrics.files(waiting=len(found.waiting))
        odd = found.broken if refuses else {}
        odd = {file: why for file, why in odd.items() if ledger.fresh({file: found.there[file]}, found.where.stamps)}
        due = bool(odd) or any(mine.fresh.values()) or something_expires(loop.home, manifest, loop.options.merging)
        made: dict[str, Any] | None = None
        more = False
        if not due and not any(found.fresh.values()):
            for one in loop.feeds:
                feed_beat(one)
        else:
            try:
                made, more = committed_apart(loop, found, mine, manifest, due, odd)
            except Exception as error:
                gone = [] if loop.stopping.asked else found.gone()
                if not gone or attempt == VANISHED - 1:
                    raise
                loop.listeners.warn(
                    f"{gone[0]} has gone or changed while it was read: the cycle begins again ({cause_text(error)})"
                )
                continue
        if made is None:
            loop.listeners.metrics.skipped()
            _dispose(loop, found)
            write_metrics(loop)
            return False, more
        staleness = None if mine.oldest is None else max(time.time() - mine.oldest, 0.0)
        loop.listeners.metrics.committed(made, staleness)
        _dispose(loop, found)
        write_metrics(loop)
        loop.listeners.say(made, staleness)
        settle_history(loop.beside.history, loop.listeners.warn)
        return True, more
    raise AssertionError("the last attempt returns or raises")


def _current(loop: Steady) -> dict[str, Any] | None:
    """Return the manifest of the current snapshot; None where there is none yet."""
    home = loop.home
    manifest = current_manifest(home)
    if loop.beside.pivots_hash is None:
        return manifest
    if manifest is None:
        raise InputError(f"{home.path} has no snapshot yet: a plan is for the pivots of one (dtoss rebuild)")
    if manifest["pivots_hash"] != loop.beside.pivots_hash:
        raise InputError(
            f"the plan is for pivots {loop.beside.pivots_hash or 'unknown'}, snapshot {manifest['snapshot']} of "
            f"{home.path} has {manifest['pivots_hash']}: partition numbers mean other regions; run dtoss patterns "
            "and dtoss plan again"
        )
    return manifest


def settle_history(history: str | None, warn: Callable[[str], None]) -> None:
    """Merge small files of the history, and cut where questions go; what fails is tried again after the next cycle."""
    if history is None:
        return
    from dtoss.history.adaptive.adapt import adapt
    from dtoss.history.layouts.compaction import settle

    try:
        settle(home_of(history))
        adapt(home_of(history))
    except (DtossError, OSError) as error:
        warn(f"the history is not settled: {cause_text(error)}")


def _dispose(loop: Steady, found: Arrivals) -> None:
    if loop.beside.disposal is not None:
        others = [one.ledger() for one in loop.feeds]
        gone = dispose(loop.beside.disposal, loop.home, found.where, loop.listeners.warn, others)
        loop.listeners.metrics.files(gone=gone)


def write_metrics(loop: Steady) -> None:
    """Write the file of metrics; a disk that is full is no reason to stop."""
    try:
        loop.listeners.metrics.shown.write()
    except InputError as error:
        loop.listeners.warn(str(error))


def something_expires(home: Store, manifest: dict[str, Any] | None, merging: Merging) -> bool:
    """Return whether a cycle without updates would drop an object.

    ``manifest``: of its current snapshot; None where there is none; where the data tell the time,
    it stands still without updates.

    All times are read once a snapshot, O(objects); after that it is O(1).
    """
    if merging.expire is None or manifest is None or manifest.get("time") is None or manifest["objects"] == 0:
        return False
    if merging.by_data:
        return False
    scale = Scale.of(manifest)
    moment = scale.now() if merging.now is None else scale.read(merging.now)
    return _oldest(home, manifest["snapshot"]) < scale.before(moment, merging.expire)


@lru_cache(maxsize=1)
def _oldest(home: Store, snapshot: str) -> float:
    """Return the least time of a snapshot's objects, on its scale; infinity where there are none."""
    manifest = home.manifest(snapshot)
    scale, least = Scale.of(manifest), np.inf
    for entry in manifest["partitions"]:
        source = home.source(snapshot, entry["file"], entry["bytes"])
        partition = decode(source.data, source.path)
        if partition.times is not None and partition.owned_objects:
            least = min(least, float(scale.numbers(partition.times.slice(0, partition.owned_objects)).min()))
    return least


def committed_apart(
    loop: Steady, found: Arrivals, mine: Arrivals, manifest: dict[str, Any] | None, due: bool, odd: Mapping[str, str]
) -> tuple[dict[str, Any] | None, bool]:
    """Make what has arrived current without files that cannot be read.

    Return its manifest, and whether more is there.
    """
    try:
        made, more = committed(loop, found, mine, manifest, due, odd), False
    except InputError as error:
        if loop.options.reading.on_odd_file != REFUSE and not isinstance(error, MixedFiles):
            raise
        try:
            files = {file: size for file, size in found.fresh.items() if size}
            apart = take_apart(files, partial(_check, loop, found, manifest))
        except Exception:
            raise error from None  # what cannot be looked at says nothing of the files
        if found.gone() or not may_refuse(apart, manifest is not None, loop.patience.has_read):
            raise
        odd, more = {**odd, **apart.odd}, len(apart.groups) > 1
        some = found.some(apart.groups[0] if apart.groups else {})
        fresh = {file: size for file, size in some.fresh.items() if file in mine.fresh}
        made = committed(loop, some, mine.some(fresh), manifest, due, odd)
    for file, why in odd.items():
        loop.patience.tell(file, refusal(why), loop.listeners.warn)
    loop.listeners.metrics.files(refused=len(odd))
    loop.patience.has_read |= made is not None and any(mine.fresh.values())
    return made, more


def _check(loop: Steady, found: Arrivals, manifest: dict[str, Any] | None, files: Mapping[str, int]) -> None:
    """Raise where some files cannot be made current together: reads all of them, and commits nothing."""
    how = how_read(loop, manifest)
    inputs = found.some(files).inputs(schema=loop.options.reading.schema, encoding=how.columns.encoding)
    if inputs is None:
        return
    columns, missing = how.columns_in(inputs), how.missing_in(inputs)
    first_look.check_columns(inputs, replace(columns, attributes="all"))
    check_columns(inputs, manifest, missing)
    if manifest is not None:
        check_ids(inputs, columns.id, manifest["id_type"], f"store {loop.home.shown}")
    session = session_of(loop.sessions)
    try:
        _check_rows(loop, session, how.read(session, inputs), manifest, missing)
    except DtossError:
        raise
    except Exception as error:
        raise unreadable(error, inputs) from None


def _check_rows(
    loop: Steady, session: SparkSession | None, positions: Positions, manifest: dict[str, Any] | None, missing: str
) -> None:
    try:
        reading = loop.options.reading
        space = reading.space_of(None)
        if manifest is not None:
            space = space_of_manifest(manifest)
            agree_columns(positions, manifest, tuple(columns_of_manifest(manifest)), missing)
        rows = screen_positions(positions, space, reading.wrap)
        check_rows(rows.frame, reading.max_bad)
        for one in loop.feeds:
            if one.running is not None:
                one.running.check(session, placed_rows(positions))
    finally:
        positions.release()
