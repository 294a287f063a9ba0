"""Questions about many places: ``POST /knn``, ``/range``, ``/count``, ``/locate`` and ``/reverse_nearest``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from math import inf
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import orjson
import pyarrow as pa
from litestar import post
from litestar.handlers import HTTPRouteHandler
from litestar.params import QueryParameter
from litestar.response.base import ASGIResponse
from numpy.typing import NDArray

from dtoss.arguments import distances
from dtoss.serve.answers.arrow_out import BATCH_HITS, column_stream
from dtoss.serve.answers.json_out import ARROW_TYPE, JSON_TYPE
from dtoss.serve.answers.open_snapshots import ServedSnapshot
from dtoss.serve.answers.responses import Asker, wants_arrow
from dtoss.serve.bulk.hit_rows import Form, Rows, check_columns, encode_rows, rows_of_hits
from dtoss.serve.bulk.places_in import Places, is_arrow, places_in
from dtoss.serve.bulk.query_pieces import check_hits, count_within, nearest, reversed_nearest, within_radius
from dtoss.serve.bulk.request_bodies import Bodies
from dtoss.serve.core.pool import Stop
from dtoss.serve.observability.audit import counting, note
from dtoss.serve.requests.chunked_responses import answer_in_chunks
from dtoss.serve.requests.hot_requests import DEFAULT_K
from dtoss.serve.rights.sight import Sight, sight_of
from dtoss.serve.routes.parameters import Carry, Having, Ids, Snapshot, Where, check_condition, distance, names_of
from dtoss.serve.routes.point_queries import NO_OBJECT
from dtoss.serve.routes.schemas import (
    ALL_COUNTED,
    HITS,
    ID,
    MISSING,
    NUMBER,
    Schema,
    also,
    array,
    fields,
    responses,
    told,
)
from dtoss.serve.scatter_gather.cluster_index import pieces_of_table, questions_of
from dtoss.serve.state.worker_state import WorkerState
from dtoss.shards.shard_queries import ShardQuery

ALL_LOCATED = also(told("LocatedAll", ids=array(ID)), missing=MISSING)
FEWER_PLACES = "ask about fewer places at a time, or for fewer hits of each"
FEWER_OR_NEARER = "ask about fewer places at a time, or for smaller radii"

Work: TypeAlias = Callable[[Places, Stop], Awaitable[Iterator[bytes]]]
Record: TypeAlias = Callable[[Places], tuple[Any, Any]]


class BatchQuery(NamedTuple):
    """A question about many places: who asks, of which snapshot, what is wanted of hits, and what answers it."""

    state: WorkerState
    request: Asker
    served: ServedSnapshot
    sight: Sight
    questions: Any
    form: Form
    where: str | None

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
    """Return the routes of questions about many places."""
    limits, serving = state.settings.limits, state.serving
    geographic = serving.now.index.space.geographic
    nearest_of: Any = QueryParameter(
        default=DEFAULT_K, ge=1, le=limits.k, description="How many of the nearest objects."
    )
    most, radius_of = distance("At most so far away", wanted=False), distance("How far, of all places", wanted=False)

    def query_of(
        request: Asker,
        snapshot: str | None,
        where: str | None = None,
        having: str | None = None,
        columns: str = "",
        ids: str = "number",
    ) -> BatchQuery:
        served = serving.named(snapshot)
        check_condition(where, limits.condition_length)
        check_condition(having, limits.condition_length, "having")
        form = Form(wants_arrow(request), ids == "string", names_of(columns), having or None)
        sight, questions = sight_of(state, request, served), questions_of(state, served)
        return BatchQuery(state, request, served, sight, questions, form, where)

    @post("/knn", status_code=200, opt=describe_question(HITS, geographic))
    async def many_knn(
        request: Asker,
        k: int = nearest_of,
        max_distance: float | None = most,
        where: Where = None,
        having: Having = None,
        columns: Carry = "",
        ids: Ids = "number",
        snapshot: Snapshot = None,
    ) -> ASGIResponse:
        """Answer with the k nearest objects of each place, ordered by (query, distance, id)."""
        query = query_of(request, snapshot, where, having, columns, ids)
        work = partial(nearest_out, query, k, max_distance)
        return await answer(query, bodies, work, lambda places: (k, max_distance))

    @post("/range", status_code=200, opt=describe_question(HITS, geographic, radius=True))
    async def many_range(
        request: Asker,
        radius: float | None = radius_of,
        where: Where = None,
        having: Having = None,
        columns: Carry = "",
        ids: Ids = "number",
        snapshot: Snapshot = None,
    ) -> ASGIResponse:
        """Answer with all objects within a radius of each place, ordered by (query, distance, id)."""
        query = query_of(request, snapshot, where, having, columns, ids)
        work = partial(within_out, query, radius)
        return await answer(query, bodies, work, lambda places: (None, radii_of(places, radius)), radius=True)

    @post("/count", status_code=200, opt=describe_question(ALL_COUNTED, geographic, radius=True))
    async def many_count(
        request: Asker, radius: float | None = radius_of, where: Where = None, snapshot: Snapshot = None
    ) -> ASGIResponse:
        """Answer with how many objects lie within a radius of each place."""
        query = query_of(request, snapshot, where)
        work = partial(numbers_out, query, radius)
        return await answer(query, bodies, work, lambda places: (None, radii_of(places, radius)), radius=True)

    @post("/locate", status_code=200, opt=describe_question(ALL_LOCATED, geographic))
    async def many_locate(request: Asker, ids: Ids = "number", snapshot: Snapshot = None) -> ASGIResponse:
        """Answer with the object whose cell holds each place: the nearest one, of several the one of the lowest id."""
        query = query_of(request, snapshot, ids=ids)
        return await answer(query, bodies, partial(owners_out, query), lambda places: (1, None))

    @post("/reverse_nearest", status_code=200, opt=describe_question(HITS, geographic))
    async def many_reverse_nearest(request: Asker, ids: Ids = "number", snapshot: Snapshot = None) -> ASGIResponse:
        """Answer with the objects that are nearer to each place than to any other object."""
        query = query_of(request, snapshot, ids=ids)
        return await answer(query, bodies, partial(reverse_nearest_out, query), lambda places: (1, None))

    return [many_knn, many_range, many_count, many_locate, many_reverse_nearest]


def describe_question(answer: Schema, geographic: bool, *, radius: bool = False) -> dict[str, Any]:
    """Return what the OpenAPI text says of a question about many places."""
    body = body_of(geographic, radius=radius)
    return {"responses": responses(answer, arrow=True, kept=False), "body": body}


async def answer(
    query: BatchQuery, bodies: Bodies, work: Work, record: Record, *, radius: bool = False
) -> ASGIResponse:
    """Read the places of a body, answer with what work makes of them, and note them as record says."""
    state, request, held = query.state, query.request, list[Places]()
    limits, space, arrow = state.settings.limits, state.serving.now.index.space, is_arrow(request)
    async with bodies.of(request) as body:

        async def make(stop: Stop) -> Iterator[bytes]:
            places = places_in(body, arrow, space, limits.bulk_queries, stop, radius)
            held.append(places)
            return await work(places, stop)

        response = await answer_in_chunks(state, request, query.served, query.form.kind, make)
    places = held[0]
    note(request.scope, positions=places.positions)
    k, far = record(places)
    state.accesses.many(places.positions[:, 0], places.positions[:, 1], k, far)
    return response


async def nearest_out(
    query: BatchQuery, k: int, max_distance: float | None, places: Places, stop: Stop
) -> Iterator[bytes]:
    """Return the k nearest objects of each place as bytes; in a thread, as all that follow."""
    served, sight, form = query.served, query.sight, query.form
    # how many objects there are in all is not for everybody
    size = k if sight.token.where is not None else min(k, max(len(served.whole), 1))
    check_hits(len(places) * size, query.state.settings.limits.hits, FEWER_PLACES)
    condition = query.seen()
    radius = np.full(len(places), inf if max_distance is None else max_distance)
    if served.share is not None:
        table = await query.questions.table(asked_of(places, radius, size, condition, form), stop)
        full = form.having is None and len(places) > 0 and len(table) == size * len(places)
        return query.rows_out(pieces_of_table(table, form, BATCH_HITS), size if full else None)
    found, every = nearest(served, places.positions, radius, size, condition, form, stop, query.state.metrics)
    return query.rows_out(found, every)


async def within_out(query: BatchQuery, radius: float | None, places: Places, stop: Stop) -> Iterator[bytes]:
    """Return all objects within a radius of each place as bytes."""
    served, form, most = query.served, query.form, query.state.settings.limits.hits
    condition = query.seen()
    radii = radii_of(places, radius)
    if served.share is not None:
        hits = int((await query.questions.counts(places.positions, radii, condition, stop)).sum())
        check_hits(hits, most, FEWER_OR_NEARER)
        table = await query.questions.table(asked_of(places, radii, 0, condition, form), stop)
        return query.rows_out(pieces_of_table(table, form, BATCH_HITS))
    counts = count_within(served, places.positions, radii, condition, stop, query.state.metrics)
    check_hits(int(counts.sum()), most, FEWER_OR_NEARER)
    return query.rows_out(within_radius(served, places.positions, radii, counts, condition, form))


async def numbers_out(query: BatchQuery, radius: float | None, places: Places, stop: Stop) -> Iterator[bytes]:
    """Return how many objects lie within a radius of each place as bytes."""
    condition = query.seen()
    radii = radii_of(places, radius)
    if query.served.share is not None:
        counts = await query.questions.counts(places.positions, radii, condition, stop)
    else:
        counts = count_within(query.served, places.positions, radii, condition, stop, query.state.metrics)
    note(query.request.scope, hits=int(counts.sum()))
    return counts_out(query.served, counts, query.form.arrow)


async def owners_out(query: BatchQuery, places: Places, stop: Stop) -> Iterator[bytes]:
    """Return the object whose cell holds each place as bytes."""
    served, form = query.served, query.form
    if len(served.whole) == 0:
        raise ValueError(NO_OBJECT)
    radius, seen = np.full(len(places), inf), query.seen()
    if served.share is not None:
        table = await query.questions.table(asked_of(places, radius, 1, seen, form), stop)
        pieces = pieces_of_table(table, form, BATCH_HITS)
    else:
        pieces, _ = nearest(served, places.positions, radius, 1, seen, form, stop, query.state.metrics)
    kind = pa.large_string() if served.index.string_ids else pa.int64()
    found = pa.concat_arrays([pa.array([], kind), *(rows.ids.cast(kind) for rows in pieces)])
    if seen is not None and len(found) < len(places):
        raise ValueError(NO_OBJECT)
    note(query.request.scope, hits=len(found))
    if form.arrow:
        return iter([column_stream(served, "id", found)])
    values = found.to_pylist()
    return told_lists(served, "ids", list(map(str, values)) if form.text_ids else values)


async def reverse_nearest_out(query: BatchQuery, places: Places, stop: Stop) -> Iterator[bytes]:
    """Return the objects that are nearer to each place than to any other object as bytes."""
    if query.served.share is not None:
        return query.rows_out([rows_of_hits(await query.questions.reverse_nearest(places.positions, stop))])
    return query.rows_out(reversed_nearest(query.served, places.positions, stop))


def asked_of(places: Places, radius: NDArray[np.float64], k: int, where: str | None, form: Form) -> ShardQuery:
    """Return the question of places as servers ask it each other."""
    return ShardQuery(places.positions, radius, k, where, tuple(form.columns), form.having)


def radii_of(places: Places, radius: float | None) -> NDArray[np.float64]:
    """Return the radius of each place: its own, or the one of all."""
    if places.radius is not None and radius is not None:
        raise ValueError("there is a radius in the URL and one in the body: give one of them")
    if places.radius is not None:
        return places.radius
    if radius is None:
        raise ValueError("there is no radius: give one of all places in the URL, or one of each in the body")
    return distances("radius", radius, len(places))


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
    names = ("lon", "lat") if geographic else ("x", "y")
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
