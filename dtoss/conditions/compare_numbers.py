"""Comparisons of numbers of different types, as the numbers compare: none is rounded on the way, whatever the data.

Arrow brings both sides to one type first, where whole numbers of 64 bits overflow or lose digits. Here a constant is
brought to the column's type, as the nearest value below and the side of it on which the constant lies, and two columns
are compared by their whole parts. Only a decimal beside a floating point number is rounded, to the nearest of those:
0.1 is meant to be found in a column that can hold no tenth.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.conditions.language import DIGITS, Mismatch

Number: TypeAlias = "int | float | Decimal | Fraction"
Compared: TypeAlias = "tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]"
"""Which rows are less, equal, greater; none of them where one is NaN."""

FLOAT = pa.float64()

ARROW: dict[str, Callable[..., Any]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
PYTHON: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TURNED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def compare_numbers(sign: str, left: Any, right: Any) -> Any:
    """Return how two numbers compare, Arrow arrays or scalars, as booleans; null where either is null."""
    if isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar):
        if not (left.is_valid and right.is_valid):
            return pa.scalar(None, pa.bool_())
        a, b = number_of(left), number_of(right)
        if pa.types.is_floating(left.type) and isinstance(b, Decimal):
            b = _nearest(left.type, Fraction(b))
        if pa.types.is_floating(right.type) and isinstance(a, Decimal):
            a = _nearest(right.type, Fraction(a))
        return pa.scalar(PYTHON[sign](a, b))
    if isinstance(left, pa.Scalar):
        return compare_numbers(_TURNED[sign], right, left)
    if isinstance(right, pa.Scalar):
        if not right.is_valid:
            return pa.nulls(len(left), pa.bool_())
        return compare_constant(sign, left, number_of(right))
    if left.type == right.type:
        return ARROW[sign](*(_wide(side) for side in (left, right)))
    decimals = [pa.types.is_decimal(side.type) for side in (left, right)]
    floats = [pa.types.is_floating(side.type) for side in (left, right)]
    if all(floats):
        return ARROW[sign](as_floats(left), as_floats(right))
    if any(floats) and any(decimals) and (left if decimals[0] else right).type.scale:
        kind = (left if floats[0] else right).type
        return ARROW[sign](*(_wide(as_floats(side, kind)) for side in (left, right)))
    if any(floats):
        if floats[0]:
            sign, left, right = _TURNED[sign], right, left
        exact = _decimal_and_float if any(decimals) else _whole_and_float
        found = exact(_filled(left), _filled(right))
    elif any(decimals):
        return ARROW[sign](*_in_one_scale(left, right))
    else:
        if pa.types.is_unsigned_integer(left.type) == pa.types.is_unsigned_integer(right.type):
            return ARROW[sign](left, right)
        if pa.types.is_unsigned_integer(left.type):
            sign, left, right = _TURNED[sign], right, left
        found = _signed_and_unsigned(_filled(left).astype(np.int64), _filled(right).astype(np.uint64))
    return answered(sign, found, left, right)


def number_of(scalar: pa.Scalar) -> Number:
    """Return a number as Python has it: a decimal that has no place after its point is a whole number."""
    number: Number = scalar.as_py()
    return int(number) if pa.types.is_decimal(scalar.type) and scalar.type.scale == 0 else number


def answered(sign: str, found: Compared, left: pa.Array, right: pa.Array) -> pa.Array:
    """Return the answer to one comparison from all three, null where either side is."""
    less, equal, greater = found
    answer = {"=": equal, "<>": ~equal, "<": less, "<=": less | equal, ">": greater, ">=": greater | equal}[sign]
    return pc.if_else(pc.and_(left.is_valid(), right.is_valid()), pa.array(answer), pa.scalar(None, pa.bool_()))


def compare_constant(sign: str, column: pa.Array, number: Number) -> pa.Array:
    """Return how a column of numbers compares with a constant."""
    if pa.types.is_decimal(column.type) and column.type.scale and isinstance(number, float):
        return ARROW[sign](as_floats(column), pa.scalar(number))
    sign, bound = within_type(sign, column.type, number)
    if bound is None:
        return pc.if_else(column.is_valid(), pa.scalar(sign == "all"), pa.scalar(None, pa.bool_()))
    column = _wide(column)
    return ARROW[sign](column, bound.cast(column.type))


def within_type(sign: str, kind: pa.DataType, number: Number) -> tuple[str, Any]:
    """Return the comparison that means the same with a value of a type, or ``("all" | "none", None)``.

    ``number``: A float is not compared with decimals here.
    """
    if isinstance(number, float) and math.isnan(number):
        return ("all" if sign == "<>" else "none"), None
    if pa.types.is_floating(kind):
        if isinstance(number, Decimal) and not math.isinf(near := _nearest(kind, Fraction(number))):
            number = near
        if isinstance(number, float) and math.isinf(number):
            return sign, pa.scalar(number, pa.float64()).cast(kind)
        below, equal = _float_below(kind, Fraction(number))
        bound: Any = pa.scalar(below, pa.float64()).cast(kind)
    else:
        if isinstance(number, float) and math.isinf(number):
            holds = sign != "=" if sign in ("=", "<>") else (sign in ("<", "<=")) == (number > 0)
            return ("all" if holds else "none"), None
        scale = kind.scale if pa.types.is_decimal(kind) else 0
        lowest, highest = _limits(kind)
        scaled = Fraction(number) * 10**scale
        whole = math.floor(scaled)
        equal = whole == scaled and lowest <= whole <= highest
        bound = None if whole < lowest else _of_type(kind, min(whole, int(highest)))
    if equal:
        return sign, bound
    if sign in ("=", "<>"):
        return ("none" if sign == "=" else "all"), None
    if bound is None:  # the constant lies below all values of the type
        return ("all" if sign in (">", ">=") else "none"), None
    return ("<=" if sign in ("<", "<=") else ">"), bound


def constants_of_type(kind: pa.DataType, numbers: list[Number]) -> pa.Array:
    """Return those of the numbers that a type holds, for a search among them."""
    found = []
    for number in numbers:
        _, bound = within_type("=", kind, number)
        if bound is not None:
            # a search takes the two zeros for different numbers
            found += [0.0, -0.0] if pa.types.is_floating(kind) and bound.as_py() == 0.0 else [bound.as_py()]
    return pa.array(found, kind)


def as_floats(value: Any, kind: pa.DataType = FLOAT) -> Any:
    """Return numbers as floating point ones, each rounded to the nearest."""
    if pa.types.is_decimal(value.type):
        # Arrow's own conversion divides, and is off by one in the last place now and then
        value = value.cast(pa.string()).cast(FLOAT if pa.types.is_float16(kind) else kind)
    # whole numbers beyond 2^53 are rounded, where a safe cast would refuse the data
    return value.cast(kind, safe=False)


def as_exact(value: Any) -> Any:
    """Return whole numbers as decimals, and decimals in the type that has room for 76 digits."""
    kind = value.type
    if pa.types.is_decimal(kind):
        return value.cast(pa.decimal256(kind.precision, kind.scale))
    if isinstance(value, pa.Scalar) and value.is_valid:
        return _of_type(pa.decimal256(len(str(abs(value.as_py()))), 0), value.as_py())
    digits = len(str(int(_limits(kind)[1])))
    # Arrow asks for 19 digits also where the type has 3
    return value.cast(pa.decimal256(20 if kind == pa.uint64() else max(digits, 19), 0))


def _wide(column: pa.Array) -> pa.Array:
    return column.cast(pa.float32()) if pa.types.is_float16(column.type) else column


def _filled(column: pa.Array) -> NDArray[Any]:
    """Return a column as numpy has it, zeros for nulls."""
    column = column.cast(pa.float64()) if pa.types.is_floating(column.type) else column
    return column.fill_null(0).to_numpy(zero_copy_only=False)


def _in_one_scale(left: pa.Array, right: pa.Array) -> tuple[pa.Array, pa.Array]:
    left, right = as_exact(left), as_exact(right)
    scale = max(left.type.scale, right.type.scale)
    digits = max(side.type.precision - side.type.scale for side in (left, right)) + scale
    if digits > DIGITS:
        raise Mismatch(f"{left.type} and {right.type} are compared in {digits} digits: at most {DIGITS} are possible")
    return left.cast(pa.decimal256(digits, scale)), right.cast(pa.decimal256(digits, scale))


def _signed_and_unsigned(signed: NDArray[np.int64], unsigned: NDArray[np.uint64]) -> Compared:
    negative = signed < 0
    same = signed.astype(np.uint64)
    return negative | (same < unsigned), ~negative & (same == unsigned), ~negative & (same > unsigned)


def _whole_and_float(whole: NDArray[Any], real: NDArray[np.float64]) -> Compared:
    unsigned = whole.dtype.kind == "u"
    kind, low, high = (np.uint64, 0.0, 2.0**64) if unsigned else (np.int64, -(2.0**63), 2.0**63)
    below, above = real < low, real >= high
    inside = ~(below | above | np.isnan(real))
    floor = np.floor(np.where(inside, real, 0.0))
    broken = inside & (real > floor)
    part, whole = floor.astype(kind), whole.astype(kind)
    less = above | (inside & ((whole < part) | ((whole == part) & broken)))
    equal = inside & (whole == part) & ~broken
    return less, equal, below | (inside & ~less & ~equal)


def _decimal_and_float(whole: NDArray[Any], real: NDArray[np.float64]) -> Compared:
    """Compare whole numbers of any size: rounded first, which changes no order but makes some equal."""
    near = whole.astype(np.float64)
    less, equal, greater = near < real, near == real, near > real
    for row in np.flatnonzero(equal & (np.abs(real) >= 2.0**53) & np.isfinite(real)).tolist():
        a, b = int(whole[row]), int(real[row])
        less[row], equal[row], greater[row] = a < b, a == b, a > b
    return less, equal, greater


def _limits(kind: pa.DataType) -> tuple[int, int]:
    if pa.types.is_decimal(kind):
        return 1 - 10**kind.precision, 10**kind.precision - 1
    information = np.iinfo(kind.to_pandas_dtype())
    return int(information.min), int(information.max)


def _of_type(kind: pa.DataType, whole: int) -> Any:
    """Return the value of a type that a whole number of its last places makes."""
    if not pa.types.is_decimal(kind):
        return pa.scalar(whole, kind)
    # not by arithmetic, which rounds to 28 digits
    return pa.scalar(Decimal((int(whole < 0), tuple(map(int, str(abs(whole)))), -kind.scale)), kind)


def _nearest(kind: pa.DataType, number: Fraction) -> float:
    """Return a number rounded to a type of floating point numbers, infinity beyond the largest."""
    try:
        found = number.numerator / number.denominator
    except OverflowError:
        return math.inf if number > 0 else -math.inf
    with np.errstate(over="ignore"):
        return float(kind.to_pandas_dtype()(found))


def _float_below(kind: pa.DataType, number: Fraction) -> tuple[float, bool]:
    """Return the largest float of a type that is not above a number, and whether it is the number."""
    dtype = kind.to_pandas_dtype()
    found = _nearest(kind, number)
    if found == math.inf or (found > -math.inf and Fraction(found) > number):
        found = float(np.nextafter(dtype(found), dtype(-math.inf)))
    return found, found > -math.inf and Fraction(found) == number
