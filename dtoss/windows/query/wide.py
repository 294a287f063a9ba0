"""One wide row a key, with the measures of all lengths and what the place is called.

One key over all ends of a time, also those at which nothing was told of it.

What is shown of a window: one row a key, speeds in metres a second; made of results, whoever has them.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.errors import InputError
from dtoss.names import near_name
from dtoss.windows.aggregation.pane_state import Columns
from dtoss.windows.measures import MEASURES, SPEEDS
from dtoss.windows.patches import NO_KEY
from dtoss.windows.spec import MM_OF_METRE, Spec

BEFORE_MEASURES = ("key", "end", "revision", "final")
"""The columns before the measures."""


def wide_of(spec: Spec, results: pa.Table) -> pa.Table:
    """Return results as answers have them, the measures of each length with its name behind: ``objects_5min``.

    :data:`BEFORE_MEASURES`, ``here`` where it is asked for, then the measures of the shortest length, of the next one,
    and so on.
    """
    columns = {name: results[name] for name in BEFORE_MEASURES}
    if "here" in spec.measures:
        columns["here"] = results["here"]
    for length in spec.names:
        answer = answer_of(spec, results, length, (), empty=True)
        columns |= {f"{name}_{length}": answer[name] for name in answer.column_names if name != "here"}
    return pa.table(columns)


def changed_between(before: pa.Table, now: pa.Table, end: int, final: bool) -> pa.Table:
    """Return the rows of keys whose measures are others than before; one that has none any more has 0 and nulls.

    ``before``, ``now``: answers about one end each, by key, of the same columns; ``end``, ``final``: of the answer now,
    for keys that are not in it.
    """
    both = [np.asarray(one["key"]) for one in (before, now)]
    keys = np.union1d(*both)
    were, are = (_at(one, keys) for one in (before, now))
    changed = np.zeros(len(keys), np.bool_)
    for name in now.column_names:
        if name not in BEFORE_MEASURES:
            changed |= _differ(were[name], are[name])
    same = {"key": pa.array(keys), "end": pa.array(np.full(len(keys), end)), "final": _filled(are["final"], final)}
    whole = pa.table({name: same.get(name, are[name]) for name in now.column_names})
    return whole.filter(pa.array(changed))


def _at(table: pa.Table, keys: NDArray[np.int64]) -> dict[str, pa.Array]:
    """Return the columns of keys: counts of those that are missing are 0, speeds null."""
    rows = pc.index_in(pa.array(keys), value_set=table["key"].combine_chunks())
    taken = table.take(rows)
    return {
        name: _filled(taken[name], 0) if pa.types.is_integer(taken[name].type) else taken[name].combine_chunks()
        for name in table.column_names
    }


def _filled(column: pa.Array | pa.ChunkedArray, value: int | bool) -> pa.Array:
    filled = pc.fill_null(column, value)
    return filled.combine_chunks() if isinstance(filled, pa.ChunkedArray) else filled


def _differ(one: pa.Array, other: pa.Array) -> NDArray[np.bool_]:
    a, b = (column.to_numpy(zero_copy_only=False) for column in (one, other))
    return np.asarray((a != b) & ~(np.asarray(one.is_null()) & np.asarray(other.is_null())))


def dense(rows: pa.Table, ends: NDArray[np.int64], key: int) -> pa.Table:
    """Return a row for each end; what has none is 0, and a speed null.

    ``rows``: results of the key, one an end at the most; ``ends``: int64 (n,). Rising.
    """
    at = pc.index_in(pa.array(ends), value_set=rows["end"].combine_chunks())
    taken = rows.take(at)
    made = {}
    for one in taken.schema:
        column = taken[one.name]
        if one.name not in ("end", "key") and not Columns.is_speed(one.name):
            column = pc.fill_null(column, False if pa.types.is_boolean(one.type) else 0)
        made[one.name] = column
    made["end"], made["key"] = pa.array(ends), pa.array(np.full(len(ends), key))
    return pa.table(made)


_MM_A_SECOND = 1_000_000.0


def answer_of(
    spec: Spec, results: pa.Table, name: str, first: tuple[str, ...] = ("key",), *, empty: bool = False
) -> pa.Table:
    """Return the measures of one length, in the order of the spec.

    The first columns, then the measures of the spec but ``flow``: rows, objects, here, arrivals and departures as
    int64; speed, max_speed and percentiles in metres (units of a CRS in the plane) a second as float64, null where
    nothing moved; all but speed in whole mm/s, that of a move rounded down.
    """
    columns: dict[str, pa.Array | pa.ChunkedArray] = {column: results[column] for column in first}
    there = np.zeros(len(results), np.bool_)
    for measure in spec.measures:
        if not MEASURES[measure].columns:
            continue
        if measure == "speed":
            distance, moving = (
                results[f"{part}_{name}"].to_numpy().astype(np.float64) for part in ("distance_mm", "moving_us")
            )
            columns["speed"] = _speed(distance, moving)
            there |= moving > 0
            continue
        column = results["here" if measure == "here" else f"{measure}_{name}"].combine_chunks()
        there |= np.asarray(column.is_valid()) if measure in SPEEDS else np.asarray(column) != 0
        columns[measure] = _metres(column) if measure in SPEEDS else column
    whole = pa.table(columns)
    return whole if empty or there.all() else whole.filter(pa.array(there))


def _speed(distance_mm: NDArray[np.float64], moving_us: NDArray[np.float64]) -> pa.Array:
    moved = moving_us > 0
    metres = distance_mm / MM_OF_METRE / (np.where(moved, moving_us, 1.0) / _MM_A_SECOND)
    return pa.array(metres, mask=~moved)


def _metres(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    numbers = np.asarray(column.fill_null(0).to_numpy(zero_copy_only=False), np.float64) / MM_OF_METRE
    return pa.array(numbers, mask=np.asarray(column.is_null()))


NAMED = {"key": "name", "from": "from_name", "to": "to_name"}
"""Columns of keys, and those of what they are called."""


_HEX_DIGITS = 16
"""Of a cell of H3 at the most; as a decimal number it has more."""


class Names:
    """What the keys of windows are called.

    ``count``: keys are 0 to this less one; None where any number may be one; ``texts``: string (count,). What they are
    called; None where they have numbers only.
    """

    def __init__(self, spec: Spec, count: int | None, texts: pa.Array | None) -> None:
        self._cells = spec.by.startswith("h3:")
        self._count = count
        self._texts = texts

    def beside(self, table: pa.Table) -> pa.Table:
        """Return a table with a column behind each one of keys; the same one where keys have numbers only."""
        if self._texts is None and not self._cells:
            return table
        columns = {}
        for name in table.column_names:
            columns[name] = table[name]
            if name in NAMED:
                columns[NAMED[name]] = self._of(np.asarray(table[name]))
        return pa.table(columns)

    def key_of(self, wanted: int | str) -> int:
        """Return a key by its number or what it is called: of several called so the first one."""
        text = str(wanted).strip()
        if self._cells:
            return _cell_of(text)
        try:
            number = int(text)
        except ValueError:
            return self._called(text)
        if number < 0 or (self._count is not None and number >= self._count):
            at = -1 if self._texts is None else self._texts.index(text).as_py()
            if at >= 0:  # ids of sites may be numbers
                return int(at)
            raise InputError(f"there is no key {number}: keys are 0 to {(self._count or 0) - 1:,}")
        return number

    def _called(self, text: str) -> int:
        if self._texts is None:
            raise InputError(f"there is no key {text!r}: keys are numbers from 0 to {(self._count or 0) - 1:,}")
        at: int = self._texts.index(text).as_py()
        if at < 0:
            near = near_name(text, [one for one in self._texts.to_pylist() if one is not None])
            hint = "" if near is None else f"; did you mean {near}?"
            raise InputError(f"no place is called {text!r}, and keys are numbers from 0 to {self._count - 1:,}{hint}")  # type: ignore[operator]
        return at

    def _of(self, keys: NDArray[np.int64]) -> pa.Array:
        if self._texts is None:
            return pa.array([None if key == NO_KEY else f"{key:x}" for key in keys.tolist()], pa.string())
        return self._texts.take(pa.array(keys, mask=keys == NO_KEY))


def _cell_of(text: str) -> int:
    """Return the key of a cell of H3, which is written in hexadecimal as anywhere."""
    try:
        number = int(text, 16) if len(text) <= _HEX_DIGITS else int(text)
    except ValueError:
        number = 0
    if not 0 < number < 1 << 63:
        raise InputError(f"there is no key {text!r}: a cell of H3 is wanted, such as 88283082b9fffff")
    return number
