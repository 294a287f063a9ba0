"""Questions about one place: ``GET /knn``, ``/range``, ``/count``, ``/locate`` and ``/reverse_nearest``."""

from __future__ import annotations

from math import inf
from typing import Any, NamedTuple

import orjson
from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.params import QueryParameter
from litestar.response.base import ASGIResponse

from dtoss.conditions.matching_objects import schema_of
from dtoss.conditions.parse import parse_condition
from dtoss.hits import Hits
from dtoss.index import Index
from dtoss.serve.answers.open_snapshots import ServedSnapshot
from dtoss.serve.answers.responses import Asker, json_answer, unless_modified, wants_arrow
from dtoss.serve.core.cursors import Cursor, first_of_page, question_sum, write_cursor
from dtoss.serve.core.pool import Stop
from dtoss.serve.core.problems import Problem
from dtoss.serve.core.server_settings import Limits
from dtoss.serve.observability.audit import hits_in, note
from dtoss.serve.requests.chunked_responses import answer_of_hits
from dtoss.serve.requests.hot_places import ask
from dtoss.serve.requests.hot_requests import DEFAULT_K, Target
from dtoss.serve.requests.request_batches import KNN, MOST, RANGE, Gathering
from dtoss.serve.rights.sight import Sight, sight_of
from dtoss.serve.routes.parameters import (
    Carry,
    Having,
    Ids,
    Snapshot,
    Where,
    check_condition,
    coordinates,
    distance,
    names_of,
    told,
)
from dtoss.serve.routes.schemas import COUNT, HITS, LOCATED, PAGE, responses
from dtoss.serve.scatter_gather.cluster_index import questions_of
from dtoss.serve.state.worker_state import WorkerState

NO_OBJECT = "the index is empty: no object owns a place"
"""Said where there is none, or none that is seen."""


class PlaceQuery(NamedTuple):
    """A question about one place: what answers it, what its token sees, and what it wants."""

    questions: Any
    sight: Sight
    at: tuple[float, float]
    where: str | None = None
    having: str | None = None
    columns: str = ""


