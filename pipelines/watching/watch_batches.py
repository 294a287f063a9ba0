"""One batch of a watch after another: planned, run by tasks or by workers, committed, and told of.

Where the objects are around which subscriptions ask: in the current snapshot of the store.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.arrow_stream import rows_of_stream, stream_of
from dtoss.buckets import BUCKETS
from dtoss.commits.offsets import Source
from dtoss.commits.table import remove_orphans
from dtoss.errors import DtossError, InputError
from dtoss.geometry.space import LONLAT, Space, space_of
from dtoss.opening import open_index
from dtoss.plain_numbers import whole_in
from dtoss.snapshots.store import Store
from dtoss.watch.events.event_compaction import fold_watch, retain
from dtoss.watch.events.watch_tables import tables_of
from dtoss.watch.index.index_changes import PATIENCE, Background
from dtoss.watch.processing.watch_commit import commit_batch, worth_a_commit
from dtoss.watch.processing.watch_plan import USUAL_GAP, Options, Plan, plan_batch, set_back, settings_of
from dtoss.watch.processing.watch_task import TaskResult, judge
from dtoss.watch.sharding.sharded_batch import commit_on_workers, run_judged, said_by
from dtoss.watch.sharding.worker_task import WorkerResult, answer_rows, merge_events, sent_to_workers, told_by_task
from dtoss.watch.subscriptions.known_columns import asked_space, check_space
from dtoss.watch.watch_folder import Home
from dtoss.watch.watch_settings import Settings
from dtoss.witnesses import USUAL_WITNESSES, checked_witnesses
from pipelines.engines.rows import Batches, NumberedWork, Rows, Work, one_value
from pipelines.loop.batch_report import Ran, Turns
from pipelines.loop.odd_columns import check_rows
from pipelines.rows.position_frame import Positions, without_forgotten
from pipelines.spark.session import cores
from pipelines.watching.spreading import Spreading, SpreadOptions
from pipelines.watching.typed_rows import (
    Lacking,
    buckets_of,
    busiest,
    first_settings,
    fit_rows,
    key_of,
    rows_in,
    run_tasks,
    with_ahead,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


MICROSECONDS = 1_000_000
TENDED_EVERY_US = 600 * MICROSECONDS
"""How often old events are folded and removed."""


@dataclass(frozen=True)
class Rowwise:
    """What the rows of a watch are, as the user says it."""

    text: str | None = None  # The column of text; None for none
    messages: bool = False
    has_ids: bool = True  # Whether rows have ids
    wrap: bool = False  # Take 360 from longitudes above 180
    unit: str | None = None  # Of times that are numbers: "ms", or seconds when None
    space: Space | None = None  # Of positions; None takes the store's


def events_of(ran: Ran) -> int:
    """Return how many events a batch has made."""
    return sum(file["rows"] for file in ran.commit.document["events"])


def lag_of(ran: Ran) -> float | None:
    """Return the seconds of the wall clock behind which the clock of a watch stands; None where rows have no times."""
    clock = ran.commit.document["clock"]
    return None if clock is None else ran.commit.document["batch"]["wall_us"] / MICROSECONDS - clock / MICROSECONDS


@dataclass
class Watching:
    """A watch that is being run: one batch at a time."""

    home: Home
    options: Options
    rows: Rowwise = field(default_factory=Rowwise)  # What its rows are
    retain_us: int | None = None  # Older events are removed; None keeps all
    say: Callable[[Ran], None] = lambda told: None  # Is told of each batch that has committed
    warn: Callable[[str], None] = lambda text: None  # Is told what looks wrong but is legal
    spread: SpreadOptions | None = None  # How rows are spread over workers; None where each task judges its own
    # Returns the time, in microseconds since 1970, that the clock of the watch follows where there are no rows; it
    # stands when None
    clock: Callable[[], int] | None = None
    lacking: Lacking = field(default_factory=Lacking)  # What is made of columns that files lack
    _tended_us: int = 0
    _warned: bool = False

    def __post_init__(self) -> None:
        self._turns = Turns(f"watch {self.home.name}")
        self._centres = CurrentCentres(self.home.store)
        self._background = Background(self.home, self.warn)
        self._spreading = None if self.spread is None else Spreading(self.home, self.spread)

    def settings(self) -> Settings | None:
        """Return the settings of the watch; None before its first batch."""
        return settings_of(self.home)

    def space(self) -> Space:
        """Return the space of the watch: its own, the one named, its subscriptions', the snapshot's, or degrees."""
        settings = self.settings()
        if settings is not None:
            return settings.space
        if self.rows.space is not None:
            return self.rows.space
        return asked_space(self.home) or space_of(LONLAT)

    def batch(
        self,
        session: SparkSession | None,
        positions: Positions,
        source: Source,
        offsets: Any = None,
        check: Callable[[], None] = lambda: None,
    ) -> Ran | None:
        """Run a batch of rows and commit it; None where it was committed before.

        Between the two ``check`` may raise that the rows are not those of the source: nothing of the batch counts then.
        """
        with self._turns.turn():
            self._turns.check()
            settings = self.settings()
            if settings is None:
                settings = self._first_settings(positions)
                check_space(self.home, settings.space)
            begun, now_us = time.perf_counter(), time.time_ns() // 1000
            plan = self._plan(settings, source, self.options, now_us)
            if plan is None:
                return None
            plan = self.lacking.judged(plan, self.warn)
            positions = without_forgotten(positions, self.home.store)
            fitted = fit_rows(
                positions, settings, self.rows.wrap, self.rows.unit, believed(self.options.max_ahead, now_us)
            )
            rows = fitted.with_raw()
            tasks = max(min(cores(session), BUCKETS), 1)
            if self._spreading is not None:
                return self._told(
                    self._on_workers(self._spreading, rows, positions, plan, tasks, begun, check, offsets)
                )
            done = run_tasks(rows, plan, tasks)
            if right := set_back(plan, [one.heard for one in done]):
                plan, done = right, run_tasks(rows, right, tasks)
            check()
            commit = commit_batch(plan, done, offsets, forgotten=positions.forgotten)
            return self._told(Ran(commit, time.perf_counter() - begun, busiest(done)))

    def _on_workers(
        self,
        spreading: Spreading,
        rows: Rows,
        positions: Positions,
        plan: Plan,
        tasks: int,
        begun: float,
        check: Callable[[], None],
        offsets: Any,
    ) -> Ran:
        try:
            plan = spreading.routed(plan)
            done, worked = run_on_workers(rows, plan, tasks)
            if right := set_back(plan, [one.heard for one in done]):
                plan = right
                done, worked = run_on_workers(rows, plan, tasks)
            check()
            ended = spreading.ended(plan, worked, done)
            commit = commit_on_workers(plan, done, worked, ended, offsets, forgotten=positions.forgotten)
        except BaseException:
            spreading.forget()
            raise
        return Ran(commit, time.perf_counter() - begun, max((one.seconds for one in worked), default=busiest(done)))

    def check(self, session: SparkSession | None, positions: Positions) -> None:
        """Raise where rows cannot be taken: reads all of them, and commits nothing."""
        settings = self.settings() or self._first_settings(positions)
        self.lacking.check()
        limit = believed(self.options.max_ahead, time.time_ns() // 1000)
        fitted = fit_rows(positions, settings, self.rows.wrap, self.rows.unit, limit)
        rows = with_ahead(fitted, None if settings.time is None else limit)
        check_rows(rows.frame, self.options.max_bad)

    def _first_settings(self, positions: Positions) -> Settings:
        return first_settings(positions, self.space(), self.rows.text, self.rows.messages, self.rows.has_ids)

    def beat(self, source: Source | None = None) -> Ran | None:
        """Adopt what was subscribed, and let expire what is over; None where there is nothing of either.

        With a source it is committed that its files count as read, though there are no rows.
        """
        with self._turns.turn():
            settings = self.settings()
            if settings is None:
                return None
            begun, now_us = time.perf_counter(), time.time_ns() // 1000
            self.tend(now_us)  # before the plan: to fold is a commit
            plan = self._plan(settings, source or Source(), self._carried(settings), now_us)
            if plan is None:
                return None
            plan = replace(plan, clock_us=None if self.clock is None else self.clock())
            if self._spreading is not None:
                return self._beat_on_workers(self._spreading, plan, begun)
            done = run_tasks(None, plan, 1)
            ended = worth_a_commit(plan, done)
            if ended is None:
                return None
            commit = commit_batch(plan, done, ended=ended)
            return self._told(Ran(commit, time.perf_counter() - begun, busiest(done)))

    def _beat_on_workers(self, spreading: Spreading, plan: Plan, begun: float) -> Ran | None:
        if plan.files == plan.before and plan.options.expire is None and worth_a_commit(plan, ()) is None:
            return None  # nothing that layouts would be made for
        plan = spreading.routed(plan, beat=True)
        done, worked = run_on_workers(None, plan, 1)
        ended = worth_a_commit(plan, done)
        if ended is None:
            return None
        commit = commit_on_workers(plan, done, worked, ended=ended)
        return self._told(Ran(commit, time.perf_counter() - begun, busiest(done)))

    def end(self) -> None:
        """Let the batch in hand end, and have no other: whoever watches next may begin."""
        self._turns.end()

    def _plan(self, settings: Settings, source: Source, options: Options, now_us: int) -> Plan | None:
        """Return the plan of a batch, with the newest large index that is there; another is built beside it."""
        centres, centred, ready = self._centres.find, self._centres.name(), self._background.newer
        plan = plan_batch(self.home, settings, source, options, now_us, centres, centred, ready, PATIENCE)
        if plan is not None:
            self._background.look(plan.files, settings, centres, centred)
        return plan

    def _carried(self, settings: Settings) -> Options:
        missing = [name for name in self.options.carry if name not in settings.columns]
        return replace(self.options, carry=()) if missing else self.options

    def _told(self, told: Ran) -> Ran:
        document = told.commit.document
        if document["unanswered_count"] and not self._warned:
            self._warned = True
            first = document["unanswered"][0]
            count = document["unanswered_count"]
            which = f"subscription {first['id']!r}"
            if count > 1:
                which = f"{count:,} subscriptions, such as {first['id']!r},"
            self.warn(f"{which} cannot be asked of these rows: {first['reason']}")
        self.say(told)
        self.tend(document["batch"]["wall_us"])
        return told

    def tend(self, now_us: int) -> None:
        """Fold old events into larger files, and remove those beyond ``retain_us``; every ten minutes."""
        if now_us - self._tended_us < TENDED_EVERY_US:
            return
        self._tended_us = now_us
        fold_watch(self.home, now_us, self.warn)
        if self.retain_us is not None:
            retain(self.home, self.retain_us, now_us)
        else:
            remove_orphans(tables_of(self.home)[0])


def believed(max_ahead: int | None, now_us: int) -> int | None:
    """Return a time up to which no row is ahead of the clock, in microseconds; the same one for many batches.

    ``max_ahead``: microseconds beyond the wall clock from which on a row is; None for never.

    Examples
    --------
    >>> [believed(100, now) for now in (1000, 1049, 1050, 1099)], believed(None, 1000)
    ([1100, 1100, 1150, 1150], None)
    """
    if max_ahead is None:
        return None
    step = max(max_ahead // 2, 1)
    return (now_us + max_ahead) // step * step


def check_amounts(
    expire: float | None,
    max_ahead: float | None,
    max_bad: float,
    witnesses: str = USUAL_WITNESSES,
    max_gap: float = USUAL_GAP / MICROSECONDS,
) -> Options:
    """Return options of times in seconds, of a share of bad rows, and of how many witnesses move the clock."""
    try:
        witnesses = checked_witnesses(witnesses)
    except ValueError as error:
        raise InputError(str(error)) from None
    for name, value in (("--expire", expire), ("--max-ahead", max_ahead), ("--max-gap", max_gap)):
        if value is not None and not value > 0.0:
            raise InputError(f"{name} is {value:g} s: more than 0 is wanted")
    if not 0.0 <= max_bad <= 1.0:
        raise InputError(f"--max-bad is {max_bad:g}: a share from 0 to 1 is wanted")
    return Options(
        None if expire is None else round(expire * MICROSECONDS),
        None if max_ahead is None else round(max_ahead * MICROSECONDS),
        max_bad=max_bad,
        max_gap=round(max_gap * MICROSECONDS),
        witnesses=witnesses,
    )


@dataclass
class CurrentCentres:
    """Looks objects up in a store's current snapshot, which is opened once."""

    store: str
    _opened: dict[str, Any] = field(default_factory=dict)

    def name(self) -> str | None:
        """Return the name of the current snapshot; None where there is none."""
        try:
            return Store(self.store).current()
        except (DtossError, OSError):
            return None

    def find(self, ids: Sequence[str]) -> NDArray[np.float64]:
        """Return the positions (n, 2) of objects by their ids as text, NaN where there is none."""
        found = np.full((len(ids), 2), np.nan)
        name = self.name()
        if name is None:
            return found
        index = self._opened.get(name)
        if index is None:
            index = open_index(self.store, name)
            self._opened = {name: index}  # at once: indexes are built in a thread, too
        for row, text in enumerate(ids):
            try:
                place = index.place_of(text if index.string_ids else whole_in(text))
            except (KeyError, ValueError):
                continue
            found[row] = place.partition.positions[place.item]
        return found


