"""G6: what keeping a plan up to date moves, for inserts, updates and a month of drift (u = 1.0, mediums).

python -m bench.ceps.changes [inserts] [updates] [drift] [--seeds 3]

Exits with 1 and the names of the goals that are missed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

import ceps
from bench.ceps.instances import WORKLOADS, mediums
from bench.measuring.verdicts import Goals
from ceps.model.packing import Effort
from ceps.model.problem import TOLERANCE, Problem, build_problem
from ceps.plan.incremental import insert, repair
from ceps.plan.plans import Plan
from datasets.workloads import city_weights, gowalla_hotspots, kd_tree, land_points, local_loads, scatter, wave

SIZE = 8.0  # bytes an object


@dataclass(eq=False)
class World:
    """Objects, their leaves, and the plan that holds the leaves."""

    lonlat: np.ndarray
    leaf: np.ndarray
    boxes: np.ndarray
    loads: np.ndarray  # (P, T)
    capacity: int

    @property
    def counts(self) -> np.ndarray:
        return np.bincount(self.leaf, minlength=len(self.loads)).astype(float)

    def patterns(self) -> ceps.Patterns:
        return ceps.Patterns(loads=self.loads, sizes=self.counts * SIZE)


def world(name: str, partitions: int, units: float, seed: int, objects: int = 200_000) -> World:
    rng = np.random.default_rng(seed)
    options = WORKLOADS[name]
    if options.get("workload") == "gowalla":
        centres, weights = gowalla_hotspots(options["hotspots"], rng)
    else:
        centres = land_points(options["hotspots"], rng)
        weights = city_weights(centres)
    lonlat = scatter(centres, weights, objects, rng)
    leaf, boxes = kd_tree(lonlat, partitions)
    loads = local_loads(lonlat[:, 0], leaf, wave(options.get("workload", "cosine"), 288))
    loads *= units * 1000 / loads.sum(axis=0).max()
    return World(lonlat, leaf, boxes, loads, int(np.bincount(leaf).max()))


def first_plan(before: World, seed: int) -> Plan:
    return ceps.plan(before.patterns(), None, mediums(), seed, 1.0)


def grow(before: World, share: float, skew: float, rng: np.random.Generator) -> tuple[World, np.ndarray]:
    """Insert objects, partitions drawn by Zipf with exponent `skew`; returns the world and each leaf's parent."""
    count = len(before.loads)
    weight = np.empty(count)
    weight[rng.permutation(count)] = np.arange(1.0, count + 1) ** -skew
    target = rng.choice(count, int(share * len(before.leaf)), p=weight / weight.sum())
    order = np.argsort(before.leaf, kind="stable")
    begin = np.searchsorted(before.leaf[order], np.arange(count))
    size = before.counts.astype(int)
    like = order[begin[target] + (rng.random(len(target)) * size[target]).astype(int)]
    lonlat = np.concatenate([before.lonlat, before.lonlat[like] + rng.normal(0, 1e-6, (len(like), 2))])
    leaf = np.concatenate([before.leaf, target])
    loads = before.loads * (np.bincount(leaf, minlength=count) / np.maximum(before.counts, 1))[:, None]
    return split_full(replace(before, lonlat=lonlat, leaf=leaf, loads=loads))


def relocate(
    before: World, share: float, skew: float, rng: np.random.Generator
) -> tuple[World, np.ndarray, np.ndarray]:
    """Move objects 0 to 100 miles; returns the world, each leaf's parent, and the objects that changed leaf."""
    count = len(before.loads)
    weight = np.empty(count)
    weight[rng.permutation(count)] = np.arange(1.0, count + 1) ** -skew
    chance = (weight / np.maximum(before.counts, 1))[before.leaf]
    moving = rng.choice(len(before.leaf), int(share * len(before.leaf)), replace=False, p=chance / chance.sum())
    miles, way = rng.uniform(0, 100, len(moving)), rng.uniform(0, 2 * np.pi, len(moving))
    degrees = miles * 1.609344 / 111.2
    lonlat = before.lonlat.copy()
    lonlat[moving, 1] = np.clip(lonlat[moving, 1] + degrees * np.sin(way), -89, 89)
    east = degrees * np.cos(way) / np.cos(np.radians(lonlat[moving, 1]))
    lonlat[moving, 0] = (lonlat[moving, 0] + east + 180) % 360 - 180
    leaf = before.leaf.copy()
    leaf[moving] = locate(before, lonlat[moving])
    rate = before.loads / np.maximum(before.counts, 1)[:, None]  # an object's average workload goes with it
    loads = before.loads.copy()
    np.subtract.at(loads, before.leaf[moving], rate[before.leaf[moving]])
    np.add.at(loads, leaf[moving], rate[before.leaf[moving]])
    after, parent = split_full(replace(before, lonlat=lonlat, leaf=leaf, loads=np.maximum(loads, 0.0)))
    return after, parent, moving[leaf[moving] != before.leaf[moving]]


