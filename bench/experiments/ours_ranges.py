"""Ranges of 10 to 50,000 objects by distance, in no order and counted, against `query_ball_point` and a flat kd-tree.

Each query has a radius of its own, the distance of the object of that rank, so that none has many times more. One
thread, processor time, in turns in one process, best of the rounds. cKDTree neither measures nor sorts, and what it
counts it does not list. geoindex-rs works in the plane: on the sphere it is given the same degrees, and timed by its
own hits. Nanoseconds are a hit, from 500 hits on. Who is within is compared in the same run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import geoindex_rs.kdtree as flat
import numpy as np
from scipy.spatial import cKDTree

import dtoss
from bench.experiments.results import Results, Row, grid, point
from bench.measuring.places import METRE, ORDERS, PLACES, WORLDS, indexed, places, worlds
from bench.measuring.race import in_turns
from dtoss.geometry.distance import EARTH_RADIUS, chord_of

HITS = (10, 100, 500, 1000, 3000, 10_000, 50_000)
SIZES = {
    "smoke": (2_000, 300, 1, ("sphere", "plane"), ("random",)),
    "here": (1_000_000, 100_000, 3, WORLDS, ("our curve", "random")),
    "full": (1_000_000, 300_000, 9, WORLDS, ("our curve", "random")),
}
"""Objects, hits of all queries of a cell, about; rounds, worlds, orders of the queries."""
AFAR = 24
"""Queries from far outside, where cKDTree takes a tenth of a second each."""
LONG = 500
"""Hits from which on the time a hit counts."""
DEGENERATE = 3.0
"""Times as long as it takes a hit in the middle of its cells of as many hits from which on a rival is degenerate."""
ODD = ("at ranks", "far outside")
"""Where hundreds stand on a site, or all are as far, a rival may be."""
NS, TIMES = "ns a hit", "times as fast"
SERIES = {"order": "by distance", "none": "in no order", "count": "counted"}


@dataclass(frozen=True)
class Cell:
    """Nanoseconds a hit of ours, of cKDTree's list and count, and of the flat tree's own hits."""

    place: str
    hits: int
    ours: dict[str, float]
    lists: float
    counts: float
    flat: float

    def ratio(self, name: str) -> float:
        """Return how many times as fast as cKDTree ours is."""
        return (self.counts if name == "count" else self.lists) / max(self.ours[name], 1e-9)


def race_cell(index: dtoss.Index, tree: Any, own: Any, planar: bool, asked: Any, rounds: int) -> dict[str, float]:
    """Return the best nanoseconds of each, a hit; who is within each radius is compared."""
    at, vectors, radius = asked
    chord = radius if planar else chord_of(radius)
    width = radius if planar else radius * METRE
    rows = list(zip(at[:, 0].tolist(), at[:, 1].tolist(), width.tolist(), strict=True))
    work: dict[str, Callable[[], Any]] = {
        "order": lambda: index.range(at, radius),
        "none": lambda: index.range(at, radius, order="none"),
        "count": lambda: index.count(at, radius),
        "lists": lambda: tree.query_ball_point(vectors, chord),
        "counts": lambda: tree.query_ball_point(vectors, chord, return_length=True),
        "flat": lambda: [flat.within(own, x, y, r) for x, y, r in rows],
    }
    times, last = in_turns(work, rounds)
    hits, some = last["order"], last["none"]
    assert hits.query.tolist() == some.query.tolist()
    total = len(hits)
    # objects within a billionth of a radius may differ: cKDTree compares chords
    assert abs(total - int(last["counts"].sum())) <= max(2, 1e-4 * total)
    assert int(last["count"].sum()) == total
    ends = np.cumsum(last["count"])
    for q, listed in enumerate(last["lists"]):
        rows_of = slice(ends[q] - last["count"][q], ends[q])
        assert np.array_equal(np.sort(some.id[rows_of]), np.sort(hits.id[rows_of]))
        assert len(set(listed).symmetric_difference(hits.id[rows_of].tolist())) <= max(2, 1e-4 * len(listed))
    found = {"flat": max(sum(len(found) for found in last["flat"]), 1)}
    return {name: 1e9 * min(spent) / found.get(name, total) for name, spent in times.items()}


def cells_of(w: Any, total: int, rounds: int, orders: tuple[str, ...]) -> list[Cell]:
    """Return all cells of a world."""
    index, vectors = indexed(w)
    tree = cKDTree(vectors)
    builder = flat.KDTreeBuilder(len(w.objects))
    builder.add(np.ascontiguousarray(w.objects[:, 0]), np.ascontiguousarray(w.objects[:, 1]))
    own, cells = builder.finish(), []
    for kind in PLACES:
        for hits in HITS:
            at = places(w, kind, AFAR if kind == "far outside" else int(np.clip(total // hits, 24, 20_000)))
            if hits > len(w.objects) // 10 or at is None:
                continue
            at_vectors = np.ascontiguousarray(index.space.vectors(at))
            far = tree.query(at_vectors, [hits])[0][:, 0]
            radius = far if w.planar else 2 * EARTH_RADIUS * np.arcsin(np.minimum(far / 2, 1.0))
            for order in orders:
                row = ORDERS[order](at, at_vectors)
                asked = np.ascontiguousarray(at[row]), np.ascontiguousarray(at_vectors[row]), radius[row] * (1 + 1e-9)
                ns = race_cell(index, tree, own, w.planar, asked, rounds)
                cells.append(
                    Cell(kind, hits, {name: ns[name] for name in SERIES}, ns["lists"], ns["counts"], ns["flat"])
                )
    return cells


def run(size: str) -> Iterator[Row]:
    """Yield nanoseconds a hit in the median cell, and the worst cell beside cKDTree; x is the world."""
    count, total, rounds, names, orders = SIZES[size]
    for w in worlds(names, count):
        cells, data = cells_of(w, total, rounds, orders), f"{len(w.objects):,} of {w.name}"
        usual = {hits: np.median([cell.lists for cell in cells if cell.hits == hits] or [0.0]) for hits in HITS}
        counted = [cell for cell in cells if cell.place not in ODD or cell.lists <= DEGENERATE * usual[cell.hits]]
        long = [cell for cell in cells if cell.hits >= LONG] or cells
        for name, title in SERIES.items():
            if name != "count":
                yield point(title, w.name, float(np.median([cell.ours[name] for cell in long])), NS, data=data)
            yield point(f"{title}, worst", w.name, min(cell.ratio(name) for cell in counted), TIMES, data=data)
        yield point("geoindex-rs", w.name, float(np.median([cell.flat for cell in long])), NS, data=data)


def draw(results: Results) -> str:
    """Return a world a row."""
    return grid(results, None, "objects", "{:.1f}")
