"""Random conditions against DuckDB, more than the tests ask: `python -m tests.long.conditions --count 200000`.

Each seed is a table of all types and 2,000 conditions; those that DuckDB answers otherwise are printed, as we and as it
read them. Ends with code 1 if there are any.
"""

from __future__ import annotations

from typing import Annotated

import typer

from datasets.tables.command import run, say
from tests.dtoss.conditions.sql_oracle import differing

EACH = 2000


def main(
    count: Annotated[int, typer.Option(help="How many conditions.")] = 200_000,
    first: Annotated[int, typer.Option(help="The first seed; other seeds are other conditions.")] = 1000,
) -> None:
    """Compare random conditions with what DuckDB makes of them."""
    seeds = range(first, first + max(count // EACH, 1))
    wrong = 0
    for seed in seeds:
        for one in differing(seed, EACH):
            wrong += 1
            print(f"{one.ours}\n    {one.duck}")
    say(f"{EACH * len(seeds):,} conditions, {wrong} answered otherwise by DuckDB")
    if wrong:
        raise typer.Exit(1)


if __name__ == "__main__":
    run(main)
