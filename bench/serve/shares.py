"""Servers touched by a request where each holds a share of the partitions: python -m bench.serve.shares [--objects N].

Objects are made of cities by their people, in 128 partitions; places lie near objects. Partitions are given to 2 and 5
servers at random, and by a curve through their pivots (contiguous). The servers that are asked are counted, beside
those that have to be when the distance of the k-th object is known. One process, no HTTP: the messages are counted.

Exits with 1 and the goals that are missed.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dtoss
from bench.measuring.scattering import scattered
from bench.measuring.verdicts import Goals
from datasets.cities.geonames import cities
from dtoss.geometry.hilbert import curve_keys
from dtoss.partitioning.partition_bounds import far_of_radius, owners_that_may
from dtoss.shards.merge_answers import Together, answered_by
from dtoss.shards.shard_queries import ShardQuery, last_distance, table_of
from dtoss.shards.share import Share

PARTITIONS, REQUESTS = 128, 20_000
NEAR_KM, SPRAWL_KM, KM = 0.02, 10.0, 1_000.0
WITHIN = 1.02
"""Servers asked over those that have to be."""
KINDS = (("k = 8", 8, np.inf), ("radius 1 km", 0, KM))
GOALS = {
    ("k = 8", "random"): (1.010, 1.016),
    ("k = 8", "contiguous"): (1.000, 1.003),
    ("radius 1 km", "random"): (1.12, 1.25),
    ("radius 1 km", "contiguous"): (1.01, 1.03),
}
"""What the reading has measured with 2 and with 5 servers."""


class Servers:
    """Shares, and how many servers each place has touched."""

    def __init__(self, index: dtoss.Index, server_of: NDArray[np.int64]) -> None:
        self.index, self.server_of = index, server_of
        self.shares = [Share(index, np.flatnonzero(server_of == one).tolist()) for one in range(server_of.max() + 1)]
        self.others = 0

    async def ask(self, asks: Sequence[tuple[int, Any]]) -> list[Any]:
        """Ask servers, and count the places of each."""
        self.others += sum(len(one.asked) for _, one in asks)
        return [answered_by(self.shares[server], one) for server, one in asks]

    def touched(self, asked: ShardQuery) -> float:
        """Return the servers that a place touches in the mean."""
        self.others = 0
        asyncio.run(Together(self.shares[0], 0, self.server_of, self.ask).hits(asked))
        return self.others / len(asked)


def needed(index: dtoss.Index, asked: ShardQuery, server_of: NDArray[np.int64]) -> float:
    """Return the servers that a place has to touch in the mean, were the answer's reach known."""
    vectors = index.space.vectors(asked.positions)
    far = asked.radius
    if asked.k:
        far = np.minimum(far, last_distance(table_of(index, asked), len(asked), asked.k))
    furthest = np.array([one.furthest if one.sites else -1.0 for one in index.parts.facts])
    home = index.partitioning.nearest(vectors)
    place, part = owners_that_may(index.partitioning, vectors, home, far_of_radius(far, 3), furthest, index.reach)
    return len(np.unique(place * (server_of.max() + 1) + server_of[part])) / len(asked)


def main() -> None:
    """Count servers for each kind of request and of placement."""
    parser = argparse.ArgumentParser(description="Servers touched by a request.")
    parser.add_argument("--objects", type=int, default=1_000_000)
    count = parser.parse_args().objects
    rng, known, goals = np.random.default_rng(0), cities(), Goals()
    middles = np.column_stack([known.lon, known.lat])
    people = known.population / known.population.sum()
    objects = scattered(rng, middles[rng.choice(len(middles), count, p=people)], SPRAWL_KM)
    index = dtoss.build(np.arange(count), objects, partitions=PARTITIONS, threads=2, progress=False)
    places = scattered(rng, objects[rng.integers(0, count, REQUESTS)], NEAR_KM)
    along = np.argsort(np.argsort(curve_keys(index.partitioning.pivots, None)))
    print(f"{count:,} objects, {PARTITIONS} partitions, {REQUESTS:,} requests")
    for name, k, radius in KINDS:
        asked = ShardQuery(places, np.full(REQUESTS, radius), k)
        for placed in ("random", "contiguous"):
            for at, servers in enumerate((2, 5)):
                dealt = rng.permutation(PARTITIONS) if placed == "random" else along
                server_of = dealt * servers // PARTITIONS
                found = Servers(index, server_of).touched(asked)
                least = needed(index, asked, server_of)
                over = goals.ask(
                    f"{name}, {placed}, {servers} servers: over what is needed", found / least, most=WITHIN
                )
                print(
                    f"  {name:12s} {placed:11s} {servers} servers  {found:.4f}, needed {least:.4f} {over}; the reading "
                    f"has {GOALS[name, placed][at]:.3f}"
                )
    goals.end()


if __name__ == "__main__":
    main()
