"""Objects on lines: how long their cells take, against as many uniform objects, in turns.

``python -m bench.lines [--objects 200000] [--rounds 3]``
"""

from __future__ import annotations

import argparse
from time import process_time

import numpy as np
from numpy.typing import NDArray

from dtoss.cells import voronoi
from dtoss.curve import arranged, curve_keys, radix_order
from dtoss.space import space_of


def worlds(n: int, seed: int = 0) -> dict[str, NDArray[np.float64]]:
    """Return unit vectors or planar sites by name; the first of each kind is uniform."""
    rng = np.random.default_rng(seed)
    along, none = rng.uniform(size=n), np.zeros(n)
    turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    sphere = {
        "uniform on the sphere": np.stack([360 * along - 180, np.degrees(np.arcsin(2 * rng.uniform(size=n) - 1))], 1),
        "equator": np.stack([360 * along - 180, none], 1),
        "great circle": np.stack([360 * along - 180, none], 1),
        "track of 1 degree": np.stack([along, none], 1),
        "track of 1 degree on the equator": np.stack([along, none], 1),
        "parallel": np.stack([360 * along - 180, none + 45], 1),
        "meridian": np.stack([none + 17, 180 * along - 90], 1),
        "arc, noise of 1e-6 degrees": np.stack([40 * along, 1e-6 * rng.normal(size=n)], 1),
    }
    made = {name: space_of(None, None).vectors(places) for name, places in sphere.items()}
    for name in ("great circle", "track of 1 degree"):
        made[name] = made[name] @ turn.T
        made[name] /= np.linalg.norm(made[name], axis=1)[:, None]
    return made | {
        "uniform in the plane": np.stack([along, rng.uniform(size=n)], 1) * 1e5,
        "line": np.stack([along * 1e5, none], 1),
        "tilted line": np.stack([along * 1e5 + 4e5, along * 3e4 + 5e6], 1),
        "two parallel lines": np.stack([along * 1e5, np.where(rng.uniform(size=n) < 0.5, 0.0, 1.0)], 1),
    }


def seconds(vectors: NDArray[np.float64]) -> float:
    """Return the processor time of the diagram of some vectors, sorting included."""
    bounds = None
    if vectors.shape[1] == 2:
        low, high = vectors.min(axis=0), vectors.max(axis=0)
        margin = 0.1 * float((high - low).max())
        bounds = np.concatenate([low - margin, high + margin])
    begin = process_time()
    sites = arranged(vectors, radix_order(curve_keys(vectors)))
    sites = np.ascontiguousarray(sites[np.append(True, (sites[1:] != sites[:-1]).any(axis=1))])
    voronoi(sites, bounds)
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
        for name, vectors in made.items():
            least[name] = min(least[name], seconds(vectors))
    base = 1.0
    for name, time in least.items():
        base = time if name.startswith("uniform") else base
        print(f"{name:34} {time:8.3f} s {time / base:8.1f} times uniform")


if __name__ == "__main__":
    main()
