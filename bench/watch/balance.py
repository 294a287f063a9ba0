"""Strategies over five streams, beside the goals: python -m bench.watch.balance [--planning].

US hotspots (normal and step) over cities by their people, Uber by the half hour of the week, check-ins of the world by
the half hour of the day, taxis of San Francisco by half hours. 128 x 128 cells, a row counts 1 and each subscription of
its cell .01. A layout is made of earlier rounds and judged on the next; means are of the rounds after the first twenty,
or after the first quarter where there are few. ``--planning`` times decisions at 16,384 cells, a million subscriptions
and 64 workers instead.

Exits with 1 and the goals that are missed. Needs the folder named by DTOSS_DATA.
"""

from __future__ import annotations

import argparse
from time import perf_counter

import numpy as np

from bench.measuring.verdicts import Goals
from bench.watch.rounds import Scenario, hotspot, taxis, uber, world
from ceps.balance.ps2stream.ps2stream import chosen
from ceps.balance.rehearse import StrategyRun, rehearse
from ceps.strategies import strategy_of

NAMES = (
    "uniform", "history", "kd", "rtree", "swarm", "swarm-work", "swarm-always", "ps2stream", "ps2stream-work", "curve",
    "ours",
)  # fmt: skip
WORKERS = (8, 22)
FIRST = 20
EVEN = {8: 1.15, 22: 1.25}
EVEN_WORLD = {8: 1.30, 22: 1.40}
MOVED = {8: 0.005, 22: 0.01}
COPIES, COPIES_WORLD = 1.15, 3.0
OVER_SWARM, OVER_GREEDY, OVER_GREEDY_HOT = 1.4, 1.04, 1.9
PLANNED, PLANNED_SWARM = 0.1, 1.0
WORLD = "world check-ins"


def judged(one: StrategyRun) -> slice:
    """Return the rounds of which means are taken."""
    return slice(FIRST, None) if one.rounds > 2 * FIRST + 10 else one.settled


def mean(one: StrategyRun) -> float:
    """Return the mean of the busiest worker over the mean."""
    return float(one.max_over_mean[judged(one)].mean())


def compared(scenario: Scenario, goals: Goals) -> None:
    """Print what each strategy does with a stream, ours beside its goals."""
    work = scenario.rows.mean(axis=0) * (1 + 0.01 * scenario.asked.stored_by_cell)
    print(
        f"{scenario.name}: {scenario.rows.sum(axis=1).mean():,.0f} rows a round, {len(scenario.asked):,} subscriptions"
    )
    for workers in WORKERS:
        bound = max(float(work.max()) * workers / float(work.sum()), 1.0)
        print(f"  W = {workers}, whole cells at best {bound:.2f}  busiest/mean  worst   moved    most   copies")
        found = {name: rehearse(name, strategy_of(name, workers), scenario.rounds()) for name in NAMES}
        for name, one in found.items():
            some = judged(one)
            moved = 100 * one.moved_share[some]
            print(
                f"    {name:24s} {mean(one):14.3f} {one.max_over_mean[some].max():6.2f} {moved.mean():6.2f}% "
                f"{moved.max():6.2f}% {one.copies[some].mean():8.3f}"
            )
        # where whole cells can be evener than that, nobody could be so many times as even as they are
        _goals(scenario, workers, found, goals, hot=bound > OVER_GREEDY_HOT or scenario.name == WORLD)


def _goals(scenario: Scenario, workers: int, found: dict[str, StrategyRun], goals: Goals, *, hot: bool) -> None:
    ours, far = found["ours"], scenario.name == WORLD
    name = f"{scenario.name}, W = {workers}"
    some = judged(ours)
    moved, copies = float(ours.moved_share[some].mean()), float(ours.copies[some].mean())
    even = (EVEN_WORLD if far else EVEN)[workers]
    print(f"    ours: {mean(ours):.3f} {goals.ask(f'{name}: busiest over mean', mean(ours), most=even)}")
    if not far:
        print(f"    moved {100 * moved:.2f} % {goals.ask(f'{name}: share moved', moved, most=MOVED[workers])}")
    print(f"    copies {copies:.3f} {goals.ask(f'{name}: copies', copies, most=COPIES_WORLD if far else COPIES)}")
    for rival, wanted in (("swarm", OVER_SWARM), ("ps2stream-work", OVER_GREEDY_HOT if hot else OVER_GREEDY)):
        ratio = mean(found[rival]) / mean(ours)
        print(f"    {rival} has {ratio:.2f} times ours {goals.ask(f'{name}: over {rival}', ratio, least=wanted)}")


def planning(goals: Goals) -> None:
    """Time decisions of a large watch."""
    scenario = hotspot("step", subscriptions=1_000_000, rounds=12, rows=400_000)
    for name, most in (("ours", PLANNED), ("ps2stream-work", PLANNED), ("swarm", PLANNED_SWARM), ("curve", PLANNED)):
        one = rehearse(name, strategy_of(name, 64), scenario.rounds())
        worst = float(one.seconds[1:].max())
        middle = float(np.median(one.seconds[1:]))
        verdict = goals.ask(f"{name}: seconds, median", middle, most=most)
        print(f"{name}: {1e3 * middle:.0f} ms, {1e3 * worst:.0f} at most {verdict}")
    rng = np.random.default_rng(0)
    load, size = rng.gamma(0.5, 100.0, 256), rng.gamma(1.0, 1e5, 256)
    for way in ("GR", "DP"):
        begun = perf_counter()
        chosen(way, load, size, load.sum() / 8, load.sum() / 4, rng)
        print(f"{way}, one choice among 256 cells: {1e3 * (perf_counter() - begun):.2f} ms")


def selections(goals: Goals) -> None:
    """Hold ways to choose cells to the dynamic programme, in bytes: 200 instances of 40 cells."""
    rng = np.random.default_rng(1)
    ratios: dict[str, list[float]] = {"GR": [], "SI": [], "RA": []}
    for _ in range(200):
        load, size = rng.gamma(0.5, 10.0, 40), np.ceil(rng.gamma(0.7, 40.0, 40)) * 2_000.0
        least = load.sum() * rng.uniform(0.05, 0.3)
        best = size[chosen("DP", load, size, least, 2 * least, rng)].sum()
        for way, held in ratios.items():
            cells = chosen(way, load, size, least, 2 * least, rng)
            if len(cells) and best > 0:
                held.append(float(size[cells].sum() / best))
    for way, bounds in (("GR", {"most": 1.05}), ("SI", {"least": 2.0}), ("RA", {"least": 2.0})):
        figure = float(np.mean(ratios[way]))
        verdict = goals.ask(f"{way} over DP", figure, **bounds)
        print(f"{way} / DP: mean {figure:.3f}, worst {max(ratios[way]):.2f} {verdict}")


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description="Strategies over five streams, beside the goals.")
    parser.add_argument("--planning", action="store_true", help="Time decisions of a large watch instead.")
    goals = Goals()
    if parser.parse_args().planning:
        planning(goals)
    else:
        selections(goals)
        for scenario in (hotspot("normal"), hotspot("step"), uber(), world(), taxis()):
            compared(scenario, goals)
    goals.end()


if __name__ == "__main__":
    main()
