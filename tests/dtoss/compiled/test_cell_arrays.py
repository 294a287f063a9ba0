"""A step past the end of an array that the kernels of cells work in or write to is an error that names it."""

from __future__ import annotations

import re

import numpy as np
import pytest

from dtoss.cells import rim, voronoi
from dtoss.compiled import checked
from dtoss.compiled.checked_memory import OutOfBoundsError, Pointer
from dtoss.geometry.hilbert import curve_keys, radix_order, take_rows
from tests.dtoss.compiled.recorded_calls import least_size, recorded, shortened


@pytest.fixture(scope="module")
def sites():
    """Sites of the sphere in curve order, few of whose cells reach far."""
    vectors = np.random.default_rng(3).normal(size=(24, 3))
    vectors = vectors / np.linalg.norm(vectors, axis=1)[:, None]
    return take_rows(vectors, radix_order(curve_keys(vectors)))


@pytest.fixture
def cells(sites, monkeypatch):
    return recorded(monkeypatch, voronoi, "cut_cells", lambda: voronoi.voronoi(sites))


@pytest.fixture
def rim_cells(sites, monkeypatch):
    centres, first = sites[:5], np.arange(0, 30, 5)
    others = np.concatenate([sites[5:10]] * 5)
    return recorded(monkeypatch, rim, "cut_rim_cells", lambda: rim.drawn_rim_cells(centres, first, others))


@pytest.mark.parametrize(
    "name", ["degree", "area", "radius", "rim", "doubt", "earlier", "earlier_count", "settled", "progress"]
)
def test_an_array_of_cells_that_is_too_short_by_one(cells, name):
    """The arrays that are written, and those that are worked in."""
    name = next(key for key in cells.arguments if key in (name, f"{name}_site", f"{name}_leaves"))
    size = least_size(cells, name)
    with pytest.raises(OutOfBoundsError, match=rf"^{name}_?\[{size - 1}\] is (written|read): "):
        cells.run(**{name: shortened(cells.arguments[name], size - 1)})
    if name in ("degree", "area", "radius", "rim", "doubt"):
        assert size == len(cells.arguments["vectors"])


@pytest.mark.parametrize("name", ["degree", "area", "radius", "owner", "corner_count", "progress"])
def test_an_array_of_cells_that_reach_far_that_is_too_short_by_one(rim_cells, name):
    """Those of the kernel that cuts in 3-D."""
    size = least_size(rim_cells, name)
    with pytest.raises(OutOfBoundsError, match=rf"^{name}\[{size - 1}\] is (written|read): "):
        rim_cells.run(**{name: shortened(rim_cells.arguments[name], size - 1)})
    if name in ("degree", "area", "radius", "corner_count"):
        assert size == len(rim_cells.arguments["centres"])


@pytest.mark.parametrize("name", ["cells", "rim_cells"])
def test_too_little_room_for_neighbours_is_said(request, name):
    """By the kernel, before anything is written past their end: it goes on from there with more room."""
    call = request.getfixturevalue(name)
    (status, done), room = call.run(), 9
    assert status == voronoi.DONE
    neighbours = done["neighbours"][: done["progress"][1]]
    status, after = call.run(neighbours=np.empty(room, np.int32))
    assert status == voronoi.MORE_NEIGHBOURS
    more = np.concatenate([after["neighbours"], np.empty(len(neighbours), np.int32)])
    status, after = call.run(
        **{key: value for key, value in after.items() if isinstance(value, np.ndarray)} | {"neighbours": more}
    )
    assert status == voronoi.DONE
    assert after["neighbours"][: after["progress"][1]].tolist() == neighbours.tolist()


# -- what is written past the end of a part by hand


def leaves(parts):
    """The pointers in nested tuples, in order."""
    return [leaf for part in parts for leaf in (leaves(part) if isinstance(part, tuple) else [part])
            if isinstance(leaf, Pointer)]  # fmt: skip


def exchanged(monkeypatch, call, name, change):
    """Have a step of a kernel, which cuts its memory into parts, followed by a change to what it returns."""
    names = checked.seen_by(call.kernel.py_func.__globals__)
    cut = names[name]

    def faulty(*arguments):
        parts = cut(*arguments)
        change(leaves(parts))
        return parts

    monkeypatch.setitem(names, name, faulty)


PARTS = {"cells": ("parts_of", 24), "rim_cells": ("_parts_of", 13)}
"""The step of each kernel that cuts its memory, and into how many parts."""


@pytest.mark.parametrize("kernel", PARTS)
def test_parts_of_the_memory_of_cells_do_not_overlap(request, monkeypatch, kernel):
    """They fill it, one behind another, so that what is past the end of one is not its own."""
    call, (name, count), seen = request.getfixturevalue(kernel), PARTS[kernel], []
    with monkeypatch.context() as patch:
        exchanged(patch, call, name, seen.extend)
        call.run()
    assert len(seen) == count
    for array in {id(part.array): part.array for part in seen}.values():
        spans = sorted((part.low, part.high) for part in seen if part.array is array)
        assert [span[0] for span in spans] == [0, *(span[1] for span in spans[:-1])]
        assert spans[-1][1] == array.size


@pytest.mark.parametrize(("kernel", "part"), [(name, i) for name, (_, count) in PARTS.items() for i in range(count)])
@pytest.mark.parametrize("past", ["behind", "before"])
def test_a_write_past_a_part_of_the_memory_of_cells(request, monkeypatch, kernel, part, past):
    """One element behind it or before it, put into the kernel by hand where its memory is cut."""
    call = request.getfixturevalue(kernel)

    def write(found):
        at = found[part].high if past == "behind" else found[part].low - 1
        found[part][at - found[part].offset] = 1

    exchanged(monkeypatch, call, PARTS[kernel][0], write)
    with pytest.raises(OutOfBoundsError, match=r"^\w+\[-?\d+\] is written: legal are -?\d+ to \d+;") as error:
        call.run()
    name, *numbers = re.match(r"(\w+)\[(-?\d+)\].*?: legal are (-?\d+) to (\d+)", str(error.value)).groups()
    at, low, high = map(int, numbers)
    assert at == (high + 1 if past == "behind" else low - 1)
    padded = name in ("u", "v", "ex", "ey", "eh", "edge", "x", "y", "z", "reach") and kernel == "cells"
    assert low == (-8 if padded else 0)
