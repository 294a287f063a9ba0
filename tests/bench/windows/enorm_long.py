"""Many seeds: python -m tests.bench.windows.enorm_long [--count 3000] [--first 0].

Each is one of the small jobs with changes at some moments. Prints how often each job was changed in which way; exits
with 1 at the first that gives other windows than all rows at once.
"""

import argparse
import sys
from collections import Counter

from tests.bench.windows.enorm_batch import expected
from tests.bench.windows.enorm_jobs import HOWS, fuzz


def main() -> None:
    """Run the seeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=3_000)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    made = Counter()
    for seed in range(options.first, options.first + options.count):
        name, run, rows, ways = fuzz(seed)
        made.update((name, how) for how in ways)
        if run.lost or run.late or Counter(run.results) != expected(run.now.job, rows):
            sys.exit(f"seed {seed}: {name}, changed {ways}, gives other windows than all its rows at once")
    for name in sorted({name for name, _ in made}):
        print(f"{name}: {', '.join(f'{made[name, how]} {how}' for how in HOWS)}")
    print(f"{options.count:,} streams, {made.total():,} changes, every window as of all rows at once")


if __name__ == "__main__":
    main()