_PIECES = pa.schema(
    [("to", pa.int32()), ("kind", pa.int32()), ("who", pa.int32()), ("part", pa.int32()), ("piece", pa.binary())]
)
_SPARK_PIECES = "to int, kind int, who int, part int, piece binary"
_MADE = "done binary"
_ROWS, _DONE, _EVENTS, _WORKED = range(4)
_OWN = -1
"""Who tells what a task has told itself."""
_PIECE_ROWS = 1 << 18
"""Rows, or events, of a piece: two gigabytes are the most that a value of Spark's may have."""
_Piece = tuple[int, int, int, int, bytes]


def run_on_workers(rows: Rows | None, plan: Plan, tasks: int) -> tuple[list[TaskResult], list[WorkerResult]]:
    """Return what the tasks and the workers of a batch have done.

    ``rows``: of :func:`pipelines.watching.typed_rows.fit_rows`, with what they were read as; None where there are none.
    """
    done: list[TaskResult] = []
    worked: list[WorkerResult] = []
    if rows is not None:
        for piece in _run_steps(rows, replace(plan, after=None, source=Source()), tasks):
            made = pickle.loads(piece)
            (worked if isinstance(made, WorkerResult) else done).append(made)
    ran = {one.task for one in done}
    # a task of no rows may never have begun: objects of its buckets expire all the same
    rest = [(task, buckets_of(task, tasks), plan.settings.no_rows) for task in range(tasks) if task not in ran]
    more_done, more_worked = run_judged(plan, rest)
    return done + more_done, worked + more_worked


