"""What commands cost before they answer: processor seconds of fresh processes, started in turns.

    python -m bench.startup [ROUNDS] [--cold]

A store of 3,000 objects is made in a temporary folder. Prints the table of ``docs/benchmarks.md``. ``--cold`` also
measures the first ``knn`` where no code is kept anywhere, once: it compiles. Processor time is that of the process and
its children, as the system counts it; work beside it on the same cores makes it longer. Byte code is kept, as where a
package is installed, whatever the shell says.
"""

from __future__ import annotations

import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import dtoss

KEPT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
COMMAND = [sys.executable, "-c", "from pipelines.command.main import main; main()"]


def make_store(path: str) -> None:
    """Write a store of one snapshot, without Spark."""
    n = 3_000
    dtoss.build(np.arange(n), np.random.default_rng(0).uniform(-50, 50, (n, 2)), partitions=1).save(path)


def seconds(arguments: list[str], env: dict[str, str] = KEPT, run: list[str] = COMMAND) -> float:
    """Processor time of one process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*run, *arguments], check=True, stdout=subprocess.DEVNULL, env=env)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print a table: median, least and worst of each command."""
    rounds = next((int(word) for word in sys.argv[1:] if word.isdecimal()), 15)
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder) / "store")
        Path(store).mkdir()
        make_store(store)
        asked = ["knn", "--store", store, "--at", "0", "0", "-k", "5"]
        within = ["range", "--store", store, "--at", "0", "0", "--radius", "100000"]
        commands = {"`--version`": ["--version"], "`--help`": ["--help"], "`info`": ["info", "--store", store],
                    "`knn --at`": asked, "`range --at`": within,
                    "`knn --at`, by way of the parser": [*asked, "--verify", "no"]}  # fmt: skip
        libraries = "`import numba` alone"
        taken: dict[str, list[float]] = {name: [] for name in (*commands, libraries)}
        for arguments in commands.values():
            seconds(arguments)
        for _ in range(rounds):
            for name, arguments in commands.items():
                taken[name].append(seconds(arguments))
            taken[libraries].append(seconds(["import numba"], run=[sys.executable, "-c"]))
        machine = f"{os.cpu_count()} processors, {platform.processor() or platform.machine()}"
        print(f"{machine}, {os.getloadavg()[0]:.1f} processes at work on them; {rounds} rounds\n")
        print("| command | median | least | worst |\n|---|---|---|---|")
        for name, found in taken.items():
            print(f"| {name} | {np.median(found):.2f} | {min(found):.2f} | {max(found):.2f} |")
        if "--cold" in sys.argv:
            source = Path(folder) / "source"
            here = Path(dtoss.__file__).parents[1]
            for package in ("dtoss", "pipelines", "ceps"):
                shutil.copytree(here / package, source / package, ignore=shutil.ignore_patterns("*.nbc", "*.nbi"))
            kept = {"NUMBA_CACHE_DIR": f"{folder}/kept", "XDG_CACHE_HOME": f"{folder}/user", "PYTHONPATH": str(source)}
            print(f"| `knn --at`, nothing compiled | {seconds(asked, KEPT | kept):.1f} | | |")


if __name__ == "__main__":
    main()
