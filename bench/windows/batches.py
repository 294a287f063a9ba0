"""What a batch of windows costs and writes beside a fleet of a million: `python -m bench.windows.batches`.

Three batches of a row of each object, then six of 10,000 objects; 128 places, windows of 5 and 15 minutes, an hour and
a day every minute, all measures and then objects, speed and flow. Processor seconds, and bytes of new files.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from bench.windows.memory import MEGABYTE, PLACES, SECOND_US, Run
from dtoss.windows.measures import MEASURES

COUNTS = (1_000_000,) * 3 + (10_000,) * 6
APART_SECONDS = 10


def written(folder: str) -> dict[str, int]:
    """Return the bytes of all files, by their paths."""
    return {str(path): path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()}


def batches(measures: str, objects: int) -> None:
    """Print what each batch costs and writes."""
    rng = np.random.default_rng(0)
    places = np.stack([rng.uniform(8, 9, PLACES), rng.uniform(50, 51, PLACES)], axis=1)
    positions = np.stack([rng.uniform(8, 9, objects), rng.uniform(50, 51, objects)], axis=1)
    with tempfile.TemporaryDirectory() as folder:
        run = Run(folder, places, "5min,15min,1h,24h", measures)
        for number, count in enumerate(COUNTS):
            who = rng.permutation(objects)[: min(count, objects)]
            began_us = (1_700_000_000 + APART_SECONDS * number) * SECOND_US
            t = began_us + rng.integers(0, APART_SECONDS * SECOND_US, len(who))
            positions[who] += rng.normal(0, 0.001, (len(who), 2))
            before, began = written(folder), time.process_time()
            said = run.commit(who, t, positions[who])
            seconds = time.process_time() - began
            fresh = sum(size for path, size in written(folder).items() if path not in before)
            run.tend()
            print(
                f"{measures}: {len(who):,} rows, {said['counts']['results']:,} results: {seconds:.2f} s of a "
                f"processor, {fresh / MEGABYTE:.1f} MB written",
                flush=True,
            )


def main() -> None:
    """Print all of it; the first argument is how many objects, a million if there is none."""
    objects = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    for measures in (",".join(MEASURES), "objects,speed,flow"):
        batches(measures, objects)


if __name__ == "__main__":
    main()
