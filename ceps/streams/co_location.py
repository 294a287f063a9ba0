"""Transitions that stay on a worker: objects go from one group to another, and both should be in one place."""

from __future__ import annotations

import numpy as np

from ceps.model.problem import Floats, Ints
from ceps.streams.evenness import loads_of
from ceps.streams.relief import SAME, Groups

_IDLE = 300  # steps without a better best after which it stops
_STEPS, _LEAST_STEPS = 5_000, 100
_WORK = 3e9  # of all steps, where it is about 40 for each pair of groups and 5,000 for each slot
_TENURE = 12  # steps for which a group does not go back to where it was
_LOOKED = 20_000  # moves and swaps of a step whose loads are looked at
_CHUNK = 500


def share_cut(worker_of: Ints, flow: Floats) -> float:
    """Return the share of transitions between groups that go from one worker to another; 0 where there are none.

    ``worker_of``: int64 (G,); ``flow``: float64 (G, G); what stays in a group is not counted.
    """
    between = np.array(flow, dtype=np.float64)
    np.fill_diagonal(between, 0.0)
    total = float(between.sum())
    return float(between[worker_of[:, None] != worker_of].sum()) / total if total else 0.0


def keep_transitions(groups: Groups, start: Ints, flow: Floats, accepted: float) -> Ints:
    """Return a placement that cuts fewer transitions, of an imbalance of at most `accepted`, within the budget.

    Tabu search: each step makes the move or swap that saves most, or costs least, among those that are allowed. The
    same arguments give the same placement. O(G^2) a step, and what its loads take; a few seconds in all.

    ``start``: int64 (G,), a placement of at most that imbalance, within the budget; ``flow``: float64 (G, G), how often
    objects go from one group to another.
    """
    count, workers = len(groups), groups.workers
    each = np.arange(count)
    ties = flow + flow.T
    np.fill_diagonal(ties, 0.0)
    label, best = start.copy(), start
    loads = loads_of(groups.shares, label, workers)
    spent, saved, most, found_at = groups.moved(label), 0.0, 0.0, 0
    until = np.zeros((count, workers), np.int64)
    below = np.tril_indices(count)
    most_steps = int(np.clip(_WORK / (40 * count**2 + 5_000 * groups.shares.shape[1]), _LEAST_STEPS, _STEPS))
    for step in range(1, most_steps + 1):
        there = np.zeros((count, workers))
        there[each, label] = 1.0
        there = ties @ there
        gain = there - there[each, label][:, None]
        swap = gain[:, label] + gain[:, label].T - 2 * ties
        tabu = until > step
        # What is tabu may be done all the same where it gives a new best.
        wins = most - saved + SAME * max(1.0, most)
        gain[each, label] = -np.inf
        swap[(label[:, None] == label) | ((tabu[:, label] | tabu[:, label].T) & (swap <= wins))] = -np.inf
        swap[below] = -np.inf
        gain[tabu & (gain <= wins)] = -np.inf
        worth = np.concatenate([gain.ravel(), swap.ravel()])
        chosen = _first_allowed(groups, label, loads, worth, accepted, groups.budget * (1 + SAME) - spent)
        if chosen < 0:
            break
        saved += float(worth[chosen])
        if chosen < count * workers:
            steps = [divmod(chosen, workers)]
        else:
            i, j = divmod(chosen - count * workers, count)
            steps = [(i, int(label[j])), (j, int(label[i]))]
        for group, worker in steps:
            until[group, label[group]] = step + _TENURE
            loads[label[group]] -= groups.shares[group]
            loads[worker] += groups.shares[group]
            label[group] = worker
        spent = groups.moved(label)
        if saved > most + SAME * max(1.0, most):
            most, best, found_at = saved, label.copy(), step
        elif step - found_at >= _IDLE:
            break
    return best


def _first_allowed(groups: Groups, label: Ints, loads: Floats, worth: Floats, accepted: float, left: float) -> int:
    """Return the move or swap of most worth that keeps within the imbalance and the bytes left, or -1."""
    count, workers = len(groups), groups.workers
    looked = min(_LOOKED, len(worth))
    ranked = np.argpartition(-worth, looked - 1)[:looked] if looked < len(worth) else np.arange(len(worth))
    ranked = ranked[np.argsort(-worth[ranked], kind="stable")]
    ranked = ranked[worth[ranked] > -np.inf]
    home, bytes, shares = groups.home, groups.bytes, groups.shares
    away = np.where((home >= 0) & (label != home), bytes, 0.0)
    limit = accepted * (1 + SAME)
    for begin in range(0, len(ranked), _CHUNK):
        chosen = ranked[begin : begin + _CHUNK]
        single = chosen < count * workers
        i, k = np.divmod(chosen, workers)
        first, second = np.divmod(chosen - count * workers, count)
        i, j = np.where(single, i, first), np.where(single, 0, second)
        goal = np.where(single, k, label[j])
        come = shares[i] - np.where(single[:, None], 0.0, shares[j])
        fits = (loads[goal] + come).max(axis=1) <= limit
        fits &= single | ((loads[label[i]] - come).max(axis=1) <= limit)
        bill = np.where((home[i] >= 0) & (goal != home[i]), bytes[i], 0.0) - away[i]
        back = np.where((home[j] >= 0) & (label[i] != home[j]), bytes[j], 0.0) - away[j]
        fits &= bill + np.where(single, 0.0, back) <= left
        if fits.any():
            return int(chosen[fits.argmax()])
    return -1
