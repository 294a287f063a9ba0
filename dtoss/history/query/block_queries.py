"""What a question asks of blocks: discs and intervals, so that a block which can hold no answer is never read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.compiled.kernel import kernel
from dtoss.geometry.distance import chord_of
from dtoss.geometry.space import Space
from dtoss.history.query.query_intervals import Spans

SLACK, LEAST_SLACK = 1.0 + 1e-9, 1e-12
"""Times which, and by which, a chord is longer than computed where blocks are chosen: rounding loses none."""


@dataclass(frozen=True)
class BlockQueries:
    """Questions: which places and times they ask about."""

    spans: Spans  # The interval of each of m questions
    # float64 (b, dimension). Discs that hold all that a question asks about; None where it asks about everywhere
    centres: NDArray[np.float64] | None = None
    chords: NDArray[np.float64] | None = None  # float64 (b,). Their radii as distances of vectors, with slack
    question: NDArray[np.int64] | None = None  # int64 (b,), ascending. Which question each disc is of
    # int64, ascending. Of the ids that are asked about (:func:`dtoss.history.row_blocks.id_words`); None for all
    words: NDArray[np.int64] | None = None


def chords_of(radii: NDArray[np.float64], space: Space) -> NDArray[np.float64]:
    """Return radii in metres or CRS units as distances of vectors, with slack."""
    chords = chord_of(radii) if space.metric == "sphere" else np.asarray(radii, np.float64)
    return np.asarray(chords * SLACK + LEAST_SLACK)


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
