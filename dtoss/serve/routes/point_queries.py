"""Questions about one place, a route ``GET /KIND`` for each kind, and about one object: ``GET /objects/{id}``."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Annotated, Any

import numpy as np
import orjson
from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.params import PathParameter, QueryParameter
from litestar.response.base import ASGIResponse

from dtoss.conditions.matching_objects import schema_of
from dtoss.conditions.parse import parse_condition
from dtoss.hits import Hits
from dtoss.index import Index
from dtoss.kinds.all_kinds import OF_PLACES
from dtoss.kinds.kind import Kind, Question, Tells
from dtoss.kinds.searches import COUNT, KNN
from dtoss.serve.answers.json_out import ARROW_TYPE, JSON_TYPE, ObjectQuestion, no_object, object_answer
from dtoss.serve.answers.open_snapshots import ServedSnapshot
from dtoss.serve.answers.responses import Asker, kept_answer, unless_modified, wants_arrow
from dtoss.serve.bulk.query_pieces import check_hits
from dtoss.serve.core.pool import Stop
from dtoss.serve.core.problems import Problem
from dtoss.serve.core.server_settings import Limits
from dtoss.serve.observability.log_lines import hits_in, note
from dtoss.serve.requests.chunked_responses import answer_of_hits
from dtoss.serve.requests.hot_requests import GATHERED, MOST, Gathering, Target
from dtoss.serve.rights.sight import Sight, check_whole, sight_of
from dtoss.serve.routes.parameters import (
    Cursor,
    Ids,
    Snapshot,
    check_condition,
    check_question,
    coordinates,
    ends_of,
    first_of_page,
    names_of,
    numbers_of,
    question_sum,
    takes,
    told,
    unknown_cursor,
    write_cursor,
)
from dtoss.serve.routes.schemas import (
    ANYTHING,
    HITS,
    ID,
    LOCATED,
    NUMBER,
    ONE_COUNT,
    PAGE,
    POLYGON_SCHEMA,
    also,
    array,
    responses,
)
from dtoss.serve.routes.schemas import told as titled
from dtoss.serve.scatter_gather.cluster_index import Answers, answers_of, cluster_of
from dtoss.serve.state.worker_state import WorkerState

NO_OBJECT = "the index is empty: no object owns a place"
"""Said where there is none, or none that is seen."""


@dataclass(frozen=True)
class PlaceQuery:
    """A question about one place: what answers it, what its token sees, and what it wants."""

    kind: Kind[Any]
    answers: Answers
    sight: Sight
    at: tuple[float, float]
    given: dict[str, Any]  # What the kind takes
    where: str | None
    having: str | None
    columns: str

    def question(self) -> Question[Any]:
        """Return the question, about what is seen; a condition is evaluated. In a thread."""
        names = names_of(self.columns)
        seen = self.sight.condition(self.where, self.having, names)
        evaluate(self.sight.served, seen)
        return self.kind.question(np.array([self.at]), self.given, seen, self.having, names)


def handlers(state: WorkerState, gathering: Gathering) -> list[HTTPRouteHandler]:
    """Return the routes of questions about one place."""
    return [route_of(kind, state, gathering) for kind in OF_PLACES]


def route_of(kind: Kind[Any], state: WorkerState, gathering: Gathering) -> HTTPRouteHandler:
    """Return the route of a kind of question."""
    limits, serving = state.settings.limits, state.serving
    gathered = GATHERED.get(kind.name)

    async def answer(
        request: Asker,
        x: float,
        y: float,
        where: str | None = None,
        having: str | None = None,
        columns: str = "",
        limit: int | None = None,
        cursor: str | None = None,
        ids: str = "number",
        snapshot: str | None = None,
        **given: Any,
    ) -> ASGIResponse:
        begin = first_of_page(cursor, snapshot)
        served = serving.named(snapshot if begin is None else begin.snapshot)
        if same := unless_modified(request, served):
            return same
        where, having = conditions(limits, where, having)
        if cursor is not None and limit is None:
            raise Problem(400, "a cursor needs a limit: give the hits of a page", limit="limit")
        sight, text_ids = sight_of(state, request, served), ids == "string"
        unusual = (having, columns, limit, text_ids, snapshot)
        if gathered is not None and given.get("k", 0) <= MOST and is_usual(request, sight, where, *unusual):
            k, far = kind.reads(given)
            target = Target(gathered, x, y, k or 0, inf if far is None else far, where or sight.token.where)
            if found := await gathering.ask(target, sight.token.name):
                return answer_gathered(request, *found)

        query = PlaceQuery(kind, answers_of(state, served), sight, (x, y), given, where, having, columns)
        following: str | None = None
        if kind.tells != Tells.HITS:
            value = await state.pool.run_steps(request, lambda stop: find_value(query, stop))
        elif limit is None:
            hits = await state.pool.run_steps(request, lambda stop: find_hits(query, limits.hits, stop))
        else:
            hits, following = await state.pool.run_steps(
                request, lambda stop: find_page(query, limit, begin, limits.hits)
            )
        state.accesses.many(x, y, *kind.reads(given))
        if kind.tells == Tells.HITS:
            return answer_of_hits(request, state, served, hits, text_ids, following)
        if kind.tells == Tells.COUNT:
            note(request.scope, hits=int(value))
        return told_json(request, served, **{kind.tells.value: str(value) if text_ids else value})

    x_of, y_of = coordinates(serving.now.index.space)
    parameters = {"x": (float, x_of), "y": (float, y_of)} | numbers_of(kind, limits)
    if kind.paged:
        size: Any = QueryParameter(default=None, ge=1, le=limits.hits, description="Hits of a page.")
        start: Any = QueryParameter(default=None, max_length=2_000, description="The `next` of the page before.")
        parameters |= {"limit": (int | None, size), "cursor": (str | None, start)}
    schema = {Tells.HITS: PAGE if kind.paged else HITS, Tells.COUNT: ONE_COUNT, Tells.ID: LOCATED}[kind.tells]
    handler = takes(answer, kind.name, f"Return {kind.says}.", parameters | ends_of(kind))
    return get(f"/{kind.name}", opt={"responses": responses(schema, arrow=kind.tells == Tells.HITS)})(handler)


def is_usual(request: Asker, sight: Sight, where: str | None, *others: object) -> bool:
    """Return whether a question may be answered with others of its turn: nothing else is wanted, and no Arrow."""
    told_apart = sight.served.index.space.to_lonlat or (where and sight.token.narrowed)
    return not (any(others) or told_apart or wants_arrow(request))


def conditions(limits: Limits, where: str | None, having: str | None = None) -> tuple[str | None, str | None]:
    """Return conditions that can be read; an empty text is none."""
    check_condition(where, limits.condition_length)
    check_condition(having, limits.condition_length, "having")
    return where or None, having or None


async def find_hits(query: PlaceQuery, most: int, stop: Stop) -> Hits:
    """Return the hits of a question, ``most`` at most where they are counted; in a thread, as what follows."""
    with told():
        asked = query.question()
        if query.kind.paged:
            count = int((await query.answers.ask(COUNT.question(asked.positions, query.given, asked.where)))[0])
            check_hits(count, most, "ask with a limit, page by page, or for a smaller radius")
            stop.check()
        hits: Hits = await query.answers.ask(asked, stop)
        return hits


async def find_page(query: PlaceQuery, limit: int, begin: Cursor | None, most: int) -> tuple[Hits, str | None]:
    """Return the hits of a page, and the cursor of the next one: the k nearest, less those of the pages before."""
    served, names, radius = query.sight.served, names_of(query.columns), query.given["radius"]
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
        check_question(begin, question)
        given = {"k": before + limit + 1, "max_distance": radius}
        found = await query.answers.ask(KNN.question(np.array([query.at]), given, seen, None, names))
        if begin is not None and (
            len(found) < before or found.id[before - 1] != begin.id or found.distance[before - 1] != begin.distance
        ):
            raise unknown_cursor()
        hits = found[before : before + limit]
        if len(found) <= before + limit:
            return hits, None
        last = Cursor(served.name, question, before + len(hits), float(hits.distance[-1]), hits.id.tolist()[-1])
        return hits, write_cursor(last)


async def find_value(query: PlaceQuery, stop: Stop) -> int | str:
    """Return the number or the id that answers a question."""
    with told():
        found = await query.answers.ask(query.question(), stop)
        if not len(found):
            raise ValueError(NO_OBJECT)
        return found.tolist()[0]


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
    return kept_answer(request, served, body)


def told_json(request: Asker, served: ServedSnapshot, **values: Any) -> ASGIResponse:
    """Return an answer of some values and the snapshot's name."""
    return kept_answer(request, served, orjson.dumps({"snapshot": served.name, **values}))


