"""Rows of positions as they are screened: what is made of raw ones, the good and the others apart, what was seen."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.erasure.forgotten import ForgottenIds
from dtoss.partition import numbers as arrow_of
from dtoss.partition import values_of
from dtoss.rows.input_columns import RAW, REASON
from dtoss.rows.row_plan import ZERO, RowPlan, screen_rows
from pipelines.engines.local_rows import LocalRows
from pipelines.engines.rows import Batches, Rows, Schema, one_value
from pipelines.engines.spark_rows import TaskCounts, task_counts
from pipelines.rows.row_sources import Read, Source

Step = Callable[[pa.RecordBatch], pa.RecordBatch]
"""What completes screened rows."""
Mask = Callable[[pa.RecordBatch], NDArray[np.bool_]]
"""What says of screened rows which are meant."""


@dataclass(frozen=True)
class _Where:
    """A step that keeps some rows."""

    kept: Mask


@dataclass(frozen=True)
class Screen:
    """What is made of raw rows, batch after batch."""

    plan: RowPlan | None  # None where rows are screened already
    given: pa.Schema | None = None  # The columns of rows that are screened already, without a reason
    steps: tuple[Step | _Where, ...] = ()
    known: ForgottenIds | None = None  # Whose rows are dropped
    doubted: Mask | None = None  # Which rows may be set aside later though they have no reason; None where none may

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns, with the reason."""
        schema = pa.schema([*(self.given or ()), (REASON, pa.string())]) if self.plan is None else self.plan.schema
        rows = pa.record_batch([pa.nulls(0, one.type) for one in schema], schema=schema)
        return self._apply_steps(rows, np.arange(0))[0].schema

    @property
    def needed(self) -> list[str]:
        """The columns that are read of each row."""
        return self.plan.needed if self.plan is not None else [] if self.given is None else self.given.names

    @property
    def whole(self) -> list[str]:
        """The columns that are read where a row is to be told as it was read."""
        return self.needed if self.plan is None else list(dict.fromkeys([*self.plan.as_read, *self.plan.needed]))

    def apply(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, NDArray[np.int64], int]:
        """Return rows with their reasons, which rows of the input they are, and how many were dropped as forgotten."""
        stay = np.arange(len(batch))
        none = pa.nulls(len(batch), pa.string())
        rows = batch.append_column(REASON, none) if self.plan is None else screen_rows(self.plan, batch)
        if self.known is not None:
            stay = np.flatnonzero(~self.known.mask(rows.column("id")))
            rows = rows.take(arrow_of(stay))
        return *self._apply_steps(rows, stay), len(batch) - len(stay)

    def marks(self, rows: pa.RecordBatch) -> NDArray[np.bool_]:
        """Return which screened rows have a reason, or are doubted."""
        bad = values_of(rows.column(REASON).is_valid())
        return bad if self.doubted is None else bad | self.doubted(rows)

    def raw(self, batch: pa.RecordBatch, rows: NDArray[np.int64]) -> pa.Array:
        """Return some rows of a batch that was read whole, as JSON."""
        from dtoss.rows.raw_json import raw_rows

        if self.plan is None or len(rows) == 0:
            return pa.nulls(len(rows), pa.string())
        return raw_rows(self.plan.row_as_read(batch.take(arrow_of(rows))))

    def _apply_steps(self, rows: pa.RecordBatch, stay: NDArray[np.int64]) -> tuple[pa.RecordBatch, NDArray[np.int64]]:
        for step in self.steps:
            if isinstance(step, _Where):
                kept = np.flatnonzero(step.kept(rows))
                if len(kept) < len(rows):
                    rows, stay = rows.take(arrow_of(kept)), stay[kept]
            else:
                rows = step(rows)
        return rows, stay


@dataclass(frozen=True)
class Tally:
    """What was seen of some rows: how many, why some are bad, and where and when the good ones are."""

    read: int = 0
    bad: Counter[str] = field(default_factory=Counter)
    low: NDArray[np.float64] = field(default_factory=lambda: np.full(2, np.inf))
    high: NDArray[np.float64] = field(default_factory=lambda: np.full(2, -np.inf))
    at_zero: int = 0
    from_360: int = 0
    times: tuple[pa.Scalar, pa.Scalar] | None = None  # The first and the last

    def __add__(self, other: Tally) -> Tally:
        """Return what was seen of both."""
        return Tally(
            self.read + other.read,
            self.bad + other.bad,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.at_zero + other.at_zero,
            self.from_360 + other.from_360,
            _span(self.times, other.times),
        )


