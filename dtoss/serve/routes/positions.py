"""``POST /positions``: rows that are told now, judged, and acknowledged once they are on disk.

A body is JSON, an object a line, or an Arrow stream.
"""

from __future__ import annotations

from math import ceil
from typing import Annotated, Any

import msgspec
import orjson
import pyarrow as pa
from litestar import post
from litestar.handlers import HTTPRouteHandler
from litestar.params import QueryParameter
from litestar.response.base import ASGIResponse

from dtoss.errors import DtossError, InputError
from dtoss.fresh.intake import ANSWER_SECONDS, Away, Busy, Receipt
from dtoss.log.log_reader import log_schema, roles_of
from dtoss.log.read_upto import LONGEST_SOURCE, read_upto
from dtoss.rows.incoming import Incoming, Judgement
from dtoss.serve.answers.json_out import ARROW_TYPE, JSON_TYPE, headers_of
from dtoss.serve.answers.open_snapshots import ServedSnapshot
from dtoss.serve.answers.responses import Asker, Ready, answer_of_now, header_of
from dtoss.serve.auth.tokens import ADMITTED
from dtoss.serve.bulk.arrow_in import Bytes, table_in, too_many_rows
from dtoss.serve.bulk.request_bodies import AS_JSON, Bodies
from dtoss.serve.core.pool import Stop
from dtoss.serve.core.problems import PROBLEM_TYPE, Problem
from dtoss.serve.routes.schemas import (
    BAD_ROW,
    NATURAL,
    STRING,
    Schema,
    also,
    array,
    fields,
    maybe,
    open_ended,
    responses,
)
from dtoss.serve.state.worker_state import WorkerState

PASSED = b"x-dtoss-passed"
"""Header of rows that another server of a plan passes on, as it took this one for the one that writes the log."""
SENT_ON = ("authorization", "content-type", "x-request-id")
"""Headers of rows that are passed on."""
LINE_TYPES = ("application/x-ndjson", "application/ndjson", "application/jsonl")
"""Types of bodies of an object a line."""
ROW_TYPES = ("application/json", LINE_TYPES[0], ARROW_TYPE.decode())
"""Types of bodies of rows, as they are told of."""
_SPACE, _MARK = b" \t\r\n", b"\xef\xbb\xbf"
NAMED_REFUSED = 100
"""Rows that were refused of which an answer says why; of more the count is told."""
TOLD = also(
    fields(
        "Told",
        taken={**NATURAL, "description": "Rows that are on disk by now."},
        seq={**maybe(NATURAL), "description": "The sequence number of the last of them; null where there is none."},
        late={**NATURAL, "description": "Rows of which a later one of the same object stood already."},
        unchanged={**NATURAL, "description": "Rows that say what stood already."},
        bad={**NATURAL, "description": "How many rows were refused."},
        refused=array(BAD_ROW, description=f"The first {NAMED_REFUSED} of those, by their number in the body, from 1."),
    ),
    offsets={**STRING, "description": "Where the source goes on that was named: by the log, not by its broker."},
)
_SOURCE = "Whose rows these are; without a body it is asked where that source goes on."
_OFFSETS = "Where it goes on behind these rows, as in `0:17,1:20`: in the same sync as they are."
_ROW: Schema = open_ended({"title": "PositionRow", "type": "object", "properties": {}}) | {
    "description": "The columns of the rows that the store was built of; with deleted: true an id and a time will do."
}
_EXAMPLE = {"id": 17, "lon": 139.7, "lat": 35.69, "t": "2026-11-28T09:00:00Z"}


