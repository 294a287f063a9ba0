"""What commands load before they answer: measured in modules, which take the time."""

from __future__ import annotations

import gc
import json
import shutil
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

import dtoss
from dtoss.snapshots.store import Store
from pipelines.command.fast_commands import answer_quickly
from tests.dtoss.snapshots.damaged_stores import stored

HEAVY = {"numpy", "pandas", "pyarrow", "numba", "llvmlite", "scipy", "pyproj", "sqlglot", "pyspark", "matplotlib"}
PARSER = {"typer", "pydantic"}
RUN = """
import sys
from pipelines.command.main import main
try:
    main(sys.argv[1:])
finally:
    print("\\nloaded", *sys.modules)
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
    """Not even Arrow or the parser of options, but for help, which is the parser's."""
    first, second = Store(store).snapshots()
    arguments = form.split()
    if arguments[0] in ("info", "rollback"):
        arguments += ([first] if form.endswith("snapshot") else []) + [f"--store={store}"]
    code, printed, packages = loaded(*arguments)
    assert code == 0
    assert not packages & (HEAVY if form == "--help" else HEAVY | PARSER)
    assert "pydantic" not in packages
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
    """Neither Spark nor the parsers of options and conditions nor what only others need."""
    code, printed, packages = loaded(*form.split(), "--store", store, "--at", "-10.5", "0")
    assert code == 0
    if "--json" in form:
        assert len(json.loads(printed)["hits"]) == (2 if form.startswith("knn") else 30)
    assert {"numba", "pyarrow"} <= packages
    unwanted = HEAVY - {"numpy", "pyarrow", "numba", "llvmlite", "scipy"} | PARSER | {"scipy.spatial", "rich"}
    others = {f"dtoss.{name}" for name in OTHERS}
    assert all(find_spec(name) for name in others)
    assert not packages & (unwanted | {"pyarrow.compute"} | others)


@pytest.mark.parametrize(
    "form",
    ["knn", "knn -k 3", "knn -k 3 --max-distance 3e6 --json", "knn --columns= --where id<9 --having id>2 -k 30",
     "range --radius .5e7", "range --radius 1e7 --count", "range --radius 1e7 --count --json --where id<9"],
)  # fmt: skip
def test_both_ways_to_an_answer_print_the_same(store, command, capfd, form):
    """The quick one, and the one through the parser, which alone knows --verify."""
    asked = [*form.split(), "--store", store, "--at", "1", "-2.5"]
    assert answer_quickly(asked)
    quick = capfd.readouterr().out
    assert command(*asked, "--verify", "no")[:2] == (0, quick)
    assert gc.isenabled()


@pytest.mark.parametrize(
    "arguments",
    ["info", "info --store", "info --store x --store y", "info --store x --nothing", "info x", "rollback --json",
     "rollback --store x --json", "info --store -x", "info --help", "--version x", "knn --store x", "info --json=1",
     "knn --at 1 2", "knn --store x --at 1", "knn --store x --at=1 2", "knn --store x --at 1 2 -k=3",
     "knn --store x --at 1,2 -k 3", "knn --store x --at 1 2 -k -1", "knn --store x --at 1 2 -k 2.5",
     "knn --store x --at 1 2 --all", "knn --store x --at 1 nan", "range --store x --at 1 2", "within --store x"],
)  # fmt: skip
def test_what_is_not_plain_goes_to_the_parser(arguments):
    """It says what is wrong; nothing was done."""
    assert not answer_quickly(arguments.split())


@pytest.mark.parametrize("arguments", ["info --store", "rollback --store", "info --json --snapshot s --store"])
def test_a_store_that_is_not_there_is_one_line(tmp_path, command, arguments):
    """The same as the parser's way gives."""
    missing = str(tmp_path / "none")
    # an option twice is not plain: the parser takes the last
    texts = [command.fails(*arguments.split(), *extra) for extra in ([missing], [missing, "--store", missing])]
    assert texts[0] == texts[1]


def test_both_ways_to_information_print_the_same(store, command):
    """The quick one, and the one through the parser."""
    for extra in ([], ["--json"]):
        printed = [command("info", "--store", store, *extra, *again).out for again in ([], ["--store", store])]
        assert printed[0] == printed[1]
        assert printed[0]
