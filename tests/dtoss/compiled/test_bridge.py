"""Compiled code that comes with an installation: used at once, replaced by this processor's, the same bits."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dtoss.compiled.kernel import DECLARED
from dtoss.warm import make_generic
from tests.dtoss.compiled import every_kernel
from tests.dtoss.compiled.forked_code import Forking

ROOT = Path(__file__).parents[3]
NAMES = [
    "dtoss.geometry.space._unit_vectors",
    "dtoss.geometry.space._first_beyond",
    "dtoss.geometry.distance._distances",
]
ASK = """
import hashlib, sys, time
import numpy as np
from dtoss.compiled import bridge
from dtoss.geometry.distance import distance
from dtoss.compiled.kernel import DECLARED
from dtoss.geometry.space import space_of
places = np.random.default_rng(0).uniform(-90, 90, (3000, 2))
def ask():
    vectors = space_of().vectors(places)
    return hashlib.sha256(vectors.tobytes() + distance(vectors, vectors[::-1]).tobytes()).hexdigest()
def generic():
    used = [DECLARED[name] for name in ("dtoss.geometry.space._unit_vectors", "dtoss.geometry.distance._distances")]
    results = [result for kernel in used for result in kernel.overloads.values()]
    return sum("v1000000" in result.fndesc.llvm_func_name for result in results)
first = ask()
print(first, generic(), end=" ")
while bridge._WAITING:
    time.sleep(0.05)
end = time.monotonic() + 120
while generic() and time.monotonic() < end:
    time.sleep(0.05)
print(ask() == first, generic())
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """An installation with code for any processor, of three kernels."""
    place = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "dtoss", place / "dtoss", ignore=shutil.ignore_patterns("__pycache__"))
    make_generic(str(place / "dtoss" / "compiled" / "shipped"), NAMES)
    assert len(list((place / "dtoss" / "compiled" / "shipped").iterdir())) == len(NAMES)
    return place


@pytest.fixture(scope="module")
def forking():
    """What starts fresh processes that have numba loaded already."""
    with Forking() as process:
        yield process


@pytest.fixture
def ask(forking):
    """What a fresh process says: its answers' hash, how many kernels were generic, both after the exchange."""

    def asked(site, cwd=None, code=ASK, **env):
        done = forking.run(code, cwd or site, os.environ | {"DTOSS_QUIET": ""} | env, [str(site)])
        assert done.returncode == 0, done.stderr
        return *done.stdout.split(), done.stderr

    return asked


def test_shipped_code_answers_until_this_processors_is_compiled(site, ask, tmp_path):
    """Nothing is said, as nobody waits; the next process begins with what was compiled beside this one."""
    env = {"NUMBA_CACHE_DIR": str(tmp_path / "kept"), "XDG_CACHE_HOME": str(tmp_path / "user")}
    own, *rest = ask(site, DTOSS_KERNELS="native", NUMBA_CACHE_DIR=str(tmp_path / "own"), XDG_CACHE_HOME=str(tmp_path))
    assert rest[:3] == ["0", "True", "0"]
    assert ask(site, **env) == (own, "2", "True", "0", "")
    assert ask(site, **env) == (own, "0", "True", "0", "")


@pytest.mark.deep("the same code in a zip, compiled again; a folder with it is in make test")
def test_shipped_code_is_found_in_a_zip(site, ask, tmp_path):
    """As workers of a cluster import it; what is compiled beside is kept for the user, and found from another place."""
    archive = shutil.make_archive(str(tmp_path / "one"), "zip", site)
    env = {"XDG_CACHE_HOME": str(tmp_path / "user"), "NUMBA_CACHE_DIR": ""}
    first = ask(archive, cwd=tmp_path, **env)
    assert first[1:] == ("2", "True", "0", "")
    moved = shutil.copy(archive, tmp_path / "two.zip")
    assert ask(moved, cwd=tmp_path, **env) == (first[0], "0", "True", "0", "")


