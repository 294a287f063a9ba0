"""SWARM's figures 11 to 16 and 18 to 20 by the simulator; figure 17, the use of processors and network, is not made.

Storm's 22 machines are 22 workers here, a round is what the paper's 15 seconds are, and tweets are made rows over
cities of the United States by their people. What a machine can do is taken as even: throughput is the rows of a round
over the work of the busiest worker. Units of work are the paper's, queries times tuples a second. *swarm* is as
written, *swarm-work* has the work of rows for its cost, *swarm-always* moves eight times a round besides; *ours* is
what `dtoss watch` does. Replication ends where a worker's memory does: our index of as many circles is built, and its
bytes say how many queries a virtual machine of the paper could hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from bench.experiments.results import Results, Row, grid, point
from bench.watch.rounds import HEATS, SIDE, Scenario, hotspot, states
from bench.watch.swarm_lines import no_statistics
from bench.watch.worlds import circles
from ceps.balance.rehearse import StrategyRun, rehearse
from ceps.balance.swarm import CENTRAL_NUMBERS, NUMBER_BYTES, RectangleCosts, cut_in_halves, exchange
from ceps.strategies import strategy_of
from dtoss.geometry.space import space_of
from dtoss.watch.index.build_index import build

QUERIES = (25_000, 50_000, 100_000, 200_000)
SIZES = {
    "smoke": ((500,), ("step",), 4, 500, 2, 1, 2_000),
    "here": (QUERIES, tuple(HEATS), 60, 30_000, 15, 20, 1_000_000),
    "full": (QUERIES, tuple(HEATS), 60, 30_000, 15, 20, 16_000_000),
}
"""Queries, kinds of hot spots, rounds, rows of each, the first that counts, turns of what is timed, queries held."""
NAMES = ("replicated", "uniform", "history", "swarm", "swarm-work", "swarm-always", "ours")
WORKERS = 22
LOAD = 0.8
"""Of what the evenest strategy could do, at which latencies are read."""
UNITS_OF_WORK, LATENCY, COPIES = "units of work", "latency, services", "copies stored"
QUERY_RADIUS_METRES, TOWN_DEGREES = 3_700.0, 0.1
"""Half of 0.16 % of the width of the States, as section 6 has it; how far around a town queries lie."""
MACHINE_BYTES = 4e9
"""Of a virtual machine in section 6."""
HELD, MEAN, WORST, BYTES, MICROSECONDS = (
    "million queries in 4 GB",
    "share of an even spread",
    "the same in the worst round",
    "bytes a round",
    "us",
)


def rates(one: StrategyRun, scenario: Scenario, first: int) -> NDArray[np.float64]:
    """Return rows for a unit of the busiest worker's work, by round, after the first."""
    rows = scenario.rows[1:].sum(axis=1)
    return np.asarray((rows / one.work.max(axis=1))[first:], np.float64)


def latency(one: StrategyRun, rate: float, scenario: Scenario, first: int) -> float:
    """Return the mean delay of a row in services, where each worker is a queue; infinite where one is never empty.

    A queue of constant service: 1 + u / (2 (1 - u)) at the utilisation u, weighed by the work of the workers.
    """
    rows = scenario.rows[1:].sum(axis=1)[first:, None]
    work = one.work[first:]
    use = work * rate / rows
    if (use.mean(axis=0) >= 1.0).any():
        return float("inf")
    use = np.minimum(use, 0.995)
    delay = 1.0 + use / (2.0 * (1.0 - use))
    return float((delay * work).sum() / work.sum())


