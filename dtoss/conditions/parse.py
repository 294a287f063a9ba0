"""Conditions on the attributes of objects: text like SQL's WHERE, parsed by sqlglot, evaluated by Arrow.

Nothing of the text is executed: the parser makes a tree of it, and the tree may hold nothing but what stands in
:mod:`dtoss.conditions.program`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.conditions.evaluate import Columns, Rows, as_rows, evaluate
from dtoss.conditions.language import Mismatch, short
from dtoss.conditions.program import Program, parse_program
from dtoss.names import not_carried


@dataclass(frozen=True)
class Condition:
    """A parsed condition: its text, its steps, and the columns that it reads."""

    text: str
    program: Program
    columns: frozenset[str]

    def matches(self, columns: Columns, rows: int) -> NDArray[np.bool_]:
        """Return which rows satisfy the condition; those for which it is unknown, because of a null, do not."""
        try:
            found = as_rows(evaluate(self.program, Rows(columns, rows)), rows)
        except (Mismatch, pa.ArrowException) as error:
            raise ValueError(f"where {short(self.text)}: {_line(error)}") from None
        return np.asarray(found.cast(pa.bool_()).fill_null(False).to_numpy(zero_copy_only=False), dtype=np.bool_)


def parse_condition(text: str, schema: Mapping[str, pa.DataType]) -> Condition:
    """Return a condition on objects that carry the columns of a schema.

    Names stand as they are, or in double quotes or backticks; text in single quotes; times as text or as
    ``timestamp '...'``, UTC where no zone is given. ``/`` divides as floating point numbers do. A comparison with null
    is unknown. ``docs/queries.md`` has all that it may hold, and where that differs from SQL.

    Examples
    --------
    >>> condition = parse_condition("occupied = 0 and kind in ('taxi', 'bus')",
    ...                             {"occupied": pa.int8(), "kind": pa.string()})
    >>> table = {"occupied": pa.array([0, 1, None], pa.int8()), "kind": pa.array(["bus", "bus", "taxi"])}
    >>> condition.matches(table.__getitem__, 3).tolist()
    [True, False, False]
    """
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f'where is {text!r}: a condition such as "occupied = 0" is wanted')
    said = short(text)
    names: set[str] = set()

    def empty(name: str) -> pa.Array:
        if name not in schema:
            raise Mismatch(not_carried(name, schema))
        names.add(name)
        return pa.nulls(0, schema[name])

    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"where {said} holds half a character: text that UTF-8 can write is wanted") from None
    try:
        program = parse_program(text)
        found = evaluate(program, Rows(empty, 0))
    except (Mismatch, pa.ArrowException) as error:
        colon = "" if str(error).startswith("is not") else ":"
        raise ValueError(f"where {said}{colon} {_line(error)}") from None
    if not (pa.types.is_null(found.type) or pa.types.is_boolean(found.type)):
        raise ValueError(f'where {said} is a value of type {found.type}: a condition such as "occupied = 0" is wanted')
    return Condition(text, program, frozenset(names))


def _line(error: Exception) -> str:
    """Return an error as one line."""
    line = " ".join(str(error).split())
    return line if len(line) <= 1000 else line[:999] + "…"
