"""The language of conditions: which text is one expression, and how errors name its parts.

Numbers and times as a condition's text says them.
"""

from __future__ import annotations

import datetime
import logging
import re
import threading
from collections.abc import Callable
from decimal import Decimal
from typing import Any, ClassVar

import pyarrow as pa
from sqlglot import exp, parser, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.parser import IsPredicatePrecedence
from sqlglot.tokenizer_core import TokenType

DEEPEST = 32
"""Nesting of parentheses, cases and signs: the parser calls itself some twenty times for each."""
LONGEST_SAID = 200
"""Characters of a condition that an error repeats."""


class Mismatch(Exception):
    """What stands in a condition is not understood, or does not go together."""


class _Parser(parser.Parser):
    """The parser of expressions: functions that are not among ours stay names, which READ refuses."""

    # a function like `like(a, b)` has its arguments the other way round than some expect: only these are known
    FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {
        name: parser.Parser.FUNCTIONS[name]
        for name in ("LOWER", "UPPER", "ABS", "COALESCE", "IFNULL", "NVL", "STARTS_WITH", "STARTSWITH", "MOD")
    }
    NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
        "CASE": parser.Parser.NO_PAREN_FUNCTION_PARSERS["CASE"]
    }
    FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {"CAST": parser.Parser.FUNCTION_PARSERS["CAST"]}
    IS_PREDICATE_PRECEDENCE = IsPredicatePrecedence.LOW


class _Language(Dialect):
    """SQL's expressions, with names in double quotes or backticks."""

    class Tokenizer(tokens.Tokenizer):
        IDENTIFIERS: ClassVar[list[Any]] = ['"', "`"]
        KEYWORDS: ClassVar[dict[str, Any]] = {
            **tokens.Tokenizer.KEYWORDS,
            "UTINYINT": TokenType.UTINYINT,
            "USMALLINT": TokenType.USMALLINT,
            "UINTEGER": TokenType.UINT,
            "UBIGINT": TokenType.UBIGINT,
        }

    Parser = _Parser


_language = _Language()
_parsing = threading.local()


def _not_ours(_: logging.LogRecord) -> bool:
    return not getattr(_parsing, "now", False)


# what the parser has to say about a condition is said by the error
logging.getLogger("sqlglot").addFilter(_not_ours)


def short(text: str) -> str:
    """Return a text as an error repeats it: quoted, and cut where it is long."""
    return repr(text if len(text) <= LONGEST_SAID else text[: LONGEST_SAID - 1] + "…")


def said(node: exp.Expr) -> str:
    """Return a node as an error names it."""
    try:
        text = " ".join(node.sql(unsupported_level=ErrorLevel.IGNORE, comments=False).split())
    except Exception:  # one that nests too deep, or that the generator does not know
        text = type(node).__name__.lower()
    return text if len(text) <= LONGEST_SAID else text[: LONGEST_SAID - 1] + "…"


def parse_tree(text: str) -> exp.Expr:
    """Return the tree of a condition's text."""
    _parsing.now = True
    try:
        try:
            found = _language.tokenize(text)
            _not_too_deep(found)
            trees = _language.parser().parse_into(exp.Condition, found, text)
        except SqlglotError as error:
            where = getattr(error, "errors", None)
            place = f" near column {where[0]['col']}" if where and where[0].get("col") else ""
            raise Mismatch(f'is not a condition{place}: such as "occupied = 0 and speed > 3"') from None
        if len(trees) != 1 or trees[0] is None:
            raise Mismatch("is not one condition")
        return trees[0]
    except RecursionError:
        raise Mismatch(f"nests too deep: at most {DEEPEST} levels of parentheses, cases and signs") from None
    finally:
        _parsing.now = False


_SIGNS = {TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE}
_OPENS, _CLOSES = (
    {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE},
    {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE},
)


def _not_too_deep(found: list[Any]) -> None:
    depth = signs = 0
    for token in found:
        kind = token.token_type
        signs = signs + 1 if kind in _SIGNS else 0
        if kind in _OPENS or kind == TokenType.CASE:
            depth += 1
        elif kind in _CLOSES or kind == TokenType.END:
            depth -= 1
        if depth + signs > DEEPEST:
            raise RecursionError


DIGITS = 76
"""Of whole numbers and of numbers with a point that are kept exactly; longer ones are floating point numbers."""


def number(text: str) -> Any:
    """Return a number in the narrowest of int64, uint64, a decimal that holds it; with an exponent as a float."""
    digits = text.lstrip("-")
    if digits.replace(".", "", 1).isdecimal() and len(digits) <= DIGITS:
        if "." in digits:
            return as_decimal(Decimal(text))
        value = int(text)
        if -(2**63) <= value < 2**63:
            return pa.scalar(value, pa.int64())
        return pa.scalar(value, pa.uint64()) if 0 < value < 2**64 else as_decimal(Decimal(text))
    try:
        found = float(text)
    except ValueError:
        raise Mismatch(f"{text[:LONGEST_SAID]} is not a number") from None
    if found in (float("inf"), -float("inf")):
        raise Mismatch(f"number {text[:LONGEST_SAID]} is beyond 1.8e308")
    return pa.scalar(found)


def as_decimal(number: Decimal) -> Any:
    """Return a finite number as an Arrow decimal of as many digits as it has."""
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    scale = max(-exponent, 0)
    return pa.scalar(number, pa.decimal256(max(len(digits) + max(exponent, 0), scale, 1), scale))


def moment(text: str) -> datetime.datetime:
    """Return the time that a text says, UTC where it names no zone."""
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise Mismatch(f"{short(text)} is not a time such as 2008-05-18 07:30:00") from None
    return found if found.tzinfo else found.replace(tzinfo=datetime.UTC)


def instant(text: str) -> Any:
    """Return the time that a text says as an Arrow scalar, of microseconds, or of nanoseconds where it says any."""
    found = moment(text)
    try:
        scalar = pa.scalar(found, pa.timestamp("us", "UTC"))
        beyond = _FRACTION.search(text)
        if beyond is None:
            return scalar
        # the standard library cuts these digits off
        return pa.scalar(1000 * scalar.value + int(beyond[1][:3].ljust(3, "0")), pa.timestamp("ns", "UTC"))
    except (OverflowError, pa.ArrowException):
        raise Mismatch(f"time {short(text)} is beyond what is kept") from None


_FRACTION = re.compile(r"[.,]\d{6}(\d+)")
