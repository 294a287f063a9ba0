"""The application of a worker: all routes on the framework, and the front before it."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

import dtoss
from dtoss.serve.front import DETAIL, REQUEST_ID, Front, RequestIds
from dtoss.serve.hot_protocol import Desk
from dtoss.serve.problems import PROBLEM_TYPE, Problem
from dtoss.serve.ready import Ready
from dtoss.serve.routes import bulk, care, objects, places, shapes
from dtoss.serve.state import WorkerState

ABOUT = """Who is near? Exact answers from an index of moving objects that is built anew every cycle.

Positions are lon, lat in degrees (distances in metres), or x, y in units of the CRS. Hits are in the order
(distance, id). Every answer names the snapshot that gave it; `docs/serve.md` says more."""
BOUNDS = ("ge", "le", "gt", "lt", "max_length", "min_length", "expected")
"""Where a validation's context holds the bound."""


def application(state: WorkerState, loop: asyncio.AbstractEventLoop) -> tuple[Front, Desk]:
    """Return the application of a worker, and what its connections share."""
    ids = RequestIds()
    desk = Desk(state, loop, ids)
    app = FastAPI(
        title="dtoss", version=dtoss.__version__, description=ABOUT, docs_url=None, redoc_url=None,
        redirect_slashes=False,
    )  # fmt: skip
    app.include_router(places.router(state, desk.gathering))
    app.include_router(objects.router(state))
    app.include_router(bulk.router(state))
    app.include_router(shapes.router(state))
    app.include_router(care.router(state))
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(RequestValidationError, _not_valid)
    app.add_exception_handler(HTTPException, _no_route)
    return Front(state, app, ids), desk


async def _problem(request: Request, problem: Any) -> Response:
    request.scope[DETAIL] = problem.detail
    body = problem.body(request.scope[REQUEST_ID])
    headers = [(b"content-type", PROBLEM_TYPE), (b"content-length", b"%d" % len(body)), *problem.headers()]
    return Ready(body, headers, problem.status)


async def _not_valid(request: Request, error: Any) -> Response:
    """Say which parameters are wrong, each with its value and bound."""
    said = []
    for one in error.errors():
        name = ".".join(str(part) for part in one["loc"][1:]) or str(one["loc"][0])
        given = "" if one["type"] == "missing" else f" is {_short(one['input'])}"
        said.append(f"{name}{given}: {one['msg'][:1].lower()}{one['msg'][1:]}")
    first = error.errors()[0]
    context = first.get("ctx") or {}
    problem = Problem(
        400,
        "; ".join(said[:5]),
        limit=str(first["loc"][-1]),
        value=None if first["type"] == "missing" else _short(first["input"]),
        bound=next((context[name] for name in BOUNDS if name in context), None),
    )
    return await _problem(request, problem)


async def _no_route(request: Request, error: Any) -> Response:
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        problem = Problem(405, f"{request.method} {request.url.path} is not allowed: {allowed} is", bound=allowed)
    else:
        problem = Problem(error.status_code, f"there is no {request.url.path[:200]} here: /openapi.json lists what is")
    response = await _problem(request, problem)
    if error.status_code == 405:
        response.raw_headers.append((b"allow", allowed.encode()))
    return response


def _short(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 100 else text[:100] + "..."
