"""Texts as the numbers of the words that an index knows.

The words that an index knows, by their numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.compiled.kernel import kernel, operand
from dtoss.watch.words.tokenizer import (
    FOLDED,
    UNKNOWN_WORD,
    Bytes,
    bytes_of,
    chunks_of,
    fill_slots,
    find_chunks,
    hash_whole,
    look_up_chunks,
    slots_for,
    tokens,
)

_SHORT = 32
"""Words of a message that are put in order by insertion."""
_WORD_SHIFT = 32
_PLACE_MASK = (1 << _WORD_SHIFT) - 1


class Messages(NamedTuple):
    """The words of n texts."""

    begin: NDArray[np.int64]  # int64 (n + 1,). The first word of each text
    tokens: NDArray[np.int32]  # int32 (t,). The number of each word, in the order of the text; -1 where it is unknown
    first: NDArray[np.int64]  # int64 (n + 1,). The first distinct known word of each text
    words: NDArray[np.int32]  # int32 (w,). The distinct known words of each text, rising
    at: NDArray[np.int64]  # int64 (w + 1,). Where the places of each distinct word begin in ``places``
    places: NDArray[np.int64]  # int64 (p,). Numbers in ``tokens``, rising for each distinct word of a text


def messages_of(vocabulary: Vocabulary, texts: pa.Array) -> Messages:
    """Return the words of texts that a vocabulary knows. Cost O(bytes + words log words of a text).

    ``texts``: string (n,). A null is a text without words.
    """
    begin, numbers = token_numbers(vocabulary, texts)
    known = int((numbers != UNKNOWN_WORD).sum())
    keys = np.empty(known, np.int64)
    first = np.empty(len(begin), np.int64)
    words, at = np.empty(known, np.int32), np.empty(known + 1, np.int64)
    count = distinct_words(begin, numbers, keys, first, words, at)
    return Messages(begin, numbers, first, words[:count], at[: count + 1], keys)


def token_numbers(vocabulary: Vocabulary, texts: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return where the words of each text begin, int64 (n + 1,), and the number of each, -1 if unknown."""
    held = bytes_of(texts)
    chunks = chunks_of(held)
    numbers = np.empty(len(chunks.hashes), np.int32)
    find_chunks(held.text, FOLDED, chunks.ends, chunks.hashes, *vocabulary, numbers)
    odd = np.flatnonzero(chunks.hashes & 1)
    if len(odd) == 0:
        return chunks.first, numbers
    which, found = foreign_words(held, chunks.ends[odd], chunks.hashes[odd])
    sizes, known = words_of_foreign(vocabulary, found)
    begins = np.cumsum(sizes) - sizes
    if (sizes == 1).all():
        numbers[odd] = known[which]
        return chunks.first, numbers
    size = np.ones(len(numbers), np.int64)
    size[odd] = sizes[which]
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(size)])
    out = np.repeat(numbers, size)
    mine = size[odd]
    step = np.arange(mine.sum()) - np.repeat(np.cumsum(mine) - mine, mine)
    out[np.repeat(ends[odd], mine) + step] = known[np.repeat(begins[which], mine) + step]
    return ends[chunks.first], out


@kernel
def _sift(keys, begin, end, at):
    """Let a key sink to its place in a heap."""
    size = end - begin
    key = keys[begin + at]
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and keys[begin + child + 1] > keys[begin + child]:
            child += 1
        if keys[begin + child] <= key:
            break
        keys[begin + at] = keys[begin + child]
        at = child
    keys[begin + at] = key


@kernel
def put_in_order(keys, begin, end):
    """Put keys in order: a few by insertion, many by a heap."""
    if end - begin <= _SHORT:
        for i in range(begin + 1, end):
            key = keys[i]
            at = i
            while at > begin and keys[at - 1] > key:
                keys[at] = keys[at - 1]
                at -= 1
            keys[at] = key
        return
    size = end - begin
    for at in range(size // 2 - 1, -1, -1):
        _sift(keys, begin, end, at)
    for last in range(end - 1, begin, -1):
        keys[begin], keys[last] = keys[last], keys[begin]
        _sift(keys, begin, last, 0)


@kernel(
    "int64(Array(int64, 1, 'C', readonly=True), Array(int32, 1, 'C', readonly=True), int64[::1], int64[::1],"
    " int32[::1], int64[::1])"
)
def distinct_words(begin, tokens, keys, first, words, at):
    """Set the distinct words of each text and their places, which take the room of ``keys``; return how many."""
    filled, found = 0, 0
    for i in range(begin.size - 1):
        first[i] = found
        start = filled
        for place in range(begin[i], begin[i + 1]):
            if tokens[place] != UNKNOWN_WORD:
                keys[filled] = (int(tokens[place]) << _WORD_SHIFT) | (place - begin[i])
                filled += 1
        put_in_order(keys, start, filled)
        last = UNKNOWN_WORD
        for k in range(start, filled):
            word = keys[k] >> _WORD_SHIFT
            keys[k] = begin[i] + (keys[k] & _PLACE_MASK)
            if word != last:
                words[found] = word
                at[found] = k
                found += 1
                last = word
    first[begin.size - 1] = found
    at[found] = filled
    return found


class Vocabulary(NamedTuple):
    """Distinct words, folded."""

    letters: NDArray[np.uint8]  # uint8. Their bytes in UTF-8, one after another
    offsets: NDArray[np.int64]  # int64 (v + 1,). Where each begins, and where the last one ends
    slots: NDArray[np.int64]  # int64, a power of two. A table by hash: 31 bits of the hash and the number of the word

    def numbers_of(self, words: pa.Array) -> NDArray[np.int32]:
        """Return the number of each folded word, int32 (n,), -1 where it is unknown."""
        text, begin = bytes_of(words)
        hashes = np.empty(len(words), np.int64)
        hash_whole(text, begin, FOLDED, hashes)
        numbers = np.empty(len(words), np.int32)
        ends = np.ascontiguousarray(np.stack([begin[:-1], begin[1:]], axis=1))
        find_chunks(text, FOLDED, ends, hashes, self.letters, self.offsets, self.slots, numbers)
        return numbers


def vocabulary_of(words: pa.Array) -> Vocabulary:
    """Return the vocabulary of distinct folded words, numbered in their order. Cost O(bytes)."""
    text, begin = bytes_of(words)
    hashes = np.empty(len(words), np.int64)
    hash_whole(text, begin, FOLDED, hashes)
    slots = slots_for(len(words))
    fill_slots(hashes, slots)
    return Vocabulary(text[begin[0] : begin[-1]].copy(), begin - begin[0], slots)


def foreign_words(
    texts: Bytes, ends: NDArray[np.int64], hashes: NDArray[np.int64]
) -> tuple[NDArray[np.int32], list[str]]:
    """Return the distinct chunks of some that are not of ASCII alone: the number of each, and their texts."""
    numbers, distinct, _, _ = look_up_chunks(texts.text, operand(ends), operand(hashes))
    spans = ends[distinct].tolist()
    return numbers, [texts.text[begin:end].tobytes().decode("utf-8", "replace") for begin, end in spans]


def words_of_foreign(vocabulary: Vocabulary, found: list[str]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return how many words each chunk has, and the numbers of all of them, one chunk after another."""
    words = [tokens(text) for text in found]
    sizes = np.array([len(some) for some in words], np.int64)
    flat = [word for some in words for word in some]
    if not flat:
        return sizes, np.full(0, UNKNOWN_WORD, np.int32)
    return sizes, vocabulary.numbers_of(pa.array(flat, pa.large_string()))
