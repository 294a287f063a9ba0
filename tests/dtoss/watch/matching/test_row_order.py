"""Rows in an order by place, and their hits back in the order of rows."""

from __future__ import annotations

import numpy as np
import pytest

from dtoss.watch.matching.matches import Matches, joined, order_by_place, put_back


@pytest.mark.checked
@pytest.mark.parametrize("size", [0, 1, 2, 40])
@pytest.mark.parametrize("scale", [0.0, 1.0, 1e-300, 1e300])
def test_an_order_has_each_row_once(size, scale):
    positions = np.random.default_rng(size).uniform(-1.0, 1.0, (size, 2)) * scale
    order = order_by_place(positions)
    assert order.dtype == np.int32
    assert sorted(order.tolist()) == list(range(size))


@pytest.mark.checked
def test_rows_of_a_quarter_follow_one_another():
    corners = np.array([(0.0, 0.0), (1e6, 0.0), (0.0, 1e6), (1e6, 1e6)])
    positions = np.repeat(corners, 5, axis=0) + np.random.default_rng(0).uniform(0.0, 10.0, (20, 2))
    mixed = np.random.default_rng(1).permutation(20)
    order = order_by_place(np.ascontiguousarray(positions[mixed]))
    assert (mixed[order] // 5).tolist() == np.repeat([0, 1, 2, 3], 5).tolist()
    # equal places stay as they came
    assert order_by_place(np.zeros((6, 2))).tolist() == list(range(6))


@pytest.mark.checked
@pytest.mark.parametrize("seed", range(3))
def test_hits_are_put_back(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 4, 12)
    order = rng.permutation(12).astype(np.int32)
    hits = [[(number, int(sub), float(sub) / 2) for sub in rng.integers(0, 99, sizes[number])] for number in range(12)]
    found = [one for number in order.tolist() for one in hits[number]]
    ends = np.cumsum(sizes[order])
    total = len(found)
    row, subscription, distance = np.empty(total, np.int64), np.empty(total, np.int32), np.empty(total)
    subs, far = np.array([one[1] for one in found], np.int32), np.array([one[2] for one in found], np.float64)
    put_back(order, ends, subs, far, np.empty(12, np.int64), row, subscription, distance)
    assert list(zip(row.tolist(), subscription.tolist(), distance.tolist(), strict=True)) == [
        one for some in hits for one in some
    ]


@pytest.mark.checked
@pytest.mark.parametrize("seed", range(4))
def test_parts_are_merged_by_row_and_subscription(seed):
    rng = np.random.default_rng(seed)
    pairs = sorted({(int(row), int(sub)) for row, sub in rng.integers(0, 9, (40, 2))})
    part = rng.integers(0, 3, len(pairs))
    parts = []
    for number in range(3):
        mine = np.array([pair for pair, of in zip(pairs, part.tolist(), strict=True) if of == number]).reshape(-1, 2)
        row, subscription = np.ascontiguousarray(mine[:, 0]).astype(np.int64), mine[:, 1].astype(np.int32)
        parts.append(Matches(0, 9, row, subscription, subscription / 2.0))
    found = joined(0, 9, parts)
    assert list(zip(found.row.tolist(), found.subscription.tolist(), strict=True)) == pairs
    assert found.distance.tolist() == [sub / 2.0 for _, sub in pairs]
    assert (found.first_row, found.last_row, found.subscription.dtype) == (0, 9, np.int32)
    assert len(joined(0, 9, [])) == 0
