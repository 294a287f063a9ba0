"""Subscriptions of the watch: listed for all who may ask, changed by those whose token may write."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, TypeAlias
from urllib.parse import unquote

import orjson
from litestar import delete, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import PathParameter, QueryParameter
from litestar.response.base import ASGIResponse

from dtoss.serve.answers import headers_of
from dtoss.serve.bulk.bodies import Bodies, of_bytes
from dtoss.serve.delivery.subscribing import added, listed, one, removed
from dtoss.serve.delivery.watched import asked_of, home_of, of_watch
from dtoss.serve.front import ADMITTED, REQUEST_ID
from dtoss.serve.problems import Problem
from dtoss.serve.ready import Asker, Ready
from dtoss.serve.routes.schemas import ID, SNAPSHOT, Schema, array, responses, told
from dtoss.serve.state import WorkerState
from dtoss.watch.asked.changing import Changed

MOST_SUBSCRIPTIONS = 10_000
"""Subscriptions of a page."""
USUALLY_LISTED = 1_000
_WHOLE: Schema = {"type": "integer", "minimum": 0}
_TEXT: Schema = {"type": "string"}
SUBSCRIPTION_ROW: Schema = {
    "type": "object",
    "properties": {
        "id": ID,
        "circle": array({"type": "number"}),
        "box": array({"type": "number"}),
        "polygon": {"type": "object"},
        "around": {"type": "object"},
        "where": _TEXT,
        "words": _TEXT,
        "events": array({"enum": ["inside", "enter", "leave"]}),
        "expires": {"anyOf": [_TEXT, {"type": "number"}]},
        "meta": {},
    },
    "required": ["id"],
}
SUBSCRIPTION_SAID: Schema = {
    **SUBSCRIPTION_ROW,
    "properties": {**SUBSCRIPTION_ROW["properties"], "version": _WHOLE, "counts": {"type": "object"}},
}
ONE_SUBSCRIPTION: Schema = {
    "type": "object",
    "properties": {"snapshot": SNAPSHOT, **SUBSCRIPTION_SAID["properties"]},
    "required": ["snapshot", "id"],
}
_PAGE = told(watch=_TEXT, change=_WHOLE, adopted=_WHOLE, count=_WHOLE, subscriptions=array(SUBSCRIPTION_SAID))
_NEXT: Schema = {**_TEXT, "description": "Where the next page begins: after."}
SUBSCRIPTIONS_SAID: Schema = {**_PAGE, "properties": {**_PAGE["properties"], "next": _NEXT}}
CHANGED = told(watch=_TEXT, change=_WHOLE, added=_WHOLE, changed=_WHOLE, removed=_WHOLE, same=_WHOLE)
COLLECTION: Schema = {
    "type": "object",
    "properties": {"type": {"const": "FeatureCollection"}, "features": array({"type": "object"})},
    "required": ["type", "features"],
}
BODY = {
    "required": True,
    "content": {
        "application/json": {"schema": {"anyOf": [array(SUBSCRIPTION_ROW), COLLECTION]}},
        "application/x-ndjson": {"schema": {**_TEXT, "description": "A subscription or a Feature on each line."}},
    },
}
After: TypeAlias = Annotated[str | None, QueryParameter(max_length=4_000, description="The id before the first.")]
Limit: TypeAlias = Annotated[int, QueryParameter(ge=1, le=MOST_SUBSCRIPTIONS, description="Subscriptions of the page.")]
Id: TypeAlias = Annotated[str, PathParameter(description="Of the subscription, such as station.")]


def handlers(state: WorkerState, bodies: Bodies) -> list[HTTPRouteHandler]:
    """Return the routes of subscriptions."""
    settings, serving = state.settings, state.serving
    limits = settings.limits

    def answer(told_of: dict[str, Any]) -> Ready:
        body = orjson.dumps({"snapshot": serving.now.name, **told_of})
        return Ready(body, headers_of(serving.now, len(body), None))

    def check_right(request: Asker) -> None:
        given = request.headers.get("authorization")
        why = None
        if not settings.allow_subscribe:
            why = "the server was started without --allow-subscribe: subscriptions are not changed by requests"
        elif not state.doors.may_write(None if given is None else given.encode("latin-1")):
            why = "the token may only read: its line in the token file has to end in the word write"
        if why is not None:
            state.metrics.not_subscribed("rights")
            raise Problem(403, why, limit="write")

    def changed(request: Asker, done: Changed) -> Ready:
        scope: Any = request.scope
        facts = asdict(done)
        change = facts.pop("number")
        for name in ("added", "changed", "removed"):
            state.metrics.subscribed(name, facts[name])
        state.log.event(
            "subscriptions changed", id=scope[REQUEST_ID], token=scope.get(ADMITTED, ""), change=change, **facts
        )
        return answer({"watch": settings.watch, "change": change, **facts})

    @get("/subscriptions", opt={"responses": responses(SUBSCRIPTIONS_SAID, kept=False)})
    async def all_of_them(request: Asker, after: After = None, limit: Limit = USUALLY_LISTED) -> ASGIResponse:
        """Return the subscriptions of the watch by id, with counts of their events, page by page."""
        pages, served, most = asked_of(state), serving.now, state.sizes.subscriptions_page
        with of_watch(state):
            body = await state.pool.run(request, lambda stop: listed(pages, after, limit, most, served.name, stop))
        return Ready(body, headers_of(served, len(body), None))

    @get("/subscriptions/{subscription_id:path}", opt={"responses": responses(ONE_SUBSCRIPTION, kept=False)})
    async def single(request: Asker, subscription_id: Id) -> ASGIResponse:
        """Return a subscription, with counts of its events."""
        pages, name = asked_of(state), _as_sent(request, subscription_id)
        with of_watch(state):
            found = await state.pool.run(request, lambda stop: one(pages, name))
        return answer(found)

    @post("/subscriptions", status_code=200, opt={"responses": responses(CHANGED, kept=False), "body": BODY})
    async def subscribe(request: Asker) -> ASGIResponse:
        """Add subscriptions, all or none; those of the same id become others. The token has to be one that may write.

        The same body may be sent again: what stands already is left as it is, and told of as same.
        """
        check_right(request)
        home = home_of(state)
        async with bodies.of(request, of_bytes(limits, "subscribe_bytes")) as body:
            try:
                with of_watch(state):
                    done = await state.pool.run(request, lambda stop: added(home, bytes(body), limits, stop))
            except Problem as problem:
                if problem.status in (400, 422):
                    state.metrics.not_subscribed("rows")
                raise
        return changed(request, done)

    @delete("/subscriptions/{subscription_id:path}", status_code=200, opt={"responses": responses(CHANGED, kept=False)})
    async def unsubscribe(request: Asker, subscription_id: Id) -> ASGIResponse:
        """Remove a subscription. The token has to be one that may write."""
        check_right(request)
        home, name = home_of(state), _as_sent(request, subscription_id)
        with of_watch(state):
            done = await state.pool.run(request, lambda stop: removed(home, name))
        return changed(request, done)

    return [all_of_them, single, subscribe, unsubscribe]


def _as_sent(request: Asker, given: str) -> str:
    """Return the id that a target ends in: what the framework gives has lost slashes at its ends, and second ones."""
    _, _, name = request.scope["raw_path"].partition(b"/subscriptions/")
    return unquote(name.decode("latin-1")) if name else given.removeprefix("/")
