"""The watch by requests: its subscriptions, listed and changed, and its events as a stream or as pages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any, Literal, TypeAlias, TypeVar
from urllib.parse import unquote

import orjson
from litestar import delete, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import PathParameter, QueryParameter
from litestar.response.base import ASGIResponse

from dtoss.serve.answers.responses import Asker, Ready, answer_of_now, header_of
from dtoss.serve.bulk.request_bodies import Bodies, of_bytes
from dtoss.serve.core.pool import Stop
from dtoss.serve.core.problems import Problem
from dtoss.serve.events.event_reader import EventFilter, Reading, beginning_of, page_behind
from dtoss.serve.requests.chunked_responses import EventStream
from dtoss.serve.requests.front import REQUEST_ID
from dtoss.serve.requests.served_watch import (
    add_subscriptions,
    asked_of,
    home_of,
    list_subscriptions,
    of_watch,
    one,
    remove_subscription,
)
from dtoss.serve.rights.sight import check_own, own_of, token_of
from dtoss.serve.routes.schemas import (
    ANYTHING,
    FLAG,
    LONG,
    MULTI_POLYGON,
    NATURAL,
    NUMBER,
    POINT,
    POLYGON_SCHEMA,
    POLYGONAL,
    SNAPSHOT,
    STRING,
    Schema,
    also,
    array,
    choice,
    fields,
    geojson,
    maybe,
    one_of,
    open_ended,
    problems,
    responses,
    told,
)
from dtoss.serve.state.worker_state import WorkerState
from dtoss.watch.events.readers import Cursor
from dtoss.watch.subscriptions.changes import Change

MOST_SUBSCRIPTIONS = 10_000
"""Subscriptions of a page."""
USUALLY_LISTED = 1_000
SUBSCRIPTION_EVENT = choice("SubscriptionEvent", inside="ON_INSIDE", enter="ON_ENTER", leave="ON_LEAVE")
EXPIRES: Schema = {"title": "Expires", "anyOf": [STRING, NUMBER], "description": "ISO 8601, or seconds since 1970."}
_AROUND = fields("Around", object=STRING, metres={**NUMBER, "description": "Units of the CRS in the plane."})
_NUMBERS = array(NUMBER)
SUBSCRIPTION_ROW = also(
    fields("Subscription", id={**STRING, "description": "A number is read as its digits."}),
    circle={**_NUMBERS, "minItems": 3, "maxItems": 3, "description": "lon, lat (x, y) and radius."},
    box={**_NUMBERS, "minItems": 4, "maxItems": 4, "description": "west, south, east, north."},
    polygon=POLYGONAL,
    around=_AROUND,
    where=STRING,
    words=STRING,
    events=array(SUBSCRIPTION_EVENT),
    expires=EXPIRES,
    meta={"description": "Any JSON: told with each event."},
)
_FEATURE = also(
    geojson("Feature", geometry=one_of("SubscriptionPlace", POINT, POLYGON_SCHEMA, MULTI_POLYGON)),
    properties={**ANYTHING, "description": "Other fields of the subscription; of a Point its radius."},
    id=STRING,
) | {"title": "SubscriptionFeature"}
SUBSCRIPTION_FEATURES = geojson("FeatureCollection", features=array(_FEATURE)) | {"title": "SubscriptionFeatures"}
_COUNTS: Schema = {"type": "object", "additionalProperties": NATURAL, "description": "Of events, by kind."}
SUBSCRIPTION_SAID: Schema = {**also(SUBSCRIPTION_ROW, version=NATURAL, counts=_COUNTS), "title": "SubscriptionAnswer"}
ONE_SUBSCRIPTION: Schema = {
    **also(SUBSCRIPTION_SAID, snapshot=SNAPSHOT), "title": "OneSubscription", "required": ["snapshot", "id"],
}  # fmt: skip
_NEXT: Schema = {**STRING, "description": "Where the next page begins: after."}
SUBSCRIPTIONS_SAID = also(
    told(
        "Subscriptions",
        watch=STRING,
        change=NATURAL,
        adopted=NATURAL,
        count=NATURAL,
        subscriptions=array(SUBSCRIPTION_SAID),
    ),
    next=_NEXT,
)
CHANGED = told("Changed", watch=STRING, change=NATURAL, added=NATURAL, changed=NATURAL, removed=NATURAL, same=NATURAL)
BODY = {
    "required": True,
    "content": {
        "application/json": {
            "schema": array(SUBSCRIPTION_ROW),
            "example": [{"id": "station", "circle": [2.3522, 48.8566, 400.0], "events": ["enter", "leave"]}],
        },
        "application/geo+json": {"schema": SUBSCRIPTION_FEATURES},
        "application/x-ndjson": {"schema": {**STRING, "description": "A subscription or a Feature on each line."}},
    },
}
AfterId: TypeAlias = Annotated[str | None, QueryParameter(max_length=4_000, description="The id before the first.")]
Limit: TypeAlias = Annotated[int, QueryParameter(ge=1, le=MOST_SUBSCRIPTIONS, description="Subscriptions of the page.")]
Id: TypeAlias = Annotated[str, PathParameter(description="Of the subscription, such as station.")]


def handlers(state: WorkerState, bodies: Bodies) -> list[HTTPRouteHandler]:
    """Return the routes of subscriptions."""
    settings, serving = state.settings, state.serving
    limits = settings.limits

    def answer(told_of: dict[str, Any]) -> Ready:
        return answer_of_now(serving.now, orjson.dumps({"snapshot": serving.now.name, **told_of}))

    def check_right(request: Asker) -> None:
        why = None
        if not settings.allow_subscribe:
            why = "the server was started without --allow-subscribe: subscriptions are not changed by requests"
        elif not state.doors.may_write(header_of(request, "authorization")):
            why = "the token may only read: its line in the token file has to have the word subscribe"
        if why is not None:
            state.metrics.not_subscribed("rights")
            raise Problem(403, why, limit="write")

    def changed(request: Asker, done: Change) -> Ready:
        scope: Any = request.scope
        facts = asdict(done)
        change = facts.pop("number")
        for name in ("added", "changed", "removed"):
            state.metrics.subscribed(name, facts[name])
        state.log.event(
            "subscriptions changed", id=scope[REQUEST_ID], token=token_of(request).name, change=change, **facts
        )
        return answer({"watch": settings.watch, "change": change, **facts})

    @get("/subscriptions", opt={"responses": responses(SUBSCRIPTIONS_SAID, kept=False)})
    async def all_of_them(request: Asker, after: AfterId = None, limit: Limit = USUALLY_LISTED) -> ASGIResponse:
        """Return the subscriptions of the watch by id, with counts of their events, page by page."""
        pages, served, most = asked_of(state), serving.now, state.sizes.subscriptions_page
        token = token_of(request)
        with of_watch(state):
            body = await state.pool.run(
                request, lambda stop: list_subscriptions(pages, after, limit, most, served.name, stop, token)
            )
        return answer_of_now(served, body)

    @get("/subscriptions/{subscription_id:path}", opt={"responses": responses(ONE_SUBSCRIPTION, kept=False)})
    async def single(request: Asker, subscription_id: Id) -> ASGIResponse:
        """Return a subscription, with counts of its events."""
        pages, name, token = asked_of(state), _as_sent(request, subscription_id), token_of(request)
        check_own(token, name)
        with of_watch(state):
            found = await state.pool.run(request, lambda stop: one(pages, name, token))
        return answer(found)

    @post("/subscriptions", status_code=200, opt={"responses": responses(CHANGED, kept=False), "body": BODY})
    async def subscribe(request: Asker) -> ASGIResponse:
        """Add subscriptions, all or none; those of the same id become others. The token has to subscribe.

        The same body may be sent again: what stands already is left as it is, and told of as same.
        """
        check_right(request)
        home, token = home_of(state), token_of(request)
        async with bodies.of(request, of_bytes(limits, "subscribe_bytes")) as body:
            try:
                with of_watch(state):
                    done = await state.pool.run(
                        request, lambda stop: add_subscriptions(home, bytes(body), limits, stop, token)
                    )
            except Problem as problem:
                if problem.status in (400, 422):
                    state.metrics.not_subscribed("rows")
                raise
        return changed(request, done)

    @delete("/subscriptions/{subscription_id:path}", status_code=200, opt={"responses": responses(CHANGED, kept=False)})
    async def unsubscribe(request: Asker, subscription_id: Id) -> ASGIResponse:
        """Remove a subscription. The token has to be one that subscribes."""
        check_right(request)
        home, name = home_of(state), _as_sent(request, subscription_id)
        check_own(token_of(request), name)
        with of_watch(state):
            done = await state.pool.run(request, lambda stop: remove_subscription(home, name))
        return changed(request, done)

    return [all_of_them, single, subscribe, unsubscribe]


def _as_sent(request: Asker, given: str) -> str:
    """Return the id that a target ends in: what the framework gives has lost slashes at its ends, and second ones."""
    _, _, name = request.scope["raw_path"].partition(b"/subscriptions/")
    return unquote(name.decode("latin-1")) if name else given.removeprefix("/")


T = TypeVar("T")
MOST_EVENTS = 10_000
"""Of a page."""
LAST = "last-event-id"
"""The header in which clients that connect again send the last id that they have."""
EVENT_KIND: Schema = {
    "title": "EventKind",
    "type": "string",
    "enum": ["enter", "leave", "cross", "dwell", "inside", "reset"],
}
WATCHED_ID: Schema = {
    "type": ["integer", "string", "null"], "format": "int64",
    "description": "The object as its rows have it; numbers above 2^53 lose digits where numbers are float64.",
}  # fmt: skip
_MOMENT: Schema = {"type": ["string", "number", "null"], "description": "ISO 8601, or seconds since 1970."}
_NUMBER, _TEXT = maybe(NUMBER), maybe(STRING)
EVENT = open_ended(
    fields(
        "Event", ("id", "subscription", "kind"), id=STRING, subscription=STRING, version=maybe(LONG), kind=EVENT_KIND,
        object=WATCHED_ID, t=_MOMENT, t_before=_MOMENT, t_cross=_MOMENT, near=WATCHED_ID,
        lon=_NUMBER, lat=_NUMBER, x=_NUMBER, y=_NUMBER, distance=_NUMBER, batch=LONG, reason=_TEXT,
        meta={"description": "Any JSON: that of the subscription."},
    )
)  # fmt: skip
EVENTS_PAGE = told(
    "EventsPage", watch=STRING, events=array(EVENT), next={**STRING, "description": "For after."},
    more={**FLAG, "description": "Whether there may be more behind next now."},
)  # fmt: skip
ANSWERS = {
    200: {
        "description": "Events, a line of JSON each, with their ids; a page of them where limit is given.",
        "content": {"application/json": {"schema": EVENTS_PAGE}, "text/event-stream": {"schema": STRING}},
    }
} | problems("What is wrong with the request; 410 where events behind the id are gone.")
AfterEvent: TypeAlias = Annotated[
    str | None,
    QueryParameter(
        max_length=100,
        description="The id of the last event that is known, such as 12-34, or beginning for all that are left. The "
        "header Last-Event-ID comes before it. Without both: what is committed from now on.",
    ),
]
EventLimit: TypeAlias = Annotated[
    int | None,
    QueryParameter(ge=1, le=MOST_EVENTS, description="A page of so many events, at the most, and no stream."),
]
Subscriptions: TypeAlias = Annotated[
    list[str] | None, QueryParameter(description="Only events of this subscription; may stand again.")
]
Kinds: TypeAlias = Annotated[
    list[Literal["enter", "leave", "cross", "dwell", "inside", "reset"]] | None,
    QueryParameter(title=EVENT_KIND["title"], description="Only events of this kind; may stand again."),
]


def event_handlers(state: WorkerState) -> list[HTTPRouteHandler]:
    """Return the route of events."""

    @get("/events", opt={"responses": ANSWERS})
    async def events(
        request: Asker,
        after: AfterEvent = None,
        limit: EventLimit = None,
        subscription: Subscriptions = None,
        kind: Kinds = None,
    ) -> ASGIResponse:
        """Return the events of the watch in their order, each once, as server-sent events; as a page with limit."""
        home = home_of(state)
        own = own_of(token_of(request))
        wanted = EventFilter(tuple(subscription or ()), tuple(kind or ()), own)
        last = request.headers.get(LAST) or None
        given, name = (after, "after") if last is None else (last, "Last-Event-ID")

        def begin(stop: Stop) -> Cursor:
            return beginning_of(home, given, name, own=own is not None)

        async def run(work: Callable[[Stop], T]) -> T:
            with of_watch(state):
                return await state.pool.run(request, work)

        if limit is not None:
            served = state.serving.now
            seconds = state.paces.page * state.settings.limits.pool_seconds
            page = await run(
                lambda stop: page_behind(home, begin(stop), wanted, limit, seconds, served.name, stop, state.sizes)
            )
            state.metrics.sent_events(page.count)
            return answer_of_now(served, page.body)

        def first(stop: Stop) -> tuple[Reading, tuple[memoryview, int]]:
            reading = Reading(home, begin(stop), wanted, state.sizes.event_part)
            if given is None:
                reading.done = True
                return reading, (memoryview(b""), 0)
            return reading, reading.more(stop)

        reading, found = await run(first)
        return EventStream(state, request, reading, wanted, found)

    return [events]
