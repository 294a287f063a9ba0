"""Days unlike the pattern, with the nightly plan and with replanning: python -m bench.ceps.replanning [--days N].

A week of usual days makes the pattern; then a day comes that is as usual, twice as busy from its beginning, twice as
busy from noon on, or twice as busy in a quarter of the world. Requests are drawn (Poisson). Every 15 minutes the plan
in force is looked at. Told are the share of requests above the servers' capacity, for the nightly plan and with
replanning, the share of bytes that moved, and how often the plan changed. Made workloads, and check-ins of Gowalla and
Brightkite where they are there. Exits with 1 and the goals that are missed.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bench.ceps.instances import catalogue, patterns
from bench.measuring.verdicts import Goals
from ceps import Patterns, Plan, plan
from ceps.plan.forecast import forecast
from ceps.plan.replan import Past, Replanning, decide
from datasets.workloads import kd_leaves

DATA = Path(__file__).parents[3] / "shared" / "data"
PARTITIONS, SLOTS, WINDOW = 256, 96, 1
KINDS = ("as usual", "twice as busy", "twice from noon on", "a quarter twice as busy")


def checkins(name: str) -> Patterns | None:
    """Return the mean day of check-ins by kd-leaves, as requests/s of some servers; None without the file."""
    path = DATA / f"{name}_checkins.parquet"
    if not path.exists():
        return None
    table = pq.read_table(path, columns=["lon", "lat", "t"])
    lon, lat = table.column("lon").to_numpy(), table.column("lat").to_numpy()
    seconds = table.column("t").cast("timestamp[s]").cast("int64").to_numpy()
    leaf = kd_leaves(np.column_stack([lon, lat]), PARTITIONS)
    slot = seconds % 86_400 * SLOTS // 86_400
    loads = np.zeros((PARTITIONS, SLOTS))
    np.add.at(loads, (leaf, slot), 1.0)
    smooth = sum(np.roll(loads, shift, axis=1) for shift in range(-2, 3)) / 5
    loads = smooth * (12_000.0 / smooth.sum(axis=0).max())
    places = np.array([[lon[leaf == one].mean(), lat[leaf == one].mean()] for one in range(PARTITIONS)])
    sizes = np.bincount(leaf, minlength=PARTITIONS) * 100.0
    return Patterns(loads, sizes=sizes, positions=places, days=7.0)


def factor(kind: str, usual: Patterns) -> NDArray[np.float64]:
    """Return how many times as much as usual is asked, float64 (P, T)."""
    times = np.ones(usual.loads.shape)
    if kind == "twice as busy":
        times[:] = 2.0
    elif kind == "twice from noon on":
        times[:, SLOTS // 2 :] = 2.0
    elif kind == "a quarter twice as busy":
        assert usual.positions is not None
        order = np.argsort(usual.positions[:, 0])
        times[order[: len(order) // 4]] = 2.0
    return times


def above(made: Plan, loads: NDArray[np.float64], slot: int) -> float:
    """Return the requests/s above capacity in a slot."""
    found = np.zeros(len(made))
    for copy in range(made.copies):
        np.add.at(found, made.replicas[:, copy], loads[made.partitions, slot] / made.copies)
    return float(np.maximum(found - made.capacity, 0.0).sum())


def one_day(usual: Patterns, kind: str, seed: int) -> tuple[float, float, float, int]:
    """Return the shares above capacity of the nightly plan and with replanning, bytes moved, and plan changes."""
    rng = np.random.default_rng(seed)
    types = catalogue()
    nightly = plan(usual, servers=types, method="fleet", prove=0.0)
    rules = Replanning(types)
    loads = rng.poisson(usual.loads * factor(kind, usual) * usual.slot_seconds) / usual.slot_seconds
    in_force, past, moved, changes = nightly, Past(), 0.0, 0
    static = with_it = 0.0
    for slot in range(SLOTS):
        if slot:
            expected = forecast(usual, loads, slot, window=WINDOW)
            found = decide(rules, in_force, expected, slot * float(usual.slot_seconds), past)
            past = found.past
            if found.made is not None:
                in_force, moved, changes = found.made, moved + found.moved, changes + 1
        static += above(nightly, loads, slot)
        with_it += above(in_force, loads, slot)
    total = float(loads.sum())
    return static / total, with_it / total, moved / float(usual.sizes.sum()), changes


def main() -> None:
    """Print a row for each workload and day."""
    parser = argparse.ArgumentParser(description="Days unlike the pattern.")
    parser.add_argument("--days", type=int, default=2)
    days = parser.parse_args().days
    goals = Goals()
    made = {name: patterns(name, PARTITIONS, 12.4, 1) for name in ("cos hs100", "gow")}
    usual = {name: _in_slots(one) for name, one in made.items()}
    for name in ("gowalla", "brightkite"):
        if (found := checkins(name)) is not None:
            usual[name] = found
    for name, one in usual.items():
        for kind in KINDS:
            rows = np.array([one_day(one, kind, seed) for seed in range(days)])
            static, with_it, moved, changes = rows.mean(axis=0)
            worst = rows.max(axis=0)
            said = f"{name}, {kind}"
            print(
                f"  {said:40s} above capacity {100 * static:.3f} % nightly, {100 * with_it:.3f} % replanned; "
                f"{100 * moved:.2f} % of the bytes, {changes:.1f} changes "
                f"(worst {worst[2] * 100:.2f} %, {worst[3]:.0f})",
                flush=True,
            )
            if kind == "as usual":
                goals.ask(f"{said}: changes", worst[3], most=0)
            else:
                goals.ask(f"{said}: above capacity over the nightly plan's", with_it / max(static, 1e-12), most=0.5)
            goals.ask(f"{said}: bytes moved", worst[2], most=0.03)
            if kind == "twice from noon on":
                goals.ask(f"{said}: changes", worst[3], most=2)
    goals.end()


def _in_slots(one: Patterns) -> Patterns:
    """Return patterns in slots of a quarter of an hour, that a week has made."""
    loads = one.loads.reshape(len(one.loads), SLOTS, -1).mean(axis=2)
    return replace(one, loads=loads, slot_seconds=86_400 // SLOTS, days=7.0, reads=None, variation=None)


if __name__ == "__main__":
    main()
