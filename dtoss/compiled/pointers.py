"""Raw pointers for numba kernels: no reference counts in hot loops, and columns found by their address.

An array handed from one compiled function to another costs reference counting that numba cannot always remove; inside
the loop of the cell kernel it more than doubled the time. A pointer costs one register. The caller keeps the array
alive: numba frees a local array after its last use, so workspaces are allocated in Python and passed in.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic
def pointer(typingctx, array):
    """Return a pointer to the first element of a contiguous array."""
    signature = types.CPointer(array.dtype)(array)

    def codegen(context, builder, sig, args):
        return context.make_array(sig.args[0])(context, builder, args[0]).data

    return signature, codegen


@intrinsic
def shift(typingctx, start, count):
    """Return ``start + count`` elements."""

    def codegen(context, builder, sig, args):
        return builder.gep(args[0], [args[1]])

    return start(start, types.int64), codegen


@intrinsic
def part_of(typingctx, start, place, count):
    """Return ``start + place``, with ``count`` elements of its own from there on: checked mode allows no others."""

    def codegen(context, builder, sig, args):
        return builder.gep(args[0], [args[1]])

    return start(start, types.int64, types.int64), codegen


def _at(element):
    @intrinsic
    def at(typingctx, address):
        """Return a pointer to the elements that start at an address."""

        def codegen(context, builder, sig, args):
            return builder.inttoptr(args[0], context.get_value_type(sig.return_type))

        return types.CPointer(element)(types.int64), codegen

    return at


float64_at = _at(types.float64)
int64_at = _at(types.int64)
int32_at = _at(types.int32)
uint8_at = _at(types.uint8)
uint64_at = _at(types.uint64)


@intrinsic
def trailing_zeros(typingctx, mask):
    """Return the number of the lowest set bit of a mask that is not 0."""

    def codegen(context, builder, sig, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), codegen


@intrinsic
def bits_set(typingctx, mask):
    """Return how many bits of a mask are set."""

    def codegen(context, builder, sig, args):
        return builder.ctpop(args[0])

    return types.int64(types.int64), codegen


@intrinsic
def float_bits(typingctx, value):
    """Return the bits of a float64; those of numbers that are not negative are in their order."""

    def codegen(context, builder, sig, args):
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), codegen


@intrinsic
def bits_float(typingctx, bits):
    """Return the float64 with these bits."""

    def codegen(context, builder, sig, args):
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), codegen


@intrinsic
def prefetch(typingctx, start, count):
    """Ask the processor to load ``start[count]`` soon."""

    def codegen(context, builder, sig, args):
        place = builder.bitcast(builder.gep(args[0], [args[1]]), cgutils.voidptr_t)
        flag = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, flag, flag, flag])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [place, flag(0), flag(3), flag(1)])
        return context.get_dummy_value()

    return types.void(start, types.int64), codegen
