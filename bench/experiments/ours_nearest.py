"""The k nearest at every kind of place and in several orders, against three kd-trees on the same objects.

Places are objects, 2, 20 and 200 m beside them, anywhere in the box of the data, far outside it, and ranks with a
hundred objects on a site. One thread, processor time, in turns in one process, best of the rounds. Ours begins with lon
and lat, the others are given unit vectors. All distances are compared in the same run. Far outside stands by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from pykdtree.kdtree import KDTree
from scipy.spatial import cKDTree

import dtoss
from bench.experiments.results import Results, Row, grid, point
from bench.measuring.places import ORDERS, PLACES, Floats, indexed, places, worlds
from bench.measuring.race import in_turns, timed
from dtoss.geometry.distance import EARTH_RADIUS

try:
    import napf
except ImportError:  # it has no wheel for Python 3.13 and later
    napf = None

LARGE = ("taxi", "uber", "sphere", "plane")
SMALL = ("gowalla", "cities500")
KS = (1, 8, 32)
SIZES = {
    "smoke": (2_000, 100, 1, ("sphere", "plane"), ("random",)),
    "here": (1_000_000, 20_000, 3, (*LARGE, *SMALL), ("strips", "random")),
    "full": (1_000_000, 100_000, 9, (*LARGE, *SMALL), tuple(ORDERS)),
}
"""Objects, queries, rounds, worlds, orders of the queries."""
TIMES = "times as fast"
OUTSIDE = "far outside"
DEGENERATE = 20.0
"""Times as long as ours from which on a rival counts as degenerate in a cell, and not at all."""
SOME = 50
"""One in so many queries shows whether a rival is; it is then asked these alone."""


@dataclass(frozen=True)
class Rival:
    """Who is asked for the k nearest of vectors, and how far its answers are, as chords."""

    ask: Callable[[Floats, int], Any]
    chords: Callable[[Any], Any]


def rivals(vectors: Floats) -> dict[str, Rival]:
    """Return the trees that are installed, each over all vectors."""
    scipy, fast = cKDTree(vectors), KDTree(vectors)
    found = {
        "cKDTree": Rival(scipy.query, lambda answer: answer[0]),
        "pykdtree": Rival(fast.query, lambda answer: answer[0]),
    }
    if napf:
        flat = napf.KDT(vectors, leaf_size=10, nthread=1)
        found["nanoflann"] = Rival(flat.knn_search, lambda answer: np.sqrt(answer[0]))
    return found


def ratios(index: dtoss.Index, others: dict[str, Rival], at: Floats, vectors: Floats, k: int, rounds: int) -> Any:
    """Return how many times as fast as each other ours is; all distances are compared."""
    few = np.ascontiguousarray(vectors[::SOME])
    index.knn(at, k)
    limit = DEGENERATE * timed(lambda: index.knn(at, k))[0] / SOME
    slow = {name: timed(lambda other=other: other.ask(few, k))[0] > limit for name, other in others.items()}
    given = {name: few if slow[name] else vectors for name in others}
    works = {name: lambda name=name, other=other: other.ask(given[name], k) for name, other in others.items()}
    spent, last = in_turns({"ours": lambda: index.knn(at, k), **works}, rounds)
    far = last["ours"].distance.reshape(len(at), k)
    for name, other in others.items():
        chord = np.asarray(other.chords(last[name])).reshape(len(given[name]), k)
        true = chord if vectors.shape[1] == 2 else 2 * EARTH_RADIUS * np.arcsin(np.minimum(chord / 2, 1.0))
        same = far[::SOME] if slow[name] else far
        np.testing.assert_allclose(same, true, rtol=1e-7, atol=1e-6, err_msg=name)
    best = {name: min(times) * (SOME if slow.get(name) else 1) for name, times in spent.items()}
    return {name: best[name] / max(best["ours"], 1e-9) for name in others}


def of_world(index: dtoss.Index, others: dict[str, Rival], kinds: Any, k: int, rounds: int) -> Iterator[Row]:
    """Yield rows of a world without its name: the median and the worst cell beside each, far outside by itself."""
    cells: dict[str, list[float]] = {name: [] for name in others}
    outside: dict[str, list[float]] = {name: [] for name in others}
    for kind, at, vectors in kinds:
        for name, ratio in ratios(index, others, at, vectors, k, rounds).items():
            (outside if kind == OUTSIDE else cells)[name].append(ratio)
    for name, found in cells.items():
        counted = [ratio for ratio in found if ratio <= DEGENERATE] or found
        yield point(f"{name}, median", "", float(np.median(counted)), TIMES)
        yield point(f"{name}, worst", "", min(counted), TIMES)
    for name, found in outside.items():
        if found:
            yield point(f"{name}, {OUTSIDE}", "", min(found), TIMES)


def run(size: str) -> Iterator[Row]:
    """Yield how many times as fast ours is, x is world and k."""
    count, queries, rounds, names, orders = SIZES[size]
    for w in worlds(names, count):
        index, vectors = indexed(w)
        others = rivals(vectors)
        kinds = []
        for kind in PLACES:
            if (at := places(w, kind, queries)) is None:
                continue
            every = np.ascontiguousarray(index.space.vectors(at))
            for order in orders:
                row = ORDERS[order](at, every)
                kinds.append((kind, np.ascontiguousarray(at[row]), np.ascontiguousarray(every[row])))
        for k in KS:
            for row in of_world(index, others, kinds, k, rounds):
                yield point(row.series, f"{w.name}, k = {k}", row.y, row.unit, data=f"{len(w.objects):,} of {w.name}")


def draw(results: Results) -> str:
    """Return the worst cells beside the median one."""
    return grid(results, TIMES, f"objects, k: {TIMES}", "{:.1f}")
