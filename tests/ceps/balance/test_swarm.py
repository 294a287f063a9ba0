"""SWARM's mechanisms: statistics, stages, subsets, lines, merging; and where the paper's algorithms go wrong."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from bench.watch.swarm_lines import Part, no_statistics
from ceps.balance.cell_layout import of_cells, prefix_sums, sums_over
from ceps.balance.round_costs import Loads, WorkModel, max_over_mean, work_of_workers
from ceps.balance.subscription_load import no_words
from ceps.balance.swarm import (
    START,
    Overlaps,
    RectangleCosts,
    Rectangles,
    Stage,
    Swarm,
    best_split,
    best_subset,
    cut_in_halves,
    history_grid,
    least_in_size,
    merge_rectangles,
    uniform_grid,
)
from tests.ceps.balance.drawn_cells import drawn_loads


def drawn_rects(rng, shape, count):
    """Rectangles of cells."""
    ends = np.sort(rng.integers(0, [[shape[1], shape[0]]], (count, 2, 2)), axis=1)
    return np.concatenate([ends[:, 0], ends[:, 1]], axis=1)


def guillotine(rng, shape, cuts):
    """A grid cut in two again and again, as SWARM cuts it."""
    found = [(0, 0, shape[1] - 1, shape[0] - 1)]
    for _ in range(cuts):
        at = int(rng.integers(len(found)))
        west, south, east, north = found[at]
        if rng.random() < 0.5 and east > west:
            line = int(rng.integers(west, east))
            found[at : at + 1] = [(west, south, line, north), (line + 1, south, east, north)]
        elif north > south:
            line = int(rng.integers(south, north))
            found[at : at + 1] = [(west, south, east, line), (west, line + 1, east, north)]
    return np.array(found)


@pytest.mark.parametrize("seed", range(60))
def test_statistics_are_those_of_a_recount(seed):
    """Over rounds; five cuts of each: points, queries and arrivals of both parts, and all of both along the axis."""
    rng = np.random.default_rng(seed)
    lines = int(rng.integers(2, 12))
    held, points, queries = no_statistics(lines), np.zeros(lines), []
    for _ in range(int(rng.integers(1, 5))):
        came = rng.integers(0, lines, rng.integers(0, 30))
        ends = np.sort(rng.integers(0, lines, (int(rng.integers(0, 9)), 2)), axis=1)
        held = held.after_round(came, ends[:, 0], ends[:, 1])
        points = points / 2 + np.bincount(came, minlength=lines)
        fresh, queries = ends.tolist(), queries + ends.tolist()
    for line in rng.integers(0, lines - 1, 5).tolist():
        wanted = []
        for first, last in ((0, line), (line + 1, lines - 1)):
            here = [sum(begin <= last and end >= first for begin, end in some) for some in (queries, fresh)]
            arrived = int(((came >= first) & (came <= last)).sum())
            wanted.append(Part(points[first : last + 1].sum(), here[0], arrived + here[1]))
        for found, part in zip(held.parts(line), wanted, strict=True):
            assert found == pytest.approx(part)
        for found, (first, last) in zip(held.split(line), ((0, line), (line + 1, lines - 1)), strict=True):
            mine = [(max(b, first) - first, min(e, last) - first) for b, e in queries if b <= last and e >= first]
            assert found.points == pytest.approx(np.cumsum(points[first : last + 1]))
            each = range(last - first + 1)
            assert found.queries.tolist() == [sum(begin <= at for begin, _ in mine) for at in each]
            assert found.spans.tolist() == [sum(begin < at <= end for begin, end in mine) for at in each]


@pytest.mark.parametrize("seed", range(20))
def test_overlaps_of_any_rectangle_are_counted_exactly(seed):
    """By the Euler histogram; sums of cells too: so are the numbers of the other axis after a split."""
    rng = np.random.default_rng(seed)
    shape = (int(rng.integers(1, 9)), int(rng.integers(1, 9)))
    mine, asked = drawn_rects(rng, shape, 40), drawn_rects(rng, shape, int(rng.integers(0, 30)))
    found = Overlaps(no_words(shape, asked, np.ones(len(asked)))).of(mine)
    wanted = [
        sum(a[0] <= east and a[2] >= west and a[1] <= north and a[3] >= south for a in asked.tolist())
        for west, south, east, north in mine.tolist()
    ]
    assert found.tolist() == wanted
    values = rng.random(shape[0] * shape[1])
    table = values.reshape(shape)
    sums = sums_over(prefix_sums(shape, values), mine)
    assert sums == pytest.approx([table[s : n + 1, w : e + 1].sum() for w, s, e, n in mine.tolist()])


ROUNDS = "--+++-----+--+++++++++++++++++++++------"
STAGES = "1234432121212344444444444444444423212121"
DECIDED = "NRRRRRRRNNNNRRRRRRRRRRRRRRRRRRRRNNNNRRNN"
"""Worked out by hand from figure 9, for 40 rounds: whether throughput was better, the stage, whether to rebalance."""


def test_stages_are_those_of_a_table_of_forty_rounds():
    """Two bad rounds from START flip, good ones to the right buy time; after twenty in a row it is flipped anyhow."""
    stage, stages, decided = Stage(), "", ""
    for sign in ROUNDS:
        stage = stage.after(sign == "+", 20)
        stages += str(stage.at)
        decided += "R" if stage.rebalance else "N"
    assert len(ROUNDS) == 40
    assert stages == STAGES
    assert decided == DECIDED
    stage = Stage(4, True, 3)
    for wanted in (3, 2, 1):
        stage = stage.after(False, 20)
        assert (stage.at, stage.rebalance) == (wanted, True)
    assert stage.after(False, 20) == Stage(START, False, 1)
    assert Stage(4, True, 5).after(True, 5) == Stage(START, False, 1)


@pytest.mark.parametrize("seed", range(40))
def test_a_subset_is_at_least_half_of_the_best(seed):
    """And never too much; an empty one only where nothing fits."""
    rng = np.random.default_rng(seed)
    costs = rng.gamma(0.7, 10.0, int(rng.integers(1, 10)))
    most = float(rng.uniform(0, costs.sum()))
    found = float(costs[best_subset(costs, most)].sum())
    sums = [sum(some) for size in range(len(costs) + 1) for some in combinations(costs, size)]
    best = max(one for one in sums if one <= most)
    assert best / 2 - 1e-9 <= found <= most


@pytest.mark.parametrize("cost", ["paper", "work"])
@pytest.mark.parametrize("seed", range(15))
def test_four_binary_searches_find_the_best_line(seed, cost):
    """Of all lines and either part; ten rectangles each: the difference rises or falls all along, so they must."""
    rng = np.random.default_rng(seed)
    shape = (int(rng.integers(1, 9)), int(rng.integers(2, 9)))
    asked = no_words(shape, drawn_rects(rng, shape, 12), np.ones(12))
    loads = drawn_loads(rng, asked)
    costs = RectangleCosts(loads, asked, loads.rows, cost)
    for rect in drawn_rects(rng, shape, 10):
        whole = float(costs(rect[None])[0])
        giver, taker = whole * rng.uniform(1.0, 2.0), whole * rng.uniform(0.0, 0.9)
        wanted = []
        for first, last in ((1, 3), (0, 2)):
            runs = [[], []]
            for line in range(int(rect[first]), int(rect[last])):
                one, other = rect.copy(), rect.copy()
                one[last], other[first] = line, line + 1
                a, b = costs(np.stack([one, other])).tolist()
                runs[0].append((giver - whole + b) - (taker + a))
                runs[1].append((giver - whole + a) - (taker + b))
            assert runs[0] == sorted(runs[0], reverse=True)
            assert runs[1] == sorted(runs[1])
            wanted += [abs(one) for one in (*runs[0], *runs[1])]
        found = best_split(rect, costs, giver, taker)
        if not wanted:
            assert found is None
            continue
        assert abs(found.difference) == pytest.approx(min(wanted))
        assert costs(np.stack([found.kept, found.moved])).sum() <= whole + 1e-9


def test_where_a_function_is_nearest_to_nothing():
    """Rising, falling, flat, of one value."""
    for values in ([3.0], [-2.0, -1.0, 4.0], [4.0, 1.0, -2.0], [1.0, 1.0, 1.0], [-5.0, -4.0], [0.0, 1.0], [9.0, 8.0]):
        at, least = least_in_size(values.__getitem__, len(values))
        assert least == values[at]
        assert abs(least) == min(map(abs, values))


def literal_overlaps(grid, rects, asked):
    """Algorithm 1 as it is written: a partition that is reached again is not looked at again."""
    west, south, east, north = asked
    waiting, result = [(west, south)], set()
    while waiting:
        x, y = waiting.pop()
        if not (west <= x <= east and south <= y <= north):
            continue
        partition = int(grid[y, x])
        if partition not in result:
            waiting += [(int(rects[partition, 2]) + 1, y), (x, int(rects[partition, 3]) + 1)]
            result.add(partition)
    return result


def test_the_papers_algorithm_1_loses_partitions_and_ours_none():
    """On 600 grids that are cut at random: rectangle against rectangle finds all, and some layouts lose some."""
    rng = np.random.default_rng(0)
    lost = layouts = 0
    for _ in range(600):
        shape = (8, 8)
        rects = guillotine(rng, shape, 10)
        owner = Rectangles(rects, np.arange(len(rects))).owner(shape).reshape(shape)
        asked = drawn_rects(rng, shape, 1)
        west, south, east, north = asked[0].tolist()
        true = set(owner[south : north + 1, west : east + 1].ravel().tolist())
        one = no_words(shape, asked, np.ones(1))
        assert set(np.flatnonzero(Overlaps(one).of(rects)).tolist()) == true
        missing = true - literal_overlaps(owner, rects, asked[0].tolist())
        lost, layouts = lost + len(missing), layouts + bool(missing)
    assert layouts > 0
    assert lost >= layouts


@pytest.mark.parametrize("seed", range(10))
def test_only_rectangles_that_form_one_are_merged(seed):
    """Of a machine; cells stay with their machines, and no two that are left form a rectangle."""
    rng = np.random.default_rng(seed)
    rects = guillotine(rng, (7, 6), 12)
    held = Rectangles(rects, rng.integers(0, 3, len(rects)))
    found = merge_rectangles(held)
    assert found.owner((7, 6)).tolist() == held.owner((7, 6)).tolist()
    sizes = [(e - w + 1) * (n - s + 1) for w, s, e, n in found.rects.tolist()]
    assert sum(sizes) == 42
    for one, other in combinations(range(len(sizes)), 2):
        if found.worker[one] == found.worker[other]:
            low = np.minimum(found.rects[one, :2], found.rects[other, :2])
            high = np.maximum(found.rects[one, 2:], found.rects[other, 2:])
            assert np.prod(high - low + 1) != sizes[one] + sizes[other]
    apart = Rectangles(np.array([[0, 0, 1, 0], [1, 1, 2, 1], [0, 2, 2, 2]]), np.zeros(3, int))
    assert merge_rectangles(apart).rects.tolist() == apart.rects.tolist()


def test_the_first_grid_is_halved_by_its_longer_side():
    """Each machine has one rectangle; where cells run out, some have none."""
    assert cut_in_halves((4, 8), 3).rects.tolist() == [[0, 0, 1, 3], [4, 0, 7, 3], [2, 0, 3, 3]]
    assert len(cut_in_halves((2, 2), 9).rects) == 4
    nothing = no_words((2, 2), np.zeros((0, 4), int), np.zeros(0))
    loads = drawn_loads(np.random.default_rng(0), nothing)
    assert uniform_grid(loads, nothing, 9).workers == 9


def hot_loads(rows, shape=(8, 8)):
    """Loads whose rows cost 1 each."""
    none = np.zeros(len(rows))
    return Loads(shape, rows, none, none, none, none, WorkModel(1.0, 0.0, 0.0))


def test_the_papers_cost_calls_a_machine_of_many_small_rectangles_idle():
    """The same rows in four parts cost a sixteenth each, a quarter in all: it is not additive, and seconds are."""
    whole = np.array([[0, 0, 7, 7]])
    quarters = np.array([[0, 0, 3, 3], [4, 0, 7, 3], [0, 4, 3, 7], [4, 4, 7, 7]])
    loads = hot_loads(np.full(64, 10.0))
    asked = no_words((8, 8), np.array([[x, y, x, y] for y in range(8) for x in range(8)]), np.ones(64))
    paper, work = (RectangleCosts(loads, asked, loads.rows, cost) for cost in ("paper", "work"))
    assert paper(quarters).sum() == pytest.approx(paper(whole)[0] / 16)
    assert work(quarters).sum() == pytest.approx(work(whole)[0])


def test_it_evens_out_a_spot_and_keeps_what_it_cannot_split():
    """With work for its cost, always, eight moves; a single hot cell stays where it is, and nothing runs for ever."""
    asked = no_words((8, 8), np.zeros((0, 4), int), np.zeros(0))
    rows = np.full(64, 10.0)
    rows[[0, 1, 8, 9]] = 200.0
    strategy = Swarm(4, cost="work", decision="always", moves=8)
    decided = strategy.next_layout(None, hot_loads(rows), asked, {})
    for _ in range(6):
        decided = strategy.next_layout(decided.layout, hot_loads(rows), asked, decided.memory)
    assert max_over_mean(work_of_workers(decided.layout, hot_loads(rows))) < 1.15
    single = np.zeros(64)
    single[5] = 100.0
    for _ in range(3):
        decided = strategy.next_layout(decided.layout, hot_loads(single), asked, decided.memory)
    assert max_over_mean(work_of_workers(decided.layout, hot_loads(single))) == 4.0
    history = history_grid(hot_loads(rows), asked, 4, cost="work")
    assert max_over_mean(work_of_workers(history, hot_loads(rows))) < 2.0


def test_messages_are_two_numbers_a_machine_while_nothing_moves():
    """A central histogram would be five a cell."""
    asked = no_words((8, 8), np.zeros((0, 4), int), np.zeros(0))
    strategy = Swarm(4)
    decided = strategy.next_layout(None, hot_loads(np.full(64, 1.0)), asked, {})
    assert decided.messages == 0
    decided = strategy.next_layout(decided.layout, hot_loads(np.full(64, 1.0)), asked, decided.memory)
    assert decided.messages == 4 * 2 * 8
    for bad, said in (
        ({"cost": "time"}, "cost = 'time'"),
        ({"decision": "no"}, "decision = 'no'"),
        ({"moves": 0}, "moves"),
    ):
        with pytest.raises(ValueError, match=said):
            Swarm(4, **bad)
    again = Swarm(3).next_layout(of_cells((8, 8), 4, np.zeros(64)), hot_loads(np.full(64, 1.0)), asked, decided.memory)
    assert again.layout.workers == 3
