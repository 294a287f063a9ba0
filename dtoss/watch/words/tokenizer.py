"""The words of a text: the one tokeniser of messages and of what is asked.

Texts in UTF-8 cut into chunks of letters and digits, and a table that numbers words.

A chunk is a maximal run of bytes that are letters or digits of ASCII, or of characters beyond ASCII. Where it is ASCII
it is a word. Where it is not, :func:`dtoss.watch.words.tokenizer.tokens` says which words it has: no form of Unicode
joins or parts characters across an ASCII sign, so the words of a text are those of its chunks.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.compiled.kernel import kernel
from dtoss.compiled.pointers import pointer, prefetch, shift

_RUN = re.compile(r"[^\W_]+")
"""A maximal run of characters for which ``str.isalnum`` is true."""


def tokens(text: str) -> list[str]:
    """Return the words of a text in their order, repeats included. Cost O(characters).

    The text is put into Unicode's form NFKC and its case is folded, so that one word has one spelling: ``Straße`` and
    ``STRASSE``, full-width and usual letters, a letter with its accent and the two apart. A word is then a maximal run
    of letters and digits (``str.isalnum``). All else divides: spaces, signs, the underscore, marks that belong to no
    composed letter.

    Examples
    --------
    >>> tokens("Coffee-shop, CAFÉ no_1!")
    ['coffee', 'shop', 'café', 'no', '1']
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    return [folded] if folded.isalnum() else _RUN.findall(folded)


FREE = -1
"""A slot of a table of words in which nothing is."""
UNKNOWN_WORD = -1
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
_AHEAD = 16
"""Chunks by which a table is asked for before it is read."""
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
    """Texts one after another."""

    text: NDArray[np.uint8]  # uint8. Their bytes in UTF-8
    begin: NDArray[np.int64]  # int64 (n + 1,). Where each begins, and where the last one ends


class Chunks(NamedTuple):
    """The chunks of texts."""

    first: NDArray[np.int64]  # int64 (n + 1,). The first chunk of each text
    ends: NDArray[np.int64]  # int64 (c, 2). Where each begins and ends in the bytes
    hashes: NDArray[np.int64]  # int64 (c,). Of its folded bytes, even; one more if it is not of ASCII alone


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


class Numbered(NamedTuple):
    """The distinct chunks of some, numbered in the order in which they come."""

    numbers: NDArray[np.int32]  # int32 (c,). Of each chunk
    distinct: NDArray[np.int64]  # int64 (d,). The first chunk of each number
    # letters, offsets: uint8, int64 (d + 1,). Their folded bytes, one after another, and where each begins
    letters: NDArray[np.uint8]
    offsets: NDArray[np.int64]


def look_up_chunks(text: NDArray[np.uint8], ends: NDArray[np.int64], hashes: NDArray[np.int64]) -> Numbered:
    """Return the numbers of chunks. Cost O(bytes)."""
    size = len(ends)
    numbers, distinct = np.empty(size, np.int32), np.empty(size, np.int64)
    letters, offsets = np.empty(int((ends[:, 1] - ends[:, 0]).sum()), np.uint8), np.zeros(size + 1, np.int64)
    slots = np.full(_FIRST_ROOM, FREE, np.int64)
    at = found = 0
    while True:
        at, found = number_chunks(at, found, text, FOLDED, ends, hashes, slots, numbers, distinct, letters, offsets)
        if at == size:
            return Numbered(numbers, distinct[:found], letters[: offsets[found]], offsets[: found + 1])
        slots = np.full(_GROWTH * len(slots), FREE, np.int64)
        fill_slots(hashes[distinct[:found]], slots)


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


@kernel
def _same(letters, begin, end, text, span, folded):
    """Return whether some letters are the folded bytes of a chunk."""
    first, size = span[0], end - begin
    step = 0 if size == span[1] - first else size + 1
    while step < size and letters[begin + step] == folded[text[first + step]]:
        step += 1
    return step == size


@kernel(
    f"UniTuple(int64, 2)(int64, int64, {_READ}, {_READ}, Array(int64, 2, 'C', readonly=True), {_LONGS}, int64[::1],"
    " int32[::1], int64[::1], uint8[::1], int64[::1])"
)
def number_chunks(start, found, text, folded, ends, hashes, slots, numbers, distinct, letters, offsets):
    """Set the number of each chunk from ``start`` on, and what is kept of those that are new.

    ``found`` have a number already. Returns the chunk at which the table is half full, or how many chunks there are;
    and how many have a number then.
    """
    mask = slots.size - 1
    table, held, read, lower = pointer(slots), pointer(letters), pointer(text), pointer(folded)
    for i in range(start, ends.shape[0]):
        if 2 * found >= slots.size:
            return i, found
        if i + _AHEAD < ends.shape[0]:
            prefetch(table, (hashes[i + _AHEAD] >> 1) & mask)
        at = (hashes[i] >> 1) & mask
        entry = _entry(hashes[i], 0)
        span = shift(pointer(ends), 2 * i)
        number = FREE
        while number == FREE:
            if table[at] == FREE:
                number = found
                table[at] = entry | number
                distinct[number] = i
                begin = offsets[number]
                for step in range(span[1] - span[0]):
                    held[begin + step] = lower[read[span[0] + step]]
                offsets[number + 1] = begin + span[1] - span[0]
                found += 1
            elif table[at] >> _TAG_SHIFT == entry >> _TAG_SHIFT:
                other = table[at] & _NUMBER_MASK
                if _same(held, offsets[other], offsets[other + 1], read, span, lower):
                    number = other
            at = (at + 1) & mask
        numbers[i] = number
    return ends.shape[0], found


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
    table, held, read, lower = pointer(slots), pointer(letters), pointer(text), pointer(folded)
    for i in range(ends.shape[0]):
        if i + _AHEAD < ends.shape[0]:
            prefetch(table, (hashes[i + _AHEAD] >> 1) & mask)
        at = (hashes[i] >> 1) & mask
        tag = (hashes[i] >> _TAG_SHIFT) & _TAG_MASK
        span = shift(pointer(ends), 2 * i)
        numbers[i] = UNKNOWN_WORD
        while table[at] != FREE:
            if table[at] >> _TAG_SHIFT == tag:
                number = table[at] & _NUMBER_MASK
                if _same(held, offsets[number], offsets[number + 1], read, span, lower):
                    numbers[i] = number
                    break
            at = (at + 1) & mask
