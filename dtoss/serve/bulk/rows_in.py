"""Rows of positions in the body that a stranger sent: JSON, an object a line, or an Arrow stream."""

from __future__ import annotations

import msgspec
import pyarrow as pa

from dtoss.errors import InputError
from dtoss.rows.incoming import Incoming
from dtoss.serve.answers.json_out import ARROW_TYPE
from dtoss.serve.answers.responses import Asker
from dtoss.serve.bulk.arrow_in import Bytes, table_in, too_many_rows
from dtoss.serve.bulk.places_in import AS_JSON
from dtoss.serve.core.pool import Stop
from dtoss.serve.core.problems import Problem

LINE_TYPES = ("application/x-ndjson", "application/ndjson", "application/jsonl")
"""Types of bodies of an object a line."""
ROW_TYPES = ("application/json", LINE_TYPES[0], ARROW_TYPE.decode())
"""Types of bodies of rows, as they are told of."""
_SPACE, _MARK = b" \t\r\n", b"\xef\xbb\xbf"


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
