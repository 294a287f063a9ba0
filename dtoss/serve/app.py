"""The application of a worker: all routes on the framework, what they say of themselves, and the front before them."""

from __future__ import annotations

import asyncio
import re
import traceback
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias

import orjson
from litestar import Litestar, get
from litestar.datastructures import State
from litestar.exceptions import HTTPException, MethodNotAllowedException, ValidationException
from litestar.openapi.config import OpenAPIConfig
from litestar.params import QueryParameter
from litestar.response.base import ASGIResponse

import dtoss
from dtoss.names import did_you_mean, position_names
from dtoss.serve.answers.json_out import JSON_TYPE
from dtoss.serve.answers.responses import Asker, Ready
from dtoss.serve.bulk.request_bodies import Bodies
from dtoss.serve.cluster.cluster import SnapshotElsewhere
from dtoss.serve.core.pool import ClientGone
from dtoss.serve.core.problems import PROBLEM_TYPE, Problem, shorten
from dtoss.serve.description import openapi_text
from dtoss.serve.requests.front import (
    DETAIL,
    MIN_SEQ,
    OTHERS_HAVE,
    PARTIAL,
    REQUEST_ID,
    AnsweredTogether,
    Front,
    RequestIds,
)
from dtoss.serve.requests.hot_protocol import Desk
from dtoss.serve.rights.sight import AS_ASKED, check_call
from dtoss.serve.routes import (
    batch_queries,
    map,
    map_queries,
    ogc_features,
    operations,
    peer_questions,
    point_queries,
    positions,
    static_pages,
    subscriptions,
    tiles,
    window_queries,
)
from dtoss.serve.routes.schemas import ANYTHING, problems
from dtoss.serve.state.worker_state import WorkerState

ABOUT = """Who is near? Exact answers from an index of moving objects that is built anew every cycle.

Positions are lon, lat in degrees (distances in metres), or x, y in units of the CRS. Hits are in the order
(distance, id). Every answer names the snapshot that gave it; `docs/serve.md` says more."""
_BOUND = re.compile(r"(?:<=|>=|<|>) ?(-?[0-9.e+]+)$")
_MISSING = re.compile(r"Missing required query parameter '([^']+)'")
KNOWN_BY = 30
"""Characters by which a condition is known in a problem: the middle of a long one is left out."""
DESCRIPTION = {
    200: {"description": "This text.", "content": {"application/json": {"schema": ANYTHING | {"title": "Description"}}}}
} | problems()
DescribedIds: TypeAlias = Annotated[
    Literal["number", "string"] | None,
    QueryParameter(title="IdsAs", description="For a client that asks for ids in this form alone."),
]


def application(state: WorkerState, loop: asyncio.AbstractEventLoop) -> tuple[Front, Desk]:
    """Return the application of a worker, and what its connections share."""
    ids = RequestIds()
    desk = Desk(state, loop, ids)
    held = Bodies(state.settings.limits)

    @get(["/openapi.json", "/ogc/api"], opt={"responses": DESCRIPTION})
    async def openapi(ids: DescribedIds = None) -> ASGIResponse:
        """Return what can be asked, as OpenAPI 3.1."""
        text = described(ids)
        return Ready(text, [(b"content-type", JSON_TYPE), (b"content-length", b"%d" % len(text))])

    def check(request: Asker) -> None:
        check_call(state, request)
        check_names(request)

    errors: dict[int | type[Exception], Any] = {  # what is ready has a method that the framework asks for
        Problem: _problem,
        SnapshotElsewhere: _again,
        ClientGone: _nobody,
        ValidationException: _not_valid,
        MethodNotAllowedException: _not_allowed,
        HTTPException: _no_route,
        Exception: _failed,
    }
    app = Litestar(
        [
            *point_queries.handlers(state, desk.gathering),
            *point_queries.object_handlers(state),
            *batch_queries.handlers(state, held),
            *positions.handlers(state, held),
            *tiles.handlers(state),
            *map_queries.handlers(state, held),
            *map.handlers(state),
            *subscriptions.event_handlers(state),
            *subscriptions.handlers(state, held),
            *window_queries.handlers(state),
            *peer_questions.handlers(state, held),
            *ogc_features.handlers(state),
            *operations.handlers(state),
            *static_pages.handlers(state),
            openapi,
        ],
        openapi_config=OpenAPIConfig(
            title="dtoss",
            version=dtoss.__version__,
            description=ABOUT,
            path="/unused",
            use_handler_docstrings=True,
        ),
        exception_handlers=errors,
        before_request=check,
        logging_config=None,
        state=State({"coordinates": dict(zip("xy", _coordinates(state), strict=True))}),
        request_max_body_size=None,
    )
    app.state["names"] = names_of_parameters(app)
    said_of: dict[str, bool] = {
        "text_ids": state.serving.now.index.string_ids, "tokens": state.settings.token_file is not None,
        "several": state.circle is not None, "fresh": state.settings.updates is not None,
    }  # fmt: skip
    described = cache(lambda ids: orjson.dumps(openapi_text(app, ids=ids, **said_of)))
    whole = app if state.circle is None else AnsweredTogether(state, app)  # type: ignore[arg-type]
    return Front(state, whole, ids), desk  # type: ignore[arg-type]


def names_of_parameters(app: Litestar) -> dict[Any, frozenset[str]]:
    """Return the names of the query parameters of each handler."""
    return {
        handler: frozenset(one.field_alias for one in model.expected_query_params)
        for route in app.routes
        for handler, model in getattr(route, "route_handler_map", {}).values()
    }


