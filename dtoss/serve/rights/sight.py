"""What a token sees: the conditions that its questions are asked with, columns, and its own subscriptions.

A column that it may not see is one that the objects do not carry: the same is said of both.

Which calls the token of a request may make: the table says it, and a route without a row is nobody's.

What is told of a snapshot to a token that may not see all of it.

Their ids begin with the token's name and what stands for its rights. Whoever has other rights by now has another
beginning, and sees nothing of what was asked under the former ones.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.arguments import column_names
from dtoss.conditions.language import short
from dtoss.conditions.matching_objects import Filter, schema_of
from dtoss.conditions.parse import parse_condition
from dtoss.errors import InputError
from dtoss.index import Index
from dtoss.kinds.kind import Question
from dtoss.kinds.searches import COUNT
from dtoss.names import not_carried, position_names
from dtoss.serve.answers.open_snapshots import ServedSnapshot
from dtoss.serve.answers.responses import Asker
from dtoss.serve.auth.route_table import ADMINS, CALLS, GETS_NOTHING, GETS_SUMS, OPEN, Call
from dtoss.serve.auth.tokens import ADMIN, ADMITTED, AGGREGATES, EVERYBODY, Token
from dtoss.serve.core.pool import Stop
from dtoss.serve.core.problems import Problem
from dtoss.serve.events.event_reader import Own
from dtoss.serve.state.worker_state import WorkerState
from dtoss.watch.subscription import AROUND, said_of_stay
from dtoss.watch.subscriptions.subscription_files import Read
from dtoss.watch.subscriptions.subscription_text import json_text
from dtoss.watch.subscriptions.validation import Against, Bad

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


_CALLS: dict[tuple[str, str], Call] = {(call.method, call.path): call for call in CALLS}


def token_of(request: Asker) -> Token:
    """Return the token of a request that has passed the doors."""
    scope: Any = request.scope
    token: Token = scope[ADMITTED]
    return token


def check_call(state: WorkerState, request: Asker) -> None:
    """Refuse a call that a token may not make, or whose answer would tell of what it may not see."""
    scope: Any = request.scope
    path, token = scope["path_template"], scope.get(ADMITTED, EVERYBODY)
    call = _CALLS.get((str(request.method), path))
    if call is None:
        if token.narrowed:
            raise Problem(403, f"{path} is for tokens that may see all", limit="token")
        return
    if call.who == OPEN:
        return
    if call.who == ADMINS and not state.doors.is_admin(token):
        raise Problem(
            403, f"{path} is for admins: the line of the token in --token-file has to have the word {ADMIN}",
            limit="token",
        )  # fmt: skip
    if call.narrowed == GETS_SUMS:
        check_sums(token, path)
    elif call.narrowed == GETS_NOTHING:
        check_whole(token, path)


def check_sums(token: Token, what: str) -> None:
    """Refuse sums over all objects to a token that may not see all."""
    if not token.sums:
        raise Problem(
            403,
            f"{what} tells sums over all objects, and this token may see some: its line in --token-file has to have "
            f"the word {AGGREGATES}",
            limit="token",
        )


def check_whole(token: Token, what: str) -> None:
    """Refuse what is made of all objects to a token whose objects have a condition."""
    if token.where is not None:
        raise Problem(
            403, f"{what} is made of all objects, of which this token may see some: ask for objects by /knn, /range, "
            "/box or /within", limit="token",
        )  # fmt: skip


AskCount: TypeAlias = Callable[[Question[NDArray[np.int64]]], Awaitable[NDArray[np.int64]]]
"""Asks all servers how many there are."""
_OF_ALL = ("sites", "objects_held")
"""Facts that count objects, beside ``objects``."""


async def seen_count(sight: Sight, request: Asker, ask: AskCount) -> int:
    """Return how many objects a request sees, on all servers."""
    if sight.token.where is None:
        return int(sight.served.facts["objects"])

    async def work(stop: Stop) -> int:
        seen = sight.own()
        if sight.served.share is None:
            assert seen is not None
            return seen.count
        whole = sight.served.whole
        anywhere = whole.space.positions(whole.partitioning.pivots[:1])
        return int((await ask(COUNT.question(anywhere, {"radius": inf}, sight.token.where)))[0])

    return await sight.state.pool.run_steps(request, work)


async def seen_facts(sight: Sight, request: Asker, ask: AskCount) -> Mapping[str, Any]:
    """Return the facts of a snapshot without objects and columns that are not seen; parameters as of `seen_count`."""
    facts = dict(sight.served.facts)
    facts["columns"] = {name: kind for name, kind in facts["columns"].items() if sight.token.may_see(name)}
    facts["subscriptions"] = sight.token.prefix
    if sight.token.where is not None:
        facts["objects"] = await seen_count(sight, request, ask)
        for name in _OF_ALL:
            facts.pop(name, None)
    return facts


def seen_map(sight: Sight, objects: int) -> dict[str, Any]:
    """Return what the page is told of a snapshot, of the objects and columns that are seen; in a thread.

    Classes of an attribute are by the objects that are seen. Regions are by all, and are not told beside a condition.
    """
    served, own = sight.served, sight.own()
    told = dict((served.map_facts if own is None else served.narrow_map(own)).told())
    told["columns"] = [one for one in told["columns"] if sight.token.may_see(one["name"])]
    if own is not None:
        told |= {"sites": None, "partitions": 0, "regions": {"objects": [], "sites": [], "bytes": [], "place": []}}
    return told | {"objects": objects}


def own_of(token: Token) -> Own | None:
    """Return whose subscriptions and events a token sees; None where it sees those of all."""
    if token.prefix is None:
        return None
    return Own(token.prefix, token.columns, token.where is not None)


def check_own(token: Token, subscription: str) -> None:
    """Refuse the id of a subscription that is not the token's, there or not."""
    if token.prefix is not None and not subscription.startswith(token.prefix):
        raise Problem(
            404, f"there is no subscription {subscription[:200]!r} of this token: those begin with {token.prefix}",
            limit="id", value=subscription[:200],
        )  # fmt: skip


