"""Questions of the page: ``GET /map/nearest``, ``POST /map/within`` and ``GET /map/object/{id}``."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import orjson
from litestar import get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import PathParameter, QueryParameter
from litestar.response.base import ASGIResponse

from dtoss.kinds.searches import DEFAULT_K
from dtoss.serve.answers.json_out import JSON_TYPE, no_object
from dtoss.serve.answers.open_snapshots import ServedSnapshot
from dtoss.serve.answers.responses import Asker, kept_answer, unless_modified
from dtoss.serve.bulk.query_pieces import middles_of
from dtoss.serve.bulk.request_bodies import Bodies, of_corners
from dtoss.serve.core.pool import Stop
from dtoss.serve.core.problems import Problem
from dtoss.serve.map.map_hits import (
    asked_within,
    circle_drawn,
    nearest_drawn,
    object_drawn,
    polygon_drawn,
    positions_in,
)
from dtoss.serve.observability.log_lines import note
from dtoss.serve.rights.sight import sight_of
from dtoss.serve.routes.parameters import Snapshot, Where, check_condition, told
from dtoss.serve.routes.point_queries import evaluate
from dtoss.serve.routes.schemas import (
    ANYTHING,
    NATURAL,
    NUMBER,
    RING,
    STRING,
    Schema,
    also,
    array,
    fields,
    responses,
)
from dtoss.serve.routes.schemas import told as told_schema
from dtoss.serve.state.worker_state import WorkerState

ON_MAP = array(NUMBER, minItems=2, maxItems=2)
CELL_ON_MAP: Schema = {**array(RING), "description": "Coordinates of a Polygon."}
SHAPE_ON_MAP: Schema = {**array(array(RING)), "description": "Coordinates of a MultiPolygon."}
DRAWN = also(fields("DrawnObject", id=STRING, at=ON_MAP), distance=NUMBER, cell=CELL_ON_MAP)
PLACE_DRAWN = fields("DrawnPlace", at=ON_MAP, x=NUMBER, y=NUMBER)
NEAREST_DRAWN = told_schema("DrawnNearest", place=PLACE_DRAWN, hits=array(DRAWN))
WITHIN_DRAWN = also(
    told_schema("DrawnWithin", count=NATURAL, ring=RING, shape=SHAPE_ON_MAP, objects=array(DRAWN)), radius=NUMBER
)
OBJECT_DRAWN = also(
    told_schema(
        "OneDrawnObject", id=STRING, at=ON_MAP, x=NUMBER, y=NUMBER, partition=NATURAL, attributes=ANYTHING
    ),
    neighbours=array(STRING), cell=CELL_ON_MAP, area=NUMBER,
)  # fmt: skip
WITHIN_BODY: dict[str, Any] = {
    "required": True,
    "content": {
        JSON_TYPE.decode(): {
            "schema": fields(
                "ShapeOnMap", (), circle=array(NUMBER, minItems=2, maxItems=4), radius={**NUMBER, "minimum": 0},
                polygon=RING, where=STRING,
            ) | {"additionalProperties": False},
            "example": {"circle": [2.35, 48.85, 2.36, 48.86]},
        }
    },
}  # fmt: skip


def handlers(state: WorkerState, bodies: Bodies) -> list[HTTPRouteHandler]:
    """Return the routes of the page's questions."""
    limits, serving = state.settings.limits, state.serving
    many: Any = QueryParameter(default=DEFAULT_K, ge=1, le=LISTED_K, description="How many of the nearest objects.")

    @get("/map/nearest", opt={"responses": responses(NEAREST_DRAWN)})
    async def nearest(
        request: Asker,
        lon: Annotated[float, QueryParameter(ge=-1e6, le=1e6, description="Of the map, degrees.")],
        lat: Annotated[float, QueryParameter(ge=-90, le=90, description="Of the map, degrees.")],
        k: int = many,
        where: Where = None,
        cells: Annotated[bool, QueryParameter(description="Also the cell of each.")] = True,
        snapshot: Snapshot = None,
    ) -> ASGIResponse:
        """Return the k nearest objects of a place on the map, where they are on it, and their cells."""
        served = serving.named(snapshot)
        if same := unless_modified(request, served):
            return same
        check_condition(where, limits.condition_length)
        sight = sight_of(state, request, served)
        check_alone(served, where or sight.token.where)

        def work(stop: Stop) -> tuple[bytes, tuple[float, float]]:
            (at,) = positions_in(served, [(lon, lat)])
            with told():
                seen = sight.condition(where)
                evaluate(served, seen)
                drawn = nearest_drawn(served, at, k, seen, cells and sight.token.where is None)
                return orjson.dumps(drawn), at

        body, place = await state.pool.run(request, work)
        state.accesses.many(*place, k, None)
        return kept_answer(request, served, body)

    @post("/map/within", status_code=200, opt={"responses": responses(WITHIN_DRAWN, kept=False), "body": WITHIN_BODY})
    async def within(request: Asker, snapshot: Snapshot = None) -> ASGIResponse:
        """Return how many objects lie in a circle or polygon of the map, rim included, and the first of them."""
        served = serving.named(snapshot)
        sight = sight_of(state, request, served)
        async with bodies.of(request, of_corners(limits)) as body:

            def work(stop: Stop) -> tuple[bytes, Any, int]:
                asked = asked_within(body, limits.corners)
                where = asked["where"]
                check_condition(where, limits.condition_length)
                check_alone(served, where or sight.token.where)
                with told():
                    where = sight.condition(where)
                    evaluate(served, where)
                    if "polygon" in asked:
                        corners = positions_in(served, asked["polygon"])
                        drawn, shapes = polygon_drawn(served, corners, where, limits.hits, stop, state.metrics)
                        middles, radii = middles_of(served.index.space, shapes)
                        return orjson.dumps(drawn), (*middles.T, radii), drawn["count"]
                    numbers, radius = asked["circle"], asked["radius"]
                    places = positions_in(served, [numbers[:2], numbers[2:] or numbers[:2]])
                    drawn, radius = circle_drawn(served, places[0], places[1] if radius is None else radius, where)
                    return orjson.dumps(drawn), (*places[0], radius), drawn["count"]

            answer, (x, y, radius), count = await state.pool.run(request, work)
        state.accesses.many(x, y, None, radius)
        note(request.scope, hits=count, positions=np.stack(np.broadcast_arrays(x, y), axis=-1).reshape(-1, 2))
        return kept_answer(request, served, answer)

    @get(["/map/object", "/map/object/{object_id:path}"], opt={"responses": responses(OBJECT_DRAWN)})
    async def one(
        request: Asker,
        object_id: Annotated[str, PathParameter(description="Of the object, such as 42.")] = "",
        id: Annotated[
            str, QueryParameter(description="Of the object, where no path holds it: browsers drop `.` and `..`.")
        ] = "",
        snapshot: Snapshot = None,
    ) -> ASGIResponse:
        """Return an object with its cell and neighbours as the map draws them."""
        text = object_id.removeprefix("/") or id
        served = serving.named(snapshot)
        if same := unless_modified(request, served):
            return same
        sight = sight_of(state, request, served)
        check_alone(served, sight.token.where)

        def work(stop: Stop) -> tuple[bytes, tuple[float, float]]:
            drawn, place = object_drawn(served, text, sight.condition(None), sight.token.columns)
            return orjson.dumps(drawn), place

        try:
            body, place = await state.pool.run(request, work)
        except KeyError:
            raise no_object(served, text) from None
        state.accesses.many(*place, None, None)
        return kept_answer(request, served, body)

    return [nearest, within, one]


def check_alone(served: ServedSnapshot, where: str | None) -> None:
    """Refuse a condition where a server holds a share: it would be evaluated on all partitions.

    Without one the page's questions read files of others where they have to.
    """
    if where and served.share is not None:
        held, all_of_them = len(served.share.held), len(served.share.furthest)
        raise Problem(
            501,
            f"this server holds {held:,} of {all_of_them:,} partitions, and its map asks without conditions: /knn, "
            "/range and /within ask all servers",
            limit="where",
        )


LISTED_K = 100
"""Nearest objects of a question of the page."""
