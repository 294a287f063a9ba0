"""Batch after batch of files that arrive in a folder, until a signal comes: what watches and windows go round in.

Which files make a batch: the oldest first, whole files, about so many rows together.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from dtoss.commits.offsets import Ledger, Source
from dtoss.errors import DtossError, InputError
from dtoss.rows.input_columns import DEFAULTS, Columns
from pipelines.local_joins.first_look import check_columns
from pipelines.loop.arriving import Arrivals, Patience, list_arrivals
from pipelines.loop.odd_columns import (
    FAIL,
    REFUSE,
    check_words,
    may_refuse,
    refusal,
    session_of,
    take_apart,
)
from pipelines.loop.stopping import Stopping
from pipelines.rows.inputs import MixedFiles
from pipelines.rows.position_frame import Positions
from pipelines.rows.read_files import read_positions, unreadable
from pipelines.spark.session import cause_text, renew_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.rows.inputs import Inputs

FAILURES_IN_A_ROW = 3
"""Batches that may fail in a row; the last of them ends the loop."""
RETRIED_AFTER = (5.0, 20.0)
"""Seconds that are waited after a first failure, and after a second one in a row."""
YOUNG_WAIT_SECONDS = 0.25


class BatchesFailed(Exception):
    """Too many batches in a row have failed."""


class FileVanished(InputError):
    """A file has gone, or has other bytes, since it was listed."""


@dataclass(frozen=True)
class Sources:
    """The files that arrive, and how they are read."""

    positions: str | Sequence[str]  # The folder in which files arrive; a file or a glob, too, or several of them
    columns: Columns = DEFAULTS  # Which columns mean what, as far as the user says it, and how text is written
    schema: str = "union"  # Of Parquet files: "union" or "strict"
    most_rows: int | None = None  # Rows of a batch, about, of whole files; None takes all there are
    on_odd_file: str = REFUSE  # Sets files that cannot be read aside, by name; "fail" ends the batch

    def __post_init__(self) -> None:
        if self.most_rows is not None and self.most_rows < 1:
            raise InputError(f"--max-rows-per-batch is {self.most_rows}: 1 or more is wanted")
        check_words(self.on_odd_file)


@dataclass(frozen=True)
class Pace:
    """When files are looked for, and for how long."""

    every: float  # Seconds from look to look
    beat: float  # Seconds from beat to beat where there are no rows
    once: bool = False  # Read what there is, and end
    # Whether a batch that fails for no reason of its rows is tried again; unless once when None
    patient: bool | None = None

    def __post_init__(self) -> None:
        for option, seconds in (("--every", self.every), ("--beat", self.beat)):
            if not seconds > 0.0:
                raise InputError(f"{option} is {seconds:g} s: more than 0 is wanted")


@dataclass
class Loop:
    """What is done with files that arrive."""

    sources: Sources
    pace: Pace
    # Returns the session, None where this process does the work; it is asked once there are rows
    sessions: Callable[[], SparkSession | None]
    ledger: Callable[[], Ledger]  # Returns what was read
    # Returns which columns of an input mean what, and the Spark types that some are to have
    chosen: Callable[[SparkSession | None, Inputs], tuple[Columns, Mapping[str, str]]]
    # Takes the session, the rows, where they come from, and what raises if files have changed since; returns whether it
    # has committed anything
    batch: Callable[[SparkSession | None, Positions, Source, Callable[[], None]], bool]
    beat: Callable[[], bool]  # Is called without rows; returns whether it has committed anything
    stopping: Stopping  # Whether somebody has asked to end
    warn: Callable[[str], None]  # Is told what looks wrong but is legal
    renew: Callable[[], None] | None = None  # Is called before Spark is started anew, after it has gone
    batches: int = 0  # That have committed so far
    # Returns which of the files that were not read come first, in one batch; None where any will do
    first: Callable[[Mapping[str, int]], dict[str, int] | None] = lambda fresh: None
    others: Mapping[str, str | None] = field(default_factory=dict)  # Columns that are named besides, by their options
    # Takes the session and rows, and raises InputError where they cannot be taken: reads all of them, and commits
    # nothing
    check: Callable[[SparkSession | None, Positions], None] = lambda session, positions: None
    # Raises InputError where files cannot be taken, by what is known of them before they are read
    fits: Callable[[Inputs], None] = lambda inputs: None
    # Commits that files were read, or are refused, without rows; returns whether it has. None where nothing can be
    # committed yet
    refuse: Callable[[Source], bool] | None = None
    stands: Callable[[], bool] = lambda: True  # Returns whether there are types that files are held to
    # Returns whether files are known by their bytes under whatever name, and not under their own only
    by_bytes: Callable[[], bool] = lambda: False
    _patience: Patience = field(default_factory=Patience)
    _same: dict[str, str] = field(default_factory=dict)


def go_round(loop: Loop) -> bool:
    """Make batches of what arrives until somebody asks to end; return whether somebody has."""
    every, beat, once = loop.pace.every, loop.pace.beat, loop.pace.once
    tries_again = not once if loop.pace.patient is None else loop.pace.patient
    failed = 0
    last_beat = time.monotonic()
    while not loop.stopping.asked:
        try:
            found, batches = _batches_of(loop)
            if not batches and (once or time.monotonic() - last_beat >= beat):
                last_beat = time.monotonic()
                if once and found.grows(time.time()):
                    loop.stopping.wait(YOUNG_WAIT_SECONDS)
                    continue
                for file in found.waiting if once else ():
                    loop._patience.tell(file, "has no footer, and is left for the next run", loop.warn)
                with loop.stopping.cycle():
                    loop.batches += loop.beat()
            for files in batches:
                if loop.stopping.asked:
                    break
                with loop.stopping.cycle():
                    loop.batches += _batch(loop, found, files)
                found = replace(found, broken={})
                failed = 0
                last_beat = time.monotonic()
        except Exception as error:
            if loop.stopping.asked:
                break
            listed_anew = isinstance(error, FileVanished)
            patient = tries_again and (loop.batches > 0 or not isinstance(error, DtossError | ValueError))
            if isinstance(error, DtossError | ValueError) and not (patient or listed_anew):
                raise
            failed += 1
            if failed >= FAILURES_IN_A_ROW or not (tries_again or listed_anew):
                many = f"{failed} batches in a row have failed, the last one"
                raise BatchesFailed(f"{many if failed > 1 else 'the batch has failed'}: {cause_text(error)}") from error
            pause = YOUNG_WAIT_SECONDS if listed_anew else RETRIED_AFTER[failed - 1]
            loop.warn(f"a batch has failed: {cause_text(error)}; it is tried again in {pause:g} s")
            renew_session(loop.renew, error, failed, loop.warn)
            loop.stopping.wait(pause)
            continue
        failed = 0
        if once and not batches:
            break
        if not once:
            loop.stopping.wait(every)
    return loop.stopping.asked


def _batches_of(loop: Loop) -> tuple[Arrivals, list[dict[str, int]]]:
    """Return what has arrived, and the files of each batch to make of it."""
    ledger = loop.ledger()
    refuses = loop.sources.on_odd_file == REFUSE and loop.refuse is not None and loop.stands()
    found = list_arrivals(loop.sources.positions, ledger, loop._patience, loop.warn, refuses=refuses)
    found = replace(found, broken=found.broken if refuses else {})
    found = loop._patience.hashed(found, ledger)
    loop._same = {}
    if loop.by_bytes():
        found = _without_same(loop, found, ledger)
    if not any(found.fresh.values()):
        return found, [{}] if found.broken else []
    first = loop.first(found.fresh)
    if first:
        return found, [first]
    return found, taken_files(found, loop.sources.most_rows)


def _without_same(loop: Loop, found: Arrivals, ledger: Ledger) -> Arrivals:
    """Return what has arrived without files of which another one had the same bytes; the next commit names them."""
    known = {digest for file, digest in ledger.hashes.items() if file not in ledger.refused}
    for file, digest in found.hashes.items():
        if file in found.fresh and digest in known:
            loop._same[file] = digest
            loop._patience.tell(file, "has the bytes of a file that was read, and is not read again", loop.warn)
        known.add(digest)
    return found.some({file: size for file, size in found.fresh.items() if file not in loop._same})


def _batch(loop: Loop, found: Arrivals, files: dict[str, int]) -> int:
    """Make a batch of some files, without those that cannot be read; return how many commits that were.

    Files of two kinds, of which each can be read, are a batch for each.
    """
    return _made(loop, found.some(files), dict(found.broken))


def _made(loop: Loop, some: Arrivals, odd: dict[str, str]) -> int:
    try:
        return int(_read(loop, some, odd))
    except FileVanished:
        raise
    except InputError as error:
        if (loop.sources.on_odd_file == FAIL and not isinstance(error, MixedFiles)) or loop.refuse is None:
            raise
        try:
            apart = take_apart({file: size for file, size in some.fresh.items() if size}, partial(_check, loop, some))
        except Exception:
            raise error from None  # what cannot be looked at says nothing of the files
        if some.gone():
            raise FileVanished(f"{some.gone()[0]} has gone or changed while it was read") from None
        if not may_refuse(apart, loop.stands(), loop._patience.has_read):
            raise
    made, odd = 0, {**odd, **apart.odd}
    for group in apart.groups or ({},):
        made += _made(loop, some.some(group), odd)
        odd = {}
    return made


def _source(loop: Loop, some: Arrivals, odd: Mapping[str, str]) -> Source:
    """Return what a commit says of its files: those that it reads, those that are refused, and copies of those read."""
    copies = {file: some.there[file] for file in loop._same}
    return some.some({**some.fresh, **copies}).source(odd)


def _inputs(loop: Loop, some: Arrivals) -> Inputs | None:
    inputs = some.inputs(schema=loop.sources.schema, encoding=loop.sources.columns.encoding)
    if inputs is not None:
        check_columns(inputs, replace(loop.sources.columns, attributes="all"), others=loop.others)
        loop.fits(inputs)
    return inputs


def _session(loop: Loop) -> SparkSession | None:
    with loop.stopping.starting():
        session = loop.sessions()
    loop.stopping.listen_again()
    return session


def _check(loop: Loop, some: Arrivals, files: dict[str, int]) -> None:
    """Raise where some files cannot be read together."""
    inputs = _inputs(loop, some.some(files))
    if inputs is None:
        return
    session = session_of(partial(_session, loop))
    try:
        columns, wanted = loop.chosen(session, inputs)
        positions = read_positions(session, inputs, columns, schema=loop.sources.schema, wanted=wanted)
        try:
            loop.check(session, positions)
        finally:
            positions.release()
    except DtossError:
        raise
    except Exception as error:
        raise unreadable(error, inputs) from None


def _read(loop: Loop, some: Arrivals, odd: Mapping[str, str]) -> bool:
    """Make a batch of some files; return whether it has committed anything."""
    inputs, source = _inputs(loop, some), _source(loop, some, odd)
    if inputs is None:
        _tell(loop, odd)
        return bool(odd) and loop.refuse is not None and loop.refuse(source)

    def some_unchanged() -> None:
        changed = some.changed()
        if changed:  # the ledger would say bytes that were not those that were read
            raise FileVanished(f"{changed[0]} has changed while it was read")

    session = _session(loop)
    try:
        columns, wanted = loop.chosen(session, inputs)
        positions = read_positions(session, inputs, columns, schema=loop.sources.schema, wanted=wanted)
        try:
            done = loop.batch(session, positions, source, some_unchanged)
        finally:
            positions.release()
    except DtossError:
        raise
    except Exception as error:
        gone = some.gone()
        if gone:
            raise FileVanished(f"{gone[0]} has gone or changed while it was read") from None
        raise unreadable(error, inputs) from None
    loop._patience.has_read = True
    _tell(loop, odd)
    return done


def _tell(loop: Loop, odd: Mapping[str, str]) -> None:
    for file, why in odd.items():
        loop._patience.tell(file, refusal(why), loop.warn)


BYTES_A_ROW = 64
"""Of text, about: how many rows a file has is known once it is read."""


def taken_files(found: Arrivals, most_rows: int | None) -> list[dict[str, int]]:
    """Return the fresh files of each batch with their bytes, oldest first, by name where the times are equal.

    ``most_rows``: rows of a batch, about; None makes one batch of all.
    """
    written = dict(zip(found.where.files, found.where.written, strict=True))
    order = sorted(found.fresh, key=lambda file: (written[file] or 0.0, file))
    if most_rows is None:
        return [{file: found.fresh[file] for file in order}] if order else []
    batches: list[dict[str, int]] = []
    left = 0
    for file in order:
        rows = _rows_in(found, file)
        if not batches or rows > left:
            batches.append({})
            left = most_rows
        batches[-1][file] = found.fresh[file]
        left -= rows
    return batches


def _rows_in(found: Arrivals, file: str) -> int:
    if found.kind == "parquet" and found.fresh[file]:
        try:
            with found.where.filesystem.open_input_file(file) as stream:
                return int(pq.read_metadata(stream).num_rows)
        except (OSError, ValueError):
            return 0
    return -(-found.fresh[file] // BYTES_A_ROW)
