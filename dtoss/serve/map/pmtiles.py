"""Tiles of a PMTiles file, version 3, read from where its directories say; nothing in it is trusted.

The format is that of https://github.com/protomaps/PMTiles/blob/main/spec/v3/spec.md.
"""

from __future__ import annotations

import json
import os
import struct
import weakref
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

CONTENT_OF_KIND = {
    1: "application/vnd.mapbox-vector-tile",
    2: "image/png",
    3: "image/jpeg",
    4: "image/webp",
    5: "image/avif",
}
"""Content types of tiles by their number in the header."""
MVT_KIND = 1
DEEPEST_GROUND = 30
"""The last zoom whose tiles have numbers that are read here."""
DIRECTORY_LEVELS = 4
"""Directories from the root to a tile, at most: more only lead round."""
LARGEST_PART = 16_000_000
"""Bytes of the metadata and of a tile, also unzipped."""
LARGEST_DIRECTORY = 4_000_000
"""Bytes of an unzipped directory, a million entries; usual ones have some thousands."""
KEPT_LEAVES = 32
"""Directories below the root that are kept in memory."""
_HEADER = struct.Struct("<7sB11Q6B4iB2i")
_PLAIN, _GZIP = 1, 2
_SECTIONS = ("root directory", "metadata", "directories", "tiles")
_LARGEST_NUMBER = 1 << 62
"""Above all numbers of tiles: sums of two fit 64 bits."""
_LONGEST_NUMBER = 9
"""Bytes of a number in a directory, 7 bits each."""
_DEGREE = 1e7


class Entry(NamedTuple):
    """Where tiles lie, or the directory that says so."""

    offset: int  # Bytes from the beginning of the tiles, or of the directories
    length: int
    run: int  # How many tiles in a row are these bytes; 0: they are a directory


@dataclass(frozen=True, eq=False)
class Directory:
    """Entries by the number of their first tile, which rises; int64 (n,) each."""

    first: NDArray[np.int64]
    run: NDArray[np.int64]
    length: NDArray[np.int64]
    offset: NDArray[np.int64]

    def entry(self, number: int) -> Entry | None:
        """Return the entry of a tile; None where there is none."""
        at = int(np.searchsorted(self.first, number, "right")) - 1
        if at < 0:
            return None
        found = Entry(int(self.offset[at]), int(self.length[at]), int(self.run[at]))
        return found if not found.run or number - int(self.first[at]) < found.run else None


@dataclass(frozen=True, eq=False)
class TileArchive:
    """A PMTiles file that is open, also after a fork and in threads."""

    descriptor: int
    sections: tuple[tuple[int, int], ...]  # Offset and length of each of _SECTIONS, within the file
    root: Directory
    leaf: Callable[[int, int], Directory]  # The directory of an offset and a length, kept
    metadata: dict[str, Any]
    kind: int  # Of tiles, one of CONTENT_OF_KIND
    zipped: bool  # Whether tiles are gzip
    zooms: tuple[int, int]  # The first and the last one
    bounds: tuple[float, float, float, float]  # west, south, east, north in degrees

    def tile(self, z: int, x: int, y: int) -> bytes:
        """Return a tile as it lies in the file, no bytes where there is none; ValueError where the file is damaged."""
        number, directory = tile_number(z, x, y), self.root
        for _ in range(DIRECTORY_LEVELS):
            found = directory.entry(number)
            if found is None:
                return b""
            if found.run:
                return _read(self.descriptor, self.sections, 3, found.offset, found.length)
            directory = self.leaf(found.offset, found.length)
        raise ValueError(f"it is damaged: {DIRECTORY_LEVELS} directories lead to no tile {z}/{x}/{y}")


