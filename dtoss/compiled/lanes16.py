"""Sixteen numbers at once: squared distances of a block's sites, comparisons, and sorting by counting who is less.

Written in vectors of LLVM, which makes of them what the processor has: 2 to 16 instructions each. Additions and
multiplications are the same as those of one number, so results have the same bits.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from dtoss.compiled.lanes8 import filled

LANES = 16
_INT, _FLOAT, _INDEX, _BYTE = ir.IntType(64), ir.DoubleType(), ir.IntType(32), ir.IntType(8)
_INTS = ir.VectorType(_INT, LANES)
_FLOATS = ir.VectorType(_FLOAT, LANES)
NEVER = 0x7FF0000000000000
"""A key that is greater than those of all numbers: infinity's bits."""


def _load(builder, start, kind):
    loaded = builder.load(builder.bitcast(start, kind.as_pointer()))
    loaded.align = 8
    return loaded


def _store(builder, value, start):
    stored = builder.store(value, builder.bitcast(start, value.type.as_pointer()))
    stored.align = 8


def _gaps(dimension):
    if dimension == 2:

        @intrinsic
        def gaps(typingctx, sites, x, y, out):
            """Fill ``out[:16]`` with the squared distances of 16 planar sites, one after another, from (x, y)."""
            return types.void(sites, types.float64, types.float64, out), codegen
    else:

        @intrinsic
        def gaps(typingctx, sites, x, y, z, out):
            """Fill ``out[:16]`` with the squared chords of 16 vectors, one after another, from (x, y, z)."""
            return types.void(sites, types.float64, types.float64, types.float64, out), codegen

    def codegen(context, builder, sig, args):
        sites, place, out = args[0], args[1:-1], args[-1]
        whole = _load(builder, sites, ir.VectorType(_FLOAT, LANES * dimension))
        total = None
        for axis, q in enumerate(place):
            picked = ir.Constant(ir.VectorType(_INDEX, LANES), [dimension * i + axis for i in range(LANES)])
            d = builder.fsub(builder.shuffle_vector(whole, whole, picked), filled(builder, q, LANES))
            d = builder.fmul(d, d)
            total = d if total is None else builder.fadd(total, d)
        _store(builder, total, out)
        return context.get_dummy_value()

    return gaps


gaps_plane = _gaps(2)
gaps_sphere = _gaps(3)


@intrinsic
def at_most(typingctx, values, bound):
    """Return a bit for each of ``values[:16]``: whether it is at most the bound."""

    def codegen(context, builder, sig, args):
        flags = builder.fcmp_ordered("<=", _load(builder, args[0], _FLOATS), filled(builder, args[1], LANES))
        return builder.zext(builder.bitcast(flags, ir.IntType(LANES)), _INT)

    return types.int64(values, types.float64), codegen


def _append(builder, values, bits, start):
    """Store the flagged ones of 16 values one after another from ``start`` on; up to 16 are written."""
    half = LANES // 2
    kind = ir.VectorType(values.type.element, half)
    flag_kind = ir.VectorType(ir.IntType(1), half)
    name = f"llvm.experimental.vector.compress.v{half}{'i64' if kind.element == _INT else 'f64'}"
    compress = cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind, flag_kind, kind]), name)
    low, high = builder.trunc(bits, _BYTE), builder.trunc(builder.lshr(bits, bits.type(half)), _BYTE)
    # two halves: LLVM 22 stores a compressed vector of two registers where it is not aligned
    behind = builder.zext(builder.ctpop(low), _INT)
    for flags, lanes, at in ((low, range(half), _INT(0)), (high, range(half, LANES), behind)):
        part = builder.shuffle_vector(values, values, ir.Constant(ir.VectorType(_INDEX, half), list(lanes)))
        packed = builder.call(compress, [part, builder.bitcast(flags, flag_kind), ir.Constant(kind, ir.Undefined)])
        _store(builder, packed, builder.gep(start, [at]))


@intrinsic
def append_near(typingctx, values, bound, low, first, out):
    """Write to ``out`` the bits of those of ``values[:16]`` that are at most the bound; returns how many.

    The bits in ``low`` are replaced by first + i for value i. Up to ``out[:16]`` is written.
    """

    def codegen(context, builder, sig, args):
        loaded = _load(builder, args[0], _FLOATS)
        flags = builder.fcmp_ordered("<=", loaded, filled(builder, args[1], LANES))
        bits = builder.and_(builder.bitcast(loaded, _INTS), filled(builder, builder.not_(args[2]), LANES))
        names = builder.add(filled(builder, args[3], LANES), ir.Constant(_INTS, list(range(LANES))))
        mask = builder.bitcast(flags, ir.IntType(LANES))
        _append(builder, builder.or_(bits, names), mask, args[4])
        return builder.zext(builder.ctpop(mask), _INT)

    return types.int64(values, types.float64, types.int64, types.int64, out), codegen


@intrinsic
def append_flagged(typingctx, flags, values, first, out, names):
    """Write those of ``values[:16]`` whose bit is set to ``out``, and first + i for value i to ``names``.

    Up to 16 of both are written. Returns how many bits are set.
    """

    def codegen(context, builder, sig, args):
        bits = builder.trunc(args[0], ir.IntType(LANES))
        _append(builder, _load(builder, args[1], _FLOATS), bits, args[3])
        numbered = builder.add(filled(builder, args[2], LANES), ir.Constant(_INTS, list(range(LANES))))
        _append(builder, numbered, bits, args[4])
        return builder.zext(builder.ctpop(bits), _INT)

    return types.int64(types.int64, values, types.int64, out, names), codegen
