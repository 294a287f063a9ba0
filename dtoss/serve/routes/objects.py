"""One object: ``GET /objects/{id}``."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from dtoss.serve.answers import ARROW, headers_of
from dtoss.serve.one_object import object_body, object_table
from dtoss.serve.pool import Stop
from dtoss.serve.problems import Problem
from dtoss.serve.ready import Ready, json_answer, tag_of, unchanged, wants_arrow
from dtoss.serve.routes.parameters import Ids, Snapshot
from dtoss.serve.routes.schemas import ID, POLYGON, array, responses, told
from dtoss.serve.state import WorkerState

NUMBER = {"type": "number"}
OBJECT = told(id=ID, attributes={"type": "object"})
OBJECT["properties"] |= {
    "lon": NUMBER, "lat": NUMBER, "x": NUMBER, "y": NUMBER, "neighbours": array(ID), "cell": POLYGON, "area": NUMBER,
}  # fmt: skip


def router(state: WorkerState) -> APIRouter:
    """Return the route of an object."""
    made = APIRouter(tags=["one object"])
    serving = state.serving

    @made.get("/objects/{id:path}", responses=responses(OBJECT, arrow=True), response_class=Response)
    async def one(
        request: Request,
        id: Annotated[str, Path(max_length=2_000, description="Of the object.", examples=["42"])],
        neighbours: Annotated[bool, Query(description="Also the objects whose cells share an edge with its own.")] = True,
        cell: Annotated[bool, Query(description="Also its Voronoi cell as GeoJSON, and the cell's area.")] = False,
        ids: Ids = "number",
        snapshot: Snapshot = None,
    ) -> Response:
        """Where an object is, what it carries, and whose cells touch its own."""
        served = serving.named(snapshot)
        if same := unchanged(request, served):
            return same
        arrow = wants_arrow(request)

        def work(stop: Stop) -> tuple[bytes, tuple[float, float]]:
            if arrow:
                return object_table(served, id)
            return object_body(served, id, neighbours=neighbours, cell=cell, text_ids=ids == "string")

        try:
            body, place = await state.pool.run(request, work)
        except KeyError:
            raise Problem(404, f"no object has the id {id!r} in snapshot {served.name}", limit="id", value=id) from None
        state.accesses.many(*place, None, None)
        if arrow:
            return Ready(body, headers_of(served, len(body), tag_of(request, served), ARROW))
        return json_answer(request, served, body)

    return made
