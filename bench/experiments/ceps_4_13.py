"""Figures 4.13 and 4.14 of the dissertation: throughput of ranges by their radius, under a grid and under CEPS+.

Objects are made of cities by their people, in 128 partitions that have a day of requests, and servers are all of one
type. Ranges lie near objects. The processor time of each server is measured in one process; *requests a second* is a
model: all wait for the busiest server, and a message takes what it takes on loopback. Ways that need another number of
servers are compared by what one of them does.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import dtoss
from bench.experiments.dtoss_3_3 import PARTITIONS, Servers
from bench.experiments.dtoss_3_15 import message_us
from bench.experiments.results import Results, Row, grid, point
from bench.measuring.points import in_cities, scattered
from bench.serve.day import patterns_of, types_of
from ceps import plan
from dtoss.kinds.kind import Search

SIZES = {"smoke": (2_000, 100, 1, 100), "here": (200_000, 2_000, 3, 20_000), "full": (2_000_000, 10_000, 3, 20_000)}
"""Objects, ranges, turns of which the least counts, messages by which one is timed."""
MILES, METRES = (5, 25, 50), 1_609.344
PEAK, SECONDS = 400.0, 144.0
"""Requests a second and seconds of a day: of the plans, which have to meet them."""
METHODS = {"GP": "gp", "GP-R": "gp-r", "CEPS+": "tabu", "fleet": "fleet"}
RATE, ASKED = "requests a second of a server (modelled)", "servers asked"


def run(size: str) -> Iterator[Row]:
    """Yield the modelled rate and the servers of a range, x is the radius."""
    count, ranges, turns, sent = SIZES[size]
    rng = np.random.default_rng(0)
    objects = in_cities(rng, count, 10.0)
    index = dtoss.build(np.arange(count), objects, partitions=PARTITIONS, threads=2, progress=False)
    places = scattered(rng, objects[rng.integers(0, count, ranges)], 0.02)
    patterns, types, price = patterns_of(index, PEAK, SECONDS), types_of(PEAK)[1:2], message_us(sent) / 1e6
    for name, method in METHODS.items():
        servers = Servers(index, plan(patterns, servers=types, method=method).server_of)
        for miles in MILES:
            asked, busiest = Search(places, np.full(ranges, miles * METRES), 0), np.inf
            for _ in range(turns):
                touched = servers.touched(asked)
                busiest = min(busiest, float((servers.spent + 2 * price * servers.asked).max()))
            x, rate = f"{miles} miles", ranges / busiest / len(servers.shares)
            yield point(name, x, rate, RATE, modelled=True, data=f"{count:,} objects, {ranges:,} ranges")
            yield point(name, x, touched, ASKED)


def draw(results: Results) -> str:
    """Return rates and servers by radius."""
    return "\n\n".join(grid(results, unit, unit, form) for unit, form in ((RATE, "{:,.0f}"), (ASKED, "{:.2f}")))
