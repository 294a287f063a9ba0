"""Who would be nearest to a new place: by blocks as by its cell, and with little work on lines and from afar."""

from __future__ import annotations

import numpy as np
import pytest

import dtoss
from dtoss.geometry.distance import distance
from dtoss.queries import reverse_nearest
from tests import worlds
from tests.dtoss.scenes import engine_of
from tests.examples import examples


def brute(index, ids, positions, queries):
    """(query, id, distance) in order: every distance to every other object."""
    vectors = index.space.vectors(np.asarray(positions, dtype=float))
    nearest = np.array([np.delete(distance(vectors, place), i).min(initial=np.inf) for i, place in enumerate(vectors)])
    rows = []
    for q, place in enumerate(index.space.vectors(np.asarray(queries, dtype=float))):
        far = distance(vectors, place)
        found = np.flatnonzero(far < nearest)
        rows += [(q, i, d) for d, i in sorted(zip(far[found].tolist(), ids[found].tolist(), strict=True))]
    return rows


@pytest.mark.parametrize("kind", worlds.KINDS)
def test_blocks_hold_whom_a_place_is_nearest_to(kind):
    """All objects that brute force finds, where no cell is cut first: ids, distances and order."""
    made = (worlds.world(kind, seed) for seed in range(40, 99))
    for w in [w for w in made if 0 < len(w.ids) <= 300][: examples(4, 1)]:
        index = worlds.build(w)
        queries = worlds.queries_of(w)
        found = reverse_nearest.reverse_nearest(engine_of(index).view, queries, last_cut=0)
        assert list(found) == brute(index, w.ids, w.positions, queries), w.name


@pytest.mark.parametrize("partitions", [1, 7])
@pytest.mark.parametrize("name", ["meridian", "track", "town seen from afar"])
def test_work_does_not_grow_with_the_objects(name, partitions, monkeypatch):
    """The cell of a place beside a line has half the line as neighbours: 404 s for one among 50,000 objects."""
    rng = np.random.default_rng(3)
    n = 1500
    along = rng.uniform(-80, 80, n)
    positions = {
        "meridian": np.stack([np.full(n, 17.0), along], axis=1),
        "track": np.stack([along / 90 + 2, along / 270 + 47], axis=1),
        "town seen from afar": rng.normal([2.35, 48.85], 0.05, (n, 2)),
    }[name]
    ids = rng.permutation(n)
    index = dtoss.build(ids, positions, partitions=partitions)
    queries = np.concatenate(
        [positions[:6] + rng.normal(0, 0.01, (6, 2)), [[107.0, 0.0], [-160.0, -30.0], [0.0, 90.0]]]
    )
    cut, compared = [], []

    def counted(centres, first, others, bounds):
        cut.append(np.diff(first).max())
        return shapes(centres, first, others, bounds)

    def noted(world, asked, radius, k):
        compared.append(k)
        return answer(world, asked, radius, k)

    shapes, answer = reverse_nearest.shapes, reverse_nearest.answer
    monkeypatch.setattr(reverse_nearest, "shapes", counted)
    monkeypatch.setattr(reverse_nearest, "answer", noted)
    assert list(index.reverse_nearest(queries)) == brute(index, ids, positions, queries)
    assert max(cut) <= reverse_nearest.LAST_CUT
    assert max(compared) <= reverse_nearest.LAST_CUT


def test_an_object_alone_in_its_partition():
    """Nothing stands beside it: it is compared with the objects of others."""
    positions = np.concatenate([np.random.default_rng(4).normal([10.0, 50.0], 1e-3, (300, 2)), [[-170.0, -50.0]]])
    index = dtoss.build(np.arange(301), positions, partitions=64)
    places = np.array([[-170.0, -50.001], [-120.0, 0.0], [10.0, 60.0]])
    assert list(index.reverse_nearest(places)) == brute(index, np.arange(301), positions, places)
    assert 300 in index.reverse_nearest(places[1:2]).id
