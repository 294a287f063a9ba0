"""A sample of an index's objects along the curve of the map's square: a tile is one run of it.

Which objects it holds depends on their ids alone, by a hash: those of one cycle are in it in the next one too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.compiled.kernel import kernel, operand
from dtoss.index import Index
from dtoss.partition import Partition
from dtoss.tiles.map_frame import Frame

if TYPE_CHECKING:
    from dtoss.conditions.matching_objects import Filter

SAMPLED = 500_000
"""Objects of a sample, about."""
KEY_BITS = 32
"""Of each coordinate of a key: a pixel of the deepest tile is 2^7 of them."""
_SIDE = 2.0**KEY_BITS
_GOLDEN, _FIRST_FACTOR, _SECOND_FACTOR = (
    np.uint64(factor) for factor in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)
_FIRST_SHIFT, _SECOND_SHIFT, _LAST_SHIFT = (np.uint64(shift) for shift in (30, 27, 31))
"""Of splitmix64: what is added to a number, and how its finalizer mixes it."""
_FNV_BEGIN, _FNV_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
"""Of FNV-1a with 64 bits."""
_OF_32, _OF_16, _OF_8, _OF_4, _OF_2, _OF_1 = (
    np.uint64(mask)
    for mask in (
        0x00000000FFFFFFFF, 0x0000FFFF0000FFFF, 0x00FF00FF00FF00FF,
        0x0F0F0F0F0F0F0F0F, 0x3333333333333333, 0x5555555555555555,
    )
)  # fmt: skip
"""Every second run of so many bits, from the lowest on."""
_BY_16, _BY_8, _BY_4 = np.uint64(16), np.uint64(8), np.uint64(4)


@dataclass(frozen=True)
class Sample:
    """Objects of an index in the order of their keys, 14 bytes each."""

    one_of: int  # Each object is in it with a chance of 1 in so many; 1 is all of them
    keys: NDArray[np.uint64]  # uint64 (n,), ascending: the place in the map's square, the bits of x and y in turn
    part: NDArray[np.uint16] | NDArray[np.int32]  # uint16 or int32 (n,). The partition that owns an object
    item: NDArray[np.int32]  # int32 (n,). Its row there
    nowhere: int  # Objects that the map has no place for: a CRS without lon, lat there


def at_once() -> None:
    """Go on without a pause."""


def sample_of(
    index: Index,
    frame: Frame,
    most: int = SAMPLED,
    among: Filter | None = None,
    breathe: Callable[[], None] = at_once,
) -> Sample:
    """Return a sample of an index. Cost O(objects) for their ids, O(n log n) for the n that are in it.

    ``most``: objects of the sample at the most, about; ``among``: only what satisfies this condition is an object; None
    for all; ``breathe``: is called after each partition.
    """
    one_of = max(-(-(len(index) if among is None else among.count) // most), 1)

    def rows(partition: Partition) -> NDArray[np.int32]:
        some = np.arange(partition.owned_objects, dtype=np.int32) if one_of == 1 else picked(partition, one_of)
        return some if among is None else some[among.holds(np.full(len(some), partition.number), some)]

    return sample_among(index, frame, one_of, rows, breathe)


def sample_among(
    index: Index,
    frame: Frame,
    one_of: int,
    rows: Callable[[Partition], NDArray[np.int32]],
    breathe: Callable[[], None] = at_once,
) -> Sample:
    """Return some objects of an index in the order of their keys. Cost O(n log n) for n of them.

    ``breathe``: is called after each partition.
    """
    parts, items, worlds = [], [], []
    for partition in index.parts.all():
        some = rows(partition)
        parts.append(np.full(len(some), partition.number, np.int32))
        items.append(some)
        worlds.append(frame.world_of(partition.positions[some]))
        breathe()
    part, item = _joined(parts, np.int32), _joined(items, np.int32)
    world = np.concatenate(worlds) if worlds else np.zeros((0, 2))
    known = ~np.isnan(world[:, 0])
    part, item, keys = part[known], item[known], keys_of(world[known])
    order = np.argsort(keys, kind="stable")
    part = part[order]
    narrow = part.astype(np.uint16) if len(index.parts) <= np.iinfo(np.uint16).max else part
    return Sample(one_of, keys[order], narrow, item[order], int((~known).sum()))


def _joined(arrays: list[NDArray[np.int32]], kind: type[np.int32]) -> NDArray[np.int32]:
    return np.concatenate(arrays) if arrays else np.zeros(0, kind)


def picked(partition: Partition, one_of: int) -> NDArray[np.int32]:
    """Return which owned objects of a partition a sample of one in so many holds, int32, ascending.

    What a sample holds, one of fewer (``one_of`` smaller) holds too.
    """
    count = partition.owned_objects
    out = np.empty(count, np.int32)
    below = np.uint64((2**64 - 1) // one_of)
    if isinstance(partition.ids, np.ndarray):
        return out[: _pick(operand(partition.ids[:count]), below, out)]
    texts = partition.ids.slice(0, count)
    _, offsets, data = texts.buffers()
    first = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + count + 1]
    letters = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    return out[: _pick_texts(operand(first), operand(letters), below, out)]


def hashes_of(texts: pa.Array) -> NDArray[np.uint64]:
    """Return the hashes of texts by which a sample picks them, uint64 (n,). ``texts``: large strings without nulls."""
    _, offsets, data = texts.buffers()
    first = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    letters = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    out = np.empty(len(texts), np.uint64)
    _hash_texts(operand(first), operand(letters), out)
    return out


def keys_of(world: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return the keys of places in the map's square, uint64 (n,); its far rims count as what is just inside."""
    out = np.empty(len(world), np.uint64)
    _keys(operand(world), out)
    return out


