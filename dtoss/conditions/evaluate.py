"""Evaluation of conditions: step after step over the columns of some rows, in Arrow.

Casts: what becomes what, rounded as SQL does, and refused where a value does not fit.

Patterns of `like`, matched by plain searches where the pattern is plain, and else as regular expressions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.conditions.compare import TEXT, among, compared, family, in_one_type, timed
from dtoss.conditions.compare_numbers import as_exact, as_floats
from dtoss.conditions.language import Mismatch, said, short
from dtoss.conditions.program import Case, Program, Step

Columns: TypeAlias = Callable[[str], pa.Array]


@dataclass(frozen=True)
class Rows:
    """Some rows: their columns by name, and how many there are."""

    column: Columns
    count: int

    def only(self, chosen: NDArray[np.bool_]) -> Rows:
        """Return those of the rows that are chosen."""
        mask = pa.array(chosen)
        return Rows(lambda name: self.column(name).filter(mask), int(np.count_nonzero(chosen)))


def evaluate(program: Program, rows: Rows) -> Any:
    """Return what a program makes of rows: an Arrow array of their number, or a scalar that holds for all."""
    values: list[Any] = []
    for step in program:
        if step.does == "constant":
            values.append(step.detail)
        elif step.does == "column":
            values.append(_plain(rows.column(step.detail)))
        elif step.does == "case":
            values.append(_case(step, rows))
        else:
            taken = values[len(values) - step.takes :]
            del values[len(values) - step.takes :]
            values.append(_DOES[step.does](taken, step))
    (found,) = values
    return found


def as_rows(value: Any, count: int) -> pa.Array:
    """Return a value as an array, a scalar as so many of it."""
    return pa.repeat(value, count) if isinstance(value, pa.Scalar) else value


def _plain(column: pa.Array) -> Any:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _part(step: Step, number: int) -> str:
    """Return how an error names what a value was made of."""
    return said(step.node.args["expression" if number else "this"])


def _truth(value: Any, name: Callable[[], str]) -> Any:
    if pa.types.is_null(value.type):
        return value.cast(pa.bool_())
    if not pa.types.is_boolean(value.type):
        raise Mismatch(f"{name()} is of type {value.type}, not a condition")
    return value


def _truths(values: list[Any], step: Step) -> list[Any]:
    return [_truth(value, partial(_part, step, number)) for number, value in enumerate(values)]


def _and(values: list[Any], step: Step) -> Any:
    return pc.and_kleene(*_truths(values, step))


def _or(values: list[Any], step: Step) -> Any:
    return pc.or_kleene(*_truths(values, step))


def _not(values: list[Any], step: Step) -> Any:
    return pc.invert(*_truths(values, step))


def _compare(values: list[Any], step: Step) -> Any:
    return compared(step.detail, values[0], values[1], step)


def _between(values: list[Any], step: Step) -> Any:
    value, low, high = values
    found = pc.and_kleene(compared(">=", value, low, step), compared("<=", value, high, step))
    if step.detail:  # symmetric: the bounds in either order
        turned = pc.and_kleene(compared(">=", value, high, step), compared("<=", value, low, step))
        found = pc.or_kleene(found, turned)
    return found


def _in(values: list[Any], step: Step) -> Any:
    return among(values[0], values[1:], step)


def _is(values: list[Any], step: Step) -> Any:
    if step.detail is None:
        return pc.is_null(values[0])
    (value,) = _truths(values, step)
    return pc.fill_null(pc.equal(value, pa.scalar(bool(step.detail))), False)


def _distinct(values: list[Any], step: Step) -> Any:
    left, right = timed(values)
    same = pc.fill_null(compared("=", left, right, step), False)
    same = pc.or_(same, pc.and_(pc.is_null(left), pc.is_null(right)))
    return pc.invert(same) if step.detail else same


def _texts(values: list[Any], step: Step) -> list[Any]:
    for number, value in enumerate(values):
        if family(value.type) not in ("text", "null"):
            raise Mismatch(f"{step}: {_part(step, number)} is of type {value.type}, not text")
    return [value.cast(TEXT) for value in values]


def _like(values: list[Any], step: Step) -> Any:
    if not isinstance(values[1], pa.Scalar):
        raise Mismatch(f"{step}: a pattern such as 'taxi%' is wanted")
    texts, pattern = _texts(values, step)
    if not pattern.is_valid:
        return compared("=", texts, pattern, step)
    ignore_case, escape = step.detail
    return matching(texts, pattern.as_py(), escape, ignore_case, step)


def _starts_with(values: list[Any], step: Step) -> Any:
    texts, beginning = _texts(values, step)
    if isinstance(beginning, pa.Scalar):
        if not beginning.is_valid:
            return compared("=", texts, beginning, step)
        return pc.starts_with(texts, pattern=beginning.as_py())
    given = zip(as_rows(texts, len(beginning)).to_pylist(), beginning.to_pylist(), strict=True)
    return pa.array([None if a is None or b is None else a.startswith(b) for a, b in given], pa.bool_())


def _joined(values: list[Any], step: Step) -> Any:
    left, right = _texts(values, step)
    return pc.binary_join_element_wise(left, right, pa.scalar("", TEXT))


def _lower(values: list[Any], step: Step) -> Any:
    return pc.utf8_lower(*_texts(values, step))


def _upper(values: list[Any], step: Step) -> Any:
    return pc.utf8_upper(*_texts(values, step))


def _coalesce(values: list[Any], step: Step) -> Any:
    return pc.coalesce(*in_one_type(values, step))


def _numbers(values: list[Any], step: Step) -> list[Any]:
    """Return numbers as they are computed with: floats, decimals, or int64, in which narrow columns do not overflow."""
    for value in values:
        if family(value.type) not in ("number", "null"):
            raise Mismatch(f"{step} computes with {value.type}: numbers are wanted")
    kinds = [value.type for value in values]
    if any(pa.types.is_floating(kind) for kind in kinds):
        return [as_floats(value) for value in values]
    if any(pa.types.is_decimal(kind) or kind == pa.uint64() for kind in kinds):
        return [as_exact(value.cast(pa.int64()) if pa.types.is_null(value.type) else value) for value in values]
    return [value.cast(pa.int64()) for value in values]


def _add(values: list[Any], step: Step) -> Any:
    return pc.add_checked(*_numbers(values, step))


def _subtract(values: list[Any], step: Step) -> Any:
    return pc.subtract_checked(*_numbers(values, step))


def _multiply(values: list[Any], step: Step) -> Any:
    return pc.multiply_checked(*_numbers(values, step))


def _divide(values: list[Any], step: Step) -> Any:
    return pc.divide(*(as_floats(value) for value in _numbers(values, step)))


def _remainder(values: list[Any], step: Step) -> Any:
    """Return what remains of a division, of the sign of what is divided; whole numbers by 0 are unknown."""
    left, right = _numbers(values, step)
    scalar = isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar)
    count = 1 if scalar else max(len(side) for side in (left, right) if isinstance(side, pa.Array))
    left, right = as_rows(left, count), as_rows(right, count)
    decimal = pa.types.is_decimal(left.type)
    scale = max(left.type.scale, right.type.scale) if decimal else 0
    if decimal:
        left, right = (_last_places(side, scale) for side in (left, right))
    known = pc.and_(left.is_valid(), right.is_valid())
    a, b = (side.fill_null(0).to_numpy(zero_copy_only=False) for side in (left, right))
    if a.dtype.kind == "i":
        known = pc.and_(known, pa.array(b != 0))
        b = np.where((b == 0) | (b == -1), 1, b)  # the least number divided by -1 overflows
    with np.errstate(invalid="ignore"):
        remainder = pc.if_else(known, pa.array(np.fmod(a, b)), pa.scalar(None, left.type))
    if decimal:
        whole = remainder.cast(pa.decimal256(19, 0))
        remainder = _reread(whole, pa.decimal256(max(19, scale), scale))
    return remainder[0] if scalar else remainder


def _last_places(numbers: pa.Array, scale: int) -> pa.Array:
    """Return decimals as whole numbers of their last places, int64."""
    digits = numbers.type.precision - numbers.type.scale + scale
    return _reread(numbers.cast(pa.decimal256(digits, scale)), pa.decimal256(digits, 0)).cast(pa.int64())


def _reread(numbers: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the same digits with the point elsewhere."""
    return pa.Array.from_buffers(kind, len(numbers), numbers.buffers(), offset=numbers.offset)


