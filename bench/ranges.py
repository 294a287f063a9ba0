"""Ranges of 10 to 50,000 hits, in order, in none and counted, against cKDTree and a flat kd-tree, worst cell named.

python -m bench.ranges [--world taxi ...] [--objects 1000000] [--hits 10 1000 ...] [--place ...] [--order ...]

One thread, processor time, all in turns in one process, best of the rounds. Each query has a radius of its own, the
distance of the object of that rank, so that none has many times more. cKDTree neither measures nor sorts, and what it
counts it does not list. geoindex-rs works in the plane: on the sphere it is given the same degrees, and timed by its
own hits. Ours begins with lon and lat, the others with vectors. Who is within is compared in the same run.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass
from time import process_time
from typing import Any

os.environ["DTOSS_KERNELS"] = "native"

import geoindex_rs.kdtree as flat
import numpy as np
from scipy.spatial import cKDTree

import dtoss
from bench.measuring.places import METRE, ORDERS, World, indexed, places, race_options, worlds
from dtoss.geometry.distance import EARTH_RADIUS, chord_of

HITS = (10, 100, 500, 1000, 3000, 10_000, 50_000)
SHOWN = ("our curve", "random")
TOTAL = 300_000
"""Hits of all queries of a cell, about."""
AFAR = 24
"""Queries from far outside, where cKDTree takes a tenth of a second each."""
GOALS = {"order": 3.0, "none": 5.0, "count": 5.0}
"""Times as fast as cKDTree, in the worst cell."""
NANOSECONDS = {"order": 25.0, "none": 9.0}
"""A hit at the most, from :data:`LONG` hits on."""
LONG = 500
DEGENERATE = 3.0
"""Times as long as it takes a hit in the middle of its cells of as many hits from which on a rival is degenerate."""


@dataclass(frozen=True)
class Cell:
    """Nanoseconds a hit of ours, of cKDTree's list and count, and of the flat tree's own hits."""

    place: str
    order: str
    hits: int
    mean: float
    ours: dict[str, float]
    lists: float
    counts: float
    flat: float

    def ratio(self, name: str) -> float:
        """Return how many times as fast as cKDTree ours is."""
        return (self.counts if name == "count" else self.lists) / self.ours[name]


def main() -> None:
    """Race over all worlds that are there, a table each."""
    parser = race_options(__doc__)
    parser.add_argument("--hits", type=int, nargs="*", default=list(HITS))
    parser.add_argument("--order", nargs="*", default=list(SHOWN), choices=list(ORDERS))
    options = parser.parse_args()
    for w in worlds(options):
        race_world(w, options)


def race_world(w: World, options: argparse.Namespace) -> None:
    """Print the table of one world, and the worst cell of each question."""
    index, vectors = indexed(w)
    tree, own = cKDTree(vectors), flat_tree(w.objects)
    print(f"\n## {w.name}, {len(w.objects):,} objects on {index.sites:,} sites; ns a hit (times as fast as cKDTree)\n")
    print("| places | order | hits | by distance | order none | counted | cKDTree | its count | geoindex-rs |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    cells = []
    for kind in options.place:
        for hits in options.hits:
            if hits > len(w.objects) // 10:
                continue
            at = places(w, kind, AFAR if kind == "far outside" else int(np.clip(TOTAL // hits, 24, 20_000)))
            if at is None:
                continue
            at_vectors = np.ascontiguousarray(index.space.vectors(at))
            far = tree.query(at_vectors, [hits])[0][:, 0]
            radius = far if w.planar else 2 * EARTH_RADIUS * np.arcsin(np.minimum(far / 2, 1.0))
            for order in options.order:
                row = ORDERS[order](at, at_vectors)
                asked = (np.ascontiguousarray(at[row]), np.ascontiguousarray(at_vectors[row]), radius[row] * (1 + 1e-9))
                cell = race_cell(index, tree, own, w.planar, asked, options.rounds, (kind, order, hits))
                cells.append(cell)
                _show(cell)
    if cells:
        _say_worst(cells, options.hits)


def flat_tree(objects: Any) -> Any:
    """Return a kd-tree of geoindex-rs over float64 columns."""
    builder = flat.KDTreeBuilder(len(objects))
    builder.add(np.ascontiguousarray(objects[:, 0]), np.ascontiguousarray(objects[:, 1]))
    return builder.finish()


def race_cell(
    index: dtoss.Index, tree: Any, own: Any, planar: bool, asked: Any, rounds: int, named: tuple[str, str, int]
) -> Cell:
    """Return the best times of each, a hit; who is within each radius is compared."""
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
    times: dict[str, list[float]] = {name: [] for name in work}
    names, last = list(work), {}
    for _ in range(rounds):
        for name in names:
            begin = process_time()
            last[name] = work[name]()
            times[name].append(process_time() - begin)
        names.append(names.pop(0))  # each comes after another one the next time
    hits, some = last["order"], last["none"]
    assert hits.query.tolist() == some.query.tolist()
    total = len(hits)
    # objects within a billionth of a radius may differ: cKDTree compares chords
    assert abs(total - int(last["counts"].sum())) <= 1e-4 * total
    assert int(last["count"].sum()) == total
    ends = np.cumsum(last["count"])
    for q, listed in enumerate(last["lists"]):
        rows_of = slice(ends[q] - last["count"][q], ends[q])
        assert np.array_equal(np.sort(some.id[rows_of]), np.sort(hits.id[rows_of]))
        assert len(set(listed).symmetric_difference(hits.id[rows_of].tolist())) <= max(2, 1e-4 * len(listed))
    each = {name: 1e9 * min(spent) / total for name, spent in times.items()}
    own_hits = max(sum(len(found) for found in last["flat"]), 1)
    ours = {name: each[name] for name in GOALS}
    return Cell(*named, total / len(at), ours, each["lists"], each["counts"], 1e9 * min(times["flat"]) / own_hits)


def _show(cell: Cell) -> None:
    ours = [f"{nanoseconds:.1f} ({cell.ratio(name):.2f})" for name, nanoseconds in cell.ours.items()]
    rest = f"{cell.lists:.1f} | {cell.counts:.1f} | {cell.flat:.1f}"
    print(f"| {cell.place} | {cell.order} | {cell.mean:,.0f} | {' | '.join(ours)} | {rest} |", flush=True)


def _say_worst(cells: list[Cell], numbers: list[int]) -> None:
    usual = {hits: np.median([cell.lists for cell in cells if cell.hits == hits] or [0.0]) for hits in numbers}
    # where hundreds stand on a site, or all are as far, a rival may take many times as long as it does elsewhere
    odd = ("at ranks", "far outside")
    counted = [cell for cell in cells if cell.place not in odd or cell.lists <= DEGENERATE * usual[cell.hits]]
    print()
    for name, goal in GOALS.items():
        worst = min(counted, key=lambda cell: cell.ratio(name))
        median = np.median([cell.ratio(name) for cell in counted])
        said = f"worst {worst.ratio(name):.2f} ({worst.place}, {worst.order}, {worst.hits} hits), goal {goal:g}"
        print(f"- {name}: median {median:.2f} times as fast as cKDTree, {said}")
    long = [cell for cell in cells if cell.hits >= LONG]
    for name, most in NANOSECONDS.items() if long else ():
        worst = max(long, key=lambda cell: cell.ours[name])
        median = np.median([cell.ours[name] for cell in long])
        said = f"worst {worst.ours[name]:.1f} ({worst.place}, {worst.order}, {worst.hits} hits), goal {most:g}"
        rival = f"geoindex-rs: median {np.median([cell.flat for cell in long]):.1f}"
        print(f"- {name}: median {median:.1f} ns a hit from {LONG} on, {said}; {rival}")


if __name__ == "__main__":
    main()
