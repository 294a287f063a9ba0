"""Every call that a server takes, in one table: who may make it, what bounds it, and how it is answered.

A test walks it and tries each cell against the application; docs/serve.md shows it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from dtoss.kinds.all_kinds import ALL_KINDS, OF_PLACES, SHAPED
from dtoss.kinds.kind import About, Kind

OPEN, READER, WRITER, TELLER, ADMINS, SERVER = (
    "everybody", "a token", "a token that subscribes", "a token that tells positions", "a token of an admin",
    "a token of servers",
)  # fmt: skip
"""Who may make a call, where there are tokens; where there are none everybody on loopback, but to change
subscriptions."""
GETS_SEEN, GETS_SAME, GETS_SUMS, GETS_NOTHING = "what it sees", "the same", "`aggregates`", "403"
"""What a token gets that may not see all: of what it sees alone; what all get, as it tells of no object; sums over all
objects where its line says so, else 403; 403 where its objects have a condition."""


class Way(NamedTuple):
    """How calls are answered."""

    name: str
    does: str
    limits: tuple[str, ...]  # That hold its time and memory; where one is reached the answer is 503 and names it


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
    """A route, or a message to one."""

    method: str
    path: str
    who: str
    way: Way  # How it is answered
    asks: tuple[str, ...] = ()  # Limits of what it asks for; a refusal names them and is 400, 413 or 422
    body: str | None = None  # The limit of its bytes; None where none is read
    message: str | None = None  # What it says, of a route that takes several kinds
    narrowed: str = GETS_SEEN  # What a token gets that may not see all


_WHERE, _MANY, _LISTED = ("condition_length",), ("bulk_queries",), ("hits", "condition_length")


def _of_one_place(kind: Kind[Any]) -> Call:
    """Return how a kind of question is asked about one place."""
    way, hits = IN_A_TURN if kind.gathered else AS_A_WHOLE, ("hits",) * kind.paged
    asks = (*_limits_of(kind), *hits, *_WHERE * ("where" in kind.takes))
    return Call("GET", f"/{kind.name}", READER, way, asks, narrowed=GETS_NOTHING if kind.of_all else GETS_SEEN)


def _of_many_places(kind: Kind[Any]) -> Call:
    """Return how it is asked about many places or shapes."""
    many, body = (_MANY, "body_bytes") if kind.about != About.POLYGONS else (("corners",), "corners")
    asks = (*_limits_of(kind), *many, *("hits",) * ("columns" in kind.takes), *_WHERE * ("where" in kind.takes))
    narrowed = GETS_NOTHING if kind.of_all else GETS_SEEN
    return Call("POST", f"/{kind.name}", READER, IN_PIECES, asks, body, narrowed=narrowed)


def _of_servers(message: str, asks: tuple[str, ...]) -> Call:
    """Return how one server asks another."""
    return Call("POST", "/partial", SERVER, FOR_SERVERS, asks, "body_bytes", message, narrowed=GETS_NOTHING)


def _limits_of(kind: Kind[Any]) -> tuple[str, ...]:
    return tuple(one.limit for one in kind.parameters if one.limit is not None)


CALLS = (
    Call("GET", "/", OPEN, ON_LOOP, narrowed=GETS_SAME),
    Call("GET", "/docs", OPEN, ON_LOOP, narrowed=GETS_SAME),
    Call("GET", "/static/{path}", OPEN, ON_LOOP, narrowed=GETS_SAME),
    Call("GET", "/healthz", OPEN, ON_LOOP, narrowed=GETS_SAME),
    Call("GET", "/readyz", OPEN, ON_LOOP, narrowed=GETS_SAME),
    Call("GET", "/snapshot", READER, ON_LOOP),
    Call("GET", "/openapi.json", READER, ON_LOOP, narrowed=GETS_SAME),
    Call("GET", "/ogc", READER, ON_LOOP, narrowed=GETS_SAME),
    Call("GET", "/ogc/conformance", READER, ON_LOOP, narrowed=GETS_SAME),
    Call("GET", "/ogc/api", READER, ON_LOOP, narrowed=GETS_SAME),
    Call("GET", "/map/load", READER, ON_LOOP, narrowed=GETS_SUMS),
    Call("POST", "/report/pass", READER, ON_LOOP, narrowed=GETS_SUMS),
    Call("GET", "/metrics", ADMINS, BESIDE, narrowed=GETS_SAME),
    *map(_of_one_place, OF_PLACES),
    Call("GET", "/objects/{object_id}", READER, IN_A_TURN),
    Call("GET", "/windows/{name}", READER, IN_A_TURN, ("hits",), narrowed=GETS_SUMS),
    Call("GET", "/windows/{name}/series", READER, IN_A_TURN, ("hits",), narrowed=GETS_SUMS),
    Call("GET", "/windows/{name}/flow", READER, IN_A_TURN, ("hits",), narrowed=GETS_SUMS),
    Call("GET", "/windows", READER, AS_A_WHOLE, narrowed=GETS_SUMS),
    Call("GET", "/windows/{name}/regions", READER, AS_A_WHOLE, narrowed=GETS_SUMS),
    Call("GET", "/map", READER, AS_A_WHOLE),
    Call("GET", "/map/object", READER, AS_A_WHOLE),
    Call("GET", "/map/object/{object_id}", READER, AS_A_WHOLE),
    Call("GET", "/map/subscriptions", READER, AS_A_WHOLE),
    Call("GET", "/map/subscription", READER, AS_A_WHOLE),
    Call("GET", "/subscriptions", READER, AS_A_WHOLE),
    Call("GET", "/subscriptions/{subscription_id}", READER, AS_A_WHOLE),
    Call("GET", "/ogc/collections", READER, AS_A_WHOLE),
    Call("GET", "/ogc/collections/{collection}", READER, AS_A_WHOLE),
    Call("GET", "/ogc/collections/{collection}/items/{item}", READER, AS_A_WHOLE),
    Call("GET", "/report", READER, AS_A_WHOLE, narrowed=GETS_SUMS),
    Call("GET", "/report/{name}", READER, AS_A_WHOLE, narrowed=GETS_SUMS),
    Call("GET", "/basemap/{z}/{x}/{y}", READER, AS_A_WHOLE, narrowed=GETS_SAME),
    Call("GET", "/map/nearest", READER, AS_A_WHOLE, _WHERE),
    Call("GET", "/tiles/{snapshot}/{layer}/{z}/{x}/{row}", READER, AS_A_WHOLE, _WHERE),
    Call("GET", "/ogc/collections/{collection}/items", READER, IN_PIECES, _WHERE),
    *(Call("GET", f"/{kind.name}", READER, IN_PIECES, _LISTED) for kind in SHAPED if "GET" in kind.operations),
    *map(_of_many_places, ALL_KINDS.values()),
    Call("POST", "/map/within", READER, AS_A_WHOLE, ("corners", *_LISTED), "corners"),
    Call("GET", "/live", READER, LIVE_STREAM),
    Call("GET", "/events", READER, EVENT_STREAM),
    Call("POST", "/subscriptions", WRITER, AS_A_WHOLE, (*_MANY, *_WHERE), "subscribe_bytes"),
    Call("DELETE", "/subscriptions/{subscription_id}", WRITER, AS_A_WHOLE),
    Call("POST", "/positions", TELLER, AS_A_WHOLE, ("rows",), "body_bytes", narrowed=GETS_NOTHING),
    Call("POST", "/forward", SERVER, FOR_SERVERS, ("connections",), "body_bytes", narrowed=GETS_NOTHING),
    _of_servers("homes", (*_MANY, *_LISTED)),
    _of_servers("hits", (*_MANY, *_LISTED)),
    _of_servers("counts", (*_MANY, *_WHERE)),
    *(_of_servers(kind.name, _MANY) for kind in OF_PLACES if kind.part is not None),
    _of_servers("shapes", ("corners", *_MANY, *_LISTED)),
    _of_servers("object", ("line_bytes",)),
)
"""All of them. Targets have ``line_bytes``, headers ``header_seconds``, bodies and readers ``idle_seconds``."""
OPEN_PATHS = frozenset(call.path for call in CALLS if call.who == OPEN and "{" not in call.path)
"""Paths that need no token: nothing there tells of the store."""