def open_archive(path: str) -> TileArchive:
    """Return a PMTiles file; OSError where it cannot be read, ValueError where it is none, damaged or of no use."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe is not waited for
    try:
        archive = _archive_in(descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    weakref.finalize(archive, os.close, descriptor)
    return archive


def _archive_in(descriptor: int) -> TileArchive:
    size, head = os.fstat(descriptor).st_size, os.pread(descriptor, _HEADER.size, 0)
    if not head.startswith(b"PMTiles") or len(head) < _HEADER.size:
        raise ValueError("it is no PMTiles file: such a file begins with PMTiles and a header of 127 bytes")
    _, version, *numbers = _HEADER.unpack(head)
    if version != 3:
        raise ValueError(f"it has version {version} of PMTiles: 3 is read (pmtiles convert makes it)")
    sections = tuple(zip(numbers[0:8:2], numbers[1:8:2], strict=True))
    internal, external, kind, low, high = numbers[12:17]
    for name, (begin, length) in zip(_SECTIONS, sections, strict=True):
        if begin + length > size:
            raise ValueError(f"it is cut short: its {name} would end at byte {begin + length:,} of {size:,}")
    if kind not in CONTENT_OF_KIND:
        raise ValueError(f"its tiles are of kind {kind}: vector tiles (MVT), PNG, JPEG, WebP and AVIF are shown")
    for what, number in (("directories", internal), ("tiles", external)):
        if number not in (_PLAIN, _GZIP):
            raise ValueError(f"its {what} have compression {number}: none (1) and gzip (2) are read")
    if not low <= high <= DEEPEST_GROUND:
        raise ValueError(f"it is damaged: zooms {low} to {high} are not within 0 to {DEEPEST_GROUND}")

    def part(number: int, offset: int, length: int, most: int) -> bytes:
        data = _read(descriptor, sections, number, offset, length)
        return unzip(data, most) if internal == _GZIP and data else data

    def leaf(offset: int, length: int) -> Directory:
        return directory_of(part(2, offset, length, LARGEST_DIRECTORY))

    return TileArchive(
        descriptor,
        sections,
        directory_of(part(0, 0, sections[0][1], LARGEST_DIRECTORY)),
        lru_cache(KEPT_LEAVES)(leaf),
        _metadata(part(1, 0, sections[1][1], LARGEST_PART)),
        kind,
        external == _GZIP,
        (low, high),
        _bounds(*(side / _DEGREE for side in numbers[17:21])),
    )


def _metadata(text: bytes) -> dict[str, Any]:
    try:
        said = json.loads(text or b"{}")
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise ValueError("it is damaged: its metadata are no object of JSON")
    return said


def _bounds(west: float, south: float, east: float, north: float) -> tuple[float, float, float, float]:
    """Return a box of degrees; the whole map where it is none."""
    if -180 <= west < east <= 180 and -90 <= south < north <= 90:
        return west, south, east, north
    return -180.0, -90.0, 180.0, 90.0


def directory_of(raw: bytes) -> Directory:
    """Return the entries of an unzipped directory of b bytes; ValueError where it is damaged. Cost O(b)."""
    if len(raw) > LARGEST_DIRECTORY:
        raise ValueError(f"a directory has {len(raw):,} bytes: at most {LARGEST_DIRECTORY:,} are read")
    data = np.frombuffer(raw, np.uint8)
    ends = np.flatnonzero(data < 0x80)
    begins = np.concatenate([[0], ends[:-1] + 1])
    width = ends - begins[: len(ends)] + 1
    if not len(ends) or ends[-1] + 1 != len(data) or width.max() > _LONGEST_NUMBER:
        raise ValueError("it is damaged: a number of a directory has no end")
    shift = 7 * (np.arange(len(data)) - np.repeat(begins, width))
    values = np.add.reduceat((data & 0x7F).astype(np.int64) << shift, begins)
    count = int(values[0])
    if len(values) != 1 + 4 * count:
        raise ValueError(f"it is damaged: a directory of {count:,} entries has {len(values) - 1:,} numbers")
    steps, run, length, said = values[1:].reshape(4, count)
    if max(values[1:].max(initial=0), *(part.sum(dtype=np.float64) for part in (steps, length))) >= _LARGEST_NUMBER:
        raise ValueError("it is damaged: a number of a directory is beyond all tiles")
    if count and said[0] == 0:
        raise ValueError("it is damaged: the first entry of a directory follows none")
    # 0 says that an entry follows the one before it
    before = np.cumsum(length) - length
    told = np.maximum.accumulate(np.where(said > 0, np.arange(count), 0))
    return Directory(np.cumsum(steps), run, length, (said - 1 - before)[told] + before)


def tile_number(z: int, x: int, y: int) -> int:
    """Return the number of a tile: zooms follow each other, each along a Hilbert curve.

    Examples
    --------
    >>> [tile_number(*one) for one in ((0, 0, 0), (1, 0, 0), (1, 0, 1), (1, 1, 1), (1, 1, 0), (12, 3423, 1763))]
    [0, 1, 2, 3, 4, 19078479]
    """
    number = ((1 << 2 * z) - 1) // 3
    for level in reversed(range(z)):
        right, down = x >> level & 1, y >> level & 1
        number += (3 * right ^ down) << 2 * level
        if not down:
            x, y = (~y, ~x) if right else (y, x)
    return number


def _read(descriptor: int, sections: tuple[tuple[int, int], ...], number: int, offset: int, length: int) -> bytes:
    """Return bytes of a section."""
    begin, whole = sections[number]
    if length > LARGEST_PART or offset < 0 or offset + length > whole:
        raise ValueError(
            f"it is damaged: {length:,} bytes at {offset:,} of its {_SECTIONS[number]}, which have {whole:,} "
            f"(at most {LARGEST_PART:,} are read at once)"
        )
    found = os.pread(descriptor, length, begin + offset)
    if len(found) < length:
        raise ValueError("it was cut short while it is open")
    return found


def unzip(data: bytes, most: int = LARGEST_PART) -> bytes:
    """Return the bytes of a gzip, of bounded length; ValueError where it is damaged."""
    stream = zlib.decompressobj(31)
    try:
        found = stream.decompress(data, most)
    except zlib.error as error:
        raise ValueError(f"it is damaged: {error}") from None
    if not stream.eof:
        raise ValueError(f"it is damaged: a gzip has no end within {most:,} bytes")
    return found