def _span(*spans: tuple[pa.Scalar, pa.Scalar] | None) -> tuple[pa.Scalar, pa.Scalar] | None:
    known = [span for span in spans if span is not None]
    if not known:
        return None
    both = pa.concat_arrays([pa.repeat(one, 1) for span in known for one in span])
    ends = pc.min_max(both)
    return ends["min"], ends["max"]


@dataclass
class _Dropped:
    """How many rows of those who are forgotten were dropped, by task, when rows were last asked for."""

    counts: TaskCounts | None = None


@dataclass(frozen=True)
class ScreenedFrame:
    """Rows of positions in our columns, screened when they are asked for, by tasks of the engine that reads them."""

    source: Source
    screen: Screen
    dropped: _Dropped = field(default_factory=_Dropped)  # Shared with the frames that are made of this one

    @property
    def schema(self) -> pa.Schema:
        """The columns, with the reason, without rows as they were read."""
        return self.screen.schema

    def then(self, step: Step) -> ScreenedFrame:
        """Return the frame with another step behind the others."""
        return self._with(replace(self.screen, steps=(*self.screen.steps, step)))

    def where(self, kept: Mask) -> ScreenedFrame:
        """Return the frame with those rows only which come through the steps so far and are kept."""
        return self._with(replace(self.screen, steps=(*self.screen.steps, _Where(kept))))

    def doubt(self, doubted: Mask) -> ScreenedFrame:
        """Return the frame where some rows may be set aside later though they have no reason."""
        return self._with(replace(self.screen, doubted=doubted))

    def without(self, known: ForgottenIds) -> ScreenedFrame:
        """Return the frame without the rows of those who are forgotten, which are counted."""
        return ScreenedFrame(self.source, replace(self.screen, known=known))

    def _with(self, screen: Screen) -> ScreenedFrame:
        return ScreenedFrame(self.source, screen, self.dropped)

    @property
    def forgotten(self) -> int:
        """How many rows were dropped, as those of whom they are were forgotten; to be asked once rows were read."""
        return 0 if self.dropped.counts is None else sum(self.dropped.counts.value.values())

    @cached_property
    def _kept_good(self) -> tuple[LocalRows, Tally]:
        """The good rows, which this process keeps, and what was seen of all."""
        rows = self._run(_whole, self.screen.needed, "")
        assert isinstance(rows, LocalRows)
        kept, tallies = rows.keep(part_good)
        return kept, sum(tallies, Tally())

    @cached_property
    def tally(self) -> Tally:
        """What is seen of all rows: an action. This process keeps the good ones."""
        if self.source.session is None:
            return self._kept_good[1]
        return sum(map(pickle.loads, self._run(_tally_of, self.screen.needed, "tally binary").values()), Tally())

    def rows(self, names: Sequence[str]) -> Rows:
        """Return some columns of the rows that can be used."""
        if self.source.session is None:
            return self._kept_good[0].map(lambda batches: (batch.select(list(names)) for batch in batches))
        schema = pa.schema([self.schema.field(name) for name in names])
        return self._run(partial(_good, list(names)), self.screen.needed, schema)

    def all_rows(self) -> Rows:
        """Return all rows with their reasons, none of which is kept in memory."""
        return self._run(_whole, self.screen.needed, self.schema)

    def rejected(self) -> Rows:
        """Return the rows that have a reason: the columns ``reason`` and ``row``, which is as it was read, as JSON."""
        return self._run(_bad_rows, self.screen.whole, pa.schema([("reason", pa.string()), ("row", pa.string())]))

    def with_raw(self) -> Rows:
        """Return all rows with their reasons, and of those that have one or are doubted as what they were read.

        That is JSON, in the column ``_raw``. Where rows can be read again, a task without such rows reads no columns
        that nothing is made of.
        """
        schema = self.schema.append(pa.field(RAW, pa.string()))
        if self.source.again:
            return self._run(_with_raw_again, self.screen.needed, schema)
        return self._run(_with_raw, self.screen.whole, schema)

    def _run(self, work: Callable[[_Pass], Batches], columns: Sequence[str], schema: Schema) -> Rows:
        screen, counts = self.screen, None
        if screen.known is not None:
            counts = self.dropped.counts = task_counts(self.source.session)
        return self.source.rows(
            lambda number, read: work(_Pass(screen, counts, number, read, columns)), columns, schema
        )


