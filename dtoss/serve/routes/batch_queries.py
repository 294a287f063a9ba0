"""Questions about many places or shapes: a route ``POST /KIND`` for each kind of question."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from litestar import get, post
from litestar.handlers import HTTPRouteHandler
from litestar.response.base import ASGIResponse
from numpy.typing import NDArray

from dtoss.kinds.all_kinds import ALL_KINDS, SHAPED
from dtoss.kinds.kind import About, Kind, Question, Shapes, Tells
from dtoss.kinds.shapes import IN_BOXES, question_of_shapes
from dtoss.names import position_names
from dtoss.serve.answers.json_out import ARROW_TYPE, JSON_TYPE
from dtoss.serve.answers.open_snapshots import ServedSnapshot
from dtoss.serve.answers.responses import Asker, unless_modified, wants_arrow
from dtoss.serve.bulk.query_pieces import (
    BATCH_HITS,
    SMALLER_SHAPES,
    Form,
    Rows,
    check_columns,
    check_hits,
    column_stream,
    count_within,
    encode_rows,
    found_within,
    hits_of_steps,
    list_hits,
    middles_of,
    nearest,
    within_radius,
)
from dtoss.serve.bulk.request_bodies import Bodies, Places, is_arrow, of_corners, places_in, read_shapes
from dtoss.serve.core.pool import Stop
from dtoss.serve.core.problems import Problem
from dtoss.serve.observability.log_lines import counting, note
from dtoss.serve.requests.chunked_responses import answer_in_chunks
from dtoss.serve.rights.sight import Sight, sight_of
from dtoss.serve.routes.parameters import ends_of, names_of, numbers_of, sides, takes
from dtoss.serve.routes.point_queries import NO_OBJECT, conditions
from dtoss.serve.routes.schemas import (
    ALL_COUNTED,
    HITS,
    ID,
    IN_BOX,
    IN_SHAPES,
    MISSING,
    NUMBER,
    SHAPE,
    Schema,
    also,
    array,
    fields,
    responses,
    told,
)
from dtoss.serve.scatter_gather.cluster_index import ClusterIndex, cluster_of, pieces_of_table
from dtoss.serve.state.worker_state import WorkerState

ALL_LOCATED = also(told("LocatedAll", ids=array(ID)), missing=MISSING)
FEWER_PLACES = "ask about fewer places at a time, or for fewer hits of each"
FEWER_OR_NEARER = "ask about fewer places at a time, or for smaller radii"


@dataclass(frozen=True, eq=False)
class Asked:
    """Where a request asks: what the access log has of it."""

    positions: NDArray[np.float64]  # float64 (m, 2). Of a shape a place amid it
    k: int | None
    radius: Any  # Of each or of all; of a shape, how far it reaches from there


@dataclass(frozen=True)
class BatchQuery:
    """A question about many places or shapes: who asks of what, how hits are wanted, and who else answers."""

    kind: Kind[Any]
    given: dict[str, Any]  # What the kind takes
    state: WorkerState
    request: Asker
    served: ServedSnapshot
    sight: Sight
    cluster: ClusterIndex | None  # All servers of the plan; None where this one holds all partitions
    form: Form
    where: str | None
    count: bool  # Whether only numbers are wanted of shapes

    def seen(self) -> str | None:
        """Return the condition on what is seen, evaluated; in a thread."""
        seen = self.sight.condition(self.where, self.form.having, self.form.columns)
        check_columns(self.served, self.form)
        if seen:
            self.served.conditions.get(seen)
        return seen

    def rows_out(self, rows: Iterable[Rows], every: int | None = None) -> Iterator[bytes]:
        """Return hits as bytes, and count them for the log; ``every``: hits of each place, where that is known."""
        return encode_rows(self.served, counting(self.request.scope, rows), self.form, every)


def handlers(state: WorkerState, bodies: Bodies) -> list[HTTPRouteHandler]:
    """Return the routes of questions about many places, and about shapes."""
    one = [route_of(kind, state, bodies, "GET") for kind in SHAPED if "GET" in kind.operations]
    return [*one, *(route_of(kind, state, bodies, "POST") for kind in ALL_KINDS.values())]


def route_of(kind: Kind[Any], state: WorkerState, bodies: Bodies, method: str) -> HTTPRouteHandler:
    """Return the route of a kind of question; one shape stands in the URL."""
    limits, serving, alone = state.settings.limits, state.serving, method == "GET"
    shaped, each = kind.about != About.PLACES, any(one.each for one in kind.parameters)
    bound = of_corners(limits) if kind.about == About.POLYGONS else None

    async def answer(
        request: Asker,
        where: str | None = None,
        having: str | None = None,
        columns: str = "",
        ids: str = "number",
        count: bool = False,
        snapshot: str | None = None,
        **given: Any,
    ) -> ASGIResponse:
        served, space, asked = serving.named(snapshot), serving.now.index.space, list[Asked]()
        if same := unless_modified(request, served):
            return same
        where, having = conditions(limits, where, having)
        if count and having:
            raise Problem(400, "having is a condition on hits, which count=1 does not list: use where", limit="having")
        form = Form(wants_arrow(request), ids == "string", names_of(columns), having, query=not alone)
        sight, cluster = sight_of(state, request, served), cluster_of(state, served)
        query = BatchQuery(kind, given, state, request, served, sight, cluster, form, where, count)
        arrow = not alone and is_arrow(request)
        if arrow and shaped:
            raise Problem(
                415, "shapes are read as JSON: send application/json", limit="content-type", value=ARROW_TYPE.decode()
            )

        async def make(body: bytes | bytearray, stop: Stop) -> Iterator[bytes]:
            if shaped:
                made, about = await shapes_out(query, body, stop)
            else:
                places = places_in(body, arrow, space, limits.bulk_queries, stop, each)
                made = await answer_out(query, places, stop)
                about = Asked(places.positions, *kind.reads(given | radii_of(kind, given, places)))
            asked.append(about)
            return made

        async def answered(body: bytes | bytearray) -> ASGIResponse:
            return await answer_in_chunks(state, request, served, form.kind, partial(make, body))

        if alone:
            response = await answered(orjson.dumps([*given.values()]))
        else:
            async with bodies.of(request, bound) as body:
                response = await answered(body)
        about = asked[0]
        note(request.scope, positions=about.positions)
        x, y = about.positions.T
        state.accesses.many(x, y, about.k, about.radius)
        return response

    geographic = serving.now.index.space.geographic
    schema = {Tells.HITS: HITS, Tells.COUNT: ALL_COUNTED, Tells.ID: ALL_LOCATED}[kind.tells]
    parameters = (sides(geographic) if alone else {}) | numbers_of(kind, limits, many=True) | ends_of(kind)
    says = kind.says if alone else kind.says_of_many
    handler = takes(answer, f"{method}_{kind.name}", f"Answer with {says}.", parameters)
    if alone:
        return get(f"/{kind.name}", opt={"responses": responses(IN_BOX, arrow=True)})(handler)
    body = body_of_shapes(kind) if shaped else body_of(geographic, radius=each)
    said = {"responses": responses(IN_SHAPES if shaped else schema, arrow=True, kept=False), "body": body}
    return post(f"/{kind.name}", status_code=200, opt=said)(handler)


async def shapes_out(query: BatchQuery, body: bytes | bytearray, stop: Stop) -> tuple[Iterator[bytes], Asked]:
    """Return the answer to a question about the shapes of a body as bytes, and where these are; in a thread."""
    served, form, state, cluster = query.served, query.form, query.state, query.cluster
    limits, space = state.settings.limits, state.serving.now.index.space
    written = Shapes("boxes" if query.kind is IN_BOXES and form.query else query.kind.name, bytes(body))
    shapes, corners = read_shapes(written, space, limits, stop)
    seen, most = query.seen(), limits.hits
    counts: NDArray[np.int64] | None = None
    if cluster is None:
        found = found_within(served.index, shapes, corners, seen, most, stop, state.metrics, state.sizes.tested)
        if query.count:
            counts = found.count
        else:
            pieces = list_hits(served, found, form, most)
    else:
        asked = question_of_shapes(written, most, query.count, seen, form.having, form.columns)
        if query.count:
            counts = await cluster.counts(asked, stop)
        else:
            table = await cluster.rows(asked, stop)
            check_hits(len(table), most, SMALLER_SHAPES)
            pieces = pieces_of_table(table, form, BATCH_HITS)
    middles, far = middles_of(served.index.space, shapes)
    where = Asked(middles, None, far)
    if counts is None:
        return query.rows_out(pieces), where
    note(query.request.scope, hits=int(counts.sum()))
    if form.arrow or form.query:
        return counts_out(served, counts, form.arrow), where
    return iter([orjson.dumps({"snapshot": served.name, "count": int(counts[0])})]), where


async def answer_out(query: BatchQuery, places: Places, stop: Stop) -> Iterator[bytes]:
    """Return the answer to a question as bytes; in a thread, as what follows."""
    kind, served, most = query.kind, query.served, query.state.settings.limits.hits
    if kind.tells == Tells.ID and len(served.whole) == 0:
        raise ValueError(NO_OBJECT)
    given = query.given
    if kind.tells == Tells.HITS and (k := given.get("k")) is not None:
        # how many objects there are in all is not for everybody
        given = given | {"k": k if query.sight.token.where is not None else min(k, max(len(served.whole), 1))}
        check_hits(len(places) * given["k"], most, FEWER_PLACES)
    condition = query.seen()
    given = given | radii_of(kind, given, places)
    asked = kind.question(places.positions, given, condition, query.form.having, query.form.columns)
    if kind.tells == Tells.COUNT:
        counts = await counts_of(query, asked, stop)
        note(query.request.scope, hits=int(counts.sum()))
        return counts_out(served, counts, query.form.arrow)
    pieces, every = await pieces_out(query, asked, stop)
    return query.rows_out(pieces, every) if kind.tells == Tells.HITS else owners_out(query, asked, pieces)


async def counts_of(query: BatchQuery, asked: Question[Any], stop: Stop) -> NDArray[np.int64]:
    """Return how many objects each place has."""
    if query.cluster is not None:
        return await query.cluster.counts(asked, stop)
    return count_within(query.served, asked.search, stop, query.state.metrics)


async def pieces_out(query: BatchQuery, asked: Question[Any], stop: Stop) -> tuple[Iterator[Rows], int | None]:
    """Return the hits of all places some at a time, and how many each place has where all have as many."""
    served, form, metrics = query.served, query.form, query.state.metrics
    counted = asked.kind.search is not None and asked.search.k == 0
    counts = await counts_of(query, asked, stop) if counted else None
    if counts is not None:
        check_hits(int(counts.sum()), query.state.settings.limits.hits, FEWER_OR_NEARER)
    if query.cluster is not None:
        table = await query.cluster.rows(asked, stop)
        k = asked.given.get("k")
        full = k is not None and form.having is None and len(asked) > 0 and len(table) == k * len(asked)
        return pieces_of_table(table, form, BATCH_HITS), k if full else None
    if asked.kind.search is None:
        return iter(hits_of_steps(served, asked, stop)), None
    if counts is not None:
        return within_radius(served, asked.search, counts, form), None
    return nearest(served, asked.search, form, stop, metrics)


def owners_out(query: BatchQuery, asked: Question[Any], pieces: Iterator[Rows]) -> Iterator[bytes]:
    """Return the one id of each place as bytes."""
    served, form = query.served, query.form
    kind = pa.large_string() if served.index.string_ids else pa.int64()
    found = pa.concat_arrays([pa.array([], kind), *(rows.ids.cast(kind) for rows in pieces)])
    if asked.where is not None and len(found) < len(asked):
        raise ValueError(NO_OBJECT)
    note(query.request.scope, hits=len(found))
    if form.arrow:
        return iter([column_stream(served, "id", found)])
    values = found.to_pylist()
    return told_lists(served, "ids", list(map(str, values)) if form.text_ids else values)


def radii_of(kind: Kind[Any], given: dict[str, Any], places: Places) -> dict[str, Any]:
    """Return the radius of each place, where the kind takes one: its own, or the one of all."""
    if not any(one.each for one in kind.parameters):
        return {}
    radius = given["radius"]
    if places.radius is not None and radius is not None:
        raise ValueError("there is a radius in the URL and one in the body: give one of them")
    if places.radius is not None:
        return {"radius": places.radius}
    if radius is None:
        raise ValueError("there is no radius: give one of all places in the URL, or one of each in the body")
    return {}


def counts_out(served: ServedSnapshot, counts: NDArray[np.int64], arrow: bool) -> Iterator[bytes]:
    """Return numbers as JSON or as an Arrow stream with the column count."""
    if arrow:
        return iter([column_stream(served, "count", pa.array(counts))])
    return told_lists(served, "counts", counts.tolist())


def told_lists(served: ServedSnapshot, name: str, values: list[Any]) -> Iterator[bytes]:
    """Return a list as JSON, with the snapshot's name."""
    return iter([orjson.dumps({"snapshot": served.name, name: values})])


