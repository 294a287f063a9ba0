"""``GET /events``: events of the watch as they are committed, as a stream or as pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal, TypeAlias, TypeVar

from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.params import QueryParameter
from litestar.response.base import ASGIResponse

from dtoss.serve.answers.responses import Asker, answer_of_now
from dtoss.serve.core.pool import Stop
from dtoss.serve.events.event_chunks import EventFilter
from dtoss.serve.events.event_reader import Reading, beginning_of, page_behind
from dtoss.serve.requests.event_sse import EventStream
from dtoss.serve.requests.served_watch import home_of, of_watch
from dtoss.serve.rights.own_subscriptions import own_of
from dtoss.serve.rights.sight import token_of
from dtoss.serve.routes.schemas import (
    FLAG,
    LONG,
    NUMBER,
    STRING,
    Schema,
    array,
    fields,
    maybe,
    open_ended,
    problems,
    told,
)
from dtoss.serve.state.worker_state import WorkerState
from dtoss.watch.events.cursor import Cursor

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
After: TypeAlias = Annotated[
    str | None,
    QueryParameter(
        max_length=100,
        description="The id of the last event that is known, such as 12-34, or beginning for all that are left. The "
        "header Last-Event-ID comes before it. Without both: what is committed from now on.",
    ),
]
Limit: TypeAlias = Annotated[
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


def handlers(state: WorkerState) -> list[HTTPRouteHandler]:
    """Return the route of events."""

    @get("/events", opt={"responses": ANSWERS})
    async def events(
        request: Asker,
        after: After = None,
        limit: Limit = None,
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
