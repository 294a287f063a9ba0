"""Questions about boxes and polygons: ``GET`` and ``POST /box``, ``POST /within``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import orjson
from litestar import get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import QueryParameter
from litestar.response.base import ASGIResponse
from numpy.typing import NDArray

from dtoss.geometry.distance import distance
from dtoss.queries.covered import Shape
from dtoss.serve.answers.arrow_out import BATCH_HITS
from dtoss.serve.answers.json_out import ARROW_TYPE, JSON_TYPE
from dtoss.serve.answers.open_snapshots import ServedSnapshot
from dtoss.serve.answers.responses import Asker, unless_modified, wants_arrow
from dtoss.serve.bulk.hit_rows import Form, check_columns, encode_rows
from dtoss.serve.bulk.places_in import is_arrow, read_shapes
from dtoss.serve.bulk.query_pieces import found_within, list_hits
from dtoss.serve.bulk.request_bodies import Bodies, Bound, of_corners
from dtoss.serve.core.pool import Stop
from dtoss.serve.core.problems import Problem
from dtoss.serve.core.server_settings import Limits
from dtoss.serve.observability.audit import counting, note
from dtoss.serve.requests.chunked_responses import answer_in_chunks
from dtoss.serve.rights.sight import sight_of
from dtoss.serve.routes.batch_queries import counts_out
from dtoss.serve.routes.parameters import SAID_OF_OBJECTS, Ids, Snapshot, check_condition, names_of, takes
from dtoss.serve.routes.schemas import IN_BOX, IN_SHAPES, NUMBER, SHAPE, array, fields, responses
from dtoss.serve.scatter_gather.cluster_index import cluster_of, pieces_of_table
from dtoss.serve.state.worker_state import WorkerState


def handlers(state: WorkerState, bodies: Bodies) -> list[HTTPRouteHandler]:
    """Return the routes of questions about boxes and polygons."""
    limits, index = state.settings.limits, state.serving.now.index
    one = "Answer with all objects in a box, ordered by id; one whose west is greater crosses the antimeridian."
    box = take_shapes(state, bodies, "box", one, sides(index.space.geographic))
    each = "Answer with all objects in each box, ordered by (query, id)."
    boxes = take_shapes(state, bodies, "boxes", each)
    within = "Answer with all objects within polygons or on their edges, ordered by (query, id)."
    polygons = take_shapes(state, bodies, "within", within, bound=of_corners(limits))
    return [
        get("/box", opt={"responses": responses(IN_BOX, arrow=True)})(box),
        post("/box", status_code=200, opt=said(boxes_body()))(boxes),
        post("/within", status_code=200, opt=said(polygon_body()))(polygons),
    ]


def take_shapes(
    state: WorkerState,
    bodies: Bodies,
    kind: str,
    says: str,
    numbers: dict[str, tuple[Any, Any]] | None = None,
    bound: Bound | None = None,
) -> Callable[..., Any]:
    """Return what answers about the shapes of a body, or of numbers in the URL."""
    limits, serving = state.settings.limits, state.serving

    async def shapes(
        request: Asker, where: str | None, having: str | None, columns: str, ids: str, count: bool,
        snapshot: str | None, **numbers: float,
    ) -> ASGIResponse:  # fmt: skip
        served = serving.named(snapshot)
        if same := unless_modified(request, served):
            return same
        form = form_of(limits, request, where, having, columns, ids, count)
        if numbers:
            return await answer(state, request, served, form, where, count, kind, orjson.dumps([*numbers.values()]))
        no_arrow(request)
        async with bodies.of(request, bound) as body:
            return await answer(state, request, served, form, where, count, kind, body)

    counted = QueryParameter(default=False, description="Only how many objects there are, and no list.")
    more = {"ids": (Ids, "number"), "count": (bool, counted), "snapshot": (Snapshot, None)}
    return takes(shapes, f"in_{kind}", says, (numbers or {}) | SAID_OF_OBJECTS | more)


def form_of(
    limits: Limits, request: Asker, where: str | None, having: str | None, columns: str, ids: str, count: bool
) -> Form:
    """Return how hits are wanted, or refuse that."""
    check_condition(where, limits.condition_length)
    check_condition(having, limits.condition_length, "having")
    if count and having:
        raise Problem(400, "having is a condition on hits, which count=1 does not list: use where", limit="having")
    return Form(
        wants_arrow(request), ids == "string", names_of(columns), having or None, query=request.method == "POST"
    )


async def answer(
    state: WorkerState,
    request: Asker,
    served: ServedSnapshot,
    form: Form,
    where: str | None,
    count: bool,
    kind: str,
    text: bytes | bytearray,
) -> ASGIResponse:
    """Answer with what lies in the shapes of a text, and note where these are."""
    limits, space = state.settings.limits, state.serving.now.index.space
    middles: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []
    sight, cluster = sight_of(state, request, served), cluster_of(state, served)

    async def make(stop: Stop) -> Iterator[bytes]:
        shapes, corners = read_shapes(kind, text, space, limits, stop)
        seen = sight.condition(where, form.having, form.columns)
        check_columns(served, form)
        if seen:
            served.conditions.get(seen)
        if cluster is None:
            found = found_within(
                served.index, shapes, corners, seen, limits.hits, stop, state.metrics, state.sizes.tested
            )
            middles.append(middles_of(served, shapes))
            if not count:
                return encode_rows(served, counting(request.scope, list_hits(served, found, form, limits.hits)), form)
            numbers = found.count
        else:
            told = await cluster.shapes(kind, bytes(text), seen, form, count, len(shapes), stop)
            middles.append(middles_of(served, shapes))
            if not count:
                return encode_rows(served, counting(request.scope, pieces_of_table(told, form, BATCH_HITS)), form)
            numbers = told
        note(request.scope, hits=int(numbers.sum()))
        if form.arrow or form.query:
            return counts_out(served, numbers, form.arrow)
        return iter([orjson.dumps({"snapshot": served.name, "count": int(numbers[0])})])

    response = await answer_in_chunks(state, request, served, form.kind, make)
    positions, radii = middles[0]
    note(request.scope, positions=positions)
    state.accesses.many(positions[:, 0], positions[:, 1], None, radii)
    return response


def middles_of(served: ServedSnapshot, shapes: list[list[Shape]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return for each shape a place amid the discs that cover it, and how far from there the furthest of them reaches.

    That is what the access log has of a shape.
    """
    space = served.index.space
    vectors, radii = [], []
    for whole in shapes:
        if not whole:
            continue
        centres = np.concatenate([shape.discs.centres for shape in whole])
        middle = centres.mean(axis=0)
        if space.dimension == 3:
            length = float(np.linalg.norm(middle))
            middle = middle / length if length > 1e-9 else centres[0]
        reach = distance(centres, np.broadcast_to(middle, centres.shape))
        radii.append(float((reach + np.concatenate([shape.discs.radii for shape in whole])).max()))
        vectors.append(middle)
    return space.positions(np.array(vectors).reshape(-1, space.dimension)), np.array(radii)


