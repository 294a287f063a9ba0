"""Order-free sums of rows: what is equal before and after every rewriting, or nothing is committed.

A row has a 64-bit hash, and a set of rows the sum of theirs modulo 2^64. Each value is mixed with the name of its
column, so the order of columns does not matter; a null adds nothing, so a column that comes later leaves the sums of
rows before it as they were. Equal sums of different rows have a chance of 2^-64, unless someone tries to make them.
"""

from __future__ import annotations

import hashlib
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.compiled.kernel import kernel

_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFT_1, _SHIFT_2, _SHIFT_3 = np.uint64(30), np.uint64(27), np.uint64(31)
"""Of the finalizer of SplitMix64 (Steele, Lea, Flood 2014): every bit of the value changes half of the result's."""
_PRIME = np.uint64(0x9E3779B97F4A7C15)
_BYTE = np.uint64(8)
_WORD = 8


def sum_of(rows: pa.Table) -> int:
    """Return the sum of the hashes of rows modulo 2^64; 0 of none. Cost O(values)."""
    return int(row_hashes(rows).sum(dtype=np.uint64))


def row_hashes(rows: pa.Table) -> NDArray[np.uint64]:
    """Return the hash of each row, uint64 (n,).

    A position or time counts by its bits; NaN positions of deletions count as missing, and so does ``deleted`` where it
    is false. A nested value counts by its text.
    """
    total = np.zeros(len(rows), np.uint64)
    for name in rows.column_names:
        column = rows.column(name).combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)
        if len(column) == 0:
            continue
        words, valid = _words(column)
        if name in ("x", "y"):
            valid &= ~np.isnan(column.to_numpy(zero_copy_only=False))
        elif name == "deleted":
            valid &= words != 0
        _add(words, valid, _seed(name), total)
    _finish(total)
    return total


@cache
def _seed(name: str) -> np.uint64:
    return np.uint64(int.from_bytes(hashlib.sha256(name.encode()).digest()[:_WORD], "little"))


def _words(column: pa.Array) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Return each value as a word, and whether it is there."""
    kind = column.type
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_floating(kind):
        floats = column.cast(pa.float64()).fill_null(0.0) if column.null_count else column.cast(pa.float64())
        return np.ascontiguousarray(floats.to_numpy()).view(np.uint64), valid.copy()
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        column = column.cast(pa.int32())
    if pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    if pa.types.is_integer(column.type) or pa.types.is_temporal(column.type):
        if pa.types.is_uint64(column.type):
            whole = column.fill_null(0).to_numpy()
            return np.ascontiguousarray(whole).astype(np.uint64), valid.copy()
        whole = column.cast(pa.int64())
        whole = whole.fill_null(0) if whole.null_count else whole
        return np.ascontiguousarray(whole.to_numpy()).view(np.uint64), valid.copy()
    return _text_words(column), valid.copy()


def _text_words(column: pa.Array) -> NDArray[np.uint64]:
    kind = column.type
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        column = column.cast(pa.large_binary())
    elif pa.types.is_string(kind):
        column = column.cast(pa.large_string())
    elif not (pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)):
        column = pa.array([None if value is None else repr(value) for value in column.to_pylist()], pa.large_string())
    if column.null_count:
        column = pc.fill_null(column, b"" if pa.types.is_large_binary(column.type) else "")
    _, offsets, data = column.buffers()
    begin = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    text = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    out = np.empty(len(column), np.uint64)
    _hash_texts(begin, text, out)
    return out


@kernel
def _mixed(word):
    word = (word ^ (word >> _SHIFT_1)) * _MIX_1
    word = (word ^ (word >> _SHIFT_2)) * _MIX_2
    return word ^ (word >> _SHIFT_3)


@kernel("void(Array(uint64, 1, 'C', readonly=True), Array(boolean, 1, 'C', readonly=True), uint64, uint64[::1])")
def _add(words, valid, seed, total):
    """Add the values of a column to the totals of their rows."""
    for i in range(words.size):
        if valid[i]:
            total[i] += _mixed(_mixed(words[i] + _PRIME) ^ seed)


@kernel("void(uint64[::1])")
def _finish(total):
    for i in range(total.size):
        total[i] = _mixed(total[i] + _PRIME)


@kernel("void(Array(int64, 1, 'C', readonly=True), Array(uint8, 1, 'C', readonly=True), uint64[::1])")
def _hash_texts(begin, text, out):
    """Hash bytes, eight at a time, with their number."""
    for i in range(out.size):
        value = np.uint64(begin[i + 1] - begin[i]) * _PRIME
        at, end = begin[i], begin[i + 1]
        while at < end:
            word = np.uint64(0)
            for j in range(min(_WORD, end - at)):
                word |= np.uint64(text[at + j]) << (_BYTE * np.uint64(j))
            value = _mixed(value ^ word) * _PRIME
            at += _WORD
        out[i] = value
