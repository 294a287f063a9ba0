"""The slow, obvious version of patterns: what each access reads, one after the other."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import numpy as np

from dtoss.geometry.distance import distance
from dtoss.snapshots.manifest import regions_of_manifest, space_of_manifest


def slow_reads(manifest, place, radius):
    """Partitions that a request for all within a radius of one place reads, by the rule of section 3.3.1."""
    space, regions = space_of_manifest(manifest), regions_of_manifest(manifest)
    v = space.vectors(np.array([place], dtype=float))
    power = ((regions.pivots - v) ** 2).sum(axis=1) - regions.weights
    home = int(power.argmin())
    far = radius
    if space.metric == "sphere":
        far = np.inf if radius >= np.pi * 6_371_008.8 else 2 * np.sin(min(radius / 6_371_008.8, np.pi) / 2)
    past = regions.past(v, home)[0]
    reach = manifest["reach"][home]
    if len(regions) == 1 or reach is None or past.max() + far <= reach:
        return [home]
    gap = np.sqrt(((regions.pivots - v) ** 2).sum(axis=1))
    furthest = np.array([entry["furthest"] for entry in manifest["partitions"]])
    needed = (past >= -far) & (gap - furthest <= far) & (furthest >= 0)
    return sorted({home, *np.flatnonzero(needed).tolist()})


def slow_patterns(world, zone="UTC", slot=300, weight=False, k=False, radius=False):
    """Requests by (weekday, partition, slot), and by set of partitions that one reads, one access after the other."""
    count = len(world.manifest["partitions"])
    found, sets = np.zeros((7, count, 86_400 // slot)), {}
    space = space_of_manifest(world.manifest)
    objects = space.vectors(np.stack([world.table["lon"].to_numpy(), world.table["lat"].to_numpy()], axis=1))
    for row in world.rows.to_pylist():
        local = row["t"].astimezone(ZoneInfo(zone))
        place = (row["lon"], row["lat"])
        limit = row["radius"] if radius and row["radius"] is not None else np.inf
        far = limit
        if k and row["k"] is not None:
            gaps = np.sort(distance(objects, space.vectors(np.array([place]))[0]))
            far = min(limit, gaps[row["k"] - 1])
        if far < np.inf:
            read = slow_reads(world.manifest, place, far)
        else:
            read = slow_reads(world.manifest, place, 0.0)[:1] if count == 1 else [home_of(world.manifest, place)]
        second = local.hour * 3600 + local.minute * 60 + local.second
        number = row["weight"] if weight else 1.0
        for partition in read:
            found[local.weekday(), partition, second // slot] += number
        if len(read) > 1 and number:
            sets[tuple(sorted(read))] = sets.get(tuple(sorted(read)), 0.0) + number
    return found, sets


def by_set(reads):
    """{partitions read together: requests a day}."""
    return {
        tuple(reads.row[a:b].tolist()): w for a, b, w in zip(reads.start, reads.start[1:], reads.weight, strict=False)
    }


def home_of(manifest, place):
    space, regions = space_of_manifest(manifest), regions_of_manifest(manifest)
    power = ((regions.pivots - space.vectors(np.array([place]))) ** 2).sum(axis=1) - regions.weights
    return int(power.argmin())