def _run_steps(rows: Rows, plan: Plan, tasks: int) -> list[bytes]:
    assert plan.routed is not None
    workers = plan.routed.workers
    sent = rows.exchange_by_bucket(tasks, key_of(plan)).map_numbered(_judging(plan, tasks, workers), _SPARK_PIECES)
    told = sent.exchange(workers, "to").map(_answering(plan, tasks), _SPARK_PIECES)
    return told.exchange(tasks, "to").map(_gathering(plan), _MADE).values()


def _judging(plan: Plan, tasks: int, workers: int) -> NumberedWork:
    def run(task: int, batches: Batches) -> Batches:
        begun = time.perf_counter()
        kept = list(batches)
        rows, raw, bad = rows_in(pa.Table.from_batches(kept) if kept else pa.table({}), plan.settings)
        judged = judge(plan, task, buckets_of(task, tasks), rows, raw, bad)
        for worker, batch in sent_to_workers(plan, judged):
            yield from _cut(worker, _ROWS, task, pa.Table.from_batches([batch]))
        if (told := told_by_task(plan, judged)) is not None:
            yield from _cut(task % workers, _EVENTS, task, told)
        known = replace(judged.done, said=said_by(plan, judged))
        done = pickle.dumps((known, time.perf_counter() - begun))
        yield _batch((task % workers, _DONE, task, 0, done))

    return run


