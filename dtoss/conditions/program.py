"""A condition as a list of steps, which holds nothing but what stands here.

Of each kind of node only the arguments listed in READ are read. Any other argument that is set is an error: what a
parser says in an argument that nobody reads (``not like``, ``between symmetric``) would be left out in silence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
from sqlglot import exp

from dtoss.conditions.language import DIGITS, Mismatch, instant, moment, number, parse_tree, said

KNOWN = (
    "comparisons, and, or, not, in, between, like, ilike, is null, is distinct from, + - * / % ||, lower, upper, abs, "
    "coalesce, starts_with, case, cast and parentheses"
)


@dataclass(frozen=True)
class Step:
    """One step of an evaluation: it takes the last values and leaves one."""

    does: str  # What: a column's or a constant's value, or what :mod:`dtoss.conditions.evaluate` does under this name
    takes: int
    detail: Any  # What else it needs: a name, a value, a type
    node: exp.Expr  # What it was made of, to be named in errors

    def __str__(self) -> str:
        return said(self.node)


Program: TypeAlias = tuple[Step, ...]


@dataclass(frozen=True)
class Case:
    """The branches of a case, each a condition and a value, and the value where none holds."""

    branches: tuple[tuple[Program, Program], ...]
    default: Program | None


_COMPARISONS: dict[type, str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_PAIRS: dict[type, str] = {
    exp.And: "and",
    exp.Or: "or",
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.DPipe: "||",
    exp.StartsWith: "starts_with",
}
_SINGLE: dict[type, str] = {exp.Not: "not", exp.Neg: "negate", exp.Lower: "lower", exp.Upper: "upper", exp.Abs: "abs"}
_DISTINCT: dict[type, bool] = {exp.NullSafeNEQ: True, exp.NullSafeEQ: False}
_TWO = frozenset({"this", "expression"})
READ: dict[type, frozenset[str]] = {
    **dict.fromkeys((*_COMPARISONS, *_PAIRS, *_DISTINCT, exp.Is, exp.Escape), _TWO),
    **dict.fromkeys((*_SINGLE, exp.Paren, exp.Boolean, exp.DataTypeParam), frozenset({"this"})),
    exp.DPipe: _TWO | {"safe"},  # null where either is null, which is what it says
    exp.Like: _TWO | {"negate"},
    exp.ILike: _TWO | {"negate"},
    exp.Between: frozenset({"this", "low", "high", "symmetric"}),
    exp.In: frozenset({"this", "expressions"}),
    exp.Coalesce: frozenset({"this", "expressions"}),
    exp.Case: frozenset({"this", "ifs", "default"}),
    exp.If: frozenset({"this", "true"}),
    exp.Cast: frozenset({"this", "to"}),
    exp.DataType: frozenset({"this", "expressions"}),
    exp.Column: frozenset({"this", "table", "db", "catalog"}),
    exp.Identifier: frozenset({"this", "quoted"}),
    exp.Literal: frozenset({"this", "is_string"}),
    exp.Null: frozenset(),
}
"""The arguments that are read of each kind of node."""

_Kind = exp.DataType.Type
_CASTS: dict[Any, pa.DataType] = {
    _Kind.TINYINT: pa.int8(),
    _Kind.SMALLINT: pa.int16(),
    _Kind.INT: pa.int32(),
    _Kind.BIGINT: pa.int64(),
    _Kind.UTINYINT: pa.uint8(),
    _Kind.USMALLINT: pa.uint16(),
    _Kind.UINT: pa.uint32(),
    _Kind.UBIGINT: pa.uint64(),
    _Kind.FLOAT: pa.float32(),
    _Kind.DOUBLE: pa.float64(),
    _Kind.BOOLEAN: pa.bool_(),
    _Kind.TEXT: pa.large_string(),
    _Kind.VARCHAR: pa.large_string(),
    _Kind.DATE: pa.date32(),
    _Kind.TIMESTAMP: pa.timestamp("us", "UTC"),
    _Kind.TIMESTAMPTZ: pa.timestamp("us", "UTC"),
    _Kind.DATETIME: pa.timestamp("us", "UTC"),
}


def parse_program(text: str) -> Program:
    """Return the steps of a condition's text."""
    tree = parse_tree(text)
    try:
        return _program(tree)
    except RecursionError:
        raise Mismatch("nests too deep") from None


def _program(root: exp.Expr) -> Program:
    """Return the steps of a tree, without calling itself: 10,000 conditions joined by `or` are a tree as deep."""
    steps: list[Step] = []
    waiting = [root]
    while waiting:
        made, parts = _steps(waiting.pop())
        steps += made
        waiting += parts
    steps.reverse()
    return tuple(steps)


