"""The map of workers over rounds, and the hottest cells: what a page of a rehearsal draws of its best strategy."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from ceps.balance.cell_layout import Layout
from ceps.balance.rehearse import StrategyRun
from ceps.reporting.kit.html_tables import table
from ceps.reporting.kit.maps import Ground, map_chart, maps, whole_view
from ceps.reporting.kit.steps import step_through
from dtoss.watch.sharding.routing_grid import RoutingGrid
from pipelines.simulation.rounds import Rounds

MOST_FRAMES = 24
"""Rounds that are drawn."""
_TIMES_FIT = 8
"""Frames up to which the line has room for their times."""
_MOST_OUTLINES = 40
_HOTTEST = 8
_MICROSECONDS = 1_000_000
_MAP_BYTES = 40_000


def film(name: str, rounds: Rounds, result: StrategyRun, geographic: bool) -> str:
    """Return a map for some rounds, of which one is shown at a time.

    ``geographic``: whether positions are degrees.
    """
    shown = np.unique(np.linspace(0, result.rounds - 1, min(MOST_FRAMES, result.rounds)).round().astype(int)).tolist()
    there = rounds.asked.stored_by_cell > 0
    there[rounds.cell] = True
    frames = []
    for number in shown:
        begin = datetime.fromtimestamp(int(rounds.begin_us[number + 1]) / _MICROSECONDS, UTC)
        ground = _ground(rounds.grid, result.layouts[number], there, geographic)
        view = whole_view(ground)
        if view is None:
            continue
        label = f"Map of the worker of each cell in round {number + 1}"
        drawn = map_chart(label, ground, view, most_bytes=_MAP_BYTES, tallest=520)
        busiest = float(result.max_over_mean[number])
        when = begin.strftime("%d %b %H:%M")
        said = f"Round {number + 1}, from {when}: the busiest worker has {busiest:.2f} times the mean."
        text = f'<p class="quiet">{said}</p>'
        frames.append((str(number + 1), when if len(shown) <= _TIMES_FIT else "", f"{text}{maps(drawn)}"))
    return step_through(name, "Round", frames)


def _ground(grid: RoutingGrid, layout: Layout, there: NDArray[np.bool_], geographic: bool) -> Ground:
    """Return cells of one worker that stand side by side in a row as one area each."""
    largest = _largest(layout)
    areas, group = [], []
    for row in range(grid.rows):
        worker = np.where(there[row * grid.columns : (row + 1) * grid.columns], largest.reshape(grid.shape)[row], -1)
        edges = np.flatnonzero(np.diff(worker, prepend=-2, append=-2))
        for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            if worker[begin] >= 0:
                areas.append([_ring(grid, row, begin, end)])
                group.append(int(worker[begin]))
    shared = [cell for cell in layout.shared.tolist() if there[cell]][:_MOST_OUTLINES]
    return Ground(
        [f"worker {number}" for number in range(layout.workers)],
        np.array(group, np.int64),
        areas,
        None,
        np.ones(len(areas)),
        on_earth=geographic,
        outlines=[_ring(grid, cell // grid.columns, cell % grid.columns, cell % grid.columns + 1) for cell in shared],
        border="none",
    )


def _largest(layout: Layout) -> NDArray[np.int64]:
    """Return the worker with the largest share of each cell, int64 (cells,)."""
    order = np.lexsort((layout.worker, -layout.share, layout.cell))
    first = np.append(True, np.diff(layout.cell[order]) > 0)
    return layout.worker[order[first]].astype(np.int64)


def _ring(grid: RoutingGrid, row: int, first: int, last: int) -> NDArray[np.float64]:
    """Return the corners of some cells of a row, x and y."""
    west, east = (grid.cut + grid.x + grid.width * column / grid.columns for column in (first, last))
    if grid.cut and west >= 180.0:
        west, east = west - 360.0, east - 360.0
    south, north = (grid.y + grid.height * (row + more) / grid.rows for more in (0, 1))
    return np.array([[west, south], [east, south], [east, north], [west, north], [west, south]])


def hottest(rounds: Rounds, result: StrategyRun) -> str:
    """Return a table of the cells that cost most in the last round, with their workers and shares."""
    number = result.rounds - 1
    loads, layout = rounds.loads(number + 1), result.layouts[number]
    work = loads.work
    mean = float(work.sum()) / layout.workers
    rows = []
    for cell in np.argsort(-work, kind="stable")[:_HOTTEST].tolist():
        if work[cell] <= 0.0 or mean <= 0.0:
            break
        part = slice(int(layout.begin[cell]), int(layout.begin[cell + 1]))
        held = sorted(zip(layout.share[part].tolist(), layout.worker[part].tolist(), strict=True), reverse=True)
        whose = ", ".join(f"{worker} ({100 * share:.0f} %)" for share, worker in held)
        spoken = np.unique(layout.words.worker[layout.words.cell == cell]).tolist()
        whose += f"; some words: {', '.join(map(str, spoken))}" if spoken else ""
        ring = _ring(
            rounds.grid, cell // rounds.grid.columns, cell % rounds.grid.columns, cell % rounds.grid.columns + 1
        )
        x, y = ring[:4].mean(axis=0).tolist()
        rows.append([f"{x:.4f}, {y:.4f}", f"{loads.rows[cell]:,.0f}", f"{work[cell] / mean:.2f}", whose])
    head = ["Middle", "Rows", "Share of a worker's mean", "Workers"]
    return table("The hottest cells of the last round", head, rows, text=[3]) if rows else ""
