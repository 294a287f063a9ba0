"""Which pages may ask from a browser (CORS), and the headers that tell it so."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from dtoss.errors import InputError

ANY = "*"
Headers = list[tuple[bytes, bytes]]
_SHOWN = b"etag, link, retry-after, x-dtoss-snapshot, x-request-id"
_METHODS = b"GET, POST, DELETE, OPTIONS"
_SENT = b"accept, authorization, content-type, if-none-match, last-event-id, x-request-id"
_KEPT_SECONDS = b"7200"


class Origins:
    """Origins whose pages may ask."""

    def __init__(self, allowed: Sequence[str]) -> None:
        for origin in allowed:
            if origin != ANY and not _is_origin(origin):
                raise InputError(f"{origin!r} is no origin: https://map.example.org is one, or * for all")
        self._any = ANY in allowed
        self._told: dict[bytes, Headers] = {}
        for origin in allowed:
            self._told[origin.encode()] = _named(origin.encode())
        # caches tell answers apart only if those for other origins say so too
        self._others: Headers = [(b"vary", b"origin")] if allowed else []
        self._all: Headers = [(b"access-control-allow-origin", b"*"), (b"access-control-expose-headers", _SHOWN)]

    def headers(self, origin: bytes | None) -> Headers:
        """Return what an answer says to the browser of a page of that origin."""
        if origin is None:
            return []
        return self._all if self._any else self._told.get(origin, self._others)

    def preflight(self, origin: bytes | None) -> Headers:
        """Return what the browser hears that asks whether it may ask; nothing but ``vary`` where it may not."""
        told = self.headers(origin)
        if origin is None or told is self._others:
            return told
        return [
            *told,
            (b"access-control-allow-methods", _METHODS),
            (b"access-control-allow-headers", _SENT),
            (b"access-control-max-age", _KEPT_SECONDS),
        ]


def _named(origin: bytes) -> Headers:
    return [
        (b"access-control-allow-origin", origin),
        (b"access-control-expose-headers", _SHOWN),
        (b"vary", b"origin"),
    ]


def _is_origin(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and f"{parts.scheme}://{parts.netloc}" == text
    except ValueError:
        return False