def _answering(plan: Plan, tasks: int) -> Work:
    def run(batches: Batches) -> Batches:
        sent = []
        for to, kind, who, part, piece in _pieces(batches):
            if kind == _DONE:
                yield _batch((who, _DONE, who, 0, piece))
            elif kind == _EVENTS:
                yield _batch((who, _EVENTS, _OWN, part, piece))
            else:
                sent.append(((who, part), rows_of_stream(piece)))
                worker = to
        if sent:
            parts = [(who, table) for (who, _), table in sorted(sent, key=lambda one: one[0])]
            worked, events = answer_rows(plan, worker, parts)
            for task, table in sorted(events.items()):
                yield from _cut(task, _EVENTS, worker, table)
            yield _batch((worker % tasks, _WORKED, worker, 0, pickle.dumps(worked)))

    return run


def _gathering(plan: Plan) -> Work:
    def run(batches: Batches) -> Batches:
        begun = time.perf_counter()
        judged, events = [], []
        for piece in _pieces(batches):
            if piece[1] == _EVENTS:
                events.append(piece[2:])
            elif piece[1] == _DONE:
                judged.append(pickle.loads(piece[4]))
            else:
                yield one_value("done", piece[4])
        for done, seconds in judged:  # one: a partition is a task
            tables = [rows_of_stream(piece) for _, _, piece in sorted(events, key=lambda one: one[:2])]
            made = merge_events(plan, done, tables)
            made = replace(made, seconds=seconds + time.perf_counter() - begun)
            yield one_value("done", pickle.dumps(made))

    return run


def _batch(piece: _Piece) -> pa.RecordBatch:
    return pa.record_batch([pa.array([value], one.type) for value, one in zip(piece, _PIECES, strict=True)], _PIECES)


def _pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[_Piece]:
    for batch in batches:
        for row in range(batch.num_rows):
            to, kind, who, part, piece = (column[row].as_py() for column in batch.columns)
            yield to, kind, who, part, piece


def _cut(to: int, kind: int, who: int, table: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield a table in pieces, numbered in their order."""
    for part, begin in enumerate(range(0, len(table), _PIECE_ROWS)):
        yield _batch((to, kind, who, part, stream_of(table.slice(begin, _PIECE_ROWS))))
