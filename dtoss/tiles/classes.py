"""Eight classes of an attribute, which a map shows as colours: found on a sample, given to any objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

MOST_CLASSES = 8
UNKNOWN = 255
"""The class of what has no value."""
_LONGEST = 40
"""Letters of a text that stand in a legend."""
_WRITTEN_OUT = 1e15
"""Whole numbers below it are written with all digits."""
_UNITS_OF_TIME = (
    ("s", 1.0, 120.0), ("min", 60.0, 7_200.0), ("h", 3_600.0, 172_800.0), ("days", 86_400.0, np.inf),
)  # fmt: skip
"""Name, seconds, and seconds from which on the next one is used."""


@dataclass(frozen=True)
class Classes:
    """The classes of one attribute."""

    kind: str  # "number", "time", "text", "bool", or "other" for types that have no classes
    labels: tuple[str, ...]  # What each class holds, in words; at most :data:`MOST_CLASSES`
    # Of numbers, and of ages (microseconds before ``newest``), float64: class i holds what is at least ``bounds[i]``
    # and less than ``bounds[i + 1]``, the last one also what is greater
    bounds: NDArray[np.float64] | None = None
    values: tuple[str, ...] = ()  # Of texts: those of each class, the last class holds all others
    newest: float = 0.0  # Of times: the newest of the sample, microseconds since 1970

    def of(self, column: pa.Array) -> NDArray[np.uint8]:
        """Return the class of each value, :data:`UNKNOWN` where there is none. Cost O(n)."""
        out = np.full(len(column), UNKNOWN, np.uint8)
        if self.kind == "other" or not self.labels:
            return out
        if self.kind == "text":
            found = pc.index_in(_texts(column), pa.array(list(self.values), pa.large_string()))
            found = np.asarray(pc.fill_null(found, len(self.values)), np.int64)
            known = np.asarray(column.is_valid())
            out[known] = np.minimum(found, len(self.labels) - 1)[known]
            return out
        numbers = _numbers(column, self.kind)
        if self.kind == "time":
            numbers = self.newest - numbers
        known = ~np.isnan(numbers)
        assert self.bounds is not None
        found = np.searchsorted(self.bounds, numbers[known], side="right") - 1
        out[known] = np.clip(found, 0, len(self.labels) - 1)
        return out


def kind_of(kind: pa.DataType) -> str:
    """Return what sort of values a type has: "number", "time", "text", "bool" or "other"."""
    if pa.types.is_boolean(kind):
        return "bool"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return "time"
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    return "text" if pa.types.is_string(value) or pa.types.is_large_string(value) else "other"


def classes_of(column: pa.Array) -> Classes:
    """Return the classes of an attribute by the values of a sample.

    Numbers are cut so that classes hold about as many each, and none is cut among equal ones; where there are at most
    eight values each is a class. So are times by their age, how long they are before the newest of them. Texts: the
    seven most frequent, ties to the lower, and all others.
    """
    kind = kind_of(column.type)
    if kind == "bool":
        return Classes(kind, ("false", "true"), np.array([0.0, 1.0]))
    if kind == "text":
        return _of_texts(column)
    if kind == "other":
        return Classes(kind, ())
    numbers = _numbers(column, kind)
    numbers = np.sort(numbers[~np.isnan(numbers)])
    if len(numbers) == 0:
        return Classes(kind, ())
    newest = 0.0
    if kind == "time":
        newest = float(numbers[-1])
        numbers = newest - numbers[::-1]
    begin = _cut(numbers)
    said = _lasting if kind == "time" else _said
    ends = np.append(begin[1:], len(numbers)) - 1
    low, high = (list(map(said, numbers[rows].tolist())) for rows in (begin, ends))
    labels = (first if first == last else f"{first} to {last}" for first, last in zip(low, high, strict=True))
    return Classes(kind, tuple(labels), numbers[begin], newest=newest)


def _cut(numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return where classes of ascending numbers begin."""
    first = np.flatnonzero(np.concatenate([[True], numbers[1:] != numbers[:-1]]))
    if len(first) <= MOST_CLASSES:
        return first
    begin = [0]
    while (left := MOST_CLASSES - len(begin)) and begin[-1] < len(numbers):
        wanted = begin[-1] + -(-(len(numbers) - begin[-1]) // (left + 1))
        # equal ones stay together, whichever side of them is nearer
        after = int(np.searchsorted(first, wanted))
        near = [int(one) for one in first[max(after - 1, 0) : after + 1] if one > begin[-1]]
        if not near:
            break
        begin.append(min(near, key=lambda one: abs(one - wanted)))
    return np.array(begin, np.int64)


def _of_texts(column: pa.Array) -> Classes:
    counted = pc.value_counts(_texts(column).drop_null())
    found = sorted((-row["counts"], row["values"]) for row in counted.to_pylist())
    values = tuple(value for _, value in found[: MOST_CLASSES if len(found) <= MOST_CLASSES else MOST_CLASSES - 1])
    labels = tuple(value if len(value) <= _LONGEST else value[: _LONGEST - 1] + "…" for value in values)
    return Classes("text", (*labels, "other") if len(found) > len(values) else labels, None, values)


def _texts(column: pa.Array) -> Any:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column.cast(pa.large_string())


def _numbers(column: pa.Array, kind: str) -> NDArray[np.float64]:
    """Return values as float64, NaN where there is none; times in microseconds since 1970."""
    if kind == "time":
        column = column.cast(pa.timestamp("us", getattr(column.type, "tz", None)), safe=False).cast(pa.int64())
    elif kind == "bool":
        column = column.cast(pa.int8())
    return np.asarray(pc.fill_null(column.cast(pa.float64(), safe=False), np.nan), np.float64)


def _said(number: float) -> str:
    whole = abs(number) < _WRITTEN_OUT and (number == int(number) or abs(number) >= 1_000)
    return f"{number:,.0f}" if whole else f"{number:.4g}"


def _lasting(microseconds: float) -> str:
    """Return how long something is, in words.

    Examples
    --------
    >>> [_lasting(1e6 * seconds) for seconds in (0, 1.5, 90, 200, 7_200, 1e6)]
    ['0 s', '1.5 s', '90 s', '3.33 min', '2 h', '11.6 days']
    """
    seconds = microseconds / 1e6
    name, size = next((name, size) for name, size, below in _UNITS_OF_TIME if seconds < below)
    return f"{seconds / size:.3g} {name}"