def run(size: str) -> Iterator[Row]:
    """Yield figure 11 by the number of queries, 12 to 16 by the kind of hot spot, 18 to 20 by what is done."""
    counts, kinds, rounds, rows, first, turns, held = SIZES[size]
    data = f"made rows over US cities, {rows:,} a round"
    for count in counts:
        scenario = hotspot("normal", subscriptions=count, rounds=rounds, rows=rows)
        found = {name: rehearse(name, strategy_of(name, WORKERS), scenario.rounds()) for name in NAMES}
        assert all(one.copies.min() >= 1 - 1e-9 for one in found.values())  # each subscription is stored
        load = LOAD * float(rates(found["ours"], scenario, first).mean())
        for name, one in found.items():
            yield point(name, count, count * rates(one, scenario, first).mean(), UNITS_OF_WORK, data=data)
            yield point(name, count, latency(one, load, scenario, first), LATENCY, modelled=True)
            yield point(name, count, one.copies[first:].mean(), COPIES)
    for kind in kinds:
        scenario = hotspot(kind, rounds=rounds, rows=rows)
        for name in NAMES[1:]:
            share = 1.0 / rehearse(name, strategy_of(name, WORKERS), scenario.rounds()).max_over_mean[first:]
            yield point(name, kind, share, MEAN)
            yield point(name, kind, share.min(), WORST)
    yield from messages(rounds, rows)
    yield from seconds(rows, turns)
    yield from memory(held)


def memory(count: int) -> Iterator[Row]:
    """Yield how many queries a machine could hold, by the bytes of an index of so many around towns."""
    rng = np.random.default_rng(0)
    towns, share = states()
    centres = towns[rng.choice(len(towns), count, p=share)] + rng.normal(0.0, TOWN_DEGREES, (count, 2))
    built = build(circles(centres, np.full(count, QUERY_RADIUS_METRES)), space_of(), {}, text=False)
    most = MACHINE_BYTES / (built.bytes / count) / 1e6
    data = f"an index of {count:,} circles around US cities"
    yield point("replicated", "a worker holds all", most, HELD, modelled=True, data=data)


def messages(rounds: int, rows: int) -> Iterator[Row]:
    """Figure 20: bytes that are sent for a decision."""
    scenario = hotspot("normal", rounds=rounds, rows=rows)
    for name in ("swarm", "swarm-always", "ours"):
        sent = rehearse(name, strategy_of(name, WORKERS), scenario.rounds()).messages
        yield point(name, "messages", sent.mean(), BYTES)
    each = CENTRAL_NUMBERS * NUMBER_BYTES
    yield point("a histogram of all cells", "messages", each * SIDE * SIDE, BYTES)
    yield point("a histogram of cells with rows", "messages", each * (scenario.rows > 0).sum(axis=1).mean(), BYTES)


def seconds(rows: int, turns: int) -> Iterator[Row]:
    """Figures 18 and 19: what a statistic of a point and an exchange between two workers cost."""
    rng = np.random.default_rng(0)
    held, points = no_statistics(SIDE), rng.integers(0, SIDE, rows)
    ends = np.sort(rng.integers(0, SIDE, (1_000, 2)), axis=1)
    begun = perf_counter()
    for _ in range(turns):
        held = held.after_round(points, ends[:, 0], ends[:, 1])
    yield point("a statistic of a point", "18, 19", 1e6 * (perf_counter() - begun) / turns / rows, MICROSECONDS)
    loads, asked = list(hotspot("step", rounds=3, rows=rows).rounds())[1]
    for cost in ("paper", "work"):
        priced, cut = RectangleCosts(loads, asked, loads.rows, cost), cut_in_halves(loads.shape, WORKERS)
        begun = perf_counter()
        for _ in range(turns):
            exchange(cut, priced, WORKERS)
        yield point(f"an exchange, cost of {cost}", "18, 19", 1e6 * (perf_counter() - begun) / turns, MICROSECONDS)


def draw(results: Results) -> str:
    """Return a table a unit."""
    base = results.of("history", UNITS_OF_WORK)
    over = [point(row.series, row.x, row.y / base[row.x], UNITS_OF_WORK) for row in results.rows
            if row.unit == UNITS_OF_WORK]  # fmt: skip
    tables = [grid(Results("", tuple(over)), UNITS_OF_WORK, "queries: units of work, those of the history grid = 1")]
    tables += [grid(results, unit, f"{head}: {unit}") for unit, head in
               ((LATENCY, "queries"), (COPIES, "queries"), (MEAN, "hot spot"), (WORST, "hot spot"))]  # fmt: skip
    tables += [grid(results, unit, unit, "{:,.4g}", down="series") for unit in (BYTES, MICROSECONDS, HELD)]
    return "\n\n".join(tables)
