"""A day of requests against the servers of a plan: python -m bench.serve.day [--seconds S] [--peak R].

The day of 288 slots is compressed to 144 s. Requests arrive as they do (Poisson, whether or not those before were
answered) and go to the server that has their home; the rates are scaled to what this machine can play. Servers are
processes that hold their share; a bucket that fills at the scaled capacity of the plan's server refuses what is above
it (429), so that two cores can play many servers. For each plan: cost, share refused, latencies, load by slot beside
the planned one, questions from server to server. Exits with 1 and the goals that are missed.
"""

from __future__ import annotations

import argparse
import http.client
import json
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dtoss
from bench.measuring.points import in_cities, scattered
from bench.measuring.verdicts import Goals
from bench.serve.fleet.servers import fleet
from ceps import Patterns, ServerType, load_servers
from ceps import plan as planned
from ceps.plan.planning import with_risk
from ceps.plan.plans import Plan
from datasets.workloads import wave
from dtoss.index import Index
from dtoss.serve.cluster.served_plans import Placement
from tests.dtoss.snapshots.damaged_stores import stored

SLOTS, PARTITIONS, OBJECTS = 288, 128, 200_000
POINT_ONE = 0.001


def world(folder: Path) -> tuple[str, Index]:
    """Write a store of objects in cities by their people, and return its path and an index of it."""
    places = in_cities(np.random.default_rng(0), OBJECTS, 10.0)
    index = dtoss.build(np.arange(OBJECTS), places, partitions=PARTITIONS, threads=2, progress=False)
    return str(stored(index, str(folder / "store"))), index


def patterns_of(index: Index, peak: float, seconds: float) -> Patterns:
    """Return the requests/s of each partition in each slot: its objects, when people there are awake.

    In the replay a slot has so many fewer requests as it is shorter: the risk is told of these.
    """
    lon = np.array([np.median(part.positions[: part.owned_objects, 0]) for part in index.parts.all()])
    lat = np.array([np.median(part.positions[: part.owned_objects, 1]) for part in index.parts.all()])
    objects = np.array([fact.objects for fact in index.parts.facts], float)
    shape = wave("cosine", SLOTS)
    shift = np.round(lon / 360.0 * SLOTS).astype(int)
    loads = objects[:, None] * np.stack([np.roll(shape, -one) for one in shift])
    loads *= peak / loads.sum(axis=0).max()
    return Patterns(
        loads, sizes=objects, positions=np.column_stack([lon, lat]), days=1_000.0,
        requests_per_event=86_400 / seconds, pivots_hash=index.partitioning.digest,
    )  # fmt: skip


def types_of(peak: float) -> tuple[ServerType, ...]:
    """Return server types of a catalogue with capacities so scaled that a few of the largest meet the peak."""
    known = load_servers("m3-2015")
    largest = max(one.requests_per_second for one in known)
    return tuple(
        replace(one, requests_per_second=one.requests_per_second / largest * peak / 3.2, bytes=float("inf"))
        for one in known
    )


def at_cost(method: str, patterns: Patterns, types: tuple[ServerType, ...], cost: float) -> Plan:
    """Return a method's plan for so much less load that it costs no more than another plan, under the whole load."""
    low, high = 0.05, 1.0
    made = planned(patterns, servers=types, method=method)
    if made.cost_per_day <= cost + 1e-9:
        return made
    for _ in range(12):
        middle = (low + high) / 2
        made = planned(patterns, servers=types, method=method, growth=middle)
        low, high = (middle, high) if made.cost_per_day <= cost + 1e-9 else (low, middle)
    return replace(planned(patterns, servers=types, method=method, growth=low), growth=1.0).under(patterns)


def targets_of(index: Index, k: int = 8) -> list[list[str]]:
    """Return questions near objects of each partition."""
    rng, targets = np.random.default_rng(3), []
    for part in index.parts.all():
        own = part.positions[: part.owned_objects]
        if not len(own):
            targets.append(["/healthz"])
            continue
        places = scattered(rng, own[rng.integers(0, len(own), 200)], 0.02)
        home = index.partitioning.nearest(index.space.vectors(places)) == part.number
        places = places[home] if home.any() else own[:1]
        targets.append([f"/knn?lon={x:.6f}&lat={y:.6f}&k={k}" for x, y in places.tolist()])
    return targets


def arrivals_of(patterns: Patterns, seconds: float) -> list[tuple[float, int]]:
    """Return when in the replay a request of which partition arrives."""
    rng, slot = np.random.default_rng(4), seconds / SLOTS
    numbers = rng.poisson(patterns.loads.T * slot)
    found = []
    for at in range(SLOTS):
        parts = np.repeat(np.arange(PARTITIONS), numbers[at])
        found += list(zip((at * slot + rng.uniform(0, slot, len(parts))).tolist(), parts.tolist(), strict=True))
    return sorted(found)


