"""``GET /events``: events of the watch as they are committed, as a stream or as pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeAlias

from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.params import QueryParameter
from litestar.response.base import ASGIResponse

from dtoss.serve.answers import headers_of
from dtoss.serve.delivery.pages import page_behind
from dtoss.serve.delivery.parts import Wanted
from dtoss.serve.delivery.reading import Reading, beginning_of
from dtoss.serve.delivery.stream import EventStream
from dtoss.serve.delivery.watched import home_of, of_watch
from dtoss.serve.pool import Stop
from dtoss.serve.ready import Asker, Ready
from dtoss.serve.routes.schemas import PROBLEM, Schema, array, told
from dtoss.serve.state import WorkerState
from dtoss.watch.told.cursor import Cursor

MOST_EVENTS = 10_000
"""Of a page."""
LAST = "last-event-id"
"""The header in which clients that connect again send the last id that they have."""
EVENT: Schema = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id", "subscription", "kind"]}
EVENTS_PAGE = told(
    watch={"type": "string"}, events=array(EVENT), next={"type": "string"},
    more={"type": "boolean", "description": "Whether there may be more behind next now."},
)  # fmt: skip
_PROBLEM = {"application/problem+json": {"schema": PROBLEM}}
ANSWERS = {
    200: {
        "description": "Events, a line of JSON each, with their ids; a page of them where limit is given.",
        "content": {"text/event-stream": {}, "application/json": {"schema": EVENTS_PAGE}},
    },
    "4XX": {
        "description": "What is wrong with the request; 410 where events behind the id are gone.",
        "content": _PROBLEM,
    },
    "503": {"description": "Too many streams, or the watch cannot be read.", "content": _PROBLEM},
}
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
    list[Literal["enter", "leave", "inside", "reset"]] | None,
    QueryParameter(description="Only events of this kind; may stand again."),
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
        wanted = Wanted(tuple(subscription or ()), tuple(kind or ()))
        last = request.headers.get(LAST) or None
        given, name = (after, "after") if last is None else (last, "Last-Event-ID")

        def begin(stop: Stop) -> Cursor:
            return beginning_of(home, given, name)

        async def run(work: Callable[[Stop], Any]) -> Any:
            with of_watch(state):
                return await state.pool.run(request, work)

        if limit is not None:
            served = state.serving.now
            seconds = state.paces.page * state.settings.limits.pool_seconds
            page = await run(
                lambda stop: page_behind(home, begin(stop), wanted, limit, seconds, served.name, stop, state.sizes)
            )
            state.metrics.sent_events(page.count)
            return Ready(page.body, headers_of(served, len(page.body), None))

        def first(stop: Stop) -> tuple[Reading, tuple[memoryview, int]]:
            reading = Reading(home, begin(stop), wanted, state.sizes.event_part)
            if given is None:
                reading.done = True
                return reading, (memoryview(b""), 0)
            return reading, reading.more(stop)

        reading, found = await run(first)
        return EventStream(state, request, reading, wanted, found)

    return [events]
