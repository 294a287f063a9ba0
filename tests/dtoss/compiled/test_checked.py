"""Kernels as Python: the same bits, and no step past the end of an array goes unnoticed."""

from __future__ import annotations

import ast
import gc
import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numba.extending import _Intrinsic

from dtoss.compiled import stand_ins
from dtoss.compiled.checked import CheckedKernel
from dtoss.compiled.checked_memory import Array, OutOfBoundsError, address, pointer_at, pointer_to
from dtoss.compiled.kernel import kernel
from dtoss.compiled.pointers import float64_at, int64_at, part_of, pointer, shift, trailing_zeros
from tests.dtoss.compiled import every_kernel
from tests.dtoss.compiled.kernel_lines import files_with_kernels, lines_of
from tests.dtoss.compiled.recorded_calls import as_handles

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
LEAST_SHARE = 0.92
"""Of the lines of kernels, at least so many are run in checked mode."""
CHEAP = [
    f"tests/dtoss/{file}.py"
    for file in ("test_small_worlds", "tiles/test_small_tiles", "tiles/test_clipping", "watch/matching/test_row_order",
                 "watch/matching/test_spoken", "windows/aggregation/test_groups_step", "watch/index/test_turns",
                 "watch/matching/test_crossings", "watch/processing/test_pairs", "windows/aggregation/test_sweeps")
]  # fmt: skip
DEARER = (
    "nearest or one_place or awkward_worlds or through_files or opened_when or round_a_pole or picked_by "
    "or all_panes or crowd_of_places or on_the_sphere"
)
"""Tests of these files that are left to the deep tier, by words of their names."""
CHEAP_SHARE = 0.75
"""Of the lines of kernels, at least so many are run by those of make test."""


@pytest.fixture
def handles(monkeypatch):
    """Addresses are handles, as in checked mode."""
    as_handles(monkeypatch)


# -- arrays and pointers


class Pair(NamedTuple):
    """Two arrays that a kernel passes on as one."""

    keys: object
    gaps: object


@kernel
def set_at(values, place, value):
    values[place] = value
    return values[place]


@kernel
def set_behind(values, begin, place, value):
    some = shift(pointer(values), begin)
    some[place] = value
    return some[place]


@kernel
def set_in_a_part(values, place):
    whole = pointer(values)
    keys, ordered = part_of(whole, 0, 4), part_of(whole, 4, 4)
    both = Pair(keys, ordered)
    return set_inner(both, place) + ordered[0]


@kernel
def set_inner(both, place):
    here = shift(both.keys, 2)
    here[place] = 7
    return here[place]


def checked(kernel):
    """A kernel as Python, whatever the mode."""
    return CheckedKernel(kernel.py_func)


@pytest.mark.parametrize("place", [5, -1, 100])
def test_an_index_of_an_array_is_held_to_its_bounds(place):
    """None is counted from the end."""
    assert checked(set_at)(np.zeros(5), 4, 2.5) == 2.5
    with pytest.raises(OutOfBoundsError, match=rf"^values\[{place}\] is written: legal are 0 to 4; see dtoss/"):
        checked(set_at)(np.zeros(5), place, 2.5)
    with pytest.raises(OutOfBoundsError, match=r"^values\[0\] is written: it is empty"):
        checked(set_at)(np.zeros(0), 0, 2.5)


def test_each_axis_is_held_to_its_own_bounds():
    """The next row does not follow a row that is too short."""
    with pytest.raises(OutOfBoundsError, match=r"values\[1, 3\] is written: legal are 0 to 2 along axis 1"):
        checked(set_at)(np.zeros((4, 3)), (1, 3), 2.5)
    with pytest.raises(OutOfBoundsError, match=r"values\[-1, 2\] is written: legal are 0 to 3 along axis 0"):
        checked(set_at)(np.zeros((4, 3)), (-1, 2), 2.5)


def test_a_pointer_knows_the_whole_array():
    """It may be moved anywhere, and look back; only what is there can be read and written."""
    assert checked(set_behind)(np.zeros(5), 3, -2, 2.5) == 2.5
    assert checked(set_behind)(np.zeros(5), 7, -3, 2.5) == 2.5
    for begin, place, at in ((3, 2, 5), (3, -4, -1), (-1, 0, -1)):
        with pytest.raises(OutOfBoundsError, match=rf"^values\[{at}\] is written: legal are 0 to 4"):
            checked(set_behind)(np.zeros(5), begin, place, 2.5)


