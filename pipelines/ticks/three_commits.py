"""What has arrived counts in three commits: in the history, in windows, in the store.

Files of one beat, read once for all who take them: a store, its history and windows.

What stays the same from beat to beat of a loop that makes snapshots, and what is remembered of the folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from dtoss.errors import DtossError, StoreError
from dtoss.names import types_in_input
from dtoss.rows.input_columns import Columns, columns_of, types_of
from dtoss.snapshots.store import Store, on_stderr
from pipelines.cycle import merge
from pipelines.cycles.column_agreement import check_columns
from pipelines.cycles.spread import WorkContext
from pipelines.history import append_files, options_of_cycle
from pipelines.history_tasks.into_files import KeyedFile, key_files
from pipelines.local_joins import first_look
from pipelines.loop.arriving import Arrivals, Patience
from pipelines.loop.arriving_batches import FileVanished
from pipelines.loop.disposal import Disposal
from pipelines.loop.exposition import Metrics
from pipelines.loop.known_sources import read_on
from pipelines.loop.stopping import Stopping
from pipelines.options.snapshot_options import SnapshotOptions
from pipelines.rows.inputs import Inputs, columns_of_log
from pipelines.rows.position_frame import Positions
from pipelines.rows.read_files import read_positions, unreadable
from pipelines.windowing.begin_windows import WindowOptions
from pipelines.windowing.feed_windows import PARTITION, Feed, feed, refuse
from pipelines.windowing.feed_windows import beat as feed_beat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.loop.batch_report import Ran as RanWindows


@dataclass(frozen=True)
class Beside:
    """What a loop of cycles is to do beside snapshots."""

    # A history of positions, path or URI, to which all rows that are not rejected are appended before they become
    # current, and which is settled and adapts between beats; None for none
    history: str | None = None
    windows: Sequence[WindowOptions] = ()  # That count the same rows
    disposal: Disposal | None = None  # Of files that every snapshot has read; they stay when None
    # Of the plan by which partitions are served: pivots are kept, and are an error where they are others
    pivots_hash: str | None = None


@dataclass(frozen=True)
class Listeners:
    """Who is told what a loop of cycles does."""

    # Every cycle: its manifest, and the age in seconds of its oldest update
    say: Callable[[dict[str, Any], float | None], None] = lambda manifest, staleness: None
    say_windows: Callable[[str, RanWindows], None] = lambda name, ran: None  # Every batch of windows, by their name
    warn: Callable[[str], None] = on_stderr  # What looks wrong but is legal, and cycles that fail
    metrics: Metrics = field(default_factory=Metrics)  # Numbers


class Busy(Exception):
    """Another process writes to the store."""


def committed(
    loop: Steady,
    found: Arrivals,
    mine: Arrivals,
    manifest: dict[str, Any] | None,
    due: bool,
    odd: Mapping[str, str] | None = None,
) -> dict[str, Any] | None:
    """Append what has arrived to the history, count it in windows, and make it current; return the manifest of that.

    Each of the three commits by itself, in this order, and skips files that it has: whoever is killed between two of
    them goes on with the next one. None where the store has read all of it.

    ``loop``: what stays the same; ``manifest``: of the current snapshot; None where there is none.
    """
    how = how_read(loop, manifest)
    columns, options = how.columns, loop.options
    refused = dict(odd or {})
    # a second writer is told before Spark starts
    try:
        lock = loop.home.writer(loop.listeners.warn) if loop.options.keeping.lease and due else None
    except StoreError as error:
        if loop.home.writes() is None:
            raise
        raise Busy(str(error)) from None
    try:
        reads = Reads(how.read, loop.options.reading.schema, columns.encoding)
        inputs = reads.inputs(mine)
        if inputs is not None:
            columns = how.columns_in(inputs)
            options = replace(options, merging=replace(options.merging, missing=how.missing_in(inputs)))
            first_look.check_columns(inputs, replace(columns, attributes="all"))
            check_columns(inputs, manifest, options.merging.missing)
        with loop.stopping.starting():
            session = loop.sessions()
        loop.stopping.listen_again()
        keys = [] if loop.beside.history is None or inputs is None else key_files(inputs)
        early = [one for one in loop.feeds if manifest is not None or one.by != PARTITION]
        try:
            positions = reads.positions(session, mine)
            if loop.beside.history is not None and inputs is not None:
                _append(loop, session, inputs, columns, positions, keys, manifest)
            _feed(early, session, reads, found, refused)
            if not due:
                return None
            made = merge(
                positions,
                loop.home.path,
                options,
                WorkContext(warn=loop.listeners.warn, lock=lock),
                columns={"deleted": columns.deleted},
                ledger=partial(read_on, mine.source(refused)),
            )
            # partitions of a first snapshot are keys from now on
            _feed([one for one in loop.feeds if one not in early], session, reads, found, refused)
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


@dataclass(frozen=True)
class HowRead:
    """How a beat reads files for a store."""

    columns: Columns  # Which columns mean what, and how text is written
    missing: str  # What a column does that the store has and they lack: "error", or "null"
    manifest: dict[str, Any] | None  # Of the current snapshot; None where there is none

    def columns_in(self, inputs: Inputs) -> Columns:
        """Return which columns mean what; of rows of a log those are taken that the store has by now."""
        told = columns_of_log(self.columns, inputs.roles)
        if inputs.roles is None or self.manifest is None:
            return told
        return replace(told, attributes=[name for name in types_in_input(self.manifest) if name in inputs.names])

    def missing_in(self, inputs: Inputs) -> str:
        """Return what a column does that is missing: what the store got later is null in rows that were told before."""
        return self.missing if inputs.roles is None else "null"

    def read(self, session: SparkSession | None, inputs: Inputs) -> Positions:
        """Return the positions in files."""
        wanted = types_of(self.manifest, self.columns)
        return read_positions(session, inputs, self.columns_in(inputs), wanted=wanted)


def how_read(loop: Steady, manifest: dict[str, Any] | None) -> HowRead:
    """Return how files are read for a store whose current snapshot has a manifest."""
    return HowRead(columns_of(manifest, loop.options.reading.said), loop.options.merging.missing, manifest)


def _feed(
    feeds: Sequence[Feed], session: SparkSession | None, reads: Reads, found: Arrivals, refused: Mapping[str, str]
) -> None:
    """Count what has arrived in windows, each of which leaves out the files that it has."""
    for one in feeds:
        for some in one.batches(found.unread(one.ledger())):
            positions = reads.positions(session, some)
            if positions is None:
                feed_beat(one)
                continue

            def check(some: Arrivals = some) -> None:
                if changed := some.changed():
                    raise FileVanished(f"{changed[0]} has changed while it was read")

            feed(one, session, positions, some.source(), check)
        refuse(one, found, refused)


def _append(
    loop: Steady,
    session: SparkSession | None,
    inputs: Inputs,
    columns: Columns,
    positions: Positions | None,
    keys: Sequence[KeyedFile],
    manifest: Mapping[str, Any] | None,
) -> None:
    """Append what has arrived to the history: first, so that what is current was kept."""
    assert loop.beside.history is not None
    append_files(
        lambda: session,
        inputs,
        loop.beside.history,
        columns,
        warn=loop.listeners.warn,
        schema=loop.options.reading.schema,
        read=positions,
        files=keys,
        **options_of_cycle(manifest, loop.options),
    )


@dataclass
class Reads:
    """Positions of files that have arrived; who asks for the same files gets the same positions."""

    read: Callable[[SparkSession, Inputs], Positions]  # Reads files in a session
    schema: str = "union"  # Of the files, as they were asked for
    encoding: str | None = None  # Of the files, as they were asked for
    _inputs: dict[frozenset[str], Inputs | None] = field(default_factory=dict)
    _positions: dict[frozenset[str], Positions] = field(default_factory=dict)

    def inputs(self, some: Arrivals) -> Inputs | None:
        """Return the fresh files of what has arrived, as Spark is to read them; None where there is nothing in them."""
        which = frozenset(some.fresh)
        if which not in self._inputs:
            self._inputs[which] = some.inputs(schema=self.schema, encoding=self.encoding)
        return self._inputs[which]

    def positions(self, session: SparkSession | None, some: Arrivals) -> Positions | None:
        """Return the positions in the fresh files of what has arrived; None where there is nothing in them."""
        which, inputs = frozenset(some.fresh), self.inputs(some)
        if inputs is None:
            return None
        if which not in self._positions:
            self._positions[which] = self.read(session, inputs)
        return self._positions[which]

    def last(self) -> Inputs | None:
        """Return the files that were read last; None where none were."""
        for which in reversed(self._positions):
            return self._inputs[which]
        return None

    def release(self) -> None:
        """Let go of what is kept of the files."""
        for positions in self._positions.values():
            positions.release()


@dataclass(frozen=True)
class Steady:
    """What stays the same from beat to beat."""

    updates: str
    home: Store
    sessions: Callable[[], SparkSession | None]
    options: SnapshotOptions
    beside: Beside
    listeners: Listeners
    stopping: Stopping
    feeds: Sequence[Feed]  # Windows that get the rows, too
    patience: Patience = field(default_factory=Patience)  # What is remembered of files that were not read
