"""Sorting small sets of keys by counting who is greater, 16 at a time; larger ones by a heap."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from dtoss.compiled.kernel import kernel
from dtoss.compiled.lanes8 import filled
from dtoss.compiled.lanes16 import _INT, _INTS, LANES, _load, _store
from dtoss.compiled.network_sort import sort16, sort32, sort64


def _placing(chunks):
    @intrinsic
    def put(typingctx, keys, first, count, n, out):
        """Put each of ``keys[first:first + count]`` where it belongs in ``out[:n]``, all keys in ascending order.

        Up to so many sixteens are placed at a time; what is read behind them may be anything.
        """

        def codegen(context, builder, sig, args):
            keys, first, count, n, out = args
            own = builder.gep(keys, [first])
            some = [_load(builder, builder.gep(own, [_INT(LANES * c)]), _INTS) for c in range(chunks)]
            greater = [cgutils.alloca_once_value(builder, ir.Constant(_INTS, [0] * LANES)) for _ in some]
            for total in greater:
                builder.store(ir.Constant(_INTS, [0] * LANES), total)
            with cgutils.for_range(builder, n) as loop:
                key = filled(builder, builder.load(builder.gep(keys, [loop.index])), LANES)
                for part, total in zip(some, greater, strict=True):
                    # a comparison that holds is -1
                    more = builder.sext(builder.icmp_signed(">", key, part), _INTS)
                    builder.store(builder.sub(builder.load(total), more), total)
            ranks = cgutils.alloca_once(builder, _INT, size=LANES * chunks)
            for c, total in enumerate(greater):
                _store(builder, builder.load(total), builder.gep(ranks, [_INT(LANES * c)]))
            last = builder.sub(n, _INT(1))
            with cgutils.for_range(builder, count) as loop:
                place = builder.sub(last, builder.load(builder.gep(ranks, [loop.index])))
                builder.store(builder.load(builder.gep(own, [loop.index])), builder.gep(out, [place]))
            return context.get_dummy_value()

        return types.void(keys, types.int64, types.int64, types.int64, out), codegen

    return put


_put16, _put32, _put48 = _placing(1), _placing(2), _placing(3)


NAME_BITS = 28
NAMES = (1 << NAME_BITS) - 1
"""The bits of a key that say what it stands for; the others are the upper bits of a distance or of its square."""
RANKED_AT_ONCE = 3 * LANES
"""Keys that are compared with all others at once, at the most: what stays in registers."""
BY_NETWORK = 64
"""Keys up to which a network of comparisons sorts fastest."""
RANKED = 256
"""Keys up to which counting who is greater sorts faster than moving them."""


@kernel
def sort_keys(keys, n, out):
    """Fill ``out[:n]`` with distinct keys in ascending order.

    Up to 64, ``keys`` and ``out`` have room for the next power of two, 16 at the least; beyond, ``keys`` has room up to
    the next multiple of 16. What stands behind n may be anything.
    """
    if n <= LANES:
        sort16(keys, n, out)
    elif n <= 2 * LANES:
        sort32(keys, n, out)
    elif n <= BY_NETWORK:
        sort64(keys, n, out)
    else:
        sort_window(keys, n, out)


@kernel
def sort_window(keys, n, out):
    """Fill ``out[:n]`` with distinct keys in ascending order; up to 16 behind them can be read, and may be anything."""
    if n > RANKED:
        for i in range(n):
            out[i] = keys[i]
        heap_sort_keys(out, n)
        return
    if n <= LANES:
        _put16(keys, 0, n, n, out)
    elif n <= 2 * LANES:
        _put32(keys, 0, n, n, out)
    elif n <= RANKED_AT_ONCE:
        _put48(keys, 0, n, n, out)
    else:
        for first in range(0, n - LANES, 2 * LANES):
            _put32(keys, first, min(n - first, 2 * LANES), n, out)
        left = n % (2 * LANES)
        if 0 < left <= LANES:
            _put16(keys, n - left, left, n, out)


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
