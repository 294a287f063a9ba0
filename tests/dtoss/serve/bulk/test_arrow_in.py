"""Arrow streams of strangers: numbers as they were sent, or one sentence of what is wrong."""

import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dtoss.serve.bulk.arrow_in import columns_in
from dtoss.serve.core.problems import Problem
from tests.dtoss.serve.bulk.streams import places_of, stream_of

MOST = 1_000


def read(stream, most=MOST, check=lambda: None):
    return columns_in(stream, ("lon", "lat"), ("radius",), most, check)


def refusal(stream, most=MOST):
    with pytest.raises(Problem) as caught:
        read(stream, most)
    return caught.value


@pytest.mark.parametrize("kind", ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])
@pytest.mark.parametrize("rows", [None, 1, 7])
def test_numbers_of_each_type_come_as_they_were_sent(kind, rows):
    """In one batch, or in many; columns in any order, with or without a radius."""
    rng = np.random.default_rng(0)
    lat, lon = rng.integers(0, 90, (2, 33)).astype(kind)
    found = read(stream_of(pa.table({"lat": lat, "lon": lon}), rows))
    assert list(found) == ["lat", "lon"]
    assert all(column.dtype == np.float64 for column in found.values())
    np.testing.assert_array_equal(found["lat"], lat.astype(np.float64))
    np.testing.assert_array_equal(found["lon"], lon.astype(np.float64))
    assert list(read(stream_of(places_of(np.zeros((3, 2)), radius=[1, 2, 3]), rows))) == ["lon", "lat", "radius"]


def test_a_slice_a_bitmap_without_nulls_metadata_and_no_rows_are_read():
    table = pa.table({"lon": [0.5, 1.5, 2.5, 3.5], "lat": [1, 2, 3, 4]}, metadata={"who": "asks"})
    assert read(stream_of(table.slice(1, 2)))["lon"].tolist() == [1.5, 2.5]
    nulls = pa.chunked_array([pa.array([1.0, None, 2.0, 3.0, None])]).slice(2, 2)
    assert read(stream_of(pa.table({"lon": nulls, "lat": [1, 2]})))["lon"].tolist() == [2.0, 3.0]
    assert len(read(stream_of(table.slice(0, 0)))["lon"]) == 0
    assert len(read(stream_of(table)[:-8])["lon"]) == 4, "a stream may end without its end"


ONE = [1.0]
HEAD = pa.schema([("lon", pa.float64()), ("lat", pa.float64())]).serialize().size
REFUSED = {
    "nothing": (b"", "empty"),
    "text": (b"lon,lat\n1,2\n", "no message begins at byte 0"),
    "a file of Arrow": (b"ARROW1\0\0" + stream_of(pa.table({"lon": ONE, "lat": ONE})), "no message"),
    "no lat": (stream_of(pa.table({"lon": ONE})), "column 'lat' is missing"),
    "x and y": (stream_of(pa.table({"x": ONE, "y": ONE})), "column 'x' is not known"),
    "lon twice": (
        stream_of(pa.Table.from_arrays([pa.array(ONE)] * 3, ["lon", "lon", "lat"])),
        "column 'lon' is there twice",
    ),
    "text in lon": (stream_of(pa.table({"lon": ["1"], "lat": ONE})), "'lon' is not of numbers"),
    "lists in lat": (stream_of(pa.table({"lon": ONE, "lat": [ONE]})), "'lat' is not of numbers"),
    "truths": (stream_of(pa.table({"lon": [True], "lat": ONE})), "'lon' is not of numbers"),
    "moments": (stream_of(pa.table({"lon": pa.array([1], pa.timestamp("s")), "lat": ONE})), "'lon' is not of numbers"),
    "a dictionary": (stream_of(pa.table({"lon": pa.array(ONE).dictionary_encode(), "lat": ONE})), "dictionary"),
    "zstd": (stream_of(pa.table({"lon": ONE * 99, "lat": ONE * 99}), compression="zstd"), "compressed"),
    "lz4": (stream_of(pa.table({"lon": ONE * 99, "lat": ONE * 99}), compression="lz4"), "compressed"),
    "a null": (stream_of(pa.table({"lon": [1.0, 2.0, None], "lat": [1, 2, 3]})), "'lon' is null in row 2"),
    "a null later": (stream_of(pa.table({"lon": [1.0, 2.0], "lat": [1, None]}), 1), "'lat' is null in row 1"),
    "an old form": (stream_of(pa.table({"lon": ONE, "lat": ONE}), use_legacy_format=True), "no message begins"),
    "half of it": (stream_of(pa.table({"lon": ONE * 50, "lat": ONE * 50}))[:-100], "follow|begins"),
    "rows before a schema": (
        stream_of(pa.table({"lon": ONE, "lat": ONE}))[HEAD:],
        "does not begin with a schema",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_plain_numbers_is_refused_by_its_name(name):
    stream, said = REFUSED[name]
    problem = refusal(stream)
    assert (problem.status, problem.limit) == (400, "body")
    assert problem.detail.count("\n") == 0
    with pytest.raises(Problem, match=said):
        raise problem


def test_more_rows_than_may_be_asked_are_refused_before_they_are_read():
    """What a batch claims is compared, not what it holds: nothing is made room for."""
    stream = stream_of(pa.table({"lon": np.zeros(50), "lat": np.zeros(50)}), 20)
    assert len(read(stream, 50)["lon"]) == 50
    problem = refusal(stream, 49)
    assert (problem.status, problem.limit, problem.value, problem.bound) == (413, "bulk_queries", 50, 49)
    claimed = stream_of(pa.table({"lon": np.zeros(50), "lat": np.zeros(50)})).replace(
        struct.pack("<q", 50), struct.pack("<q", 2**50)
    )
    problem = refusal(claimed)
    assert (problem.status, problem.value) == (413, 2**50)


def test_offsets_and_lengths_outside_of_a_body_are_refused():
    """The number of the first buffer's bytes, wherever it stands, is made to be many others."""
    table = pa.table({"lon": np.arange(50.0), "lat": np.arange(50.0)})
    stream = stream_of(table)
    places = [at for at in range(len(stream) - 8) if stream[at : at + 8] == struct.pack("<q", 400)]
    assert len(places) >= 2, "two columns of 400 bytes"
    for at in places:
        for value in (10_401, 2**40, 2**63 - 1, -1, -(2**63)):
            changed = stream[:at] + struct.pack("<q", value) + stream[at + 8 :]
            assert refusal(changed).status == 400


def test_it_is_asked_between_batches_whether_anybody_waits():
    asked = []
    read(stream_of(pa.table({"lon": np.zeros(10), "lat": np.zeros(10)}), 2), check=lambda: asked.append(1))
    assert len(asked) == 5


def test_batches_are_bounded_even_if_they_are_empty():
    table = pa.table({"lon": np.zeros(1), "lat": np.zeros(1)})
    begin, batch = (
        table.schema.serialize().to_pybytes(),
        table.slice(0, 0).to_batches() or [pa.record_batch([pa.array([], pa.float64())] * 2, names=["lon", "lat"])],
    )
    message = batch[0].serialize().to_pybytes()
    assert len(read(begin + message * 10_000)["lon"]) == 0
    with pytest.raises(Problem, match="more than 10,000 batches"):
        read(begin + message * 10_001)


def test_broken_streams_are_read_as_pyarrow_reads_them_or_refused():
    """In a process of its own, which has to end well."""
    made = subprocess.run(
        [sys.executable, "-m", "tests.dtoss.serve.hostile.fuzz_streams", "4000", "5"],
        cwd=Path(__file__).parents[4], capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    assert "compared" in made.stdout
