"""What is wrong with a request, as ``application/problem+json`` (RFC 9457)."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import orjson

PROBLEM_TYPE = b"application/problem+json"
"""Content type of a problem."""


LONGEST_DETAIL, LONGEST_VALUE = 500, 200
"""Characters of what is told to a client."""


def shorten(text: str, most: int) -> str:
    """Return a text of so many characters at most, without its middle where it is longer.

    Examples
    --------
    >>> shorten("from the beginning to the end", 17)
    'from t ... he end'
    """
    if len(text) <= most:
        return text
    end = (most - 5) // 2
    return f"{text[: most - 5 - end]} ... {text[-end:]}"


class Problem(Exception):
    """A request that is not answered.

    ``retry_after``: seconds after which to ask again.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        limit: str | None = None,
        value: Any = None,
        bound: Any = None,
        retry_after: int | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        detail = shorten(detail, LONGEST_DETAIL)
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.limit = limit
        if isinstance(value, int) and abs(value) >= 1 << 63:
            value = str(value)  # JSON of this kind holds 64 bits
        self.value = shorten(value, LONGEST_VALUE) if isinstance(value, str) else value
        self.bound = bound
        self.retry_after = retry_after
        self.more = more or {}

    def body(self, request_id: str) -> bytes:
        """Return the bytes of the answer."""
        told: dict[str, Any] = {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
        }
        named = {"limit": self.limit, "value": self.value, "bound": self.bound}
        told |= {name: value for name, value in named.items() if value is not None}
        told |= self.more
        return orjson.dumps(told | {"request_id": request_id}, default=str)

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Return the headers that only this problem has."""
        found = [] if self.retry_after is None else [(b"retry-after", b"%d" % self.retry_after)]
        return [(b"www-authenticate", b'Bearer realm="dtoss"'), *found] if self.status == 401 else found
