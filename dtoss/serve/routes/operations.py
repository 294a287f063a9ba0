"""What operators ask: ``/snapshot``, ``/healthz``, ``/readyz`` and ``/metrics``."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import orjson
from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.response.base import ASGIResponse

from dtoss.serve.answers.open_snapshots import ServedSnapshot
from dtoss.serve.answers.responses import Asker, answer_of_now
from dtoss.serve.cluster.wire_messages import WIRE_SPOKEN
from dtoss.serve.core.problems import Problem
from dtoss.serve.rights.sight import seen_facts, sight_of, token_of
from dtoss.serve.routes.parameters import Snapshot
from dtoss.serve.routes.schemas import (
    FLAG,
    LONG,
    NATURAL,
    NUMBER,
    STRING,
    also,
    array,
    fields,
    maybe,
    responses,
    sent_as,
    told,
)
from dtoss.serve.scatter_gather.cluster_index import answers_of
from dtoss.serve.state.worker_state import WorkerState

_HELD = array(LONG, description="Partitions that this server of a plan holds.")
_REFUSED = {**STRING, "description": "Why a newer snapshot is not served."}
FACTS = also(
    told("SnapshotFacts", commit=NATURAL, objects=NATURAL, age_seconds=NUMBER),
    sites=NATURAL, partitions=NATURAL, crs=STRING, metric={**STRING, "description": "sphere or plane."},
    unit=STRING, bounds=maybe(array(NUMBER)), id_type={**STRING, "description": "int64 or string."},
    columns={"type": "object", "additionalProperties": STRING}, created=STRING, version=STRING, refused=_REFUSED,
    held=_HELD, pivots_hash=STRING, objects_held=NATURAL,
)  # fmt: skip
IS_READY = also(told("IsReady", age_seconds=NUMBER), refused=_REFUSED, held=_HELD)
NOT_TAKEN = "a newer snapshot is not served: GET /snapshot says why, and the log"
"""Said to everybody: why it is not served may name paths."""
ALIVE = fields("IsAlive", alive=FLAG)
METRICS_ANSWER = sent_as("text/plain", "Metrics as Prometheus reads them.", text=True)


def handlers(state: WorkerState) -> list[HTTPRouteHandler]:
    """Return the routes for operators."""
    serving, settings = state.serving, state.settings

    making: list[asyncio.Future[bytes]] = []

    def age() -> float:
        return max(time.time() - serving.now.made, 0.0)

    def of_the_plan(served: ServedSnapshot) -> dict[str, Any]:
        """Return what the other servers of a plan are told, and which of them are not understood."""
        if served.share is None:
            return {}
        unread = {} if state.circle is None else state.circle.unread
        missed = {str(server): why for server, why in sorted(unread.items())}
        said = {"held": list(served.share.held), "wire": str(WIRE_SPOKEN)}
        return said | ({"unread": missed} if missed else {})

    @get("/snapshot", opt={"responses": responses(FACTS, kept=False)})
    async def facts(request: Asker, snapshot: Snapshot = None) -> ASGIResponse:
        """Return what is served: the snapshot, its commit, objects, CRS, columns and age; or another that is open."""
        served = serving.named(snapshot)
        old = max(time.time() - served.made, 0.0)
        told_of = served.facts
        if token_of(request).narrowed:
            told_of = await seen_facts(sight_of(state, request, served), request, answers_of(state, served).ask)
        elif serving.refused and snapshot is None:
            told_of = {**told_of, "refused": serving.refused}
        return answer_of_now(served, orjson.dumps({"snapshot": served.name, **told_of, "age_seconds": round(old, 3)}))

    @get("/healthz", opt={"responses": responses(ALIVE, kept=False)})
    async def healthz() -> ASGIResponse:
        """Return whether this worker is alive."""
        body = b'{"alive":true}'
        return answer_of_now(serving.now, body)

    @get("/readyz", opt={"responses": responses(IS_READY, kept=False)})
    async def readyz() -> ASGIResponse:
        """Return whether a verified snapshot is served that is young enough; 503 says why not."""
        served, old = serving.now, age()
        if settings.max_age is not None and old > settings.max_age:
            why = f"; {NOT_TAKEN}" if serving.refused else ""
            raise Problem(
                503,
                f"snapshot {served.name} is {old:.0f} s old, at most {settings.max_age:g} s are allowed{why}",
                limit="max_age",
                value=round(old, 3),
                bound=settings.max_age,
                retry_after=1,
                more=of_the_plan(served),
            )
        told_of: dict[str, Any] = {"snapshot": served.name, "age_seconds": round(old, 3)}
        if serving.refused:
            told_of["refused"] = NOT_TAKEN
        return answer_of_now(served, orjson.dumps(told_of | of_the_plan(served)))

    @get("/metrics", opt={"responses": METRICS_ANSWER})
    async def metrics() -> ASGIResponse:
        """Return counters and gauges as Prometheus reads them."""
        # beside the pool, which may be full just then; who asks meanwhile gets the same
        if not making or making[0].done():
            making[:] = [asyncio.get_running_loop().run_in_executor(None, state.metrics.text)]
        text = await asyncio.shield(making[0])
        kind = b"text/plain; version=0.0.4; charset=utf-8"
        return answer_of_now(serving.now, text, kind)

    return [facts, healthz, readyz, metrics]
