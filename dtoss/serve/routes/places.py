"""Questions about one place: ``GET /knn``, ``/range``, ``/count``, ``/locate`` and ``/reverse_nearest``."""

from __future__ import annotations

from math import inf
from typing import Any

import orjson
from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from dtoss.hits import Hits
from dtoss.serve.asking import ask
from dtoss.serve.cursors import Cursor, question_sum, read_cursor, write_cursor
from dtoss.serve.gathering import KNN, MOST, RANGE, Gathering
from dtoss.serve.hits_out import answer_of_hits
from dtoss.serve.hot_requests import DEFAULT_K, Target
from dtoss.serve.pool import Stop
from dtoss.serve.problems import Problem
from dtoss.serve.ready import json_answer, unchanged, wants_arrow
from dtoss.serve.routes.parameters import (
    Carry,
    Having,
    Ids,
    Place,
    Snapshot,
    Where,
    check_condition,
    names_of,
    place_by_names,
    told,
)
from dtoss.serve.routes.schemas import COUNT, HITS, LOCATED, PAGE, responses
from dtoss.serve.serving import Served
from dtoss.serve.state import WorkerState


def router(state: WorkerState, gathering: Gathering) -> APIRouter:
    """Return the routes of questions about one place."""
    made = APIRouter(tags=["one place"])
    limits, serving = state.settings.limits, state.serving
    space = serving.now.index.space
    place = place_by_names(space)
    near = Query(ge=0, allow_inf_nan=False, description="Metres, or units of the CRS.", examples=[1000.0])
    nearest = Query(DEFAULT_K, ge=1, le=limits.k, description="How many of the nearest objects.", examples=[8])
    within = Query(None, ge=0, allow_inf_nan=False, description="At most so far away: metres, or units of the CRS.")

    def conditions(where: str | None, having: str | None = None) -> None:
        check_condition(where, limits.condition_length)
        check_condition(having, limits.condition_length, "having")

    @made.get("/knn", responses=responses(HITS, arrow=True), response_class=Response)
    async def knn(
        request: Request,
        at: Place = Depends(place),
        k: int = nearest,
        max_distance: float | None = within,
        where: Where = None,
        having: Having = None,
        columns: Carry = "",
        ids: Ids = "number",
        snapshot: Snapshot = None,
    ) -> Response:
        """The k nearest objects, ordered by (distance, id)."""
        served = serving.named(snapshot)
        if same := unchanged(request, served):
            return same
        conditions(where, having)
        limit = inf if max_distance is None else max_distance
        unusual = having or columns or ids == "string" or snapshot or wants_arrow(request) or space.to_lonlat
        if not unusual and k <= MOST and (found := await ask(gathering, Target(KNN, *at, k, limit, where or None))):
            return json_answer(request, *found)

        def work(stop: Stop) -> Hits:
            with told():
                evaluate(served, where)
                return served.index.knn(
                    at, k, max_distance=max_distance, where=where, having=having, columns=names_of(columns)
                )

        hits = await state.pool.run(request, work)
        state.accesses.many(*at, k, max_distance)
        return await answer_of_hits(request, state, served, hits, text_ids=ids == "string")

    @made.get("/range", responses=responses(PAGE, arrow=True), response_class=Response)
    async def range_(
        request: Request,
        at: Place = Depends(place),
        radius: float = near,
        where: Where = None,
        having: Having = None,
        columns: Carry = "",
        limit: int | None = Query(None, ge=1, le=limits.hits, description="Hits of a page."),
        cursor: str | None = Query(None, max_length=2_000, description="The ``next`` of the page before."),
        ids: Ids = "number",
        snapshot: Snapshot = None,
    ) -> Response:
        """All objects within a radius, ordered by (distance, id); with a limit, page by page."""
        begin = None if cursor is None else read_cursor(cursor)
        served = serving.named(snapshot or (begin and begin.snapshot))
        if same := unchanged(request, served):
            return same
        conditions(where, having)
        if cursor is not None and limit is None:
            raise Problem(400, "a cursor needs a limit: give the hits of a page", limit="limit")
        unusual = having or columns or limit or ids == "string" or snapshot or wants_arrow(request) or space.to_lonlat
        if not unusual and (found := await ask(gathering, Target(RANGE, *at, 0, radius, where or None))):
            return json_answer(request, *found)
        condition = where if having is None else having if where is None else f"({where}) and ({having})"

        def work(stop: Stop) -> tuple[Hits, str | None]:
            with told():
                evaluate(served, condition)
                if limit is not None:
                    return page(served, at, radius, limit, condition, names_of(columns), begin)
                index = served.index
                count = int(index.count(at, radius, where=condition)[0])
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
                return index.range(at, radius, where=condition, columns=names_of(columns)), None

        hits, following = await state.pool.run(request, work)
        state.accesses.many(*at, None, radius)
        return await answer_of_hits(
            request, state, served, hits, text_ids=ids == "string", following=following
        )

    def page(
        served: Served,
        at: Place,
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
        found = served.index.knn(at, before + limit + 1, max_distance=radius, where=where, columns=columns)
        if begin is not None and (
            len(found) < before or found.id[before - 1] != begin.id or found.distance[before - 1] != begin.distance
        ):
            raise Problem(400, "cursor is not one that this server gave: begin again without it", limit="cursor")
        hits = found[before : before + limit]
        if len(found) <= before + limit:
            return hits, None
        last = Cursor(served.name, question, before + len(hits), float(hits.distance[-1]), hits.id.tolist()[-1])
        return hits, write_cursor(last)

    @made.get("/count", responses=responses(COUNT), response_class=Response)
    async def count(
        request: Request,
        at: Place = Depends(place),
        radius: float = near,
        where: Where = None,
        snapshot: Snapshot = None,
    ) -> Response:
        """How many objects lie within a radius."""
        served = serving.named(snapshot)
        if same := unchanged(request, served):
            return same
        conditions(where)

        def work(stop: Stop) -> int:
            with told():
                evaluate(served, where)
                return int(served.index.count(at, radius, where=where)[0])

        number = await state.pool.run(request, work)
        state.accesses.many(*at, None, radius)
        return told_json(request, served, count=number)

    @made.get("/locate", responses=responses(LOCATED), response_class=Response)
    async def locate(
        request: Request, at: Place = Depends(place), ids: Ids = "number", snapshot: Snapshot = None
    ) -> Response:
        """The object whose cell holds a place: the nearest one, of several the one of the lowest id."""
        served = serving.named(snapshot)
        if same := unchanged(request, served):
            return same

        def work(stop: Stop) -> Any:
            with told():
                return served.index.locate(at).tolist()[0]

        found = await state.pool.run(request, work)
        state.accesses.many(*at, 1, None)
        return told_json(request, served, id=str(found) if ids == "string" else found)

    @made.get("/reverse_nearest", responses=responses(HITS, arrow=True), response_class=Response)
    async def reverse_nearest(
        request: Request, at: Place = Depends(place), ids: Ids = "number", snapshot: Snapshot = None
    ) -> Response:
        """The objects that are nearer to a place than to any other object."""
        served = serving.named(snapshot)
        if same := unchanged(request, served):
            return same

        def work(stop: Stop) -> Hits:
            with told():
                return served.index.reverse_nearest(at)

        hits = await state.pool.run(request, work)
        state.accesses.many(*at, 1, None)
        return await answer_of_hits(request, state, served, hits, text_ids=ids == "string")

    return made


def evaluate(served: Served, where: str | None) -> None:
    """Have a condition evaluated, which only so many at a time are."""
    if where is not None:
        served.conditions.get(where)


def told_json(request: Request, served: Served, **values: Any) -> Response:
    """Return an answer of some values and the snapshot's name."""
    return json_answer(request, served, orjson.dumps({"snapshot": served.name, **values}))
