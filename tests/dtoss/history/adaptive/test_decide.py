"""Decisions on arrays: what pays is rewritten once, nothing else is, and no more than was read in vain."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtoss.column_rows import join_rows
from dtoss.history.adaptive.cost import Points, Prices, cost_of, matched_rows, reads_of, run_of, wasted_bytes
from dtoss.history.adaptive.leaf_cuts_by_cost import IMAGINED_SHARE, best_cut, imagined
from dtoss.history.adaptive.rewrite_decisions import Leaf, Rewriting, decide, neighbours, still_a_tree
from dtoss.history.questions import HALVED_AFTER, Questions, no_questions
from tests.dtoss.history.adaptive.plays import ROW_BYTES, asked, points_of
from tests.examples import examples

PRICES = Prices(100.0, 20, 8, 80.0)
EVERYWHERE = (-np.inf, -np.inf, np.inf, np.inf)


class Layout:
    """Leaves over one table of rows, rewritten as decisions say."""

    def __init__(self, points, prices=PRICES):
        self.points, self.prices, self.looks, self.loads = points, prices, {}, 0
        self.leaves = [self.leaf(np.arange(len(points)), EVERYWHERE, 0)]

    def leaf(self, rows, cell, since):
        return rows, Leaf(run_of(self.points, rows, self.prices), cell, since, len(rows))

    def some(self, rows):
        points = self.points
        return Points(points.t[rows], points.positions[rows], points.vectors[rows], points.row_bytes)

    def load(self, numbers):
        self.loads += 1
        return self.some(np.sort(np.concatenate([self.leaves[number][0] for number in numbers])))

    def reads(self, questions):
        return sum(reads_of(leaf.run, questions, self.prices) for _, leaf in self.leaves)

    def waste(self, questions):
        return sum(
            wasted_bytes(
                reads_of(leaf.run, questions, self.prices),
                matched_rows(self.some(rows), leaf.run, questions),
                ROW_BYTES,
                self.prices.block_rows,
            )
            for rows, leaf in self.leaves
        )

    def adapt(self, questions, elsewhere=None):
        made = decide([leaf for _, leaf in self.leaves], elsewhere, questions, self.load, self.prices, self.looks)
        gone = {number for one in made.rewritings for number in one.leaves}
        fresh = []
        for one in made.rewritings:
            held = np.sort(np.concatenate([self.leaves[number][0] for number in one.leaves]))
            fresh += [self.leaf(held[rows], cell, int(questions.number[-1]) + 1) for rows, cell in one.parts]
        self.leaves = [pair for number, pair in enumerate(self.leaves) if number not in gone] + fresh
        return made


def spread(n=400, seed=0):
    """Rows all over a square of 100 by 100, in the course of 400."""
    rng = np.random.default_rng(seed)
    xy = np.concatenate([rng.integers(0, 101, (n, 2)), np.zeros((n, 1))], axis=1)
    return points_of(np.sort(rng.uniform(0, 400, n)), xy)


def corner(times, after=0, low=(0, 0), high=(10, 10), interval=(0.0, 400.0)):
    """The same question about a corner, again and again."""
    return asked([(*interval, np.array(low), np.array(high), 0.0)] * times, after)


def test_a_leaf_is_cut_when_its_regret_has_paid_and_not_before():
    """One whole read costs 4,100: the price 12,100 is reached after a few questions, each new leaf holds its cell."""
    layout = Layout(spread())
    assert not layout.adapt(corner(3)).rewritings
    made = layout.adapt(corner(8))
    (one,) = made.rewritings
    assert one.leaves == (0,)
    assert len(one.parts) > 1
    assert one.regret >= PRICES.to_rewrite(one.size)
    assert one.waste >= one.size
    assert np.array_equal(np.sort(np.concatenate([rows for rows, _ in one.parts])), np.arange(400))
    for rows, (x0, y0, x1, y1) in one.parts:
        x, y = layout.points.positions[rows].T
        assert ((x0 < x) & (x <= x1) & (y0 < y) & (y <= y1)).all()
    assert cost_of(layout.reads(corner(1)), PRICES)[0] < 1500


def test_the_same_questions_rewrite_once():
    """Those asked before a leaf was made pay for nothing, however many."""
    layout = Layout(spread())
    questions = corner(50)
    assert layout.adapt(questions).rewritings
    for _ in range(3):
        assert not layout.adapt(questions).rewritings


def test_questions_that_are_cheaper_elsewhere_pay_for_nothing():
    """An order that answers for less is asked in its stead."""
    questions = corner(50)
    assert not Layout(spread()).adapt(questions, np.full(50, 50.0)).rewritings
    assert Layout(spread()).adapt(questions, np.full(50, 1e9)).rewritings


def test_questions_about_all_of_a_leaf_cut_nothing():
    """Nothing is read in vain."""
    layout = Layout(spread())
    assert not layout.adapt(corner(300, low=(0, 0), high=(100, 100))).rewritings


def test_requests_that_a_merge_saves_pay_for_it():
    """After a corner was asked all is asked in short intervals: each leaf is a request, until they are one again."""
    layout = Layout(spread(), Prices(2000.0, 20, 8, 80.0))
    layout.adapt(corner(40))
    before = len(layout.leaves)
    assert before > 2
    rng = np.random.default_rng(1)
    shapes = [(start, start + 8.0, None, None, 0.0) for start in rng.uniform(0, 390, 600)]
    known, merged = corner(40), 0
    for begin in range(0, 600, 20):
        known = join_rows([known, asked(shapes[begin : begin + 20], 40 + begin)])
        merged += sum(len(one.leaves) == 2 for one in layout.adapt(known).rewritings)
    assert merged
    assert len(layout.leaves) < before
    assert np.array_equal(np.sort(np.concatenate([rows for rows, _ in layout.leaves])), np.arange(400))


@pytest.mark.parametrize("xy", [[(5, 5, 0)] * 300, [(0, 0, 1)] * 300])
def test_rows_of_one_place_and_deletions_are_never_cut(xy):
    """No line separates equal coordinates."""
    layout = Layout(points_of(np.arange(300), xy))
    questions = corner(200, interval=(0.0, 3.0))
    assert not layout.adapt(questions).rewritings


def test_nothing_asked_and_nothing_there():
    """No questions, no leaves."""
    layout = Layout(spread())
    assert not layout.adapt(no_questions(2)).rewritings
    assert not decide([], None, corner(5), layout.load, PRICES).rewritings


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([(1,), (3,), (0, 1), (0, 1, 2, 3)]), st.sampled_from([30.0, 300.0]))
def test_no_more_is_written_than_was_read_in_vain(seed, spots, request):
    """Whatever is asked: bytes rewritten so far are at most the bytes wasted so far, at every moment."""
    rng = np.random.default_rng(seed)
    layout = Layout(spread(seed=seed % 7), Prices(request, 20, 8, 80.0))
    known, written, wasted = no_questions(2), 0, 0.0
    for turn in range(12):
        centre = np.array([[10, 10], [80, 20], [30, 90], [70, 70]])[rng.choice(spots)]
        shapes = []
        for _ in range(20):
            low = centre + rng.normal(0, 4, 2)
            first = rng.uniform(0, 400)
            shapes.append((first, first + rng.choice([10.0, 400.0]), low, low + rng.uniform(0, 15, 2), 0.0))
        some = asked(shapes, 20 * turn)
        wasted += layout.waste(some)
        known = join_rows([known, some])
        written += sum(one.size for one in layout.adapt(known).rewritings)
        assert written <= wasted


def test_the_best_cut_costs_no_more_than_none_and_what_it_says():
    """The costs of its parts, questions by question, are those that their blocks have."""
    points, questions = spread(600, 3), join_rows([corner(9), corner(9, 9, (50, 60), (60, 75), (0.0, 80.0))])
    weights = np.linspace(0.2, 1.0, 18)
    cut = best_cut(points, EVERYWHERE, questions, weights, PRICES)
    costs = [cost_of(reads_of(run_of(points, rows, PRICES), questions, PRICES), PRICES) for rows, _ in cut.parts]
    assert np.allclose(sum(costs), cut.cost)
    whole = cost_of(reads_of(run_of(points, np.arange(600), PRICES), questions, PRICES), PRICES)
    assert cut.cost @ weights < whole @ weights
    assert min(len(rows) * ROW_BYTES for rows, _ in cut.parts) >= PRICES.least


def test_a_leaf_that_is_cut_is_cut_all_over():
    """One corner pays for it; the next one is cheap at once. Imagined questions count for no regret."""
    layout = Layout(spread(2000))
    (one,) = layout.adapt(corner(30)).rewritings
    far = cost_of(layout.reads(corner(1, low=(80, 80), high=(90, 90))), PRICES)[0]
    assert far < one.size / 4
    more, counts = imagined(layout.points, corner(30), np.ones(30))
    assert len(more) == 30
    assert counts.sum() == pytest.approx(30 * IMAGINED_SHARE)
    assert (more.high - more.low == 10).all()
    assert len(np.unique(more.low, axis=0)) > 20
    nowhere = points_of(np.arange(9), [(0, 0, 1)] * 9)
    assert len(imagined(nowhere, corner(3), np.ones(3))[0]) == 0
    assert len(imagined(layout.points, asked([(0, 1, None, None, 0.0)]), np.ones(1))[0]) == 0


def test_no_merge_leaves_cells_that_no_tree_has():
    """Four arms round a fifth cell: the last pair that would make a pinwheel stays as it is."""
    cells = [(0, 0, 2, 1), (2, 0, 3, 1), (0, 1, 1, 2), (1, 1, 2, 2), (2, 1, 3, 2), (0, 2, 1, 3), (1, 2, 3, 3)]
    points = points_of(np.arange(8), [(x, 1, 0) for x in range(8)])
    leaves = [Leaf(run_of(points, np.arange(8), PRICES), cell, 0, 8) for cell in cells]
    right = Rewriting((1, 4), points, [], 80, 0.0, 0.0)
    assert still_a_tree(leaves, [], (1, 4))
    assert still_a_tree(leaves, [], (2, 5))
    assert not still_a_tree(leaves, [((1, 4), right)], (2, 5))


def test_neighbours_make_rectangles():
    """Only whole sides that meet."""
    cells = [(0, 0, 1, 2), (1, 0, 2, 1), (1, 1, 2, 2), (2, 0, 3, 2)]
    assert neighbours(cells) == [(1, 2)]


def test_weights_halve():
    """The newest counts 1."""
    questions = corner(HALVED_AFTER + 1)
    assert questions.weights()[-1] == 1.0
    assert questions.weights()[0] == 0.5
    assert len(no_questions(3).weights()) == 0


def test_questions_keep_their_shapes_in_tables():
    """Of some rows, in any number of pieces; a table of another dimension is refused."""
    every = asked([(0, 1, None, None, 0.0), (1, 2, np.array([1, 2]), np.array([3, 4]), 0.5), (3, 4, None, None, 0.0)])
    back = Questions.of_table(every.take(np.array([1, 2])).as_table(), 2)
    assert back.number.tolist() == [2, 3]
    assert back.begin.tolist() == [0, 1, 1]
    assert back.low.tolist() == [[1, 2]]
    assert back.high.tolist() == [[3, 4]]
    assert back.reach.tolist() == [0.5]
    with pytest.raises(ValueError, match="3 dimensions"):
        Questions.of_table(every.as_table(), 3)
    with pytest.raises(ValueError, match="no table of questions"):
        Questions.of_table(every.as_table().drop_columns(["reach"]), 2)
