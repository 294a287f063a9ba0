"""The intervals of questions, and times as users read them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.history.schema import Schema
from dtoss.history.time_scale import interval_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Spans:
    """A closed interval for each of m questions, as times are stored; arrays (m,) of int64 or float64."""

    first: NDArray[Any]
    last: NDArray[Any]

    @property
    def widest(self) -> tuple[Any, Any]:
        """From the earliest first to the latest last; an interval that holds nothing where there is no question."""
        if not len(self.first):
            low, high = ends_of(self.first.dtype)
            return high, low
        return self.first.min(), self.last.max()


def ends_of(kind: Any) -> tuple[Any, Any]:
    """Return the least and the greatest time of int64 or float64."""
    if np.dtype(kind).kind == "f":
        return -math.inf, math.inf
    return np.iinfo(np.int64).min, np.iinfo(np.int64).max


def stored_kind(schema: Schema) -> np.dtype[Any]:
    """Return the type of numbers as which times are stored."""
    return np.dtype(np.float64 if schema.t_type == "double" else np.int64)


def spans_of(between: Any, schema: Schema, count: int) -> Spans:
    """Return the intervals of questions.

    ``between``: two times, both included, of which either may be None or "-"; one pair for all questions, or a sequence
    of as many pairs as there are questions. All times when None.
    """
    pairs: list[Any] = [between] if between is None or _is_pair(between) else list(between)
    if len(pairs) not in (1, count) or (len(pairs) == 1 and not (between is None or _is_pair(between)) and count != 1):
        raise ValueError(f"between has {len(pairs)} intervals: one pair of times is wanted, or {count}")
    found = np.array([interval_of(pair, schema.t_type) for pair in pairs], stored_kind(schema)).reshape(-1, 2)
    both = np.broadcast_to(found, (count, 2)) if len(found) == 1 else found
    return Spans(np.ascontiguousarray(both[:, 0]), np.ascontiguousarray(both[:, 1]))


def time_text(number: Any, schema: Schema) -> Any:
    """Return a stored time as a user reads it: ISO 8601 of timestamps, else the number; None where it is no end."""
    if number in ends_of(stored_kind(schema)):
        return None
    if schema.t_type != "timestamp":
        return number.item() if hasattr(number, "item") else number
    try:
        return (_EPOCH + timedelta(microseconds=int(number))).isoformat()
    except OverflowError:
        return int(number)


def _is_pair(between: Any) -> bool:
    if isinstance(between, np.ndarray):
        return between.shape == (2,)
    if isinstance(between, str) or not isinstance(between, Sequence):
        return True  # which is refused where it is read
    return len(between) == 2 and not any(isinstance(end, (tuple, list, np.ndarray)) for end in between)
