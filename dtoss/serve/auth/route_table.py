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
    name: str  # What clients call it, which stays: programs that were written against it would not compile else
    who: str
    way: Way  # How it is answered
    asks: tuple[str, ...] = ()  # Limits of what it asks for; a refusal names them and is 400, 413 or 422
    body: str | None = None  # The limit of its bytes; None where none is read
    message: str | None = None  # What it says, of a route that takes several kinds
    narrowed: str = GETS_SEEN  # What a token gets that may not see all


_WHERE, _MANY, _FORWARDED = ("condition_length",), ("bulk_queries",), ("connections",)
_LISTED = ("hits", *_WHERE)


def _of_one_place(kind: Kind[Any]) -> Call:
    """Return how a kind of question is asked about one place."""
    way, hits = IN_A_TURN if kind.gathered else AS_A_WHOLE, ("hits",) * kind.paged
    asks = (*_limits_of(kind), *hits, *_WHERE * ("where" in kind.takes))
    narrowed = GETS_NOTHING if kind.of_all else GETS_SEEN
    return Call("GET", f"/{kind.name}", kind.operations["GET"], READER, way, asks, narrowed=narrowed)


def _of_many_places(kind: Kind[Any]) -> Call:
    """Return how it is asked about many places or shapes."""
    many, body = (_MANY, "body_bytes") if kind.about != About.POLYGONS else (("corners",), "corners")
    asks = (*_limits_of(kind), *many, *("hits",) * ("columns" in kind.takes), *_WHERE * ("where" in kind.takes))
    narrowed = GETS_NOTHING if kind.of_all else GETS_SEEN
    return Call("POST", f"/{kind.name}", kind.operations["POST"], READER, IN_PIECES, asks, body, narrowed=narrowed)


def _of_listed_shapes(kind: Kind[Any]) -> Call:
    """Return how what lies in shapes is listed, page by page."""
    return Call("GET", f"/{kind.name}", kind.operations["GET"], READER, IN_PIECES, _LISTED)


def _of_servers(message: str, asks: tuple[str, ...]) -> Call:
    """Return how one server asks another."""
    name, narrowed = "answerPartially", GETS_NOTHING
    return Call("POST", "/partial", name, SERVER, FOR_SERVERS, asks, "body_bytes", message, narrowed)


def _limits_of(kind: Kind[Any]) -> tuple[str, ...]:
    return tuple(one.limit for one in kind.parameters if one.limit is not None)


CALLS = (
    Call("GET", "/", "getMapPage", OPEN, ON_LOOP, narrowed=GETS_SAME),
    Call("GET", "/docs", "getDocsPage", OPEN, ON_LOOP, narrowed=GETS_SAME),
    Call("GET", "/static/{path}", "getPageFile", OPEN, ON_LOOP, narrowed=GETS_SAME),
    Call("GET", "/healthz", "isAlive", OPEN, ON_LOOP, narrowed=GETS_SAME),
    Call("GET", "/readyz", "isReady", OPEN, ON_LOOP, narrowed=GETS_SAME),
    Call("GET", "/snapshot", "getSnapshot", READER, ON_LOOP),
    Call("GET", "/openapi.json", "getDescription", READER, ON_LOOP, narrowed=GETS_SAME),
    Call("GET", "/ogc", "getFeaturesPage", READER, ON_LOOP, narrowed=GETS_SAME),
    Call("GET", "/ogc/conformance", "getConformance", READER, ON_LOOP, narrowed=GETS_SAME),
    Call("GET", "/ogc/api", "getFeaturesDescription", READER, ON_LOOP, narrowed=GETS_SAME),
    Call("GET", "/map/load", "getSlotLoad", READER, ON_LOOP, narrowed=GETS_SUMS),
    Call("POST", "/report/pass", "openReport", READER, ON_LOOP, narrowed=GETS_SUMS),
    Call("GET", "/metrics", "getMetrics", ADMINS, BESIDE, narrowed=GETS_SAME),
    *map(_of_one_place, OF_PLACES),
    Call("GET", "/objects/{object_id}", "getObject", READER, IN_A_TURN),
    Call("GET", "/windows/{name}", "getWindow", READER, IN_A_TURN, ("hits",), narrowed=GETS_SUMS),
    Call("GET", "/windows/{name}/series", "getWindowSeries", READER, IN_A_TURN, ("hits",), narrowed=GETS_SUMS),
    Call("GET", "/windows/{name}/flow", "getWindowFlow", READER, IN_A_TURN, ("hits",), narrowed=GETS_SUMS),
    Call("GET", "/windows", "listWindows", READER, AS_A_WHOLE, narrowed=GETS_SUMS),
    Call("GET", "/windows/{name}/regions", "getWindowRegions", READER, AS_A_WHOLE, narrowed=GETS_SUMS),
    Call("GET", "/map", "getMapFacts", READER, AS_A_WHOLE),
    Call("GET", "/map/object", "drawObject", READER, AS_A_WHOLE),
    Call("GET", "/map/object/{object_id}", "drawObjectById", READER, AS_A_WHOLE),
    Call("GET", "/map/subscriptions", "drawSubscriptions", READER, AS_A_WHOLE),
    Call("GET", "/map/subscription", "drawSubscription", READER, AS_A_WHOLE),
    Call("GET", "/subscriptions", "listSubscriptions", READER, AS_A_WHOLE),
    Call("GET", "/subscriptions/{subscription_id}", "getSubscription", READER, AS_A_WHOLE),
    Call("GET", "/ogc/collections", "listCollections", READER, AS_A_WHOLE),
    Call("GET", "/ogc/collections/{collection}", "getCollection", READER, AS_A_WHOLE),
    Call("GET", "/ogc/collections/{collection}/items/{item}", "getFeature", READER, AS_A_WHOLE),
    Call("GET", "/report", "getReport", READER, AS_A_WHOLE, narrowed=GETS_SUMS),
    Call("GET", "/report/{name}", "getReportFile", READER, AS_A_WHOLE, narrowed=GETS_SUMS),
    Call("GET", "/basemap/{z}/{x}/{y}", "getGroundTile", READER, AS_A_WHOLE, narrowed=GETS_SAME),
    Call("GET", "/map/nearest", "drawNearest", READER, AS_A_WHOLE, _WHERE),
    Call("GET", "/tiles/{snapshot}/{layer}/{z}/{x}/{row}", "getTile", READER, AS_A_WHOLE, _WHERE),
    Call("GET", "/ogc/collections/{collection}/items", "listFeatures", READER, IN_PIECES, _WHERE),
    *map(_of_listed_shapes, (kind for kind in SHAPED if "GET" in kind.operations)),
    *map(_of_many_places, ALL_KINDS.values()),
    Call("POST", "/map/within", "drawWithin", READER, AS_A_WHOLE, ("corners", *_LISTED), "corners"),
    Call("GET", "/live", "followMap", READER, LIVE_STREAM),
    Call("GET", "/events", "listEvents", READER, EVENT_STREAM),
    Call("POST", "/subscriptions", "subscribe", WRITER, AS_A_WHOLE, (*_MANY, *_WHERE), "subscribe_bytes"),
    Call("DELETE", "/subscriptions/{subscription_id}", "unsubscribe", WRITER, AS_A_WHOLE),
    Call("POST", "/positions", "tellPositions", TELLER, AS_A_WHOLE, ("rows",), "body_bytes", narrowed=GETS_NOTHING),
    Call(
        "POST",
        "/forward",
        "answerForwarded",
        SERVER,
        FOR_SERVERS,
        ("connections",),
        "body_bytes",
        narrowed=GETS_NOTHING,
    ),
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
