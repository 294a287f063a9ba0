"""What a token sees of a snapshot: the conditions that its questions are asked with, and the columns that there are.

A column that it may not see is one that the objects do not carry: the same is said of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dtoss.arguments import column_names
from dtoss.conditions.language import short
from dtoss.conditions.matching_objects import Filter, schema_of
from dtoss.conditions.parse import parse_condition
from dtoss.errors import InputError
from dtoss.index import Index
from dtoss.names import not_carried, position_names
from dtoss.serve.answers.open_snapshots import ServedSnapshot
from dtoss.serve.answers.responses import Asker
from dtoss.serve.auth.tokens import Token
from dtoss.serve.core.problems import Problem
from dtoss.serve.rights.gate import token_of
from dtoss.serve.state.worker_state import WorkerState

AS_ASKED = "dtoss.said"
"""Of a scope: what its condition is called beside that of its token, what it was called by who asks (None where there
was none), and whether errors may tell more than that."""


def both(own: str, where: str) -> str:
    """Return the condition that one of a token and one of a question are together; each can be read by itself.

    The second one is evaluated in rows alone that satisfy the first: where it fails in others nobody hears of them.

    Examples
    --------
    >>> print(both("a = 1", "b = 2 or c = 3"))
    case when (a = 1
    ) then (b = 2 or c = 3
    ) else false end
    """
    # a comment at the end of one ends with its line
    return f"case when ({own}\n) then ({where}\n) else false end"


def condition_fits(token: Token, schema: dict[str, pa.DataType]) -> str | None:
    """Return None if a token's condition can be asked of columns, else what is wrong with it."""
    try:
        if token.where is not None:
            parse_condition(token.where, schema)
    except ValueError as error:
        return str(error)
    return None


def check_tokens(tokens: Iterable[Token], index: Index) -> None:
    """Refuse tokens whose conditions or columns are none of what objects carry.

    A snapshot that comes later may lack a column: nobody sees anything by such a condition then.
    """
    for token in tokens:
        if (wrong := condition_fits(token, schema_of(index.parts[0]))) is not None:
            raise InputError(f"--token-file: token {token.name}: {wrong}")
        for name in token.columns or ():
            if name not in index.column_names:
                raise InputError(f"--token-file: token {token.name}: {not_carried(name, index.column_names)}")


@dataclass(frozen=True, eq=False)
class Sight:
    """What a request sees of a snapshot."""

    served: ServedSnapshot
    token: Token
    scope: Any  # Of the request: is told what its conditions are called where something is wrong with them
    state: WorkerState

    @property
    def columns(self) -> list[str]:
        """The attributes that it may see, by name."""
        return [name for name in self.served.index.column_names if self.token.may_see(name)]

    def condition(self, where: str | None, having: str | None = None, columns: Sequence[str] = ()) -> str | None:
        """Return the condition of a question: its own and that of its token; in a thread."""
        token = self.token
        if not token.narrowed:
            return where or None
        index = self.served.index
        schema = schema_of(index.parts[0])
        seen = {name: kind for name, kind in schema.items() if token.may_see(name) or name not in index.column_names}
        for text in (where, having):
            if text:
                parse_condition(text, seen)
        column_names(columns, [*self.columns, *position_names(index.space.geographic)])
        if token.where is None:
            return where or None
        self.own()
        asked = both(token.where, where) if where else token.where
        # another server may fail at the token's own condition, which its clients do not know
        self.scope[AS_ASKED] = short(asked), short(where) if where else None, self.served.share is None
        return asked

    def own(self) -> Filter | None:
        """Return the filter of what the token sees, None where it sees all objects; in a thread."""
        token, served = self.token, self.served
        if token.where is None:
            return None
        try:
            return served.conditions.get(token.where)
        except ValueError as error:
            self.state.log.event("condition of a token", token=token.name, detail=str(error))
            raise Problem(
                403, f"the condition of token {token.name} does not fit snapshot {served.name}: whoever runs the "
                "server has to mend it, its log says more", limit="token",
            ) from None  # fmt: skip


def sight_of(state: WorkerState, request: Asker, served: ServedSnapshot) -> Sight:
    """Return what a request sees of a snapshot."""
    return Sight(served, token_of(request), request.scope, state)