def run_of(z: int, x: int, y: int) -> tuple[np.uint64, np.uint64]:
    """Return the first and the last key of a tile."""
    shift = KEY_BITS - z
    corner = np.empty(1, np.uint64)
    _keys(operand(np.array([[(x << shift) / 2.0**KEY_BITS, (y << shift) / 2.0**KEY_BITS]])), corner)
    first = int(corner[0])
    return np.uint64(first), np.uint64(first + (1 << (2 * shift)) - 1)


@kernel
def _mixed(number):
    """Return 64 bits that look random: the finalizer of splitmix64."""
    number = (number ^ (number >> _FIRST_SHIFT)) * _FIRST_FACTOR
    number = (number ^ (number >> _SECOND_SHIFT)) * _SECOND_FACTOR
    return number ^ (number >> _LAST_SHIFT)


@kernel("int64(int64[::1], uint64, int32[::1])")
def _pick(ids, below, out):
    """Write which ids have a hash of at most ``below``; returns how many."""
    filled = 0
    for i in range(ids.size):
        if _mixed(np.uint64(ids[i]) + _GOLDEN) <= below:
            out[filled] = i
            filled += 1
    return filled


@kernel
def _hash_text(letters, begin, end):
    """Return FNV-1a of some bytes, mixed."""
    found = _FNV_BEGIN
    for at in range(begin, end):
        found = (found ^ np.uint64(letters[at])) * _FNV_PRIME
    return _mixed(found)


@kernel("void(int64[::1], uint8[::1], uint64[::1])")
def _hash_texts(first, letters, out):
    """Write the hash of each text."""
    for i in range(first.size - 1):
        out[i] = _hash_text(letters, first[i], first[i + 1])


@kernel("int64(int64[::1], uint8[::1], uint64, int32[::1])")
def _pick_texts(first, letters, below, out):
    """Write which texts have a hash of at most ``below``; returns how many."""
    filled = 0
    for i in range(first.size - 1):
        if _hash_text(letters, first[i], first[i + 1]) <= below:
            out[filled] = i
            filled += 1
    return filled


@kernel
def _spread(number):
    """Return a number of 32 bits with a 0 before each bit."""
    number = (number | (number << _BY_16)) & _OF_16
    number = (number | (number << _BY_8)) & _OF_8
    number = (number | (number << _BY_4)) & _OF_4
    number = (number | (number << np.uint64(2))) & _OF_2
    return (number | (number << np.uint64(1))) & _OF_1


@kernel
def gather_bits(number):
    """Return every second bit of a key, 32 of them: x of the key, y of half of it."""
    number = number & _OF_1
    number = (number | (number >> np.uint64(1))) & _OF_2
    number = (number | (number >> np.uint64(2))) & _OF_4
    number = (number | (number >> _BY_4)) & _OF_8
    number = (number | (number >> _BY_8)) & _OF_16
    return (number | (number >> _BY_16)) & _OF_32


@kernel("void(float64[:, ::1], uint64[::1])")
def _keys(world, out):
    """Write the key of each place: bits of x in the even places, those of y in the odd ones."""
    for i in range(out.size):
        x = min(np.floor(world[i, 0] * _SIDE), _SIDE - 1.0)
        y = min(np.floor(world[i, 1] * _SIDE), _SIDE - 1.0)
        out[i] = _spread(np.uint64(x)) | (_spread(np.uint64(y)) << np.uint64(1))
