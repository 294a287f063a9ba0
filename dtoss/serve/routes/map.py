"""What the page of the map is told: ``GET /map`` and what stands below it, and ``/live`` from then on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Annotated, Any

import orjson
from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.params import QueryParameter
from litestar.response.base import ASGIResponse

from dtoss.errors import InputError, StoreError
from dtoss.serve.answers.open_snapshots import ServedSnapshot
from dtoss.serve.answers.responses import Asker, answer_of_now
from dtoss.serve.core.pool import Stop
from dtoss.serve.core.problems import Problem
from dtoss.serve.map.map_files import PageFiles
from dtoss.serve.map.map_state import RATE_DIGITS, TO_ALL, TO_SOME, TO_SUMS
from dtoss.serve.map.subscriptions_in_view import MOST_SHOWN, FenceSource
from dtoss.serve.map.watch_activity import fence_told
from dtoss.serve.requests import chunked_responses
from dtoss.serve.requests.served_watch import no_watch
from dtoss.serve.rights.sight import check_own, condition_as_asked, seen_map, sight_of, token_of
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
    sent_as,
    told,
)
from dtoss.serve.routes.schemas import told as told_schema
from dtoss.serve.routes.tiles import LAYERS, OF_OBJECTS
from dtoss.serve.state.worker_state import WorkerState
from dtoss.serve.tiles.tiling import DEEPEST_TILE
from dtoss.snapshots.lineage import said_by
from dtoss.snapshots.store import Store

CYCLES = 20
"""Commits of the history."""
NO_FILES = PageFiles()
"""What a page is told of the optimiser that may see some objects only."""
_TOLD_OF_CYCLES = ("number", "time", "kind", "snapshot", "objects", "updated", "seconds")
_PLANE = maybe(fields("MapPlane", x0=NUMBER, y1=NUMBER, side=NUMBER))
_COLUMN = fields("MapColumn", name=STRING, type=STRING, kind=STRING, classes=array(STRING))
_REGIONS = fields(
    "MapRegions", objects=array(NATURAL), sites=array(NATURAL), bytes=array(NATURAL), place=array(array(NUMBER))
)
_LAYER = fields("MapLayer", name=STRING, path=STRING, minzoom=NATURAL, maxzoom=NATURAL)
_SERVER = fields("PlannedServer", number=NATURAL, type=STRING, capacity=NUMBER, cost_per_hour=NUMBER, spare=FLAG)
_PLAN = fields(
    "MapPlan", file=STRING, servers=array(_SERVER), server_of=array(maybe(NATURAL)), copies=NATURAL, cost=NUMBER,
    stale=maybe(STRING), problem=maybe(STRING),
)  # fmt: skip
_PATTERNS = fields(
    "MapPatterns", file=STRING, slots=NATURAL, slot_minutes=NUMBER, time_zone=STRING, peak=NUMBER, peak_of_all=NUMBER,
    stale=maybe(STRING),
)  # fmt: skip
_CYCLE = fields(
    "MapCycle", number=NATURAL, time=maybe(STRING), kind=maybe(STRING), snapshot=maybe(STRING), objects=maybe(NATURAL),
    updated=maybe(NATURAL), seconds=maybe(NUMBER),
)  # fmt: skip
_BASEMAP = fields(
    "Basemap", kind=STRING, tiles=STRING, minzoom=NATURAL, maxzoom=NATURAL, bounds=array(NUMBER),
    layers=maybe(array(STRING)), attribution=array(fields("Credit", text=STRING, link=maybe(STRING))),
)  # fmt: skip
MAP = also(
    told(
        "MapFacts", commit=NATURAL, objects=NATURAL, sites=maybe(NATURAL), partitions=NATURAL, made=NUMBER,
        age_seconds=NUMBER, crs=STRING, metric=STRING, unit=STRING, id_type=STRING, plane=_PLANE, view=array(NUMBER),
        sample=NATURAL, refused=maybe(STRING), columns=array(_COLUMN), regions=_REGIONS, layers=array(_LAYER),
        plan=maybe(_PLAN), patterns=maybe(_PATTERNS), report=maybe(STRING), basemap=maybe(_BASEMAP),
        problems=array(STRING), history=array(_CYCLE), token=FLAG, sums=FLAG,
    ),
    nowhere=NATURAL,
)  # fmt: skip
SLOT_LOAD = fields("SlotLoad", slot=NATURAL, load=array(NUMBER))
LIVE_EVENTS = sent_as("text/event-stream", "Events, a line of JSON each with its type.", text=True)


def handlers(state: WorkerState) -> list[HTTPRouteHandler]:
    """Return the routes of the page's facts."""
    serving, showing, settings = state.serving, state.showing, state.settings
    showing.tell_windows(state.windows)
    history = _History(settings.store)

    @get("/map", opt={"responses": responses(MAP, kept=False)})
    async def facts(request: Asker, snapshot: Snapshot = None) -> ASGIResponse:
        """Return all that the page of the map needs first, places in degrees on the map."""
        served = serving.named(snapshot)
        sight = sight_of(state, request, served)
        token = sight.token

        def work(stop: Stop) -> bytes:
            showing.look()
            seen = sight.own()
            files = showing.files if token.sums else NO_FILES
            cycles = token.sums or token.where is None
            return orjson.dumps(
                {
                    "snapshot": served.name,
                    "commit": served.commit,
                    "made": served.made,
                    "age_seconds": round(max(time.time() - served.made, 0.0), 3),
                    "refused": None if token.narrowed else serving.refused,
                    **seen_map(sight, len(served.index) if seen is None else seen.count),
                    "layers": [one for one in _layers(served) if seen is None or one["name"] == OF_OBJECTS],
                    "plan": showing.plan() if token.sums else None,
                    "patterns": showing.patterns() if token.sums else None,
                    "report": None if files.report is None else "/report/",
                    "basemap": _basemap(showing.files, served),
                    "problems": files.problems,
                    "history": history.of((serving.now.commit, serving.refused)) if cycles else [],
                    "token": settings.token_file is not None,
                    "sums": token.sums,
                }
            )

        body = await state.pool.run(request, work)
        return answer_of_now(served, body)

    @get("/map/load", opt={"responses": responses(SLOT_LOAD, kept=False)})
    async def load(
        slot: Annotated[int, QueryParameter(ge=0, lt=86_400, description="Of the day, from 0, such as 93.")],
    ) -> ASGIResponse:
        """Return the requests/s of each partition in a slot of the day, by the patterns that the server was told of."""
        patterns = showing.files.patterns
        if patterns is None:
            raise Problem(404, "the server was told of no patterns: --patterns names them", limit="patterns")
        if slot >= len(patterns.loads):
            most = len(patterns.loads) - 1
            raise Problem(400, f"slot is {slot}: 0 to {most} are there", limit="slot", value=slot, bound=most)
        served = serving.now
        rates = patterns.load(slot, len(served.index.parts))
        return answer_of_now(served, orjson.dumps({"slot": slot, "load": rates.round(RATE_DIGITS).tolist()}))

    @get("/live", opt={"responses": LIVE_EVENTS})
    async def live(request: Asker) -> ASGIResponse:
        """Return events as they come: which snapshot is served, the plan, what is asked, what happens in the watch."""
        return _Events(state, request)

    return [facts, load, live, *subscription_handlers(state)]


