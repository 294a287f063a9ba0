"""Eight float64 as one value of a kernel: arithmetic with ``+ - * /``, comparisons that give masks.

LLVM makes of each operation one to four instructions, as the processor has them. A mask is an int64 whose bit i belongs
to lane i. Nothing is contracted or reordered: each lane holds what the scalar expression would give, on any processor.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import ConcreteTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

WIDTH = 8
_DOUBLE = ir.DoubleType()
_VECTOR = ir.VectorType(_DOUBLE, WIDTH)
_BITS = ir.VectorType(ir.IntType(1), WIDTH)
_INTS = ir.VectorType(ir.IntType(32), WIDTH)


class Lanes8(types.Type):
    """The type of eight float64."""

    def __init__(self) -> None:
        super().__init__("Lanes")


eight = Lanes8()


@register_model(Lanes8)
class _Model(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


def filled(builder: Any, value: Any, width: int) -> Any:
    """Return, in the code being built, a vector of ``width`` times the same value."""
    kind = ir.VectorType(value.type, width)
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), width), [0] * width))


def _arithmetic(sign: Any, instruction: str) -> None:
    class Template(ConcreteTemplate):
        cases = (
            signature(eight, eight, eight),
            signature(eight, eight, types.float64),
            signature(eight, types.float64, eight),
        )

    infer_global(sign)(Template)

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        a, b = (
            value if isinstance(kind, Lanes8) else filled(builder, value, WIDTH)
            for kind, value in zip(sig.args, args, strict=True)
        )
        return getattr(builder, instruction)(a, b)

    for pair in ((Lanes8, Lanes8), (Lanes8, types.Float), (types.Float, Lanes8)):
        lower_builtin(sign, *pair)(lower)


_arithmetic(operator.add, "fadd")
_arithmetic(operator.sub, "fsub")
_arithmetic(operator.mul, "fmul")
_arithmetic(operator.truediv, "fdiv")


@intrinsic
def lanes_at(typingctx, start, place):
    """Return ``start[place:place + 8]``."""

    def codegen(context, builder, sig, args):
        wide = builder.bitcast(builder.gep(args[0], [args[1]]), _VECTOR.as_pointer())
        return builder.load(wide, align=8)

    return eight(start, types.int64), codegen


@intrinsic
def put_lanes(typingctx, start, place, values):
    """Store to ``start[place:place + 8]``."""

    def codegen(context, builder, sig, args):
        wide = builder.bitcast(builder.gep(args[0], [args[1]]), _VECTOR.as_pointer())
        builder.store(args[2], wide, align=8)
        return context.get_dummy_value()

    return types.void(start, types.int64, eight), codegen


@intrinsic
def splat(typingctx, value):
    """Return eight times the same number."""

    def codegen(context, builder, sig, args):
        return filled(builder, args[0], WIDTH)

    return eight(types.float64), codegen


def _wide_mask(builder, bits):
    return builder.zext(builder.bitcast(bits, ir.IntType(WIDTH)), ir.IntType(64))


@intrinsic
def above(typingctx, a, b):
    """Return the mask of lanes where ``a > b``."""

    def codegen(context, builder, sig, args):
        return _wide_mask(builder, builder.fcmp_ordered(">", args[0], args[1]))

    return types.int64(eight, eight), codegen


@intrinsic
def equal(typingctx, a, b):
    """Return the mask of lanes where ``a == b``."""

    def codegen(context, builder, sig, args):
        return _wide_mask(builder, builder.fcmp_ordered("==", args[0], args[1]))

    return types.int64(eight, eight), codegen


@intrinsic
def larger(typingctx, a, b):
    """Return the larger of each pair; b where one is no number."""

    def codegen(context, builder, sig, args):
        return builder.select(builder.fcmp_ordered(">", args[0], args[1]), args[0], args[1])

    return eight(eight, eight), codegen


@intrinsic
def where(typingctx, mask, a, b):
    """Return a in the lanes of the mask, b in the others."""

    def codegen(context, builder, sig, args):
        bits = builder.bitcast(builder.trunc(args[0], ir.IntType(WIDTH)), _BITS)
        return builder.select(bits, args[1], args[2])

    return eight(types.int64, eight, eight), codegen


@intrinsic
def roots(typingctx, a):
    """Return the square root of each lane."""

    def codegen(context, builder, sig, args):
        kind = ir.FunctionType(_VECTOR, [_VECTOR])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.sqrt.v8f64"), [args[0]])

    return eight(eight), codegen


@intrinsic
def whole(typingctx, a):
    """Return each lane without what stands behind its point; all are of less than 2^31."""

    def codegen(context, builder, sig, args):
        return builder.sitofp(builder.fptosi(args[0], _INTS), _VECTOR)

    return eight(eight), codegen


@intrinsic
def entries(typingctx, start, places):
    """Return ``start[place]`` for each lane of whole places."""

    def codegen(context, builder, sig, args):
        found, at = ir.Constant(_VECTOR, ir.Undefined), builder.fptosi(args[1], _INTS)
        for i in range(WIDTH):
            lane = ir.Constant(ir.IntType(32), i)
            entry = builder.load(builder.gep(args[0], [builder.extract_element(at, lane)]))
            found = builder.insert_element(found, entry, lane)
        return found

    return eight(start, eight), codegen


def _fold(builder, value, join):
    for half in (4, 2, 1):
        order = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [i ^ half for i in range(WIDTH)])
        value = join(value, builder.shuffle_vector(value, ir.Constant(_VECTOR, ir.Undefined), order))
    return builder.extract_element(value, ir.Constant(ir.IntType(32), 0))


@intrinsic
def least(typingctx, a):
    """Return the smallest lane."""

    def codegen(context, builder, sig, args):
        return _fold(builder, args[0], lambda p, q: builder.select(builder.fcmp_ordered("<", p, q), p, q))

    return types.float64(eight), codegen


@intrinsic
def greatest(typingctx, a):
    """Return the largest lane."""

    def codegen(context, builder, sig, args):
        return _fold(builder, args[0], lambda p, q: builder.select(builder.fcmp_ordered(">", p, q), p, q))

    return types.float64(eight), codegen


@intrinsic
def total(typingctx, a):
    """Return the sum of the lanes, by halves."""

    def codegen(context, builder, sig, args):
        return _fold(builder, args[0], builder.fadd)

    return types.float64(eight), codegen
