"""What keeping a plan up to date moves, for inserts and updates, by several ways (u = 1.0, mediums)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

import ceps
from bench.ceps.insert import insert
from bench.ceps.instances import WORKLOADS, mediums
from ceps.model.packing import Effort
from ceps.model.problem import TOLERANCE, Problem, build_problem
from ceps.plan.incremental import repair
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
class Change:
    """What came of one: shares of the bytes that move by themselves; by way, those moved and servers over the bound."""

    forced: float
    moved: dict[str, float]
    servers: dict[str, float]


def problem_of(after: World) -> Problem:
    return build_problem(after.patterns(), mediums(), 1.0)


def result(problem: Problem, labels: np.ndarray, home: np.ndarray) -> tuple[float, float]:
    """Share of bytes moved and servers over the bound, of labels and homes by partition; new servers no home names."""
    used = len(np.unique(labels))
    bound = max(1.0, np.ceil(problem.need[0] / problem.rates[0] - 1e-9))
    size = problem.bytes[problem.item_of[:, 0]]
    return float(size[labels != home].sum() / size.sum()), float(used / bound)


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


def one_change(name: str, kind: str, share: float, skew: float, seed: int, partitions: int) -> Change:
    before = world(name, partitions, 12.4, seed)
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
    made = {
        "written": written(after, home, children),
        "every": written(after, home, changed),
        "replan": replanned(after, home, previous),
        "repair": repaired(after, home, previous),
    }
    found = {way: result(problem, labels, home) for way, (problem, labels) in made.items()}
    return Change(forced, {way: one[0] for way, one in found.items()}, {way: one[1] for way, one in found.items()})
