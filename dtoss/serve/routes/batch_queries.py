"""Questions about many places: ``POST /knn``, ``/range``, ``/count``, ``/locate`` and ``/reverse_nearest``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from math import inf
from typing import Any, TypeAlias

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
from dtoss.serve.bulk.hit_rows import Form, check_columns, encode_rows, rows_of_hits
from dtoss.serve.bulk.places_in import Places, is_arrow, places_in
from dtoss.serve.bulk.point_batches import check_hits, count_within, nearest, reversed_nearest, within_radius
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


def handlers(state: WorkerState, bodies: Bodies) -> list[HTTPRouteHandler]:
    """Return the routes of questions about many places."""
    limits, serving = state.settings.limits, state.serving
    space = serving.now.index.space
    nearest_of: Any = QueryParameter(
        default=DEFAULT_K, ge=1, le=limits.k, description="How many of the nearest objects."
    )
    most, radius_of = distance("At most so far away", wanted=False), distance("How far, of all places", wanted=False)

    def said(answer: Schema, *, radius: bool = False) -> dict[str, Any]:
        body = body_of(space.geographic, radius=radius)
        return {"responses": responses(answer, arrow=True, kept=False), "body": body}

    async def answer(
        request: Asker, served: ServedSnapshot, kind: bytes, work: Work, radius: bool, record: Record
    ) -> ASGIResponse:
        arrow = is_arrow(request)
        async with bodies.of(request) as body:

            async def make(stop: Stop) -> Iterator[bytes]:
                places = places_in(body, arrow, space, limits.bulk_queries, stop, radius)
                held.append(places)
                return await work(places, stop)

            held: list[Places] = []
            response = await answer_in_chunks(state, request, served, kind, make)
        places = held[0]
        note(request.scope, positions=places.positions)
        k, far = record(places)
        state.accesses.many(places.positions[:, 0], places.positions[:, 1], k, far)
        return response

    def form_of(request: Asker, having: str | None, columns: str, ids: str) -> Form:
        check_condition(having, limits.condition_length, "having")
        return Form(wants_arrow(request), ids == "string", names_of(columns), having or None)

    def evaluate(sight: Sight, where: str | None, form: Form) -> str | None:
        seen = sight.condition(where, form.having, form.columns)
        check_columns(sight.served, form)
        if seen:
            sight.served.conditions.get(seen)
        return seen

    @post("/knn", status_code=200, opt=said(HITS))
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
        served = serving.named(snapshot)
        check_condition(where, limits.condition_length)
        form = form_of(request, having, columns, ids)
        sight, questions = sight_of(state, request, served), questions_of(state, served)

        async def work(places: Places, stop: Stop) -> Iterator[bytes]:
            # how many objects there are in all is not for everybody
            size = k if sight.token.where is not None else min(k, max(len(served.whole), 1))
            check_hits(len(places) * size, limits.hits, FEWER_PLACES)
            condition = evaluate(sight, where, form)
            radius = np.full(len(places), inf if max_distance is None else max_distance)
            if served.share is not None:
                table = await questions.table(asked_of(places, radius, size, condition, form), stop)
                full = form.having is None and len(places) > 0 and len(table) == size * len(places)
                pieces = counting(request.scope, pieces_of_table(table, form, BATCH_HITS))
                return encode_rows(served, pieces, form, size if full else None)
            found, every = nearest(served, places.positions, radius, size, condition, form, stop, state.metrics)
            return encode_rows(served, counting(request.scope, found), form, every)

        return await answer(request, served, form.kind, work, False, lambda places: (k, max_distance))

    @post("/range", status_code=200, opt=said(HITS, radius=True))
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
        served = serving.named(snapshot)
        check_condition(where, limits.condition_length)
        form = form_of(request, having, columns, ids)
        sight, questions = sight_of(state, request, served), questions_of(state, served)

        async def work(places: Places, stop: Stop) -> Iterator[bytes]:
            condition = evaluate(sight, where, form)
            radii = radii_of(places, radius)
            if served.share is not None:
                hits = int((await questions.counts(places.positions, radii, condition, stop)).sum())
                check_hits(hits, limits.hits, FEWER_OR_NEARER)
                table = await questions.table(asked_of(places, radii, 0, condition, form), stop)
                return encode_rows(served, counting(request.scope, pieces_of_table(table, form, BATCH_HITS)), form)
            counts = count_within(served, places.positions, radii, condition, stop, state.metrics)
            check_hits(int(counts.sum()), limits.hits, FEWER_OR_NEARER)
            found = within_radius(served, places.positions, radii, counts, condition, form)
            return encode_rows(served, counting(request.scope, found), form)

        return await answer(request, served, form.kind, work, True, lambda places: (None, radii_of(places, radius)))

    @post("/count", status_code=200, opt=said(ALL_COUNTED, radius=True))
    async def many_count(
        request: Asker, radius: float | None = radius_of, where: Where = None, snapshot: Snapshot = None
    ) -> ASGIResponse:
        """Answer with how many objects lie within a radius of each place."""
        served = serving.named(snapshot)
        check_condition(where, limits.condition_length)
        arrow = wants_arrow(request)
        sight, questions = sight_of(state, request, served), questions_of(state, served)

        async def work(places: Places, stop: Stop) -> Iterator[bytes]:
            condition = evaluate(sight, where, Form(arrow))
            radii = radii_of(places, radius)
            if served.share is not None:
                counts = await questions.counts(places.positions, radii, condition, stop)
            else:
                counts = count_within(served, places.positions, radii, condition, stop, state.metrics)
            note(request.scope, hits=int(counts.sum()))
            return counts_out(served, counts, arrow)

        return await answer(
            request,
            served,
            ARROW_TYPE if arrow else JSON_TYPE,
            work,
            True,
            lambda places: (None, radii_of(places, radius)),
        )

    @post("/locate", status_code=200, opt=said(ALL_LOCATED))
    async def many_locate(request: Asker, ids: Ids = "number", snapshot: Snapshot = None) -> ASGIResponse:
        """Answer with the object whose cell holds each place: the nearest one, of several the one of the lowest id."""
        served = serving.named(snapshot)
        form = Form(wants_arrow(request), ids == "string")
        sight, questions = sight_of(state, request, served), questions_of(state, served)

        async def work(places: Places, stop: Stop) -> Iterator[bytes]:
            if len(served.whole) == 0:
                raise ValueError(NO_OBJECT)
            radius, seen = np.full(len(places), inf), evaluate(sight, None, form)
            if served.share is not None:
                table = await questions.table(asked_of(places, radius, 1, seen, form), stop)
                pieces = pieces_of_table(table, form, BATCH_HITS)
            else:
                pieces, _ = nearest(served, places.positions, radius, 1, seen, form, stop, state.metrics)
            kind = pa.large_string() if served.index.string_ids else pa.int64()
            found = pa.concat_arrays([pa.array([], kind), *(rows.ids.cast(kind) for rows in pieces)])
            if seen is not None and len(found) < len(places):
                raise ValueError(NO_OBJECT)
            note(request.scope, hits=len(found))
            if form.arrow:
                return iter([column_stream(served, "id", found)])
            values = found.to_pylist()
            return told_lists(served, "ids", list(map(str, values)) if form.text_ids else values)

        return await answer(request, served, form.kind, work, False, lambda places: (1, None))

    @post("/reverse_nearest", status_code=200, opt=said(HITS))
    async def many_reverse_nearest(request: Asker, ids: Ids = "number", snapshot: Snapshot = None) -> ASGIResponse:
        """Answer with the objects that are nearer to each place than to any other object."""
        served = serving.named(snapshot)
        form = Form(wants_arrow(request), ids == "string")
        questions = questions_of(state, served)

        async def work(places: Places, stop: Stop) -> Iterator[bytes]:
            if served.share is not None:
                hits = await questions.reverse_nearest(places.positions, stop)
                return encode_rows(served, counting(request.scope, [rows_of_hits(hits)]), form)
            return encode_rows(served, counting(request.scope, reversed_nearest(served, places.positions, stop)), form)

        return await answer(request, served, form.kind, work, False, lambda places: (1, None))

    return [many_knn, many_range, many_count, many_locate, many_reverse_nearest]


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
