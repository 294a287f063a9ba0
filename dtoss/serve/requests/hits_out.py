"""Hits of one question as an answer: JSON or an Arrow stream, at once or in pieces."""

from __future__ import annotations

from collections.abc import Iterator

from litestar.response.base import ASGIResponse

from dtoss.hits import Hits
from dtoss.serve.answers.arrow_out import arrow_pieces
from dtoss.serve.answers.json_out import ARROW_TYPE, HITS_A_PIECE, JSON_TYPE, ending, headers_of, rows_json
from dtoss.serve.answers.open_snapshots import ServedSnapshot
from dtoss.serve.answers.responses import Asker, Ready, tag_of, wants_arrow
from dtoss.serve.observability.audit import note
from dtoss.serve.requests.chunked_responses import Pieces
from dtoss.serve.state.worker_state import WorkerState


async def answer_of_hits(
    request: Asker,
    state: WorkerState,
    served: ServedSnapshot,
    hits: Hits,
    *,
    query: bool = False,
    text_ids: bool = False,
    following: str | None = None,
) -> ASGIResponse:
    """Return hits as a request wants them; many are sent piece by piece, each made when the one before has gone out."""
    arrow = wants_arrow(request)
    note(request.scope, hits=len(hits))
    pieces = arrow_pieces(served, hits) if arrow else json_pieces(served, hits, query, text_ids, following)
    kind, tag = ARROW_TYPE if arrow else JSON_TYPE, tag_of(request, served)
    if len(hits) <= HITS_A_PIECE:
        body = b"".join(pieces)
        return Ready(body, headers_of(served, len(body), tag, kind))
    return Pieces(state, request, [next(pieces)], pieces, headers_of(served, None, tag, kind))


def json_pieces(
    served: ServedSnapshot, hits: Hits, query: bool = False, text_ids: bool = False, following: str | None = None
) -> Iterator[bytes]:
    """Yield the JSON of hits, so many at a time that other threads wait for a moment only."""
    yield served.beginning + b"["
    for at in range(0, len(hits), HITS_A_PIECE):
        rows = rows_json(hits[at : at + HITS_A_PIECE], query=query, text_ids=text_ids)
        yield b"," + rows if at else rows
    yield b"]" + ending(following)
