"""SWARM's figures 11 to 16 and 18 to 20 by the simulator: python -m bench.watch.swarm_figures.

Storm's 22 machines are 22 workers here, a round is what the paper's 15 seconds are, and tweets are made rows over
cities of the United States by their people. What a machine can do is taken as even: throughput is the rows of a round
over the work of the busiest worker. Units of work are the paper's, queries times tuples a second. Each table says what
the paper claims and what came.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from bench.watch.rounds import HEATS, SIDE, Scenario, hotspot
from bench.watch.swarm_lines import no_statistics
from ceps.balance.rehearse import StrategyRun, rehearse
from ceps.balance.swarm import CENTRAL_NUMBERS, NUMBER_BYTES, RectangleCosts, cut_in_halves, exchange
from ceps.strategies import strategy_of

NAMES = ("replicated", "uniform", "history", "swarm", "swarm-work", "swarm-always", "ours")
WORKERS = 22
QUERIES = (25_000, 50_000, 100_000, 200_000)
ROUNDS, ROWS, FIRST = 60, 30_000, 15
LOAD = 0.8
"""Of what the evenest strategy could do, at which latencies are read."""


def rates(one: StrategyRun, scenario: Scenario) -> NDArray[np.float64]:
    """Return rows for a unit of the busiest worker's work, by round, after the first."""
    rows = scenario.rows[1:].sum(axis=1)
    return (rows / one.work.max(axis=1))[FIRST:]


def latency(one: StrategyRun, rate: float, scenario: Scenario) -> float:
    """Return the mean delay of a row in services, where each worker is a queue; infinite where one is never empty.

    A queue of constant service: 1 + u / (2 (1 - u)) at the utilisation u, weighed by the work of the workers.
    """
    rows = scenario.rows[1:].sum(axis=1)[FIRST:, None]
    work = one.work[FIRST:]
    use = work * rate / rows
    if (use.mean(axis=0) >= 1.0).any():
        return float("inf")
    use = np.minimum(use, 0.995)
    delay = 1.0 + use / (2.0 * (1.0 - use))
    return float((delay * work).sum() / work.sum())


def by_queries() -> None:
    """Figure 11: units of work and latency against the number of queries."""
    print("Figure 11. Claimed: SWARM has 200 % more units of work than a grid fitted to history, at a quarter of")
    print("the latency; Replicated beats static grids until memory ends. Units of work over those of the history grid;")
    print(f"latency in services at {LOAD:.0%} of what ours could take; copies stored.")
    for count in QUERIES:
        scenario = hotspot("normal", subscriptions=count, rounds=ROUNDS, rows=ROWS)
        found = {name: rehearse(name, strategy_of(name, WORKERS), scenario.rounds()) for name in NAMES}
        base = rates(found["history"], scenario).mean()
        load = LOAD * float(rates(found["ours"], scenario).mean())
        for name, one in found.items():
            units = rates(one, scenario).mean() / base
            late = latency(one, load, scenario)
            print(f"  {count:>8,} queries  {name:13s} {units:6.2f}  {late:7.2f}  {one.copies[FIRST:].mean():6.2f}")


def by_heat() -> None:
    """Figures 12 to 16: hot spots of five kinds."""
    print("Figures 12 to 16. Claimed: SWARM holds its throughput under each, the grid of history is worst. Rows for")
    print("the busiest worker's work in the mean, and in the worst round, over the mean of an even spread.")
    for kind in HEATS:
        scenario = hotspot(kind, rounds=ROUNDS, rows=ROWS)
        for name in NAMES[1:]:
            one = rehearse(name, strategy_of(name, WORKERS), scenario.rounds())
            share = 1.0 / one.max_over_mean[FIRST:]
            print(f"  {kind:12s} {name:13s} {share.mean():5.2f}  {share.min():5.2f}")


def messages() -> None:
    """What is sent for a decision."""
    print("Messages a round. Claimed: two numbers a machine instead of five a cell of a central histogram.")
    scenario = hotspot("normal", rounds=ROUNDS, rows=ROWS)
    for name in ("swarm", "swarm-always", "ours"):
        one = rehearse(name, strategy_of(name, WORKERS), scenario.rounds())
        print(f"  {name:13s} {one.messages.mean():10,.0f} bytes")
    cells = CENTRAL_NUMBERS * NUMBER_BYTES
    filled = float((scenario.rows > 0).sum(axis=1).mean())
    print(f"  all cells     {cells * SIDE * SIDE:10,} bytes; cells with rows only {cells * filled:10,.0f}")


def costs() -> None:
    """Figures 18 and 19: what statistics and a rebalance cost."""
    print("Figures 18, 19. Claimed: microseconds for a statistic, milliseconds for a rebalance.")
    rng = np.random.default_rng(0)
    held, points = no_statistics(SIDE), rng.integers(0, SIDE, ROWS)
    ends = np.sort(rng.integers(0, SIDE, (1_000, 2)), axis=1)
    begun = perf_counter()
    for _ in range(20):
        held = held.after_round(points, ends[:, 0], ends[:, 1])
    print(f"  statistics    {1e6 * (perf_counter() - begun) / 20 / ROWS:10.4f} us a point")
    scenario = hotspot("step", rounds=3, rows=ROWS)
    loads, asked = list(scenario.rounds())[1]
    for cost in ("paper", "work"):
        priced, grid = RectangleCosts(loads, asked, loads.rows, cost), cut_in_halves(loads.shape, WORKERS)
        begun = perf_counter()
        for _ in range(10):
            exchange(grid, priced, WORKERS)
        print(f"  {cost:13s} {1e6 * (perf_counter() - begun) / 10:10,.0f} us an exchange")


if __name__ == "__main__":
    by_queries()
    by_heat()
    messages()
    costs()
