"""What editors and type checkers know of the package: a user's file, checked by mypy as a user would."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
USER = """
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import dtoss

index = dtoss.build([1, 2], [[0.0, 0.0], [1.0, 1.0]], columns={"kind": ["a", "b"]})
assert_type(index, dtoss.Index)
assert_type(dtoss.open("store"), dtoss.Index)
assert_type(dtoss.open("store", verify="touch", lazy=True), dtoss.Index)
taxis = dtoss.connect("http://127.0.0.1:8080")
assert_type(taxis, dtoss.RemoteIndex)

hits = index.knn([0.5, 0.5], k=2, columns=["kind", "lon"])
assert_type(hits, dtoss.Hits)
assert_type(taxis.knn([0.5, 0.5], k=2), dtoss.Hits)
assert_type(hits[0], tuple[int, Any, float])
assert_type(hits[np.int64(0)], tuple[int, Any, float])
assert_type(hits[:2], dtoss.Hits)
assert_type(hits.query, NDArray[np.int64])
assert_type(hits.distance, NDArray[np.float64])
assert_type(hits.positions, NDArray[np.float64])
assert_type(hits.rank(), NDArray[np.int64])
assert_type(hits.crs, str | None)
for query, found, distance in hits:
    assert_type(query, int)
    assert_type(distance, float)
for some in index.range_batches([0.5, 0.5], 10.0):
    assert_type(some, dtoss.Hits)

assert_type(index.range([0.5, 0.5], radius=[10.0]), dtoss.Hits)
assert_type(index.count([0.5, 0.5], 10.0), NDArray[np.int64])
assert_type(index.within([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), dtoss.Hits)
assert_type(index.count_box((0.0, 0.0, 1.0, 1.0)), NDArray[np.int64])
assert_type(index.cell(1), NDArray[np.float64])
assert_type(index.area(1), float)
assert_type(index[1], dict[str, Any])
assert_type(len(index), int)
assert_type(1 in index, bool)
"""
WRONG = {
    "dtoss.open(1)": "open_index",
    "dtoss.build([1])[0].nothing": "build",
    "index.knn([0.0, 0.0], k='8')": "knn",
    "index.knn([0.0, 0.0], 8, 5.0)": "knn",
    "index.nearest([0.0, 0.0])": "nearest",
    "index.range([0.0, 0.0])": "range",
    "index.knn([0.0, 0.0]).distances": "distances",
}
"""What a user may get wrong, each an error that names what stands beside it."""


def checked(tmp_path, text):
    """What mypy says of a file outside of the project, lines of ``file:line: error``, with its exit code."""
    (tmp_path / "user.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", str(ROOT / ".mypy_cache" / "user"),
         "--hide-error-context", "--no-color-output", "--follow-imports=silent", "user.py"],
        cwd=tmp_path, env={"MYPYPATH": str(ROOT), "PATH": "", "HOME": str(tmp_path)},
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_a_users_file_knows_what_comes_back(tmp_path):
    """Without an error in what is right, and with one for each mistake."""
    first = len(USER.splitlines()) + 1
    code, said = checked(tmp_path, USER + "\n".join(WRONG) + "\n")
    assert code == 1
    *errors, found = [line for line in said.splitlines() if ": note:" not in line]
    assert {int(line.split(":")[1]) for line in errors} == {*range(first, first + len(WRONG))}, said
    assert found == f"Found {len(errors)} errors in 1 file (checked 1 source file)"
    for number, (wrong, named) in enumerate(WRONG.items(), first):
        assert any(line.startswith(f"user.py:{number}: error:") and named in line for line in errors), wrong


def test_each_package_says_that_it_is_typed():
    """By the file that checkers look for."""
    for package in ("dtoss", "ceps", "pipelines"):
        assert (ROOT / package / "py.typed").exists()


def test_functions_of_an_index_and_of_its_server_say_what_they_return():
    """So that mypy sees where an index, its client and the servers of a plan do not agree."""
    rooms = ("client", "serve", "shards")
    files = [ROOT / "dtoss/index.py", *(file for room in rooms for file in (ROOT / "dtoss" / room).rglob("*.py"))]
    assert len(files) > 90
    assert [str(path) for path in files if "-> Any" in path.read_text()] == []
