"""What AQWA's experiments are run on: batches of points on a grid, hotspots, and the layouts that are never cut."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bench.history.aqwa_run import Answered, even_grid
from bench.measuring.points import DATA, FILES, lonlat_in
from dtoss.history.aqwa.aqwa_grid import Grid, PointCounts, Rectangle

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BATCHES = 6
"""The first is partitioned, five are appended, as in Figs 11 and 12."""
SPOTS = 5
WIDE = 10
"""Cells within which the corners of a hotspot's questions lie, as in the authors' programs."""
APART = 60
"""Cells between two hotspots."""
BAY = (-122.55, 37.50, -122.15, 37.90)
TAXIS = 20_000
FLEET_ROWS = 3_000_000
KEPT = (0.001, 0.999)
"""Quantiles of the made fleet's places that are its world."""
PAPER_ROWS = 300e6
"""Points of one of the paper's batches of 50 GB: 1.5 billion are 250 GB."""
PAPER_BYTES = 167.0
"""Of a point of the paper's."""
SLOTS = 112
"""Map tasks that the paper's cluster runs at once."""
TOGETHER = 20
"""Questions that it is given at once."""
START_SECONDS = 1.0
"""Of a map task: our guess; the paper has no number."""
BYTES_A_SECOND = 100e6
"""What a map task reads: our guess too."""


@dataclass(frozen=True)
class World:
    """Batches in the order of time, and the five densest places of the first one, as first row and column."""

    name: str
    grid: Grid
    batches: tuple[PointCounts, ...]
    spots: tuple[tuple[int, int], ...]
    left_out: int

    @property
    def first(self) -> PointCounts:
        """What is partitioned at the start."""
        return self.batches[0]

    @property
    def rows(self) -> int:
        """Of the first batch."""
        return int(self.first.within(*self.grid.everything))

    @property
    def scale(self) -> float:
        """For how many of the paper's points one of ours stands."""
        return PAPER_ROWS / self.rows


def world_of(name: str) -> World:
    """Return "taxi", Cabspotting round San Francisco, or "fleet", made taxis of Beijing."""
    if name == "taxi":
        table = pq.read_table(DATA / FILES["taxi"], columns=["t", "lon", "lat"])
        box = BAY
    else:
        table = _fleet()
        x0, x1 = np.quantile(table["lon"].to_numpy(), KEPT)
        y0, y1 = np.quantile(table["lat"].to_numpy(), KEPT)
        box = (float(x0), float(y0), float(x1), float(y1))
    table = table.take(pc.sort_indices(table, sort_keys=[("t", "ascending")]))
    places = lonlat_in(table)
    x0, y0, x1, y1 = box
    inside = (places[:, 0] >= x0) & (places[:, 0] <= x1) & (places[:, 1] >= y0) & (places[:, 1] <= y1)
    grid = even_grid(box)
    batches = tuple(PointCounts.of(grid, part) for part in np.array_split(places[inside], BATCHES))
    return World(name, grid, batches, _densest(grid, batches[0]), int((~inside).sum()))


def _fleet() -> pa.Table:
    from datasets.cities.taxis import make_fleet
    from datasets.fleet import fleet_updates

    return pa.Table.from_batches(fleet_updates(make_fleet(TAXIS), FLEET_ROWS)).select(["t", "lon", "lat"])


def _densest(grid: Grid, counts: PointCounts) -> tuple[tuple[int, int], ...]:
    top, left = np.meshgrid(np.arange(0, grid.rows, WIDE), np.arange(0, grid.columns, WIDE), indexing="ij")
    points = counts.within(top, left, top + WIDE, left + WIDE)
    chosen: list[tuple[int, int]] = []
    for flat in np.argsort(-points.ravel(), kind="stable"):
        row, column = int(top.ravel()[flat]), int(left.ravel()[flat])
        if all(abs(row - r) >= APART or abs(column - c) >= APART for r, c in chosen):
            chosen.append((row, column))
        if len(chosen) == SPOTS:
            break
    return tuple(chosen)


def ranges(world: World, spots: list[int], count: int, side: int, seed: int = 0) -> Iterator[Rectangle]:
    """Yield questions of ``side`` cells a side, one hotspot after the other in turn."""
    rng = np.random.default_rng([seed, side, *spots])
    for i in range(count):
        row, column = world.spots[spots[i % len(spots)]]
        top = min(row + int(rng.integers(WIDE)), world.grid.rows - side)
        left = min(column + int(rng.integers(WIDE)), world.grid.columns - side)
        yield Rectangle(top, left, top + side, left + side)


class Fixed:
    """Partitions that are never cut; each is a file that is read whole."""

    def __init__(self, parts: list[Rectangle], counts: PointCounts) -> None:
        self.rectangles: Ints = np.array(parts, np.int64)
        self.counts = counts

    def append_counts(self, more: PointCounts) -> None:
        """Add points to the partitions in which they are."""
        self.counts = self.counts.with_more(more)

    def ask_cells(self, question: Rectangle) -> Answered:
        """Return what a question reads."""
        top, left, bottom, right = self.rectangles.T
        read = np.flatnonzero(
            (top < question.bottom) & (question.top < bottom) & (left < question.right) & (question.left < right)
        )
        return Answered(read, self.counts.within(*self.rectangles[read].T))


def even_parts(grid: Grid, files: int) -> list[Rectangle]:
    """Return about as many equal squares: the static grid, of as many cells a side as the root of ``files`` allows."""
    side = max(int(np.sqrt(files)), 1)
    lines = np.linspace(0, grid.rows, side + 1).round().astype(int).tolist()
    return [Rectangle(top, left, bottom, right) for top, bottom in pairwise(lines) for left, right in pairwise(lines)]


@dataclass(frozen=True)
class Spent:
    """Means a question: points and files read, seconds of map tasks; seconds that 20 together take; points rewritten.

    Seconds are modelled: a task a file, `SLOTS` at once.
    """

    points: float
    files: float
    task_seconds: float
    elapsed: float
    rewritten: int
    cuts: int
    count: int


def spent(answers: list[Answered], scale: float) -> Spent:
    """Return what questions cost."""
    tasks = [START_SECONDS + answer.points * scale * PAPER_BYTES / BYTES_A_SECOND for answer in answers]
    together = [
        _makespan(np.concatenate(tasks[i : i + TOGETHER])) for i in range(0, len(tasks) - TOGETHER + 1, TOGETHER)
    ]
    return Spent(
        points=float(np.mean([answer.points.sum() for answer in answers])),
        files=float(np.mean([len(answer.parts) for answer in answers])),
        task_seconds=float(np.mean([task.sum() for task in tasks])),
        elapsed=float(np.mean(together)),
        rewritten=sum(answer.rewritten for answer in answers),
        cuts=sum(len(answer.cuts) for answer in answers),
        count=len(answers),
    )


def _makespan(tasks: Floats) -> float:
    """Return when the last task ends, each begun by the slot that is free first."""
    slots = [0.0] * SLOTS
    for task in tasks.tolist():
        heapq.heapreplace(slots, slots[0] + task)
    return max(slots)
