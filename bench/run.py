"""The papers' figures again, and those of README, each as a table: `python -m bench.run [NAME ...] --size here`.

Names are those of the files in `bench/experiments/`, or what they begin with where none is called so; without one all
of them run. A table is printed, and written into `bench/results/`, from which `python -m bench.report` fills the
documents. What is `smoke` is written only where `--out` says so. With `--repeat 5` a table has the medians of five runs
and what each of them found.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from bench.experiments.results import RESULTS, SIZES, experiments, measure, module_of, write
from datasets.tables.command import run, say


def main(
    names: Annotated[
        list[str] | None, typer.Argument(help="Of experiments, or what they begin with; without one all.")
    ] = None,
    size: Annotated[str, typer.Option(help="smoke: seconds; here: at most ten minutes; full: the paper's.")] = "here",
    repeat: Annotated[int, typer.Option(min=1, help="How many times each is run; a table has the medians.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Folder of the tables instead of bench/results.")] = None,
) -> None:
    """Run experiments one after the other."""
    os.environ["DTOSS_KERNELS"] = "native"  # never the code for any processor that a wheel may bring
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when pykdtree is loaded: it would use every core
    unknown = [name for name in names or () if not named([name])]
    if unknown or size not in SIZES:
        say(f"no experiment {', '.join(unknown)}: there are {', '.join(experiments())}; sizes are {', '.join(SIZES)}")
        raise typer.Exit(2)
    for name in named(names):
        results = measure(name, size, repeat)
        print(f"\n## {name}, {size}: {results.data}\n\n{module_of(name).draw(results)}", flush=True)
        say(f"{name}: {results.seconds:.1f} s of processor time")
        if out or size != "smoke":
            say(str(write(results, out or RESULTS)))


def named(names: Sequence[str] | None) -> list[str]:
    """Return the experiments that are called so, or of which none is and that begin so; without names all."""
    known = experiments()
    begin = tuple(name for name in names or () if name not in known)
    return [name for name in known if not names or name in names or name.startswith(begin)]


if __name__ == "__main__":
    run(main)