def seen_rows(token: Token, known: Against) -> Against:
    """Return what a token may ask of the rows of a watch."""
    if not token.narrowed:
        return known
    schema = known.schema
    if schema is None:
        return known
    if condition_fits(token, dict(schema)) is not None:
        raise Problem(
            403, f"the condition of token {token.name} does not fit the rows of the watch: whoever runs the server has "
            "to mend it", limit="token",
        )  # fmt: skip
    seen = {name: kind for name, kind in schema.items() if name == "id" or token.may_see(name)}
    return replace(known, schema=seen, text=known.text and token.columns is None)


def narrow_subscriptions(token: Token, read: Read) -> Read:
    """Return subscriptions as they stand under the condition of a token; those that it may not ask are bad."""
    if token.prefix is None or not len(read.table):
        return read
    table, bad = read.table, list(read.bad)
    ids, kinds = table.column("id").to_pylist(), table.column("kind").to_pylist()
    reasons = [_reason(token, id_, kind) for id_, kind in zip(ids, kinds, strict=True)]
    bad += [Bad("", row, id_, why) for row, (id_, why) in enumerate(zip(ids, reasons, strict=True), 1) if why]
    table = table.filter(pa.array([why is None for why in reasons]))
    where = token.where
    if where is not None:
        table = _with_conditions(table, lambda text: where if text is None else both(where, text))
    return Read(table, tuple(bad))


def as_asked(token: Token, table: pa.Table) -> pa.Table:
    """Return subscriptions of a token as it has asked them: without its condition, which it need not know."""
    if token.where is None:
        return table
    return _with_conditions(table, lambda text: condition_as_asked(token, text))


def _with_conditions(table: pa.Table, change: Callable[[str | None], str | None]) -> pa.Table:
    """Return subscriptions with other conditions, of both objects where they are of pairs."""

    def of_pair(text: str | None) -> str | None:
        said = said_of_stay(text)
        if "near" not in said:
            return text
        near = said["near"] | {"where": change(said["near"].get("where"))}
        return json_text(said | {"near": {name: one for name, one in near.items() if one is not None}})

    for name, made in (("where", change), ("stay", of_pair)):
        at = table.schema.get_field_index(name)
        texts = pa.array([made(text) for text in table.column(name).to_pylist()], pa.string())
        table = table.set_column(at, table.schema.field(at), texts)
    return table


def condition_as_asked(token: Token, text: str | None) -> str | None:
    """Return the condition of a subscription without that of its token; None where it has no other."""
    if token.where is None or text is None or text == token.where:
        return None if text == token.where else text
    before, behind = both(token.where, "\0").split("\0")
    return text.removeprefix(before).removesuffix(behind) if text.startswith(before) else text


def _reason(token: Token, id_: str, kind: int) -> str | None:
    if not id_.startswith(token.prefix or ""):
        return f"the ids of subscriptions of this token begin with {token.prefix}"
    if kind == AROUND and token.where is not None:
        return "around follows an object, which this token may not see: circle, box or polygon is wanted"
    return None