def handlers(state: WorkerState, gathering: Gathering) -> list[HTTPRouteHandler]:
    """Return the routes of questions about one place."""
    limits, serving = state.settings.limits, state.serving
    x_of, y_of = coordinates(serving.now.index.space)
    nearest: Any = QueryParameter(default=DEFAULT_K, ge=1, le=limits.k, description="How many of the nearest objects.")
    page_size: Any = QueryParameter(default=None, ge=1, le=limits.hits, description="Hits of a page.")
    begin_of: Any = QueryParameter(default=None, max_length=2_000, description="The `next` of the page before.")
    most, radius_of = distance("At most so far away", wanted=False), distance("How far")

    @get("/knn", opt={"responses": responses(HITS, arrow=True)})
    async def knn(
        request: Asker,
        x: float = x_of,
        y: float = y_of,
        k: int = nearest,
        max_distance: float | None = most,
        where: Where = None,
        having: Having = None,
        columns: Carry = "",
        ids: Ids = "number",
        snapshot: Snapshot = None,
    ) -> ASGIResponse:
        """Return the k nearest objects, ordered by (distance, id)."""
        served = serving.named(snapshot)
        if same := unless_modified(request, served):
            return same
        where, having = conditions(limits, where, having)
        limit = inf if max_distance is None else max_distance
        sight = sight_of(state, request, served)
        if k <= MOST and is_usual(request, sight, where, having, columns, ids == "string", snapshot):
            target = Target(KNN, x, y, k, limit, where or sight.token.where)
            if found := await ask(gathering, target, sight.token.name):
                return answer_gathered(request, *found)

        query = PlaceQuery(questions_of(state, served), sight, (x, y), where, having, columns)
        hits = await state.pool.run_steps(request, lambda stop: find_nearest(query, k, max_distance))
        state.accesses.many(x, y, k, max_distance)
        return await answer_of_hits(request, state, served, hits, text_ids=ids == "string")

    @get("/range", opt={"responses": responses(PAGE, arrow=True)})
    async def range_(
        request: Asker,
        x: float = x_of,
        y: float = y_of,
        radius: float = radius_of,
        where: Where = None,
        having: Having = None,
        columns: Carry = "",
        limit: int | None = page_size,
        cursor: str | None = begin_of,
        ids: Ids = "number",
        snapshot: Snapshot = None,
    ) -> ASGIResponse:
        """Return all objects within a radius, ordered by (distance, id); with a limit, page by page."""
        begin = first_of_page(cursor, snapshot)
        served = serving.named(snapshot if begin is None else begin.snapshot)
        if same := unless_modified(request, served):
            return same
        where, having = conditions(limits, where, having)
        if cursor is not None and limit is None:
            raise Problem(400, "a cursor needs a limit: give the hits of a page", limit="limit")
        sight = sight_of(state, request, served)
        if is_usual(request, sight, where, having, columns, limit, ids == "string", snapshot):
            target = Target(RANGE, x, y, 0, radius, where or sight.token.where)
            if found := await ask(gathering, target, sight.token.name):
                return answer_gathered(request, *found)

        query = PlaceQuery(questions_of(state, served), sight, (x, y), where, having, columns)
        following: str | None = None
        if limit is None:
            hits = await state.pool.run_steps(request, lambda stop: find_within(query, radius, limits.hits, stop))
        else:
            hits, following = await state.pool.run_steps(
                request, lambda stop: find_page(query, radius, limit, begin, limits.hits)
            )
        state.accesses.many(x, y, None, radius)
        return await answer_of_hits(request, state, served, hits, text_ids=ids == "string", following=following)

    @get("/count", opt={"responses": responses(COUNT)})
    async def count(
        request: Asker,
        x: float = x_of,
        y: float = y_of,
        radius: float = radius_of,
        where: Where = None,
        snapshot: Snapshot = None,
    ) -> ASGIResponse:
        """Return how many objects lie within a radius."""
        served = serving.named(snapshot)
        if same := unless_modified(request, served):
            return same
        where, _ = conditions(limits, where)
        query = PlaceQuery(questions_of(state, served), sight_of(state, request, served), (x, y), where)
        number = await state.pool.run_steps(request, lambda stop: count_within(query, radius))
        state.accesses.many(x, y, None, radius)
        note(request.scope, hits=number)
        return told_json(request, served, count=number)

    @get("/locate", opt={"responses": responses(LOCATED)})
    async def locate(
        request: Asker, x: float = x_of, y: float = y_of, ids: Ids = "number", snapshot: Snapshot = None
    ) -> ASGIResponse:
        """Return the object whose cell holds a place: the nearest one, of several the one of the lowest id."""
        served = serving.named(snapshot)
        if same := unless_modified(request, served):
            return same
        query = PlaceQuery(questions_of(state, served), sight_of(state, request, served), (x, y))
        found = await state.pool.run_steps(request, lambda stop: find_owner(query))
        state.accesses.many(x, y, 1, None)
        return told_json(request, served, id=str(found) if ids == "string" else found)

    @get("/reverse_nearest", opt={"responses": responses(HITS, arrow=True)})
    async def reverse_nearest(
        request: Asker, x: float = x_of, y: float = y_of, ids: Ids = "number", snapshot: Snapshot = None
    ) -> ASGIResponse:
        """Return the objects that are nearer to a place than to any other object."""
        served = serving.named(snapshot)
        if same := unless_modified(request, served):
            return same
        questions = questions_of(state, served)
        hits = await state.pool.run_steps(request, lambda stop: find_reverse_nearest(questions, (x, y)))
        state.accesses.many(x, y, 1, None)
        return await answer_of_hits(request, state, served, hits, text_ids=ids == "string")

    return [knn, range_, count, locate, reverse_nearest]


def is_usual(request: Asker, sight: Sight, where: str | None, *others: object) -> bool:
    """Return whether a question may be answered with others of its turn: nothing else is wanted, and no Arrow."""
    told_apart = sight.served.index.space.to_lonlat or (where and sight.token.narrowed)
    return not (any(others) or told_apart or wants_arrow(request))


def conditions(limits: Limits, where: str | None, having: str | None = None) -> tuple[str | None, str | None]:
    """Return conditions that can be read; an empty text is none."""
    check_condition(where, limits.condition_length)
    check_condition(having, limits.condition_length, "having")
    return where or None, having or None


async def find_nearest(query: PlaceQuery, k: int, max_distance: float | None) -> Hits:
    """Return the k nearest objects; in a thread, as all that follow."""
    with told():
        names = names_of(query.columns)
        seen = query.sight.condition(query.where, query.having, names)
        evaluate(query.sight.served, seen)
        return await query.questions.knn(
            query.at, k, max_distance=max_distance, where=seen, having=query.having, columns=names
        )


