"""Windows in this process: rows are added, and each advance gives the results of ends that are due or have changed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from dtoss.geometry.space import as_positions
from dtoss.windows.aggregation.pane_state import Columns, PaneState
from dtoss.windows.aggregation.reduce_step import ROWS, groups_step
from dtoss.windows.aggregation.windows_at_watermark import check_length, flow_between, window_now
from dtoss.windows.durations import duration_of, duration_text
from dtoss.windows.keys import Keys
from dtoss.windows.query.wide import answer_of
from dtoss.windows.spec import LAST_TIME, Spec
from dtoss.windows.trajectories.known_rows import ObjectState
from dtoss.windows.trajectories.map_step import WindowRows, objects_step
from dtoss.windows.trajectories.visitors import last_visits
from dtoss.windows.watermark import IN_FUTURE, TOO_LATE, horizon_of, watermark_of

_SHOWN = ("key", "end", "revision", "final")
_SECOND = 1_000_000
_NANOS = 1_000


class Live:
    """Windows whose state is in memory. One thread at a time.

    ``clock``: gives the time in microseconds since 1970, against which rows are ahead; None for that of the machine.

    Examples
    --------
    >>> from dtoss.geometry.space import space_of
    >>> from dtoss.windows.keys import site_keys
    >>> from dtoss.windows.spec import spec_of
    >>> keys = site_keys(space_of(None, "plane"), np.array([[0.0, 0.0], [100.0, 0.0]]))
    >>> spec = spec_of("5min,1h", "1min", "rows,objects,arrivals,flow", "sites:shops.csv", keys.space, keys.digest)
    >>> live = Live(spec, keys)
    >>> live.add(["a", "b", "a"], [0, 30, 90], [[1, 0], [99, 0], [70, 0]])
    >>> live.add(["a", "b"], [200, 200], [[70, 0], [99, 0]])
    >>> live.advance().num_rows
    6
    >>> live.at("5min").select(["key", "rows", "objects", "arrivals"]).to_pylist()[1]
    {'key': 1, 'rows': 2, 'objects': 2, 'arrivals': 1}
    >>> live.flow("5min").to_pylist()
    [{'from': 0, 'to': 1, 'moves': 1}]
    """

    def __init__(self, spec: Spec, keys: Keys, *, piece: int = ROWS, clock: Callable[[], int] | None = None) -> None:
        if keys.digest != spec.keys:
            raise ValueError(f"keys have the digest {keys.digest}, and the spec is of {spec.keys}: give those")
        self.spec, self._keys, self._piece = spec, keys, piece
        self._clock = clock or (lambda: time.time_ns() // _NANOS)
        self._rows: list[WindowRows] = []
        self._objects: ObjectState | None = None
        self._panes = PaneState.none(spec)
        self._watermark: int | None = None
        self._counts: Counter[str] = Counter(counted=0, losers=0, jumps=0)
        self._told: list[pa.Table] = []

    @property
    def watermark(self) -> int | None:
        """The time behind which ends are due, in microseconds since 1970; None before the first row."""
        return self._watermark

    @property
    def counts(self) -> Mapping[str, int]:
        """Rows that were ``counted``, ``losers`` and set aside by reason, all together those added; and ``jumps``."""
        return dict(self._counts)

    def add(self, ids: Any, times: Any, positions: ArrayLike) -> None:
        """Add rows in any order; they count when :meth:`advance` is called next.

        ``ids``: (n,). Whole numbers or texts, the same kind at each call; ``times``: (n,). Times, or seconds since
        1970; ``positions``: float64 (n, 2). lon, lat or x, y.
        """
        rows = WindowRows(_ids(ids), _micros(times), as_positions(positions, self.spec.space), np.zeros(0, np.int64))
        if not len(rows.ids) == len(rows.t) == len(rows.positions):
            raise ValueError(f"there are {len(rows.ids)} ids, {len(rows.t)} times and {len(rows.positions)} positions")
        known = self._rows[0].ids if self._rows else None if self._objects is None else self._objects.ids
        if known is not None and known.type != rows.ids.type:
            raise ValueError(f"ids are {rows.ids.type}, and those before are {known.type}: one kind is wanted")
        if len(rows):
            self._rows.append(WindowRows(rows.ids, rows.t, rows.positions, np.zeros(len(rows), np.int64)))

    def advance(self, into: Callable[[pa.Table], object] | None = None) -> pa.Table:
        """Return the results of ends that have become due since the last advance, and new revisions of others.

        A row for each end and key with any value: ``end``, ``key``, ``revision``, ``final``, and the measures of each
        length. A key that has become empty has a row of zeros. Speeds are in mm/s, null where nothing moved. ``into``:
        what each piece of the results is handed to; the table is empty then, and :meth:`at` knows of no end.
        """
        if not self._rows:
            return Columns(self.spec).results.empty_table()
        rows = self._judged()
        if self._objects is None:
            self._objects = ObjectState.none(rows.ids.type, self._keys.single)
        before = self._watermark
        step = objects_step(self.spec, self._keys, self._objects, rows, horizon_of(self.spec, before))
        after = watermark_of(self.spec, step.reached, before)
        groups = groups_step(self.spec, self._panes, step.patches, before, after, piece=self._piece, into=into)
        self._rows, self._objects, self._panes, self._watermark = [], step.after, groups.after, after
        self._counts.update(counted=len(rows) - step.duplicates, losers=step.duplicates, jumps=step.jumps)
        self._remember(groups.results)
        return groups.results

    def at(self, window: str, end: Any = None) -> pa.Table:
        """Return one window: a row for each key with any value, by key.

        Of key, end, revision and final, and what :func:`dtoss.windows.query.wide.answer_of` says of the measures.
        ``end``: microseconds since 1970, or a time: one that is due and not longer ago than the longest window. None
        takes the last one that is due; a length that was not declared ends at the watermark.
        """
        length, due = duration_of(window, "window"), self._due()
        if length not in self.spec.lengths:
            check_length(self.spec, length)
            if end is not None and _micro(end) != due:
                raise ValueError(f"a window of {window} was not declared: it is known where it ends at {due}")
            return self._now(length, due)
        at = due // self.spec.slide * self.spec.slide if end is None else _micro(end)
        oldest = due - self.spec.lengths[-1]
        if not oldest < at <= due or at % self.spec.slide:
            raise ValueError(
                f"no window that ends at {at} is kept: ends are multiples of {duration_text(self.spec.slide)} after "
                f"{oldest} and up to {due}"
            )
        rows = self._last(at)
        name = self.spec.names[self.spec.lengths.index(length)]
        return answer_of(self.spec, rows, name, _SHOWN)

    def flow(self, window: str, end: Any = None) -> pa.Table:
        """Return how many moves there were from each key to each other in a window: from, to (-1 is none), moves.

        ``end``: microseconds since 1970, or a time; None for the watermark.
        """
        if "flow" not in self.spec.measures:
            raise ValueError(f"there is no flow: the measures are {', '.join(self.spec.measures)}")
        due = self._due()
        at = due if end is None else _micro(end)
        if at > due or at % self.spec.pane:
            raise ValueError(f"no window ends at {at}: multiples of {duration_text(self.spec.pane)} up to {due} do")
        return flow_between(self.spec, self._panes, at, duration_of(window, "window"))

    def _judged(self) -> WindowRows:
        """Return the rows that were added but those that are set aside."""
        whole = _concatenated(self._rows)
        ahead = whole.t > self._clock() + self.spec.max_ahead
        late = np.zeros(len(whole), np.bool_)
        if self._watermark is not None:
            late = ~ahead & (whole.t < self._watermark - self.spec.late)
        for reason, aside in ((IN_FUTURE, ahead), (TOO_LATE, late)):
            if aside.any():
                self._counts[reason] += int(aside.sum())
        bad = ahead | late
        return whole.take(np.flatnonzero(~bad)) if bad.any() else whole

    def _due(self) -> int:
        if self._watermark is None:
            raise ValueError("there was no row yet, and no end is due: add rows, then advance")
        return self._watermark

    def _remember(self, results: pa.Table) -> None:
        """Keep results of ends that :meth:`at` can be asked for."""
        if self._watermark is None:
            return
        oldest = self._watermark - self.spec.lengths[-1]
        kept = [table for table in (*self._told, results) if len(table) and table["end"][-1].as_py() > oldest]
        self._told = kept[:-1] + [table.filter(pc.greater(table["end"], oldest)) for table in kept[-1:]]

    def _last(self, end: int) -> pa.Table:
        """Return the last revisions of an end, by key."""
        said = pa.concat_tables(
            [Columns(self.spec).results.empty_table(), *(one.filter(pc.equal(one["end"], end)) for one in self._told)]
        )
        keys = said["key"].to_numpy()
        order = np.argsort(keys, kind="stable")  # a later revision is behind
        last = order[np.append(keys[order][1:] != keys[order][:-1], np.ones(min(1, len(keys)), np.bool_))]
        rows = said.take(pa.array(last))
        final = np.full(len(rows), end <= self._due() - self.spec.late)
        return rows.set_column(rows.schema.get_field_index("final"), "final", pa.array(final))

    def _now(self, length: int, due: int) -> pa.Table:
        visitors = np.zeros(0, np.int64), np.zeros(0, np.int64)
        if "objects" in self.spec.measures and self._objects is not None:
            found = last_visits(self.spec, [self._objects], due // self.spec.pane)
            visitors = found.slots.keys, found.within(length // self.spec.pane)[0]
        rows = window_now(self.spec, self._panes, due, length, "now", visitors)
        said = {"end": due, "revision": 0, "final": self.spec.late == 0}
        for name, value in said.items():
            rows = rows.append_column(
                name, pa.array([value] * len(rows), pa.bool_() if name == "final" else pa.int64())
            )
        return answer_of(self.spec, rows, "now", _SHOWN)


def _ids(ids: Any) -> pa.Array:
    """Return ids as int64 or string."""
    found = pa.array(ids) if not isinstance(ids, pa.Array | pa.ChunkedArray) else ids
    if isinstance(found, pa.ChunkedArray):
        found = found.combine_chunks()
    if found.null_count:
        raise ValueError(f"row {int(found.is_null().to_numpy(zero_copy_only=False).argmax())} has no id")
    if pa.types.is_integer(found.type):
        return found.cast(pa.int64())
    if pa.types.is_string(found.type) or pa.types.is_large_string(found.type):
        return found.cast(pa.string())
    if len(found) == 0:
        return pa.array([], pa.int64())
    raise ValueError(f"ids are of type {found.type}: whole numbers or texts are wanted")


def _micros(times: Any) -> NDArray[np.int64]:
    """Return times as whole microseconds since 1970, of seconds the nearest."""
    found = times.to_numpy(zero_copy_only=False) if isinstance(times, pa.Array) else np.asarray(times)
    if found.dtype.kind == "M":
        wrong = np.isnat(found)
        micros = found.astype("M8[us]").astype(np.int64)
    elif found.dtype.kind in "iuf":
        wrong = ~(np.abs(found.astype(np.float64)) <= LAST_TIME / _SECOND)
        seconds = np.where(wrong, 0, found)
        micros = seconds.astype(np.int64) * _SECOND if found.dtype.kind != "f" else np.rint(seconds * _SECOND)
        micros = micros.astype(np.int64)
    elif found.size == 0:
        return np.zeros(0, np.int64)
    else:
        raise ValueError(f"times are {found.dtype}: times, or seconds since 1970, are wanted")
    wrong |= np.abs(micros) > LAST_TIME
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"row {row} has the time {found[row]}: {LAST_TIME // _SECOND} seconds from 1970 at most are legal"
        )
    return micros


def _micro(moment: Any) -> int:
    """Return an end as microseconds since 1970: those are what results have."""
    return int(moment) if isinstance(moment, int | np.integer) else int(_micros(np.array([moment], "M8[us]"))[0])


def _concatenated(rows: list[WindowRows]) -> WindowRows:
    if len(rows) == 1:
        return rows[0]
    return WindowRows(
        pa.concat_arrays([one.ids for one in rows]),
        np.concatenate([one.t for one in rows]),
        np.concatenate([one.positions for one in rows]),
        np.concatenate([one.bucket for one in rows]),
    )
