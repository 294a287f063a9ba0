"""One object: ``GET /objects/{id}``."""

from __future__ import annotations

from typing import Annotated

from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.params import PathParameter, QueryParameter
from litestar.response.base import ASGIResponse

from dtoss.serve.answers.json_out import ARROW_TYPE, JSON_TYPE
from dtoss.serve.answers.one_object import ObjectQuestion, no_object, object_answer
from dtoss.serve.answers.responses import Asker, kept_answer, unless_modified, wants_arrow
from dtoss.serve.core.pool import Stop
from dtoss.serve.observability.audit import note
from dtoss.serve.rights.sight import check_whole, sight_of
from dtoss.serve.routes.parameters import Ids, Snapshot
from dtoss.serve.routes.schemas import ANYTHING, ID, NUMBER, POLYGON_SCHEMA, also, array, responses, told
from dtoss.serve.scatter_gather.cluster_index import cluster_of
from dtoss.serve.state.worker_state import WorkerState

OBJECT_ANSWER = also(
    told("ObjectAnswer", id=ID, attributes=ANYTHING),
    lon=NUMBER, lat=NUMBER, x=NUMBER, y=NUMBER, neighbours=array(ID), cell=POLYGON_SCHEMA, area=NUMBER,
)  # fmt: skip


def handlers(state: WorkerState) -> list[HTTPRouteHandler]:
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
