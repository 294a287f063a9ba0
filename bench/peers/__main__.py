"""Other systems side by side with ours: the same objects, the same queries, answers checked. Run by hand.

pip install sedonadb "duckdb==1.5.5" duckdb-extensions duckdb-extension-spatial "psycopg[binary]" redis geoarrow-pyarrow
apt-get install postgresql postgresql-15-postgis-3 redis-server
python -m bench.peers.__main__ [sedonadb] [duckdb] [postgis] [redis] [--kind taxi] [--objects 1000000]

Servers are started on loopback, on free ports, in scratch folders, and ended at the end; what is not installed is left
out with a line that says so.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from types import MappingProxyType

import numpy as np

import dtoss
from bench.measuring.machine import processor_seconds
from bench.measuring.points import KINDS, OBJECTS, Points, missing, points, radius_for
from bench.measuring.race import timed
from bench.peers.agreeing import Missing, Pairs, Peer
from bench.peers.servers import postgis, redis
from bench.peers.sql import duckdb, sedonadb
from dtoss.geometry.distance import distance
from dtoss.geometry.space import space_of

Starter = Callable[[Points, Path], AbstractContextManager[Peer]]
PEERS: MappingProxyType[str, Starter] = MappingProxyType(
    {"sedonadb": sedonadb, "duckdb": duckdb, "postgis": postgis, "redis": redis}
)
K = 8
RANGES = (10, 1_000)
NEAR_ENOUGH = 1e-5
"""Metres by which a distance may differ before an answer counts as another one."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peers", nargs="*", metavar="peer", help=f"of {', '.join(PEERS)}; all when none is named")
    parser.add_argument("--kind", choices=KINDS, default="taxi")
    parser.add_argument("--objects", type=int, default=OBJECTS)
    options = parser.parse_args()
    unknown = set(options.peers) - set(PEERS)
    if unknown:
        parser.error(f"{', '.join(sorted(unknown))} is not one of {', '.join(PEERS)}")
    if missing(options.kind):
        parser.error(f"{missing(options.kind)}: give --kind uniform")
    at = points(options.kind, options.objects)
    dtoss.build(np.arange(100), at.objects[:100])
    build_seconds, index = timed(lambda: dtoss.build(np.arange(len(at.objects)), at.objects), process_time)
    radii = {hits: radius_of(index, at, hits) for hits in RANGES}
    print(f"{options.kind}, {options.objects:,} objects; radii {radii[10]:.2f} m and {radii[1000]:.1f} m")
    print("Seconds are of processor time, of all processes that take part: 1 is a whole core.")
    print("| system | build s | work | queries | its queries/s | ours/s | ours is | answers as ours |")
    print("|---|---|---|---|---|---|---|---|")
    print(f"| dtoss {dtoss.__version__} | {build_seconds:.2f} | | | | | | |", flush=True)
    for name in options.peers or PEERS:
        with TemporaryDirectory() as folder:
            try:
                with PEERS[name](at, Path(folder)) as peer:
                    for line in compared(peer, index, at, radii):
                        print(line, flush=True)
            except Missing as reason:
                print(f"| {name} | left out: {reason} | | | | | | |", flush=True)


def radius_of(index: dtoss.Index, at: Points, hits: int) -> float:
    """Return the radius in metres with so many hits in the mean."""
    return radius_for(hits, lambda radius: float(index.count(at.queries[::50], radius).mean()))


def compared(peer: Peer, index: dtoss.Index, at: Points, radii: dict[int, float]) -> Iterator[str]:
    """Yield a row of the table for each work: rates of the peer and of ours, one after the other, and the check."""
    first = f"{peer.name} | {peer.build_seconds:.2f}"
    for work in (f"k={K}", *(f"{hits} hits" for hits in RANGES)):
        answer = peer.knn if work.startswith("k") else peer.range
        count = peer.queries.get(work, 0)
        if answer is None or count == 0:
            yield f"| {first} | {work} | - | - | - | - | - |"
            continue
        knn = work.startswith("k")
        argument = K if knn else radii[int(work.split()[0])]
        ask = index.knn if knn else index.range
        # the queries stand in curve order: every so many, to be spread over all
        places = at.queries[np.linspace(0, len(at.queries) - 1, count).astype(np.int64)]
        many = at.queries[:: 1 if work != "1000 hits" else 20]
        answer(places[:2], argument)
        ask(many[:100], argument)
        theirs_seconds, theirs = timed(partial(answer, places, argument), processor_seconds)
        ours_seconds, _ = timed(partial(ask, many, argument), process_time)
        same = agreeing(ask(places, argument), theirs, at, places, K if knn else None)
        theirs_rate, ours_rate = count / theirs_seconds, len(many) / ours_seconds
        yield (
            f"| {first} | {work} | {count:,} | {theirs_rate:,.0f} | {ours_rate:,.0f} | {ours_rate / theirs_rate:,.1f}x "
            f"| {same:,} of {count:,} |"
        )
        first = f"{peer.name} |"


def agreeing(ours: dtoss.Hits, theirs: Pairs, at: Points, places: np.ndarray, k: int | None) -> int:
    """Return how many queries have the same answer: equal distances by rank for kNN (ties aside), else equal sets."""
    vectors = space_of().vectors(places)
    query, row = theirs
    far = distance(vectors[query], at.vectors[row])
    order = np.lexsort((row if k is None else far, query))
    query, row, far = query[order], row[order], far[order]
    mine = np.lexsort((ours.id if k is None else ours.distance, ours.query))
    starts_theirs = np.searchsorted(query, np.arange(len(places) + 1))
    starts_ours = np.searchsorted(ours.query, np.arange(len(places) + 1))
    same = 0
    for i in range(len(places)):
        a, b = slice(*starts_theirs[i : i + 2]), mine[starts_ours[i] : starts_ours[i + 1]]
        if a.stop - a.start != len(b):
            continue
        if k is None:
            same += np.array_equal(row[a], ours.id[b])
        else:
            same += len(b) == k and bool((np.abs(far[a] - ours.distance[b]) <= NEAR_ENOUGH).all())
    return same


if __name__ == "__main__":
    main()
