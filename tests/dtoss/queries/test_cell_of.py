"""A single cell in one kernel: the same bits as the long way, which is taken wherever anything is in doubt."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dtoss
from dtoss.queries import cell_of
from tests import worlds
from tests.dtoss.scenes import PARTITIONS, engine_of, taxis
from tests.dtoss.snapshots.damaged_stores import stored
from tests.dtoss.strategies import lonlat, planar
from tests.examples import examples


def told(index, one):
    """Everything that is said of a cell, to the bit."""
    near = index.neighbours(one)
    return index.cell(one).tobytes(), near.dtype, near.tolist(), index.area(one)


def check(index, ids):
    """Each cell both ways; returns how many were beyond doubt. What is beyond doubt here is so for the long way too."""
    clear = 0
    for one in ids:
        place = index.place_of(one)
        short = told(index, one)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cell_of, "_draw", lambda *_: None)
            assert told(index, one) == short
            cut = cell_of._cut(engine_of(index).view, place.partition, place.site)
        drawn = cell_of._draw(engine_of(index).view, place.partition, place.site)
        if drawn is not None and drawn[0].clear:
            clear += 1
            assert not cut.doubt.any()
            assert not cut.crowded
    return clear


@settings(max_examples=examples(50), deadline=None)
@given(
    st.one_of(lonlat().map(lambda at: (at, None)), planar().map(lambda at: (at, "none"))),
    st.sampled_from(PARTITIONS), st.booleans(),
)  # fmt: skip
def test_small_worlds(at, partitions, strings):
    """Ties, duplicates, lines, circles, poles, the antimeridian, one object, none; integer and string ids."""
    positions, crs = at
    ids = np.array([f"n{i}" for i in range(len(positions))], object) if strings else np.arange(len(positions))
    index = dtoss.build(ids, positions, crs=crs, partitions=partitions)
    check(index, ids.tolist()[:8])


@pytest.mark.parametrize("kind", worlds.KINDS)
def test_awkward_worlds(kind):
    """Where rounding decides: sites an ulp apart, corners of four and more, crowds far from one another."""
    for seed in (3, 4)[: examples(2, 1)]:
        index = worlds.build(worlds.world(kind, seed), 3)
        check(index, list(index)[:12])


@pytest.mark.parametrize("partitions", [1, 20])
@pytest.mark.parametrize("metric", ["sphere", "plane"])
def test_most_cells_of_a_city_are_beyond_doubt(partitions, metric):
    """Also those that the border table holds."""
    positions = taxis(np.random.default_rng(1), 3000)
    index = dtoss.build(np.arange(3000), positions, crs="none" if metric == "plane" else None, partitions=partitions)
    assert check(index, range(0, 3000, 11)) > 200


def test_a_site_with_more_neighbours_than_a_kernel_draws():
    """A ring round one site: its cell takes the long way."""
    turn = np.linspace(0.0, 2.0 * np.pi, 101)[:-1]
    positions = np.concatenate([[[0.0, 0.0]], np.stack([np.cos(turn), np.sin(turn)], axis=1) * 5.0])
    index = dtoss.build(np.arange(101), positions, crs="none")
    place = index.place_of(0)
    assert cell_of._draw(engine_of(index).view, place.partition, place.site) is None
    assert sorted(index.neighbours(0).tolist()) == list(range(1, 101))
    check(index, [0, 1, 50])


def test_the_rim_of_the_bounds_and_of_a_hemisphere():
    """A cell that reaches the bounds, and one that reaches round the Earth."""
    flat = dtoss.build([1, 2, 3], [[0.1, 0.0], [1.0, 0.2], [0.0, 1.1]], crs="none", bounds=[-1, -1, 2, 2])
    assert check(flat, [1, 2, 3]) == 3
    globe = dtoss.build([1, 2, 3], [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert check(globe, [1, 2, 3]) == 0


@pytest.mark.parametrize("texts", [False, True])
def test_crowds_of_a_store_are_those_in_process(tmp_path, texts):
    """A crowd is asked for by a site of a file, which is mapped: it ended in a TypeError."""
    rng = np.random.default_rng(4)
    crowd = np.array([1.0, 2.0]) + rng.integers(0, 20, (6, 2)) * 1e-15
    positions = np.concatenate([crowd, rng.uniform(-50.0, 50.0, (60, 2))])
    ids = [f"n{i}" for i in range(len(positions))] if texts else list(range(len(positions)))
    index = dtoss.build(ids, positions, partitions=3)
    again = dtoss.open(stored(index, tmp_path / "store"))
    for one in ids[:12]:
        assert told(again, one) == told(index, one)
