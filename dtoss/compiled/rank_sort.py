"""Sorting small sets of keys by counting who is less, 16 at a time; larger ones by a heap."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from dtoss.compiled.kernel import kernel
from dtoss.compiled.lanes8 import filled
from dtoss.compiled.lanes16 import _INT, _INTS, LANES, NEVER, _load
from dtoss.compiled.pointers import shifted


@intrinsic
def _less(typingctx, keys, key):
    def codegen(context, builder, sig, args):
        flags = builder.icmp_signed("<", _load(builder, args[0], _INTS), filled(builder, args[1], LANES))
        return builder.zext(builder.ctpop(builder.bitcast(flags, ir.IntType(LANES))), _INT)

    return types.int64(keys, types.int64), codegen


NAME_BITS = 28
NAMES = (1 << NAME_BITS) - 1
"""The bits of a key that say what it stands for; the others are the upper bits of a distance or of its square."""
RANKED = 256
"""Keys up to which counting who is less sorts faster than moving them."""


UNROLLED = 3
"""Sixteens of keys up to which the counting is written out, without a loop."""


@kernel
def sort_keys(keys, n, out):
    """Fill ``out[:n]`` with distinct keys in ascending order; ``keys`` has room up to the next multiple of 16."""
    if n <= RANKED:
        for i in range(n, (n + LANES - 1) // LANES * LANES):
            keys[i] = NEVER
    sort_window(keys, n, out)


@kernel
def sort_window(keys, n, out):
    """Fill ``out[:n]`` with distinct keys in ascending order, where what follows them, up to 16, is greater."""
    if n > RANKED:
        for i in range(n):
            out[i] = keys[i]
        heap_sort_keys(out, n)
        return
    chunks = (n + LANES - 1) // LANES
    if chunks == 1:
        for i in range(n):
            key = keys[i]
            out[_less(keys, key)] = key
    elif chunks == 2:
        for i in range(n):
            key = keys[i]
            out[_less(keys, key) + _less(shifted(keys, LANES), key)] = key
    elif chunks == UNROLLED:
        for i in range(n):
            key = keys[i]
            out[_less(keys, key) + _less(shifted(keys, LANES), key) + _less(shifted(keys, 2 * LANES), key)] = key
    else:
        for i in range(n):
            key = keys[i]
            rank = 0
            for c in range(chunks):
                rank += _less(shifted(keys, c * LANES), key)
            out[rank] = key


@kernel
def heap_sort_keys(keys, n):
    """Sort keys in place."""
    for begin in range(n // 2 - 1, -1, -1):
        _sift(keys, begin, n)
    for end in range(n - 1, 0, -1):
        keys[0], keys[end] = keys[end], keys[0]
        _sift(keys, 0, end)


@kernel
def _sift(keys, root, end):
    key = keys[root]
    while True:
        child = 2 * root + 1
        if child >= end:
            break
        if child + 1 < end and keys[child + 1] > keys[child]:
            child += 1
        if keys[child] <= key:
            break
        keys[root] = keys[child]
        root = child
    keys[root] = key
