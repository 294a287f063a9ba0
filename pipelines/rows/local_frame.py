"""Positions in this process: where rows come from, how they are screened, and the good ones and the others apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.erasure.forgotten import ForgottenIds
from dtoss.partition import numbers as arrow_of
from dtoss.partition import values_of
from pipelines.engines.local_rows import LocalRows, rows_of_batches, run_all
from pipelines.engines.rows import Batches
from pipelines.rows.input_columns import RAW, REASON
from pipelines.rows.row_plan import ZERO, RowPlan, screen_rows

Step = Callable[[pa.RecordBatch], pa.RecordBatch]
"""What completes screened rows."""
Mask = Callable[[pa.RecordBatch], NDArray[np.bool_]]
"""What says of screened rows which are meant."""


@dataclass(frozen=True)
class _Where:
    """A step that keeps some rows."""

    kept: Mask


class Source(Protocol):
    """Rows as they are read."""

    def tasks(self, columns: Sequence[str]) -> Sequence[Callable[[], Batches]]:
        """Return tasks that yield these columns of all rows, each time anew, in the same order."""
        ...


@dataclass(frozen=True)
class TableSource:
    """Rows of tables; each is a task."""

    tables: Sequence[pa.Table]

    def tasks(self, columns: Sequence[str]) -> Sequence[Callable[[], Batches]]:
        """As :meth:`Source.tasks`."""
        return [partial(iter, table.select(list(columns)).to_batches()) for table in self.tables]


@dataclass(frozen=True)
class RowsSource:
    """Rows that a job has made."""

    rows: LocalRows

    def tasks(self, columns: Sequence[str]) -> Sequence[Callable[[], Batches]]:
        """As :meth:`Source.tasks`."""
        return self.rows.map(lambda batches: (batch.select(list(columns)) for batch in batches)).tasks


@dataclass(frozen=True)
class Tally:
    """What was seen of some rows: how many, why some are bad, and where and when the good ones are."""

    read: int = 0
    forgotten: int = 0  # Rows that were dropped, and not read
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
            self.forgotten + other.forgotten,
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


@dataclass(frozen=True)
class Good:
    """The rows that can be used, without their reasons, by task; and what was seen of all rows."""

    batches: list[list[pa.RecordBatch]]
    tally: Tally


@dataclass
class _Dropped:
    """How many rows of those who are forgotten were dropped, by task, when all rows were last asked for."""

    rows: list[int] | None = None


@dataclass(frozen=True)
class LocalFrame:
    """Rows of positions in our columns, screened when they are asked for."""

    source: Source
    plan: RowPlan | None  # None where rows are screened already
    steps: tuple[Step | _Where, ...] = ()
    known: ForgottenIds | None = None  # Whose rows are dropped
    dropped: _Dropped = field(default_factory=_Dropped)  # Shared with the frames that are made of this one
    doubted: Mask | None = None  # Which rows may be set aside later though they have no reason; None where none may
    given: pa.Schema | None = None  # The columns of rows that are screened already, without a reason

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns, with the reason, without rows as they were read."""
        schema = pa.schema([*(self.given or ()), (REASON, pa.string())]) if self.plan is None else self.plan.schema
        rows = pa.record_batch([pa.nulls(0, one.type) for one in schema], schema=schema)
        return self._apply_steps(rows, np.arange(0))[0].schema

    def _columns_to_read(self) -> list[str]:
        return self.plan.needed if self.plan is not None else [] if self.given is None else self.given.names

    @property
    def columns(self) -> list[str]:
        """Their names."""
        return [*self.schema.names, RAW]

    def then(self, step: Step) -> LocalFrame:
        """Return the frame with another step behind the others."""
        return replace(self, steps=(*self.steps, step))

    def where(self, kept: Mask) -> LocalFrame:
        """Return the frame with those rows only which come through the steps so far and are kept."""
        return replace(self, steps=(*self.steps, _Where(kept)))

    @property
    def forgotten(self) -> int:
        """How many rows were dropped, as those of whom they are were forgotten."""
        if self.known is None:
            return 0
        return self.good.tally.forgotten if self.dropped.rows is None else sum(self.dropped.rows)

    @cached_property
    def good(self) -> Good:
        """The rows that can be used, kept in memory."""
        done = run_all(self.source.tasks(self._columns_to_read()), self._good)
        return Good([batches for batches, _ in done], sum((tally for _, tally in done), Tally()))

    def rows(self, names: Sequence[str]) -> LocalRows:
        """Return some columns of the rows that can be used."""
        return rows_of_batches([[batch.select(list(names)) for batch in batches] for batches in self.good.batches])

    def screened(self) -> LocalRows:
        """Return all rows with their reasons, none of which is kept in memory."""
        return LocalRows(self.source.tasks(self._columns_to_read())).map(lambda batches: map(self._screened, batches))

    def table(self) -> pa.Table:
        """Return all rows with their reasons."""
        return pa.Table.from_batches([one for batches in self.screened().collect() for one in batches], self.schema)

    def stream(self) -> Batches:
        """Yield all rows with their reasons, one task after another, and keep none."""
        for task in self.source.tasks(self._columns_to_read()):
            for batch in task():
                yield self._screened(batch)

    def rejected(self) -> LocalRows:
        """Return the rows that have a reason: it, and the row as it was read, as JSON."""
        from pipelines.rows.raw_json import raw_rows

        def bad(batches: Batches) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                assert plan is not None
                rows, stay, _ = self._screen_batch(batch)
                at = np.flatnonzero(values_of(rows.column(REASON).is_valid()))
                if len(at):
                    raw = raw_rows(plan.row_as_read(batch.take(arrow_of(stay[at]))))
                    yield pa.record_batch([rows.column(REASON).take(arrow_of(at)), raw], names=["reason", "row"])

        plan = self.plan
        if plan is None:
            return LocalRows([])
        names = dict.fromkeys([*plan.as_read, *plan.needed])
        return LocalRows(list(self.source.tasks(list(names)))).map(bad)

    def with_raw(self) -> LocalRows:
        """Return all rows with their reasons, and of those that have one or are doubted as what they were read.

        That is JSON, in the column ``_raw``. A task without such rows reads no columns that nothing is made of.
        """
        source = self.source.tasks(self._columns_to_read())
        counts = self.dropped.rows = [0] * len(source)
        return LocalRows([partial(self._with_raw, task, number, counts) for number, task in enumerate(source)])

    def _with_raw(self, task: Callable[[], Batches], number: int, counts: list[int]) -> Iterator[pa.RecordBatch]:
        kept: list[tuple[pa.RecordBatch, NDArray[np.bool_]]] = []
        wanted: list[NDArray[np.int64]] = []
        first = gone = 0
        for batch in task():
            rows, stay, dropped = self._screen_batch(batch)
            doubted = values_of(rows.column(REASON).is_valid())
            if self.doubted is not None:
                doubted = doubted | self.doubted(rows)
            kept.append((rows, doubted))
            wanted.append(first + stay[doubted])
            first, gone = first + len(batch), gone + dropped
        counts[number] = gone
        raw = self._as_read(number, np.concatenate([np.arange(0), *wanted]))
        begin = 0
        for rows, doubted in kept:
            places = begin + np.cumsum(doubted) - 1
            yield rows.append_column(RAW, raw.take(arrow_of(places, doubted)))
            begin += int(np.count_nonzero(doubted))

    def _as_read(self, number: int, places: NDArray[np.int64]) -> pa.Array:
        """Return rows of a task, by their places in it, which rise, as JSON; read again, as few are asked for."""
        from pipelines.rows.raw_json import raw_rows

        plan, found, first = self.plan, [], 0
        if plan is None or len(places) == 0:
            return pa.nulls(len(places), pa.string())
        names = list(dict.fromkeys([*plan.as_read, *plan.needed]))
        for batch in self.source.tasks(names)[number]():
            here = places[np.searchsorted(places, first) : np.searchsorted(places, first + len(batch))] - first
            first += len(batch)
            if len(here):
                found.append(raw_rows(plan.row_as_read(batch.take(arrow_of(here)))))
        return pa.concat_arrays(found)

    def _apply_steps(self, rows: pa.RecordBatch, stay: NDArray[np.int64]) -> tuple[pa.RecordBatch, NDArray[np.int64]]:
        for step in self.steps:
            if isinstance(step, _Where):
                kept = np.flatnonzero(step.kept(rows))
                if len(kept) < len(rows):
                    rows, stay = rows.take(arrow_of(kept)), stay[kept]
            else:
                rows = step(rows)
        return rows, stay

    def _screened(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return self._screen_batch(batch)[0]

    def _screen_batch(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, NDArray[np.int64], int]:
        """Return rows with their reasons, which rows of the input they are, and how many were dropped as forgotten."""
        stay = np.arange(len(batch))
        none = pa.nulls(len(batch), pa.string())
        rows = batch.append_column(REASON, none) if self.plan is None else screen_rows(self.plan, batch)
        if self.known is not None:
            stay = np.flatnonzero(~self.known.mask(rows.column("id")))
            rows = rows.take(arrow_of(stay))
        return *self._apply_steps(rows, stay), len(batch) - len(stay)

    def _good(self, batches: Batches) -> tuple[list[pa.RecordBatch], Tally]:
        kept, tally = [], Tally()
        for batch in batches:
            rows, _, gone = self._screen_batch(batch)
            good, seen = part_good(rows)
            tally = tally + replace(seen, forgotten=gone)
            kept.append(good)
        return kept, tally


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
    return good, Tally(len(rows), 0, bad, low, high, zero, from_360, times)
