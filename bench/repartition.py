"""The dissertation's figure 3.14: pivots kept for ever, chosen in every cycle, or when it pays (`auto`).

`python -m bench.repartition` prints, for 25 minutes of a fleet of which every taxi reports each minute, the largest
partition over the mean and the processor seconds of a cycle. In the world `steady` taxis drive about their cities; in
`gathering` so many of all, besides, go to one city each minute, and stay there.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
import pyarrow as pa
import typer

from bench.measuring.cycling import cycling
from bench.measuring.updates import CITIES, PERIOD, world
from datasets.cities.taxis import make_fleet
from datasets.fleet import fleet_at
from datasets.tables.command import run

MINUTES = 25
WORLDS = {"steady": 0.0, "gathering": 0.02}
"""Share of all taxis that go to one city each minute."""
POLICIES = {"never": "keep", "always": "balanced", "auto": "auto"}


def minutes(objects: int, share: float, seed: int) -> list[pa.Table]:
    """Return a row of each taxi, minute by minute, the first at the start."""
    fleet, home = make_fleet(objects, CITIES, seed=seed), world(objects, CITIES, seed).taxis
    rng = np.random.default_rng(seed)
    # who has gone to the city drives as one of its own taxis does
    drives_as = np.arange(objects)
    found = []
    for minute in range(MINUTES + 1):
        rows = pa.Table.from_batches(fleet_at(fleet, float(PERIOD * minute))).combine_chunks()
        if minute:
            gone = rng.permutation(objects)[: round(share * objects)]
            drives_as[gone] = home[rng.integers(0, len(home), len(gone))]
        as_these = rows.take(pa.array(drives_as))
        for name in ("lon", "lat"):
            rows = rows.set_column(rows.column_names.index(name), name, as_these[name])
        found.append(rows)
    return found


def main(
    objects: Annotated[int, typer.Option(help="How many.")] = 1_000_000,
    partitions: Annotated[int, typer.Option(help="Of each store.")] = 32,
    seed: Annotated[int, typer.Option(help="Of the fleet and of who goes where.")] = 0,
) -> None:
    """Print a table for each world."""
    for name, share in WORLDS.items():
        rows = minutes(objects, share, seed)
        largest: dict[str, list[float]] = {}
        spent: dict[str, list[float]] = {}
        chosen: dict[str, list[int]] = {}
        for policy, pivots in POLICIES.items():
            with cycling(rows[0], partitions) as running:
                for minute, newer in enumerate(rows[1:], 1):
                    one = running.cycle(newer, pivots=pivots)
                    sizes = [entry["objects"] for entry in one.manifest["partitions"]]
                    largest.setdefault(policy, []).append(max(sizes) * len(sizes) / sum(sizes))
                    spent.setdefault(policy, []).append(one.processor)
                    if one.manifest["cycle"]["pivots"] == "chosen":
                        chosen.setdefault(policy, []).append(minute)
        print(f"\n{name}: {objects:,} taxis, {partitions} partitions; largest partition over the mean\n")
        print(f"| minute | {' | '.join(POLICIES)} |\n{'|---' * (1 + len(POLICIES))}|")
        for minute in (1, *range(5, MINUTES + 1, 5)):
            print(f"| {minute} | {' | '.join(f'{largest[policy][minute - 1]:.3f}' for policy in POLICIES)} |")
        seconds = " | ".join(f"{sum(spent[policy]) / MINUTES:.2f}" for policy in POLICIES)
        print(f"| processor s a cycle, mean | {seconds} |")
        print(f"\nauto chose pivots in minutes {chosen.get('auto', 'none')}", flush=True)


if __name__ == "__main__":
    run(main)
