"""What the benchmark of the paper's method counts: every point once, tasks on slots."""

import numpy as np
import pytest

from bench.experiments.aqwa_11_17 import STARTS, ask_all, begin, rivals
from bench.history.aqwa_run import Answered, even_grid, first_parts
from bench.history.aqwa_worlds import SLOTS, START_SECONDS, Fixed, World, even_parts, ranges, spent
from dtoss.history.aqwa.aqwa_grid import PointCounts


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(1)
    grid = even_grid([0, 0, 1000, 1000], 100)
    batches = [
        np.clip(np.concatenate([rng.normal(300, 30, (20_000, 2)), rng.uniform(0, 1000, (5_000, 2))]), 0, 1000)
        for _ in range(3)
    ]
    return World("made", grid, tuple(PointCounts.of(grid, one) for one in batches), ((30, 30), (80, 10)), 0)


def test_static_layouts_cover_the_grid_once(world):
    for parts in (even_parts(world.grid, 50), first_parts(world.first, world.grid.everything, 100)):
        assert int(world.first.within(*np.array(parts).T).sum()) == 25_000
        fixed = Fixed(parts, world.first)
        assert int(fixed.ask_cells(world.grid.everything).points.sum()) == 25_000
        fixed.append_counts(world.batches[1])
        assert int(fixed.ask_cells(world.grid.everything).points.sum()) == 50_000


def test_each_start_reads_less_than_what_is_never_cut(world):
    """And the tree of the text is not cut before anything was appended."""
    for start in STARTS:
        layouts = rivals(world, start)
        costs = {name: spent(ask_all(layout, ranges(world, [0, 1], 200, 5)), 1.0) for name, layout in layouts.items()}
        assert (costs["AQWA"].cuts == 0) == (start.name == "text")
        assert costs["AQWA"].points <= costs["k-d"].points < costs["grid"].points
        assert int(begin(world, start).counts.within(*world.grid.everything)) == 25_000


def test_tasks_are_begun_by_the_slot_that_is_free_first():
    none = np.zeros(SLOTS, np.int64)
    full = [Answered(none, none)] + [Answered(none[:0], none[:0])] * 19
    assert spent(full, 1.0).elapsed == START_SECONDS
    assert spent(full * 2, 1.0).elapsed == START_SECONDS
    assert spent([*full[1:], Answered(np.append(none, 0), np.append(none, 0))], 1.0).elapsed == 2 * START_SECONDS