def locate(before: World, where: np.ndarray) -> np.ndarray:
    """Leaf whose box holds each place, or is nearest."""
    found = np.empty(len(where), dtype=np.int64)
    for i, (lon, lat) in enumerate(where):
        west, south, east, north = before.boxes.T
        away = np.maximum(0, np.maximum(west - lon, lon - east)) + np.maximum(0, np.maximum(south - lat, lat - north))
        found[i] = away.argmin()
    return found


def split_full(after: World) -> tuple[World, np.ndarray]:
    """Halve leaves that hold more than the capacity, again and again; parents are leaves of before."""
    leaf, loads, boxes = after.leaf.copy(), list(after.loads), list(after.boxes)
    parent = list(range(len(loads)))
    stack = [int(k) for k in np.flatnonzero(np.bincount(leaf, minlength=len(loads)) > after.capacity)]
    while stack:
        k = stack.pop()
        members = np.flatnonzero(leaf == k)
        if len(members) <= after.capacity or not np.ptp(after.lonlat[members], axis=0).any():
            continue
        half, cut = kd_tree(after.lonlat[members], 2)
        new = len(loads)
        share = float((half == 1).mean())
        leaf[members[half == 1]] = new
        loads.append(loads[k] * share)
        loads[k] = loads[k] * (1 - share)
        boxes[k], extra = cut[0], cut[1]
        boxes.append(extra)
        parent.append(parent[k])
        stack += [k, new]
    return replace(after, leaf=leaf, loads=np.array(loads), boxes=np.array(boxes)), np.array(parent)


@dataclass(frozen=True)
class Result:
    moved: float  # share of the bytes stored
    servers: float  # over the lower bound


def problem_of(after: World) -> Problem:
    return build_problem(after.patterns(), mediums(), 1.0)


def result(problem: Problem, labels: np.ndarray, home: np.ndarray) -> Result:
    """Labels and homes by partition; new servers are those that no home names."""
    used = len(np.unique(labels))
    bound = max(1.0, np.ceil(problem.need[0] / problem.rates[0] - 1e-9))
    size = problem.bytes[problem.item_of[:, 0]]
    return Result(float(size[labels != home].sum() / size.sum()), used / bound)


def written(after: World, home: np.ndarray, changed: np.ndarray) -> tuple[Problem, np.ndarray]:
    """Algorithm 4.3 for the changed partitions, one by one, then for one partition of each overloaded server."""
    problem = problem_of(after)
    item = problem.item_of[:, 0]
    labels = np.empty(len(problem), dtype=np.int64)
    labels[item] = home
    types = np.zeros(int(home.max()) + 1, dtype=np.int64)
    for p in changed:
        labels, types = insert(problem, labels, types, [item[p]])
    for _ in range(200):
        loads = problem.cluster_columns(labels)
        over = np.flatnonzero(loads[:, :-1].max(axis=1) > problem.rates[0] * (1 + TOLERANCE))
        if not len(over):
            break
        k = over[0]
        slot = loads[k, :-1].argmax()
        members = np.flatnonzero(labels == k)
        enough = members[problem.columns[members, slot] >= loads[k, slot] - problem.rates[0]]
        if len(enough):
            one = enough[problem.bytes[enough].argmin()]
        else:
            one = members[problem.columns[members, slot].argmax()]
        labels, types = insert(problem, labels, types, [one])
    return problem, labels[item]


def repaired(after: World, home: np.ndarray, previous: Plan, budget: float = 0.1) -> tuple[Problem, np.ndarray]:
    problem = problem_of(after)
    item = problem.item_of[:, 0]
    homes = np.empty(len(problem), dtype=np.int64)
    homes[item] = previous.server_ids[home]
    outcome = repair(problem, homes, previous, budget * problem.bytes.sum(), np.random.default_rng(0), Effort())
    # Labels are dense: find the old server that each of the new ones is, by most bytes.
    return problem, relabelled(problem, outcome.labels, homes)[item]


def replanned(after: World, home: np.ndarray, previous: Plan) -> tuple[Problem, np.ndarray]:
    problem = problem_of(after)
    item = problem.item_of[:, 0]
    homes = np.empty(len(problem), dtype=np.int64)
    homes[item] = home
    made = ceps.plan(after.patterns(), None, mediums(), 1, 1.0)
    labels = np.empty(len(problem), dtype=np.int64)
    labels[item] = made.server_of
    return problem, relabelled(problem, labels, homes)[item]


def relabelled(problem: Problem, labels: np.ndarray, homes: np.ndarray) -> np.ndarray:
    from scipy.optimize import linear_sum_assignment

    shared = np.zeros((int(labels.max()) + 1, int(homes.max()) + 1))
    np.add.at(shared, (labels, homes), problem.bytes)
    rows, columns = linear_sum_assignment(-shared)
    number = shared.shape[1] + np.arange(len(shared))
    number[rows] = columns
    return number[labels]


