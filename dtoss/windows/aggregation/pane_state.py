"""What stays of panes between two batches, and the columns that running sums and results have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from dtoss.windows.aggregation.pane_cells import Cells, Incoming, Numbers, added, gathered, joined, replace_cells
from dtoss.windows.measures import MEASURES, PERCENTILES, SPEEDS
from dtoss.windows.spec import Spec

_MERGED = 4
"""Closed cells are written together where older ones are not more than so many times as many."""


@dataclass(frozen=True)
class Layers:
    """Cells of panes before the base, in parts that follow one another, and of those from it on."""

    closed: tuple[Cells, ...]  # Of panes that change no more, oldest first
    open: Cells

    @classmethod
    def none(cls, labels: int, columns: int) -> Layers:
        """Return layers without cells."""
        return cls((), Cells.none(labels, columns))

    def between(self, first: int, last: int) -> Cells:
        """Return the cells of panes from ``first`` on and before ``last``."""
        return joined([self.open.between(first, last)] if not self.closed else self._parts(first, last))

    def _parts(self, first: int, last: int) -> list[Cells]:
        return [part.between(first, last) for part in (*self.closed, self.open)]

    def folded(self, base: int, since: int) -> Layers:
        """Return them with another base, without panes before ``since``."""
        begin = int(np.searchsorted(self.open.pane, base))
        return Layers(closed_with(self.closed, self.open.between(since, base), since), _copied(self.open, begin))


def closed_with(closed: Sequence[Cells], part: Cells, since: int) -> tuple[Cells, ...]:
    """Return closed cells with a part that follows them, without panes before ``since``.

    Each part is at least four times as large as the next: there are few, and a cell is copied seldom.
    """
    found: list[Cells] = []
    for one in (*closed, part):
        if len(one) == 0 or int(one.pane[-1]) < since:
            continue
        merged = one
        while found and len(found[-1]) < _MERGED * len(merged):
            merged = joined([found.pop(), merged])
        found.append(merged)
    if found:
        found[0] = _trimmed(found[0], since)
    return tuple(found)


@dataclass(frozen=True)
class PaneState:
    """The panes and running sums of some keys."""

    base: int | None  # The first pane that may still change; None before any watermark
    keys: Numbers  # int64 (k,), rising. Those with a running sum
    running: Numbers  # int64 (columns, k). The running sums over the panes before the base, as :attr:`Columns.running`
    # By key: what leaves a window with its pane, of panes before the base, in parts that follow one another
    closed_sums: tuple[Cells, ...]
    sums: Cells  # By key: the columns of ``spec.sums``, of panes from the base on
    flow: Layers  # By the two keys of moves: how many
    bins: Layers  # By key and bin of speed: how many moves
    bin_counts: Cells  # By key and bin, the pane 0: moves before the base in each length
    queues: Cells  # By key: greatest speeds of panes before the base that no later pane before it reaches
    maxima: Cells  # By key and bucket: greatest speeds of panes from the base on
    # By key, the end in place of the pane: the last revision of a result that is not final; those of 0 are left out
    revisions: Cells

    @classmethod
    def none(cls, spec: Spec) -> PaneState:
        """Return the state before the first batch."""
        columns = Columns(spec)
        return cls(
            None,
            np.zeros(0, np.int64),
            np.zeros((len(columns.running), 0), np.int64),
            (),
            Cells.none(1, len(spec.sums)),
            Layers.none(2, 1),
            Layers.none(2, 1),
            Cells.none(2, len(spec.lengths)),
            Cells.none(1, 1),
            Cells.none(2, 1),
            Cells.none(1, 1),
        )

    @property
    def cells(self) -> int:
        """How many there are, of all kinds."""
        layers = (cells for of in (self.flow, self.bins) for cells in (*of.closed, of.open))
        others = (self.sums, self.bin_counts, self.queues, self.maxima, self.revisions, *self.closed_sums)
        return len(self.keys) + sum(map(len, (*layers, *others)))

    @cached_property
    def least_open(self) -> int | None:
        """The first pane from the base on that has anything; None where none has."""
        panes = [int(cells.pane[0]) for cells in self._open() if len(cells)]
        return min(panes, default=None)

    def _open(self) -> tuple[Cells, ...]:
        return self.sums, self.flow.open, self.bins.open, self.maxima

    def with_patches(self, patches: Incoming) -> PaneState:
        """Return the state with patches added to its panes."""
        if self.base is not None and patches.first is not None and patches.first < self.base:
            raise ValueError(f"a patch changes pane {patches.first}, and those before {self.base} are closed")
        return replace(
            self,
            sums=added(self.sums, patches.sums),
            flow=replace(self.flow, open=added(self.flow.open, patches.flow)),
            bins=replace(self.bins, open=added(self.bins.open, patches.bins)),
            maxima=replace_cells(self.maxima, patches.maxima),
        )

    def to_arrow(self) -> dict[str, pa.Table]:
        """Return the state as tables by name; :meth:`from_arrow` is the way back."""
        closed = joined(self.closed_sums) if self.closed_sums else None
        tables = {
            name: as_table(cells)
            for name, cells in {
                "sums": self.sums,
                "flow": self.flow.between(_EARLIEST, _LATEST),
                "bins": self.bins.between(_EARLIEST, _LATEST),
                "bin_counts": self.bin_counts,
                "queues": self.queues,
                "maxima": self.maxima,
                "revisions": self.revisions,
            }.items()
        }
        running = pa.table({"key": self.keys, **{f"value_{i}": row for i, row in enumerate(self.running)}})
        base = b"" if self.base is None else str(self.base).encode()
        tables |= {} if closed is None else {"closed_sums": as_table(closed)}
        return {**tables, "running": running.replace_schema_metadata({_BASE: base})}

    @classmethod
    def from_arrow(cls, spec: Spec, tables: Mapping[str, pa.Table]) -> PaneState:
        """Return the state that :meth:`to_arrow` has made tables of."""
        running = tables["running"]
        text = (running.schema.metadata or {}).get(_BASE, b"")
        base = int(text) if text else None
        rows = [running.column(f"value_{i}").to_numpy() for i in range(len(Columns(spec).running))]
        cells = {name: from_table(table) for name, table in tables.items() if name != "running"}
        return cls(
            base,
            running.column("key").to_numpy(),
            np.stack(rows) if rows else np.zeros((0, len(running)), np.int64),
            (cells["closed_sums"],) if "closed_sums" in cells else (),
            cells["sums"],
            _layered(cells["flow"], base),
            _layered(cells["bins"], base),
            *(cells[name] for name in ("bin_counts", "queues", "maxima", "revisions")),
        )

    @classmethod
    def joined(cls, spec: Spec, states: Sequence[PaneState]) -> PaneState:
        """Return states of different keys, all of one base, as one; those that never began may be among them."""
        begun = [state for state in states if state.base is not None] or list(states[:1])
        if not begun:
            return cls.none(spec)
        if len({state.base for state in begun}) > 1:
            raise ValueError(f"states of panes have the bases {sorted({state.base or 0 for state in begun})}")
        keys = np.concatenate([state.keys for state in begun])
        closed = [joined(state.closed_sums) for state in begun if state.closed_sums]
        order = np.argsort(keys, kind="stable")

        def layers(some: Sequence[Layers]) -> Layers:
            closed = [joined(one.closed) for one in some if one.closed]
            return Layers((gathered(closed),) if closed else (), gathered([one.open for one in some]))

        return cls(
            begun[0].base,
            keys[order],
            np.concatenate([state.running for state in begun], axis=1)[:, order],
            (gathered(closed),) if closed else (),
            gathered([state.sums for state in begun]),
            layers([state.flow for state in begun]),
            layers([state.bins for state in begun]),
            *(
                gathered([getattr(state, name) for state in begun])
                for name in ("bin_counts", "queues", "maxima", "revisions")
            ),
        )


_EARLIEST, _LATEST = -(1 << 62), 1 << 62
_BASE = b"dtoss.windows.base"


def _trimmed(part: Cells, since: int) -> Cells:
    """Return a part without panes before one; the memory of what went is given back when it is more than half."""
    begin = int(np.searchsorted(part.pane, since))
    return part if begin == 0 else _copied(part, begin) if 2 * begin > len(part) else part.take(slice(begin, None))


def _copied(part: Cells, begin: int) -> Cells:
    rest = part.take(slice(begin, None))
    return Cells(rest.pane.copy(), rest.labels.copy(), rest.values.copy()) if begin else part


def as_table(cells: Cells) -> pa.Table:
    """Return cells as a table; :func:`from_table` is the way back."""
    labels = {f"label_{i}": column for i, column in enumerate(cells.labels.T)}
    return pa.table({"pane": cells.pane, **labels, **{f"value_{i}": one for i, one in enumerate(cells.values.T)}})


def from_table(table: pa.Table) -> Cells:
    """Return the cells that :func:`as_table` has made a table of."""

    def stacked(kind: str) -> Numbers:
        columns = [table.column(name).to_numpy() for name in table.column_names if name.startswith(kind)]
        return np.stack(columns, axis=1) if columns else np.zeros((len(table), 0), np.int64)

    return Cells(table.column("pane").to_numpy(), stacked("label"), np.ascontiguousarray(stacked("value")))


def _layered(cells: Cells, base: int | None) -> Layers:
    if base is None:
        return Layers((), cells)
    closed = cells.between(_EARLIEST, base)
    return Layers((closed,) if len(closed) else (), cells.between(base, _LATEST))


SLIDING = ("rows", "arrivals", "departures", "distance_mm", "moving_us")
"""Columns of sums that leave a window with their pane; the others count from their pane on."""
_FIRST = (("end", pa.int64()), ("key", pa.int64()), ("revision", pa.int64()), ("final", pa.bool_()))


@dataclass(frozen=True)
class Columns:
    """The columns of a spec."""

    spec: Spec

    @cached_property
    def sliding(self) -> tuple[str, ...]:
        """Columns of sums that leave a window with their pane."""
        return tuple(name for name in self.spec.sums if name in SLIDING)

    @cached_property
    def standing(self) -> tuple[str, ...]:
        """Columns of sums that count from their pane on."""
        return tuple(name for name in self.spec.sums if name not in SLIDING)

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """The lengths in panes."""
        return tuple(length // self.spec.pane for length in self.spec.lengths)

    @cached_property
    def greatest(self) -> bool:
        """Whether the greatest speed is asked for."""
        return "max_speed" in self.spec.measures

    @cached_property
    def percentiles(self) -> tuple[str, ...]:
        """The percentiles that are asked for."""
        return tuple(name for name in PERCENTILES if name in self.spec.measures)

    @cached_property
    def running(self) -> tuple[str, ...]:
        """The running sums, in the order in which they are kept."""
        slid = [f"{name}_{length}" for length in self.spec.names for name in self.sliding]
        return (*(self._shown(name) for name in self.standing), *slid)

    @cached_property
    def measured(self) -> tuple[str, ...]:
        """All columns of numbers in the order in which a sweep has them: sums, greatest values, percentiles."""
        greatest = [f"max_speed_{name}" for name in self.spec.names] if self.greatest else []
        return (
            *self.running,
            *greatest,
            *(f"{which}_{name}" for name in self.spec.names for which in self.percentiles),
        )

    @cached_property
    def speeds(self) -> int:
        """How many of them are speeds: the last ones."""
        return sum(map(self.is_speed, self.measured))

    @cached_property
    def results(self) -> pa.Schema:
        """The schema of results; a speed is null where there was no move."""
        each = [column for measure in MEASURES.values() for column in measure.columns if column != "here"]
        order = ["here", *(f"{column}_{name}" for name in self.spec.names for column in each)]
        return pa.schema([*_FIRST, *((name, pa.int64()) for name in order if name in self.measured)])

    @staticmethod
    def is_speed(name: str) -> bool:
        """Return whether a column of results holds speeds."""
        return name.startswith(SPEEDS)

    def _shown(self, name: str) -> str:
        """Return a column of sums by its name in results."""
        kind, mark, which = name.partition("_")
        return f"objects_{self.spec.names[int(which)]}" if mark and kind == "objects" else name
