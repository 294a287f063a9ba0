"""Joins of GeoDataFrames by the nearest, beside GeoPandas: fresh frames, and where the index stands; worst world named.

python -m bench.frames.sjoin_nearest [--world uniform ...] [--rows 1000000] [--rounds 3]

Planar CRS, as many rows on either side, an attribute each, distances asked for. In turns in one process, processor time
of one thread, best of the rounds; for two threads wall time of both. "Fresh" counts all that is built: GeoPandas' tree
and our index, both frames read, the result made. "Stands" gives GeoPandas a frame whose tree it keeps, and ours an
index. Pairs and distances are compared in the same run: ``ties="all"`` finds all that GeoPandas does, and the default
one of them for each row.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median
from time import perf_counter, process_time
from typing import Any

import geopandas
import numpy as np
import pyproj
import shapely
from numpy.typing import NDArray

import dtoss
from bench.measuring.points import lonlat_of, missing

Floats = NDArray[np.float64]
WORLDS = ("uniform", "clustered", "lattice", "far", "taxi", "uber")
ZONES = {"taxi": "EPSG:32610", "uber": "EPSG:32618"}
MADE_ZONE = "EPSG:32610"
SIDE = 1_000_000.0
"""Of the square of made worlds, in metres."""
TOWNS = 300
BESIDE = 20.0
"""Metres between a row of the left frame and one of the right, where they are drawn beside each other."""
GOALS = {"fresh": 4.0, "stands": 20.0}


@dataclass(frozen=True)
class Sides:
    """Where the rows of both frames are, float64 (n, 2), in the order of the files or at random."""

    left: Floats
    right: Floats
    crs: str


def sides(name: str, rows: int, seed: int = 0) -> Sides:
    """Return both sides of a world.

    uniform: both anywhere in a square. clustered: both around towns of very different sizes. lattice: whole metres, the
    left ones on places of the right ones, in the middle of two and in the middle of four. far: the left ones beyond one
    side of the square. Real ones, projected: other rows of the same data.
    """
    rng = np.random.default_rng(seed)
    if name in ZONES:
        crs = ZONES[name]
        every = lonlat_of(name)
        some = every[rng.permutation(len(every))[: 2 * rows]]
        at = np.column_stack(pyproj.Transformer.from_crs("EPSG:4326", crs, always_xy=True).transform(*some.T))
        if len(at) < 2 * rows:  # too few for others: the left ones stand beside the right ones
            right = at[:rows]
            return Sides(right[rng.integers(0, len(right), rows)] + rng.normal(0, BESIDE, (rows, 2)), right, crs)
        return Sides(at[:rows], at[rows:], crs)
    if name == "clustered":
        town = rng.uniform(0, SIDE, (TOWNS, 2))
        size = rng.lognormal(np.log(2_000.0), 1.0, TOWNS)
        share = rng.pareto(1.0, TOWNS) + 0.1
        of = rng.choice(TOWNS, 2 * rows, p=share / share.sum())
        at = town[of] + rng.normal(0, 1, (2 * rows, 2)) * size[of, None]
        return Sides(at[:rows], at[rows:], MADE_ZONE)
    if name == "lattice":
        across = int(np.sqrt(rows))
        right = np.stack(np.meshgrid(np.arange(across), np.arange(across)), axis=-1).reshape(-1, 2) * 2.0
        left = rng.integers(0, 2 * across - 1, (rows, 2)).astype(np.float64)
        return Sides(left, right[rng.permutation(len(right))], MADE_ZONE)
    left, right = rng.uniform(0, SIDE, (rows, 2)), rng.uniform(0, SIDE, (rows, 2))
    if name == "far":
        left[:, 0] += 3 * SIDE
    return Sides(left, right, MADE_ZONE)


def frame(name: str, at: Floats, crs: str) -> geopandas.GeoDataFrame:
    """Return a frame of points with one attribute; no tree was made of it yet."""
    return geopandas.GeoDataFrame({name: np.arange(len(at)) * 2.0}, geometry=shapely.points(at), crs=crs)


def main() -> None:
    """Print a row a world, then the median and the worst of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--world", nargs="*", default=list(WORLDS), choices=WORLDS)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    heads = ["world", "pairs", *(f"{kind}: {what}" for kind in GOALS for what in HEADS)]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}", flush=True)
    found: dict[str, dict[tuple[str, str], float]] = {}
    for name in options.world:
        if why := missing(name):
            print(f"{name}: {why}")
            continue
        pairs, seconds, ratio = race(sides(name, options.rows), options.rounds)
        found[name] = ratio
        cells = [name, f"{pairs:,}"]
        for kind in GOALS:
            cells += [f"{seconds[kind, 'GeoPandas']:.1f}", f"{seconds[kind, 'ours']:.2f}"]
            cells += [f"{ratio[kind, what]:.1f}x" for what in WAYS]
        print(f"| {' | '.join(cells)} |", flush=True)
    for kind, goal in GOALS.items():
        for what in WAYS:
            every = {name: ratio[kind, what] for name, ratio in found.items()}
            worst = min(every, key=every.__getitem__)
            middle = median(every.values())
            print(f"- {kind}, {what}: median {middle:.1f}, worst {every[worst]:.1f} ({worst}), goal {goal:g}")


