"""Objects in zones: counts and pairs of 300 and 10,000 polygons, beside ``geopandas.sjoin`` and DuckDB, in one run.

python -m bench.frames.zones [--world uber] [--objects 1000000] [--zones 300 10000] [--rounds 5]

Zones tile the box of the objects, where they are many the zones are small: the planar Voronoi cells of some objects,
each border bent into a chain of corners that both neighbours share, a hole in every fifth. All are planar, so that all
who are asked must agree: longitudes and latitudes are projected first. Ours is timed with the index open, and from the
GeoDataFrame of zones on; GeoPandas from both GeoDataFrames on, with the trees that it keeps made anew and kept; DuckDB
from its table on, without an index. Processor time, one thread each, in turns; median of the rounds, and the worst.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

os.environ["DTOSS_KERNELS"] = "native"

import geopandas
import numpy as np
import pyarrow as pa
import shapely
from scipy.spatial import Voronoi

import dtoss
from bench.measuring.places import WORLDS, world
from bench.measuring.points import missing
from bench.measuring.race import in_turns
from dtoss.geometry.distance import EARTH_RADIUS

BENT = 0.12
"""How far the middle of a border leaves it, as a share of its length; half of that at each step further."""


def main() -> None:
    """Print a line for each number of zones and each way to ask."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--world", default="uber", choices=WORLDS)
    parser.add_argument("--objects", type=int, default=1_000_000)
    parser.add_argument("--zones", nargs="*", type=int, default=[300, 10_000])
    parser.add_argument("--corners", type=int, nargs="*", default=[100, 10_000], help="of a zone, about")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if why := missing(options.world):
        print(f"{options.world}: {why}")
        return
    objects = in_metres(world(options.world, options.objects).objects)
    index = dtoss.build(np.arange(len(objects)), objects, crs="none")
    points = geopandas.GeoDataFrame({"id": np.arange(len(objects))}, geometry=geopandas.points_from_xy(*objects.T))
    connection = spatial_duckdb(objects)
    for number in options.zones:
        for corners in options.corners:
            # more would only show how long it takes to read them
            compare(
                index, points, zones_of(objects, min(number, 3_000_000 // corners), corners), options.rounds, connection
            )


def in_metres(objects: Any) -> Any:
    """Return places in degrees as metres from the middle of all, without a library: only shapes matter here."""
    if np.abs(objects).max() > 360.0:
        return objects
    middle = np.median(objects, axis=0)
    scale = np.radians(1.0) * EARTH_RADIUS * np.array([np.cos(np.radians(middle[1])), 1.0])
    return (objects - middle) * scale


def zones_of(objects: Any, number: int, corners: int) -> geopandas.GeoDataFrame:
    """Return zones that tile the box of the objects."""
    rng = np.random.default_rng(17)
    low, high = np.quantile(objects, [0.0005, 0.9995], axis=0)
    inner = objects[((objects > low) & (objects < high)).all(axis=1)]
    seeds = np.unique(rng.choice(inner, 3 * number, replace=False) + rng.normal(0.0, 50.0, (3 * number, 2)), axis=0)
    seeds = rng.choice(seeds, number, replace=False)
    wide = high - low
    frame = np.concatenate(
        [seeds.mean(axis=0) + 8.0 * wide.max() * np.array(d)[None] for d in ((1, 0), (-1, 0), (0, 1), (0, -1))]
    )
    diagram = Voronoi(np.concatenate([seeds, frame]))
    steps = max(int(np.log2(max(corners / 6.0, 1.0)) + 0.5), 0)
    bent = {}
    shapes = []
    for site in range(number):
        region = diagram.regions[diagram.point_region[site]]
        chains = []
        for a, b in zip(region, region[1:] + region[:1], strict=True):
            key = (min(a, b), max(a, b))
            if key not in bent:
                bent[key] = bend(diagram.vertices[key[0]], diagram.vertices[key[1]], steps, np.random.default_rng(key))
            chains.append(bent[key][:-1] if key == (a, b) else bent[key][:0:-1])
        shell = np.concatenate(chains)
        hole = None
        if site % 5 == 0:
            reach = 0.2 * np.sqrt(((shell - seeds[site]) ** 2).sum(axis=1).min())
            turn = np.linspace(0.0, 2.0 * np.pi, 12, endpoint=False)
            hole = [seeds[site] + reach * np.stack([np.cos(turn), np.sin(turn)], axis=1)]
        shapes.append(shapely.Polygon(shell, hole))
    return geopandas.GeoDataFrame({"zone": np.arange(number)}, geometry=shapes)


def bend(a: Any, b: Any, steps: int, rng: np.random.Generator) -> Any:
    """Return a chain of corners from a to b."""
    chain, share = np.stack([a, b]), BENT
    for _ in range(steps):
        along = np.diff(chain, axis=0)
        aside = np.stack([-along[:, 1], along[:, 0]], axis=1) * (share * rng.uniform(-1.0, 1.0, (len(along), 1)))
        middles = 0.5 * (chain[1:] + chain[:-1]) + aside
        chain = np.insert(chain, np.arange(1, len(chain)), middles, axis=0)
        share *= 0.7
    return chain


def compare(index: dtoss.Index, points: Any, zones: Any, rounds: int, connection: Any) -> None:
    """Print what each way takes; the answers are compared first."""

    def anew(frame: Any) -> Any:
        return geopandas.GeoDataFrame(
            frame.drop(columns="geometry"), geometry=np.array(frame.geometry.array, dtype=object)
        )

    def joined(left: Any, right: Any, predicate: str = "intersects") -> Any:
        return geopandas.sjoin(left, right, predicate=predicate)

    ways: dict[str, Callable[[], Any]] = {
        "dtoss count_within": lambda: index.count_within(zones),
        "dtoss within": lambda: index.within(zones),
        "sjoin(points, zones, intersects)": lambda: joined(points, zones),
        "sjoin(points, zones, within)": lambda: joined(points, zones, "within"),
        "sjoin(zones, points, intersects)": lambda: joined(zones, points),
        "the same, trees anew": lambda: joined(anew(zones), anew(points)),
    }
    if connection is not None:
        connection.execute("CREATE OR REPLACE TABLE zones (zone INTEGER, geom GEOMETRY)")
        for zone, wkb in enumerate(shapely.to_wkb(zones.geometry.array)):
            connection.execute("INSERT INTO zones VALUES (?, ST_GeomFromWKB(?))", [zone, wkb])
        ways["DuckDB spatial join, count"] = lambda: connection.execute(
            "SELECT zone, count(*) FROM zones JOIN points ON ST_Intersects(zones.geom, points.geom) GROUP BY zone"
        ).fetchall()
    counts = index.count_within(zones)
    pairs = joined(points, zones)
    invalid = ~zones.is_valid.to_numpy()
    theirs = np.bincount(pairs["zone"], minlength=len(zones))
    differ = np.flatnonzero((counts != theirs) & ~invalid)
    hits = index.within(zones)
    assert np.array_equal(np.bincount(hits.query, minlength=len(zones)), counts)
    mean = shapely.get_num_coordinates(zones.geometry.array).mean()
    print(
        f"{len(index):,} objects, {len(zones):,} zones of {mean:,.0f} corners, {counts.sum():,} pairs, "
        f"{len(differ)} valid zones differ, {int(invalid.sum())} are not valid",
        flush=True,
    )
    times, _ = in_turns(ways, rounds)
    base = float(np.median(times["sjoin(points, zones, intersects)"]))
    for name, taken in times.items():
        middle = float(np.median(taken))
        print(f"  {name:35} {middle:8.3f} s, worst {max(taken):8.3f}   {base / middle:6.1f} x", flush=True)


def spatial_duckdb(objects: Any) -> Any:
    """Return a connection with the objects, None where the spatial extension cannot be had."""
    import duckdb

    connection = duckdb.connect(config={"threads": 1})
    try:
        connection.execute("LOAD spatial")
    except duckdb.Error as error:
        print(f"DuckDB without its spatial extension: {str(error).splitlines()[0]}")
        return None
    connection.register("places", pa.table({"x": objects[:, 0], "y": objects[:, 1]}))
    connection.execute("CREATE TABLE points AS SELECT ST_Point(x, y) AS geom FROM places")
    return connection


if __name__ == "__main__":
    main()
