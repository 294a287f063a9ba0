"""What questions read of leaves, and what their answers fill, beside plain Python over all rows and blocks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtoss.history.adaptive.cost import Points, Prices, asking, matched_rows, reads_of, run_of, wasted_bytes
from tests.dtoss.history.adaptive.plays import asked, points_of
from tests.examples import examples


def brute_reads(run, question, gap):
    """Ranges and bytes, block by block."""
    ranges = total = 0
    hole = None
    first, last, low, high, reach = question
    for i in range(len(run.bytes)):
        met = run.t_from[i] <= last and run.t_to[i] >= first
        if met and low is not None:
            away = np.maximum(np.maximum(run.low[i] - high, low - run.high[i]), 0.0)
            met = float((away * away).sum()) <= reach * reach
        if not met:
            hole = None if hole is None else hole + int(run.bytes[i])
            continue
        if hole is None or hole > gap:
            ranges += 1
        else:
            total += hole
        total += int(run.bytes[i])
        hole = 0
    return [ranges, total]


@st.composite
def scenes(draw):
    """Rows with ties and deletions, blocks of a few rows, and questions that touch borders."""
    n = draw(st.integers(1, 40))
    number = st.integers(0, 6)
    t = sorted(draw(st.lists(number, min_size=n, max_size=n)))
    xy = draw(st.lists(st.tuples(number, number, st.sampled_from([0, 0, 0, 1])), min_size=n, max_size=n))
    shapes = draw(
        st.lists(
            st.tuples(number, number, number, number, number, number, st.sampled_from([0.0, 1.0, 1.5]), st.booleans()),
            min_size=1,
            max_size=6,
        )
    )
    questions = []
    for first, more, x, y, wide, tall, reach, everywhere in shapes:
        low, high = np.array([x, y], float), np.array([x + wide, y + tall], float)
        questions.append(
            (first, first + more, None, None, 0.0) if everywhere else (first, first + more, low, high, reach)
        )
    return points_of(t, xy), draw(st.integers(1, 7)), draw(st.sampled_from([0, 10, 25])), questions


@pytest.mark.checked
@settings(max_examples=examples(200), deadline=None)
@given(scenes())
def test_reads_and_answers_equal_plain_loops(scene):
    """Ranges, bytes, and rows that answer; questions that cannot read a leaf are left out, and no other."""
    points, block_rows, gap, shapes = scene
    prices = Prices(5.0, gap, block_rows)
    run = run_of(points, np.arange(len(points)), prices)
    assert run.bytes.sum() == len(points) * 10
    assert len(run.bytes) == -(-len(points) // block_rows)
    questions = asked(shapes)
    reads = reads_of(run, questions, prices)
    assert reads.tolist() == [brute_reads(run, shape, gap) for shape in shapes]
    assert set(np.flatnonzero(reads[:, 0])) <= set(asking(run, questions, prices).tolist())
    matched = matched_rows(points, run, questions)
    for (first, last, low, high, reach), found in zip(shapes, matched.tolist(), strict=True):
        good = (points.t >= first) & (points.t <= last) & ~np.isnan(points.vectors[:, 0])
        if low is not None:
            away = np.maximum(np.maximum(points.vectors - high, low - points.vectors), 0.0)
            good &= (away * away).sum(axis=1) <= reach * reach
        assert found == int(good.sum())


def test_waste_is_what_is_read_beyond_the_blocks_that_answers_fill():
    """No answer: all is waste; nine rows in blocks of four fill three blocks; never less than none."""
    reads = np.array([[1, 100], [1, 200], [1, 40]])
    assert wasted_bytes(reads, np.array([0, 9, 4]), 10.0, 4) == 100 + 80 + 0


def test_no_points_make_no_blocks():
    """An empty leaf is asked by nobody."""
    empty = Points(np.zeros(0), np.zeros((0, 2)), np.zeros((0, 2)), 10.0)
    run = run_of(empty, np.zeros(0, np.int64), Prices(1.0))
    assert run.size == 0
    assert len(asking(run, asked([(0, 1, None, None, 0.0)]), Prices(1.0))) == 0
