"""The comparisons of ``bench.exactness``, at a hundredth of their size."""

import numpy as np
import pytest

from bench import exactness
from tests.examples import examples


@pytest.mark.parametrize("name", exactness.SCENES)
def test_all_partitions_equal_scipy_and_long_double(name, capsys):
    """Neighbours, areas, their sum and symmetry, for 1, 2, 7 and 64 partitions, lambda chosen and 0."""
    assert exactness.compare(name, scale=examples(100, 50) / 10_000) == []
    assert capsys.readouterr().out.count("lambda") == 7


def test_a_wrong_cell_would_be_seen():
    """An edge taken away, an edge that only one side has, an area a billionth too large."""
    sites = np.random.default_rng(1).uniform(0, 1, (50, 2))
    theirs = exactness.planar_oracle(sites, np.array([0.0, 0.0, 1.0, 1.0]))
    assert exactness.differences(theirs, theirs, 50, 1e-9, 1.0)["equal"]
    some = exactness.Answer(theirs.edges[1:], theirs.length[1:], theirs.area)
    assert not exactness.differences(some, theirs, 50, 1e-9, 1.0)["equal"]
    assert not exactness.differences(theirs, some, 50, 1e-9, 1.0)["equal"]
    area = theirs.area.copy()
    area[7] *= 1 + 3e-8
    large = exactness.Answer(theirs.edges, theirs.length, area * 1e4)
    plain = exactness.Answer(theirs.edges, theirs.length, theirs.area * 1e4)
    assert not exactness.differences(large, plain, 50, 1e-9, 1e4)["equal"]
