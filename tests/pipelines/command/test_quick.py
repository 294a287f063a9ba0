"""What commands load before they answer: measured in modules, which take the time."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

import dtoss
from dtoss.snapshots.store import Store
from tests.dtoss.snapshots.damaged_stores import stored

HEAVY = {"numpy", "pandas", "pyarrow", "numba", "llvmlite", "scipy", "pyproj", "sqlglot", "pyspark", "matplotlib"}
TYPES = {"pydantic"}
"""What the parser of options loads for types that no question has."""
RUN = """
import os, sys
from pipelines.command.main import main
try:
    main()
finally:
    import threading
    names = [open(f"/proc/self/task/{task}/comm").read() for task in os.listdir("/proc/self/task")]
    unnamed = names.count(open("/proc/self/comm").read()) - threading.active_count()
    print("\\nloaded", f"unnamed:{max(unnamed, 0)}", *sys.modules)
"""


@pytest.fixture(scope="module")
def two_snapshots(tmp_path_factory):
    """A store of two snapshots, made without Spark."""
    path = tmp_path_factory.mktemp("store") / "store"
    for n in (20, 30):
        stored(dtoss.build(np.arange(n), np.random.default_rng(n).uniform(-50, 50, (n, 2)), partitions=1), path)
    return path


@pytest.fixture
def store(two_snapshots, tmp_path):
    """The same, of which the second snapshot is current, whatever a test does."""
    return str(shutil.copytree(two_snapshots, tmp_path / "store"))


def loaded(*arguments):
    """(exit code, what it printed, modules it loaded) of a command in a process of its own."""
    run = [sys.executable, "-c", RUN, *arguments]
    done = subprocess.run(run, capture_output=True, text=True, timeout=120, check=False)
    printed, _, packages = done.stdout.rpartition("\nloaded ")
    assert packages, done.stderr
    return done.returncode, printed, set(packages.split())


@pytest.mark.parametrize("form", ["--version", "info", "info --json", "info --snapshot", "rollback", "--help"])
def test_quick_commands_load_no_library(store, form):
    """Not even Arrow, nor a module of another command."""
    first, second = Store(store).snapshots()
    arguments = form.split()
    if arguments[0] in ("info", "rollback"):
        arguments += ([first] if form.endswith("snapshot") else []) + [f"--store={store}"]
    code, printed, packages = loaded(*arguments)
    assert code == 0
    assert not packages & (HEAVY | TYPES)
    assert form == "--help" or not packages & {"pipelines.command.planner", "pipelines.command.serve"}
    wanted = {
        "--version": f"dtoss {dtoss.__version__}\n",
        "rollback": f"{first} is current, {second} was\n",
        "info --json": f'{{"snapshot": "{second}"',
        "info": f"snapshot     {second} of 2024",
        "info --snapshot": f"snapshot     {first} of 2024",
        "--help": "Usage: ",
    }[form]
    assert printed.strip().startswith(wanted.strip())


OTHERS = {
    "cells.voronoi", "cells.cell_kernel", "cells.rim", "building.border", "queries.cell_of",
    "conditions.matching_objects", "queries.covered", "queries.polygon_queries", "frames.polygon_frames",
    "queries.find_by_id", "cells.cell_polygons", "snapshots.xxh64",
}  # fmt: skip
"""Modules of the index that only other questions need, or a rebuild."""


@pytest.mark.parametrize("form", ["knn -k 2 --max-distance 1e7", "range --radius 2e7 --json"])
def test_a_question_loads_what_it_needs(store, form):
    """Neither Spark nor a parser of conditions nor what only others need."""
    code, printed, packages = loaded(*form.split(), "--store", store, "--at", "-10.5", "0")
    assert code == 0
    if "--json" in form:
        assert len(json.loads(printed)["hits"]) == (2 if form.startswith("knn") else 30)
    assert {"numba", "pyarrow"} <= packages
    unwanted = HEAVY - {"numpy", "pyarrow", "numba", "llvmlite", "scipy"} | TYPES | {"rich", "scipy.spatial"}
    others = {f"dtoss.{name}" for name in OTHERS}
    assert all(find_spec(name) for name in others)
    assert not packages & (unwanted | {"pyarrow.compute"} | others)
    assert "unnamed:0" in packages  # threads of numpy, which would spin


@pytest.mark.parametrize(
    "arguments",
    ["info", "info --store", "info --store x --nothing", "info x", "rollback --json", "rollback --store x --json",
     "--version x", "knn --store x", "info --json=1", "knn --at 1 2", "knn --store x --at 1",
     "knn --store x --at 1,2 -k 3", "knn --store x --at 1 2 -k 2.5",
     "knn --store x --at 1 2 --all", "range --store x --at 1 2", "within --store x",
     "knn --store x --at 1 2 --limit 0", "knn --store x --at 1 2 --verify none", "serve --store x --workers 0",
     "watch x --store x --tasks 257"],
)  # fmt: skip
def test_what_is_wrong_is_said_before_anything_is_opened(command, arguments):
    """In a line that is not about the store, which is not there."""
    assert "not a store" not in command.fails(*arguments.split())


@pytest.mark.parametrize("arguments", ["info --store", "rollback --store", "info --json --snapshot s --store"])
def test_a_store_that_is_not_there_is_one_line(tmp_path, command, arguments):
    """Of an option that is given twice the last counts."""
    missing = str(tmp_path / "none")
    texts = [command.fails(*arguments.split(), *extra) for extra in ([missing], ["x", "--store", missing])]
    assert texts[0] == texts[1]
    assert missing in texts[0]