def _negate(values: list[Any], step: Step) -> Any:
    return pc.negate_checked(_numbers(values, step)[0])


def _abs(values: list[Any], step: Step) -> Any:
    return pc.abs_checked(_numbers(values, step)[0])


def _case(step: Step, rows: Rows) -> Any:
    """Return the value of the first branch that holds in each row; the others are not evaluated there."""
    case: Case = step.detail
    place, here = np.arange(rows.count), rows
    values: list[Any] = []
    counts: list[int] = []
    places = []
    for condition, value in case.branches:
        found = as_rows(_truth(evaluate(condition, here), partial(said, condition[-1].node)), here.count)
        chosen = found.fill_null(False).to_numpy(zero_copy_only=False).astype(np.bool_)
        there = here.only(chosen)
        values.append(evaluate(value, there))
        counts.append(there.count)
        places.append(place[chosen])
        place, here = place[~chosen], here.only(~chosen)
    values.append(pa.scalar(None) if case.default is None else evaluate(case.default, here))
    counts.append(here.count)
    places.append(place)
    pieces = [as_rows(value, count) for value, count in zip(in_one_type(values, step), counts, strict=True)]
    back = np.empty(rows.count, np.int64)
    back[np.concatenate(places)] = np.arange(rows.count)
    return pa.concat_arrays(pieces).take(pa.array(back))