def body_of(geographic: bool, *, radius: bool = False) -> dict[str, Any]:
    """Return how the OpenAPI text describes a body of places."""
    place = array(NUMBER, minItems=2, maxItems=2)
    properties: Schema = {"positions": array(place)}
    example: Schema = {"positions": [[2.35, 48.86], [13.4, 52.52]]}
    if radius:
        # a choice of a number and a list would be a type of its own in many languages
        far = array({**NUMBER, "minimum": 0})
        properties["radius"] = far | {"description": "Of each place; one number, of all, is read too."}
        example["radius"] = [1000.0, 500.0]
    names = position_names(geographic)
    title = "PlacesWithRadii" if radius else "Places"
    schema = fields(title, ("positions",), **properties) | {"additionalProperties": False}
    stream = f"An Arrow IPC stream with the columns {', '.join(names)}{' and perhaps radius' if radius else ''}."
    return {
        "required": True,
        "content": {
            JSON_TYPE.decode(): {"schema": schema, "example": example},
            ARROW_TYPE.decode(): {"schema": {"type": "string", "format": "binary", "description": stream}},
        },
    }


def body_of_shapes(kind: Kind[Any]) -> dict[str, Any]:
    """Return how the OpenAPI text describes a body of boxes, or of polygons."""
    schema: Schema = SHAPE
    example: Schema = {"boxes": [[2.2, 48.8, 2.5, 48.9]]}
    if kind.about == About.BOXES:
        box = array(NUMBER, minItems=4, maxItems=4)
        schema = fields("Boxes", boxes=array(box)) | {"additionalProperties": False}
    else:
        ring = [[2.2, 48.8], [2.5, 48.8], [2.35, 48.9], [2.2, 48.8]]
        example = {"type": "Polygon", "coordinates": [ring]}
    said = {"required": True, "content": {JSON_TYPE.decode(): {"schema": schema, "example": example}}}
    # a choice of a shape and a list of them is no type in Java; a collection says the same
    more = {"description": "GeoJSON; a list of shapes is read as a FeatureCollection."}
    return said | more if kind.about == About.POLYGONS else said
