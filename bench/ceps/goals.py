"""G3, G7 and G9: how near plans come to what is possible, and what hours save (u = 1.0).

python -m bench.ceps.goals [g3] [g7] [g9]

Exits with 1 and the names of the goals that are missed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from time import perf_counter

import numpy as np

from bench.ceps.exact import exact_plan
from bench.ceps.instances import NOISE_FREE, UNITS, catalogue, mediums, patterns, solve
from bench.measuring.verdicts import EXACT, Goals
from ceps.bounds.lower_bounds import configuration_bound, fleet_bound, hourly_bound
from ceps.model.packing import Effort
from ceps.model.problem import InfeasibleError, build_problem
from ceps.offers.hourly import best_schedule


def g3(goals: Goals) -> None:
    print("G3: servers over ceil(U), one type (m3.medium), u = 1.0; goal 1.000 without noise from 8 items a server;")
    print("    gow-noise 1.10 / 1.06 / 1.04 at 10 / 20 / 40 items a server (stretch 1.08 / 1.04)")
    runs = [(name, count, units) for name in NOISE_FREE for count, units in ((500, 12.4), (500, 49.4), (1000, 49.4))]
    runs += [("gow-noise", count, 49.4) for count in (500, 1000, 2000)]
    runs += [("zipf1", 2000, 49.4), ("zipf2", 500, 12.4)]
    for name, count, units in runs:
        cells = []
        for method in ("fleet", "gain"):
            ratios = []
            for seed in range(3):
                try:
                    problem = build_problem(patterns(name, count, units, seed), mediums(), 1.0)
                except InfeasibleError:
                    continue
                ratios.append(len(solve(method, problem).type_of) / np.ceil(units))
            if not ratios:
                cells.append(f"{method} none fits")
                continue
            aim = ""
            if name == "gow-noise":
                noisy = {500: 1.10, 1000: 1.06, 2000: 1.04}[count]
                aim = goals.ask(f"G3, {name}, P = {count}, {method}", float(np.mean(ratios)), most=noisy)
            elif name in NOISE_FREE:
                aim = goals.ask(f"G3, {name}, P = {count}, U = {units}, {method}", max(ratios), most=1)
            cells.append(f"{method} {np.mean(ratios):.3f} (worst {max(ratios):.3f}) {aim}")
        print(f"  {name:13s} P={count} U={units}: {'  '.join(cells)}", flush=True)


def g7(goals: Goals, seeds: int = 4) -> None:
    print("G7: small instances, method fleet and gain against the exact optimum (all slots, u = 1.0); goal all equal")
    total = {"fleet": 0, "gain": 0}
    count = proven = 0
    for size in (8, 10, 16, 24, 40):
        for name in ("cos hs100", "cos-s hs100", "zipf1", "zipf2", "gow", "gow-noise"):
            for seed, units in zip(range(seeds), (5.4, 10.3, 12.4, 16.4), strict=False):
                try:
                    problem = build_problem(patterns(name, size, units, seed), catalogue(), 1.0)
                except InfeasibleError:
                    continue
                best = exact_plan(problem)
                count += 1
                proven += best.proven
                for method in total:
                    cost = solve(method, problem).cost_per_day
                    same = cost <= best.outcome.cost_per_day * EXACT
                    total[method] += same
                    if not same:
                        print(f"  miss: {method} P={size} {name} U={units}: {cost} against {best.outcome.cost_per_day}")
    aims = goals.ask("G7, fleet", total["fleet"], least=count), goals.ask("G7, gain", total["gain"], least=count - 1)
    print(
        f"  equal to the optimum: fleet {total['fleet']} {aims[0]}, gain {total['gain']} {aims[1]} of {count}; proven "
        f"{proven}"
    )
    for seed in range(40):
        try:
            problem = build_problem(patterns("cos hs1000", 40, 14.4, seed), mediums(), 1.0)
        except InfeasibleError:
            continue
        began = perf_counter()
        bound = configuration_bound(problem, time_limit=120.0)
        unit = 24 * problem.prices[0]
        ours = len(solve("fleet", problem).type_of)
        aim = goals.ask("G7, plan over configuration bound", ours * unit / bound.bound, most=1)
        print(
            f"  configuration bound, cos hs1000 P=40 U=14.4 seed {seed}, mediums: LB1 {fleet_bound(problem) / unit:.0f}"
            f", linear program {bound.relaxed / unit:.2f}, bound {bound.bound / unit:.0f}, plan "
            f"{ours} {aim} ({perf_counter() - began:.0f} s)",
            flush=True,
        )
        break


def g9(goals: Goals) -> None:
    print("G9: hourly types on fixed clusters over LB1, P = 500, u = 1.0, mean of four loads (bound: hourly fleets)")
    wanted = {"cos hs100": 0.98, "cos-s hs10": 0.88, "gow": 0.92}
    for name in ("cos hs100", "cos-s hs10", "cos-s hs1000", "gow", "gow-noise", "zipf1"):
        rows = []
        for seed, units in enumerate(UNITS):
            problem = build_problem(patterns(name, 500, units, seed), catalogue(), 1.0)
            found = best_schedule(problem, np.random.default_rng(0), Effort())
            least = fleet_bound(problem)
            rows.append((found.cost_per_day / least, hourly_bound(problem) / least, found.resizes))
        mean = np.mean(rows, axis=0)
        aim = goals.ask(f"G9, {name}", float(mean[0]), most=wanted[name]) if name in wanted else ""
        print(f"  {name:13s} {mean[0]:.2f} {aim}, bound {mean[1]:.2f}, {mean[2]:.0f} resizes a day", flush=True)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", nargs="*", default=["g3", "g7", "g9"])
    options = parser.parse_args(words)
    goals = Goals()
    for name in options.what:
        {"g3": g3, "g7": g7, "g9": g9}[name](goals)
    goals.end()


if __name__ == "__main__":
    main()
