"""Figure 10a of AQWA, on counts: how uneven the first partitions are of a static grid and of its k-d tree.

A part is written by one reducer, and the job ends with the largest. So the points of the largest part over the mean are
how many times longer than evenly it takes; Hadoop and its seconds are not here.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.experiments.aqwa_11_17 import STARTS, made_world, rivals
from bench.experiments.results import Results, Row, grid, point
from bench.history.aqwa_worlds import world_of
from bench.measuring.points import missing

SIZES = {"smoke": ("made",), "here": ("taxi", "fleet"), "full": ("taxi", "fleet")}
UNIT = "largest part over the mean"


def run(size: str) -> Iterator[Row]:
    """Yield the largest part, x is the world and the way to begin."""
    for name in SIZES[size]:
        if name == "taxi" and missing("taxi"):
            continue
        world = made_world() if name == "made" else world_of(name)
        for start in STARTS:
            for series, layout in rivals(world, start).items():
                points = world.first.within(*layout.rectangles.T)
                yield point(series, f"{name}, {start.name}", points.max() / points.mean(), UNIT, data=name)


def draw(results: Results) -> str:
    """Return the largest part by world."""
    return grid(results, UNIT, UNIT, "{:.2f}", series=("grid", "k-d"))
