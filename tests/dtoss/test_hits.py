"""Hits and indexes as Python objects: rows, slices, comparison, iteration."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import dtoss
from dtoss.hits import Hits

PLACES = np.random.default_rng(2).uniform(-5.0, 5.0, (50, 2))


def built(ids=None, **options):
    return dtoss.build(np.arange(50) if ids is None else ids, PLACES, columns={"kind": ["a", "b"] * 25}, **options)


@pytest.mark.parametrize("strings", [False, True])
def test_hits_are_numbered_as_a_list_of_rows(strings):
    """Rows and slices, from both ends."""
    hits = built([f"z{i}" for i in range(50)] if strings else None).knn(PLACES[:3], 4, columns=["kind"])
    rows = list(hits)
    assert [hits[i] for i in range(12)] == rows
    assert [hits[i - 12] for i in range(12)] == rows
    assert hits[np.int64(3)] == rows[3]
    assert [type(value) for value in hits[0]] == [int, str if strings else int, float]
    for part in (slice(2, 5), slice(None, None, -1), slice(-3, None), slice(20, 30), slice(0, 12, 5)):
        assert list(hits[part]) == rows[part]
        assert hits[part].columns["kind"].to_pylist() == hits.columns["kind"].to_pylist()[part]
    for number in (12, -13):
        with pytest.raises(IndexError, match=f"there is no hit {number}: there are 12"):
            hits[number]
    for wrong in ("id", 1.0, None, (1, 2)):
        with pytest.raises(TypeError, match="hits are numbered from 0"):
            hits[wrong]
    with pytest.raises(IndexError):
        hits[:0][0]


def test_hits_cannot_be_hashed_and_can_be_compared():
    """A reason instead of numpy's; equal are those with equal rows and attributes."""
    index = built()
    hits = index.knn(PLACES[:3], 4, columns=["kind"])
    with pytest.raises(TypeError, match=r"hits cannot be hashed.*tuple\(hits\)"):
        hash(hits)
    assert len({tuple(hits), tuple(hits[:])}) == 1
    assert hits == index.knn(PLACES[:3], 4, columns=["kind"])
    assert hits != index.knn(PLACES[:3], 4)
    assert hits != index.knn(PLACES[:3], 5, columns=["kind"])
    assert hits != Hits(hits.query, hits.id, hits.distance + 1.0, hits.columns)
    assert hits != Hits(hits.query, hits.id, hits.distance, {"kind": pa.array(["c"] * 12)})
    assert hits != list(hits)


@pytest.mark.parametrize("partitions", [1, 7])
def test_an_index_is_a_collection_of_ids(partitions):
    """Each owned object once, in ascending order."""
    ids = np.random.default_rng(1).permutation(50) - 20
    index = built(ids, partitions=partitions)
    assert list(index) == sorted(ids.tolist())
    assert {type(i) for i in index} == {int}
    assert all(i in index and index[i]["id"] == i for i in index)
    assert max(index) == 29
    texts = [f"é{i}" if i % 2 else f"Z{i}" for i in range(50)]
    assert list(built(texts, partitions=partitions)) == sorted(texts)
    assert list(dtoss.build([], np.zeros((0, 2)))) == []
