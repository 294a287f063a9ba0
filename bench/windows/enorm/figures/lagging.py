"""Figure 13: latency while one node after the other gets half as much again to do, and key groups move."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.windows.enorm.figures.simple import GROUPS, NODES

Floats = NDArray[np.float64]
Balance = Callable[[Floats, NDArray[np.int64], int], NDArray[np.int64]]
"""Flux: loads of groups, their nodes, how many nodes -> their nodes then."""

KEYS = 50_000
"""Of a key group."""
START, SHOWN = 5, 20
"""Minutes until the load changes, and in all."""
BUSY, EXTRA = 0.7, 0.5
"""How busy each node is at first, and what is added to one of them."""
RATE = 39_474 / 60
"""Rows a second of a key group, as in the paper's throughput: what Flux sees is not smoother than that."""
A_ROW = BUSY * NODES / (RATE * GROUPS)
"""Seconds that a row takes a node."""
SEEN = 10
"""Seconds whose rows Flux looks at."""


@dataclass(frozen=True)
class Lag:
    """What rows waited, and what was moved.

    Parameters
    ----------
    mean, worst : seconds that rows of each second waited, in the mean and at the worst node, float64 (seconds,).
    moves : key groups that moved.
    behind : seconds of work on halves of panes that nothing waited for.
    """

    mean: Floats
    worst: Floats
    moves: int
    behind: float


def loads(seed: int = 0) -> Floats:
    """Return the share of a node that each key group needs in each second, float64 (seconds, groups).

    From the fifth minute on one node's groups get more during three minutes until half of its load was added; two
    minutes later the next node is chosen. What was added stays.
    """
    needed = np.full((SHOWN * 60, GROUPS), BUSY * NODES / GROUPS)
    order = np.random.default_rng(seed).permutation(NODES)
    for turn, begin in enumerate(range(START * 60, SHOWN * 60, 300)):
        ramp = np.clip((np.arange(SHOWN * 60) - begin) / 180, 0, 1)
        needed[:, np.arange(GROUPS) % NODES == order[turn]] *= 1 + EXTRA * ramp[:, None]
    return needed


def lag(needed: Floats, balance: Balance, period: int, pause: float, instant: bool, seed: int = 0) -> Lag:
    """Return what rows wait at nodes that work a second a second, first come, first served, at random moments.

    Parameters
    ----------
    needed : of each second and group.
    balance, period : what moves groups, and how many seconds apart.
    pause : seconds in which both nodes of a group do nothing else where it moves with its state. Where it moves at
        once, the same work is left at the new pane's end, for whenever the node has nothing else to do.
    instant : in which of both ways it moves.
    seed : of the number of rows.
    """
    rng = np.random.default_rng(seed)
    seconds = len(needed)
    seen = rng.poisson(needed * RATE / needed[0]) / RATE * needed[0]
    node_of = np.arange(GROUPS) % NODES
    waiting, later = np.zeros(NODES), np.zeros(NODES)
    mean, worst, moves, behind = np.zeros(seconds), np.zeros(seconds), 0, 0.0
    for now in range(seconds):
        if now >= START * 60 and now % period == 0:
            after = balance(seen[max(0, now - SEEN) : now].mean(axis=0), node_of, NODES)
            for group in np.flatnonzero(after != node_of):
                moves += 1
                for node in (node_of[group], after[group]):
                    (later if instant else waiting)[node] += pause / 2 if instant else pause
            node_of = after
        held = np.bincount(node_of, seen[now], NODES)
        before = waiting
        waiting = np.maximum(before + held - 1, 0.0)
        spare = np.maximum(1 - held - before, 0.0)
        behind += np.minimum(later, spare).sum()
        later = np.maximum(later - spare, 0.0)
        busy = np.minimum(held, 0.995)
        wait = (before + waiting) / 2 + A_ROW * busy / (1 - busy)
        mean[now], worst[now] = (wait * held).sum() / held.sum(), wait.max()
    return Lag(mean, worst, moves, behind)


WAYS = {
    "disruptive each 5 minutes": (300, False),
    "disruptive each minute": (60, False),
    "instant each second": (1, True),
}


def latencies(balance: Balance, pause: float) -> dict[str, Lag]:
    """Figure 13: what rows wait by each way."""
    needed = loads()
    return {name: lag(needed, balance, period, pause, instant) for name, (period, instant) in WAYS.items()}
