"""Figures 9 to 16: python -m bench.windows.enorm.figures [--only 9 13 ...] [--rows N] [--jobs N] [--out FILE.png].

Processor seconds of one process, the least of some turns. Nothing is asserted.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from bench.windows.balance import flux
from bench.windows.enorm.changing import DIRECT
from bench.windows.enorm.figures.choosing import choices
from bench.windows.enorm.figures.drawing import Figure, draw, table
from bench.windows.enorm.figures.fusing import components_and_traffic
from bench.windows.enorm.figures.lagging import KEYS, latencies
from bench.windows.enorm.figures.migration import moved_in, overhead, pauses, split_and_combine
from bench.windows.enorm.figures.throughput import consolidating, fused, one_or_two_components

OURS = tuple(range(9, 17))


def main() -> None:
    """Print the tables, and draw them where a file is named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=int, nargs="+", choices=OURS, default=OURS, help="of 9 to 16")
    parser.add_argument("--rows", type=int, default=150_000, help="of a run (default: 150,000; the paper: 18,000,000)")
    parser.add_argument("--times", type=int, default=3, help="turns, of which the least counts (default: 3)")
    parser.add_argument("--jobs", type=int, default=500, help="random jobs of each size (default: 500)")
    parser.add_argument("--out", type=Path, help="where the picture goes")
    options = parser.parse_args()
    rows, times, figures = options.rows, options.times, list[Figure]()

    def show(*made: Figure) -> None:
        for figure in made:
            print("\n" + table(figure), flush=True)
            figures.append(figure)

    if 9 in options.only:
        show(consolidating(rows, times))
        print("\n" + choices(rows, 1_000), flush=True)
        print("\n" + one_or_two_components(rows, 1_000, times + 2), flush=True)
    if 10 in options.only:
        show(pauses(times))
    if 11 in options.only:
        show(*split_and_combine(times))
    if 12 in options.only:
        show(overhead(rows // 2, 10_000, times))
    if 13 in options.only:
        show(latencies(flux, moved_in(KEYS, DIRECT, times) / 1e3))
    if {14, 15} & set(options.only):
        show(*components_and_traffic(options.jobs))
    if 16 in options.only:
        show(fused(rows // 3, 4_000, times))
    if options.out:
        draw(figures, options.out)
        print(f"\n{options.out}")


if __name__ == "__main__":
    main()
