"""A step past the end of an array that kernels of queries work in or write to is an error that names it."""

from __future__ import annotations

import re

import numpy as np
import pytest

import dtoss
from dtoss.compiled import checked
from dtoss.compiled.checked_memory import OutOfBoundsError
from dtoss.queries import batch_answer
from dtoss.queries.kernels.address_table import make_table
from dtoss.queries.kernels.query_arguments import Scratch
from tests.dtoss.compiled.recorded_calls import as_handles, least_size, recorded, shortened

ASKED = np.array([[0.0, 0.0], [50.0, 20.0], [-60.0, -60.0]])


@pytest.fixture(scope="module")
def index():
    """Some hundred objects on half as many sites, in two partitions."""
    places = np.random.default_rng(7).uniform(-80.0, 80.0, (120, 2))
    return dtoss.build(np.arange(240), np.repeat(places, 2, axis=0), partitions=2, crs="none")


@pytest.fixture
def table(index, monkeypatch):
    """The rows of its address table with handles, as checked mode makes them; the second partition may be shut."""

    def make(opened=2):
        with monkeypatch.context() as patch:
            as_handles(patch)
            parts = index.parts.all()
            some = [part if number < opened else None for number, part in enumerate(parts)]
            return make_table(some, [1, 1], [part.furthest for part in parts]).rows

    return make


@pytest.fixture
def knn(index, table, monkeypatch):
    far = np.full(len(ASKED), np.inf)
    call = recorded(monkeypatch, batch_answer, "knn_kernel", lambda: index.search(np.asarray(ASKED), far, 20))
    call.arguments["rows"] = table()
    return call


@pytest.fixture
def ranges(index, table, monkeypatch):
    call = recorded(monkeypatch, batch_answer, "range_kernel", lambda: index.range(ASKED, 70.0))
    call.arguments["rows"] = table()
    return call


@pytest.fixture
def placed(index, table, monkeypatch):
    """The same, asked for partitions and objects as well."""
    call = recorded(monkeypatch, batch_answer, "range_kernel", lambda: index.search(ASKED, np.full(3, 70.0), 0))
    call.arguments["rows"] = table()
    return call


# -- what is written past its end by hand


ENDS = {"keys": "room + 16", "ordered": "room", "part": "room", "item": "room", "distance": "room", "queue": "visits",
        "gaps": "gaps", "seen": "seen"}  # fmt: skip
"""How long each part of a workspace is."""


@pytest.mark.parametrize("field", ENDS)
@pytest.mark.parametrize("name", ["knn", "ranges"])
@pytest.mark.parametrize("past", [0, -1])
def test_a_write_past_the_workspace_of_a_query(request, monkeypatch, name, field, past):
    """One element behind each part and one before it, put into the kernel by hand where its memory is cut."""
    call = request.getfixturevalue(name)
    sizes = {key: len(call.arguments[key]) for key in ("visits", "gaps", "seen")} | {
        "room": len(call.arguments["distance"])
    }
    end = eval(ENDS[field], sizes)
    names = checked.seen_by(call.kernel.py_func.__globals__)
    scratch_of = names["scratch_of"]

    def put(at):
        def faulty(*arrays):
            scratch = scratch_of(*arrays)
            getattr(scratch, field)[at] = 1
            return scratch

        monkeypatch.setitem(names, "scratch_of", faulty)

    put(end - 1)
    if field != "seen":  # the last block would never be visited
        call.run()
    put(end if past == 0 else -1)
    with pytest.raises(
        OutOfBoundsError, match=rf"^\w+\[{end if past == 0 else -1}\] is written: legal are 0 to {end - 1};"
    ) as error:
        call.run()
    assert re.match(r"\w+", str(error.value))[0] in (field, {"queue": "visits"}.get(field, field))


def test_the_fields_of_a_workspace_are_all_there():
    """So none is left out here."""
    assert {field for field in Scratch._fields if field != "room"} == set(ENDS)


# -- what is too short by one


@pytest.mark.parametrize(
    "name", ["visits", "gaps", "seen", "out_id", "out_distance", "out_part", "out_item", "out_count", "out_reads"]
)
def test_an_array_of_the_nearest_that_is_too_short_by_one(knn, name):
    """The kernel needs all of what it is said to need, and not one element less goes unnoticed."""
    size = least_size(knn, name)
    short = shortened(knn.arguments[name], size - 1)
    with pytest.raises(OutOfBoundsError, match=rf"^{name}\[{short.size}[^\]]*\] is (written|read): "):
        knn.run(**{name: short})
    if name.startswith("out_"):
        assert size == len(ASKED)


@pytest.mark.parametrize(
    ("asked", "name"),
    [("ranges", name) for name in ("visits", "gaps", "seen", "counts", "out_id", "out_count", "out_reads")]
    + [("placed", name) for name in ("out_id", "out_part", "out_item")],
)
def test_an_array_of_ranges_that_is_too_short_by_one(request, asked, name):
    """The room for hits is the length of ``out_distance``; the others must be as long."""
    ranges = request.getfixturevalue(asked)
    size = least_size(ranges, name)
    with pytest.raises(OutOfBoundsError, match=rf"^{name}\[{size - 1}\] is (written|read): "):
        ranges.run(**{name: shortened(ranges.arguments[name], size - 1)})
    (_, total), _ = ranges.run()
    assert {"out_id": total, "out_part": total, "out_item": total}.get(name, size) == size


@pytest.mark.parametrize("name", ["knn", "ranges"])
def test_places_and_flags_that_are_too_short_by_one(request, table, name):
    """The four parts of ``places`` are cut in full, and a partition that is not open has a flag."""
    call = request.getfixturevalue(name)
    places = call.arguments["places"]
    with pytest.raises(OutOfBoundsError, match=rf"^places\[{len(places) - 1}\] is needed for a part of "):
        call.run(places=places[:-1].copy())
    shut = table(1)
    _, after = call.run(rows=shut)
    assert after["need"].tolist() == [0, 1]
    with pytest.raises(OutOfBoundsError, match=r"^need\[1\] is written: legal are 0 to 0;"):
        call.run(rows=shut, need=np.zeros(1, np.uint8))


@pytest.mark.parametrize("name", ["knn", "ranges"])
def test_a_workspace_is_left_as_it_must_be(request, name):
    """No block is marked as seen, and what is too small is said by the kernel, not by an error."""
    call = request.getfixturevalue(name)
    _, after = call.run()
    assert not after["seen"].any()
    room = 24
    result, after = call.run(distance=np.empty(room), places=np.empty(4 * room + 16, np.int64))
    assert not after["seen"].any()
    assert result in (0, (0, -1))
