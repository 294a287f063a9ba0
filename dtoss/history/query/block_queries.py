"""What a question asks of blocks: discs and intervals, so that a block which can hold no answer is never read.

The intervals of questions, and times as users read them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.compiled.kernel import kernel
from dtoss.geometry.distance import chord_of
from dtoss.geometry.space import Space
from dtoss.history.schema import Schema, interval_of

RADIUS_TOLERANCE, LEAST_TOLERANCE = 1.0 + 1e-9, 1e-12
"""Times which, and by which, a chord is longer than computed where blocks are chosen: rounding loses none."""


@dataclass(frozen=True)
class BlockQueries:
    """Questions: which places and times they ask about."""

    spans: Spans  # The interval of each of m questions
    # float64 (b, dimension). Discs that hold all that a question asks about; None where it asks about everywhere
    centres: NDArray[np.float64] | None = None
    chords: NDArray[np.float64] | None = None  # float64 (b,). Their radii as distances of vectors, with tolerance
    question: NDArray[np.int64] | None = None  # int64 (b,), ascending. Which question each disc is of
    # int64, ascending. Of the ids that are asked about (:func:`dtoss.history.row_blocks.id_words`); None for all
    words: NDArray[np.int64] | None = None


def chords_of(radii: NDArray[np.float64], space: Space) -> NDArray[np.float64]:
    """Return radii in metres or CRS units as distances of vectors, with tolerance."""
    chords = chord_of(radii) if space.metric == "sphere" else np.asarray(radii, np.float64)
    return np.asarray(chords * RADIUS_TOLERANCE + LEAST_TOLERANCE)


def discs(centres: NDArray[np.float64], radii: NDArray[np.float64], spans: Spans, space: Space) -> BlockQueries:
    """Return questions about one disc each."""
    return BlockQueries(spans, np.ascontiguousarray(centres), chords_of(radii, space), np.arange(len(centres)))


def near_blocks(low: NDArray[np.float64], high: NDArray[np.float64], asked: BlockQueries) -> NDArray[np.bool_]:
    """Return which boxes (n, dimension) meet a disc, bool (n,). Cost O(n discs)."""
    if asked.centres is None or asked.chords is None:
        return np.ones(len(low), np.bool_)
    met = np.zeros(len(low), np.bool_)
    _meet(np.ascontiguousarray(low), np.ascontiguousarray(high), asked.centres, asked.chords, met)
    return met


def pairs_of(
    low: NDArray[np.float64], high: NDArray[np.float64], t_from: NDArray[Any], t_to: NDArray[Any], asked: BlockQueries
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return pairs (question, block), sorted, of which the block can hold an answer; int64 (pairs,) each."""
    spans = asked.spans
    timely = (t_from[None, :] <= spans.last[:, None]) & (t_to[None, :] >= spans.first[:, None])
    if asked.centres is None or asked.chords is None or asked.question is None:
        question, block = np.nonzero(timely)
        return question.astype(np.int64), block.astype(np.int64)
    met = np.zeros((len(spans.first), len(low)), np.bool_)
    _meet_each(
        np.ascontiguousarray(low), np.ascontiguousarray(high), asked.centres, asked.chords,
        asked.question.astype(np.int64), met,
    )  # fmt: skip
    question, block = np.nonzero(met & timely)
    return question.astype(np.int64), block.astype(np.int64)


def least_chords(
    low: NDArray[np.float64], high: NDArray[np.float64], centre: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the least and the greatest distance of vectors in boxes from a centre, float64 (n,) each.

    Boxes without a position are infinitely far away.
    """
    gap = np.maximum(np.maximum(low - centre, centre - high), 0.0)
    with np.errstate(invalid="ignore"):
        least = np.sqrt((gap * gap).sum(axis=1))
        far = np.maximum(np.abs(low - centre), np.abs(high - centre))
        furthest = np.sqrt((far * far).sum(axis=1))
    nowhere = low[:, 0] > high[:, 0]
    return np.where(nowhere, np.inf, least), np.where(nowhere, np.inf, furthest)


@kernel
def _apart(low, high, centres, i, j):
    """Return the squared distance of a box and a centre."""
    total = 0.0
    for axis in range(centres.shape[1]):
        gap = max(low[i, axis] - centres[j, axis], centres[j, axis] - high[i, axis], 0.0)
        total += gap * gap
    return total


@kernel("void(float64[:, ::1], float64[:, ::1], float64[:, ::1], float64[::1], boolean[::1])")
def _meet(low, high, centres, chords, met):
    for i in range(low.shape[0]):
        for j in range(centres.shape[0]):
            if _apart(low, high, centres, i, j) <= chords[j] * chords[j]:
                met[i] = True
                break


@kernel("void(float64[:, ::1], float64[:, ::1], float64[:, ::1], float64[::1], int64[::1], boolean[:, ::1])")
def _meet_each(low, high, centres, chords, question, met):
    for j in range(centres.shape[0]):
        for i in range(low.shape[0]):
            if _apart(low, high, centres, i, j) <= chords[j] * chords[j]:
                met[question[j], i] = True


@kernel
def first_since(times, begin, end, moment):
    """Return the first place from ``begin`` on, at most ``end``, whose time is not before a moment; times ascend."""
    while begin < end:
        middle = (begin + end) // 2
        if times[middle] < moment:
            begin = middle + 1
        else:
            end = middle
    return begin


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