def _steps(node: exp.Expr) -> tuple[list[Step], list[exp.Expr]]:
    """Return the steps that a node takes after its parts, the last one first, and the parts."""
    kind = type(node)
    if kind is exp.In and not node.expressions:
        raise Mismatch(f"{said(node)}: a list such as (1, 2) is wanted after in")
    _check(node)
    if kind is exp.Paren:
        return [], [node.this]
    if kind is exp.Column:
        parts = node.parts  # type: ignore[attr-defined]
        for part in parts:
            _check(part)
        return [Step("column", 0, ".".join(part.name for part in parts), node)], []
    if kind in _COMPARISONS:
        return [Step("compare", 2, _COMPARISONS[kind], node)], [node.this, node.expression]
    if kind in _PAIRS:
        return [Step(_PAIRS[kind], 2, None, node)], [node.this, node.expression]
    if kind in _DISTINCT:
        return [Step("distinct", 2, _DISTINCT[kind], node)], [node.this, node.expression]
    if kind is exp.Neg and isinstance(node.this, exp.Literal) and not node.this.is_string:
        _check(node.this)
        return [Step("constant", 0, number("-" + node.this.this), node)], []
    if kind in _SINGLE:
        return [Step(_SINGLE[kind], 1, None, node)], [node.this]
    if kind is exp.Between:
        return [Step("between", 3, node.args.get("symmetric") is True, node)], [
            node.this,
            node.args["low"],
            node.args["high"],
        ]
    if kind is exp.In:
        return [Step("in", 1 + len(node.expressions), None, node)], [node.this, *node.expressions]
    if kind in (exp.Like, exp.ILike, exp.Escape):
        return _like(node)
    if kind is exp.Is:
        _check(node.expression)
        wanted = node.expression.this if isinstance(node.expression, exp.Boolean) else None
        if wanted is None and not isinstance(node.expression, exp.Null):
            raise Mismatch(f"{said(node)}: is null, or is true or false of a boolean, is wanted")
        return [Step("is", 1, wanted, node)], [node.this]
    if kind is exp.Coalesce:
        return [Step("coalesce", 1 + len(node.expressions), None, node)], [node.this, *node.expressions]
    if kind is exp.Case:
        return [Step("case", 0, _case(node), node)], []
    if kind is exp.Cast:
        return _cast(node)
    return [Step("constant", 0, _constant(node), node)], []


def _check(node: Any) -> None:
    """Refuse a node that is not known, and arguments that nobody reads."""
    if type(node) not in READ:
        what = said(node) if isinstance(node, exp.Expr) else str(node)
        raise Mismatch(f"{what} is not understood: it may hold {KNOWN}")
    for name, value in node.args.items():
        if name not in READ[type(node)] and value is not None and value is not False and value != []:
            raise Mismatch(f"{said(node)} is not understood: {name} of {type(node).__name__.lower()} is not read")


def _like(node: exp.Expr) -> tuple[list[Step], list[exp.Expr]]:
    like, escape = node, None
    if isinstance(node, exp.Escape):
        like, escape = node.this, node.expression
        _check(like)
        if type(like) not in (exp.Like, exp.ILike):
            raise Mismatch(f"{said(node)} is not understood: escape belongs to like")
        if not (isinstance(escape, exp.Literal) and escape.is_string and len(escape.this) <= 1):
            raise Mismatch(f"{said(node)}: one character such as '!' is wanted after escape")
    detail = (isinstance(like, exp.ILike), "\\" if escape is None else escape.this)
    steps = [Step("like", 2, detail, like)]
    if like.args.get("negate"):
        steps.insert(0, Step("not", 1, None, like))
    return steps, [like.this, like.expression]


def _case(node: exp.Expr) -> Case:
    branches = []
    for branch in node.args["ifs"]:
        _check(branch)
        if node.this is None:
            condition = _program(branch.this)
        else:
            condition = (*_program(node.this), *_program(branch.this), Step("compare", 2, "=", node))
        branches.append((condition, _program(branch.args["true"])))
    default = node.args.get("default")
    return Case(tuple(branches), None if default is None else _program(default))


def _cast(node: exp.Expr) -> tuple[list[Step], list[exp.Expr]]:
    to = node.args["to"]
    kind = to.this
    if kind in _CASTS or kind == _Kind.DECIMAL:
        for one in (to, *to.expressions):
            _check(one)
    if kind == _Kind.DECIMAL:
        names = [one.name for one in to.expressions] or ["18", "3"]
        digits, scale = (int(name) if name.isdecimal() and len(name) < 4 else -1 for name in [*names, "0"][:2])
        if len(names) > 2 or not 0 <= scale <= digits <= DIGITS or digits == 0:
            raise Mismatch(f"{said(node)}: decimal(digits, of them after the point) is wanted, at most {DIGITS} digits")
        target: pa.DataType = pa.decimal256(digits, scale)
    elif to.expressions or kind not in _CASTS:
        known = ", ".join(one.value.lower() for one in _CASTS)
        raise Mismatch(f"{said(node)}: {said(to)} is not one of {known}, decimal(18, 3)")
    else:
        target = _CASTS[kind]
    if isinstance(node.this, exp.Literal) and node.this.is_string:
        _check(node.this)
        if pa.types.is_date(target):
            return [Step("constant", 0, pa.scalar(moment(node.this.this).date()), node)], []
        if pa.types.is_timestamp(target):
            return [Step("constant", 0, instant(node.this.this), node)], []
    return [Step("cast", 1, target, node)], [node.this]


def _constant(node: exp.Expr) -> Any:
    if isinstance(node, exp.Boolean):
        return pa.scalar(bool(node.this))
    if isinstance(node, exp.Null):
        return pa.scalar(None)
    if isinstance(node, exp.Literal):
        return pa.scalar(node.this, pa.large_string()) if node.is_string else number(node.this)
    raise Mismatch(f"{said(node)} is not understood here: it may hold {KNOWN}")
