"""What the client takes: questions in bulk and one by one, beside the same questions in process.

    python -m bench.serve.client --store STORE [--url URL] [--queries 50000] [--k 8] [--turns 9]

A server of the store is asked over HTTP (``dtoss serve --store STORE``); answers are compared bit for bit, and the best
of some turns counts, ours and the index's in process in turns. The client's processor time is that of this process.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import dtoss
from pipelines.calibrate import places_of_objects


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", required=True)
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--queries", type=int, default=50_000)
    parser.add_argument("--k", type=int, default=8)
    parser.add_argument("--turns", type=int, default=9)
    options = parser.parse_args()
    index, there = dtoss.open(options.store), dtoss.connect(options.url)
    rng = np.random.default_rng(0)
    places = places_of_objects(index, rng, options.queries)
    near = places + rng.normal(0, 1e-3, places.shape)
    near = np.clip(near, [-180, -90], [180, 90]) if index.space.geographic else near
    print(f"{platform.platform()}, {os.cpu_count()} processors, {len(index):,} objects, k = {options.k}")
    print("| queries | in process, 1/s | client, 1/s | ratio | client's own us a query |\n|---|---|---|---|---|")
    for count in (1, 100, 10_000, options.queries):
        asked = near[0] if count == 1 else near[:count]
        turns = options.turns if count > 1 else 100 * options.turns
        print(row(count, lambda which, asked=asked: which.knn(asked, options.k), index, there, turns), flush=True)


def row(count: int, ask: Callable[[Any], dtoss.Hits], index: Any, there: Any, turns: int) -> str:
    """Return the row of a batch, whose answers have to be the same."""
    assert ask(index) == ask(there)
    best, own = [np.inf, np.inf], np.inf
    for _ in range(turns):
        for number, which in enumerate((index, there)):
            began, spent = time.perf_counter(), time.process_time()
            ask(which)
            best[number] = min(best[number], time.perf_counter() - began)
            own = min(own, time.process_time() - spent) if number else own
    here, other = (count / seconds for seconds in best)
    return f"| {count:,} | {here:,.0f} | {other:,.0f} | {other / here:.2f} | {own / count * 1e6:.2f} |"


if __name__ == "__main__":
    main()
