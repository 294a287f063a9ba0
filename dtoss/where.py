"""Conditions on the attributes of objects: text like SQL's WHERE, parsed by sqlglot, evaluated by Arrow.

Nothing of the text is executed: the parser makes a tree of it, and the tree may hold nothing but what stands here.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sqlglot import exp, parse
from sqlglot.errors import SqlglotError

Columns: TypeAlias = Callable[[str], pa.Array]

_COMPARISONS: dict[type, Callable[..., Any]] = {
    exp.EQ: pc.equal,
    exp.NEQ: pc.not_equal,
    exp.LT: pc.less,
    exp.LTE: pc.less_equal,
    exp.GT: pc.greater,
    exp.GTE: pc.greater_equal,
}
_ARITHMETIC: dict[type, Callable[..., Any]] = {
    exp.Add: pc.add_checked,
    exp.Sub: pc.subtract_checked,
    exp.Mul: pc.multiply_checked,
}
_KNOWN = "comparisons, and, or, not, in, between, like, ilike, is null, + - * / and parentheses"


@dataclass(frozen=True)
class Condition:
    """A parsed condition: its text, its tree, and the columns that it reads."""

    text: str
    tree: exp.Expr
    columns: frozenset[str]

    def matches(self, columns: Columns) -> NDArray[np.bool_]:
        """Return which rows satisfy the condition; those for which it is unknown, because of a null, do not.

        Parameters
        ----------
        columns : gives the column of a name, all of one length.

        Raises
        ------
        ValueError
            If arithmetic overflows.
        """
        try:
            found = _value(self.tree, columns)
        except pa.ArrowInvalid as error:
            raise ValueError(f"where {self.text!r}: {error}") from None
        return np.asarray(pc.fill_null(found, False).to_numpy(zero_copy_only=False), dtype=np.bool_)


def parse_condition(text: str, schema: Mapping[str, pa.DataType]) -> Condition:
    """Return a condition on objects that carry the columns of a schema.

    Names stand as they are, or in double quotes; text in single quotes; times as text or as ``timestamp '...'``, UTC
    where no zone is given. ``/`` divides as floating point numbers do. A comparison with null is unknown.

    Raises
    ------
    ValueError
        If the text is not a condition, names an unknown column, or compares what cannot be compared.

    Examples
    --------
    >>> condition = parse_condition("occupied = 0 and kind in ('taxi', 'bus')",
    ...                             {"occupied": pa.int8(), "kind": pa.string()})
    >>> table = {"occupied": pa.array([0, 1, None], pa.int8()), "kind": pa.array(["bus", "bus", "taxi"])}
    >>> condition.matches(table.__getitem__).tolist()
    [True, False, False]
    """
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f'where is {text!r}: a condition such as "occupied = 0" is wanted')
    try:
        trees = parse(text)
    except SqlglotError as error:
        where = getattr(error, "errors", None)
        place = f" near column {where[0]['col']}" if where and where[0].get("col") else ""
        raise ValueError(f'where {text!r} is not a condition{place}: such as "occupied = 0 and speed > 3"') from None
    if len(trees) != 1 or trees[0] is None:
        raise ValueError(f"where {text!r} is not one condition")
    tree = trees[0]
    names: set[str] = set()

    def empty(name: str) -> pa.Array:
        if name not in schema:
            known = ", ".join(schema) or "none"
            raise ValueError(f"where {text!r}: column {name!r} is not carried by the objects; they carry {known}")
        names.add(name)
        return pa.nulls(0, schema[name])

    try:
        found = _value(tree, empty)
    except (_Mismatch, pa.ArrowException) as error:
        raise ValueError(f"where {text!r}: {error}") from None
    if not names:
        raise ValueError(f'where {text!r} names no column: such as "occupied = 0" is wanted')
    if not pa.types.is_boolean(found.type):
        raise ValueError(
            f'where {text!r} is a value of type {found.type}: a condition such as "occupied = 0" is wanted'
        )
    return Condition(text, tree, frozenset(names))


class _Mismatch(Exception):
    """What stands in a condition does not go together."""


def _value(node: exp.Expr, columns: Columns) -> Any:
    """Return an Arrow array or scalar."""
    if isinstance(node, exp.Paren):
        return _value(node.this, columns)
    if isinstance(node, exp.Column):
        return _plain(columns(".".join(part.name for part in node.parts)))
    if isinstance(node, exp.And):
        return pc.and_kleene(_truth(node.this, columns), _truth(node.expression, columns))
    if isinstance(node, exp.Or):
        return pc.or_kleene(_truth(node.this, columns), _truth(node.expression, columns))
    if isinstance(node, exp.Not):
        return pc.invert(_truth(node.this, columns))
    if type(node) in _COMPARISONS:
        return _compared(type(node), _value(node.this, columns), _value(node.expression, columns), node)
    if isinstance(node, exp.Between):
        value = _value(node.this, columns)
        low = _compared(exp.GTE, value, _value(node.args["low"], columns), node)
        return pc.and_kleene(low, _compared(exp.LTE, value, _value(node.args["high"], columns), node))
    if isinstance(node, exp.In):
        return _among(node, columns)
    if isinstance(node, exp.Is):
        return _is(node, columns)
    if isinstance(node, exp.Like | exp.ILike):
        return _like(node, columns)
    if type(node) in _ARITHMETIC or isinstance(node, exp.Div | exp.Neg):
        return _computed(node, columns)
    return _constant(node)


def _plain(column: pa.Array) -> Any:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column


def _constant(node: exp.Expr) -> Any:
    if isinstance(node, exp.Boolean):
        return pa.scalar(bool(node.this))
    if isinstance(node, exp.Null):
        return pa.scalar(None)
    if isinstance(node, exp.Literal):
        if node.is_string:
            return pa.scalar(node.this, pa.large_string())
        try:
            return pa.scalar(int(node.this), pa.int64())
        except ValueError:
            return pa.scalar(float(node.this))
        except OverflowError:
            raise _Mismatch(f"number {node.this} does not fit in 64 bits") from None
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and node.this.is_string:
        kind = node.to.this
        if kind == exp.DataType.Type.DATE:
            return pa.scalar(_moment(node.this.this).date())
        if kind in (exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPTZ, exp.DataType.Type.DATETIME):
            return _timestamp(node.this.this)
    raise _Mismatch(f"{node.sql()} is not understood: it may hold {_KNOWN}")


def _moment(text: str) -> datetime.datetime:
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise _Mismatch(f"{text!r} is not a time such as 2008-05-18 07:30:00") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)


def _timestamp(text: str) -> Any:
    return pa.scalar(_moment(text), pa.timestamp("us", "UTC"))


def _truth(node: exp.Expr, columns: Columns) -> Any:
    value = _value(node, columns)
    if pa.types.is_null(value.type):
        return value.cast(pa.bool_())
    if not pa.types.is_boolean(value.type):
        raise _Mismatch(f"{node.sql()} is of type {value.type}, not a condition")
    return value


def _family(kind: pa.DataType) -> str:
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "text"
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return "time"
    return "null" if pa.types.is_null(kind) else str(kind)


def _together(left: Any, right: Any, node: exp.Expr) -> tuple[Any, Any]:
    """Return two values in types that Arrow compares."""
    a, b = _family(left.type), _family(right.type)
    if a == "null" or b == "null":
        return (left.cast(right.type), right) if a == "null" else (left, right.cast(left.type))
    if a == "time" and b == "text" and isinstance(right, pa.Scalar):
        right, b = _timestamp(right.as_py()), "time"
    if b == "time" and a == "text" and isinstance(left, pa.Scalar):
        left, a = _timestamp(left.as_py()), "time"
    if a != b or a not in ("boolean", "number", "text", "time"):
        raise _Mismatch(f"{node.sql()} compares {left.type} with {right.type}")
    if a == "text":
        return left.cast(pa.large_string()), right.cast(pa.large_string())
    if a == "time":
        return _instant(left), _instant(right)
    if pa.types.is_decimal(left.type) != pa.types.is_decimal(right.type):
        return left.cast(pa.float64()), right.cast(pa.float64())
    return left, right


def _instant(value: Any) -> Any:
    """Return times as Arrow's finest common ones: microseconds, UTC, unless they are given in nanoseconds."""
    kind = value.type
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return value.cast(pa.timestamp("ns", "UTC"))
    return (
        value.cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC")) if kind != pa.timestamp("us", "UTC") else value
    )


