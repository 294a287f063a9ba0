"""What a frame costs beside plain arrays: building an index of it, and asking about its rows.

python -m bench.frames.ways_in [--objects 1000000] [--rounds 7]

One thread, processor time, all in turns in one process, in another order each round: the median and the worst of them.
The objects are uniform on the sphere, with three attributes (whole numbers, categories, text). "read" is what stands
between a frame and the arrays that it holds. It ends by one question of one place, which frames must not slow down.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from time import process_time, process_time_ns
from typing import Any

import geopandas as gpd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import dtoss
from dtoss.frames.coordinates import as_places
from dtoss.frames.objects_of import Objects, objects_of
from dtoss.geometry.space import space_of

K = 8
ONE_BY_ONE = 2_000
"""Questions of one place in a round."""


def frames_of(n: int) -> dict[str, Any]:
    """The same objects in each kind of frame."""
    rng = np.random.default_rng(0)
    lon, lat = rng.uniform(-180, 180, n), np.degrees(np.arcsin(rng.uniform(-1, 1, n)))
    columns = {
        "id": np.arange(n), "seats": rng.integers(0, 9, n),
        "kind": pd.Categorical.from_codes(rng.integers(0, 3, n), ["bus", "taxi", "van"]),
        "make": np.array([f"make {i}" for i in range(1000)], dtype=object)[rng.integers(0, 1000, n)],
    }  # fmt: skip
    table = pd.DataFrame({"lat": lat, **columns, "lon": lon})
    shapes = gpd.GeoDataFrame(columns, geometry=gpd.points_from_xy(lon, lat), crs="EPSG:4326")
    return {
        "GeoDataFrame": shapes,
        "pandas": table,
        "Polars": pl.from_pandas(table),
        "Arrow": pa.Table.from_pandas(table),
        "GeoArrow": pa.table(shapes.to_arrow(index=False, geometry_encoding="geoarrow")),
        "WKB": pa.table(shapes.to_arrow(index=False, geometry_encoding="WKB")),
    }


def clocked(ask: Callable[[], Any]) -> float:
    """Seconds of the processor that a call takes."""
    begin = process_time()
    ask()
    return process_time() - begin


def shown(seconds: list[float]) -> str:
    """The median and the worst of some rounds."""
    return f"{np.median(seconds):.3f} (worst {max(seconds):.3f})"


def round_of(frame: Any, held: Objects) -> tuple[float, float, float]:
    """Seconds to read a frame, to build an index of it, and to read its places; of arrays where it is None."""
    if frame is None:
        build = clocked(lambda: dtoss.build(held.ids, held.positions, columns=held.columns))
        return 0.0, build, clocked(lambda: as_places(held.positions, space_of()))
    read = clocked(lambda: objects_of(frame))
    return read, clocked(lambda: dtoss.build(frame)), clocked(lambda: as_places(frame, space_of()))


def main() -> None:
    """Print a table of ways in, and the time of one question."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    frames = frames_of(options.objects)
    held = objects_of(frames["pandas"])
    index = dtoss.build(held.ids, held.positions)
    ways: dict[str, list[tuple[float, float, float]]] = {"arrays": [], **{name: [] for name in frames}}
    rng = np.random.default_rng(1)
    for _ in range(options.rounds):
        for name in rng.permutation(list(ways)).tolist():
            ways[name].append(round_of(frames.get(name), held))
    print(f"{options.objects:,} objects, {options.rounds} rounds; seconds\n")
    print("| frame | read for an index | the index of it | read as places |\n|---|---|---|---|")
    for name, rounds in ways.items():
        print(f"| {name} | {' | '.join(shown(list(column)) for column in zip(*rounds, strict=True))} |", flush=True)
    place = [2.35, 48.85]
    index.knn(place, k=K)
    times = []
    for _ in range(20):
        begin = process_time_ns()
        for _ in range(ONE_BY_ONE):
            index.knn(place, k=K)
        times.append((process_time_ns() - begin) / ONE_BY_ONE)
    print(f"\none place, k = {K}: {np.median(times):.0f} ns, best {min(times):.0f}, worst {max(times):.0f}")


if __name__ == "__main__":
    main()
