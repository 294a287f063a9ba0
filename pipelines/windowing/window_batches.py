"""One batch of windows after another, planned, run, committed; which worker has which groups next."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.buckets import BUCKETS, bucket_of
from dtoss.commits.file_entry import FileEntry
from dtoss.commits.log_compaction import fold
from dtoss.commits.offsets import Source
from dtoss.errors import InputError
from dtoss.watch.watch_settings import Settings
from dtoss.windows.durations import duration_of
from dtoss.windows.processing.hour_compaction import merge_hours
from dtoss.windows.processing.window_task import MapResult, ReduceResult, commit_batch, run_task, tell
from dtoss.windows.processing.windows_tables import clear_merged, clear_state
from dtoss.windows.state.state_files import PARTS
from dtoss.windows.storage.group_placement import Placement, bytes_of, even, placement_of, rows_of
from dtoss.windows.storage.spec_file import FixedSpec
from dtoss.windows.storage.window_document import Document, Home, head_of
from dtoss.windows.storage.window_document import begun_windows as begun_windows
from dtoss.windows.storage.window_plan import Options, Plan, as_it_stands, plan_batch, types_of
from dtoss.windows.trajectories.map_step import WindowRows
from dtoss.windows.watermark import follow_clock
from pipelines.engines.rows import Rows
from pipelines.engines.spark_rows import done_by_bucket, done_by_number
from pipelines.loop.batch_report import Ran, Turns
from pipelines.loop.odd_columns import check_rows
from pipelines.options.said_amounts import budget_of
from pipelines.rows.position_frame import Positions, without_forgotten
from pipelines.watching.typed_rows import first_settings, fit_rows, rows_in, with_ahead

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


TENDED_EVERY_US = 60_000_000
"""How often state that was replaced is removed, and old commits are folded."""
CLEARED_EVERY_US = 600_000_000
"""How often results that hours have are removed: the commits of all hours that may change still are read for that."""
MOST_PATCHES = 2_000_000
"""Rows of patches whose results are made in the driver; those of more are made by tasks."""
FEW_ROWS_BYTES = 16 << 20
"""Of rows, as far as Spark can tell, that this process takes itself: a shuffle and its stages would cost more."""
FEW_STATE_BYTES = 32 << 20
"""Of the state of objects, with which it does so."""


class Windowing:
    """Windows that are being run: one batch at a time.

    ``unit``: of times that are numbers: "ms", or seconds when None; ``moving``: how groups of objects are placed on
    workers; by default as a user who says nothing; ``clock``: returns the time, in microseconds since 1970, that the
    watermark follows where there are no rows; it stands when None.
    """

    def __init__(
        self,
        home: Home,
        fixed: FixedSpec,
        options: Options,
        wrap: bool = False,
        unit: str | None = None,
        say: Callable[[Ran], None] = lambda ran: None,
        moving: Moving | None = None,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self.home, self.fixed, self.options, self.wrap, self.unit, self.say = home, fixed, options, wrap, unit, say
        self.moving, self.clock = moving or Moving(), clock
        self._turns = Turns(f"windows {home.name}")
        self._tended_us = self._cleared_us = 0

    def settings(self) -> Settings | None:
        """Return the types of ids and times, as rows are fitted to them; None before the first batch."""
        types = types_of(self.home)
        return None if types is None else Settings(self.fixed.spec.space, *types)

    def batch(
        self,
        session: SparkSession | None,
        positions: Positions,
        source: Source,
        check: Callable[[], None] = lambda: None,
    ) -> Ran | None:
        """Run a batch of rows and commit it; None where it was committed before.

        Between the two ``check`` may raise that the rows are not those of the source: nothing of the batch counts then.
        """
        from pipelines.spark.session import cores

        with self._turns.turn():
            self._turns.check()
            begun, now_us = time.perf_counter(), time.time_ns() // 1000
            settings = self.settings() or first_settings(positions, self.fixed.spec.space, None, False, True)
            if settings.time is None:
                raise InputError("these rows have no column of times: name it (--time COLUMN)")
            place = partial(placed, self.moving, cores(session), self.home)
            types = str(settings.id_type), settings.time
            plan = plan_batch(self.home, self.fixed, types, source, self.options, now_us, place)
            if plan is None:
                return None
            positions = without_forgotten(positions, self.home.store)
            fitted = fit_rows(positions, settings, self.wrap, self.unit)
            done = run_tasks(fitted.with_raw(), plan, settings)
            check()
            second = partial(_second, session, plan)
            commit = commit_batch(plan, done, second, positions.forgotten)
            ran = Ran(commit, time.perf_counter() - begun, max((one.seconds for one in done), default=0.0))
            self.say(ran)
            self._tend(now_us)
            return ran

    def check(self, session: SparkSession | None, positions: Positions) -> None:
        """Raise where rows cannot be taken: reads all of them, and commits nothing."""
        settings = self.settings() or first_settings(positions, self.fixed.spec.space, None, False, True)
        limit = None if settings.time is None else time.time_ns() // 1000 + self.fixed.spec.max_ahead
        fitted = with_ahead(fit_rows(positions, settings, self.wrap, self.unit), limit)
        check_rows(fitted.frame, self.options.max_bad)

    def note(self, source: Source) -> Ran | None:
        """Commit that files count as read, though none of their rows does; None before the first batch."""
        with self._turns.turn():
            types = types_of(self.home)
            if types is None:
                return None
            begun, now_us = time.perf_counter(), time.time_ns() // 1000
            plan = plan_batch(self.home, self.fixed, types, source, self.options, now_us, as_it_stands)
            assert plan is not None
            ran = Ran(commit_batch(plan, []), time.perf_counter() - begun, 0.0)
            self.say(ran)
            return ran

    def beat(self) -> Ran | None:
        """Let the watermark follow the clock where there are no rows; None where it stands or no end becomes due.

        Needs no Spark.
        """
        with self._turns.turn():
            head = None if self.clock is None or self._turns.over else head_of(self.home)
            if self.clock is None or head is None or head.watermark is None:
                return None
            begun, now_us, spec = time.perf_counter(), self.clock(), self.fixed.spec
            if follow_clock(spec, now_us, head.watermark) // spec.slide == head.watermark // spec.slide:
                return None
            said = head.commit.document
            plan = plan_batch(
                self.home, self.fixed, (said["id"], said["time"]), Source(), self.options, now_us, as_it_stands
            )
            assert plan is not None
            commit = commit_batch(replace(plan, clock_us=now_us), [])
            ran = Ran(commit, time.perf_counter() - begun, 0.0)
            self.say(ran)
            self._tend(time.time_ns() // 1000)
            return ran

    def _tend(self, now_us: int) -> None:
        """Every minute: merge hours that are past, remove what was replaced, and fold old commits."""
        if now_us - self._tended_us >= TENDED_EVERY_US:
            self._tended_us = now_us
            head = begun_windows(self.home)
            clear_state(self.home, head)
            if now_us - self._cleared_us >= CLEARED_EVERY_US:
                self._cleared_us = now_us
                clear_merged(self.home, head)
            merge_hours(self.home, self.fixed.spec, head, self.options.retain)
            fold(self.home.batches)

    def end(self) -> None:
        """Let the batch in hand end, and have no other: whoever runs them next may begin."""
        self._turns.end()


def run_tasks(rows: Rows, plan: Plan, settings: Settings) -> list[MapResult]:
    """Return what the tasks of a batch have done that had rows."""
    bare = light(plan)

    def work(task: int, table: pa.Table) -> MapResult | None:
        return _run(bare, task, table, settings) if table.num_columns and len(table) else None

    held = sum(part.file.bytes for part in plan.objects)
    few = FEW_ROWS_BYTES if held <= FEW_STATE_BYTES else -1
    told = done_by_bucket(rows, "id", plan.tasks, work, plan.placement.worker_of, few)
    return [one for one in told if one is not None]


def light(plan: Plan) -> Plan:
    """Return a plan without the commit before and the ledger, which may be long: no task asks for them."""
    return replace(plan, after=None, source=Source())


def _run(plan: Plan, task: int, table: pa.Table, settings: Settings) -> MapResult:
    rows, raw, bad = rows_in(table, settings)
    assert rows.ids is not None
    assert rows.t is not None
    return run_task(plan, task, WindowRows(rows.ids, rows.t, rows.positions, bucket_of(rows.ids)), raw, bad)


def _second(
    session: SparkSession | None, plan: Plan, watermark: int | None, patches: Sequence[FileEntry]
) -> list[ReduceResult]:
    bare = light(plan)
    return in_parts(session, patches, lambda parts: tell(bare, watermark, patches, parts))


def in_parts(
    session: SparkSession | None, patches: Sequence[FileEntry], work: Callable[[Sequence[int]], ReduceResult]
) -> list[ReduceResult]:
    """Return what the second step of all parts has done, here, or in tasks where patches are many.

    ``patches``: files of the first step.
    """
    if sum(file.rows for file in patches) <= MOST_PATCHES:
        return [work(range(PARTS))]
    return done_by_number(session, PARTS, lambda part: work([part]))


REBALANCE = "30min"
"""Time of rows after which loads are looked at, unless a user says another."""
MOVE_BUDGET = "1%"
"""Of all state, at most, that moves at once, unless a user says another."""
ACCEPTED = 1.15
"""The largest load of a worker over its fair share that stands, whether noise explains it or not."""
STAYS = "off"
DAY_US, SLOT_US = 86_400_000_000, 3_600_000_000
"""How far back a pattern goes, and how long its slots are, in microseconds of the watermark."""
MOST_COMMITS = 2_000
"""That a pattern is made of."""

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Moving:
    """How groups are placed on workers; made by :func:`moving_of`."""

    workers: int | None = None  # How many, 1 to 256; None takes as many as there are cores
    # Microseconds of the watermark after which loads are looked at; None never moves a group of a worker that stays
    every: int | None = 1_800_000_000
    budget: str = MOVE_BUDGET  # Bytes, or a share of all of them, that move at once


def moving_of(workers: int | None = None, rebalance: str = REBALANCE, move_budget: str = MOVE_BUDGET) -> Moving:
    """Return how groups are placed, of what a user says.

    ``rebalance``: A duration, or "off"; ``move_budget``: bytes, or a share such as "5%".

    Examples
    --------
    >>> moving_of(8, "off")
    Moving(workers=8, every=None, budget='1%')
    """
    if workers is not None and not 1 <= workers <= BUCKETS:
        raise InputError(f"--workers is {workers}: 1 to {BUCKETS} are wanted, no more than there are groups of objects")
    try:
        every = None if rebalance.strip() == STAYS else duration_of(rebalance, "--rebalance")
        budget_of(move_budget, 0.0)
    except ValueError as error:
        raise InputError(f"{error}{'' if 'budget' in str(error) else ', or off'}") from None
    return Moving(workers, every, move_budget)


def placed(moving: Moving, cores: int, home: Home, head: Document | None) -> Placement:
    """Return the placement of the batch that goes on from a commit.

    ``head``: that commit; None where there is none.

    The same commits give the same placement. Groups of a worker that is gone, and as many as a new one needs, move at
    once, by the rows of each hour of the last day; a search of a second at most. Else a look at 256 counts.
    """
    workers = moving.workers or max(1, min(cores, BUCKETS))
    stood = None if head is None else placement_of(head.commit.document)
    if head is None or stood is None:
        return even(workers)
    if workers != stood.workers:
        return _others(moving, workers, stood, home, head)
    if moving.every is None or workers == 1 or head.watermark is None:
        return stood
    if stood.looked is not None and head.watermark - stood.looked < moving.every:
        return stood
    return _relieved(moving, stood, head)


def _relieved(moving: Moving, stood: Placement, head: Document) -> Placement:
    """Move as little as makes loads since the last look even, where they are less so than noise explains."""
    loads, at = np.array(stood.since or [0] * BUCKETS), np.array(stood.worker_of)
    looked = replace(stood, looked=head.watermark, since=())
    imbalance = float(np.bincount(at, loads, stood.workers).max() * stood.workers / max(loads.sum(), 1))
    if imbalance <= ACCEPTED:  # mostly, and without loading what searches
        return replace(looked, why=f"looked at, stays: imbalance {imbalance:.2f}")
    from ceps.streams.rebalance import rebalance

    held = bytes_of(head.commit.document)
    budget = budget_of(moving.budget, float(held.sum()))
    found = rebalance(loads, held, at, stood.workers, budget=budget, accepted=ACCEPTED)
    if found.explained or (found.worker_of == at).all():
        return replace(looked, why=f"looked at, stays: imbalance {found.before:.2f}")
    why = f"moved: imbalance {found.before:.2f} to {found.after:.2f}, at least {found.bound:.2f}"
    return replace(looked, worker_of=tuple(found.worker_of.tolist()), why=why)


def _others(moving: Moving, workers: int, stood: Placement, home: Home, head: Document) -> Placement:
    """Place the groups of workers that are gone, and give new ones their part: by the pattern of the last day."""
    from ceps.streams.rebalance import rebalance

    held, loads = bytes_of(head.commit.document), day_pattern(home, head)
    at = np.array(stood.worker_of)
    gone = at >= workers
    come = max(workers - stood.workers, 0) / workers
    budget = max(budget_of(moving.budget, float(held.sum())), 1.25 * come * float(held.sum()))
    found = rebalance(loads, held, np.where(gone, -1, at), workers, budget=budget, significance=1.0)
    why = f"{workers} workers instead of {stood.workers}: imbalance {found.after:.2f}, at least {found.bound:.2f}"
    return Placement(tuple(found.worker_of.tolist()), workers, why, head.watermark)


def day_pattern(home: Home, head: Document) -> Numbers:
    """Return rows of each group by hour, int64 (256, slots), of the day before a commit.

    Ones where none was counted.
    """
    slots: dict[int, Numbers] = {}
    last = head.watermark or 0
    for count, commit in enumerate(home.batches.newest_first()):
        mark = commit.document.get("watermark")
        if count == MOST_COMMITS or mark is None or mark <= last - DAY_US:
            break
        slot = mark // SLOT_US
        slots[slot] = slots.get(slot, 0) + rows_of(commit.document)
    loads = np.array([slots[slot] for slot in sorted(slots)], np.int64).reshape(-1, BUCKETS).T
    return loads if loads.any() else np.ones((BUCKETS, 1), np.int64)
