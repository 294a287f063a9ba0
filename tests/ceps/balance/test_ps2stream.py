"""PS2Stream's mechanisms: which cells move, the tree, dispatcher and worker; held to all choices and to layouts."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from ceps.balance.ps2stream.kdt import kdt_layout, nodes_of, shares_of_nodes
from ceps.balance.ps2stream.kdt_pieces import Ground
from ceps.balance.ps2stream.ps2stream import PS2Stream, chosen, exact, greedy
from ceps.balance.round_costs import Loads, Terms, WorkModel, max_over_mean, sigma, work_of_workers
from ceps.balance.subscription_load import SubscriptionLoad, stored_subscriptions
from tests.ceps.balance.drawn_cells import WORDS, cells_of, drawn_asked, drawn_layout, drawn_loads
from tests.ceps.balance.gridt import Gi2, Gridt, Query


def cheapest(load, size, least, below):
    """The bytes of the cheapest set of cells that has enough and not too much; infinite where none has."""
    best = np.inf
    for count in range(1, len(load) + 1):
        for some in combinations(range(len(load)), count):
            if least <= load[list(some)].sum() < below:
                best = min(best, size[list(some)].sum())
    return best


@pytest.mark.parametrize("seed", range(12))
def test_the_dynamic_programme_is_the_best_of_all_sets(seed):
    """Of up to 15 cells, of sizes in whole units, where no set has too much; greedy is never cheaper."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 16 if seed < 2 else 11))
    load, size = rng.uniform(0.0, 10.0, count), rng.integers(1, 30, count).astype(float)
    least = float(rng.uniform(0.1, 0.8) * load.sum())
    best = cheapest(load, size, least, np.inf)
    found = exact(load, size, least, np.inf, unit=1.0)
    assert load[found].sum() >= least
    assert size[found].sum() == best
    loose = greedy(load, size, least, np.inf)
    assert load[loose].sum() >= least
    assert size[loose].sum() >= best


@pytest.mark.parametrize("way", ["GR", "DP", "SI", "RA"])
def test_no_set_has_too_much_or_too_little(way):
    """Or there is none; the same seed draws the same one."""
    rng = np.random.default_rng(5)
    for _ in range(60):
        count = int(rng.integers(1, 12))
        load, size = rng.gamma(0.5, 10.0, count), rng.integers(1, 9000, count).astype(float)
        gap = float(rng.uniform(1.0, 40.0))
        found = chosen(way, load, size, gap / 2, gap, np.random.default_rng(1))
        assert found.tolist() == chosen(way, load, size, gap / 2, gap, np.random.default_rng(1)).tolist()
        if len(found):
            assert gap / 2 <= load[found].sum() < gap
        elif way in ("GR", "DP"):
            assert cheapest(load, size, gap / 2, gap) == np.inf
    with pytest.raises(ValueError, match="choose = 'X'"):
        chosen("X", load, size, 1.0, 2.0, rng)


@pytest.mark.parametrize("seed", range(6))
def test_the_number_of_parts_is_the_best_of_all(seed):
    """Six nodes and eight parts, each at least one."""
    rng = np.random.default_rng(seed)
    costs = [rng.uniform(0, 10, 8) for _ in range(6)]
    found = shares_of_nodes(costs, 8)
    assert sum(found) == 8
    wanted = min(
        sum(cost[count - 1] for cost, count in zip(costs, counts, strict=True))
        for counts in product(range(1, 4), repeat=6)
        if sum(counts) == 8
    )
    assert sum(cost[count - 1] for cost, count in zip(costs, found, strict=True)) == pytest.approx(wanted)
    assert shares_of_nodes([np.ones(1), np.ones(2)], 8) == [1, 2]


def spoken_loads(rng, asked, said):
    """Loads whose rows hold words: ``said`` gives the chance of each."""
    cells = asked.shape[0] * asked.shape[1]
    rows = rng.integers(5, 60, cells).astype(float)
    counts = rng.binomial(rows.astype(int)[:, None], said[None, :]).astype(float)
    cell, word = np.nonzero(counts)
    cell, word = cell.astype(np.int64), word.astype(np.int64)
    terms = Terms(cell, word, counts[cell, word], asked.under_words.over(cell, word).astype(float))
    stored_there = asked.stored_by_cell.astype(float)
    return Loads(
        asked.shape, rows, rows * stored_there, 0 * rows, stored_there, asked.bytes_by_cell, WorkModel(1.0, 0.01), terms
    )


def asked_for(shape, words):
    """A subscription everywhere for each word."""
    count = len(words)
    rects = np.tile([0, 0, shape[1] - 1, shape[0] - 1], (count, 1))
    return SubscriptionLoad(shape, rects, np.arange(count), np.ones(count), np.arange(count + 1), np.array(words))