def no_arrow(request: Asker) -> None:
    """Refuse a body that is an Arrow stream."""
    if is_arrow(request):
        raise Problem(
            415, "shapes are read as JSON: send application/json", limit="content-type", value=ARROW_TYPE.decode()
        )


def sides(geographic: bool) -> dict[str, tuple[Any, Any]]:
    """Return the parameters of a box, named as the space's coordinates are."""
    x, y = ((-180, 180), (-90, 90)) if geographic else ((-1e90, 1e90), (-1e90, 1e90))
    names = ("west", "south", "east", "north") if geographic else ("xmin", "ymin", "xmax", "ymax")
    unit = "Degrees" if geographic else "Units of the CRS"
    return {
        side: (float, QueryParameter(name=name, ge=low, le=high, description=f"{unit}; the box is closed."))
        for side, name, (low, high) in zip(("west", "south", "east", "north"), names, (x, y, x, y), strict=True)
    }


def said(body: dict[str, Any]) -> dict[str, Any]:
    """Return what the OpenAPI text says of a question about shapes."""
    return {"responses": responses(IN_SHAPES, arrow=True, kept=False), "body": body}


def boxes_body() -> dict[str, Any]:
    """Return how the OpenAPI text describes a body of boxes."""
    box = array(NUMBER, minItems=4, maxItems=4)
    schema = fields("Boxes", boxes=array(box)) | {"additionalProperties": False}
    return _body(schema, {"boxes": [[2.2, 48.8, 2.5, 48.9]]})


def polygon_body() -> dict[str, Any]:
    """Return how the OpenAPI text describes a body of polygons."""
    ring = [[2.2, 48.8], [2.5, 48.8], [2.35, 48.9], [2.2, 48.8]]
    said = _body(SHAPE, {"type": "Polygon", "coordinates": [ring]})
    # a choice of a shape and a list of them is no type in Java; a collection says the same
    return said | {"description": "GeoJSON; a list of shapes is read as a FeatureCollection."}


def _body(schema: dict[str, Any], example: Any) -> dict[str, Any]:
    return {"required": True, "content": {JSON_TYPE.decode(): {"schema": schema, "example": example}}}
