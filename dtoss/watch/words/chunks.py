"""Texts in UTF-8 cut into chunks of letters and digits, and a table that numbers words.

A chunk is a maximal run of bytes that are letters or digits of ASCII, or of characters beyond ASCII. Where it is ASCII
it is a word. Where it is not, :func:`dtoss.watch.words.tokens.tokens` says which words it has: no form of Unicode joins
or parts characters across an ASCII sign, so the words of a text are those of its chunks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.compiled.kernel import kernel

FREE = -1
"""A slot of a table of words in which nothing is."""
UNKNOWN = -1
"""The number of a word that a table does not have."""
_START, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
"""Of the hash FNV-1a."""
_MIX = np.uint64(0x9E3779B97F4A7C15)
_MIX_SHIFT = np.uint64(29)
_BITS = np.uint64(0x7FFFFFFFFFFFFFFE)
_ASCII = 128
_TAG_SHIFT = 32
_NUMBER_MASK = (1 << _TAG_SHIFT) - 1
_TAG_MASK = 0x7FFFFFFF
_FIRST_ROOM, _GROWTH = 1 << 12, 4
_READ = "Array(uint8, 1, 'C', readonly=True)"
_LONGS = "Array(int64, 1, 'C', readonly=True)"


def _fold() -> NDArray[np.uint8]:
    folded = np.arange(256, dtype=np.uint8)
    for byte in range(_ASCII):
        letter = chr(byte)
        folded[byte] = ord(letter.lower()) if letter.isalnum() else 0
    return folded


FOLDED = _fold()
"""The lower case of each byte that belongs to a chunk; 0 of all others."""


class Bytes(NamedTuple):
    """Texts one after another.

    Parameters
    ----------
    text
        uint8. Their bytes in UTF-8.
    begin
        int64 (n + 1,). Where each begins, and where the last one ends.
    """

    text: NDArray[np.uint8]
    begin: NDArray[np.int64]


class Chunks(NamedTuple):
    """The chunks of texts.

    Parameters
    ----------
    first
        int64 (n + 1,). The first chunk of each text.
    ends
        int64 (c, 2). Where each begins and ends in the bytes.
    hashes
        int64 (c,). Of its folded bytes, even; one more if it is not of ASCII alone.
    """

    first: NDArray[np.int64]
    ends: NDArray[np.int64]
    hashes: NDArray[np.int64]


def bytes_of(texts: pa.Array | pa.ChunkedArray) -> Bytes:
    """Return the bytes of texts; what is null is empty. Nothing is copied where nothing need be."""
    if isinstance(texts, pa.ChunkedArray):
        texts = pa.concat_arrays(texts.chunks) if texts.num_chunks else pa.array([], pa.large_string())
    if pa.types.is_dictionary(texts.type):
        texts = texts.dictionary_decode()
    if not pa.types.is_large_string(texts.type):
        texts = texts.cast(pa.large_string())
    if texts.null_count:
        texts = pc.fill_null(texts, "")
    _, offsets, data = texts.buffers()
    begin = np.zeros(1, np.int64)
    if len(texts):
        begin = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    return Bytes(np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8), begin)


def chunks_of(texts: Bytes) -> Chunks:
    """Return the chunks of texts. Cost O(bytes)."""
    size = count_chunks(texts.text, texts.begin, FOLDED)
    chunks = Chunks(np.empty(len(texts.begin), np.int64), np.empty((size, 2), np.int64), np.empty(size, np.int64))
    cut(texts.text, texts.begin, FOLDED, *chunks)
    return chunks


def slots_for(count: int) -> NDArray[np.int64]:
    """Return a free table for so many words, at most half full."""
    return np.full(1 << max(int(2 * count - 1).bit_length(), 1), FREE, np.int64)


def numbered(
    text: NDArray[np.uint8], ends: NDArray[np.int64], hashes: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the number of each chunk in the order in which distinct ones come, and the first chunk of each number."""
    numbers, distinct = np.empty(len(ends), np.int32), np.zeros(len(ends) + 1, np.int64)
    slots = np.full(_FIRST_ROOM, FREE, np.int64)
    at = number_chunks(0, 0, text, FOLDED, ends, hashes, slots, numbers, distinct)
    while at < len(ends):
        found = int(distinct[-1])
        slots = np.full(_GROWTH * len(slots), FREE, np.int64)
        fill_slots(hashes[distinct[:found]], slots)
        at = number_chunks(at, found, text, FOLDED, ends, hashes, slots, numbers, distinct)
    return numbers, distinct[: int(distinct[-1])]


@kernel(f"int64({_READ}, {_LONGS}, {_READ})")
def count_chunks(text, begin, folded):
    """Return how many chunks texts have."""
    found = 0
    for i in range(begin.size - 1):
        inside = False
        for at in range(begin[i], begin[i + 1]):
            letter = folded[text[at]] != 0
            found += letter and not inside
            inside = letter
    return found


@kernel
def _hash_of(mixed, foreign):
    """Return a hash as a table has it: even, one more where foreign."""
    mixed = mixed ^ (mixed >> _MIX_SHIFT)
    mixed = mixed * _MIX
    mixed = mixed ^ (mixed >> _MIX_SHIFT)
    return int(mixed & _BITS) + foreign


