"""The k nearest that satisfy a condition, and those of the k nearest that do: against brute force."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dtoss
from dtoss.conditions.matching_objects import KEPT_CONDITIONS, Filter, Shares
from tests import oracles
from tests.dtoss.scenes import PARTITIONS, engine_of, rows
from tests.dtoss.strategies import lonlat, lonlat_queries, planar, planar_queries
from tests.examples import examples

WAYS = {"mask": (-1.0, -1.0), "own index": (2.0, 2.0), "as it comes": (0.05, 0.5)}
"""Shares below which matches get an index of their own: at once, and later."""


@contextmanager
def going(way):
    """Let matches have an index of their own at once, never, or as it comes."""
    before = Filter.shares
    Filter.shares = Shares(*WAYS[way])
    try:
        yield
    finally:
        Filter.shares = before


@pytest.fixture(params=WAYS)
def way(request):
    with going(request.param):
        yield


def check(index, ids, positions, kept, queries, text, ks=(1, 3, 40), radii=(0.0, 1e3, 3e7)):
    """Compare answers under a condition with those of the matches alone."""
    some_ids, some_positions = [i for i, k in zip(ids, kept, strict=True) if k], positions[kept]
    for k in ks:
        expected = oracles.knn(index.space, some_ids, some_positions, queries, k)
        assert rows(index.knn(queries, k, where=text)) == expected
        expected = oracles.knn(index.space, some_ids, some_positions, queries, k, 500.0)
        assert rows(index.knn(queries, k, where=text, max_distance=500.0)) == expected
        matching = {i for i, k in zip(ids, kept, strict=True) if k}
        after = [row for row in oracles.knn(index.space, ids, positions, queries, k) if row[1] in matching]
        assert rows(index.knn(queries, k, having=text)) == after
    for radius in radii:
        expected = oracles.within(index.space, some_ids, some_positions, queries, radius)
        assert rows(index.range(queries, radius, where=text)) == expected
        assert rows(index.range(queries, radius, having=text)) == expected
        counts = np.bincount([q for q, _, _ in expected], minlength=len(queries))
        assert index.count(queries, radius, where=text).tolist() == counts.tolist()


@pytest.mark.parametrize("seen", list(WAYS))
@settings(max_examples=examples(40), deadline=None)
@given(data=st.data())
def test_any_condition(seen, data):
    """Sphere and plane, any share of matches from none to all, any number of partitions, lambda 0 or chosen."""
    plane = data.draw(st.booleans())
    positions = data.draw(planar() if plane else lonlat())
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    ids = rng.permutation(len(positions)).tolist()
    if data.draw(st.booleans()):
        ids = [f"é{i}" if i % 2 else f"z{i}" for i in ids]
    kept = rng.uniform(size=len(positions)) < data.draw(st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]))
    index = dtoss.build(
        np.array(ids, dtype=object if ids and isinstance(ids[0], str) else np.int64),
        positions,
        crs="none" if plane else None,
        partitions=data.draw(st.sampled_from(PARTITIONS)),
        reach=data.draw(st.sampled_from([None, 0.0])),
        columns={"kept": pa.array(kept)},
    )
    queries = planar_queries(rng, positions) if plane else lonlat_queries(rng, positions)
    with going(seen):
        check(index, ids, positions, kept, queries, "kept")


@pytest.fixture(scope="module")
def town():
    rng = np.random.default_rng(3)
    positions = np.column_stack([rng.normal(-122.4, 0.1, 20_000), rng.normal(37.7, 0.1, 20_000)]).round(3)
    score = rng.permutation(20_000)
    kind = np.where(score % 3 == 0, "taxi", "bus")
    columns = {"score": score, "kind": pa.array(kind), "north": pa.array(positions[:, 1] > 37.95)}
    return dtoss.build(np.arange(20_000), positions, partitions=7, columns=columns), positions, score, kind


def test_batches_equal_single_queries_and_threads(town, way):
    """A batch in curve order, one query at a time, two threads: the same answer, columns included."""
    index, positions, _, _ = town
    queries = positions[:400] + 1e-4
    whole = index.knn(queries, 5, where="score < 300 and kind = 'taxi'", columns=["score", "kind"])
    assert set(whole.columns["kind"].to_pylist()) == {"taxi"}
    assert max(whole.columns["score"].to_pylist()) < 300
    assert (np.diff(whole.query) >= 0).all()
    assert len(whole) == 5 * len(queries)
    threads = index.knn(queries, 5, where="score < 300 and kind = 'taxi'", columns=["score", "kind"], threads=2)
    assert rows(threads) == rows(whole)
    assert threads.columns == whole.columns
    single = [rows(index.knn(q, 5, where="score < 300 and kind = 'taxi'")) for q in queries[:20]]
    assert [(q, i, d) for q, found in enumerate(single) for _, i, d in found] == rows(whole)[:100]


def test_ids_and_corner(town, way):
    """The id is a column too; matches that all lie in one corner are found from everywhere."""
    index, positions, _, _ = town
    assert index.knn(positions[5], 3, where="id in (17, 4, 9)").id.size == 3
    assert sorted(index.knn(positions[5], 9, where="id in (17, 4, 9)").id.tolist()) == [4, 9, 17]
    north = positions[:, 1] > 37.95
    queries = positions[:50]
    expected = oracles.knn(index.space, np.flatnonzero(north).tolist(), positions[north], queries, 4)
    assert rows(index.knn(queries, 4, where="north")) == expected


def test_evaluated_once_and_bounded(town):
    """A text is evaluated when first asked; the oldest of more than KEPT_CONDITIONS texts is forgotten."""
    index, positions, _, _ = town
    first = index.filters.get("score < 500")
    index.knn(positions[:3], 2, where="score < 500")
    assert index.filters.get("score < 500") is first
    for i in range(KEPT_CONDITIONS):
        index.knn(positions[0], 1, where=f"score < {i + 1}")
    assert len(index.filters.texts()) == KEPT_CONDITIONS
    assert index.filters.get("score < 500") is not first


def test_an_index_of_its_own_comes_when_it_has_paid(town):
    """Few matches: at once. Some: once the queries would have paid for it. Many: never."""
    index, positions, _, _ = town
    some = engine_of(index).filters
    chords = index.space.vectors(positions)
    radius = np.full(len(chords), np.inf)
    few, more, most = some.get("score < 100"), some.get("score < 2000"), some.get("score < 19000")
    masks = few.bytes
    for one in (few, more, most):
        assert one.bytes == masks
        one.answer(chords[:1], radius[:1], 2, 1)
    assert few.bytes > masks
    assert more.bytes == masks
    more.answer(chords[:500], radius[:500], 2, 1)
    assert more.bytes > masks
    most.answer(chords, radius, 2, 1)
    assert most.bytes == masks


def test_many_threads_ask_the_same(town):
    index, positions, _, _ = town
    alone = rows(index.knn(positions[:200], 3, where="score < 3000"))
    fresh = dtoss.build(np.arange(20_000), positions, partitions=7, columns={"score": town[2]})
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: rows(fresh.knn(positions[:200], 3, where="score < 3000")), range(16)))
    assert all(one == alone for one in found)


def test_refusals_name_argument_and_value(town):
    index, positions, _, _ = town
    for text, says in [("speed > 3", "column 'speed'"), ("score = 'a'", "compares"), ("", "where is ''")]:
        with pytest.raises(ValueError, match=says):
            index.knn(positions[0], 1, where=text)
        with pytest.raises(ValueError, match=says):
            index.range(positions[0], 1.0, having=text)
        with pytest.raises(ValueError, match=says):
            index.count(positions[0], 1.0, where=text)


def test_an_empty_index_has_conditions_too():
    index = dtoss.build([], np.zeros((0, 2)), columns={"kind": pa.array([], pa.string())})
    assert len(index.knn([[0.0, 0.0]], 3, where="kind = 'taxi'")) == 0
    assert index.count([[0.0, 0.0]], 3.0, where="kind = 'taxi'").tolist() == [0]
