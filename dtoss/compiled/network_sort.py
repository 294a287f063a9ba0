"""Sorting up to 64 keys without a branch: the same comparisons whatever the keys are, four at a time.

Fours are sorted across vectors, and merged within and across them as Batcher's bitonic merge does (AFIPS 1968). LLVM
makes of each comparison of vectors two to four instructions.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from dtoss.compiled.lanes8 import filled

KEY_LANES = 4
_INT = ir.IntType(64)
_KEYS = ir.VectorType(_INT, KEY_LANES)
_UNSET = ir.Constant(_KEYS, ir.Undefined)
NEVER = 0x7FF0000000000000
"""A key that is greater than those of all numbers: infinity's bits."""


def _picked(builder: Any, a: Any, b: Any, lanes: tuple[int, ...]) -> Any:
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), KEY_LANES), list(lanes)))


def _ordered(builder: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """Return the smaller and the greater of each pair of lanes."""
    swap = builder.icmp_signed(">", a, b)
    return builder.select(swap, b, a), builder.select(swap, a, b)


def _within(builder: Any, keys: Any, partners: tuple[int, ...]) -> Any:
    """Return a vector in which of each two partners the first is the smaller."""
    others = _picked(builder, keys, _UNSET, partners)
    second = [1 if i > partner else 0 for i, partner in enumerate(partners)]
    flip = ir.Constant(ir.VectorType(ir.IntType(1), KEY_LANES), second)
    return builder.select(builder.xor(builder.icmp_signed(">", keys, others), flip), others, keys)


def _transposed(builder: Any, rows: list[Any]) -> list[Any]:
    a, b, c, d = rows
    low, high = _picked(builder, a, b, (0, 4, 2, 6)), _picked(builder, a, b, (1, 5, 3, 7))
    more_low, more_high = _picked(builder, c, d, (0, 4, 2, 6)), _picked(builder, c, d, (1, 5, 3, 7))
    return [
        _picked(builder, low, more_low, (0, 1, 4, 5)),
        _picked(builder, high, more_high, (0, 1, 4, 5)),
        _picked(builder, low, more_low, (2, 3, 6, 7)),
        _picked(builder, high, more_high, (2, 3, 6, 7)),
    ]


def _merged(builder: Any, one: list[Any], two: list[Any]) -> list[Any]:
    """Return two ascending runs of as many vectors as one run."""
    keys = one + [_picked(builder, part, _UNSET, (3, 2, 1, 0)) for part in reversed(two)]
    apart = len(one)
    while apart:
        for i in range(len(keys)):
            if not i & apart:
                keys[i], keys[i + apart] = _ordered(builder, keys[i], keys[i + apart])
        apart //= 2
    return [_within(builder, _within(builder, part, (2, 3, 0, 1)), (1, 0, 3, 2)) for part in keys]


def _sorted(builder: Any, keys: list[Any]) -> list[Any]:
    """Return vectors as one ascending run; four of them, or twice as many, and so on."""
    if len(keys) > KEY_LANES:
        half = len(keys) // 2
        return _merged(builder, _sorted(builder, keys[:half]), _sorted(builder, keys[half:]))
    rows = list(keys)
    for i, j in ((0, 1), (2, 3), (0, 2), (1, 3), (1, 2)):
        rows[i], rows[j] = _ordered(builder, rows[i], rows[j])
    a, b, c, d = _transposed(builder, rows)
    return _merged(builder, _merged(builder, [a], [b]), _merged(builder, [c], [d]))


def _vector_at(builder: Any, start: Any, place: int) -> Any:
    return builder.bitcast(builder.gep(start, [_INT(place)]), _KEYS.as_pointer())


def _sorting(count: int) -> Any:
    @intrinsic
    def sort(typingctx, keys, n, out):
        """Fill ``out[:n]`` with ``keys[:n]`` in ascending order; so many of both can be read and written in any case.

        Keys are less than those of infinity.
        """

        def codegen(context, builder, sig, args):
            keys, n, out = args
            places, never = range(0, count, KEY_LANES), ir.Constant(_KEYS, [NEVER] * KEY_LANES)
            many, every = filled(builder, n, KEY_LANES), []
            for i in places:
                # what stands behind the last key comes behind all
                there = builder.icmp_signed("<", ir.Constant(_KEYS, list(range(i, i + KEY_LANES))), many)
                every.append(builder.select(there, builder.load(_vector_at(builder, keys, i), align=8), never))
            for i, part in zip(places, _sorted(builder, every), strict=True):
                builder.store(part, _vector_at(builder, out, i), align=8)
            return context.get_dummy_value()

        return types.void(keys, types.int64, out), codegen

    return sort


sort16, sort32, sort64 = _sorting(16), _sorting(32), _sorting(64)
