"""The bucket of an object: what Spark's ``pmod(xxhash64(id), 256)`` says, so that either may say it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.compiled.checked_memory import address
from dtoss.compiled.kernel import kernel
from dtoss.partition import values_of
from dtoss.snapshots.xxh64 import seeded_xxh64

BUCKETS = 256
"""Parts of the state, of which each task has some."""
_SEED = np.uint64(42)
_WORD_BYTES = 8


def hashes_of(ids: pa.Array) -> NDArray[np.int64]:
    """Return Spark's ``xxhash64`` of ids, int64 (n,): of int64 by its eight bytes, of a string by those of its UTF-8.

    A null is 42. Cost O(bytes).

    Examples
    --------
    >>> hashes_of(pa.array([0, 1])).tolist(), hashes_of(pa.array(["", "taxi"])).tolist()
    ([-5252525462095825812, -7001672635703045582], [-7444071767201028348, -3817755700136283856])
    """
    if len(ids) == 0:
        return np.zeros(0, np.int64)
    if pa.types.is_integer(ids.type):
        numbers = np.ascontiguousarray(_whole_ids(ids))
        ends = np.arange(_WORD_BYTES, _WORD_BYTES * (len(ids) + 1), _WORD_BYTES)
        found = _hashed(numbers.view(np.uint8), ends)
    else:
        texts = ids.cast(pa.large_string())
        texts = texts.fill_null("") if texts.null_count else texts
        _, offsets, data = texts.buffers()
        begin = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
        flat = np.zeros(1, np.uint8) if data is None or data.size == 0 else np.frombuffer(data, np.uint8)[begin[0] :]
        found = _hashed(flat, begin[1:] - begin[0])
    if ids.null_count:
        found[np.asarray(ids.is_null())] = int(_SEED)
    return found


def _whole_ids(ids: pa.Array) -> NDArray[np.int64]:
    whole = ids.cast(pa.int64())
    return values_of(whole.fill_null(0) if whole.null_count else whole)


def _hashed(data: NDArray[np.uint8], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    room = int(np.diff(ends, prepend=0).max(initial=0)) + _WORD_BYTES
    aligned = np.zeros(-(-room // _WORD_BYTES), np.uint64).view(np.uint8)
    out = np.empty(len(ends), np.int64)
    _hash_all(data, np.ascontiguousarray(ends), aligned, address(aligned, "one value"), out)
    return out


@kernel("void(Array(uint8, 1, 'C', readonly=True), int64[::1], uint8[::1], int64, int64[::1])")
def _hash_all(data, ends, one, place, out):
    """Hash values that lie one after another, each from a place of its own, which is aligned as words are."""
    begin = 0
    for i in range(ends.size):
        for j in range(begin, ends[i]):
            one[j - begin] = data[j]
        out[i] = np.int64(seeded_xxh64(place, ends[i] - begin, _SEED))
        begin = ends[i]


_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
)
"""Of xxHash64."""


def seeded_hashes(hashes: NDArray[np.int64], number: int) -> NDArray[np.int64]:
    """Return Spark's ``xxhash64(id, number)`` of the hashes of ids, int64 (n,); the number has 32 bits, or else 64.

    Examples
    --------
    >>> seeded_hashes(hashes_of(pa.array([0, 1])), 0).tolist()
    [8050503502868583368, -2888108625965644557]
    """
    h = hashes.view(np.uint64)
    if -(2**31) <= number < 2**31:
        word = np.array([number & 0xFFFFFFFF], np.uint64)
        h = (h + _P5 + np.uint64(4)) ^ (word * _P1)
        h = _rotate(h, 23) * _P2 + _P3
    else:
        word = np.array([number & 0xFFFFFFFFFFFFFFFF], np.uint64)
        h = (h + _P5 + np.uint64(8)) ^ (_rotate(word * _P2, 31) * _P1)
        h = _rotate(h, 27) * _P1 + _P4
    h = (h ^ (h >> np.uint64(33))) * _P2
    h = (h ^ (h >> np.uint64(29))) * _P3
    return np.asarray((h ^ (h >> np.uint64(32))).view(np.int64))


def _rotate(words: NDArray[np.uint64], bits: int) -> NDArray[np.uint64]:
    return np.asarray((words << np.uint64(bits)) | (words >> np.uint64(64 - bits)))


def bucket_of(ids: pa.Array) -> NDArray[np.int64]:
    """Return the bucket of each id, int64 (n,), 0 to 255."""
    return np.asarray(hashes_of(ids) % BUCKETS)


def bitmap(buckets: NDArray[np.int64]) -> str:
    """Return buckets as 64 hexadecimal digits: bit b of the number is bucket b."""
    return f"{sum(1 << int(b) for b in np.unique(buckets)):064x}"


def buckets_in(digits: str) -> NDArray[np.int64]:
    """Return the buckets of a :func:`bitmap`, rising."""
    number = int(digits, 16)
    return np.array([b for b in range(BUCKETS) if number >> b & 1], np.int64)
