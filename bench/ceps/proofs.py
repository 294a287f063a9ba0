"""How far plans are settled: at a bound, or near it, in a minute of one core each (u = 1.0).

python -m bench.ceps.proofs [dust] [triplets] [hidden] [catalogues] [g1] [bound] [--seconds 60] [--seeds 1]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from time import process_time

import numpy as np

from bench.ceps.instances import cases, catalogue, mediums, patterns
from bench.measuring.race import timed
from bench.measuring.verdicts import EXACT, Goals
from ceps import Patterns, ServerType
from ceps.bounds.improve_or_prove import Settled, settle
from ceps.bounds.lower_bounds import configuration_bound, fleet_bound
from ceps.model.packing import Effort
from ceps.model.problem import InfeasibleError, Outcome, Problem, build_problem
from ceps.plan.planning import run
from ceps.warm_planners import warm


def settled(problem: Problem, seconds: float) -> tuple[Outcome, Settled, float]:
    """The default plan, what it is settled to, and the processor seconds of both."""
    began = process_time()
    plain = run("fleet", problem, np.random.default_rng(0), Effort())
    found = settle(problem, plain, seconds=seconds)
    return plain, found, process_time() - began


def one_type(loads: np.ndarray) -> Problem:
    return build_problem(Patterns(loads=loads), mediums(), 1.0)


def dust(goals: Goals, seconds: float, seeds: int) -> None:
    loads = np.repeat(np.append(np.full(30, 510.0), np.full(300, 10.0))[:, None], 288, axis=1)
    plain, found, spent = settled(one_type(loads), seconds)
    before = plain.cost_per_day / fleet_bound(one_type(loads))
    spent, found = timed(lambda: settle(one_type(loads), plain, seconds=seconds), process_time)
    ratio = found.outcome.cost_per_day / found.bound
    print(
        f"dust: 30 items of 0.51 and 300 of 0.01, one type: {before:.3f} of the fleet bound, {ratio:.3f} of the better "
        f"one {goals.ask('dust, cost over bound', ratio, most=1)}, proved in {spent:.2f} s "
        f"{goals.ask('dust, seconds of the proof', spent, most=1)}",
        flush=True,
    )


def triplets(bins: int, seed: int, slots: int, alike: bool) -> np.ndarray:
    """Loads (3 bins, slots) that fill `bins` servers to the last request: in one slot, or in all if not `alike`."""
    rng = np.random.default_rng([bins, seed])
    rows = []
    for _ in range(1 if alike else slots):
        first = rng.integers(380, 490, bins)
        second = rng.integers(250, (1000 - first) // 2 + 1)
        rows.append(rng.permuted(np.column_stack([first, second, 1000 - first - second]), axis=1).ravel())
    loads = np.array(rows, dtype=np.float64).T
    if alike and slots > 1:
        shape = rng.uniform(0.3, 1.0, (len(loads), slots))
        shape[:, slots // 2] = 1.0
        loads = loads * shape
    return rng.permutation(loads)


def all_triplets(goals: Goals, seconds: float, seeds: int) -> None:
    for bins in (20, 40, 83):
        for name, slots, alike in (
            ("one slot", 1, True),
            ("full in one of 24", 24, True),
            ("full in all 24", 24, False),
        ):
            for seed in range(seeds):
                plain, found, spent = settled(one_type(triplets(bins, seed, slots, alike)), seconds)
                title = f"triplets, {bins} servers, {name}, seed {seed}"
                servers = len(found.outcome.type_of)
                print(
                    f"{title}: {len(plain.type_of)} at once, {servers} settled {goals.ask(title, servers, most=bins)}, "
                    f"{spent:.1f} s {goals.ask(title + ', seconds', spent, most=60)}",
                    flush=True,
                )


def hidden(servers: int, items: int, slack: float, seed: int) -> np.ndarray:
    """Noisy days (servers x items, 288) of which `items` each fill a server to 1 - slack in every slot."""
    rng = np.random.default_rng([servers, items, seed])
    loads = rng.dirichlet(np.full(items, 3.0), servers)[:, :, None]
    loads = loads * np.exp(0.3 * rng.standard_normal((servers, items, 288)))
    loads *= 1000 * (1 - slack) / loads.sum(axis=1, keepdims=True)
    return rng.permutation(loads.reshape(-1, 288))


def all_hidden(goals: Goals, seconds: float, seeds: int) -> None:
    for slack in (0.03, 0.0):
        for servers, most in ((10, 1.10), (20, 1.05), (40, 1.05)):
            for items in (5, 10, 20):
                for seed in range(seeds):
                    plain, found, spent = settled(one_type(hidden(servers, items, slack, seed)), seconds)
                    ratio = len(found.outcome.type_of) / servers
                    title = f"hidden packing, {servers} servers of {items} items, slack {slack:.0%}, seed {seed}"
                    aim = goals.ask(title, ratio, most=most) if slack else "(no goal)"
                    before = len(plain.type_of) / servers
                    print(f"{title}: {before:.3f} at once, {ratio:.3f} settled {aim}, {spent:.0f} s", flush=True)


def random_types(kinds: int, seed: int, stores: bool) -> tuple[ServerType, ...]:
    rng = np.random.default_rng([kinds, seed])
    rates = np.exp(rng.uniform(np.log(200), np.log(8000), kinds)).round()
    prices = rates ** rng.uniform(0.8, 1.0) * rng.uniform(0.8, 1.25, kinds) / 1e4
    room = rates * rng.uniform(0.5, 2.0, kinds) if stores else np.full(kinds, np.inf)
    return tuple(
        ServerType(f"t{i}", float(rate), float(space), round(float(dollars), 4))
        for i, (rate, space, dollars) in enumerate(zip(rates, room, prices, strict=True))
    )


def catalogues(goals: Goals, seconds: float, seeds: int) -> None:
    for stores in (False, True):
        for kinds in (12, 16, 24, 32):
            for seed in range(seeds):
                made = patterns("gow-noise", 200, 20.6, seed)
                made = Patterns(loads=made.loads, sizes=made.sizes * (18_500 / made.sizes.sum()))
                try:
                    problem = build_problem(made, random_types(kinds, seed, stores), 1.0)
                except InfeasibleError:
                    continue
                plain, found, spent = settled(problem, seconds)
                before = plain.cost_per_day / fleet_bound(problem)
                ratio = found.outcome.cost_per_day / found.bound
                title = f"catalogue of {kinds} types{', storage' if stores else ''}, seed {seed}"
                print(
                    f"{title}: {before:.4f} of the fleet bound at once, {ratio:.4f} of the better bound settled "
                    f"{goals.ask(title, ratio, most=1.005)}, {spent:.0f} s",
                    flush=True,
                )


def g1(goals: Goals, seconds: float, seeds: int) -> None:
    print("G1 at P = 100: each plan at a bound, or proved to be the cheapest")
    done = total = 0
    for name, units, given in cases(100):
        try:
            problem = build_problem(given, catalogue(), 1.0)
        except InfeasibleError:
            continue
        plain, found, spent = settled(problem, seconds)
        total += 1
        done += found.proven
        least = fleet_bound(problem)
        if plain.cost_per_day > least * EXACT:
            print(
                f"  {name} {units}: {plain.cost_per_day / least:.3f} of the fleet bound at once, settled "
                f"{found.outcome.cost_per_day / least:.3f}, "
                f"{found.outcome.cost_per_day / found.bound:.3f} of the better bound, {spent:.0f} s",
                flush=True,
            )
    print(f"  settled {done} of {total} {goals.ask('G1 at P = 100, plans settled', done, least=total)}", flush=True)


def bound(goals: Goals, seconds: float, seeds: int) -> None:
    least = np.inf
    for name in ("cos hs100", "zipf1", "gow-noise"):
        for size in (20, 40):
            try:
                problem = build_problem(patterns(name, size, 5.4, 0), catalogue(), 1.0)
            except InfeasibleError:
                continue
            least = min(least, configuration_bound(problem, time_limit=min(seconds, 5.0)).bound / fleet_bound(problem))
    print(f"configuration bound over fleet bound, least {least:.4f} {goals.ask('configuration bound', least, least=1)}")


RUNS = {
    "dust": dust, "triplets": all_triplets, "hidden": all_hidden, "catalogues": catalogues, "g1": g1, "bound": bound,
}  # fmt: skip


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", nargs="*", default=list(RUNS))
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args(words)
    warm()
    goals = Goals()
    for name in options.what:
        RUNS[name](goals, options.seconds, options.seeds)
    goals.end()


if __name__ == "__main__":
    main()
