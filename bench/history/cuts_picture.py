"""The picture of a history that adapts: its leaves at the start, and after each of three kinds of questions.

``python -m bench.history.cuts_picture --out docs/images/history_cuts.png`` appends the Cabspotting positions in the
folder named by DTOSS_DATA to a history, settles it, asks it and adapts it; what is drawn are its versions. Only pixels
leave this program: no position is written to the file.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pyarrow.parquet as pq
from matplotlib import pyplot as plt
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import LogNorm
from numpy.typing import NDArray

from bench.history.kept import HOTSPOTS, METRES, SPREAD
from bench.measuring.points import DATA
from dtoss.history.adaptive.adapt import adapt
from dtoss.history.adaptive.layout_reads import leaf_rows, order_of
from dtoss.history.append_frame import append
from dtoss.history.layouts.compaction import settle
from dtoss.history.query.open_history import Learner, open_history
from dtoss.history.questions import Questions, gather
from dtoss.history.row_blocks import BY_PLACE
from dtoss.history.versions import Home, Version
from pipelines.reports.history_facts import own_reads, shapes_of

mpl.use("agg")

VIEW = (-122.53, 37.585, -122.335, 37.825)
"""lon, lat, lon, lat: from the airport to the Golden Gate."""
QUESTIONS = 400
"""Asked before each of the frames but the first."""
ROUNDS = 4
"""Between which the history adapts."""
MICROSECONDS = 1_000_000
HOUR, DAY = 3600 * MICROSECONDS, 24 * 3600 * MICROSECONDS
LEAST, MOST = 10.0, 30_000.0
"""Rows of a leaf that a question reads, which have the first and the last colour."""


@dataclass(frozen=True)
class Frame:
    """A version, what was asked before it was made, and what is said above it."""

    version: Version
    asked: Questions
    title: str


def frames(folder: str, leaf_bytes: float, seed: int = 0) -> list[Frame]:
    """Return four versions of a history: as it was settled, and adapted to three kinds of questions in turn."""
    home = Home(folder)
    table = pq.read_table(DATA / "cabspotting_sf.parquet", columns=["uid", "t", "lon", "lat"])
    append(table, folder, batch="cabs", id="uid", time="t")
    settle(home, leaf_bytes=leaf_bytes, period_bytes=1.0)
    start = home.version()
    rng = np.random.default_rng(seed)
    none = gather(home, start.schema.space.dimension).questions
    found = [Frame(start, none, f"settled: {leaves_of(start):,} leaves")]
    asks: list[tuple[str, Callable[[Any, NDArray[np.float64], int], Any]]] = [
        ("the airport is asked", lambda h, at, t: h.count([at], radius=300.0)),
        ("the Mission is asked", lambda h, at, t: h.count([at], radius=300.0)),
        ("wide areas are asked", lambda h, at, t: h.range([at], 15_000.0, between=span(t, DAY))),
    ]
    spots = [HOTSPOTS["airport"], HOTSPOTS["Mission"], HOTSPOTS["airport"]]
    for (said, ask), spot, spread in zip(asks, spots, (SPREAD, SPREAD, 10 * SPREAD), strict=True):
        known = gather(home, start.schema.space.dimension).questions
        last = int(known.number[-1]) if len(known) else 0
        version = asked_until_still(home, ask, np.array(spot), spread, rng)
        asked = gather(home, version.schema.space.dimension).questions
        new = asked.take(np.flatnonzero(asked.number > last))
        found.append(Frame(version, new, f"{said}: {leaves_of(version):,} leaves"))
    return found


def asked_until_still(
    home: Home,
    ask: Callable[[Any, NDArray[np.float64], int], Any],
    spot: NDArray[np.float64],
    spread: float,
    rng: np.random.Generator,
) -> Version:
    """Ask and adapt in turn, a few times, and return the version that came of it."""
    version = home.version()
    first, last = int(version.leaves.t_from.min()), int(version.leaves.t_to.max())
    for _ in range(ROUNDS):
        learner = Learner(home)
        history = replace(open_history(home.path, learn=False), listen=learner)
        places = spot + rng.normal(0, spread / METRES, (QUESTIONS // ROUNDS, 2))
        for at, t in zip(places, rng.integers(first, last, len(places)).tolist(), strict=True):
            ask(history, at, t)
        learner.flush()
        version = adapt(home).version
    return version


def span(begin: int, length: int) -> tuple[np.datetime64, np.datetime64]:
    """Return an interval from a time in microseconds on."""
    return np.datetime64(begin, "us"), np.datetime64(begin + length, "us")


def leaves_of(version: Version) -> int:
    """Return how many leaves the order by place has."""
    return int((version.leaves.order == BY_PLACE).sum())


def draw(shown: list[Frame], path: Path, width: float = 1600.0) -> None:
    """Write the picture: four maps side by side."""
    west, south, east, north = VIEW
    aspect = 1.0 / np.cos(np.radians((south + north) / 2))
    figure, axes = plt.subplots(1, len(shown), figsize=(width / 100, width / 100 * 0.415), layout="constrained")
    norm = LogNorm(LEAST, MOST, clip=True)
    colours = plt.get_cmap("Blues")
    for ax, frame in zip(axes, shown, strict=True):
        leaves = frame.version.leaves
        mine = leaves.order == BY_PLACE
        rows = np.zeros(len(leaves))
        if len(frame.asked):
            used = own_reads(frame.version, frame.asked)[1][BY_PLACE]
            rows = leaf_rows(order_of(frame.version, BY_PLACE), frame.asked, len(leaves), used) / len(frame.asked)
        x0, y0, x1, y1 = np.clip(leaves.cell[mine], [west, south] * 2, [east, north] * 2).T
        corners = np.stack(
            [np.stack([x0, y0], 1), np.stack([x1, y0], 1), np.stack([x1, y1], 1), np.stack([x0, y1], 1)], 1
        )
        faces = colours(norm(np.maximum(rows[mine], LEAST)) * 0.9)
        ax.add_collection(PolyCollection(list(corners), facecolors=faces, edgecolors="#56616d", linewidths=0.7))
        rings = [np.concatenate([ring, ring[:1]]) for ring in shapes_of(frame.asked, frame.version.schema.space)]
        small = [ring for ring in rings if np.ptp(ring[:, 0]) < (east - west) / 2]  # wider ones would hide all else
        ax.add_collection(LineCollection(small, colors="#b3261e", linewidths=0.6, alpha=0.35))
        ax.set(xlim=(west, east), ylim=(south, north), xticks=[], yticks=[])
        ax.set_title(frame.title, fontsize=13, loc="left")
        ax.set_aspect(aspect)
    figure.savefig(path, dpi=100)


def main() -> None:
    """Draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--leaf-bytes", type=float, default=4e6)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        shown = frames(f"{folder}/history", options.leaf_bytes)
        for frame in shown:
            print(f"version {frame.version.number}, {frame.title}, {len(frame.asked)} questions")
        draw(shown, options.out)


if __name__ == "__main__":
    main()