WAYS = ("lowest", "all", "two threads")
"""Ties to the lowest row, every tie, and the first again in two threads."""
HEADS = ("GeoPandas, s", "ours, s", *WAYS)


def race(world: Sides, rounds: int) -> tuple[int, dict[tuple[str, str], float], dict[tuple[str, str], float]]:
    """Return pairs with all ties, seconds of one thread, and how many times as fast each way was."""
    left, right = frame("a", world.left, world.crs), frame("b", world.right, world.crs)
    standing = frame("b", world.right, world.crs)
    assert standing.sindex is not None
    ids = np.arange(len(world.right))
    index = dtoss.build(ids, world.right, crs=world.crs, columns={"b": ids * 2.0}, threads=2)
    ours = partial(dtoss.sjoin_nearest, left, distance_col="d")
    every: dict[tuple[str, str], Callable[[], Any]] = {
        ("fresh", "lowest"): lambda: ours(right),
        ("fresh", "all"): lambda: ours(right, ties="all"),
        ("fresh", "two threads"): lambda: ours(right, threads=2),
        ("stands", "lowest"): lambda: ours(index),
        ("stands", "all"): lambda: ours(index, ties="all"),
        ("stands", "two threads"): lambda: ours(index, threads=2),
        ("stands", "GeoPandas"): lambda: geopandas.sjoin_nearest(left, standing, distance_col="d"),
    }
    ours(index, threads=2, ties="all")  # all is compiled and loaded
    times: dict[tuple[str, str], list[tuple[float, float]]] = {}
    last = {}
    for _ in range(rounds):
        unseen = frame("b", world.right, world.crs)
        turns = [(("fresh", "GeoPandas"), partial(geopandas.sjoin_nearest, left, unseen, distance_col="d"))]
        for key, work in [*turns, *every.items()]:
            wall, processor = perf_counter(), process_time()
            last[key] = work()
            times.setdefault(key, []).append((perf_counter() - wall, process_time() - processor))
    best = {key: (min(w for w, _ in some), min(p for _, p in some)) for key, some in times.items()}
    _agree(last, len(left))
    seconds, ratio = {}, {}
    for kind in GOALS:
        walls, processors = best[kind, "GeoPandas"]
        seconds[kind, "GeoPandas"], seconds[kind, "ours"] = processors, best[kind, "lowest"][1]
        for what in WAYS:
            wall, processor = best[kind, what]
            ratio[kind, what] = walls / wall if what == "two threads" else processors / processor
    return len(last["fresh", "all"]), seconds, ratio


def _agree(last: dict[tuple[str, str], Any], rows: int) -> None:
    """Compare all pairs with those of GeoPandas, and what one of each tie is."""
    expected = last["fresh", "GeoPandas"]
    order = np.lexsort([expected["index_right"], expected.index])
    keys, near, far = expected.index.to_numpy()[order], expected["index_right"].to_numpy()[order], expected["d"]
    far = far.to_numpy()[order]
    first = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    assert len(first) == rows
    for (kind, what), found in last.items():
        if what == "GeoPandas":
            continue
        some = slice(None) if what == "all" else first
        np.testing.assert_array_equal(found.index, keys[some], f"{kind} {what}")
        np.testing.assert_array_equal(found["index_right"], near[some], f"{kind} {what}")
        np.testing.assert_array_equal(found["b"], near[some] * 2.0, f"{kind} {what}")
        np.testing.assert_allclose(found["d"], far[some], rtol=1e-12, err_msg=f"{kind} {what}")


if __name__ == "__main__":
    main()