@dataclass(frozen=True)
class _Pass:
    """What a task goes through."""

    screen: Screen
    counts: TaskCounts | None  # Of rows that are dropped
    number: int  # Of the task
    read: Read
    columns: Sequence[str]

    def batches(self) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch, NDArray[np.int64]]]:
        """Yield batches as they are read, their rows with reasons, and which rows of the former these are."""
        gone = 0
        for batch in self.read(self.columns):
            rows, stay, dropped = self.screen.apply(batch)
            gone += dropped
            yield batch, rows, stay
        if self.counts is not None:
            self.counts.add({self.number: gone})


def _whole(one: _Pass) -> Batches:
    return (rows for _, rows, _ in one.batches())


def _good(names: list[str], one: _Pass) -> Batches:
    for _, rows, _ in one.batches():
        reasons = rows.column(REASON)
        good = rows.select(names)
        yield good if reasons.null_count == len(rows) else good.filter(reasons.is_null())


def _tally_of(one: _Pass) -> Batches:
    tally = sum((part_good(rows)[1] for _, rows, _ in one.batches()), Tally())
    yield one_value("tally", pickle.dumps(tally))


def _bad_rows(one: _Pass) -> Batches:
    for batch, rows, stay in one.batches():
        at = np.flatnonzero(values_of(rows.column(REASON).is_valid()))
        if len(at):
            reasons, raw = rows.column(REASON).take(arrow_of(at)), one.screen.raw(batch, stay[at])
            yield pa.record_batch([reasons, raw], names=["reason", "row"])


def _with_raw(one: _Pass) -> Batches:
    for batch, rows, stay in one.batches():
        marked = one.screen.marks(rows)
        yield _beside(rows, marked, one.screen.raw(batch, stay[marked]))


def _with_raw_again(one: _Pass) -> Batches:
    raw, first = _raw_behind(one), 0
    for batch, rows, stay in one.batches():
        marked = one.screen.marks(rows)
        yield _beside(rows, marked, raw(first + stay[marked]))
        first += len(batch)


def _raw_behind(one: _Pass) -> Callable[[NDArray[np.int64]], pa.Array]:
    """Return what gives rows of a task as JSON, by their places in it, which rise from call to call.

    It reads the task's rows again, as far as it is asked: nothing where it is asked for none.
    """
    batches = (batch for columns in [one.screen.whole] for batch in one.read(columns))
    first, batch = 0, None

    def raw(places: NDArray[np.int64]) -> pa.Array:
        nonlocal first, batch
        found = []
        while len(places):
            while batch is None or places[0] >= first + len(batch):
                first += 0 if batch is None else len(batch)
                batch = next(batches)
            here = places[: np.searchsorted(places, first + len(batch))]
            found.append(one.screen.raw(batch, here - first))
            places = places[len(here) :]
        return pa.concat_arrays(found) if found else pa.nulls(0, pa.string())

    return raw


def _beside(rows: pa.RecordBatch, marked: NDArray[np.bool_], raw: pa.Array) -> pa.RecordBatch:
    """Return rows with the text of those that are marked."""
    return rows.append_column(RAW, raw.take(arrow_of(np.cumsum(marked) - 1, marked)))


def part_good(rows: pa.RecordBatch) -> tuple[pa.RecordBatch, Tally]:
    """Return the rows without a reason, and what was seen of all. Cost O(n)."""
    reasons = rows.column(REASON)
    good = rows.select([name for name in rows.schema.names if name != REASON])
    bad: Counter[str] = Counter()
    if reasons.null_count < len(rows):
        bad.update({one["values"]: one["counts"] for one in pc.value_counts(reasons.drop_null()).to_pylist()})
        good = good.filter(reasons.is_null())
    x = values_of(rows.column("x").fill_null(ZERO))
    from_360 = int(np.count_nonzero((x > 180.0) & (x <= 360.0)))
    if len(good) == 0:
        return good, Tally(len(rows), bad=bad, from_360=from_360)
    places = [values_of(good.column(name).drop_null()) for name in ("x", "y")]
    box = [(part.min(), part.max()) if len(part) else (np.inf, -np.inf) for part in places]
    low, high = (np.array(edge, np.float64) for edge in zip(*box, strict=True))
    zero = int(np.count_nonzero((places[0] == 0.0) & (places[1] == 0.0)))
    times = None
    if "t" in good.schema.names:
        ends = pc.min_max(good.column("t"))
        times = (ends["min"], ends["max"])
    return good, Tally(len(rows), bad, low, high, zero, from_360, times)
