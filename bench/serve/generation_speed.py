"""How fast a generation answers in process, beside an index that is built anew of the same rows.

    python -m bench.serve.generation_speed [--objects N] [--partitions P] [--turns T]

Rows of objects anywhere are merged ten times, as a server does, and published; both are opened from files in memory.
Processor seconds of one thread for the 8 nearest, in turns, the least of each. Answers are compared.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

import dtoss
from bench.measuring.race import in_turns
from bench.serve.fresh import rows_of
from dtoss.fresh.generations import publish
from dtoss.fresh.shared_folder import MEMORY
from dtoss.fresh.standing import merge_rows, standing_of
from dtoss.log.log_reader import log_schema
from dtoss.snapshots.store import Store

MERGES, ROWS_OF_EACH = 10, 300
"""Generations that follow each other, and rows of each."""
PLACES_AT_ONCE, PLACES_IN_TURN = 200_000, 20_000
"""Places that are asked for at once, and one after another."""


def main() -> None:
    """Print a row for each way to ask."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, default=200_000)
    parser.add_argument("--partitions", type=int, default=16)
    parser.add_argument("--turns", type=int, default=9)
    given = parser.parse_args()
    rng, count = np.random.default_rng(0), given.objects
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        store, home, plain = (Store(str(Path(folder) / name)) for name in ("store", "home", "plain"))
        begins = int(time.time()) - 1_000
        stands = rows_of(rng, np.arange(count), begins)
        dtoss.build(stands, partitions=given.partitions).save(store, time="t")
        standing, schema = standing_of(store), log_schema(store.manifest())
        for number in range(1, MERGES + 1):
            told = rows_of(rng, rng.choice(count, ROWS_OF_EACH, replace=False), begins + number)
            stays = np.ones(count, bool)
            stays[np.asarray(told["id"])] = False
            stands = pa.concat_tables([stands.filter(pa.array(stays)), told]).sort_by("id")
            rows = told.append_column("deleted", pa.array([False] * ROWS_OF_EACH)).select(schema.names).cast(schema)
            standing, _ = merge_rows(standing, rows, ROWS_OF_EACH * number)
        publish(standing, home, None)
        dtoss.build(stands, partitions=given.partitions).save(plain, time="t")
        opened = {"generation": dtoss.open(home), "built": dtoss.open(plain)}
        places = rng.uniform([139.0, 35.0], [140.0, 36.0], (PLACES_AT_ONCE, 2))
        some = places[:PLACES_IN_TURN]
        print("| 8 nearest of | generation, µs a place | built, µs | ratio |\n|---|---|---|---|")
        for what, many, ask in (
            ("places at once", len(places), lambda index: index.knn(places, 8).id),
            (
                "places, one after another",
                len(some),
                lambda index: np.concatenate([index.knn(one, 8).id for one in some]),
            ),
        ):
            spent, made = in_turns({name: partial(ask, index) for name, index in opened.items()}, given.turns)
            if not np.array_equal(*made.values()):
                raise SystemExit(f"{many:,} {what}: answers differ")
            fresh, built = (1e6 * min(spent[name]) / many for name in opened)
            print(f"| {many:,} {what} | {fresh:.2f} | {built:.2f} | {fresh / built:.2f} |", flush=True)


if __name__ == "__main__":
    main()
