"""Layouts, what workers store under them, loads: the same as counted cell by cell; what is wrong is said."""

from __future__ import annotations

import numpy as np
import pytest

from ceps.balance.cell_layout import WordParts, of_cells, of_parts, replicated
from ceps.balance.round_costs import Loads, Terms, WorkModel, fit_work_model, max_over_mean, sigma, work_of_workers
from ceps.balance.subscription_load import no_words, stored_subscriptions
from tests.ceps.balance.drawn_cells import cells_of, drawn_asked, drawn_layout, drawn_loads, stores


@pytest.mark.parametrize("seed", range(30))
def test_what_workers_store_is_what_each_cell_says(seed):
    """Of places that the grid cuts in two, and of words; so are counts by cell."""
    rng = np.random.default_rng(seed)
    shape, workers = (int(rng.integers(1, 5)), int(rng.integers(1, 6))), int(rng.integers(1, 5))
    asked = drawn_asked(rng, shape, int(rng.integers(0, 12)))
    before, after = (drawn_layout(rng, shape, workers, words=seed % 2 == 0) for _ in range(2))
    wanted = [
        [[stores(layout, asked, worker, one) for one in range(len(asked))] for worker in range(workers)]
        for layout in (before, after)
    ]
    for layout, rows in zip((before, after), wanted, strict=True):
        found = [stored_subscriptions(layout, asked, worker).tolist() for worker in range(workers)]
        assert found == rows
    cells = [cells_of(asked, one) for one in range(len(asked))]
    for cell in range(shape[0] * shape[1]):
        several = sum(
            int((west <= cell % shape[1] <= east) and (south <= cell // shape[1] <= north))
            for west, south, east, north in asked.rects.tolist()
        )
        assert asked.stored_by_cell[cell] == several
        one = np.arange(shape[0] * shape[1]) == cell
        assert asked.touching(one).tolist() == [cell in mine for mine in cells]


def test_cells_without_subscriptions_have_no_bytes():
    """However sums of thirds round."""
    rng = np.random.default_rng(0)
    cell = rng.integers(0, 40, (500, 2))
    asked = no_words((40, 40), np.concatenate([cell, cell], axis=1), rng.random(500) / 3.0)
    wanted = np.bincount(cell[:, 1] * 40 + cell[:, 0], asked.bytes, 1600)
    assert asked.bytes_by_cell == pytest.approx(wanted)
    assert (asked.bytes_by_cell[wanted == 0.0] == 0.0).all()
    assert (asked.bytes_by_cell >= 0.0).all()


@pytest.mark.parametrize("seed", range(10))
def test_work_of_workers_adds_to_that_of_cells(seed):
    """Shares add to 1; in split cells a row counts for each worker that its words send it to."""
    rng = np.random.default_rng(seed)
    asked = drawn_asked(rng, (4, 5), 8)
    loads = drawn_loads(rng, asked)
    layout = drawn_layout(rng, (4, 5), 3)
    found = work_of_workers(layout, loads)
    assert found.sum() == pytest.approx(loads.work.sum())
    wanted = np.zeros(3)
    for cell, worker, share in zip(layout.cell, layout.worker, layout.share, strict=True):
        wanted[worker] += share * loads.work[cell]
    assert found == pytest.approx(wanted)


def test_words_take_their_candidates_with_them():
    """Cell 0 has two words, of which one goes to worker 1: its rows count there too, its candidates there only."""
    words = WordParts(np.array([0]), np.array([5]), np.array([1], np.int32))
    layout = of_parts((1, 1), 2, [0], [0], [1.0], words)
    terms = Terms(np.array([0, 0]), np.array([4, 5]), np.array([30.0, 20.0]), np.array([10.0, 5.0]))
    one = np.array([50.0]), np.array([400.0]), np.array([0.0]), np.array([9.0]), np.array([9.0])
    loads = Loads((1, 1), *one, WorkModel(1.0, 0.1, 0.0), terms)
    assert work_of_workers(layout, loads).tolist() == [50.0 + 30.0, 20.0 + 10.0]
    unknown = of_parts((1, 1), 2, [0], [0], [1.0], WordParts(np.array([0]), np.array([9]), np.array([1], np.int32)))
    assert work_of_workers(unknown, loads).tolist() == [90.0, 0.0]


def test_prices_are_found_where_tasks_tell_them_apart():
    """None is negative; of too few tasks, or none that took time, the usual ones are taken."""
    rng = np.random.default_rng(0)
    rows, candidates, matches = rng.uniform(0, 1e5, (3, 40))
    seconds = 2e-6 * rows + 3e-8 * candidates + 5e-7 * matches
    found = fit_work_model(rows, candidates, matches, seconds)
    assert (found.a, found.b, found.c) == pytest.approx((2e-6, 3e-8, 5e-7))
    assert found.error < 1e-9
    noisy = fit_work_model(rows, candidates, matches, seconds * rng.uniform(0.8, 1.2, 40))
    assert 0.05 < noisy.error < 0.2
    assert min(fit_work_model(rows, candidates, matches, rows[::-1]).work(1.0, 0.0, 0.0), 0.0) == 0.0
    for few in (slice(0, 2), slice(0, 0)):
        assert fit_work_model(rows[few], candidates[few], matches[few], seconds[few]) == WorkModel()
    assert fit_work_model(rows, candidates, matches, 0.0 * seconds) == WorkModel()


def test_how_uneven_work_is():
    """The busiest over the mean, and over the least busy: an idle worker makes that infinite."""
    assert max_over_mean(np.array([1.0, 3.0])) == 1.5
    assert max_over_mean(np.zeros(3)) == sigma(np.zeros(3)) == 1.0
    assert sigma(np.array([1.0, 3.0])) == 3.0
    assert sigma(np.array([0.0, 3.0])) == np.inf


def test_what_is_no_layout_is_said():
    """Each with the value and the bound."""
    for made, wanted in (
        (lambda: of_cells((1, 2), 2, [0, 2]), r"worker 2; it must be a whole number from 0 to 1"),
        (lambda: of_cells((1, 2), 2, [0]), r"worker_of has shape \(1,\); for 2 cells it must be \(2,\)"),
        (lambda: of_cells((0, 2), 2, []), r"a grid of 0 rows and 2 columns"),
        (lambda: of_cells((1, 1), 0, [0]), r"workers = 0; it must be a whole number from 1 to 4096"),
        (lambda: of_parts((1, 2), 2, [0], [0], [1.0]), r"shares of cell 1 add to 0; they must add to 1"),
        (lambda: of_parts((1, 1), 2, [0, 0], [0, 1], [0.5, 0.4]), r"shares of cell 0 add to 0.9"),
        (lambda: of_parts((1, 1), 2, [0, 0], [0, 1], [1.5, -0.5]), r"share -0.5 of a part; it must be above 0"),
        (lambda: of_parts((1, 1), 2, [3], [0], [1.0]), r"cell 3; it must be a whole number from 0 to 0"),
    ):
        with pytest.raises(ValueError, match=wanted):
            made()
    twice = WordParts(np.array([0, 0]), np.array([7, 7]), np.array([0, 1], np.int32))
    with pytest.raises(ValueError, match="word 7 of cell 0 goes to two workers"):
        of_parts((1, 1), 2, [0], [0], [1.0], twice)
    words = WordParts(np.array([0]), np.array([7]), np.array([0], np.int32))
    with pytest.raises(ValueError, match="cell 0 is shared and split by words"):
        of_parts((1, 1), 2, [0, 0], [0, 1], [0.5, 0.5], words)


def test_replicated_shares_each_cell_with_all():
    """It says the same as parts that are given one by one, and stores everything everywhere."""
    found = replicated((2, 2), 3)
    cell, worker = np.divmod(np.arange(12), 3)
    assert found.same_as(of_parts((2, 2), 3, cell, worker, np.full(12, 1 / 3)))
    asked = no_words((2, 2), np.array([[0, 0, 0, 0], [1, 1, 1, 1]]), np.array([3.0, 4.0]))
    assert [stored_subscriptions(found, asked, worker).all() for worker in range(3)] == [True] * 3
    assert found.everywhere
    assert not of_cells((2, 2), 3, [0, 1, 2, 0]).everywhere
    assert found.shared.tolist() == [0, 1, 2, 3]
    assert not found.same_as(replicated((2, 2), 2))
