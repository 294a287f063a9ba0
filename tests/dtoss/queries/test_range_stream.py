"""Long answers a piece at a time: the hits of one answer, in its order, and never all of them in memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dtoss
from dtoss.queries import batch_answer
from dtoss.queries.batch_answer import pieces_of
from dtoss.queries.raw_hits import RawHits


def rows(hits):
    return list(zip(hits.query.tolist(), hits.id.tolist(), hits.distance.tolist(), strict=True))


@pytest.fixture(scope="module")
def index():
    """Some thousand objects, two on a place, in three partitions."""
    rng = np.random.default_rng(4)
    positions = np.repeat(rng.uniform(0, 100, (1500, 2)), 2, axis=0)
    kinds = {"kind": rng.integers(0, 3, 3000), "row": np.arange(3000)}
    return dtoss.build(rng.permutation(3000), positions, crs="none", partitions=3, columns=kinds)


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(1, 12), st.integers(1, 8))
def test_pieces_are_all_hits_in_order(sizes, most, counted):
    """Whatever the queries have: as many whole ones as fit, or part of one."""
    sizes = np.array(sizes, dtype=np.int64)
    ends = np.cumsum(sizes)

    def found(rows):
        ids = np.arange(ends[rows.start] - sizes[rows.start], ends[rows.stop - 1])
        none = np.zeros(0, np.int32)
        return RawHits(sizes[rows], none, none, ids * 0.5, ids, none)

    made = list(pieces_of(len(sizes), most, sizes.__getitem__, found, counted))
    assert all(0 < len(hits.distance) <= most and hits.count.sum() == len(hits.distance) for _, hits in made)
    query = np.concatenate(
        [np.zeros(0, np.int64), *(first + np.repeat(np.arange(len(h.count)), h.count) for first, h in made)]
    )
    assert query.tolist() == np.repeat(np.arange(len(sizes)), sizes).tolist()
    assert [i for _, hits in made for i in hits.ids.tolist()] == list(range(sizes.sum()))
    assert [d for _, hits in made for d in hits.distance.tolist()] == [i * 0.5 for i in range(sizes.sum())]


@pytest.mark.parametrize("batch_size", [1, 7, 500, 100_000])
@pytest.mark.parametrize(
    "asked",
    [{}, {"where": "kind < 2"}, {"having": "kind = 1"}, {"columns": ["row", "kind"]}, {"having": "kind = 9"}],
    ids=str,
)
def test_batches_are_the_hits_of_one_answer(index, monkeypatch, batch_size, asked):
    monkeypatch.setattr(batch_answer, "COUNTED", 16)
    rng = np.random.default_rng(6)
    queries, radii = rng.uniform(-20, 120, (50, 2)), rng.choice([0.0, 1.0, 5.0, 20.0], 50)
    if batch_size == 1:
        queries, radii = queries[:8], radii[:8]
    wanted = index.range(queries, radii, **asked)
    batches = list(index.range_batches(queries, radii, batch_size=batch_size, **asked))
    assert all(0 < len(batch) <= batch_size for batch in batches)
    assert [row for batch in batches for row in rows(batch)] == rows(wanted)
    for name, column in wanted.columns.items():
        assert [value for batch in batches for value in batch.columns[name].to_pylist()] == column.to_pylist()
    tables = [batch.to_arrow() for batch in batches]
    assert sum(len(table) for table in tables) == len(wanted)


def test_string_ids_come_in_batches():
    rng = np.random.default_rng(7)
    index = dtoss.build([f"{i:x}" for i in range(300)], rng.uniform(0, 10, (300, 2)), crs="none", partitions=2)
    batches = list(index.range_batches([[5.0, 5.0], [1.0, 1.0]], 4.0, batch_size=50))
    assert [row for batch in batches for row in rows(batch)] == rows(index.range([[5.0, 5.0], [1.0, 1.0]], 4.0))


def test_batches_never_hold_all_hits(index):
    """Two million hits in batches of 20,000: the peak is that of a few batches, and not of the answer's 48 MB."""
    queries = np.full((700, 2), 50.0)
    list(index.range_batches(queries[:10], 200.0, batch_size=20_000))
    total, most = 0, 0
    tracemalloc.start()
    try:
        for batch in index.range_batches(queries, 200.0, batch_size=20_000):
            total += len(batch)
            most = max(most, len(batch))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert total == 700 * 3000
    assert most <= 20_000
    # the memory of a thread that kernels write to is there before, and not counted; it does not grow with the answer
    assert peak < 4e6


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"batch_size": 0}, "batch_size is 0"),
        ({"batch_size": 2.5}, "batch_size is 2.5"),
        ({"radius": -1.0}, "radius"),
        ({"columns": ["speed"]}, "speed"),
        ({"where": "speed > 1"}, "speed"),
        ({"having": "kind >"}, "kind >"),
        ({"threads": 0}, "threads"),
    ],
    ids=str,
)
def test_what_is_wrong_is_said_at_once(index, asked, words):
    """Not when the first batch is taken."""
    with pytest.raises(ValueError, match=words):
        index.range_batches([[0.0, 0.0]], **{"radius": 1.0, **asked})
