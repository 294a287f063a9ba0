"""How objects are found by their ids: the order of those of a partition, and a filter that says which are not there.

The filter is a Bloom filter of one word an id: a hash says which 64-bit word, and which four bits of it are 1. With 16
bits an object an id that is not there passes once in 200 times. So of many partitions, hardly more than the right one
is searched: 128 binary searches took 25 microseconds.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.compiled.checked_memory import address
from dtoss.compiled.kernel import kernel
from dtoss.compiled.pointers import int64_at, uint8_at, uint64_at
from dtoss.geometry.hilbert import radix_order
from dtoss.partition import Ids

IDS_PER_WORD = 4
"""Ids that share a word of the filter, in the mean."""
_WIDEST = 2**63 - 1
_FACTOR_1, _FACTOR_2 = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F)
_HALF, _SHIFT = np.uint64(32), np.uint64(29)
"""Of the hash of a number: odd factors, and by how many bits it is folded between and after them."""
_TEXT_BEGIN, _TEXT_FACTOR = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
"""Of the hash of Fowler, Noll and Vo (FNV-1a)."""
_ONE, _BIT = np.uint64(1), np.uint64(63)
_SECOND, _THIRD, _FOURTH = np.uint64(6), np.uint64(12), np.uint64(18)
"""Where in a hash the numbers of the four bits stand, six bits each; the upper half says which word."""


def order_of_ids(ids: Ids) -> NDArray[np.int32]:
    """Return the order, int32 (n,), in which ids ascend; strings by their UTF-8 bytes, which is code point order.

    ``ids``: int64 (n,) or an Arrow array of large strings, less than 2^31 of them.

    Equal ids stay in the order in which they stand. Cost O(n) for numbers, O(n log n) for strings.

    Examples
    --------
    >>> order_of_ids(np.array([7, -3, 40])).tolist()
    [1, 0, 2]
    >>> order_of_ids(pa.array(["b", "", "é", "a"], pa.large_string())).tolist()
    [1, 3, 0, 2]
    """
    if isinstance(ids, pa.Array):
        # Arrow compares UTF-8 bytes
        import pyarrow.compute as pc  # which a question about places does without

        order: NDArray[np.int32] = pc.array_sort_indices(ids).to_numpy().astype(np.int32)
        return order
    if len(ids) == 0:
        return np.empty(0, np.int32)
    low = int(ids.min())
    if int(ids.max()) - low > _WIDEST:
        return np.argsort(ids, kind="stable").astype(np.int32)
    return radix_order(ids - low)


def filter_of_ids(ids: Ids) -> NDArray[np.uint64]:
    """Return the filter of ids, uint64 (n / 4 rounded up,): the same for every order of them. Cost O(n).

    ``ids``: int64 (n,) or an Arrow array of large strings.
    """
    words = np.zeros(words_of(len(ids)), np.uint64)
    if len(ids) == 0:
        return words
    to = address(words, "filter")
    if isinstance(ids, pa.Array):
        offsets, texts = text_buffers(ids)
        _fill_of_texts(address(offsets, "offsets of ids"), address(texts, "ids"), len(ids), to, len(words))
    else:
        held = np.ascontiguousarray(ids)
        _fill_of_numbers(address(held, "ids"), len(ids), to, len(words))
    return words


def words_of(ids: int) -> int:
    """Return how many words the filter of so many ids has."""
    return -(-ids // IDS_PER_WORD)


def text_buffers(ids: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return where n large strings begin and end, int64 (n + 1,), and their bytes, without a copy; one byte if none."""
    _, offsets, data = ids.buffers()
    begin = np.frombuffer(offsets, np.int64)[ids.offset : ids.offset + len(ids) + 1]
    return begin, np.frombuffer(data if data is not None and data.size else b"\0", np.uint8)


@kernel
def hash_of_number(number):
    """Return the hash of an id that is a number."""
    value = np.uint64(number) * _FACTOR_1
    value = (value ^ (value >> _HALF)) * _FACTOR_2
    return value ^ (value >> _SHIFT)


@kernel
def hash_of_text(texts, begin, end):
    """Return the hash of an id that is text, from its bytes."""
    value = _TEXT_BEGIN
    for t in range(begin, end):
        value = (value ^ np.uint64(texts[t])) * _TEXT_FACTOR
    value = (value ^ (value >> _HALF)) * _FACTOR_2
    return value ^ (value >> _SHIFT)


@kernel
def word_of(value, words):
    """Return which of the words of a filter concerns a hash."""
    return np.int64(((value >> _HALF) * np.uint64(words)) >> _HALF)


@kernel
def bits_of(value):
    """Return the bits of its word that a hash sets."""
    bits = (_ONE << (value & _BIT)) | (_ONE << ((value >> _SECOND) & _BIT))
    return bits | (_ONE << ((value >> _THIRD) & _BIT)) | (_ONE << ((value >> _FOURTH) & _BIT))


@kernel("void(int64, int64, int64, int64)")
def _fill_of_numbers(ids_at, count, words_at, words):
    ids, held = int64_at(ids_at), uint64_at(words_at)
    for i in range(count):
        value = hash_of_number(ids[i])
        held[word_of(value, words)] |= bits_of(value)


@kernel("void(int64, int64, int64, int64, int64)")
def _fill_of_texts(offsets_at, texts_at, count, words_at, words):
    offsets, texts, held = int64_at(offsets_at), uint8_at(texts_at), uint64_at(words_at)
    for i in range(count):
        value = hash_of_text(texts, offsets[i], offsets[i + 1])
        held[word_of(value, words)] |= bits_of(value)