def _compared(kind: type, left: Any, right: Any, node: exp.Expr) -> Any:
    left, right = _together(left, right, node)
    return _COMPARISONS[kind](left, right)


def _among(node: exp.In, columns: Columns) -> Any:
    if not node.expressions:
        raise _Mismatch(f"{node.sql()}: a list such as (1, 2) is wanted after in")
    value = _value(node.this, columns)
    each = [_compared(exp.EQ, value, _value(one, columns), node) for one in node.expressions]
    return reduce(pc.or_kleene, each)


def _is(node: exp.Is, columns: Columns) -> Any:
    value = _value(node.this, columns)
    if isinstance(node.expression, exp.Null):
        return pc.is_null(value)
    if isinstance(node.expression, exp.Boolean) and pa.types.is_boolean(value.type):
        return pc.fill_null(pc.equal(value, node.expression.this), False)
    raise _Mismatch(f"{node.sql()}: is null, or is true or false of a boolean, is wanted")


def _like(node: Any, columns: Columns) -> Any:
    value, pattern = _value(node.this, columns), node.expression
    if _family(value.type) != "text":
        raise _Mismatch(f"{node.sql()}: {node.this.sql()} is of type {value.type}, not text")
    if not (isinstance(pattern, exp.Literal) and pattern.is_string):
        raise _Mismatch(f"{node.sql()}: a pattern such as 'taxi%' is wanted")
    return pc.match_like(value, pattern.this, ignore_case=isinstance(node, exp.ILike))


def _computed(node: Any, columns: Columns) -> Any:
    values = [
        _value(part, columns) for part in ([node.this] if isinstance(node, exp.Neg) else [node.this, node.expression])
    ]
    for value in values:
        if _family(value.type) != "number":
            raise _Mismatch(f"{node.sql()} computes with {value.type}: numbers are wanted")
    if isinstance(node, exp.Neg):
        return pc.negate_checked(values[0])
    if isinstance(node, exp.Div):
        return pc.divide(*(value.cast(pa.float64()) for value in values))
    # narrow columns would overflow where SQL's do not
    values = [
        value.cast(pa.int64()) if pa.types.is_integer(value.type) else value.cast(pa.float64()) for value in values
    ]
    return _ARITHMETIC[type(node)](*values)
