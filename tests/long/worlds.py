"""Thousands of small random worlds, each asked everything: `python -m tests.long.worlds --worlds 2000`.

The oracle (`tests/worlds.py`) is textbook formulas in long double and shares no code with the index. Ends with code 1
where an answer differs, and names the kind and seed of the world.
"""

from __future__ import annotations

import time
from typing import Annotated

import typer

from datasets.tables.command import BadInput, run, say
from tests import worlds


def main(
    count: Annotated[int, typer.Option("--worlds", help="How many, spread evenly over the kinds.")] = 2000,
    first: Annotated[int, typer.Option(help="The first seed; other seeds are other worlds.")] = 1000,
    only: Annotated[list[str] | None, typer.Option(help="Kinds; all if not given. Repeat it.")] = None,
) -> None:
    """Compare every answer about small random worlds with an independent oracle."""
    kinds = only or worlds.KINDS
    unknown = set(kinds) - set(worlds.KINDS)
    if unknown:
        raise BadInput(f"{', '.join(sorted(unknown))}: not one of {', '.join(worlds.KINDS)}")
    each = -(-count // len(kinds))
    differ = asked = 0
    for kind in kinds:
        began = time.perf_counter()
        wrong = 0
        for seed in range(first, first + each):
            w = worlds.world(kind, seed)
            index = worlds.build(w)
            lines = worlds.compare(w, index) + worlds.compare_cells(w, index)
            asked += 1
            wrong += bool(lines)
            if lines:
                say(f"{w.name} ({len(w.ids)} objects, {w.partitions} partitions): {lines[0]}")
        differ += wrong
        say(f"{kind}: {each} worlds, {wrong} differ, {time.perf_counter() - began:.0f} s")
    say(f"{asked:,} worlds, {differ} differ from the oracle")
    if differ:
        raise typer.Exit(1)


if __name__ == "__main__":
    run(main)