def replay(
    store: str, folder: Path, made: Plan, targets: list[list[str]], arrivals: list[tuple[float, int]]
) -> tuple[NDArray[np.float64], dict[str, float]]:
    """Return what became of each request (due, server, status, seconds, late by), and what servers counted."""
    holders = tuple(tuple(int(one) for one in row) for row in made.replicas)
    placement = Placement(made.pivots_hash, holders)
    servers = len(made)
    with fleet(store, folder, placement, servers, rates=made.capacity.tolist()) as running:
        given = {
            "ports": running.ports, "targets": targets, "server_of": made.server_of.tolist(), "arrivals": arrivals
        }  # fmt: skip
        run = subprocess.run(
            [sys.executable, "-m", "bench.serve.fleet.arrivals"],
            input=json.dumps(given), capture_output=True, text=True, check=True,
        )  # fmt: skip
        counts: dict[str, float] = {}
        for port in running.ports:
            link = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            link.request("GET", "/metrics")
            for line in link.getresponse().read().decode().splitlines():
                if line.startswith("dtoss_forward") and "_created" not in line:
                    name, _, value = line.rpartition(" ")
                    counts[name] = counts.get(name, 0.0) + float(value)
            link.close()
    return np.array(json.loads(run.stdout)), counts


def tell(name: str, made: Plan, found: NDArray[np.float64], counts: dict[str, float], seconds: float) -> float:
    """Print a row of what became of a day, and return the share that was refused."""
    status, took = found[:, 2], found[:, 3]
    refused, failed = float((status == 429).mean()), float(((status != 429) & (status != 200)).mean())
    slot = np.minimum((found[:, 0] / seconds * SLOTS).astype(int), SLOTS - 1)
    served = np.zeros((len(made), SLOTS))
    np.add.at(served, (found[:, 1].astype(int), slot), status == 200)
    # 12 slots, an hour, together: single ones have few requests
    real = served.reshape(len(made), -1, 12).sum(axis=2) / (made.capacity[:, None] * seconds / SLOTS * 12)
    plan = made.utilisation_by_slot.reshape(len(made), -1, 12).mean(axis=2)
    alike = float(np.corrcoef(real.ravel(), np.minimum(plan, 1.0).ravel())[0, 1])
    worst = float(np.abs(real - np.minimum(plan, 1.0)).max())
    predicted = made.risk.overload if made.risk is not None else made.overload
    hops = sum(value for key, value in counts.items() if 'what="gathered"' in key or 'what="asked"' in key)
    size = counts.get("dtoss_forward_bytes_total", 0.0)
    good = took[status == 200] * 1e3
    print(
        f"  {name:6s} {len(made)} servers, {made.cost_per_day:6.2f} $/day; {len(found):,} requests: refused "
        f"{100 * refused:.3f} % (predicted {100 * predicted:.3f}), failed {100 * failed:.3f} %; p50 "
        f"{np.median(good):.1f} ms, p99 {np.quantile(good, 0.99):.1f}; sent on "
        f"{hops / len(found):.4f} a request, {size / len(found):.0f} B;"
        f" load by hour: correlation {alike:.3f}, worst off by {worst:.3f}; sent late by {1e3 * found[:, 4].max():.0f} "
        "ms at most",
        flush=True,
    )
    return refused


def day(store: str, index: Index, folder: Path, seconds: float, peak: float, goals: Goals) -> None:
    """Replay a day against each plan."""
    patterns, types = patterns_of(index, peak, seconds), types_of(peak)
    best = planned(patterns, servers=types, method="fleet")
    others = [("gp", at_cost("gp", patterns, types, best.cost_per_day))]
    others += [("gp-r", at_cost("gp-r", patterns, types, best.cost_per_day))]
    literal = planned(patterns, servers=types, method="tv")
    targets, arrivals = targets_of(index), arrivals_of(patterns, seconds)
    print(
        f"  lower bound {best.lower_bound:.2f} $/day; capacities {', '.join(f'{one:.0f}' for one in best.capacity)}/s"
    )
    found, counts = replay(store, folder, best, targets, arrivals)
    refused = tell("fleet", best, found, counts, seconds)
    assert best.risk is not None
    goals.ask("fleet: refused beyond what was predicted, share", refused - best.risk.overload, most=POINT_ONE)
    rates = []
    for name, made in [*others, ("CEPS-", literal)]:
        made = with_risk(made)
        found, counts = replay(store, folder, made, targets, arrivals)
        rates.append((name, tell(name, made, found, counts, seconds)))
    grid = min(rate for name, rate in rates if name.startswith("gp"))
    times = grid / max(refused, 1.0 / len(arrivals))
    goals.ask("refusals of the best grid at the same cost over the fleet's (none counts as one)", times, least=5.0)
    print(f"  the best grid at the same cost refuses {times:.0f} times as many")


def main() -> None:
    """Replay a day."""
    parser = argparse.ArgumentParser(description="A day against the servers of a plan.")
    parser.add_argument("--seconds", type=float, default=144.0)
    parser.add_argument("--peak", type=float, default=400.0, help="requests/s of all servers together")
    given: Any = parser.parse_args()
    goals = Goals()
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        store, index = world(folder)
        day(store, index, folder, given.seconds, given.peak, goals)
    goals.end()


if __name__ == "__main__":
    main()
