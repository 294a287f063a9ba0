"""AQWA's partitions: cut where the paper's formulas say, after each question, and no row is lost or read in vain."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.history.aqwa_run import AqwaRun, even_grid, first_parts, halving_cut
from dtoss.history.aqwa.aqwa_grid import PointCounts, QueryCounters, Rectangle
from dtoss.history.aqwa.aqwa_partitions import Rule, best_cut, halves
from tests.dtoss.history.aqwa.paper import cost, looked_at, overlap, points_in, value_of
from tests.dtoss.history.aqwa.test_counts import a_rectangle
from tests.examples import examples

SIZE = 12


def a_world(seed, points=60):
    rng = np.random.default_rng(seed)
    cells = [tuple(cell) for cell in np.minimum(rng.geometric(0.2, (points, 2)) - 1, SIZE - 1).tolist()]
    grid = even_grid([0, 0, SIZE, SIZE], SIZE)
    places = np.array([(column + 0.5, row + 0.5) for row, column in cells]).reshape(-1, 2)
    return rng, cells, grid, places


def lines_of(part, choice, of):
    """Return the lines among which the best cut is sought."""
    if choice == "gain":
        return [(rows, line) for rows in (True, False) for line in looked_at(part, rows, of)]
    return [
        *((True, line) for line in range(part.top + 1, part.bottom)),
        *((False, line) for line in range(part.left + 1, part.right)),
    ]


@pytest.mark.parametrize("choice", ["gain", "all"])
def test_the_best_cut_is_the_best_of_the_lines_that_count(choice):
    for seed in range(60):
        rng, cells, grid, places = a_world(seed)
        counters = QueryCounters(grid, 5, 2.0)
        questions = [a_rectangle(rng, SIZE) for _ in range(int(rng.integers(0, 14)))]
        for question in questions:
            counters.add(question)
        part = a_rectangle(rng, SIZE)

        def of(each, cells=cells, questions=questions):
            return cost(each, cells, questions, 5, 2.0)

        found = best_cut(part, PointCounts.of(grid, places), counters, 3, choice)
        expected = value_of(part, cells, lines_of(part, choice, of), of, 3)
        assert (None if found is None else found.value) == expected
        if found is not None:
            assert found.value == found.saved - 2 * points_in(part, cells)
            assert min(points_in(half, cells) for half in halves(part, found.across_rows, found.line)) > 3


def test_the_most_even_cost_is_what_4_2_3_says():
    """Two questions of three want the left third: equal costs are to the left of the middle."""
    grid = even_grid([0, 0, SIZE, 1], SIZE)
    counts = PointCounts.of(grid, np.column_stack([np.arange(SIZE) + 0.5, np.full(SIZE, 0.5)]))
    counters = QueryCounters(grid, 100, 2.0)
    for question in (Rectangle(0, 0, 12, 4), Rectangle(0, 0, 12, 4), Rectangle(0, 8, 12, 12)):
        counters.add(question)
    cut = best_cut(grid.everything, counts, counters, 0, "even")
    assert (cut.across_rows, cut.line) == (False, 4)
    assert best_cut(grid.everything, counts, counters, 4, "even") is None


def test_the_start_is_halved_until_a_half_would_be_too_small():
    for seed in range(20):
        _, cells, grid, places = a_world(seed, 200)
        counts = PointCounts.of(grid, places)
        parts = first_parts(counts, grid.everything, 10)
        assert sum((part.bottom - part.top) * (part.right - part.left) for part in parts) == SIZE * SIZE
        assert not any(overlap(a, b) for i, a in enumerate(parts) for b in parts[:i])
        assert all(points_in(part, cells) >= 10 for part in parts)
        assert all(halving_cut(part, counts, 10) is None for part in parts)
        few = first_parts(counts, grid.everything, 10, files=4)
        assert len(few) == 4
        assert first_parts(counts, grid.everything, 10, files=10_000) == parts


def test_a_half_of_just_a_block_is_enough_at_the_start_and_too_little_for_a_cut():
    """4.1 stops where a half would be smaller than a block; (4) wants more than minCount."""
    grid = even_grid([0, 0, SIZE, SIZE], SIZE)
    counts = PointCounts.of(grid, np.repeat([[1.5, 1.5], [9.5, 9.5]], 10, axis=0))
    assert len(first_parts(counts, grid.everything, 10)) == 2
    assert len(first_parts(counts, grid.everything, 11)) == 1
    counters = QueryCounters(grid, 100, 2.0)
    assert best_cut(grid.everything, counts, counters, 9) is not None
    assert best_cut(grid.everything, counts, counters, 10) is None


def test_points_of_one_cell_stay_together():
    grid = even_grid([0, 0, SIZE, SIZE], SIZE)
    counts = PointCounts.of(grid, np.full((100, 2), 3.5))
    assert first_parts(counts, grid.everything, 1) == [grid.everything]
    aqwa = AqwaRun(grid, counts, [grid.everything], Rule(1))
    assert all(not aqwa.ask([3, 3, 4, 4]).cuts for _ in range(50))


def test_nothing_is_cut_right_after_the_start_of_the_text():
    """Each part is smaller than two blocks: no cut of it leaves two of more than one, whatever is asked."""
    _, _, grid, places = a_world(1, 300)
    counts = PointCounts.of(grid, places)
    whole_blocks = [part for part in first_parts(counts, grid.everything, 20) if counts.within(*part) < 40]
    aqwa = AqwaRun(grid, counts, whole_blocks, Rule(20))
    assert whole_blocks
    assert not any(aqwa.ask([0, 0, 2, 2]).cuts for _ in range(100))


@settings(max_examples=examples(25), deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 9), st.booleans(), st.sampled_from(["gain", "all"]))
def test_the_queue_is_a_full_revaluation_after_every_question(seed, fade_every, lazily, choice):
    """What a partition is worth is what all points and questions gave when it was revalued, which is not long ago."""
    rng, cells, grid, places = a_world(seed)
    aqwa = AqwaRun(
        grid, PointCounts.of(grid, places), [grid.everything], Rule(2, fade_every, 2.0, choice=choice, lazily=lazily)
    )
    questions: list[Rectangle] = []
    spot = a_rectangle(rng, SIZE)
    for number in range(25):
        if number == 15:
            more = np.array([(column + 0.5, row + 0.5) for row, column in cells[:20]])
            aqwa.append(more)
            cells = [*cells, *cells[:20]]
        questions.append(spot if rng.random() < 0.7 else a_rectangle(rng, SIZE))
        before = [aqwa.rectangle(part) for part in aqwa.numbers.tolist()]
        answer = aqwa.ask_cells(questions[-1])
        read = [part for part in before if overlap(part, questions[-1])]
        assert sorted(answer.points.tolist()) == sorted(points_in(part, cells) for part in read)
        for part in aqwa.numbers.tolist():
            rectangle, when = aqwa.rectangle(part), aqwa.valued[part]
            assert when > len(questions) - 1 - (fade_every if lazily else fade_every + 1) or when == 0

            def of(each, cells=cells, then=questions[:when]):
                return cost(each, cells, then, fade_every, 2.0)

            expected = value_of(rectangle, cells, lines_of(rectangle, choice, of), of, 2)
            cut = aqwa.queue.cuts.get(part)
            assert (None if cut is None else cut.value) == expected
            assert cut is None or cut.value <= 0
        top = aqwa.queue.top()
        values = [cut.value for cut in aqwa.queue.cuts.values()]
        assert (None if top is None else top[1].value) == (max(values) if values else None)


def test_a_partition_comes_in_turn_within_a_cycle():
    """Untouched partitions forget, too: each is revalued at least once in T questions."""
    grid = even_grid([0, 0, SIZE, SIZE], SIZE)
    parts = [Rectangle(row, column, row + 1, column + 1) for row in range(SIZE) for column in range(SIZE)]
    aqwa = AqwaRun(grid, PointCounts.of(grid, np.zeros((0, 2))), parts, Rule(0, fade_every=7))
    for number in range(30):
        aqwa.ask_cells(Rectangle(0, 0, 1, 1))
        assert min(aqwa.valued.values()) >= number + 1 - 7
    at_once = AqwaRun(grid, PointCounts.of(grid, np.zeros((0, 2))), parts, Rule(0, fade_every=7, lazily=False))
    for _ in range(13):
        at_once.ask_cells(Rectangle(0, 0, 1, 1))
    assert sorted(set(at_once.valued.values())) == [7, 13]


@settings(max_examples=examples(30), deadline=None)
@given(st.integers(0, 10**6))
def test_rewriting_is_paid_for_by_what_was_read(seed):
    """Rent or buy: all that is rewritten is at most what the questions have read, when nothing is forgotten."""
    rng, cells, grid, places = a_world(seed, 200)
    aqwa = AqwaRun(grid, PointCounts.of(grid, places), [grid.everything], Rule(1, fade_every=10_000))
    spot = Rectangle(0, 0, 2, 2)
    read = rewritten = 0
    depth = {0: 1}
    for _ in range(60):
        answer = aqwa.ask_cells(spot if rng.random() < 0.8 else a_rectangle(rng, SIZE))
        read += int(answer.points.sum())
        rewritten += answer.rewritten
        for cut in answer.cuts:
            depth |= dict.fromkeys((cut.first, cut.second), depth[cut.part] + 1)
        # a question counts again for the halves of what it paid for: that is the paper's, not ours
        assert 2 * rewritten <= read * max(depth.values())
    assert int(aqwa.counts.within(*aqwa.rectangles.T).sum()) == len(cells)


def test_a_neighbour_question_is_the_range_that_holds_its_answer():
    _, _, grid, places = a_world(4, 300)
    counts = PointCounts.of(grid, places)
    parts = first_parts(counts, grid.everything, 20)
    near, ranged = AqwaRun(grid, counts, parts, Rule(5)), AqwaRun(grid, counts, parts, Rule(5))
    answer = near.ask_nearest((1.5, 1.5), 1)
    assert answer.points.sum() >= 1
    assert near.counters.overlapping(1, 1, 2, 2) == 1
    assert (answer.parts == ranged.ask([0.5, 0.5, 2.5, 2.5]).parts).all()


def test_fading_forgets_the_old_hotspot():
    """A batch after the move makes cuts at the old hotspot, fewer the faster questions fade (Fig 16)."""
    rng = np.random.default_rng(2)
    grid = even_grid([0, 0, 100, 100], 100)
    first, more = rng.uniform(0, 100, (4_000, 2)), rng.uniform(0, 100, (40_000, 2))
    rewritten = {}
    for fade_every in (10, 100_000):
        counts = PointCounts.of(grid, first)
        aqwa = AqwaRun(grid, counts, first_parts(counts, grid.everything, 100, files=16), Rule(100, fade_every))
        for _ in range(300):
            aqwa.ask([10, 10, 11, 11])
        for _ in range(100):
            aqwa.ask([80, 80, 81, 81])
        aqwa.append(more)
        old = set(aqwa.overlapped(grid.touched([10, 10, 11, 11]))[0].tolist())
        cuts = aqwa.ask([80, 80, 81, 81]).cuts
        rewritten[fade_every] = sum(cut.points for cut in cuts if cut.part in old)
    assert rewritten[10] == 0 < rewritten[100_000]


def test_what_a_rule_cannot_have_is_named():
    with pytest.raises(ValueError, match="least_points is -1: give 0 or more"):
        Rule(-1)
    with pytest.raises(ValueError, match="fade_every is 0 questions: give 1 or more"):
        Rule(1, fade_every=0)
    with pytest.raises(ValueError, match="fading is 1: give more than 1"):
        Rule(1, fading=1.0)
