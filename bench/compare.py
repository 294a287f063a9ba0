"""Two folders of results beside each other, as ratios: `python -m bench.compare A B`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bench.experiments.results import markdown, read, table_names
from datasets.tables.command import run, say


def ratios(first: Path, second: Path) -> list[tuple[str, str, str, str, float, float, float]]:
    """Return experiment, series, x, unit, both values and the second over the first, the furthest from 1 first."""
    found = []
    for name in table_names(first):
        before, after = read(name, first), read(name, second)
        if before is None or after is None:
            continue
        there = {(row.figure, row.series, row.x, row.unit): row.y for row in before.rows}
        for row in after.rows:
            value = there.get((row.figure, row.series, row.x, row.unit))
            if value is not None:
                ratio = row.y / value if value else float(row.y == value) or float("inf")
                found.append((name, row.series, row.x, row.unit, value, row.y, ratio))
    return sorted(found, key=lambda one: -max(abs(one[-1]), 1 / abs(one[-1]) if one[-1] else float("inf")))


def main(
    first: Annotated[Path, typer.Argument(help="Folder with Parquet files of results.")],
    second: Annotated[Path, typer.Argument(help="Another one.")],
    most: Annotated[int, typer.Option(help="Points that are printed, those that differ most.")] = 40,
) -> None:
    """Print the points that differ most."""
    found = ratios(first, second)
    rows = [[*one[:4], *(f"{value:.6g}" for value in one[4:6]), f"{one[6]:.3f}"] for one in found[:most]]
    print(markdown(["experiment", "series", "x", "unit", str(first), str(second), "ratio"], rows))
    say(f"{len(found)} points stand in both, {sum(abs(one[-1] - 1) > 1e-9 for one in found)} of them differ")


if __name__ == "__main__":
    run(main)
