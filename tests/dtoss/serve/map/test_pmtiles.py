"""PMTiles files: each tile is found where it was written, and nothing that a damaged one says is believed."""

from __future__ import annotations

import gzip
import struct
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtoss.serve.map import pmtiles
from dtoss.serve.map.pmtiles import directory_of, open_archive, tile_number, unzip
from tests.dtoss.serve.map.made_ground import BAY, PLAIN, PNG, archive, directory, header, number, picture
from tests.examples import examples

pytestmark = pytest.mark.filterwarnings("error")


def open_bytes(tmp_path, data):
    path = tmp_path / "made.pmtiles"
    path.write_bytes(data)
    return open_archive(str(path))


def square(zoom):
    """A body for each tile up to a zoom; every fourth has that of its neighbour."""
    return {
        (z, x, y): f"{z} {x - x % 4} {y}".encode() for z in range(zoom + 1) for x in range(2**z) for y in range(2**z)
    }


def test_numbers_are_those_of_a_curve():
    """Each tile of a zoom has one, neighbours on the curve are neighbours on the map."""
    for z in range(6):
        numbers = {tile_number(z, x, y): (x, y) for x in range(2**z) for y in range(2**z)}
        assert sorted(numbers) == list(range((4**z - 1) // 3, (4 ** (z + 1) - 1) // 3))
        way = np.array([numbers[one] for one in sorted(numbers)])
        assert (np.abs(np.diff(way, axis=0)).sum(axis=1) == 1).all()


@pytest.mark.parametrize("leaf", [None, 1, 7, 64])
@pytest.mark.parametrize("zipped", [True, False])
def test_each_tile_is_found_and_no_other(tmp_path, leaf, zipped):
    tiles = square(4)
    del tiles[3, 5, 2], tiles[0, 0, 0]
    made = open_bytes(tmp_path, archive(tiles, leaf=leaf, zipped=zipped, metadata={"name": "é"}, bounds=BAY))
    for place, body in tiles.items():
        found = made.tile(*place)
        assert (unzip(found) if zipped else found) == body, place
    for place in ((3, 5, 2), (0, 0, 0), (5, 1, 1), (30, 2**30 - 1, 0)):
        assert made.tile(*place) == b""
    assert (made.zipped, made.zooms, made.metadata) == (zipped, (1, 4), {"name": "é"})
    np.testing.assert_allclose(made.bounds, BAY)


def test_pictures_are_as_they_were_written(tmp_path):
    made = open_bytes(tmp_path, archive({(0, 0, 0): picture((1, 2, 3))}, PNG))
    assert (made.kind, made.zipped, made.tile(0, 0, 0)) == (PNG, False, picture((1, 2, 3)))


def test_a_run_stands_for_all_its_tiles(tmp_path):
    """An entry for 4 tiles, and nothing behind it."""
    root = gzip.compress(directory([(1, 4, 3, 0)]))
    made = open_bytes(tmp_path, archive({(1, 0, 0): b"-"}, PNG, root=root, data=b"sea"))
    assert {made.tile(1, x, y) for x in (0, 1) for y in (0, 1)} == {b"sea"}
    assert made.tile(0, 0, 0) == made.tile(2, 0, 0) == b""


def test_directories_that_lead_round_are_left(tmp_path):
    """To itself, for ever: a few levels are followed."""
    size = 0
    for _ in range(20):  # its own length stands in it
        round_ = directory([(0, 0, size, 0)])
        size = len(round_)
    made = open_bytes(tmp_path, archive({(0, 0, 0): b"x"}, zipped=False, root=round_, leaves=round_))
    with pytest.raises(ValueError, match="4 directories lead to no tile 0/0/0"):
        made.tile(0, 0, 0)


GOOD = archive({(0, 0, 0): b"tile", (1, 0, 1): b"other"}, metadata={"attribution": "us"}, leaf=1)
HUGE = number(2**63)


def with_field(at, form, value):
    return GOOD[:at] + struct.pack(form, value) + GOOD[at + struct.calcsize(form) :]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no PMTiles file"),
        (GOOD[:126], "no PMTiles file"),
        (b"SQLite format 3" + GOOD[15:], "no PMTiles file"),
        (with_field(7, "<B", 2), "version 2 of PMTiles: 3 is read"),
        (GOOD[:-1], "cut short: its tiles would end at byte"),
        (GOOD[:200], "cut short"),
        (with_field(8, "<Q", 2**64 - 1), "cut short: its root directory"),
        (with_field(24, "<Q", len(GOOD)), "cut short: its metadata"),
        (with_field(97, "<B", 3), "its directories have compression 3"),
        (with_field(98, "<B", 4), "its tiles have compression 4"),
        (with_field(99, "<B", 0), "its tiles are of kind 0"),
        (with_field(99, "<B", 6), "its tiles are of kind 6"),
        (with_field(100, "<B", 9), "zooms 9 to 1 are not within 0 to 30"),
        (with_field(101, "<B", 31), "zooms 0 to 31"),
        (archive({}, root=b"no gzip"), "damaged"),
        (archive({}, root=gzip.compress(b"")), "has no end"),
        (archive({}, root=gzip.compress(b"")[:-4]), "a gzip has no end"),
        (archive({}, root=gzip.compress(b"\x02" + b"\x01" * 7)), "of 2 entries has 7 numbers"),
        (archive({}, root=gzip.compress(number(1) + HUGE * 4)), "has no end"),
        (archive({}, root=gzip.compress(number(1) + number(2**62) + b"\1\1\1")), "beyond all tiles"),
        (archive({}, root=gzip.compress(number(3) + number(2**61) * 3 + b"\1" * 9)), "beyond all tiles"),
        (archive({}, root=gzip.compress(b"\x01\x00\x01\x01\x00")), "the first entry of a directory follows none"),
        (archive({}, root=gzip.compress(bytes(pmtiles.LARGEST_DIRECTORY + 1))), "a gzip has no end within 4,000,000"),
        (archive({}, zipped=False, root=bytes(pmtiles.LARGEST_DIRECTORY + 1)), "at most 4,000,000 are read"),
        (archive({}, metadata=gzip.compress(b"[" * 100_000)), "no object of JSON"),
        (archive({}, metadata=gzip.compress(b"[1]")), "no object of JSON"),
        (archive({}, metadata=gzip.compress(b"\xff\xfe")), "no object of JSON"),
    ],
    ids=range(27),
)
def test_a_damaged_file_is_not_opened(tmp_path, data, why):
    """Whatever is wrong is said in one line, as is what would take much memory."""
    with pytest.raises(ValueError) as told:
        open_bytes(tmp_path, data)
    assert why in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    "entry", [(0, 1, 5, 0), (0, 1, 1, 2**61), (0, 1, 2**40, 0), (0, 0, 1, 4), (0, 0, 2**61, 0), (0, 0, 0, 0)]
)
def test_what_lies_beyond_a_section_is_not_read(tmp_path, entry):
    """A tile or a directory past the end, also where another section follows, and one of no bytes."""
    made = open_bytes(tmp_path, archive({}, PNG, root=gzip.compress(directory([entry])), data=b"tile"))
    with pytest.raises(ValueError, match="damaged"):
        made.tile(0, 0, 0)


