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
_COMPARED = 4
"""Lanes that are compared at once."""
_INT, _FLOAT, _INDEX, _BYTE = ir.IntType(64), ir.DoubleType(), ir.IntType(32), ir.IntType(8)
_INTS = ir.VectorType(_INT, LANES)
_FLOATS = ir.VectorType(_FLOAT, LANES)


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


def _mask(builder, values, bound):
    """Return an int64 with a bit for each of ``values[:16]`` that is at most the bound."""
    # by quarters: of sixteen comparisons at once LLVM makes a mask by packing them over and over
    found = None
    for q in range(0, LANES, _COMPARED):
        some = _load(builder, builder.gep(values, [_INT(q)]), ir.VectorType(_FLOAT, _COMPARED))
        flags = builder.fcmp_ordered("<=", some, filled(builder, bound, _COMPARED))
        bits = builder.zext(builder.bitcast(flags, ir.IntType(_COMPARED)), _INT)
        bits = bits if q == 0 else builder.shl(bits, _INT(q))
        found = bits if found is None else builder.or_(found, bits)
    return found


@intrinsic
def at_most(typingctx, values, bound):
    """Return a bit for each of ``values[:16]``: whether it is at most the bound."""

    def codegen(context, builder, sig, args):
        return _mask(builder, *args)

    return types.int64(values, types.float64), codegen


@intrinsic
def ball_meets(typingctx, ball, x, y, z, reach):
    """Return 1 if a ball, ``ball[:4]`` with its centre and its radius, is within reach of a place, else 0."""

    def codegen(context, builder, sig, args):
        four = ir.VectorType(_FLOAT, 4)
        place = ir.Constant(four, ir.Undefined)
        for i, value in enumerate((*args[1:4], builder.fsub(ir.Constant(_FLOAT, -0.0), args[4]))):
            place = builder.insert_element(place, value, _INDEX(i))
        step = builder.fsub(_load(builder, args[0], four), place)
        a, b, c, far = (builder.extract_element(builder.fmul(step, step), _INDEX(i)) for i in range(4))
        left = builder.fsub(far, builder.fadd(builder.fadd(a, b), c))
        # the sign of a difference: a comparison becomes a branch that is not to be predicted
        return builder.add(_INT(1), builder.ashr(builder.bitcast(left, _INT), _INT(63)))

    return types.int64(ball, types.float64, types.float64, types.float64, types.float64), codegen


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


def _set_bits():
    """Return the numbers of the bits that are set in each byte, eight bytes each, the rest 0."""
    return b"".join(bytes(i for i in range(8) if byte >> i & 1).ljust(8, b"\0") for byte in range(256))


@intrinsic
def append_names(typingctx, flags, first, out):
    """Write first + i to ``out`` for each bit i that is set among the lowest 16; returns how many are.

    Up to ``out[:16]`` is written.
    """

    def codegen(context, builder, sig, args):
        # processors without AVX-512 take dozens of instructions to pack vectors: the bytes are looked up
        kind = ir.ArrayType(_BYTE, 256 * 8)
        table = cgutils.global_constant(builder, "dtoss.set_bits", ir.Constant(kind, bytearray(_set_bits())))
        flags, first, out = args
        end = _INT(0)
        for shift in (0, 8):
            byte = builder.and_(builder.lshr(flags, _INT(shift)), _INT(255))
            places = builder.gep(table, [_INT(0), builder.shl(byte, _INT(3))])
            numbers = builder.zext(_load(builder, places, ir.VectorType(_BYTE, 8)), ir.VectorType(_INT, 8))
            names = builder.add(numbers, filled(builder, builder.add(first, _INT(shift)), 8))
            _store(builder, names, builder.gep(out, [end]))
            end = builder.add(end, builder.ctpop(byte))
        return end

    return types.int64(types.int64, types.int64, out), codegen


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
