"""Tiles of a server's map by zoom: milliseconds, bytes, bytes compressed; and what is made once for a snapshot.

    python -m bench.serve.tiles STORE [STORE ...] [--layers objects,regions,cells] [--tiles 60] [--by COLUMN]

Tiles are those round objects of the sample, drawn at random, so that a dense tile counts as often as somebody looks at
it. Each is made once before it is measured. One thread, no HTTP; compression is measured by itself.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dtoss.serve.answers.open_snapshots import ServedSnapshot
from dtoss.serve.core.server_settings import Settings
from dtoss.serve.reload.prepare import first_snapshot
from dtoss.serve.routes.tiles import TileRequest, gzipped, layer_of
from dtoss.serve.tiles.tiling import DEEPEST_TILE, Tiles

T = TypeVar("T")
SEED = 0


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """What a call returns, and the milliseconds that it takes."""
    began = time.perf_counter()
    made = work()
    return made, (time.perf_counter() - began) * 1e3


def made_once(served: ServedSnapshot) -> None:
    """Print what the sample and the classes of each attribute cost."""
    times = [timed(lambda: Tiles(served.index).sampled())[1] for _ in range(5)]
    sample = served.tiles.sample
    size = sample.keys.nbytes + sample.part.nbytes + sample.item.nbytes
    print(f"sample: 1 of {sample.one_of}, {len(sample.keys):,} objects, {size / 1e6:.1f} MB, {min(times):.0f} ms")
    for name in served.index.column_names:
        tiles = Tiles(served.index)
        tiles.sampled()
        print(f"classes of {name}: {timed(lambda tiles=tiles, name=name: tiles.classes(name))[1]:.0f} ms")


def places(served: ServedSnapshot, count: int) -> NDArray[np.float64]:
    """Where objects of the sample stand in the map's square, drawn at random."""
    sample, index = served.tiles.sample, served.index
    rows = np.random.default_rng(SEED).integers(0, len(sample.keys), count).tolist()
    positions = [index.parts[int(sample.part[row])].positions[int(sample.item[row])] for row in rows]
    return served.tiles.frame.world_of(np.array(positions))


def by_zoom(served: ServedSnapshot, layer: str, count: int, by: str | None) -> None:
    """Print a row for each zoom: medians and, behind a slash, 95 of 100."""
    make, world = layer_of(layer), places(served, count)
    print(f"\n{layer}{f' by {by}' if by else ''}\n\n| zoom | tiles | ms | kB | compressed kB | to compress, ms |")
    print("|" + "---|" * 6)
    for z in range(DEEPEST_TILE + 1):
        tiles = sorted({tuple(one) for one in np.minimum((world * 2**z).astype(int), 2**z - 1).tolist()})
        taken, sizes, packed, packing = [], [], [], []
        for x, y in tiles:
            wanted = TileRequest(z, x, y, by)
            make(served, wanted)
            body, spent = timed(lambda wanted=wanted: make(served, wanted))
            small, pressed = timed(lambda body=body: gzipped(body))
            taken.append(spent)
            sizes.append(len(body) / 1e3)
            packed.append(len(small) / 1e3)
            packing.append(pressed)
        cells = " | ".join(said(figures) for figures in (taken, sizes, packed, packing))
        print(f"| {z} | {len(tiles)} | {cells} |")


def said(figures: list[float]) -> str:
    """Median / 95 of 100."""
    return f"{np.median(figures):.2f} / {np.quantile(figures, 0.95):.2f}"


def main() -> None:
    """Print tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stores", nargs="+")
    parser.add_argument("--layers", default="objects")
    parser.add_argument("--tiles", type=int, default=60)
    parser.add_argument("--by")
    given = parser.parse_args()
    for path in given.stores:
        served, spent = timed(lambda path=path: first_snapshot(Settings(path, verify=False)))
        facts = served.facts
        print(f"\n{facts['objects']:,} objects, {facts['partitions']} partitions; {platform.machine()}, ", end="")
        print(f"load {os.getloadavg()[0]:.1f}; open and warm in {spent / 1e3:.1f} s")
        made_once(served)
        for layer in given.layers.split(","):
            by_zoom(served, layer, given.tiles, given.by if layer == "objects" else None)


if __name__ == "__main__":
    main()