def handlers(state: WorkerState, bodies: Bodies) -> list[HTTPRouteHandler]:
    """Return the route of rows that are told."""
    settings, serving = state.settings, state.serving
    limits, known = settings.limits, dict[str, Incoming]()

    def incoming_of(served: ServedSnapshot) -> Incoming:
        """Return what rows have to be for a snapshot, whose columns may be others than those of the one before."""
        if served.name not in known:
            schema = log_schema(served.manifest)
            known.clear()
            known[served.name] = Incoming(served.manifest, schema, roles_of(schema))
        return known[served.name]

    def check_right(request: Asker) -> None:
        given, origin, host = (header_of(request, name) for name in ("authorization", "origin", "host"))
        why = None
        if not settings.allow_positions or state.intake is None:
            why = "the server was started without --allow-positions: positions are told to one that was, or by files"
        elif not state.doors.may_tell(given):
            why = "the token may only read: its line in the token file has to have the word positions"
        elif not state.doors.lets_page(origin, host or b""):
            why = "positions are told by pages of this host, and of origins that --cors names"
        if why is not None:
            raise Problem(403, why, limit="positions")

    def judged_of(body: bytearray, kind: str, served: ServedSnapshot, stop: Stop) -> Judgement:
        incoming = incoming_of(served)
        rows = rows_in(body, kind, incoming, limits.rows, stop)
        stop.check()
        try:
            return incoming.judge(rows)
        except DtossError as error:
            raise Problem(422, f"none of the rows was taken: {error}", limit="rows") from None

    @post("/positions", status_code=200, opt={"responses": responses(TOLD, kept=False), "body": _BODY})
    async def tell(
        request: Asker,
        source: Annotated[str | None, QueryParameter(max_length=LONGEST_SOURCE, description=_SOURCE)] = None,
        offsets: Annotated[str, QueryParameter(description=_OFFSETS)] = "",
    ) -> ASGIResponse:
        """Take rows of positions, and answer once they are on disk; those that cannot be used are named, with a reason.

        The latest row of each object counts, so the same body may be sent again. Answers hold the rows within about a
        second; ``min_seq=`` of a question waits for them. The token has to tell positions.
        """
        check_right(request)
        kind, served = kind_of_rows(request), serving.now
        writer = served.writer
        try:
            upto = None if source is None and not offsets else read_upto(source or "", offsets)
        except InputError as error:
            raise Problem(400, str(error), limit="positions") from None
        async with bodies.of(request) as body:
            if state.circle is not None and writer not in (None, state.circle.me) and not _is_passed(request):
                return await pass_on(request, bytes(body), writer)
            if upto is not None and not body:
                judged = Judgement(incoming_of(served).schema.empty_table(), ())
            else:
                judged = await state.pool.run(request, lambda stop: judged_of(body, kind, served, stop))
                if not len(judged.rows) and not (upto is not None and upto.offsets and judged.refused):
                    raise _none_good(judged)
        try:
            assert state.intake is not None
            taken = await state.intake.put(judged.rows, upto)
        except Busy as busy:
            raise Problem(429, str(busy), limit="positions", retry_after=max(ceil(busy.seconds), 1)) from None
        except Away as away:
            raise Problem(503, str(away), limit="positions", retry_after=1) from None
        return answer_of_now(serving.now, orjson.dumps(_say(taken, judged)))

    async def pass_on(request: Asker, body: bytes, writer: int) -> Ready:
        """Return what the server of the plan answers which writes the log, to the same request."""
        circle, sent = state.circle, [(PASSED, b"1")]
        scope: Any = request.scope
        target = f"/positions?{scope['query_string'].decode('latin-1')}"
        assert circle is not None
        state.doors.give_back(scope[ADMITTED])  # that one counts it by the same token
        sent += [(name.encode(), said) for name in SENT_ON if (said := header_of(request, name)) is not None]
        link = circle.links.get(writer)
        try:
            if link is None:
                raise ConnectionError("--peers does not name it")
            reply = await link.ask(target, body, ANSWER_SECONDS, given=sent)
        except OSError as error:
            raise Problem(
                503,
                f"server {writer}, which writes the log, does not answer ({str(error) or type(error).__name__}): send "
                "the rows again, twice does no harm",
                limit="positions",
                retry_after=1,
            ) from None
        headers = headers_of(serving.now, len(reply.body), None, JSON_TYPE if reply.status == 200 else PROBLEM_TYPE)
        again = [(b"retry-after", b"1")] if reply.status in (429, 503) else []
        return Ready(reply.body, headers + again, reply.status)

    return [tell]


def _is_passed(request: Asker) -> bool:
    return header_of(request, PASSED.decode()) is not None


