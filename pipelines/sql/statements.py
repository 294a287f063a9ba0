"""Files of SQL: the statements in them, run in turn."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from dtoss.errors import InputError
from pipelines.spark.session import cause_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Statement:
    """A statement as it was written, and the line of the text on which it begins, from 1."""

    text: str
    line: int


def statements_of(text: str, name: str = "the text") -> list[Statement]:
    r"""Return the statements of a text, which semicolons separate: those in texts, names and comments do not.

    From a statement that begins with BEGIN all that follows is one: a script.

    ``name``: what the text is called in errors, such as its file.

    Examples
    --------
    >>> statements_of("-- first; of all\nSELECT ';' AS a;\n\nSELECT 2;")
    [Statement(text="SELECT ';' AS a", line=2), Statement(text='SELECT 2', line=4)]
    """
    from sqlglot.errors import TokenError
    from sqlglot.tokenizer_core import TokenType

    tokenizer = _tokenizer()
    try:
        tokens = tokenizer.tokenize(text)
    except TokenError as error:
        raise InputError(f"{name}: a literal, a name or a comment does not end: {error}") from None
    found = []
    waiting: list[Any] = []
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON and not (waiting and _is_script(waiting[0])):
            found += _statement(text, waiting)
            waiting = []
        else:
            waiting.append(token)
    found += _statement(text, waiting)
    if not found:
        raise InputError(f"{name} holds no statement")
    return found


def _statement(text: str, tokens: Sequence[Any]) -> list[Statement]:
    if not tokens:
        return []
    begin = tokens[0].start
    return [Statement(text[begin : tokens[-1].end + 1], text.count("\n", 0, begin) + 1)]


def _is_script(token: Any) -> bool:
    return bool(token.text.upper() == "BEGIN")


def _tokenizer() -> Any:
    from sqlglot.dialects.spark import Spark

    class Words(Spark.Tokenizer):
        # what follows SHOW and the like is read as any other: texts there may hold semicolons
        COMMANDS: ClassVar[set[Any]] = set()

    return Words()


def run_statements(spark: SparkSession, statements: Sequence[Statement], name: str) -> DataFrame:
    """Run statements in turn and return the result of the last one, which is not made yet where it is a query.

    ``name``: what they are called in errors, such as their file.
    """
    frame: DataFrame
    for statement in statements:
        with in_one_line(f"{name}, line {statement.line}"):
            frame = spark.sql(statement.text)
    return frame


@contextmanager
def in_one_line(place: str) -> Iterator[None]:
    """Let errors of Spark's that are about the SQL say so in one line, with the place where it stands.

    Others, such as those of a cluster, stay as they are.
    """
    from pyspark.errors import PySparkException

    try:
        yield
    except Exception as error:
        if ours := cause_of(error):
            raise InputError(f"{place}: {ours}") from None
        if isinstance(error, PySparkException) and (said := _said(error)):
            raise InputError(f"{place}: {said}") from None
        raise


def _said(error: Any) -> str | None:
    """Return what Spark says is wrong; None where it has no name for it, or the fault is its own."""
    condition = error.getCondition()
    if not condition or condition.startswith("INTERNAL_ERROR"):
        return None
    # behind the first sentences come the state, the plan, and the text with a mark below
    text = re.split(r"\s*(?:;?\s*SQLSTATE: \w+|\n==|\n\s*at )", str(error).strip(), maxsplit=1)[0]
    return " ".join(text.split()).removeprefix(f"[{condition}] ")
