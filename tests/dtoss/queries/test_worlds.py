"""Worlds that nothing was tuned to, each asked everything: a few of each kind; thousands in ``make check-data``."""

import numpy as np
import pytest

from tests import worlds

MORE = pytest.mark.deep("two more worlds of each kind; one of each is quick, thousands are in make check-data")
CHEAP = {"parallel": 102}
"""Kinds of which the first world takes seconds: all its cells go the long way, as some of other kinds do."""
ONCE_WRONG = (
    ("town 1e-7", 17),  # no answer at all from the antipode of a crowd in 5 partitions
    ("town 1e-7", 20),  # a condition changed which objects lie in a disc
    ("town 1e-12", 9),
    ("town 1e-12", 18),  # an edge could not be measured: its site was not found at its own place
    ("antipodal crowds 1e-9", 0),  # edges that one side only listed
    ("antipodal crowds 1e-9", 1),
    ("ulps", 0),
    ("ulps", 2),
    ("ulps", 1000),  # areas that added up to 1.23 of the sphere: a lune as thin as rounding was a part of it
    ("flat two towns", 0),
    ("flat two towns", 4),
    ("flat huge offset", 5017),  # a piece of the bounds whose ends had the same digits: a division by zero
)


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        pytest.param(kind, seed, marks=() if seed == CHEAP.get(kind, 100) else MORE)
        for kind in worlds.KINDS
        for seed in (100, 101, 102)
    ],
)
def test_every_answer_equals_the_oracle(kind, seed):
    """kNN, ranges, counts, conditions, owners, reverse neighbours and cells."""
    assert questions(worlds.world(kind, seed)) == []


@pytest.mark.parametrize(("kind", "seed"), ONCE_WRONG)
def test_worlds_that_were_once_answered_wrongly(kind, seed):
    assert questions(worlds.world(kind, seed)) == []


def questions(w):
    """Return what is wrong, a line each, behind the name of the world."""
    index = worlds.build(w)
    return [f"{w.name}: {line}" for line in worlds.compare(w, index) + worlds.compare_cells(w, index)]


class _Lies:
    """An index whose kNN leaves out the nearest object, or whose ranges hold one too many."""

    def __init__(self, index, lie):
        self.index, self.lie = index, lie

    def __getattr__(self, name):
        return getattr(self.index, name)

    def __len__(self):
        return len(self.index)

    def knn(self, place, k, **options):
        hits = self.index.knn(place, k + (self.lie == "knn"), **options)
        return hits.only(hits.rank() > 0) if self.lie == "knn" else hits

    def range(self, place, radius, **options):
        return self.index.range(place, radius * (1.5 if self.lie == "range" else 1.0), **options)


@pytest.mark.parametrize("lie", ["knn", "range"])
def test_the_comparison_sees_a_wrong_answer(lie):
    w = next(w for w in (worlds.world("uniform", seed) for seed in range(99)) if len(w.ids) > 20)
    index = worlds.build(w)
    assert worlds.compare(w, index) == []
    assert worlds.compare(w, _Lies(index, lie))


def test_a_world_is_its_kind_and_seed():
    """The same objects in every run, whatever was drawn before."""
    for kind in worlds.KINDS:
        a, b = worlds.world(kind, 5), worlds.world(kind, 5)
        assert np.array_equal(a.positions, b.positions)
        assert a.ids.tolist() == b.ids.tolist()
        assert (a.partitions, a.pivots) == (b.partitions, b.pivots)