def _say(taken: Receipt, judged: Judgement) -> dict[str, Any]:
    counts: dict[str, Any] = {"taken": taken.taken, "seq": taken.seq, "late": taken.late, "unchanged": taken.unchanged}
    if taken.offsets is not None:
        counts["offsets"] = taken.offsets
    return counts | {"bad": len(judged.refused), "refused": _name_refused(judged)}


def _name_refused(judged: Judgement) -> list[dict[str, Any]]:
    return [{"row": row, "reason": reason} for row, reason in judged.refused[:NAMED_REFUSED]]


def _none_good(judged: Judgement) -> Problem:
    if not judged.refused:
        return Problem(400, "the body holds no rows: send an object a line, or a list of objects", limit="body")
    row, reason = judged.refused[0]
    return Problem(
        400,
        f"none of the {len(judged.refused):,} rows can be used; the first is row {row}: {reason}",
        limit="rows",
        value=len(judged.refused),
        more={"bad": len(judged.refused), "rows": _name_refused(judged)},
    )


_BODY = {
    "required": True,
    "content": {
        "application/json": {"schema": array(_ROW), "example": [_EXAMPLE]},
        LINE_TYPES[0]: {"schema": {**STRING, "description": "An object on each line."}},
        ARROW_TYPE.decode(): {
            "schema": {**STRING, "format": "binary", "description": "An Arrow IPC stream with the columns of rows."}
        },
    },
}
"""What is read of requests."""


def kind_of_rows(request: Asker) -> str:
    """Return the type of a body of rows, one of :data:`ROW_TYPES`."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in AS_JSON:
        return ROW_TYPES[0]
    if kind in LINE_TYPES:
        return LINE_TYPES[0]
    if kind == ROW_TYPES[-1]:
        return kind
    raise Problem(
        415,
        f"the body is of type {kind[:100]!r}: {', '.join(ROW_TYPES)} are read",
        limit="content-type",
        value=kind[:100],
        bound=list(ROW_TYPES),
    )


def rows_in(body: Bytes, kind: str, incoming: Incoming, most: int, stop: Stop) -> pa.RecordBatch:
    """Return the rows of a body, ``most`` at the most, in the columns that are read; in a thread."""
    table = lines = None
    if kind == ROW_TYPES[-1]:
        table = table_in(body, most, stop.check)
    else:
        lines = _lines_of(bytes(body).removeprefix(_MARK).strip(_SPACE), kind == LINE_TYPES[0], most)
    stop.check()
    try:
        rows = incoming.of_table(table) if lines is None else incoming.of_json(lines, "the body")
    except RecursionError:
        raise _wrong("it is nested too deeply") from None
    except InputError as error:
        raise _wrong(str(error)) from None
    if len(rows) > most:  # a line may be a list of objects
        raise too_many_rows(len(rows), most)
    return rows


def _lines_of(body: bytes, lines: bool, most: int) -> bytes:
    """Return JSON as an object a line, which a list, or one object, is made into."""
    if not lines or body[:1] == b"[":
        try:
            if body[:1] == b"[":
                many = msgspec.json.decode(body, type=list[msgspec.Raw])
            else:
                many = [msgspec.json.decode(body, type=msgspec.Raw)]
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            # what somebody calls JSON may be lines of it
            if body[:1] != b"{" or b"\n" not in body:
                raise _wrong((str(error).splitlines() or ["it is nested too deeply"])[0]) from None
        else:
            if len(many) > most:
                raise too_many_rows(len(many), most)
            if b"\n" in body or b"\r" in body:  # within valid JSON they are space
                return b"\n".join(bytes(one).replace(b"\n", b" ").replace(b"\r", b" ") for one in many)
            return b"\n".join(map(bytes, many))
    count = body.count(b"\n") + 1
    if count > most:
        count = sum(1 for line in body.split(b"\n") if line.strip())
        if count > most:
            raise too_many_rows(count, most)
    return body


def _wrong(text: str) -> Problem:
    return Problem(400, f"the body is not read here: {text}; send an object a line, or a list of objects", limit="body")