def test_a_bomb_is_unzipped_as_far_as_it_may_be():
    with pytest.raises(ValueError, match="no end within 16,000,000 bytes"):
        unzip(gzip.compress(bytes(pmtiles.LARGEST_PART + 1)))
    assert unzip(gzip.compress(bytes(pmtiles.LARGEST_PART))) == bytes(pmtiles.LARGEST_PART)


def test_a_file_that_shrinks_while_it_is_open(tmp_path):
    made = open_bytes(tmp_path, archive({(0, 0, 0): b"tile"}))
    path = tmp_path / "made.pmtiles"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ValueError, match="cut short while it is open"):
        made.tile(0, 0, 0)


@given(data=st.data())
@settings(max_examples=examples(300), deadline=None)
def test_any_bytes_are_read_or_refused(tmp_path_factory, data):
    """A good file with some bytes changed gives tiles or ValueError."""
    bytes_ = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 4))):
        bytes_[data.draw(st.integers(0, len(GOOD) - 1))] = data.draw(st.integers(0, 255))
    with suppress(ValueError):
        made = open_bytes(tmp_path_factory.getbasetemp(), bytes(bytes_))
        for place in ((0, 0, 0), (1, 0, 1), (2, 3, 3)):
            made.tile(*place)


@given(
    entries=st.lists(
        st.tuples(st.integers(1, 50), st.integers(0, 9), st.integers(1, 2**20), st.booleans()), max_size=20
    )
)
@settings(max_examples=examples(100), deadline=None)
def test_directories_are_read_as_they_were_written(entries):
    """Also where an entry says that it follows the one before."""
    first, wanted, offset, said = 0, [], 0, []
    for step, run, length, follows in entries:
        first += step
        follows = follows and wanted != []
        offset = offset if follows else offset + 3
        wanted.append((first, run, length, offset))
        said.append(0 if follows else offset + 1)
        offset += length
    steps = np.diff([0, *(one[0] for one in wanted)]).tolist() if wanted else []
    columns = [steps, [one[1] for one in wanted], [one[2] for one in wanted], said]
    raw = number(len(wanted)) + b"".join(number(value) for column in columns for value in column)
    found = directory_of(raw)
    assert list(
        zip(*(part.tolist() for part in (found.first, found.run, found.length, found.offset)), strict=True)
    ) == (wanted)


def test_the_writer_of_the_tests_writes_the_header_of_the_format():
    """By the offsets of its document."""
    parts = {"root": b"ab", "metadata": b"c", "leaves": b"", "data": b"defg"}
    made = header(parts, PNG, False, (2, 5), (-1.0, -2.0, 3.0, 4.5))
    assert len(made) == 127
    assert struct.unpack_from("<8Q", made, 8) == (127, 2, 129, 1, 130, 0, 130, 4)
    assert made[97:102] == bytes([PLAIN, PLAIN, PNG, 2, 5])
    assert struct.unpack_from("<4i", made, 102) == (-10_000_000, -20_000_000, 30_000_000, 45_000_000)
