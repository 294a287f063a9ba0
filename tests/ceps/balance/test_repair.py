"""Repair: evener, never beyond its budget, its books equal recounts; shared cells appear and are merged again."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from ceps.balance.baselines import CurveCut, along_curve, cut
from ceps.balance.cell_layout import of_cells
from ceps.balance.rehearse import rehearse
from ceps.balance.repair import Auto, Guess, Parts, Repair
from ceps.balance.round_costs import Loads, WorkModel, max_over_mean, work_of_workers
from ceps.balance.subscription_load import no_words
from ceps.strategies import names, strategy_of
from tests.ceps.balance.drawn_cells import drawn_asked, drawn_layout, drawn_loads, stores

PLAIN = WorkModel(1.0, 0.0, 0.0)


def loads_of(rows, sizes=None):
    """Loads of a grid of one row, each row of which costs 1."""
    rows = np.asarray(rows, float)
    none = np.zeros(len(rows))
    sizes = np.ones(len(rows)) if sizes is None else np.asarray(sizes, float)
    return Loads((1, len(rows)), rows, none, none, none, sizes, PLAIN)


def asked_in_each(count):
    """A subscription in each cell of a grid of one row."""
    cell = np.arange(count)
    return no_words((1, count), np.stack([cell, 0 * cell, cell, 0 * cell], axis=1), np.ones(count))


@pytest.mark.parametrize("seed", range(20))
def test_repair_is_evener_within_its_budget_and_the_same_twice(seed):
    """From any layout; bytes are counted as cells of their own, so that none that are nearby hide what moved."""
    rng = np.random.default_rng(seed)
    workers = int(rng.integers(1, 6))
    loads = loads_of(rng.gamma(0.5, 100.0, 40), rng.integers(1, 9, 40))
    layout = drawn_layout(rng, (1, 40), workers)
    strategy = Repair(workers, budget=float(rng.choice([0.0, 0.05, 0.3, 1.0])), guesses=(Guess(0.0),))
    decided = strategy.next_layout(layout, loads, asked_in_each(40), {})
    again = strategy.next_layout(layout, loads, asked_in_each(40), {})
    assert decided.layout.same_as(again.layout)
    before, after = (work_of_workers(one, loads) for one in (layout, decided.layout))
    assert after.sum() == pytest.approx(loads.work.sum())
    assert max_over_mean(after) <= max(max_over_mean(before), 1.05) + 1e-9
    fresh = decided.layout.held & ~layout.held
    assert (fresh * loads.bytes).sum() <= strategy.budget * loads.bytes.sum() + 1e-9
    if strategy.budget == 1.0:
        assert max_over_mean(after) <= 1.06 + 1e-9


@pytest.mark.parametrize("seed", range(10))
def test_the_books_are_those_of_a_recount(seed):
    """After any sequence of moves: loads, who holds what, shares that add to 1."""
    rng = np.random.default_rng(seed)
    loads = loads_of(rng.gamma(0.5, 100.0, 12))
    parts = Parts.of(drawn_layout(rng, (1, 12), 4), 4, loads.work, loads.bytes)
    for _ in range(60):
        cell = int(rng.integers(12))
        giver = int(rng.choice(list(parts.holders(cell))))
        taker = int(rng.integers(4))
        if taker != giver:
            parts.move(cell, giver, taker, parts.holders(cell)[giver] * float(rng.choice([0.25, 1.0])))
    made = parts.layout()
    assert parts.load == pytest.approx(work_of_workers(made, loads))
    assert [parts.cells_of(one).tolist() for one in range(4)] == [np.flatnonzero(one).tolist() for one in made.held]
    assert np.bincount(made.cell, made.share) == pytest.approx(np.ones(12))


def test_a_spot_that_is_too_hot_is_shared_and_merged_when_it_cools():
    """Twelve cells on four workers; one gets 40 times the rows of the others, and then no more than they."""
    cool, hot = np.full(12, 10.0), np.full(12, 10.0)
    hot[3] = 400.0
    strategy, asked = Repair(4, budget=1.0, guesses=(Guess(0.0),)), asked_in_each(12)
    layout = strategy.next_layout(None, loads_of(cool), asked, {}).layout
    assert len(layout.shared) == 0
    heated = strategy.next_layout(layout, loads_of(hot), asked, {}).layout
    assert 3 in heated.shared
    assert max_over_mean(work_of_workers(heated, loads_of(hot))) < 1.06
    cooled = heated
    for _ in range(4):
        cooled = strategy.next_layout(cooled, loads_of(cool), asked, {}).layout
    assert cooled.held.sum() < heated.held.sum()
    assert max_over_mean(work_of_workers(cooled, loads_of(cool))) < 1.06


def test_what_is_strange_is_defined():
    """More workers than cells, no subscription, no row, all rows in one cell, a budget of 0, other numbers of them."""
    asked = asked_in_each(3)
    many = Repair(8).next_layout(None, loads_of([5.0, 5.0, 5.0]), asked, {}).layout
    assert max_over_mean(work_of_workers(many, loads_of([5.0, 5.0, 5.0]))) < 1.1
    nothing = no_words((1, 3), np.zeros((0, 4), np.int64), np.zeros(0))
    idle = Repair(2).next_layout(None, loads_of([0.0, 0.0, 0.0]), nothing, {}).layout
    assert Repair(2).next_layout(idle, loads_of([0.0, 0.0, 0.0]), nothing, {}).layout.same_as(idle)
    one = of_cells((1, 3), 2, [0, 0, 1])
    hot = loads_of([0.0, 90.0, 0.0])
    assert work_of_workers(Repair(2).next_layout(one, hot, asked, {}).layout, hot) == pytest.approx([45, 45], rel=0.05)
    assert Repair(2, budget=0.0).next_layout(one, hot, asked, {}).layout.same_as(one)
    three = of_cells((1, 6), 3, [0, 0, 1, 1, 2, 2])
    flat = loads_of(np.full(6, 10.0))
    fewer = Repair(2, budget=0.0).next_layout(three, flat, asked_in_each(6), {}).layout
    assert fewer.workers == 2
    assert work_of_workers(fewer, flat).tolist() == [30.0, 30.0]
    more = Repair(6).next_layout(three, flat, asked_in_each(6), {}).layout
    assert work_of_workers(more, flat).tolist() == [10.0] * 6
    for bad, said in (
        ({"budget": -0.1}, "budget = -0.1"),
        ({"guesses": ()}, "guesses is empty"),
        ({"slack": -1}, "slack = -1"),
    ):
        with pytest.raises(ValueError, match=said):
            Repair(2, **bad)
    with pytest.raises(ValueError, match="workers = 0"):
        Repair(0)


def test_a_worker_gives_away_as_many_small_cells_as_it_takes():
    """Thousands, of which none matters by itself."""
    work = np.random.default_rng(0).uniform(1.0, 2.0, 4_096)
    loads = Loads((64, 64), work, 0 * work, 0 * work, np.ones(4_096), np.ones(4_096))
    corner = np.stack([np.arange(4_096) % 64, np.arange(4_096) // 64], axis=1)
    asked = no_words((64, 64), np.hstack([corner, corner]), np.ones(4_096))
    layout = of_cells((64, 64), 4, np.arange(4_096) < 3_000)
    made = Repair(4, budget=10.0).next_layout(layout, loads, asked, {}).layout
    assert max_over_mean(work_of_workers(made, loads)) < 1.06


@pytest.mark.parametrize("shape", [(1, 1), (8, 8), (5, 7), (1, 9), (5, 3)])
def test_the_curve_visits_each_cell_and_is_cut_evenly(shape):
    """As the curve of the square around does, on which neighbours are neighbours; each worker gets the same."""
    order = along_curve(shape)
    side = 1 << (max(shape) - 1).bit_length()
    row, column = np.divmod(along_curve((side, side)), side)
    assert (np.abs(np.diff(row)) + np.abs(np.diff(column)) == 1).all()
    inside = (row < shape[0]) & (column < shape[1])
    assert order.tolist() == (row * shape[1] + column)[inside].tolist()
    work = np.random.default_rng(1).gamma(0.3, 10.0, len(order))
    for workers in (1, 3, 7):
        made = cut(shape, workers, work)
        assert np.bincount(made.worker, made.share * work[made.cell], workers) == pytest.approx(
            np.full(workers, work.sum() / workers), rel=1e-4
        )
    loads = Loads(shape, work, 0 * work, 0 * work, 0 * work, 0 * work, PLAIN)
    asked = no_words(shape, np.zeros((0, 4), np.int64), np.zeros(0))
    assert CurveCut(3).next_layout(None, loads, asked, {}).layout.same_as(cut(shape, 3, work))


def test_auto_has_everything_everywhere_while_it_fits():
    """And cells on workers once it does not; from there back again."""
    asked, loads = asked_in_each(10), loads_of(np.full(10, 10.0))
    everywhere = Auto(3, 10.0).next_layout(None, loads, asked, {}).layout
    assert everywhere.held.all()
    spread = Auto(3, 9.0).next_layout(everywhere, loads, asked, {}).layout
    assert spread.held.sum() < 20
    assert Auto(3, 10.0).next_layout(spread, loads, asked, {}).layout.same_as(everywhere)
    with pytest.raises(ValueError, match="memory_bytes = 0"):
        Auto(3, 0)


@pytest.mark.parametrize("name", names())
def test_each_strategy_places_every_cell_and_says_the_same_twice(name):
    """Over rounds that move, on grids of few cells and many workers; what is judged is of earlier rounds."""
    rng = np.random.default_rng(len(name))
    asked = drawn_asked(rng, (6, 7), 20)
    rounds = [(drawn_loads(rng, asked), asked) for _ in range(6)]
    for workers in (1, 3, 50):
        found = [rehearse(name, strategy_of(name, workers, 1e9), rounds) for _ in range(2)]
        one, other = found
        assert one.rounds == 5
        assert one.work.tolist() == other.work.tolist()
        assert all(a.same_as(b) for a, b in zip(one.layouts, other.layouts, strict=True))
        assert one.work.sum(axis=1) == pytest.approx([loads.work.sum() for loads, _ in rounds[1:]])
        assert (one.copies >= 1.0 - 1e-9).all()
        assert one.moved[0] == 0.0


@pytest.mark.parametrize("name", ["ours", "swarm-always"])
def test_a_rehearsal_counts_what_each_layout_stores_and_moves(name):
    """Subscription by subscription, worker by worker; what stands before the first round is no move."""
    rng = np.random.default_rng(4)
    asked = drawn_asked(rng, (4, 5), 15)
    rounds = [(drawn_loads(rng, asked), asked) for _ in range(6)]
    found = rehearse(name, strategy_of(name, 3), rounds)
    holds = [
        np.array([[stores(layout, asked, worker, one) for one in range(len(asked))] for worker in range(3)])
        for layout in found.layouts
    ]
    assert found.copies == pytest.approx([(one * asked.bytes).sum() / asked.bytes.sum() for one in holds])
    wanted = [0.0, *(((now & ~had) * asked.bytes).sum() for had, now in pairwise(holds))]
    assert found.moved == pytest.approx(wanted)
    assert sum(wanted) > 0.0


def test_a_name_that_is_none_is_told_the_nearest():
    """And auto wants its memory."""
    with pytest.raises(ValueError, match=r"there is no strategy 'our'; did you mean ours\?"):
        strategy_of("our", 2)
    with pytest.raises(ValueError, match="there is no strategy 'zzz'; there are replicated, "):
        strategy_of("zzz", 2)
    with pytest.raises(ValueError, match="--memory 4g"):
        strategy_of("auto", 2)
    for rounds in ([], [(loads_of([1.0]), asked_in_each(1))]):
        with pytest.raises(ValueError, match="at least two are wanted"):
            rehearse("ours", Repair(2), rounds)
