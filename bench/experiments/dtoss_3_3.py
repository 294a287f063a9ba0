"""Section 3.3 of the dissertation: how many servers a request touches, by how many there are.

Objects are made of cities by their people, in 128 partitions; places lie near objects. Partitions are given to servers
at random, and by a curve through their pivots (*contiguous*). Servers that are asked are counted, beside those that
have to be when the distance of the k-th object is known. One process, no HTTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dtoss
from bench.experiments.results import Results, Row, grid, point
from bench.measuring.points import in_cities, scattered
from bench.measuring.race import timed
from dtoss.geometry.hilbert import curve_keys
from dtoss.index import Index
from dtoss.kinds.alone import table_of
from dtoss.kinds.hit_tables import last_distance
from dtoss.kinds.kind import Search
from dtoss.partitioning.partition_bounds import far_of_radius, owners_that_may
from dtoss.shards.merge_answers import Together, answered_by
from dtoss.shards.share import Share

PARTITIONS = 128
SIZES = {
    "smoke": (2_000, 200, (2,)),
    "here": (200_000, 5_000, (2, 5, 16, 64, 128)),
    "full": (1_000_000, 20_000, (2, 5, 16, 64, 128)),
}
"""Objects, requests, numbers of servers."""
NEAR_KM, SPRAWL_KM = 0.02, 10.0
KINDS = {"k = 8": (8, np.inf), "radius 1 km": (0, 1_000.0)}
ASKED, NEEDED = "servers asked", "servers needed"


class Servers:
    """Shares; how many places each was asked of, and the processor seconds that it took."""

    def __init__(self, index: Index, server_of: NDArray[np.int64]) -> None:
        self.server_of = server_of
        self.shares = [Share(index, np.flatnonzero(server_of == one).tolist()) for one in range(server_of.max() + 1)]
        self.asked, self.spent = np.zeros((2, len(self.shares)))

    async def ask(self, asks: Sequence[tuple[int, Any]]) -> list[Any]:
        """Ask servers, and count the places of each."""
        answers = []
        for server, one in asks:
            seconds, answer = timed(partial(answered_by, self.shares[server], one), process_time)
            self.asked[server] += len(one.asked)
            self.spent[server] += seconds
            answers.append(answer)
        return answers

    def touched(self, asked: Search) -> float:
        """Return the servers that a place touches in the mean."""
        self.asked, self.spent = np.zeros((2, len(self.shares)))
        asyncio.run(Together(self.shares[0], 0, self.server_of, self.ask).hits(asked))
        return float(self.asked.sum()) / len(asked)


def needed(index: Index, asked: Search, server_of: NDArray[np.int64]) -> float:
    """Return the servers that a place has to touch in the mean, were the answer's reach known."""
    vectors = index.space.vectors(asked.positions)
    far = asked.radius
    if asked.k:
        far = np.minimum(far, last_distance(table_of(index.engine, asked), len(asked), asked.k))
    furthest = np.array([one.furthest if one.sites else -1.0 for one in index.parts.facts])
    home = index.partitioning.nearest(vectors)
    place, part = owners_that_may(
        index.partitioning, vectors, home, far_of_radius(far, vectors.shape[1]), furthest, index.reach
    )
    return len(np.unique(place * (server_of.max() + 1) + server_of[part])) / len(asked)


def run(size: str) -> Iterator[Row]:
    """Yield the servers of a request in the mean, x is how many there are."""
    count, requests, numbers = SIZES[size]
    rng = np.random.default_rng(0)
    objects = in_cities(rng, count, SPRAWL_KM)
    index = dtoss.build(np.arange(count), objects, partitions=PARTITIONS, threads=2, progress=False)
    places = scattered(rng, objects[rng.integers(0, count, requests)], NEAR_KM)
    dealt = {"random": rng.permutation(PARTITIONS)}
    dealt["contiguous"] = np.argsort(np.argsort(curve_keys(index.partitioning.pivots, None)))
    for name, (k, radius) in KINDS.items():
        asked = Search(places, np.full(requests, radius), k)
        for placed, order in dealt.items():
            for servers in numbers:
                server_of = order * servers // PARTITIONS
                touched, least = Servers(index, server_of).touched(asked), needed(index, asked, server_of)
                assert touched >= least - 1e-9
                series = f"{name}, {placed}"
                yield point(series, servers, touched, ASKED, data=f"{count:,} objects, {requests:,} requests")
                yield point(series, servers, least, NEEDED)


def draw(results: Results) -> str:
    """Return servers asked, and needed, by how many there are."""
    return "\n\n".join(grid(results, unit, f"servers: {unit}", "{:.3f}") for unit in (ASKED, NEEDED))