def test_space_is_cut_where_words_are_alike_and_words_are_dealt_where_not():
    """What is said is what is asked for: one node of space. Else one that no cut makes more alike is one of words."""
    rng = np.random.default_rng(0)
    alike = asked_for((4, 4), [0, 1, 2, 3, 4, 5])
    said = np.full(WORDS, 0.5)
    nodes = nodes_of(Ground(spoken_loads(rng, alike, said), alike), delta=0.5, theta=16)
    assert [node.by_words for node in nodes] == [False]
    unlike = asked_for((4, 4), [0, 1])
    said = np.array([0.02, 0.02, 0.9, 0.9, 0.9, 0.9])
    nodes = nodes_of(Ground(spoken_loads(rng, unlike, said), unlike), delta=0.9, theta=16)
    assert any(node.by_words for node in nodes)
    loads = spoken_loads(rng, unlike, said)
    layout = kdt_layout(loads, unlike, 3, 0.9, 1, 1.5)
    assert layout.workers == 3
    assert len(layout.words) > 0
    assert (np.diff(layout.begin) == 1).all()


@pytest.mark.parametrize("seed", range(8))
def test_the_dispatcher_routes_as_the_layout_says(seed):
    """Queries to who stores them, messages to all who may match them; what is dropped at the door matches nothing."""
    rng = np.random.default_rng(seed)
    shape, workers = (3, 4), 4
    asked = drawn_asked(rng, shape, 25)
    layout = drawn_layout(rng, shape, workers, words=True)
    grid = Gridt(layout)
    covers = [
        frozenset(asked.cover[asked.cover_begin[k] : asked.cover_begin[k + 1]].tolist()) for k in range(len(asked))
    ]
    queries = [Query(k, frozenset(cells_of(asked, k)), covers[k]) for k in range(len(asked))]
    holds = [stored_subscriptions(layout, asked, worker) for worker in range(workers)]
    indexes = [Gi2() for _ in range(workers)]
    for query in queries:
        where = grid.insert(query)
        assert where == {worker for worker in range(workers) if holds[worker][query.id]}
        for worker in where:
            indexes[worker].insert(query)
    for _ in range(150):
        cell = int(rng.integers(shape[0] * shape[1]))
        words = set(np.flatnonzero(rng.random(WORDS) < 0.4).tolist())
        true = {query.id for query in queries if cell in query.cells and (not query.cover or query.cover & words)}
        where = grid.route(cell, words)
        assert where or not true
        if len(layout.worker[layout.begin[cell] : layout.begin[cell + 1]]) == 1:
            assert set().union(*(set(indexes[worker].candidates(cell, words)) for worker in where)) == true


@pytest.mark.parametrize("seed", range(8))
def test_a_removed_query_is_never_found_and_each_is_found_once(seed):
    """Whatever is inserted, deleted and asked in between; the same id may come again with other words."""
    rng = np.random.default_rng(seed)
    index, live = Gi2(), {}
    for _ in range(200):
        number = int(rng.integers(12))
        if rng.random() < 0.4:
            index.delete(number)
            live.pop(number, None)
            query = Query(
                number,
                frozenset(rng.integers(0, 4, 2).tolist()),
                frozenset(np.flatnonzero(rng.random(WORDS) < 0.4).tolist()),
            )
            if rng.random() < 0.7:
                index.insert(query)
                live[number] = query
        cell, words = int(rng.integers(4)), set(np.flatnonzero(rng.random(WORDS) < 0.5).tolist())
        wanted = [one.id for one in live.values() if cell in one.cells and (not one.cover or one.cover & words)]
        assert index.candidates(cell, words) == sorted(wanted)


def test_the_least_frequent_word_of_a_clause_alone_loses_matches():
    """Literally posted, "a or b" stands under the rarer word only: a message that says the other one is lost."""
    literal, repaired = Query(0, frozenset([0]), frozenset([1])), Query(0, frozenset([0]), frozenset([1, 2]))
    found = []
    for query in (literal, repaired):
        index = Gi2()
        index.insert(query)
        found.append(index.candidates(0, {2}))
    assert found == [[], [0]]


@pytest.mark.parametrize("choose", ["GR", "DP", "SI", "RA"])
def test_loads_are_evened_until_sigma_holds(choose):
    """Of a layout that is uneven; nothing moves where it holds already; a first layout covers all cells."""
    rng = np.random.default_rng(3)
    asked = drawn_asked(rng, (8, 8), 30)
    loads = drawn_loads(rng, asked)
    strategy = PS2Stream(4, choose=choose, load="work")
    first = strategy.next_layout(None, loads, asked, {})
    assert sigma(work_of_workers(first.layout, loads)) <= 1.5
    assert strategy.next_layout(first.layout, loads, asked, first.memory).layout is first.layout
    other = drawn_loads(np.random.default_rng(9), asked, 400)
    uneven = np.where(np.arange(64) < 20, 5.0, 1.0)
    hot = Loads(asked.shape, other.rows * uneven, other.candidates * uneven, other.matches, other.stored, other.bytes)
    moved = strategy.next_layout(first.layout, hot, asked, first.memory)
    assert max_over_mean(work_of_workers(moved.layout, hot)) <= max_over_mean(work_of_workers(first.layout, hot))
    assert sigma(work_of_workers(moved.layout, hot)) <= max(1.5, sigma(work_of_workers(first.layout, hot)) - 1e-9)
    for bad, said in (
        ({"sigma": 1.0}, "sigma = 1.0"),
        ({"delta": 2}, "delta = 2"),
        ({"choose": "X"}, "choose = 'X'"),
        ({"by": "X"}, "by = 'X'"),
    ):
        with pytest.raises(ValueError, match=said):
            PS2Stream(2, **bad)
