"""Subscriptions of the watch as the page draws them: ``GET /map/subscriptions`` and ``GET /map/subscription``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import orjson
from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.params import QueryParameter
from litestar.response.base import ASGIResponse

from dtoss.errors import InputError, StoreError
from dtoss.serve.answers.responses import Asker, answer_of_now
from dtoss.serve.core.pool import Stop
from dtoss.serve.core.problems import Problem
from dtoss.serve.map.one_subscription import fence_told
from dtoss.serve.map.subscriptions_in_view import MOST_SHOWN, FenceSource
from dtoss.serve.requests.served_watch import no_watch
from dtoss.serve.rights.own_subscriptions import check_own, condition_as_asked
from dtoss.serve.rights.sight import token_of
from dtoss.serve.routes.parameters import Snapshot
from dtoss.serve.routes.schemas import (
    FLAG,
    NATURAL,
    NUMBER,
    RING,
    STRING,
    Schema,
    also,
    array,
    fields,
    maybe,
    responses,
)
from dtoss.serve.routes.schemas import told as told_schema
from dtoss.serve.state.worker_state import WorkerState

DRAWN_FENCE = also(
    fields("DrawnSubscription", id=STRING),
    at={**array(NUMBER), "description": "A place, of what is too small to be seen as more."},
    fill={**array(array(RING)), "description": "Coordinates of a MultiPolygon."},
    edges={**array(RING), "description": "Coordinates of a MultiLineString; the rings of fill if not there."},
)
DRAWN_FENCES = told_schema(
    "DrawnSubscriptions", watch=STRING, mark=STRING, standing=NATURAL, found=NATURAL, shown=NATURAL, drawable=FLAG,
    shapes=array(DRAWN_FENCE),
)  # fmt: skip
_CENTRE = maybe(array(NUMBER))
_PLACE = fields(
    "PlaceAsked", (), circle=array(NUMBER), box=array(NUMBER), everywhere=FLAG, outside=FLAG,
    around=fields("AroundObject", object=STRING, distance=NUMBER, centre=_CENTRE),
    polygon=fields("PolygonSize", parts=NATURAL, corners=NATURAL),
)  # fmt: skip
_COUNTS: Schema = {"type": ["object", "null"], "additionalProperties": NATURAL}
ONE_FENCE = told_schema(
    "OneDrawnSubscription", id=STRING, unit=STRING, place=_PLACE, where=maybe(STRING), words=maybe(STRING),
    wants=array(STRING), version=NATURAL, expires=maybe(STRING), meta=maybe(STRING), counts=_COUNTS,
    view=maybe(array(NUMBER)), drawn={**maybe(DRAWN_FENCE), "title": "DrawnSubscriptionIfAny"},
)  # fmt: skip


@contextmanager
def readable(state: WorkerState) -> Iterator[None]:
    """Make a problem of a watch that cannot be read; the log is told why, and it is counted."""
    try:
        yield
    except (InputError, StoreError, OSError) as error:
        why = " ".join(str(error).split())
        state.watch_not_read(why)
        raise Problem(503, f"the watch cannot be read: {why}", limit="watch", retry_after=5) from None


def handlers(state: WorkerState) -> list[HTTPRouteHandler]:
    """Return the routes of the page's subscriptions."""
    serving, showing = state.serving, state.showing

    def source() -> FenceSource:
        if showing.fences is None:
            raise no_watch()
        return showing.fences

    @get("/map/subscriptions", opt={"responses": responses(DRAWN_FENCES, kept=False)})
    async def subscriptions(
        request: Asker,
        west: Annotated[float, QueryParameter(ge=-1e6, le=1e6, description="Of what is seen, degrees on the map.")],
        south: Annotated[float, QueryParameter(ge=-90, le=90, description="Degrees.")],
        east: Annotated[float, QueryParameter(ge=-1e6, le=1e6, description="Above 180 beyond the antimeridian.")],
        north: Annotated[float, QueryParameter(ge=-90, le=90, description="Degrees.")],
        zoom: Annotated[float, QueryParameter(ge=0, le=24, description="At which it is seen.")],
        snapshot: Snapshot = None,
    ) -> ASGIResponse:
        """Return the subscriptions of what is seen of the map, at most 2,000 of them, and how many there are."""
        served, fences, prefix = serving.named(snapshot), source(), token_of(request).prefix
        if not (west <= east and south <= north):
            raise Problem(400, f"[{west:g}, {south:g}, {east:g}, {north:g}] is no view: west <= east, south <= north",
                          limit="west, south, east, north")  # fmt: skip

        def work(stop: Stop) -> bytes:
            with readable(state):
                now, clock = fences.now()
            now = now if prefix is None else now.of(prefix)
            frame = showing.frame_of(now.marks.space)
            told: dict[str, Any] = {"snapshot": served.name, "watch": fences.home.name, "mark": now.marks.text}
            if frame is None:
                none = {"standing": now.standing(clock), "found": 0, "shown": 0, "shapes": []}
                return orjson.dumps({**told, "drawable": False, **none})
            stop.check()
            seen = now.in_view(frame, (west, south, east, north), zoom, clock, MOST_SHOWN)
            return orjson.dumps({**told, "drawable": True, **seen})

        body = await state.pool.run(request, work)
        return answer_of_now(served, body)

    @get("/map/subscription", opt={"responses": responses(ONE_FENCE, kept=False)})
    async def subscription(
        request: Asker,
        id: Annotated[str, QueryParameter(max_length=4_000, description="Of the subscription.")],
        zoom: Annotated[float, QueryParameter(ge=0, le=24, description="At which it is seen.")] = 12.0,
        snapshot: Snapshot = None,
    ) -> ASGIResponse:
        """Return a subscription: what it asks for, how many events it had, and its place as the map draws it."""
        served, fences, token = serving.named(snapshot), source(), token_of(request)
        check_own(token, id)

        def work(stop: Stop) -> bytes | None:
            with readable(state):
                now, clock = fences.now()
                found = now.row_of(id, clock)
                if found is None:
                    return None
                told = fence_told(fences.home, *found, showing.frame_of(now.marks.space), zoom)
                told["where"] = condition_as_asked(token, told["where"])
            return orjson.dumps({"snapshot": served.name, **told})

        body = await state.pool.run(request, work)
        if body is None:
            raise Problem(404, f"no subscription stands with the id {id[:200]!r}", limit="id", value=id[:200])
        return answer_of_now(served, body)

    return [subscriptions, subscription]
