"""kNN where benchmarks do not look: kinds of places and orders of queries, against three kd-trees, worst cell named.

python -m bench.places [--world taxi ...] [--objects 1000000] [--queries 100000] [--rounds 9] [--k 1 8 32]

One thread, processor time, all in turns in one process, best of the rounds. Ours begins with lon and lat, the others
are given vectors. All distances are compared in the same run.
"""

from __future__ import annotations

import argparse
import os
from time import process_time

os.environ["DTOSS_KERNELS"] = "native"
os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when pykdtree is loaded: it would use every core

import numpy as np
from pykdtree.kdtree import KDTree
from scipy.spatial import cKDTree

from bench.measuring.places import ORDERS, World, indexed, places, race_options, worlds
from dtoss.geometry.distance import EARTH_RADIUS

try:
    import napf
except ImportError:  # it has no wheel for Python 3.13 and later
    napf = None

KS = (1, 8, 32)
RIVALS = ("cKDTree", "pykdtree", "nanoflann") if napf else ("cKDTree", "pykdtree")
GOALS = {
    "cKDTree": {1: 3.5, 8: 2.5, 32: 2.5},
    "pykdtree": {1: 2.0, 8: 1.7, 32: 1.7},
    "nanoflann": {1: 2.0, 8: 1.7, 32: 1.7},
}
AT_RANDOM = 4.0
"""The goal against cKDTree in random order."""
DEGENERATE = 20.0
"""Times as long as ours from which on a rival counts as degenerate in a cell: printed, not counted."""
SOME = 50
"""One in so many queries shows whether a rival is; it is then asked these alone."""


def main() -> None:
    """Race over all worlds that are there, a table each."""
    parser = race_options(__doc__)
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--k", type=int, nargs="*", default=list(KS))
    parser.add_argument("--order", nargs="*", default=list(ORDERS), choices=list(ORDERS))
    options = parser.parse_args()
    for w in worlds(options):
        race_world(w, options)


def race_world(w: World, options: argparse.Namespace) -> None:
    """Print the table of one world, and the worst cell of each k against each rival."""
    index, vectors = indexed(w)
    trees = cKDTree(vectors), KDTree(vectors), napf.KDT(vectors, leaf_size=10, nthread=1) if napf else None
    print(f"\n## {w.name}, {len(w.objects):,} objects on {index.sites:,} sites\n")
    heads = [f"k = {k}: ours, us | {' | '.join(RIVALS)}" for k in options.k]
    print(f"| places | order | {' | '.join(heads)} |")
    print("|---|---|" + "---|" * (len(options.k) * (1 + len(RIVALS))), flush=True)
    cells = []
    for kind in options.place:
        at = places(w, kind, options.queries)
        if at is None:
            continue
        at_vectors = np.ascontiguousarray(index.space.vectors(at))
        for order in options.order:
            row = ORDERS[order](at, at_vectors)
            asked, asked_vectors = np.ascontiguousarray(at[row]), np.ascontiguousarray(at_vectors[row])
            shown = []
            for k in options.k:
                best = _race(index, trees, asked, asked_vectors, k, options.rounds)
                micro = {rival: seconds / len(at) * 1e6 for rival, seconds in best.items()}
                cells += [(kind, order, k, rival, micro["ours"], micro[rival]) for rival in RIVALS]
                shown += [f"{micro['ours']:.3f}"] + [f"{micro[rival] / micro['ours']:.2f}" for rival in RIVALS]
            print(f"| {kind} | {order} | {' | '.join(shown)} |", flush=True)
    _say_worst(cells, options.k)


def _race(index, trees, asked, vectors, k, rounds):
    """Return the best time of each, in seconds; all distances are compared."""
    scipy, pykdtree, nanoflann = trees
    every = {
        "ours": lambda v: index.knn(asked, k),
        "cKDTree": lambda v: scipy.query(v, k),
        "pykdtree": lambda v: pykdtree.query(v, k),
        "nanoflann": lambda v: nanoflann.knn_search(v, k),
    }
    every = {name: every[name] for name in ("ours", *RIVALS)}
    # who takes far longer is given a part of the work
    few = np.ascontiguousarray(vectors[::SOME])
    index.knn(asked, k)
    limit = DEGENERATE * _seconds(every["ours"], vectors) / len(vectors) * len(few)
    given = {name: few if name != "ours" and _seconds(work, few) > limit else vectors for name, work in every.items()}
    times = {name: [] for name in every}
    names, last = list(every), {}
    for _ in range(rounds):
        for name in names:
            begin = process_time()
            last[name] = every[name](given[name])
            times[name].append((process_time() - begin) * len(vectors) / len(given[name]))
        names.append(names.pop(0))  # each comes after another one the next time
    far = last["ours"].distance.reshape(len(asked), k)
    chords = {rival: last[rival][0] for rival in RIVALS}
    if napf:
        chords["nanoflann"] = np.sqrt(chords["nanoflann"])
    for name, chord in chords.items():
        chord = np.asarray(chord).reshape(len(given[name]), k)
        true = chord if vectors.shape[1] == 2 else 2 * EARTH_RADIUS * np.arcsin(np.minimum(chord / 2, 1.0))
        same = far if len(true) == len(far) else far[::SOME]
        np.testing.assert_allclose(same, true, rtol=1e-7, atol=1e-6, err_msg=name)
    return {name: min(seconds) for name, seconds in times.items()}


def _seconds(work, vectors):
    begin = process_time()
    work(vectors)
    return process_time() - begin


def _say_worst(cells, ks):
    print()
    for k in ks:
        for rival in RIVALS:
            mine = [cell for cell in cells if cell[2:4] == (k, rival)]
            counted = [cell for cell in mine if cell[5] <= DEGENERATE * cell[4]]
            ratio = [cell[5] / cell[4] for cell in counted]
            worst = counted[int(np.argmin(ratio))]
            goal = GOALS[rival].get(k, 0.0)
            said = f"worst {min(ratio):.2f} ({worst[0]}, {worst[1]}), goal {goal}"
            if rival == "cKDTree":
                at_random = [cell[5] / cell[4] for cell in counted if cell[1] == "random"]
                said += f"; worst at random {min(at_random):.2f}, goal {AT_RANDOM}" if at_random else ""
            print(f"- k = {k} against {rival}: median {np.median(ratio):.2f}, {said}")


if __name__ == "__main__":
    main()