def _cast(values: list[Any], step: Step) -> Any:
    return cast(values[0], step)


_DOES: dict[str, Callable[[list[Any], Step], Any]] = {
    "and": _and,
    "or": _or,
    "not": _not,
    "compare": _compare,
    "between": _between,
    "in": _in,
    "is": _is,
    "distinct": _distinct,
    "like": _like,
    "starts_with": _starts_with,
    "||": _joined,
    "lower": _lower,
    "upper": _upper,
    "coalesce": _coalesce,
    "+": _add,
    "-": _subtract,
    "*": _multiply,
    "/": _divide,
    "%": _remainder,
    "negate": _negate,
    "abs": _abs,
    "cast": _cast,
}


_MICROSECONDS = pa.timestamp("us")
_UTC = pa.timestamp("us", "UTC")


def cast(value: Any, step: Step) -> Any:
    """Return a value in the type that a cast names.

    Floating point numbers are rounded to the nearest whole ones, halves to even; decimals halves away from zero.
    """
    if isinstance(value, pa.Scalar):
        return cast(pa.array([value.as_py()], value.type) if value.is_valid else pa.nulls(1, value.type), step)[0]
    source, target = value.type, step.detail
    given, wanted = family(source), family(target)
    if source == target or given == "null":
        return value.cast(target)
    if given == "number" and wanted == "number":
        return _number(value, target, step)
    if wanted == "text" and (given in ("number", "boolean", "text") or pa.types.is_date(source)):
        return _as_text(value, step)
    if given == "text" and wanted in ("number", "boolean", "time"):
        return _from_text(pc.utf8_trim_whitespace(value.cast(TEXT)), target)
    if wanted == "boolean" and pa.types.is_integer(source):
        return value.cast(target)
    if given == "boolean" and pa.types.is_integer(target):
        return value.cast(target)
    if given == "time" and wanted == "time":
        return _time(value, target)
    raise Mismatch(f"{step}: {source} does not become {target}")


def _number(value: Any, target: pa.DataType, step: Step) -> Any:
    if pa.types.is_floating(target):
        return as_floats(value, target)
    if pa.types.is_floating(value.type):
        if pa.types.is_decimal(target):
            raise Mismatch(f"{step}: {value.type} does not become {target}")
        return pc.round(value.cast(pa.float64()), round_mode="half_to_even").cast(target)
    value = as_exact(value)
    scale = target.scale if pa.types.is_decimal(target) else 0
    if value.type.scale > scale:
        # one more digit before the point, or 9.5 has nowhere to go
        room = pa.decimal256(min(value.type.precision + 1, 76), value.type.scale)
        value = pc.round(value.cast(room), scale, round_mode="half_towards_infinity")
    return value.cast(target)