async def find_within(query: PlaceQuery, radius: float, most: int, stop: Stop) -> Hits:
    """Return all objects within a radius, ``most`` at most; more are refused."""
    with told():
        names = names_of(query.columns)
        seen = query.sight.condition(query.where, query.having, names)
        evaluate(query.sight.served, seen)
        count = int((await query.questions.count(query.at, radius, where=seen))[0])
        if count > most:
            raise Problem(
                413,
                f"there are {count:,} hits: at most {most:,} go into an answer; ask with a limit, "
                "page by page, or for a smaller radius",
                limit="hits",
                value=count,
                bound=most,
            )
        stop.check()
        return await query.questions.range(query.at, radius, where=seen, having=query.having, columns=names)


async def find_page(
    query: PlaceQuery, radius: float, limit: int, begin: Cursor | None, most: int
) -> tuple[Hits, str | None]:
    """Return the hits of a page, and the cursor of the next one: the k nearest, less those of the pages before."""
    served, names = query.sight.served, names_of(query.columns)
    with told():
        # hits of a range satisfy both alike; after `having` a page would be short
        seen = query.sight.condition(query.where, query.having, names)
        if query.having:
            seen = query.sight.condition(both_of(served.index, query.where, query.having), None, names)
        evaluate(served, seen)
        question = question_sum(*query.at, radius, seen)
        before = 0 if begin is None else begin.after
        if before + limit > most:
            raise Problem(
                413,
                f"this page ends at hit {before + limit:,}: pages go up to {most:,}; ask for a smaller radius",
                limit="hits",
                value=before + limit,
                bound=most,
            )
        if begin is not None and begin.question != question:
            raise Problem(400, "cursor belongs to another question: begin again without it", limit="cursor")
        found = await query.questions.knn(query.at, before + limit + 1, max_distance=radius, where=seen, columns=names)
        if begin is not None and (
            len(found) < before or found.id[before - 1] != begin.id or found.distance[before - 1] != begin.distance
        ):
            raise Problem(400, "cursor is not one that this server gave: begin again without it", limit="cursor")
        hits = found[before : before + limit]
        if len(found) <= before + limit:
            return hits, None
        last = Cursor(served.name, question, before + len(hits), float(hits.distance[-1]), hits.id.tolist()[-1])
        return hits, write_cursor(last)


async def count_within(query: PlaceQuery, radius: float) -> int:
    """Return how many objects lie within a radius."""
    with told():
        seen = query.sight.condition(query.where)
        evaluate(query.sight.served, seen)
        return int((await query.questions.count(query.at, radius, where=seen))[0])


async def find_owner(query: PlaceQuery) -> Any:
    """Return the id of the object whose cell holds the place, of those that are seen."""
    with told():
        if (seen := query.sight.condition(None)) is None:
            return (await query.questions.locate(query.at)).tolist()[0]
        nearest = await query.questions.knn(query.at, 1, where=seen)
        if not len(nearest):
            raise ValueError(NO_OBJECT)
        return nearest.id.tolist()[0]


async def find_reverse_nearest(questions: Any, at: tuple[float, float]) -> Hits:
    """Return the objects that are nearer to a place than to any other object."""
    with told():
        return await questions.reverse_nearest(at)


def both_of(index: Index, where: str | None, having: str | None) -> str | None:
    """Return the condition that two conditions are together, each of which can be read by itself."""
    texts = [text for text in (where, having) if text is not None]
    for text in texts:
        parse_condition(text, schema_of(index.parts[0]))
    # a comment at the end of one ends with its line
    return " and ".join(f"({text}\n)" for text in texts) if len(texts) > 1 else next(iter(texts), None)


def evaluate(served: ServedSnapshot, where: str | None) -> None:
    """Have a condition evaluated, which only so many at a time are."""
    if where is not None:
        served.conditions.get(where)


def answer_gathered(request: Asker, served: ServedSnapshot, body: bytes) -> ASGIResponse:
    """Return an answer that was made with others of its turn."""
    note(request.scope, hits=hits_in(body))
    return json_answer(request, served, body)


def told_json(request: Asker, served: ServedSnapshot, **values: Any) -> ASGIResponse:
    """Return an answer of some values and the snapshot's name."""
    return json_answer(request, served, orjson.dumps({"snapshot": served.name, **values}))
