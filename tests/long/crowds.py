"""Crowds of objects far from a few others, in many partitions, against brute force: `python -m tests.long.crowds`.

Pivots very near each other and queries far away: the border of two pivots is then known only within a slack that may
be wider than the crowd (docs/cells.md). Each world is made from its number alone.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

import dtoss
from datasets.tables.command import run, say
from dtoss.geometry.distance import distance

KS = (1, 3, 8)


@dataclass(frozen=True)
class World:
    """Objects, queries and how they are indexed; everything that a seed says."""

    seed: int
    metric: str
    positions: NDArray[np.float64]
    queries: NDArray[np.float64]
    partitions: int
    pivots: str
    reach: float | None


def opposite(lonlat: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the antipodes of places."""
    return np.stack([np.where(lonlat[:, 0] > 0, lonlat[:, 0] - 180.0, lonlat[:, 0] + 180.0), -lonlat[:, 1]], axis=1)


def _legal(lonlat: NDArray[np.float64]) -> NDArray[np.float64]:
    lon = (lonlat[:, 0] + 180.0) % 360.0 - 180.0
    return np.stack([np.where(np.abs(lonlat[:, 0]) <= 180.0, lonlat[:, 0], lon), np.clip(lonlat[:, 1], -90, 90)], 1)


def world(seed: int) -> World:
    """Return world number ``seed``: one to three crowds and some objects far from them."""
    rng = np.random.default_rng(seed)
    sphere = rng.random() < 0.7
    n = int(rng.choice([3, 10, 60, 200, 500]))
    crowds = int(rng.integers(1, 4))
    far = min(int(rng.integers(0, 4)), n - 1)
    spacing = 10.0 ** rng.uniform(-7, -3) if rng.random() < 0.8 else 1e-12
    if sphere:
        special = np.array([[0.0, 90.0], [0.0, -90.0], [180.0, 0.0], [0.0, 0.0], [10.0, 50.0]])
        centres = np.stack([rng.uniform(-180, 180, crowds), np.degrees(np.arcsin(rng.uniform(-1, 1, crowds)))], axis=1)
        if rng.random() < 0.5:
            centres[0] = special[rng.integers(len(special))]
        if crowds > 1 and rng.random() < 0.5:
            centres[1] = opposite(centres[:1])[0]
    else:
        centres = rng.uniform(-1, 1, (crowds, 2)) * 10.0 ** rng.uniform(0, 7)
        special = centres[0] + np.array([[3e6, 0.0], [0.0, -1e9], [1.0, 1.0]])
        if rng.random() < 0.5:
            centres[0] = 0.0
    own = rng.integers(0, crowds, n)
    positions = centres[own] + rng.uniform(-1, 1, (n, 2)) * spacing
    if rng.random() < 0.3:
        positions = centres[own] + rng.integers(-9, 10, (n, 2)) * spacing
    if sphere:
        places = [opposite(positions[rng.integers(0, n, 2)]), opposite(centres), special]
    else:
        places = [special, centres + 1e3 * spacing]
    outliers = np.concatenate(places)
    positions[:far] = outliers[rng.integers(0, len(outliers), far)]
    some = positions[rng.integers(0, n, 12)]
    queries = [
        some,
        some + rng.uniform(-2, 2, (12, 2)) * spacing,
        special + rng.uniform(-1, 1, special.shape) * spacing,
    ]
    if sphere:
        queries += [opposite(some) + rng.uniform(-1, 1, (12, 2)) * spacing * 10.0 ** rng.uniform(-2, 3, (12, 1))]
        queries += [np.stack([rng.uniform(-180, 180, 6), rng.uniform(-90, 90, 6)], axis=1), special]
        positions = _legal(positions)
    else:
        queries += [some + rng.normal(size=(12, 2)) * spacing * 10.0 ** rng.uniform(0, 14, (12, 1))]
    asked = np.concatenate(queries)
    return World(
        seed,
        "sphere" if sphere else "plane",
        positions,
        _legal(asked) if sphere else asked,
        int(rng.choice([2, 3, 7, 16, 64])),
        "balanced" if rng.random() < 0.7 else "spread",
        None if rng.random() < 0.6 else float(rng.choice([0.0, spacing * 1e-2, 1e-3])),
    )


