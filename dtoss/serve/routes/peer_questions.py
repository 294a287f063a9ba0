"""What servers of one plan ask each other: ``POST /partial`` and ``POST /forward``.

It is bounded as what comes from clients: anybody whom the doors let in may send it.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import numpy as np
import orjson
from litestar import post
from litestar.handlers import HTTPRouteHandler
from litestar.response.base import ASGIResponse

from dtoss.errors import InputError, StoreError
from dtoss.geometry.space import Space
from dtoss.kinds.kind import Question
from dtoss.serve.answers.json_out import JSON_TYPE, ObjectQuestion
from dtoss.serve.answers.open_snapshots import ServedSnapshot
from dtoss.serve.answers.responses import Asker, Ready, header_of
from dtoss.serve.auth.tokens import PEER
from dtoss.serve.bulk.request_bodies import Bodies, of_corners
from dtoss.serve.cluster.cluster import NOT_HELD, NOT_READ, OTHER_SNAPSHOT
from dtoss.serve.cluster.wire_messages import (
    WIRE_HEADER,
    WIRE_SAID,
    WIRE_SPOKEN,
    PeerQuestion,
    Wire,
    packed_answer,
    read_message,
    read_wire,
    unread,
)
from dtoss.serve.core.pool import Stop
from dtoss.serve.core.problems import Problem
from dtoss.serve.core.server_settings import Limits
from dtoss.serve.reload.prepare import open_named
from dtoss.serve.requests.bundles import answer_bundle, check_places, is_quick, read_bundle
from dtoss.serve.routes.schemas import LONG, PROBLEM, STRING, array, fields, sent_as
from dtoss.serve.scatter_gather.cluster_index import answered_here
from dtoss.serve.state.worker_state import WorkerState
from dtoss.shards.merge_answers import COUNTED_BY_SHARES
from dtoss.shards.share import PartitionNotHeldError

PACKED_TYPE = b"application/vnd.dtoss.partial"
"""Content type of what servers say to each other."""
_PACKED_TEXT = {PACKED_TYPE.decode(): {"schema": {"type": "string", "format": "binary"}}}
PARTIAL_ANSWERS = sent_as(PACKED_TYPE.decode(), "Packed arrays.") | {
    OTHER_SNAPSHOT: {
        "description": "The snapshot is not there any more; others are named.",
        "content": {JSON_TYPE.decode(): {"schema": fields("OtherSnapshots", snapshots=array(STRING))}},
    },
    NOT_HELD: {
        "description": "A partition is not held here; those that are are named.",
        "content": {JSON_TYPE.decode(): {"schema": fields("HeldHere", held=array(LONG))}},
    },
    NOT_READ: {
        "description": "Messages of this version are not read here; `wire` names the one that is.",
        "content": {"application/problem+json": {"schema": PROBLEM}},
    },
}
PARTIAL_BODY = {"required": True, "content": _PACKED_TEXT}


def handlers(state: WorkerState, bodies: Bodies) -> list[HTTPRouteHandler]:
    """Return the routes for the other servers of a plan; none where a server holds all partitions."""
    if state.circle is None:
        return []
    serving = state.serving

    def not_held(served: ServedSnapshot) -> Ready:
        assert served.share is not None
        return _told(NOT_HELD, held=list(served.share.held))

    @post("/partial", status_code=200, opt={"responses": PARTIAL_ANSWERS, "body": PARTIAL_BODY})
    async def partial(request: Asker) -> ASGIResponse:
        """Answer another server with what this one holds."""
        began = time.monotonic()
        check_peer(state, request)
        wire = wire_of(request)
        async with bodies.of(request) as body:

            def work(stop: Stop) -> Ready | bytes | None:
                try:
                    message, question = read_message(bytes(body), wire)
                except ValueError as error:
                    raise Problem(400, str(error), limit="body") from None
                if time.monotonic() - began > message.left:
                    raise Problem(503, "nobody waits for this answer any more", retry_after=1)
                served = open_named(state, message.snapshot)
                if served is None:
                    return None
                check_question(question, served.index.space, state.settings.limits)
                try:
                    answer = answered_here(state, served, question, stop)
                except PartitionNotHeldError:
                    return not_held(served)
                return packed_answer(message.kind, answer)

            try:
                found = await state.for_others.run(request, work)
            except (ValueError, InputError) as error:
                raise Problem(400, str(error)) from None
            except StoreError:
                found = None
        if found is None:
            return _told(OTHER_SNAPSHOT, snapshots=serving.names())
        return found if isinstance(found, Ready) else _packed(found)

    @post("/forward", status_code=200, opt={"responses": PARTIAL_ANSWERS, "body": PARTIAL_BODY})
    async def forward(request: Asker) -> ASGIResponse:
        """Answer frequent questions that came to another server in one turn of its loop, each by itself or not."""
        check_peer(state, request)
        wire_of(request)
        async with bodies.of(request) as body:
            bundle = read_bundle(state, bytes(body))

            def work(stop: Stop) -> tuple[int, bytes]:
                if serving.now.seq is not None:
                    open_named(state, bundle.snapshot)  # a generation, which takes little
                return answer_bundle(state, bundle, stop)

            there = serving.now.seq is None or serving.open_one(bundle.snapshot) is not None
            if there and is_quick(bundle):
                status, answer = answer_bundle(state, bundle)
            else:
                status, answer = await state.for_others.run(request, work)
        await asyncio.sleep(0)
        return _packed(answer) if status == 200 else Ready(answer, _headers(answer, JSON_TYPE), status)

    return [partial, forward]


def check_peer(state: WorkerState, request: Asker) -> None:
    """Refuse who is no server of a plan."""
    if not state.doors.is_peer(header_of(request, "authorization")):
        raise Problem(
            403,
            f"{request.scope['path']} is for the servers of a plan: the line of their token in --token-file ends in "
            f"the word {PEER}",
            limit="token",
        )


def wire_of(request: Asker) -> Wire:
    """Return the version of a message."""
    try:
        wire = read_wire(header_of(request, WIRE_HEADER.decode()))
    except ValueError as error:
        raise Problem(400, str(error), limit="wire") from None
    if (why := unread(wire)) is not None:
        raise Problem(NOT_READ, why, limit="wire", value=str(wire), more={"wire": str(WIRE_SPOKEN)})
    return wire


def _packed(body: bytes) -> Ready:
    return Ready(body, _headers(body, PACKED_TYPE))


def _headers(body: bytes, kind: bytes) -> list[tuple[bytes, bytes]]:
    return [(b"content-type", kind), (b"content-length", b"%d" % len(body)), (WIRE_HEADER, WIRE_SAID)]


def _told(status: int, **values: Any) -> Ready:
    body = orjson.dumps(values)
    return Ready(body, _headers(body, JSON_TYPE), status)


def check_question(question: PeerQuestion, space: Space, limits: Limits) -> None:
    """Refuse a question that no server of a plan asks."""
    if isinstance(question, ObjectQuestion):
        if not isinstance(question.text, str):
            raise ValueError(f"an object is called {question.text!r}: a text is wanted")
        _check_at_most("line_bytes", len(question.text), limits.line_bytes)
        check_conditions(question.where, None, limits)
        return
    asked = question.asked
    if isinstance(asked, Question):
        assert asked.shapes is not None
        form, text = asked.shapes.form, asked.shapes.text
        if form not in ("box", "boxes", "within"):
            raise ValueError(f"shapes are of kind {form!r}: box, boxes or within is known")
        _check_at_most("hits", asked.given["most"], limits.hits)
        if form == "within":
            bound = of_corners(limits)
            _check_at_most(bound.limit, -(-len(text) * bound.number // bound.bytes), bound.number)
        check_conditions(asked.where, asked.having, limits)
        return
    check_places(asked.positions, asked.radius if question.step.radii else np.zeros(len(asked)), space)
    check_conditions(asked.where, asked.having, limits)
    if question.step is COUNTED_BY_SHARES:
        _check_at_most("bulk_queries", len(asked), limits.bulk_queries)
        return
    # of each place six hits at the most are asked about in turn
    _check_at_most("bulk_queries", len(asked), 6 * limits.bulk_queries)
    if asked.k < 0:
        raise ValueError(f"k is {asked.k}: 0 or more are wanted")
    # a page looks one hit beyond its end, and reverse nearest for two of each of six
    _check_at_most("hits", len(asked) * asked.k, max(limits.hits + 1, 12 * limits.bulk_queries))


def check_conditions(where: str | None, having: str | None, limits: Limits) -> None:
    """Refuse conditions that are too long."""
    for text in (where, having):
        if text is not None:
            # two conditions are one where a page is asked for, and that of the token of who asks is a third one
            _check_at_most("condition_length", len(text), 3 * limits.condition_length + 60)


def _check_at_most(limit: str, value: int, bound: int) -> None:
    if not isinstance(value, int):
        raise ValueError(f"{limit} is {value!r}: a whole number is wanted")
    if value > bound:
        raise Problem(
            413, f"{limit} is {value:,}: at most {bound:,} are answered", limit=limit, value=value, bound=bound
        )
