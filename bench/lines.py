"""Objects on lines: how long their index takes, against as many uniform objects, in turns.

``python -m bench.lines [--objects 200000] [--rounds 3]``
"""

from __future__ import annotations

import argparse
from time import process_time

import numpy as np
from numpy.typing import NDArray

import dtoss
from dtoss.geometry.space import space_of, to_lonlat

PLANE = ("uniform in the plane", "line", "tilted line", "two parallel lines")


def worlds(n: int, seed: int = 0) -> dict[str, NDArray[np.float64]]:
    """Return positions by name; the first of each kind is uniform."""
    rng = np.random.default_rng(seed)
    along, none = rng.uniform(size=n), np.zeros(n)
    turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    space = space_of(None, None)

    def turned(lon: NDArray[np.float64]) -> NDArray[np.float64]:
        return to_lonlat(space, space.vectors(np.stack([lon, none], 1)) @ turn.T)

    one, ten = rng.integers(0, 2, n), rng.integers(0, 10, n)
    return {
        "uniform on the sphere": np.stack([360 * along - 180, np.degrees(np.arcsin(2 * rng.uniform(size=n) - 1))], 1),
        "equator": np.stack([360 * along - 180, none], 1),
        "1 degree of the equator": np.stack([along, none], 1),
        "great circle": turned(360 * along - 180),
        "1 degree of a great circle": turned(along),
        "parallel": np.stack([360 * along - 180, none + 45], 1),
        "meridian": np.stack([none + 17, 180 * along - 90], 1),
        "arc, noise of 1e-6 degrees": np.stack([40 * along, 1e-6 * rng.normal(size=n)], 1),
        "two meridians 0.001 degrees apart": np.stack([one * 0.001, 180 * along - 90], 1),
        "ten meridians 0.001 degrees apart": np.stack([ten * 0.001, 180 * along - 90], 1),
        "two parallels 0.001 degrees apart": np.stack([360 * along - 180, 10 + one * 0.001], 1),
        "a meridian and the equator": np.where(one[:, None], np.stack([along, none], 1), np.stack([none, along], 1))
        * 80,
        "uniform in the plane": np.stack([along, rng.uniform(size=n)], 1) * 1e5,
        "line": np.stack([along * 1e5, none], 1),
        "tilted line": np.stack([along * 1e5 + 4e5, along * 3e4 + 5e6], 1),
        "two parallel lines": np.stack([along * 1e5, np.where(rng.uniform(size=n) < 0.5, 0.0, 1.0)], 1),
    }


def seconds(positions: NDArray[np.float64], crs: str) -> float:
    """Return the processor time of an index."""
    begin = process_time()
    dtoss.build(np.arange(len(positions)), positions, crs=crs)
    return process_time() - begin


def main() -> None:
    """Print the least time of each world, and its ratio to uniform objects of the same kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objects", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    made = worlds(given.objects)
    least = dict.fromkeys(made, np.inf)
    for _ in range(given.rounds):
        for name, positions in made.items():
            least[name] = min(least[name], seconds(positions, "none" if name in PLANE else "EPSG:4326"))
    base = 1.0
    for name, time in least.items():
        base = time if name.startswith("uniform") else base
        print(f"{name:34} {time:8.3f} s {time / base:8.1f} times uniform")


if __name__ == "__main__":
    main()
