"""Figure 3.14 of the dissertation: pivots kept for ever, chosen in every cycle, or when it pays (`auto`).

25 minutes of a fleet of which every taxi reports each minute, in this process. In the world *steady* taxis drive about
their cities; in *gathering* 2 % of all, besides, go to one city each minute, and stay there. The largest partition over
the mean is counted; a cycle's processor seconds are of one thread or more.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import accumulate
from time import process_time

import numpy as np
import pyarrow as pa

from bench.experiments.results import Results, Row, grid, markdown, point
from bench.measuring.updates import CITIES, PERIOD, world
from datasets.cities.taxis import make_fleet
from datasets.fleet import fleet_at
from pipelines.cycle import cycle
from pipelines.rebuild import rebuild

SIZES = {"smoke": (500, 4, 2), "here": (100_000, 32, 25), "full": (1_000_000, 32, 25)}
WORLDS = {"steady": 0.0, "gathering": 0.02}
"""Share of all taxis that go to one city each minute."""
POLICIES = {"never": "keep", "always": "balanced", "auto": "auto"}
LARGEST, SECONDS, CHOSEN = (
    "largest partition over the mean",
    "processor s of the cycle",
    "times that pivots were chosen",
)


def rows_by_minute(objects: int, minutes: int, share: float, seed: int) -> Iterator[pa.Table]:
    """Yield a row of each taxi, minute by minute, the first at the start."""
    fleet, home = make_fleet(objects, CITIES, seed=seed), world(objects, CITIES, seed).taxis
    rng = np.random.default_rng(seed)
    # who has gone to the city drives as one of its own taxis does
    drives_as = np.arange(objects)
    for minute in range(minutes + 1):
        rows = pa.Table.from_batches(fleet_at(fleet, float(PERIOD * minute))).combine_chunks()
        if minute:
            gone = rng.permutation(objects)[: round(share * objects)]
            drives_as[gone] = home[rng.integers(0, len(home), len(gone))]
        as_these = rows.take(pa.array(drives_as))
        for name in ("lon", "lat"):
            rows = rows.set_column(rows.column_names.index(name), name, as_these[name])
        yield rows


def run(size: str) -> Iterator[Row]:
    """Yield what each policy has after each minute, x is the minute."""
    objects, partitions, minutes = SIZES[size]
    data = f"{objects:,} made taxis, {partitions} partitions"
    for name, share in WORLDS.items():
        for policy, pivots in POLICIES.items():
            largest, spent, chosen = [], [], []
            with tempfile.TemporaryDirectory() as store:
                for minute, rows in enumerate(rows_by_minute(objects, minutes, share, 0)):
                    if minute == 0:
                        rebuild(rows, store, time="t", partitions=partitions)
                        continue
                    began = process_time()
                    manifest = cycle(rows, store, keep_for=0.0, pivots=pivots)
                    spent.append(process_time() - began)
                    sizes = [entry["objects"] for entry in manifest["partitions"]]
                    assert sum(sizes) == objects
                    largest.append(max(sizes) * len(sizes) / sum(sizes))
                    chosen.append(manifest["cycle"]["pivots"] == "chosen")
            for unit, values in ((LARGEST, largest), (SECONDS, spent), (CHOSEN, accumulate(chosen))):
                for minute, value in enumerate(values, 1):
                    yield point(f"{name}, {policy}", minute, value, unit, data=data)


def draw(results: Results) -> str:
    """Return a table of each unit at a few minutes, and the mean of all cycles."""
    last = max(int(row.x) for row in results.rows)
    shown = {str(minute) for minute in (1, *range(5, last, 5), last)}
    tables = [
        grid(results, unit, f"minute: {unit}", "{:.4g}", only=lambda row: row.x in shown)
        for unit in (LARGEST, SECONDS, CHOSEN)
    ]
    names = dict.fromkeys(row.series for row in results.rows)
    means = [f"{sum(spent) / len(spent):.3f}" for spent in (results.of(name, SECONDS).values() for name in names)]
    tables.insert(2, markdown(["mean of all cycles", *names], [[SECONDS, *means]]))
    return "\n\n".join(tables)