def check_names(request: Asker) -> None:
    """Refuse parameters that a route does not know: a condition with a wrong name would hold nobody back."""
    if not request.query_params:
        return
    handler: Any = request.route_handler
    known = request.app.state["names"].get(handler, frozenset())
    if not known:
        return
    for name, value in request.query_params.items():
        if name == PARTIAL:
            if value != "ok":
                raise Problem(400, f"{PARTIAL} is {value!r}: ok is, or leave it out", limit=PARTIAL, bound="ok")
        elif name not in known and name != MIN_SEQ:  # which was looked at before
            there = ", ".join(sorted(known))
            raise Problem(
                400, f"{request.scope['path'][:100]} has no parameter {name!r}{did_you_mean(name, known)}; it has "
                f"{there}", limit=shorten(name, 100),
            )  # fmt: skip


def _coordinates(state: WorkerState) -> tuple[str, str]:
    return position_names(state.serving.now.index.space.geographic)


def _problem(request: Asker, problem: Any) -> Ready:
    scope: Any = request.scope
    scope[DETAIL] = problem.detail
    if AS_ASKED in scope:
        problem.detail = _as_asked(problem.detail, *scope[AS_ASKED])
    body = problem.body(scope[REQUEST_ID])
    headers = [(b"content-type", PROBLEM_TYPE), (b"content-length", b"%d" % len(body)), *problem.headers()]
    return Ready(body, headers, problem.status)


def _as_asked(detail: str, asked: str, said: str | None, whole: bool) -> str:
    """Return what is wrong with a condition without that of the token, which who asks need not know.

    Examples
    --------
    >>> _as_asked("where '(a) and (b)': no int: 'x'", "'(a) and (b)'", "'b'", True)
    "where 'b': no int: 'x'"
    >>> _as_asked("where '(a) and (b)': no int: 'x'", "'(a) and (b)'", None, True)
    'the condition cannot be asked of some of the objects'
    """
    if asked[:KNOWN_BY] not in detail:
        return detail
    if said and whole and asked in detail:
        return detail.replace(asked, said)
    return "the condition cannot be asked of some of the objects"


def _again(request: Asker, elsewhere: Any) -> Ready:
    """Say that another server has not the snapshot any more, which is asked for once more."""
    scope: Any = request.scope
    scope[OTHERS_HAVE] = elsewhere.snapshots
    return _problem(request, Problem(409, f"{elsewhere}: ask again", retry_after=1))


def _nobody(request: Asker, gone: Any) -> Ready:
    """Answer nobody: the metrics count it."""
    return Ready(b"", [], 499)


def _not_valid(request: Asker, error: Any) -> Ready:
    """Say which parameters are wrong, each with its value and bound."""
    wrong = error.extra if isinstance(error.extra, list) else []
    if not wrong:
        missing = _MISSING.match(error.detail or "")
        name = missing[1] if missing else "target"
        return _problem(request, Problem(400, f"{name} is missing: {request.scope['path']} needs it", limit=name))
    said = []
    for one in wrong[:5]:
        name, value = _name(request, one), _given(request, one)
        said.append(f"{name} is {_short(value)!r}: {_lower(one['message'])}")
    first = wrong[0]
    bound = _BOUND.search(first["message"])
    problem = Problem(
        400,
        "; ".join(said),
        limit=_name(request, first),
        value=_short(_given(request, first)),
        bound=float(bound[1]) if bound else None,
    )
    return _problem(request, problem)


def _name(request: Asker, wrong: dict[str, Any]) -> str:
    """Return how a client calls a parameter: coordinates have the names of the store's CRS."""
    key = str(wrong.get("key", "target"))
    return request.app.state.coordinates.get(key, key) if wrong.get("source") == "query" else key


def _given(request: Asker, wrong: dict[str, Any]) -> str:
    key = _name(request, wrong)
    found = request.scope["path_params"] if wrong.get("source") == "path" else request.query_params
    return str(found.get(key, ""))


def _not_allowed(request: Asker, error: Any) -> Ready:
    path = request.scope["path"][:200]
    known = {"/" + route.path.strip("/"): route for route in request.app.routes}
    allowed = ", ".join(sorted(getattr(known.get("/" + path.strip("/")), "methods", {"GET"})))
    problem = Problem(405, f"{request.method} {path} is not allowed: {allowed} is", limit="method", bound=allowed)
    response = _problem(request, problem)
    response.sent.append((b"allow", allowed.encode()))
    return response


def _no_route(request: Asker, error: Any) -> Ready:
    if error.status_code == 404:
        return _problem(
            request, Problem(404, f"there is no {request.scope['path'][:200]} here: /openapi.json lists what is")
        )
    return _problem(request, Problem(error.status_code, str(error.detail)))


def _failed(request: Asker, error: Any) -> Ready:
    """Tell the log what failed, and the client where it stands there."""
    scope: Any = request.scope
    trace = "".join(traceback.format_exception(error))
    answer = _problem(request, Problem(500, f"the server failed; its log says more under {scope[REQUEST_ID]}"))
    scope[DETAIL] = trace
    return answer


def _short(text: str) -> str:
    return text if len(text) <= 100 else text[:100] + "..."


def _lower(text: str) -> str:
    return (text[:1].lower() + text[1:]).replace("`", "")