def _as_text(value: Any, step: Step) -> Any:
    if pa.types.is_decimal(value.type):
        return pa.array([None if one is None else format(one, "f") for one in value.to_pylist()], TEXT)
    if pa.types.is_float16(value.type):
        raise Mismatch(f"{step}: {value.type} does not become {TEXT}")
    if pa.types.is_floating(value.type):
        kind = np.float32 if pa.types.is_float32(value.type) else np.float64
        return pa.array([None if one is None else str(kind(one)) for one in value.to_pylist()], TEXT)
    return value.cast(TEXT)


def _from_text(value: Any, target: pa.DataType) -> Any:
    if pa.types.is_decimal(target):
        # read with all its digits, then rounded
        read = value.cast(pa.decimal256(76, 38))
        return pc.round(read, target.scale, round_mode="half_towards_infinity").cast(target)
    if pa.types.is_timestamp(target):
        return value.cast(_MICROSECONDS).cast(target)
    return value.cast(target)


def _time(value: Any, target: pa.DataType) -> Any:
    if pa.types.is_date(target):
        if pa.types.is_timestamp(value.type):
            return pc.floor_temporal(value, unit="day").cast(target)
        return value.cast(target)
    if pa.types.is_timestamp(value.type) and value.type.unit == "ns":
        value = pc.floor_temporal(value, unit="microsecond")
    return value.cast(_MICROSECONDS).cast(_UTC)


LONGEST = 1_000
"""Characters of a pattern that has to be a regular expression: of longer ones the library complains on stderr."""


def matching(texts: Any, pattern: str, escape: str, ignore_case: bool, step: Step) -> Any:
    """Return which texts are like a pattern: `%` is any text, `_` any one character, the escaped one itself."""
    pieces = _pieces(pattern, escape, step)
    if ignore_case:
        texts = pc.utf8_lower(texts)
        pieces = [piece if isinstance(piece, bool) else _lower_text(piece) for piece in pieces]
    inner = [piece for piece in pieces if isinstance(piece, str)]
    front, back = pieces[:1] == [True], pieces[-1:] == [True]
    if False not in pieces and len(inner) <= 1 and len(pieces) <= 3:
        if not inner:
            return pc.equal(texts, pa.scalar("", texts.type)) if not pieces else pc.equal(texts, texts)
        if front and back:
            return pc.match_substring(texts, pattern=inner[0])
        if front:
            return pc.ends_with(texts, pattern=inner[0])
        if back:
            return pc.starts_with(texts, pattern=inner[0])
        return pc.equal(texts, pa.scalar(inner[0], texts.type))
    if len(pattern) > LONGEST:
        raise Mismatch(
            f"{step}: the pattern of {len(pattern):,} characters has wildcards inside: at most {LONGEST:,} are possible"
        )
    wild = {True: ".*", False: "."}
    expression = "".join(wild[piece] if isinstance(piece, bool) else _quote(piece) for piece in pieces)
    return pc.match_substring_regex(texts, pattern=rf"(?s)\A{expression}\z")


def _pieces(pattern: str, escape: str, step: Step) -> list[str | bool]:
    """Return texts between wildcards, True for any text, False for any one character."""
    pieces: list[str | bool] = []
    kept: list[str] = []
    characters = iter(pattern)
    for one in characters:
        if one == escape:
            escaped = next(characters, None)
            if escaped is None:
                raise Mismatch(f"{step}: the pattern ends with {short(escape)}, which makes the next character plain")
            kept.append(escaped)
        elif one in "%_":
            if kept:
                pieces.append("".join(kept))
                kept = []
            if one == "_" or pieces[-1:] != [True]:
                pieces.append(one == "%")
        else:
            kept.append(one)
    return [*pieces, "".join(kept)] if kept else pieces


def _lower_text(text: str) -> str:
    # by the same table as the texts
    return pc.utf8_lower(pa.scalar(text)).as_py()


def _quote(text: str) -> str:
    return "".join(c if c.isalnum() or ord(c) > 127 else rf"\x{{{ord(c):x}}}" for c in text)
