"""The words that an index knows, by their numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.compiled.kernel import operand
from dtoss.watch.words.tokenizer import (
    FOLDED,
    UNKNOWN_WORD,
    Bytes,
    bytes_of,
    fill_slots,
    find_chunks,
    hash_whole,
    numbered,
    slots_for,
    tokens,
)


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
    numbers, distinct, _, _ = numbered(texts.text, operand(ends), operand(hashes))
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
