"""Cells that words split: who stands where, what that costs, phase I and the tree; held to loops over cells, words."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest

from ceps.balance.cell_layout import Layout, of_cells
from ceps.balance.ps2stream.kdt import kdt_layout, kdt_tree, words_by_frequency
from ceps.balance.ps2stream.kdt_pieces import Ground, every_nth
from ceps.balance.ps2stream.ps2stream import Cells, PS2Stream, adjust_layout, count_loads, split_and_join, with_asked
from ceps.balance.round_costs import Loads, Terms, WorkModel, split_work, work_of_workers
from ceps.balance.subscription_load import SubscriptionLoad, stored_subscriptions
from tests.ceps.balance.drawn_cells import WORDS, cells_of, drawn_asked, drawn_layout, stores

SHAPE = (3, 4)
CELLS = SHAPE[0] * SHAPE[1]


def covers_of(asked):
    """The words of each subscription."""
    return [set(asked.cover[asked.cover_begin[k] : asked.cover_begin[k + 1]].tolist()) for k in range(len(asked))]


def standing(asked):
    """How many rectangles stand in each cell under each word."""
    found = defaultdict(int)
    for rect, owner in zip(asked.rects.tolist(), asked.owner.tolist(), strict=True):
        west, south, east, north = rect
        for row in range(south, north + 1):
            for column in range(west, east + 1):
                for word in covers_of(asked)[owner]:
                    found[row * asked.shape[1] + column, word] += 1
    return found


def spoken(rng, asked, messages=400):
    """Messages in cells, and their loads: rows are held against what stands in their cell under their words."""
    said = [(int(rng.integers(CELLS)), set(np.flatnonzero(rng.random(WORDS) < 0.3).tolist())) for _ in range(messages)]
    rows, candidates, counts = np.zeros(CELLS), np.zeros(CELLS), defaultdict(float)
    under = standing(asked)
    for cell, words in said:
        rows[cell] += 1
        for word in words:
            counts[cell, word] += 1
            candidates[cell] += under[cell, word]
    pairs = sorted(counts)
    cell, word = (np.array([pair[k] for pair in pairs], np.int64) for k in (0, 1))
    terms = Terms(cell, word, np.array([counts[p] for p in pairs]), np.array([float(under[p]) for p in pairs]))
    there = asked.stored_by_cell.astype(float)
    model = WorkModel(1.0, 0.25, 0.0)
    return said, Loads(SHAPE, rows, candidates, np.zeros(CELLS), there, asked.bytes_by_cell, model, terms)


@pytest.mark.parametrize("seed", range(8))
def test_who_stands_under_a_word_in_a_cell(seed):
    """Counts by pair and by rectangle, all words of a cell, pairs of a rectangle; of words with few and with many."""
    rng = np.random.default_rng(seed)
    asked = drawn_asked(rng, SHAPE, int(rng.integers(0, 40)))
    under, true = asked.under_words, standing(asked)
    cell, word = (part.ravel() for part in np.mgrid[0:CELLS, 0 : WORDS + 1])
    shuffled = rng.permutation(len(cell))
    cell, word = cell[shuffled], word[shuffled]
    assert under.over(cell, word).tolist() == [true[pair] for pair in zip(cell.tolist(), word.tolist(), strict=True)]
    some = rng.random(len(cell)) < 0.5
    pairs = set(zip(cell[some].tolist(), word[some].tolist(), strict=True))
    wanted = []
    of_word = np.repeat(under.words, np.diff(under.begin)).tolist()
    for one, rect in zip(of_word, under.rects.tolist(), strict=True):
        west, south, east, north = rect
        inner = [row * SHAPE[1] + column for row in range(south, north + 1) for column in range(west, east + 1)]
        wanted.append(sum((there, one) in pairs for there in inner))
    assert under.holding(cell[some], word[some]).tolist() == wanted
    for one in range(CELLS):
        words, counts = under.in_cell(one)
        assert dict(zip(words.tolist(), counts.tolist(), strict=True)) == {
            w: n for (c, w), n in true.items() if c == one and n
        }
    chosen, rect = np.array([0, 2, 5]), (1, 0, 3, 1)
    inner = {row * SHAPE[1] + column for row in (0, 1) for column in (1, 2, 3)}
    found = under.pairs(chosen, rect, 10_000)
    expected = sorted(pair for pair, n in true.items() if n and pair[0] in inner and pair[1] in {0, 2, 5})
    assert list(zip(found[0].tolist(), found[1].tolist(), strict=True)) == expected
    assert not expected or under.pairs(chosen, rect, 0) is None


@pytest.mark.parametrize("seed", range(20))
def test_workers_store_what_may_be_asked_of_them(seed):
    """By loops over cells and words, with cells that many words split."""
    rng = np.random.default_rng(seed)
    asked = drawn_asked(rng, SHAPE, 30)
    layout = drawn_layout(rng, SHAPE, 4, words=True)
    for worker in range(4):
        assert stored_subscriptions(layout, asked, worker).tolist() == [
            stores(layout, asked, worker, one) for one in range(30)
        ]


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_what_workers_do_in_split_cells(seed, every):
    """Rows of any word of a worker, its candidates there and not at the rest; words that go to the rest are nothing."""
    rng = np.random.default_rng(seed)
    asked = drawn_asked(rng, SHAPE, 30)
    layout = drawn_layout(rng, SHAPE, 3, words=True)
    _, loads = spoken(rng, asked)
    loads = count_loads(loads, asked, layout, "paper" if every else "work")
    model, terms = loads.model, loads.terms
    known = {
        (int(c), int(w)): (r, u) for c, w, r, u in zip(terms.cell, terms.word, terms.rows, terms.under, strict=True)
    }
    wanted = np.zeros(3)
    for cell, worker, share in zip(layout.cell.tolist(), layout.worker.tolist(), layout.share.tolist(), strict=True):
        wanted[worker] += share * loads.work[cell]
    parts = []
    for cell in range(CELLS):
        rest, groups = layout.worker[layout.begin[cell]], defaultdict(list)
        here = layout.words.cell == cell
        for word, worker in zip(layout.words.word[here].tolist(), layout.words.worker[here].tolist(), strict=True):
            if worker != rest:
                groups[worker].append(known.get((cell, word), (0.0, 0.0)))
        rows, held = loads.rows[cell], loads.candidates[cell]
        spares = {w: rows * sum(u for _, u in g) if every else sum(r * u for r, u in g) for w, g in groups.items()}
        much = sum(spares.values())
        for worker, group in groups.items():
            spared = spares[worker] * (min(held / much, 1.0) if much else 1.0)
            silent = np.prod([1.0 - r / rows for r, _ in group]) if rows else 1.0
            heard = rows * (1.0 - silent)
            own = min(heard * sum(u for _, u in group), spared) if every else spared
            wanted[worker] += model.a * heard + model.b * own
            wanted[rest] -= model.b * spared
            parts.append((cell, worker))
    assert work_of_workers(layout, loads, every) == pytest.approx(wanted)
    split = split_work(layout, loads, every)
    assert sorted(zip(split.cell.tolist(), split.worker.tolist(), strict=True)) == sorted(parts)
    assert (work_of_workers(layout, loads, every) >= -1e-9).all()


@pytest.mark.parametrize("seed", range(6))
def test_work_is_that_of_messages(seed):
    """Of messages that hold their words independently: rows that workers get and what is looked at, one by one."""
    rng = np.random.default_rng(seed)
    asked = drawn_asked(rng, SHAPE, 30)
    layout = drawn_layout(rng, SHAPE, 3, words=True)
    said, loads = spoken(rng, asked, 20_000)
    under, true = standing(asked), np.zeros(3)
    rest = layout.worker[layout.begin[:-1]]
    goes = {
        (c, w): k
        for c, w, k in zip(
            *(part.tolist() for part in (layout.words.cell, layout.words.word, layout.words.worker)), strict=True
        )
    }
    for cell, words in said:
        if layout.begin[cell + 1] - layout.begin[cell] > 1:
            continue
        whose = {word: goes.get((cell, word), rest[cell]) for word in words}
        for worker in {rest[cell], *whose.values()}:
            true[worker] += 1.0 + 0.25 * sum(under[cell, word] for word in words if whose[word] == worker)
    shared = np.isin(layout.cell, layout.shared)
    true += np.bincount(layout.worker[shared], (layout.share * loads.work[layout.cell])[shared], 3)
    assert work_of_workers(layout, loads) == pytest.approx(true, rel=0.02)


@pytest.mark.parametrize("load", ["paper", "work"])
@pytest.mark.parametrize("seed", range(20))
def test_phase_one_never_makes_work_more(seed, load):
    """From the busiest to the least busy; the gap between them does not turn round, and cells stay covered."""
    rng = np.random.default_rng(seed)
    asked = drawn_asked(rng, SHAPE, 60)
    layout = drawn_layout(rng, SHAPE, 3, words=seed % 2 == 1)
    _, loads = spoken(rng, asked)
    every = load == "paper"
    cells = Cells.of(layout, count_loads(loads, asked, layout, load))
    before = work_of_workers(layout, cells.loads, every)
    high, low = int(before.argmax()), int(before.argmin())
    split_and_join(cells, asked, high, low, 4, every)
    after = cells.now()
    work = work_of_workers(after, count_loads(loads, asked, after, load), every)
    assert work.sum() <= before.sum() + 1e-9
    assert work[low] - work[high] <= before[high] - before[low] + 1e-9
    assert work[[k for k in range(3) if k not in (high, low)]] == pytest.approx(
        before[[k for k in range(3) if k not in (high, low)]]
    )
    assert cells.changes or after is layout


def rare(rng, shape=(8, 8), local=200, wide=200, words=40):
    """Half of the subscriptions are small, under words that all say; half are everywhere, under words that few say."""
    corner = rng.integers(0, [shape[1], shape[0]], (local, 2))
    rects = np.concatenate([np.hstack([corner, corner]), np.tile([0, 0, shape[1] - 1, shape[0] - 1], (wide, 1))])
    cover = np.concatenate([rng.integers(0, 4, local), rng.integers(4, words, wide)])
    count = local + wide
    asked = SubscriptionLoad(shape, rects, np.arange(count), np.full(count, 100.0), np.arange(count + 1), cover)
    cells = shape[0] * shape[1]
    rows = rng.integers(40, 80, cells).astype(float)
    said = np.where(np.arange(words) < 4, 0.6, 0.002)
    counts = rng.binomial(rows.astype(int)[:, None], said[None, :])
    cell, word = np.nonzero(counts)
    under = asked.under_words.over(cell, word).astype(float)
    there = asked.stored_by_cell.astype(float)
    candidates = np.bincount(cell, counts[cell, word] * under, cells)
    terms = Terms(cell, word, counts[cell, word].astype(float), under)
    model = WorkModel(1.0, 0.02, 0.0)
    return asked, Loads(shape, rows, candidates, 0 * rows, there, asked.bytes_by_cell, model, terms)


def test_words_that_few_say_and_many_ask_are_a_leaf_of_their_own():
    """Then the tree costs less than by space alone and by words alone; its layout is its leaves."""
    asked, loads = rare(np.random.default_rng(0))
    cost = {by: sum(kdt_tree(loads, asked, 4, 0.5, 64, 1.5, leaves=8, by=by).load) for by in ("both", "space", "words")}
    assert cost["both"] < 0.85 * min(cost["space"], cost["words"])
    tree = kdt_tree(loads, asked, 4, 0.5, 64, 1.5, leaves=8)
    layout = kdt_layout(loads, asked, 4, 0.5, 64, 1.5, leaves=8)
    goes = dict(
        zip(
            zip(layout.words.cell.tolist(), layout.words.word.tolist(), strict=True),
            layout.words.worker.tolist(),
            strict=True,
        )
    )
    ground = Ground(loads, asked)
    seen, asked_there = (
        set(),
        set(zip(*(part.tolist() for part in asked.under_words.pairs(np.arange(40), ground.whole, 10**6)), strict=True)),
    )
    for leaf, worker in zip(tree.leaves, tree.worker, strict=True):
        for cell in ground.cells(leaf.rect).tolist():
            if leaf.words is None:
                assert cell not in seen
                seen.add(cell)
                assert layout.worker[layout.begin[cell]] == worker
            else:
                for word in leaf.words.tolist():
                    if (cell, word) in asked_there:
                        assert goes.get((cell, word), layout.worker[layout.begin[cell]]) == worker
    assert seen == set(range(64))
    assert all(pair in asked_there for pair in goes)


def test_without_words_space_alone_is_cut():
    """And a tree by words alone cannot but cut space; dealt words leave all with the first worker."""
    rng = np.random.default_rng(1)
    asked, loads = rare(rng)
    mute = SubscriptionLoad(
        asked.shape, asked.rects, asked.owner, asked.bytes, np.zeros(len(asked) + 1, np.int64), asked.cover[:0]
    )
    silent = replace(loads, terms=None)
    for by in ("both", "space", "words"):
        layout = kdt_layout(silent, mute, 4, 0.5, 64, 1.5, by=by)
        assert len(layout.words) == 0
        assert len(np.unique(layout.worker)) == 4
    assert set(words_by_frequency(silent, mute, 4).worker.tolist()) == {0}
    dealt = words_by_frequency(loads, asked, 4)
    assert set(dealt.worker.tolist()) == {0}
    assert set(dealt.words.worker.tolist()) == {1, 2, 3}
    assert PS2Stream(4).next_layout(None, silent, mute, {}).layout.workers == 4


def test_a_sample_of_subscriptions_is_each_nth():
    """With its rectangles and words."""
    asked = drawn_asked(np.random.default_rng(4), SHAPE, 20)
    some = every_nth(asked, 3)
    assert len(some) == 7
    assert [cells_of(some, k) for k in range(7)] == [cells_of(asked, 3 * k) for k in range(7)]
    assert covers_of(some) == covers_of(asked)[::3]
    assert every_nth(asked, 1) is asked


def test_words_that_nobody_has_said_are_known_where_they_are_named():
    """With no rows, and with those who ask for them."""
    asked = SubscriptionLoad(
        (1, 2), np.array([[0, 0, 1, 0]] * 3), np.arange(3), np.ones(3), np.arange(4), np.array([7, 7, 2])
    )
    terms = Terms(np.array([1]), np.array([2]), np.array([5.0]), np.array([1.0]))
    found = with_asked(terms, asked, np.array([0, 1, 1]), np.array([7, 2, 7]))
    assert [part.tolist() for part in (found.cell, found.word, found.rows, found.under)] == [
        [0, 1, 1], [7, 2, 7], [0.0, 5.0, 0.0], [2.0, 1.0, 2.0],
    ]  # fmt: skip
    assert with_asked(terms, asked, np.array([1]), np.array([2])) is terms


def test_a_place_that_talks_of_much_is_split_by_words():
    """One cell has nearly all rows: phase I gives words away, phase II alone cannot; nothing is lost on the way."""
    rng = np.random.default_rng(2)
    asked, loads = rare(rng, (2, 2), local=400, wide=40)
    hot = replace(loads, rows=loads.rows * np.array([30.0, 1, 1, 1]), terms=replace(
        loads.terms, rows=np.where(loads.terms.cell == 0, loads.terms.rows * 30.0, loads.terms.rows)
    ))  # fmt: skip
    layout = of_cells((2, 2), 4, [0, 1, 2, 3])
    draws = np.random.default_rng(0)
    plain = adjust_layout(layout, hot, asked, 1.5, heaviest=0, rng=draws)
    split = adjust_layout(layout, hot, asked, 1.5, heaviest=4, rng=draws)

    def busiest(one: Layout) -> float:
        return float(work_of_workers(one, count_loads(hot, asked, one, "paper"), True).max())

    assert len(plain.words) == 0
    assert len(split.words) > 0
    assert busiest(split) < 0.9 * busiest(plain)
    whole = sum(stored_subscriptions(split, asked, worker).astype(int) for worker in range(4))
    assert (whole >= 1).all()
