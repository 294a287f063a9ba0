"""The papers' figures again, and those of README, each as a table: `python -m bench.run [NAME ...] --size here`.

Names are those of the files in `bench/experiments/`, or what they begin with; without one all of them run. A table is
printed, and written into `bench/results/`, from which `python -m bench.report` fills the documents. What is `smoke` is
written only where `--out` says so.
"""

from __future__ import annotations

import os
from pathlib import Path
from time import process_time
from typing import Annotated

os.environ["DTOSS_KERNELS"] = "native"  # never the code for any processor that a wheel may bring
os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when pykdtree is loaded: it would use every core

import typer

from bench.experiments.results import RESULTS, SIZES, experiments, measure, module_of, write
from datasets.tables.command import run, say


def main(
    names: Annotated[
        list[str] | None, typer.Argument(help="Of experiments, or what they begin with; without one all.")
    ] = None,
    size: Annotated[str, typer.Option(help="smoke: seconds; here: at most ten minutes; full: the paper's.")] = "here",
    out: Annotated[Path | None, typer.Option(help="Folder of the tables instead of bench/results.")] = None,
) -> None:
    """Run experiments one after the other."""
    chosen = [name for name in experiments() if not names or name.startswith(tuple(names))]
    unknown = [name for name in names or () if not any(one.startswith(name) for one in chosen)]
    if unknown or size not in SIZES:
        say(f"no experiment {', '.join(unknown)}: there are {', '.join(experiments())}; sizes are {', '.join(SIZES)}")
        raise typer.Exit(2)
    for name in chosen:
        began = process_time()
        results = measure(name, size)
        print(f"\n## {name}, {size}: {results.data}\n\n{module_of(name).draw(results)}", flush=True)
        say(f"{name}: {process_time() - began:.1f} s of processor time")
        if out or size != "smoke":
            say(str(write(results, out or RESULTS)))


if __name__ == "__main__":
    run(main)