def _layers(served: ServedSnapshot) -> list[dict[str, Any]]:
    """Return the layers of tiles, and where theirs are."""
    return [
        {
            "name": name,
            "path": f"/tiles/{served.name}/{name}/{{z}}/{{x}}/{{y}}.mvt",
            "minzoom": served.tiles.shapes.cells_from if name == "cells" else 0,
            "maxzoom": DEEPEST_TILE,
        }
        for name in LAYERS
    ]


def _basemap(files: PageFiles, served: ServedSnapshot) -> dict[str, Any] | None:
    """Return the ground under the map; None without one, and of a plane that has no place on the Earth."""
    earth = served.tiles.frame.plane is None
    return files.basemap.facts() if files.basemap is not None and earth else None


class _History:
    """The last commits of a store, read once for each that is served or refused."""

    def __init__(self, store: str) -> None:
        self._store = store
        self._held: tuple[object, list[dict[str, Any]]] = (None, [])

    def of(self, state: object) -> list[dict[str, Any]]:
        """Return the last commits, newest first; what was last known where the store cannot be read."""
        known, held = self._held
        if known != state:
            try:
                found = map(said_by, islice(Store(self._store).absolute.chain.newest_first(), CYCLES))
                # none where the folder is away
                held = [{name: one[name] for name in _TOLD_OF_CYCLES} for one in found] or held
                self._held = (state, held)
            except (OSError, StoreError):
                pass  # the log and /readyz say that the store is away
        return held


class _Events(ASGIResponse):
    """A stream of events; it ends with its client, or its worker."""

    def __init__(self, state: WorkerState, request: Asker) -> None:
        self.status_code = 200
        self._state = state
        self._request = request

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send it."""
        live, token = self._state.showing.live, token_of(self._request)
        patience, quiet = self._state.settings.limits.idle_seconds, self._state.paces.quiet
        stream = live.open(TO_ALL if not token.narrowed else TO_SUMS if token.sums else TO_SOME)
        try:
            with (
                chunked_responses.listening(self._request, stream.woken) as gone,
                self._state.doors.listening(token, stream.end),
            ):
                await chunked_responses.begin(scope, send)
                event = stream.beginning()
                while not gone.done() and not live.ending and not stream.over:
                    if event:
                        async with asyncio.timeout(patience):
                            await send({"type": "http.response.body", "body": event, "more_body": True})
                    woken = await chunked_responses.was_woken(stream.woken, quiet)
                    event = stream.following() if woken else chunked_responses.NOTHING_NEW
                if not gone.done():
                    await send({"type": "http.response.body", "body": b""})
        except TimeoutError:
            pass  # the connection is closed, as the answer has no end
        finally:
            live.close(stream)


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


def subscription_handlers(state: WorkerState) -> list[HTTPRouteHandler]:
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