def build(made: World, partitions: int | None = None) -> dtoss.Index:
    """Return the index of a world; every third object is blue."""
    ids = np.random.default_rng(made.seed).permutation(len(made.positions))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "lon and lat look swapped")  # by chance
        return dtoss.build(
            ids,
            made.positions,
            metric=made.metric if made.metric == "plane" else None,
            partitions=made.partitions if partitions is None else partitions,
            pivots=made.pivots,
            reach=made.reach,
            columns={"blue": (ids % 3 == 0).astype(np.int64)},
        )


def differences(made: World) -> list[str]:
    """Return what an index of a world answers otherwise than brute force, or than an index of one partition."""
    index = build(made)
    ids = np.random.default_rng(made.seed).permutation(len(made.positions))
    vectors = index.space.vectors(made.positions)
    wrong: list[str] = []
    n = len(ids)
    asked = {
        **{f"knn {k}": (index.knn(made.queries, k), k, None) for k in (*KS, n)},
        "blue 3": (index.knn(made.queries, 3, where="blue = 1"), 3, None),
    }
    owners = index.locate(made.queries)
    for number, (place, vector) in enumerate(zip(made.queries, index.space.vectors(made.queries), strict=True)):
        far = distance(vectors, vector)
        order = np.lexsort((ids, far))
        blue = order[ids[order] % 3 == 0]
        for name, (hits, k, _) in asked.items():
            rows = slice(*np.searchsorted(hits.query, [number, number + 1]))
            expected = (blue if name.startswith("blue") else order)[:k]
            if not _same(hits.id[rows], hits.distance[rows], ids, far, expected):
                wrong.append(f"{name} at {place.tolist()}: {hits.id[rows][:5]}, not {ids[expected][:5]}")
        if owners[number] != ids[order[0]]:
            wrong.append(f"locate {place.tolist()}: {owners[number]}, not {ids[order[0]]}")
        for at in {0, 1, n // 2, n - 1}:
            radius = float(far[order[min(at, n - 1)]])
            inside = order[far[order] <= radius]
            hits = index.range(place, radius)
            if not _same(hits.id, hits.distance, ids, far, inside):
                wrong.append(f"range {radius!r} at {place.tolist()}: {len(hits)} objects, not {len(inside)}")
            count = int(index.count(place, radius, where="blue = 1")[0])
            if count != (ids[inside] % 3 == 0).sum():
                wrong.append(f"count of blue ones within {radius!r} of {place.tolist()}: {count}")
    return wrong


def one_sided(index: dtoss.Index, made: World, most: int = 40) -> list[str]:
    """Return which of some objects are neighbours of one that is none of theirs."""
    wrong = []
    some = np.random.default_rng(made.seed).permutation(len(made.positions))[:most].tolist()
    for i in some:
        lowest = min(near_ids(index, i))
        wrong += [
            f"{j} is a neighbour of {i}, which is none of {j}"
            for j in index.neighbours(i).tolist()
            if lowest not in index.neighbours(j)
        ]
    return wrong


def near_ids(index: dtoss.Index, object_id: int) -> list[int]:
    """Return the ids on an object's place."""
    place = index.place_of(object_id)
    first = place.partition.first_object
    return place.partition.ids[first[place.site] : first[place.site + 1]].tolist()


def _same(got: Any, got_far: Any, ids: Any, far: Any, expected: Any) -> bool:
    return np.array_equal(got, ids[expected]) and np.array_equal(got_far, far[expected])


def main(
    count: Annotated[int, typer.Option("--worlds", help="How many.")] = 2000,
    first: Annotated[int, typer.Option(help="The number of the first one.")] = 0,
) -> None:
    """Compare every answer about crowds far from other objects with brute force."""
    began, differ = time.perf_counter(), 0
    for seed in range(first, first + count):
        made = world(seed)
        wrong = differences(made) + one_sided(build(made), made)
        differ += bool(wrong)
        if wrong:
            say(
                f"world {seed} ({made.metric}, {len(made.positions)} objects, {made.partitions} partitions): {wrong[0]}"
            )
    say(f"{count:,} worlds, {differ} differ from brute force, {time.perf_counter() - began:.0f} s")
    if differ:
        raise typer.Exit(1)


if __name__ == "__main__":
    run(main)
