"""Codes of moves, sorted and counted: as many as moves, so nothing is looked up."""

from __future__ import annotations

import numpy as np

from dtoss.compiled.kernel import kernel
from dtoss.compiled.pointers import pointer

_BITS, _VALUES = 11, 2048
_READ = "Array(int64, 1, 'C', readonly=True)"


@kernel("boolean(int64[::1], int64[::1], int64)")
def sort_codes(codes, spare, bits):
    """Sort numbers of at most so many bits, none negative, into one of two arrays; return whether it is the second.

    ``codes``: int64 (n,). Written over; ``spare``: int64 (n,).
    """
    digits = (bits + _BITS - 1) // _BITS
    counts = np.zeros((digits, _VALUES), np.int64)
    for i in range(codes.size):
        code = codes[i]
        for digit in range(digits):
            counts[digit, (code >> (_BITS * digit)) & (_VALUES - 1)] += 1
    read, write, swapped = pointer(codes), pointer(spare), False
    for digit in range(digits):
        shift, count = _BITS * digit, counts[digit]
        if codes.size == 0 or count[(read[0] >> shift) & (_VALUES - 1)] == codes.size:
            continue
        place = 0
        for value in range(_VALUES):
            place, count[value] = place + count[value], place
        for i in range(codes.size):
            value = (read[i] >> shift) & (_VALUES - 1)
            write[count[value]] = read[i]
            count[value] += 1
        read, write, swapped = write, read, not swapped
    return swapped


@kernel(f"int64({_READ}, int64, int64, int64, int64[::1], int64[::1], int64[:, ::1], int64[::1])")
def counted_codes(codes, second_bits, first_bits, place_bits, ends, place, labels, count):
    """Write the parts of each different code and its sum: +1 of each whose lowest bit is 0, -1 of each where it is 1.

    ``codes``: int64 (n,), ascending: the bits of group, place, first and second label, and the lowest one; ``ends``:
    int64 (groups,). Where those of each group end; ``place``, ``labels``, ``count``: int64 (n,), (n, 2) and (n,). Sums
    of 0 are left out; how many others there are is returned.
    """
    at = found = group = 0
    while at < codes.size:
        code, total = codes[at] >> 1, 0
        while at < codes.size and codes[at] >> 1 == code:
            total += 1 - 2 * (codes[at] & 1)
            at += 1
        if total == 0:
            continue
        labels[found, 1] = code & ((1 << second_bits) - 1)
        code >>= second_bits
        labels[found, 0] = code & ((1 << first_bits) - 1)
        code >>= first_bits
        while group < code >> place_bits:
            ends[group] = found
            group += 1
        place[found], count[found] = code & ((1 << place_bits) - 1), total
        found += 1
    for later in range(group, ends.size):
        ends[later] = found
    return found
