"""Areas and neighbours of sites an ulp apart against exact arithmetic: `python -m tests.long.ulps`; part of check-data.

Ends with code 1 where one differs, and names the seed of its world.
"""

from __future__ import annotations

import time
from typing import Annotated

import typer

from datasets.tables.command import run, say
from tests import ulps


def main(
    count: Annotated[int, typer.Option("--worlds", help="How many.")] = 3000,
    first: Annotated[int, typer.Option(help="The first seed; other seeds are other worlds.")] = 1000,
) -> None:
    """Compare the cells of small worlds of sites an ulp apart with those in 90 digits."""
    began, wrong = time.perf_counter(), 0
    for seed in range(first, first + count):
        lines = ulps.differences(seed)
        wrong += bool(lines)
        for line in lines:
            say(line)
    say(f"{count:,} worlds of sites an ulp apart, {wrong} differ, {time.perf_counter() - began:.0f} s")
    if wrong:
        raise typer.Exit(1)


if __name__ == "__main__":
    run(main)