def test_shipped_code_is_not_used_where_nothing_can_be_kept(site, ask, tmp_path):
    """It would stay for ever; kernels are compiled for this processor instead, with a line that says so."""
    (tmp_path / "file").touch()
    env = {"NUMBA_CACHE_DIR": str(tmp_path / "file"), "XDG_CACHE_HOME": str(tmp_path / "file")}
    shutil.rmtree(site / "dtoss" / "__pycache__", ignore_errors=True)  # of processes that have compiled kernels
    (site / "dtoss" / "__pycache__").touch()  # a file where the folder would be
    try:
        _, generic, *_, said = ask(site, **env)
    finally:
        (site / "dtoss" / "__pycache__").unlink()
    assert generic == "0"
    assert said.startswith("dtoss: compiling")


def test_shipped_code_of_another_source_is_not_used(site, ask, tmp_path):
    """A kernel that was changed after the wheel was made is compiled."""
    other = tmp_path / "other"
    shutil.copytree(site, other)
    source = other / "dtoss" / "geometry" / "space.py"
    source.write_text(source.read_text().replace("_BLOCK = 128", "_BLOCK = 64"))
    env = {"NUMBA_CACHE_DIR": str(tmp_path / "kept"), "XDG_CACHE_HOME": str(tmp_path / "user")}
    # on one processor nobody compiles what may be asked for next, which here is all that was not shipped: 40 seconds
    alone = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n" + ASK
    assert ask(other, code=alone, **env)[1:4] == ("1", "True", "0")


GENERIC = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}


def said_by(made_for, *arguments):
    """What a process that compiles for a processor says of fixed worlds."""
    env = os.environ | {"DTOSS_KERNELS": "native", "DTOSS_QUIET": "1"} | made_for
    run = [sys.executable, "-m", "tests.dtoss.compiled.every_kernel", *arguments]
    done = subprocess.run(run, cwd=ROOT, env=env, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


BUSIEST = {
    "knn of one": "dtoss.queries.kernels.one_kernel.nearest_to_one",
    "range of one": "dtoss.queries.kernels.one_kernel.within_of_one",
    "cells": "dtoss.cells.cell_kernel.cut_cells",
    "knn": "dtoss.queries.kernels.knn_kernel.knn_kernel",
    "range": "dtoss.queries.kernels.range_kernel.range_kernel",
}
"""Questions, and the kernels that answer them."""


@pytest.mark.parametrize(
    "names",
    [
        ["range of one"],
        pytest.param(["knn of one"], marks=pytest.mark.deep("ten seconds to compile; ranges are quick")),
        pytest.param(["cells", "knn", "range"], marks=pytest.mark.deep("the dearest to compile: half a minute")),
    ],
    ids=["ranges of one place", "kNN of one place", "many places"],
)
def test_generic_code_of_the_busiest_kernels_gives_the_same_bits(tmp_path, names):
    """Cells, kNN and ranges in the plane; this process has compiled them for its own processor."""
    index = every_kernel.plane()
    (tmp_path / "index").write_bytes(pickle.dumps(index))
    asked = [*names, "knn near"] if "knn" in names else names
    generic = said_by(GENERIC, str(tmp_path / "index"), *asked)
    assert generic["processor"] == "generic"
    assert not {BUSIEST[name] for name in names} & set(generic["unused"])
    assert DECLARED["dtoss.queries.kernels.knn_kernel.knn_kernel"].targetctx.codegen().magic_tuple()[1] != "generic"
    assert generic["found"] == every_kernel.a_few(index, asked)


@pytest.mark.deep("compiles every kernel of the index for another processor")
@pytest.mark.timeout(1000)
def test_generic_code_gives_the_same_bits():
    """Of every answer and of every file, in worlds that call each kernel of the index at least once."""
    own, generic = said_by({}), said_by(GENERIC)
    assert own["processor"] != generic["processor"] == "generic"
    assert own["unused"] == generic["unused"] == []
    assert len(own["found"]) > 150
    assert own["found"] == generic["found"]
