"""Subscriptions of a token that may not see all: they are asked under its condition, and it sees its own alone.

Their ids begin with the token's name and what stands for its rights. Whoever has other rights by now has another
beginning, and sees nothing of what was asked under the former ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa

from dtoss.serve.auth.tokens import Token
from dtoss.serve.core.problems import Problem
from dtoss.serve.events.event_chunks import Own
from dtoss.serve.rights.sight import both, condition_fits
from dtoss.watch.subscription import AROUND, said_of_stay
from dtoss.watch.subscriptions.json_text import json_text
from dtoss.watch.subscriptions.subscription_files import Read
from dtoss.watch.subscriptions.validation import Against, Bad


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