OBJECT_ANSWER = also(
    titled("ObjectAnswer", id=ID, attributes=ANYTHING),
    lon=NUMBER, lat=NUMBER, x=NUMBER, y=NUMBER, neighbours=array(ID), cell=POLYGON_SCHEMA, area=NUMBER,
)  # fmt: skip


def object_handlers(state: WorkerState) -> list[HTTPRouteHandler]:
    """Return the route of an object."""
    serving = state.serving

    @get("/objects/{object_id:path}", opt={"responses": responses(OBJECT_ANSWER, arrow=True)})
    async def one(
        request: Asker,
        object_id: Annotated[str, PathParameter(description="Of the object, such as 42.")],
        neighbours: Annotated[
            bool, QueryParameter(description="Also the objects whose cells share an edge with its own.")
        ] = True,
        cell: Annotated[
            bool, QueryParameter(description="Also its Voronoi cell as GeoJSON, and the cell's area.")
        ] = False,
        ids: Ids = "number",
        snapshot: Snapshot = None,
    ) -> ASGIResponse:
        """Return where an object is, what it carries, and whose cells touch its own."""
        text = object_id.removeprefix("/")
        served = serving.named(snapshot)
        if same := unless_modified(request, served):
            return same
        arrow = wants_arrow(request)

        sight, cluster = sight_of(state, request, served), cluster_of(state, served)
        if cell:
            check_whole(sight.token, "a cell")

        async def work(stop: Stop) -> tuple[bytes, tuple[float, float]]:
            seen, columns = sight.condition(None), sight.token.columns
            asked = ObjectQuestion(text, arrow, neighbours, cell, ids == "string", seen, columns)
            return object_answer(served, asked) if cluster is None else await cluster.one(asked, stop)

        try:
            body, place = await state.pool.run_steps(request, work)
        except KeyError:
            raise no_object(served, text) from None
        state.accesses.many(*place, None, None)
        note(request.scope, hits=1)
        return kept_answer(request, served, body, ARROW_TYPE if arrow else JSON_TYPE)

    return [one]
