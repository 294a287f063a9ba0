"""Every call that a server takes, in one table: who may make it, what bounds it, and how it is answered.

A test walks it and tries each cell against the application; docs/serve.md shows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

OPEN, READER, WRITER, SERVER = "everybody", "a token", "a token that writes", "a token of servers"
"""Who may make a call, where there are tokens; where there are none everybody on loopback, but to write."""


class Way(NamedTuple):
    """How calls are answered.

    Parameters
    ----------
    name
        In the table.
    does
        In words.
    limits
        That hold its time and memory; where one is reached the answer is 503 and names it.
    """

    name: str
    does: str
    limits: tuple[str, ...]


ON_LOOP = Way("loop", "on the loop, from what is in memory, also while all threads are busy", ())
BESIDE = Way("beside", "beside the pool, also while it is full; who asks meanwhile gets the same text", ())
IN_A_TURN = Way(
    "turn",
    "with all that came in the same turn, by one kernel, if it has at most 64 hits; else as `whole`",
    ("pool_queue", "pool_seconds", "answer_bytes"),
)
AS_A_WHOLE = Way(
    "whole",
    "by a thread of the pool; a large answer is sent as it is read",
    ("pool_queue", "pool_seconds", "answer_bytes"),
)
IN_PIECES = Way(
    "pieces",
    "by a thread of the pool, 8 MB at first and then 1 MB at a time, made when the last was read",
    ("pool_queue", "pool_seconds", "answer_bytes"),
)
LIVE_STREAM = Way(
    "live",
    "a stream of which a client has one event at a time; later ones take the place of unread ones",
    ("live",),
)
EVENT_STREAM = Way(
    "events",
    "a stream, 100 KB at a time, made when the last were read; a page as `whole`",
    ("event_streams", "pool_queue", "pool_seconds", "answer_bytes"),
)
FOR_SERVERS = Way(
    "servers",
    "by threads that answer servers only, of which 16 times `pool_queue` may wait; `/forward` on the loop up to "
    "16,384 hits",
    ("pool_seconds", "answer_bytes"),
)
WAYS = (ON_LOOP, BESIDE, IN_A_TURN, AS_A_WHOLE, IN_PIECES, LIVE_STREAM, EVENT_STREAM, FOR_SERVERS)


class Call(NamedTuple):
    """A route, or a message to one.

    Parameters
    ----------
    method, path
        Of the route.
    who
        May make it.
    way
        How it is answered.
    asks
        Limits of what it asks for; a refusal names them and is 400, 413 or 422.
    body
        The limit of its bytes; None where none is read.
    message
        What it says, of a route that takes several kinds.
    """

    method: str
    path: str
    who: str
    way: Way
    asks: tuple[str, ...] = ()
    body: str | None = None
    message: str | None = None


_WHERE, _MANY, _LISTED = ("condition_length",), ("bulk_queries",), ("hits", "condition_length")
CALLS = (
    Call("GET", "/", OPEN, ON_LOOP),
    Call("GET", "/docs", OPEN, ON_LOOP),
    Call("GET", "/static/{path}", OPEN, ON_LOOP),
    Call("GET", "/healthz", OPEN, ON_LOOP),
    Call("GET", "/readyz", OPEN, ON_LOOP),
    Call("GET", "/snapshot", READER, ON_LOOP),
    Call("GET", "/openapi.json", READER, ON_LOOP),
    Call("GET", "/map/load", READER, ON_LOOP),
    Call("POST", "/report/pass", READER, ON_LOOP),
    Call("GET", "/metrics", READER, BESIDE),
    Call("GET", "/knn", READER, IN_A_TURN, ("k", "condition_length")),
    Call("GET", "/range", READER, IN_A_TURN, _LISTED),
    Call("GET", "/objects/{object_id}", READER, IN_A_TURN),
    Call("GET", "/windows/{name}", READER, IN_A_TURN, ("hits",)),
    Call("GET", "/windows/{name}/series", READER, IN_A_TURN, ("hits",)),
    Call("GET", "/windows/{name}/flow", READER, IN_A_TURN, ("hits",)),
    Call("GET", "/windows", READER, AS_A_WHOLE),
    Call("GET", "/windows/{name}/regions", READER, AS_A_WHOLE),
    Call("GET", "/locate", READER, AS_A_WHOLE),
    Call("GET", "/reverse_nearest", READER, AS_A_WHOLE),
    Call("GET", "/map", READER, AS_A_WHOLE),
    Call("GET", "/map/object", READER, AS_A_WHOLE),
    Call("GET", "/map/object/{object_id}", READER, AS_A_WHOLE),
    Call("GET", "/map/subscriptions", READER, AS_A_WHOLE),
    Call("GET", "/map/subscription", READER, AS_A_WHOLE),
    Call("GET", "/subscriptions", READER, AS_A_WHOLE),
    Call("GET", "/subscriptions/{subscription_id}", READER, AS_A_WHOLE),
    Call("GET", "/report", READER, AS_A_WHOLE),
    Call("GET", "/report/{name}", READER, AS_A_WHOLE),
    Call("GET", "/count", READER, AS_A_WHOLE, _WHERE),
    Call("GET", "/map/nearest", READER, AS_A_WHOLE, _WHERE),
    Call("GET", "/tiles/{snapshot}/{layer}/{z}/{x}/{row}", READER, AS_A_WHOLE, _WHERE),
    Call("GET", "/box", READER, IN_PIECES, _LISTED),
    Call("POST", "/knn", READER, IN_PIECES, ("k", *_MANY, *_LISTED), "body_bytes"),
    Call("POST", "/range", READER, IN_PIECES, (*_MANY, *_LISTED), "body_bytes"),
    Call("POST", "/box", READER, IN_PIECES, (*_MANY, *_LISTED), "body_bytes"),
    Call("POST", "/count", READER, IN_PIECES, (*_MANY, *_WHERE), "body_bytes"),
    Call("POST", "/locate", READER, IN_PIECES, _MANY, "body_bytes"),
    Call("POST", "/reverse_nearest", READER, IN_PIECES, _MANY, "body_bytes"),
    Call("POST", "/within", READER, IN_PIECES, ("corners", *_LISTED), "corners"),
    Call("POST", "/map/within", READER, AS_A_WHOLE, ("corners", *_LISTED), "corners"),
    Call("GET", "/live", READER, LIVE_STREAM),
    Call("GET", "/events", READER, EVENT_STREAM),
    Call("POST", "/subscriptions", WRITER, AS_A_WHOLE, (*_MANY, *_WHERE), "subscribe_bytes"),
    Call("DELETE", "/subscriptions/{subscription_id}", WRITER, AS_A_WHOLE),
    Call("POST", "/forward", SERVER, FOR_SERVERS, ("connections",), "body_bytes"),
    Call("POST", "/partial", SERVER, FOR_SERVERS, (*_MANY, *_LISTED), "body_bytes", "HomeQuestion"),
    Call("POST", "/partial", SERVER, FOR_SERVERS, (*_MANY, *_LISTED), "body_bytes", "HitsQuestion"),
    Call("POST", "/partial", SERVER, FOR_SERVERS, (*_MANY, *_WHERE), "body_bytes", "CountQuestion"),
    Call("POST", "/partial", SERVER, FOR_SERVERS, _MANY, "body_bytes", "NearestToQuestion"),
    Call("POST", "/partial", SERVER, FOR_SERVERS, ("corners", *_MANY, *_LISTED), "body_bytes", "ShapesQuestion"),
    Call("POST", "/partial", SERVER, FOR_SERVERS, ("line_bytes",), "body_bytes", "ObjectQuestion"),
)
"""All of them. Targets have ``line_bytes``, headers ``header_seconds``, bodies and readers ``idle_seconds``."""
OPEN_PATHS = frozenset(call.path for call in CALLS if call.who == OPEN and "{" not in call.path)
"""Paths that need no token: nothing there tells of the store."""


def rows() -> Iterator[str]:
    """Yield the rows of the table as docs/serve.md has it: calls of the same cells are one."""

    def cells(call: Call) -> tuple[str, ...]:
        return call.who, call.body or "", ", ".join(call.asks), call.way.name

    for (who, body, asks, way), some in groupby(CALLS, cells):
        named = ", ".join(f"`{call.method} {call.path}`{_of(call.message)}" for call in some)
        yield f"| {named} | {who} | {_limit(body)} | {', '.join(map(_limit, asks.split(', ')))} | {way} |"


def _of(message: str | None) -> str:
    return "" if message is None else f" of a `{message}`"


def _limit(name: str) -> str:
    return f"`{name}`" if name else "-"


def way_rows() -> Iterator[str]:
    """Yield the rows of the ways as docs/serve.md has them."""
    for way in WAYS:
        yield f"| {way.name} | {way.does} | {', '.join(map(_limit, way.limits)) or '-'} |"