def test_a_part_of_an_array_ends_where_the_next_begins():
    """The error counts from the part's own first element, and has the name that its maker gave it."""
    assert checked(set_in_a_part)(np.zeros(8, np.int64), 1) == 7
    assert checked(set_in_a_part)(np.zeros(8, np.int64), -2) == 7
    with pytest.raises(OutOfBoundsError, match=r"^keys\[4\] is written: legal are 0 to 3;"):
        checked(set_in_a_part)(np.zeros(8, np.int64), 2)
    with pytest.raises(OutOfBoundsError, match=r"^values\[7\] is needed for a part of 4: legal are 0 to 6;"):
        checked(set_in_a_part)(np.zeros(7, np.int64), 0)


def test_a_number_that_does_not_fit_is_an_error():
    """Compiled code would cut its upper bits off."""
    assert checked(set_at)(np.zeros(2, np.uint8), 0, 255) == 255
    assert checked(set_at)(np.zeros(2, np.int32), 0, 7.9) == 7
    for call in (checked(set_at), lambda values, place, value: checked(set_behind)(values, 0, place, value)):
        with pytest.raises(OverflowError, match=r"256 is written to .*, which holds 0 to 255"):
            call(np.zeros(2, np.uint8), 0, 256)
        with pytest.raises(OverflowError, match=r"2147483648 is written to .*, which holds"):
            call(np.zeros(2, np.int32), 0, 1 << 31)


def test_numbers_are_those_of_numba():
    """Integers of any width count in 64 bits, floats divide by 0, results are Python's."""
    assert pointer_to(np.array([200], np.uint8))[0] + 100 == 300
    assert np.array([2**31 - 1], np.int32).view(Array)[0] + 1 == 2**31
    assert type(checked(set_at)(np.zeros(1), 0, 2.0)) is float
    with np.errstate(divide="ignore"):
        assert 1.0 / pointer_to(np.zeros(1))[0] == np.inf


# -- addresses


@kernel
def read_float(rows, place):
    return float64_at(rows[0])[place]


@kernel
def read_int(rows, place):
    return int64_at(rows[0])[place]


def test_an_address_knows_its_array(handles):
    """Its name, its bounds, its type; a count that is taken for an address is none."""
    values = np.arange(3.0)
    rows = np.array([address(values, "sites"), 3])
    assert checked(read_float)(rows, 2) == 2.0
    with pytest.raises(OutOfBoundsError, match=r"^sites\[3\] is read: legal are 0 to 2;"):
        checked(read_float)(rows, 3)
    with pytest.raises(OutOfBoundsError, match="sites is read as int64, and is float64"):
        checked(read_int)(rows, 0)
    with pytest.raises(OutOfBoundsError, match="3 is no address"):
        checked(read_float)(rows[1:], 0)
    with pytest.raises(OutOfBoundsError, match=r"address 0\[0\] is read: it is empty"):
        checked(read_float)(np.zeros(1, np.int64), 0)


def test_an_address_does_not_keep_its_array_alive(handles):
    """As in compiled code, which would read what others have put there."""
    values = np.arange(3.0)
    rows = np.array([address(values, "mask")])
    del values
    gc.collect()
    with pytest.raises(OutOfBoundsError, match="mask is read by its address, and is gone"):
        checked(read_float)(rows, 0)


def test_bytes_may_be_read_as_words(handles):
    """Of those at the end that make no word none is read."""
    data = np.frombuffer(bytes(range(20)), np.uint8)
    words = pointer_at(address(data, "bytes"), np.uint64)
    assert int(words[1]) == int.from_bytes(bytes(range(8, 16)), "little")
    with pytest.raises(OutOfBoundsError, match=r"bytes\[2\] is read: legal are 0 to 1"):
        words[2]


def test_only_contiguous_arrays_have_an_address():
    """In either mode."""
    with pytest.raises(ValueError, match="sites is not contiguous"):
        address(np.zeros((4, 4))[:, 1], "sites")


# -- kernels


def test_every_intrinsic_has_a_stand_in():
    """Of all modules that define some."""
    found = set()
    for file in (ROOT / "dtoss").rglob("*.py"):
        if "@intrinsic" in file.read_text():
            module = importlib.import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))
            found |= {key for key, value in vars(module).items() if isinstance(value, _Intrinsic)}
    assert len(found) > 25
    assert [name for name in sorted(found) if not callable(getattr(stand_ins, name, None))] == []


