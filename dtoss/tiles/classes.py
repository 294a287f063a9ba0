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


@dataclass(frozen=True)
class Classes:
    """The classes of one attribute.

    Parameters
    ----------
    kind
        "number", "time", "text", "bool", or "other" for types that have no classes.
    labels
        What each class holds, in words; at most :data:`MOST_CLASSES`.
    bounds
        Of numbers and times (microseconds since 1970), float64: class i holds what is at least ``bounds[i]`` and less
        than ``bounds[i + 1]``, the last one also what is greater.
    values
        Of texts: those of each class, the last class holds all others.
    """

    kind: str
    labels: tuple[str, ...]
    bounds: NDArray[np.float64] | None = None
    values: tuple[str, ...] = ()

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

    Numbers and times are cut at their octiles, so that classes hold about as many each; where there are at most eight
    values each is a class. Texts: the seven most frequent, ties to the lower, and all others.
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
    bounds = np.unique(numbers[:: max(len(numbers) // 1_000, 1)])
    single = False
    if len(bounds) <= MOST_CLASSES:
        bounds = np.unique(numbers)
        single = len(bounds) <= MOST_CLASSES
    if not single:
        bounds = np.unique(numbers[np.arange(MOST_CLASSES) * len(numbers) // MOST_CLASSES])
    said = [_said(bound, kind) for bound in bounds.tolist()]
    if single:
        return Classes(kind, tuple(said), bounds)
    ends = [*said[1:], _said(float(numbers[-1]), kind)]
    return Classes(kind, tuple(f"{begin} to {end}" for begin, end in zip(said, ends, strict=True)), bounds)


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


def _said(number: float, kind: str) -> str:
    if kind == "time":
        moment = np.datetime64(int(number), "us").astype("datetime64[s]")
        return str(moment).replace("T", " ")
    return f"{number:,.0f}" if number == int(number) and abs(number) < 1e15 else f"{number:.4g}"
