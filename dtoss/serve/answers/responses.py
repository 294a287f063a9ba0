"""Answers that are ready bytes, for the framework: nothing of them is validated or encoded again."""

from __future__ import annotations

from typing import Any

from litestar import Request
from litestar.response.base import ASGIResponse

from dtoss.serve.answers.json_out import ARROW_TYPE, JSON_TYPE, etag, headers_of
from dtoss.serve.answers.open_snapshots import ServedSnapshot
from dtoss.serve.auth.tokens import ADMITTED


class Ready(ASGIResponse):
    """An answer of given bytes and headers, and no others."""

    def __init__(self, body: bytes, headers: list[tuple[bytes, bytes]], status: int = 200) -> None:
        self.body = body
        self.sent = headers
        self.status_code = status

    def to_asgi_response(self, **_: Any) -> Ready:
        """Return itself: what the framework asks of answers to errors."""
        return self

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send it."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.sent})
        await send({"type": "http.response.body", "body": self.body})


_ARROW, _JSON = ARROW_TYPE.decode(), JSON_TYPE.decode()
Asker = Request[Any, Any, Any]
"""A request of the framework."""


def weights_of(accepted: str) -> dict[str, float]:
    """Return what a header such as Accept names, in its order, with the weight of each (RFC 9110, 12.4.2).

    Examples
    --------
    >>> weights_of("text/html, application/json;q=0.5, *;q=none")
    {'text/html': 1.0, 'application/json': 0.5, '*': 0.0}
    """
    found = {}
    for one in accepted.lower().split(","):
        name, *parameters = one.replace(" ", "").split(";")
        weight = next((said[2:] for said in parameters if said.startswith("q=")), "1")
        found[name] = float(weight) if weight.replace(".", "", 1).isdecimal() else 0.0
    return found


def wants_arrow(request: Asker) -> bool:
    """Return whether a request wants an Arrow stream and not JSON; who takes both alike gets what is named first."""
    accepted = request.headers.get("accept", "")
    if _ARROW not in accepted:
        return False
    named = {kind: weight for kind, weight in weights_of(accepted).items() if kind in (_ARROW, _JSON)}
    return named.get(_ARROW, 0.0) > 0.0 and max(named, key=lambda kind: named[kind]) == _ARROW


def header_of(request: Asker, name: str) -> bytes | None:
    """Return a header as it came; None where there is none."""
    given = request.headers.get(name)
    return None if given is None else given.encode("latin-1")


def target_of(request: Asker) -> bytes:
    """Return the path and query of a request as they came."""
    raw: bytes = request.scope["raw_path"]
    query: bytes = request.scope["query_string"]
    return raw + b"?" + query if query else raw


def tag_of(request: Asker, served: ServedSnapshot) -> bytes | None:
    """Return the ETag of the answer to a request; None where it is a POST, whose answers nobody keeps."""
    if request.method not in ("GET", "HEAD"):
        return None
    scope: Any = request.scope
    return etag(served, target_of(request) + scope[ADMITTED].mark, wants_arrow(request))


def unless_modified(request: Asker, served: ServedSnapshot) -> Ready | None:
    """Return an answer that says that the client's own is still right, if it is."""
    tag = tag_of(request, served)
    return not_modified(served, tag) if tag is not None and is_known(request, tag) else None


def is_known(request: Asker, tag: bytes) -> bool:
    """Return whether a client says that it has the answer of an ETag."""
    known = request.headers.get("if-none-match")
    if known is None:
        return False
    return known.strip() == "*" or tag.decode() in (one.strip().removeprefix("W/") for one in known.split(","))


def not_modified(served: ServedSnapshot, tag: bytes) -> Ready:
    """Return an answer that says that the client's own is still right."""
    return Ready(b"", [header for header in headers_of(served, None, tag) if header[0] != b"content-type"], 304)


def kept_answer(request: Asker, served: ServedSnapshot, body: bytes, kind: bytes = JSON_TYPE) -> Ready:
    """Return an answer that a client may keep."""
    return Ready(body, headers_of(served, len(body), tag_of(request, served), kind))


def answer_of_now(served: ServedSnapshot, body: bytes, kind: bytes = JSON_TYPE) -> Ready:
    """Return an answer that nobody keeps: it may be another one a moment later."""
    return Ready(body, headers_of(served, len(body), None, kind))
