"""What operators ask: ``/snapshot``, ``/healthz``, ``/readyz`` and ``/metrics``."""

from __future__ import annotations

import asyncio
import time

import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response

from dtoss.serve.answers import headers_of
from dtoss.serve.problems import Problem
from dtoss.serve.ready import Ready
from dtoss.serve.routes.schemas import responses, told
from dtoss.serve.state import WorkerState

FACTS = told(commit={"type": "integer"}, objects={"type": "integer"}, age_seconds={"type": "number"})
ALIVE = {"type": "object", "properties": {"alive": {"const": True}}, "required": ["alive"]}
TEXT = {200: {"description": "Metrics as Prometheus reads them.", "content": {"text/plain": {}}}}


def router(state: WorkerState) -> APIRouter:
    """Return the routes for operators."""
    made = APIRouter(tags=["care"])
    serving, settings = state.serving, state.settings

    def age() -> float:
        return max(time.time() - serving.now.made, 0.0)

    @made.get("/snapshot", responses=responses(FACTS, kept=False), response_class=Response)
    async def snapshot(request: Request) -> Response:
        """What is served: the snapshot, its commit, objects, CRS, columns and age."""
        served = serving.now
        body = orjson.dumps({"snapshot": served.name, **served.facts, "age_seconds": round(age(), 3)})
        return Ready(body, headers_of(served, len(body), None))

    @made.get("/healthz", responses=responses(ALIVE, kept=False), response_class=Response)
    async def healthz() -> Response:
        """Whether this worker is alive."""
        body = b'{"alive":true}'
        return Ready(body, headers_of(serving.now, len(body), None))

    @made.get(
        "/readyz", responses=responses(told(age_seconds={"type": "number"}), kept=False), response_class=Response
    )
    async def readyz() -> Response:
        """Whether a verified snapshot is served that is young enough; 503 says why not."""
        served, old = serving.now, age()
        if settings.max_age is not None and old > settings.max_age:
            why = f"; the newest is refused: {serving.refused}" if serving.refused else ""
            raise Problem(
                503,
                f"snapshot {served.name} is {old:.0f} s old, at most {settings.max_age:g} s are allowed{why}",
                limit="max_age",
                value=round(old, 3),
                bound=settings.max_age,
                retry_after=1,
            )
        told_of = {"snapshot": served.name, "age_seconds": round(old, 3)}
        if serving.refused:
            told_of["refused"] = serving.refused
        body = orjson.dumps(told_of)
        return Ready(body, headers_of(served, len(body), None))

    @made.get("/metrics", responses={**TEXT}, response_class=Response)
    async def metrics() -> Response:
        """Counters and gauges as Prometheus reads them."""
        text = await asyncio.get_running_loop().run_in_executor(None, state.metrics.text)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    return made
