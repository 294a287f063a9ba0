"""Workers of a watch in Spark: what the simulator says against what tasks took: python -m bench.watch.workers.

A hot spot that moves over the United States, 100,000 subscriptions, 8 workers, a batch for each file. Of each strategy:
the processor seconds of the busiest worker over the mean, measured and as the simulator has it of the batch's own
counts; the busiest worker's seconds beside those of ours.

Exits with 1 and the goals that are missed. Needs Spark.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.measuring.scattering import scattered
from bench.measuring.verdicts import Goals
from bench.watch.rounds import SPRAWL_KM, hotspot_places, states
from bench.watch.worlds import circles, log_uniform
from ceps.balance.round_costs import Loads, WorkModel, max_over_mean, work_of_workers
from dtoss.commits.chain import Commit
from dtoss.watch.sharding.layout_files import open_routing
from dtoss.watch.sharding.sharding_commit import read_load
from dtoss.watch.subscriptions.changes import subscribe
from dtoss.watch.watch_folder import Home
from pipelines.spark.session import spark_session
from pipelines.watch import watch_files
from pipelines.watching.spreading import SpreadOptions
from pipelines.watching.strategy_layouts import as_layout

WORKERS = 8
AGREE, OVER_SWARM, OVER_STATIC = 0.15, 0.7, 0.5
STRATEGIES = ("uniform", "kd", "swarm", "ours", "replicated")
FIRST = 3
"""Batches that are left out: no strategy knows anything before them."""


def arrive(folder: Path, rounds: int, rows: int) -> None:
    """Write a file of each round, older than any that waits."""
    rng = np.random.default_rng(0)
    for number, places in enumerate(hotspot_places("two in turn", rounds, rows, rng)):
        ids = rng.integers(0, 200_000, rows)
        t = np.full(rows, 1_700_000_000 + 60 * number) + rng.integers(0, 60, rows)
        path = folder / f"{number:03}.parquet"
        pq.write_table(pa.table({"id": ids, "t": t, "lon": places[:, 0], "lat": places[:, 1]}), path)
        os.utime(path, (1_600_000_000 + number, 1_600_000_000 + number))


def asked(count: int) -> pa.Table:
    """Return circles at cities by their people."""
    rng = np.random.default_rng(1)
    middles, people = states()
    centres = scattered(rng, middles[rng.choice(len(middles), count, p=people)], SPRAWL_KM)
    return circles(centres, log_uniform(rng, 100, 10_000, count))


def measured(commit: Commit) -> np.ndarray:
    """Return the seconds of each worker in a batch."""
    found = np.zeros(commit.document["layout"]["workers"])
    for one in commit.document["work"]:
        found[one["worker"]] = one["seconds"]
    return found


def simulated(home: Home, commit: Commit) -> float:
    """Return the busiest over the mean as the simulator has it: of the batch's counts by cell, and its layout."""
    load = read_load(home, commit.document["load"]["name"])
    layout = as_layout(open_routing(home, commit.document["layout"]["layout"]["name"]))
    full = [np.zeros(load.grid.cells) for _ in range(3)]
    for total, values in zip(full, (load.rows, load.candidates, load.matches), strict=True):
        total[load.cell] = values
    none = np.zeros(load.grid.cells)
    return max_over_mean(work_of_workers(layout, Loads(load.grid.shape, *full, none, none, WorkModel(*load.model))))


def main() -> None:
    """Watch the same files with each strategy."""
    parser = argparse.ArgumentParser(description="Workers of a watch in Spark, measured and simulated.")
    parser.add_argument("--rounds", type=int, default=16, help="Files, a batch each.")
    parser.add_argument("--rows", type=int, default=100_000, help="Of a file.")
    parser.add_argument("--subscriptions", type=int, default=100_000, help="How many.")
    given = parser.parse_args()
    goals, busiest = Goals(), {}
    spark = spark_session("local[2]", driver_memory="2g", name="workers")
    with tempfile.TemporaryDirectory() as scratch:
        incoming = Path(scratch) / "in"
        incoming.mkdir()
        arrive(incoming, given.rounds, given.rows)
        for name in STRATEGIES:
            home = Home(str(Path(scratch) / name))
            subscribe(home, asked(given.subscriptions))
            watch_files(
                str(incoming), home.store, lambda: spark, once=True, most_rows=1, max_ahead=None,
                spread=SpreadOptions(name, WORKERS),
            )  # fmt: skip
            commits = [home.batches.read(number) for number in range(1, home.batches.head().number + 1)]  # type: ignore[union-attr]
            some = [one for one in commits if one.document["counts"]["rows"]][FIRST:]
            real = np.array([max_over_mean(measured(one)) for one in some])
            said = np.array([simulated(home, one) for one in some])
            off = np.abs(said / real - 1.0)
            busiest[name] = float(np.mean([measured(one).max() for one in some]))
            moved = sum(one.document["layout"]["moved"] for one in some) / 1e6 / len(some)
            verdict = goals.ask(f"{name}: simulator off", float(np.median(off)), most=AGREE)
            print(
                f"{name:12s} busiest/mean {real.mean():.3f}, worst {real.max():.2f}; simulator {said.mean():.3f}, off "
                f"by {100 * np.median(off):.0f} %, {100 * off.max():.0f} at most {verdict}; busiest "
                f"{busiest[name]:.3f} s; moved {moved:.2f} MB a batch"
            )
    for rival, most in (("swarm", OVER_SWARM), ("uniform", OVER_STATIC)):
        ratio = busiest["ours"] / busiest[rival]
        print(f"busiest task, ours over {rival}: {ratio:.2f} {goals.ask(f'ours over {rival}', ratio, most=most)}")
    goals.end()


if __name__ == "__main__":
    main()
