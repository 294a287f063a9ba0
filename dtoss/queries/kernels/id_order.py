"""Objects by their ids: the order of all owned ones of a snapshot, and the search in it.

A number is its own key. The key of a text is a hash, and texts of one hash stand together: each is compared. So both
are sorted as numbers, digit by digit, and nothing of a text is copied.
"""

from __future__ import annotations

from dtoss.compiled.kernel import kernel
from dtoss.compiled.pointers import int32_at, int64_at, pointer, uint8_at
from dtoss.queries.kernels.address_table import ID_OFFSETS, IDS, OBJECTS, SITE_COUNT, row_of

ITEM_BITS = 32
"""Bits of an object's place below its partition: those of its number there."""
_ITEM = (1 << ITEM_BITS) - 1
_HASH_BEGIN, _HASH_FACTOR = 0x4BF29CE484222325, 0x100000001B3
"""Of the hash of Fowler, Noll and Vo (FNV-1a), of which the lowest 63 bits are kept: keys are not negative."""
_KEPT = 0x7FFFFFFFFFFFFFFF


@kernel
def _hashed(text, begin, end):
    key = _HASH_BEGIN
    for t in range(begin, end):
        key = ((key ^ int(text[t])) * _HASH_FACTOR) & _KEPT
    return key


@kernel("void(int64[:, ::1], int64[::1], int64[::1])")
def text_keys(rows, first, keys):
    """Fill the keys of all owned objects; those of partition p are ``keys[first[p]:first[p + 1]]``."""
    for p in range(first.size - 1):
        row = row_of(pointer(rows), p)
        offsets = int64_at(row[ID_OFFSETS])
        text = uint8_at(row[IDS])
        for i in range(first[p + 1] - first[p]):
            keys[first[p] + i] = _hashed(text, offsets[i], offsets[i + 1])


@kernel
def _first_of(keys, key):
    """Return the first place of an ascending array whose key is at least a key."""
    low, high = 0, keys.size
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _found(rows, place):
    """Return partition, object and site of a place."""
    p, item = place >> ITEM_BITS, place & _ITEM
    row = row_of(rows, p)
    objects = int32_at(row[OBJECTS])
    low, high = 0, row[SITE_COUNT]
    while high - low > 1:
        middle = (low + high) >> 1
        if objects[middle] <= item:
            low = middle
        else:
            high = middle
    return p, item, low


@kernel
def _is_text(rows, place, text, size):
    """Return whether the id of a place is a text of a number of bytes."""
    row, item = row_of(rows, place >> ITEM_BITS), place & _ITEM
    offsets, own = int64_at(row[ID_OFFSETS]), uint8_at(row[IDS])
    begin = offsets[item]
    if offsets[item + 1] - begin != size:
        return False
    t = 0
    while t < size and own[begin + t] == text[t]:
        t += 1
    return t == size


@kernel("UniTuple(int64, 3)(int64[::1], int64[::1], int64[:, ::1], int64)")
def place_of_number(keys, places, rows, number):
    """Return partition, object and site of an id; -1 each where nobody has it.

    Parameters
    ----------
    keys
        int64 (n,), ascending.
    places
        int64 (n,). The object of each: its partition, and in the lowest bits its number there.
    rows
        The address table, all partitions open.
    number
        The id.
    """
    at = _first_of(keys, number)
    if at == keys.size or keys[at] != number:
        return -1, -1, -1
    return _found(pointer(rows), places[at])


@kernel("UniTuple(int64, 3)(int64[::1], int64[::1], int64[:, ::1], uint8[::1])")
def place_of_text(keys, places, rows, text):
    """Return partition, object and site of an id that is text, as UTF-8; else as :func:`place_of_number`."""
    key = _hashed(pointer(text), 0, text.size)
    at = _first_of(keys, key)
    while at < keys.size and keys[at] == key:
        if _is_text(pointer(rows), places[at], pointer(text), text.size):
            return _found(pointer(rows), places[at])
        at += 1
    return -1, -1, -1