@kernel(f"void({_READ}, {_LONGS}, {_READ}, int64[::1], int64[:, ::1], int64[::1])")
def cut(text, begin, folded, first, ends, hashes):
    """Set the chunks of texts: the first of each, where they begin and end, their hashes."""
    found = 0
    for i in range(begin.size - 1):
        first[i] = found
        at, end = begin[i], begin[i + 1]
        while at < end:
            if folded[text[at]] == 0:
                at += 1
                continue
            ends[found, 0] = at
            mixed, foreign = _START, 0
            while at < end and folded[text[at]] != 0:
                mixed = (mixed ^ np.uint64(folded[text[at]])) * _PRIME
                foreign |= text[at] >= _ASCII
                at += 1
            ends[found, 1] = at
            hashes[found] = _hash_of(mixed, foreign)
            found += 1
    first[begin.size - 1] = found


@kernel(f"void({_READ}, {_LONGS}, {_READ}, int64[::1])")
def hash_whole(text, begin, folded, hashes):
    """Set the hash of each text as that of a single chunk."""
    for i in range(begin.size - 1):
        mixed, foreign = _START, 0
        for at in range(begin[i], begin[i + 1]):
            mixed = (mixed ^ np.uint64(folded[text[at]])) * _PRIME
            foreign |= text[at] >= _ASCII
        hashes[i] = _hash_of(mixed, foreign)


@kernel
def _entry(hashed, number):
    return ((hashed >> _TAG_SHIFT) & _TAG_MASK) << _TAG_SHIFT | number


@kernel(
    f"int64(int64, int64, {_READ}, {_READ}, Array(int64, 2, 'C', readonly=True), {_LONGS}, int64[::1], int32[::1],"
    " int64[::1])"
)
def number_chunks(start, found, text, folded, ends, hashes, slots, numbers, distinct):
    """Set the number of each chunk from ``start`` on in the order in which they come, and a chunk of each number.

    ``found`` have a number already. Returns the chunk at which the table is half full, or how many chunks there are;
    ``distinct`` ends with how many have a number.
    """
    mask = slots.size - 1
    for i in range(start, ends.shape[0]):
        if 2 * found >= slots.size:
            distinct[ends.shape[0]] = found
            return i
        at = (hashes[i] >> 1) & mask
        size = ends[i, 1] - ends[i, 0]
        while True:
            if slots[at] == FREE:
                slots[at] = _entry(hashes[i], found)
                distinct[found] = i
                numbers[i] = found
                found += 1
                break
            if slots[at] >> _TAG_SHIFT == (hashes[i] >> _TAG_SHIFT) & _TAG_MASK:
                number = slots[at] & _NUMBER_MASK
                other = distinct[number]
                same = ends[other, 1] - ends[other, 0] == size
                step = 0
                while same and step < size:
                    same = folded[text[ends[other, 0] + step]] == folded[text[ends[i, 0] + step]]
                    step += 1
                if same:
                    numbers[i] = number
                    break
            at = (at + 1) & mask
    distinct[ends.shape[0]] = found
    return ends.shape[0]


@kernel(f"void({_LONGS}, int64[::1])")
def fill_slots(hashes, slots):
    """Write words that are distinct into a free table, by their numbers."""
    mask = slots.size - 1
    for i in range(hashes.size):
        at = (hashes[i] >> 1) & mask
        while slots[at] != FREE:
            at = (at + 1) & mask
        slots[at] = _entry(hashes[i], i)


@kernel(
    f"void({_READ}, {_READ}, Array(int64, 2, 'C', readonly=True), {_LONGS}, {_READ}, {_LONGS}, {_LONGS}, int32[::1])"
)
def find_chunks(text, folded, ends, hashes, letters, offsets, slots, numbers):
    """Set the number that each chunk has as a word of a vocabulary, UNKNOWN where it is none."""
    mask = slots.size - 1
    for i in range(ends.shape[0]):
        at = (hashes[i] >> 1) & mask
        size = ends[i, 1] - ends[i, 0]
        numbers[i] = UNKNOWN
        while slots[at] != FREE:
            if slots[at] >> _TAG_SHIFT == (hashes[i] >> _TAG_SHIFT) & _TAG_MASK:
                number = slots[at] & _NUMBER_MASK
                begin = offsets[number]
                same = offsets[number + 1] - begin == size
                step = 0
                while same and step < size:
                    same = letters[begin + step] == folded[text[ends[i, 0] + step]]
                    step += 1
                if same:
                    numbers[i] = number
                    break
            at = (at + 1) & mask


@kernel(f"void({_READ}, {_READ}, Array(int64, 2, 'C', readonly=True), {_LONGS}, uint8[::1])")
def gather_chunks(text, folded, ends, begin, out):
    """Write the folded bytes of chunks one after another."""
    for i in range(ends.shape[0]):
        for step in range(ends[i, 1] - ends[i, 0]):
            out[begin[i] + step] = folded[text[ends[i, 0] + step]]