def one_change(name: str, kind: str, share: float, skew: float, seed: int) -> dict[str, Result | float]:
    before = world(name, 500, 12.4, seed)
    previous = first_plan(before, seed)
    rng = np.random.default_rng(100 + seed)
    forced = 0.0
    if kind == "insert":
        after, parent = grow(before, share, skew, rng)
    else:
        after, parent, gone = relocate(before, share, skew, rng)
        old = previous.server_of[before.leaf[gone]]
        new = previous.server_of[parent[after.leaf[gone]]]
        forced = float((old != new).sum() / len(before.leaf))
    home = previous.server_of[parent]
    children = np.flatnonzero(np.bincount(parent)[parent] > 1)
    changed = np.flatnonzero(np.abs(after.loads - before.loads[parent]).max(axis=1) > 1e-9)
    found: dict[str, Result | float] = {"forced": forced}
    for method, (problem, labels) in (
        ("written", written(after, home, children)),
        ("every", written(after, home, changed)),
        ("replan", replanned(after, home, previous)),
        ("repair", repaired(after, home, previous)),
    ):
        found[method] = result(problem, labels, home)
    return found


def changes(goals: Goals, kind: str, seeds: int) -> None:
    wanted = {("insert", 0.01): (2, 0.1), ("insert", 0.05): (8, 1.5), ("insert", 0.10): (13, 5)}
    print(f"{kind}: bytes moved of bytes stored, % (servers over lower bound); mean of {seeds} seeds, P=500, U=12.4")
    for name in ("gow", "cos-s hs100"):
        for share in (0.01, 0.05, 0.10):
            for skew in (0.0, 0.5, 1.0):
                runs = [one_change(name, kind, share, skew, seed) for seed in range(seeds)]
                forced = 100 * float(np.mean([run["forced"] for run in runs]))
                cells = []
                for method in ("written", "every", "replan", "repair"):
                    moved = 100 * np.mean([run[method].moved for run in runs])  # type: ignore[union-attr]
                    extra = np.mean([run[method].servers for run in runs])  # type: ignore[union-attr]
                    cells.append(f"{method} {moved + forced:5.1f} ({extra:.2f})")
                    title = f"G6, {kind} {share:.0%}, {name}, skew {skew}, {method}"
                    if method == "repair":
                        most = wanted[kind, share][1] if (kind, share) in wanted else forced + 0.5
                        cells.append(goals.ask(title, float(moved + forced), most=most))
                        cells.append(goals.ask(title + ", servers", float(extra), most=1))
                    elif method == "written" and (kind, share) in wanted:
                        cells.append(goals.ask(title, float(moved + forced), most=wanted[kind, share][0]))
                text = "  ".join(cells)
                print(f"  {name:12s} {share:4.0%} skew {skew}: {text}  forced {forced:.1f}", flush=True)


def drift(goals: Goals, seeds: int, days: int = 30) -> None:
    print(f"drift: {days} days, amplitudes +-2..10 % a day, total +40 % at day 15 and back; mean of {seeds} seeds")
    rows = []
    for seed in range(seeds):
        rng = np.random.default_rng(500 + seed)
        before = world("gow", 500, 12.4, seed)
        made = first_plan(before, seed)
        base = before.loads.copy()
        factor = np.ones(len(base))
        step = rng.uniform(0.02, 0.10, len(base))
        moved, ratio = [], []
        for day in range(1, days + 1):
            factor *= np.exp(step * rng.standard_normal(len(base)))
            level = 1 + 0.4 * (1 - abs(day - days / 2) / (days / 2))
            loads = base * factor[:, None]
            loads *= 12_400 * level / loads.sum(axis=0).max()
            today = ceps.Patterns(loads=loads, sizes=before.counts * SIZE)
            following = ceps.plan(
                today, None, mediums(), 0, 1.0, previous=made, move_budget=0.10 * float(today.sizes.sum())
            )
            moved.append(ceps.diff(following, made).share_moved)
            ratio.append(following.gap)
            made = following
        rows.append((np.mean(ratio), ratio[-1], 100 * np.mean(moved), 100 * np.max(moved)))
    mean = np.mean(rows, axis=0)
    cost = goals.ask("G6, drift, cost over bound", float(mean[0]), most=1.01)
    bytes_moved = goals.ask("G6, drift, moved a day, %", float(mean[2]), most=3)
    print(
        f"  repair: servers/LB mean {mean[0]:.4f} {cost}, last day {mean[1]:.3f}; moved a day {mean[2]:.2f} % "
        f"{bytes_moved}, most {mean[3]:.1f} %",
        flush=True,
    )


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", nargs="*", default=["inserts", "updates", "drift"])
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args(words)
    goals = Goals()
    if "inserts" in options.what:
        changes(goals, "insert", options.seeds)
    if "updates" in options.what:
        changes(goals, "update", options.seeds)
    if "drift" in options.what:
        drift(goals, options.seeds)
    goals.end()


if __name__ == "__main__":
    main()
