"""Questions about one place: ``GET /knn``, ``/range``, ``/count``, ``/locate`` and ``/reverse_nearest``."""

from __future__ import annotations

from math import inf
from typing import Any

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
from dtoss.serve.core.cursors import Cursor, question_sum, read_cursor, write_cursor
from dtoss.serve.core.pool import Stop
from dtoss.serve.core.problems import Problem
from dtoss.serve.observability.audit import hits_in, note
from dtoss.serve.requests.hits_out import answer_of_hits
from dtoss.serve.requests.hot_places import ask
from dtoss.serve.requests.hot_requests import DEFAULT_K, Target
from dtoss.serve.requests.request_batches import KNN, MOST, RANGE, Gathering
from dtoss.serve.rights.sight import sight_of
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


def handlers(state: WorkerState, gathering: Gathering) -> list[HTTPRouteHandler]:
    """Return the routes of questions about one place."""
    limits, serving = state.settings.limits, state.serving
    space = serving.now.index.space
    x_of, y_of = coordinates(space)
    nearest: Any = QueryParameter(default=DEFAULT_K, ge=1, le=limits.k, description="How many of the nearest objects.")
    page_size: Any = QueryParameter(default=None, ge=1, le=limits.hits, description="Hits of a page.")
    begin_of: Any = QueryParameter(default=None, max_length=2_000, description="The `next` of the page before.")
    most, radius_of = distance("At most so far away", wanted=False), distance("How far")

    def conditions(where: str | None, having: str | None = None) -> tuple[str | None, str | None]:
        """Return conditions that can be read; an empty text is none."""
        check_condition(where, limits.condition_length)
        check_condition(having, limits.condition_length, "having")
        return where or None, having or None

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
        where, having = conditions(where, having)
        limit = inf if max_distance is None else max_distance
        sight = sight_of(state, request, served)
        unusual: Any = having or columns or ids == "string" or snapshot or wants_arrow(request)
        unusual = unusual or space.to_lonlat or (where and sight.token.narrowed)
        seen = where or sight.token.where
        if (
            not unusual
            and k <= MOST
            and (found := await ask(gathering, Target(KNN, x, y, k, limit, seen), sight.token.name))
        ):
            return answer_gathered(request, *found)

        questions = questions_of(state, served)

        async def work(stop: Stop) -> Hits:
            with told():
                seen = sight.condition(where, having, names_of(columns))
                evaluate(served, seen)
                return await questions.knn(
                    (x, y), k, max_distance=max_distance, where=seen, having=having, columns=names_of(columns)
                )

        hits = await state.pool.run_steps(request, work)
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
        begin = None if cursor is None else read_cursor(cursor)
        if begin is not None and snapshot not in (None, begin.snapshot):
            raise Problem(400, f"cursor is of snapshot {begin.snapshot}: leave snapshot out", limit="snapshot")
        served = serving.named(snapshot if begin is None else begin.snapshot)
        if same := unless_modified(request, served):
            return same
        where, having = conditions(where, having)
        if cursor is not None and limit is None:
            raise Problem(400, "a cursor needs a limit: give the hits of a page", limit="limit")
        sight = sight_of(state, request, served)
        unusual: Any = (
            having or columns or limit or ids == "string" or snapshot or wants_arrow(request) or space.to_lonlat
        )
        unusual = unusual or (where and sight.token.narrowed)
        seen = where or sight.token.where
        if not unusual and (found := await ask(gathering, Target(RANGE, x, y, 0, radius, seen), sight.token.name)):
            return answer_gathered(request, *found)

        questions = questions_of(state, served)

        async def work(stop: Stop) -> tuple[Hits, str | None]:
            with told():
                names = names_of(columns)
                if limit is not None:
                    # hits of a range satisfy both alike; after `having` a page would be short
                    seen = sight.condition(where, having, names)
                    seen = sight.condition(both_of(served.index, where, having), None, names) if having else seen
                    evaluate(served, seen)
                    return await page(served, questions, (x, y), radius, limit, seen, names, begin)
                seen = sight.condition(where, having, names)
                evaluate(served, seen)
                count = int((await questions.count((x, y), radius, where=seen))[0])
                if count > limits.hits:
                    raise Problem(
                        413,
                        f"there are {count:,} hits: at most {limits.hits:,} go into an answer; ask with a limit, "
                        "page by page, or for a smaller radius",
                        limit="hits",
                        value=count,
                        bound=limits.hits,
                    )
                stop.check()
                return await questions.range((x, y), radius, where=seen, having=having, columns=names), None

        hits, following = await state.pool.run_steps(request, work)
        state.accesses.many(x, y, None, radius)
        return await answer_of_hits(request, state, served, hits, text_ids=ids == "string", following=following)

    async def page(
        served: ServedSnapshot,
        questions: Any,
        at: tuple[float, float],
        radius: float,
        limit: int,
        where: str | None,
        columns: list[str],
        begin: Cursor | None,
    ) -> tuple[Hits, str | None]:
        """Return the hits of a page, and the cursor of the next one: the k nearest, less those of the pages before."""
        question = question_sum(*at, radius, where)
        before = 0 if begin is None else begin.after
        if before + limit > limits.hits:
            raise Problem(
                413,
                f"this page ends at hit {before + limit:,}: pages go up to {limits.hits:,}; ask for a smaller radius",
                limit="hits",
                value=before + limit,
                bound=limits.hits,
            )
        if begin is not None and begin.question != question:
            raise Problem(400, "cursor belongs to another question: begin again without it", limit="cursor")
        found = await questions.knn(at, before + limit + 1, max_distance=radius, where=where, columns=columns)
        if begin is not None and (
            len(found) < before or found.id[before - 1] != begin.id or found.distance[before - 1] != begin.distance
        ):
            raise Problem(400, "cursor is not one that this server gave: begin again without it", limit="cursor")
        hits = found[before : before + limit]
        if len(found) <= before + limit:
            return hits, None
        last = Cursor(served.name, question, before + len(hits), float(hits.distance[-1]), hits.id.tolist()[-1])
        return hits, write_cursor(last)

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
        where, _ = conditions(where)
        sight, questions = sight_of(state, request, served), questions_of(state, served)

        async def work(stop: Stop) -> int:
            with told():
                seen = sight.condition(where)
                evaluate(served, seen)
                return int((await questions.count((x, y), radius, where=seen))[0])

        number = await state.pool.run_steps(request, work)
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

        sight, questions = sight_of(state, request, served), questions_of(state, served)

        async def work(stop: Stop) -> Any:
            with told():
                if (seen := sight.condition(None)) is None:
                    return (await questions.locate((x, y))).tolist()[0]
                nearest = await questions.knn((x, y), 1, where=seen)
                if not len(nearest):
                    raise ValueError(NO_OBJECT)
                return nearest.id.tolist()[0]

        found = await state.pool.run_steps(request, work)
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

        async def work(stop: Stop) -> Hits:
            with told():
                return await questions.reverse_nearest((x, y))

        hits = await state.pool.run_steps(request, work)
        state.accesses.many(x, y, 1, None)
        return await answer_of_hits(request, state, served, hits, text_ids=ids == "string")

    return [knn, range_, count, locate, reverse_nearest]


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