def test_a_declared_kernel_takes_its_signatures_only():
    """Arrays of other types, read-only ones where it writes, and too few arguments are refused as numba does."""
    plus = CheckedKernel(set_at.py_func, ("float64(float64[::1], int64, float64)",))
    assert plus(np.zeros(2), 1, 3) == 3.0
    read_only = np.zeros(2)
    read_only.flags.writeable = False
    for args in ((np.zeros(2, np.float32), 1, 3), (np.zeros((2, 2)), 1, 3), (read_only, 1, 3), (np.zeros(4)[::2], 1, 3),
                 (np.zeros(2), 1), (np.zeros(2), "1", 3)):  # fmt: skip
        with pytest.raises(TypeError, match="No matching definition of set_at"):
            plus(*args)


def test_no_kernel_squares_by_a_power():
    """``x ** 2`` is ``x * x`` compiled, and another number in Python in one case of a thousand."""
    found = [
        ast.unparse(part)
        for file in files_with_kernels()
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.FunctionDef)
        and re.search("kernel|step", " ".join(map(ast.unparse, node.decorator_list)))
        for part in ast.walk(node)
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Pow)
    ]
    assert [text for text in found if re.search(r"\*\* \d", text)] == []
    assert len(found) < 3


def test_no_bit_of_nothing_is_looked_for():
    """Compiled code gives whatever the processor has."""

    @kernel
    def lowest(mask):
        return trailing_zeros(mask)

    with pytest.raises(ValueError, match="mask that is 0"):
        CheckedKernel(lowest.py_func)(0)


# -- the whole, as Python


def run(command, **env):
    """Run a module of Python in checked mode; returns what it printed."""
    env = os.environ | {"DTOSS_CHECKED": "1", "DTOSS_QUIET": "1"} | env
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, env=env, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_as_python(tests, worlds=(), measured=(), **env):
    """Run tests that are marked for it, and compare answers, files and exports of worlds.

    Each in a process of its own: the mode is chosen when dtoss is imported. ``measured``: what comes before a command.
    """
    options = ["-q", *(f"-pno:{plugin}" for plugin in ("cacheprovider", "benchmark", "schemathesis", "faker"))]
    said = run([*measured, "pytest", "-m", "checked", *options, *tests], **env)
    assert " passed" in said.splitlines()[-1]
    assert "skipped" not in said.splitlines()[-1]
    found = json.loads(run([*measured, "tests.dtoss.compiled.every_kernel", "--small", *worlds], **env))
    assert found["processor"] == "none"
    assert len(found["found"]) > (25 if worlds else 80)
    assert found["found"] == every_kernel.hashes(every_kernel.SMALL, worlds)


def run_measured(folder, *arguments):
    """As :func:`run_as_python`, and return which lines of kernels were run."""
    import coverage

    (folder / "coverage").mkdir()
    measured, setting = folder / "coverage" / "data", folder / "coverage.rc"
    files = [str(file) for file in files_with_kernels()]
    setting.write_text("[run]\nparallel = true\ninclude =\n" + "".join(f"    {file}\n" for file in files))
    run_as_python(*arguments, ["coverage", "run", f"--rcfile={setting}", "-m"], COVERAGE_FILE=str(measured))
    whole = coverage.Coverage(data_file=str(measured), config_file=False)
    whole.combine([str(measured.parent)])
    whole.save()
    return lines_of(measured)


def test_kernels_as_python_give_the_same():
    """Cheap tests of all rooms with kernels, and two worlds of some dozen objects."""
    run_as_python([*CHEAP, "-k", f"not ({DEARER})"], ["line", "plane"])


@pytest.mark.deep("lines are counted, which takes a third more; the same calls are in make test")
def test_cheap_calls_run_most_lines_of_kernels(tmp_path):
    lines = run_measured(tmp_path, [*CHEAP, "-k", f"not ({DEARER})"], ["line", "plane"])
    assert lines.run >= CHEAP_SHARE * lines.kernels, str(lines)


@pytest.mark.deep("kernels as Python take minutes; cheap ones of each room are in make test")
@pytest.mark.timeout(1000)
def test_kernels_as_python_give_the_same_and_most_of_their_lines_are_run(tmp_path, record_property):
    """All tests that are marked for it, then all kinds of answers, files and exports, of worlds of some dozen objects.

    What is never run is named at the end of the run of all tests.
    """
    lines = run_measured(tmp_path, ["--deep", "tests/dtoss"], [])
    record_property("kernel lines", str(lines))
    assert lines.run >= LEAST_SHARE * lines.kernels, str(lines)
