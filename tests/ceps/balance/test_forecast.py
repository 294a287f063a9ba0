"""Guesses of the next round: nothing is lost, the one is taken that has been best, and each stream has its own."""

from __future__ import annotations

import numpy as np
import pytest

from ceps.balance.cell_layout import of_cells
from ceps.balance.rehearse import rehearse
from ceps.balance.repair import GUESSES, Guess, Repair, forecast
from ceps.balance.round_costs import Loads
from ceps.balance.subscription_load import no_words

SHAPE = (16, 16)
FLAT = of_cells(SHAPE, 4, np.arange(256) // 64)


def blurred(work, guess):
    """A share of each cell spread over the square around it, cell by cell; what would leave comes back at the edge."""
    if not guess.blur:
        return work
    rows, columns = SHAPE
    reach, found = guess.side // 2, np.zeros(SHAPE)
    table = work.reshape(SHAPE)

    def back(at, most):
        at = at % (2 * most)
        return at if at < most else 2 * most - 1 - at

    for row in range(rows):
        for column in range(columns):
            around = [
                table[back(row + r, rows), back(column + c, columns)]
                for r in range(-reach, reach + 1)
                for c in range(-reach, reach + 1)
            ]
            found[row, column] = np.mean(around)
    return (1 - guess.blur) * work + guess.blur * found.ravel()


def test_the_guess_is_the_one_that_has_told_best_what_workers_do():
    """As a loop over rounds has it, with errors that fade; shares add to 1; nothing is a share of nothing."""
    rng = np.random.default_rng(0)
    layouts = [FLAT, of_cells(SHAPE, 4, rng.integers(0, 4, 256))]
    memory, means, errors = {}, None, np.zeros(len(GUESSES))
    for number in range(12):
        work = rng.gamma(0.3, 10.0, 256) + 50.0 * (np.arange(256) == 17 * (number % 15))
        layout, share = layouts[number % 2], work / work.sum()
        found = forecast(work, layout, memory)
        if means is None:
            means, wanted = [share] * len(GUESSES), share
        else:
            for at, guess in enumerate(GUESSES):
                told = blurred(means[at], guess)
                off = sum(abs(told[layout.worker == w].sum() - share[layout.worker == w].sum()) for w in range(4))
                errors[at] = 0.8 * errors[at] + 0.2 * off
            means = [guess.keep * mean + (1 - guess.keep) * share for guess, mean in zip(GUESSES, means, strict=True)]
            best = int(errors.argmin())
            wanted = blurred(means[best], GUESSES[best])
        assert found.work == pytest.approx(wanted)
        assert found.work.sum() == pytest.approx(1.0)
        memory = found.memory
    assert forecast(np.zeros(256), FLAT, memory).work.sum() < 1.0
    assert forecast(np.zeros(256), FLAT, {}).work.tolist() == [0.0] * 256
    other = forecast(np.ones(4), of_cells((2, 2), 2, [0, 0, 1, 1]), memory)
    assert other.work.tolist() == [0.25] * 4


def taken(rounds):
    """The guess that is taken after rounds: that whose forecast it is."""
    memory = {}
    for work in rounds:
        found = forecast(work, FLAT, memory)
        memory = found.memory
    return GUESSES[int(memory["error"].argmin())]


def test_each_kind_of_stream_has_its_guess():
    """What jumps between two places is guessed by several rounds, a spot that wanders by what is around it."""
    rng = np.random.default_rng(1)
    noisy = [rng.poisson(2.0, 256).astype(float) for _ in range(40)]
    assert taken(noisy).keep > 0 or taken(noisy).blur > 0
    trend = [np.where(np.arange(256) < 128, 10.0 + number, 10.0) for number in range(40)]
    assert taken(trend) == Guess(0.0)
    # across the border of two workers and back, a row of cells a round
    wander = [np.bincount([16 * row + 8], [100.0], 256) + 0.1 for row in [*range(3, 13), *range(12, 2, -1)] * 2]
    assert taken(wander).blur > 0


def test_a_spot_that_wanders_is_spread_before_it_arrives():
    """Repair with all guesses is evener than by the last round alone."""
    asked = no_words(SHAPE, np.tile([0, 0, 15, 15], (5, 1)), np.ones(5))
    rng, loads = np.random.default_rng(2), []
    for number in range(60):
        angle = 0.15 * number
        x, y = 7.5 + 5.0 * np.cos(angle), 7.5 + 5.0 * np.sin(angle)
        column, row = (np.clip(rng.normal(at, 0.6, 3_000).round(), 0, 15).astype(int) for at in (x, y))
        work = np.bincount(row * 16 + column, minlength=256) + rng.poisson(2.0, 256).astype(float)
        loads.append((Loads(SHAPE, work, 0 * work, 0 * work, np.full(256, 5.0), np.full(256, 5.0)), asked))
    means = [
        rehearse("ours", Repair(4, **more), loads).max_over_mean[20:].mean()
        for more in ({}, {"guesses": (Guess(0.0),)})
    ]
    assert means[0] < 0.9 * means[1]


def test_a_guess_within_its_bounds():
    """A weight below 1, a share, a whole number of cells."""
    for bad, said in (((1.0,), "keep = 1"), ((0.0, 1.5), "blur = 1.5"), ((0.0, 0.5, 0), "side = 0")):
        with pytest.raises(ValueError, match=said):
            Guess(*bad)
