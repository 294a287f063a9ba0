"""A document at a URL that is looked at again and again: JSON, an object a line, or CSV."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from dtoss.client.endpoint import Access, Place
from dtoss.client.http_connections import Later, seconds_asked
from dtoss.errors import InputError
from dtoss.feeds.feed import Batch
from dtoss.log.read_upto import ReadUpto

LARGEST_DOCUMENT = 64_000_000
"""Bytes of one, at the most."""
_ACCEPTED = "application/json, application/x-ndjson, text/csv, */*;q=0.5"


class Known(NamedTuple):
    """What is known of the document whose rows are on disk."""

    etag: str | None = None
    changed: str | None = None
    digest: bytes = b""


class PolledUrl:
    """A URL; no redirect is followed. ``largest``: bytes that a document may have."""

    def __init__(self, place: Place, access: Access, largest: int = LARGEST_DOCUMENT) -> None:
        self._place, self._access, self._largest = place, access, largest
        if len(place.hosts) != 1 or place.user is not None:
            raise InputError(f"--from {place} is none: {place.scheme}://HOST/PATH is wanted, without a user")
        self._target = (place.path or "/") + (f"?{place.query}" if place.query else "")
        what = sha256(f"{self._target}#{place.part}".encode()).hexdigest()[:32]  # a query may hold a secret
        self._source = f"{place}/{what}"
        self._known: Known | None = None
        self._next = time.monotonic()
        self._tls = ssl.create_default_context() if place.scheme == "https" else None

    def __str__(self) -> str:
        return str(self._place)

    def take(self, seconds: float) -> Batch | None:
        """Return the rows of the document if it is time to look, and it is another one than the last."""
        left = self._next - time.monotonic()
        if left > 0:
            time.sleep(min(left, seconds))
            return None
        if self._known is None:
            self._known = Known(digest=_digest_of(self._access.upto(self._source)))
        self._next = time.monotonic() + self._access.every
        try:
            status, headers, body = self._ask(self._known)
        except (OSError, http.client.HTTPException) as error:
            raise Later(f"{self} cannot be read ({' '.join(str(error).split()) or type(error).__name__})") from None
        if status == 304:
            return None
        if status != 200:
            more = ": name the URL that it leads to" if 300 <= status < 400 else ""
            raise Later(f"{self} answers {status}{more}", seconds_asked(headers.get("retry-after"), time.time()))
        digest = sha256(self._access.read_as.encode() + b"\0" + body).digest()
        known = Known(headers.get("etag"), headers.get("last-modified"), digest)
        if known.digest == self._known.digest:
            self._known = known
            return None
        upto = ReadUpto(self._source, _numbers_of(digest))
        if self._access.whole:
            return Batch((body,), known, upto=upto)
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "text/csv" or (kind in ("", "text/plain") and self._place.path.endswith(".csv")):
            return Batch((body,), known, csv=True, upto=upto)
        return Batch(_messages(body, self._place.part), known, upto=upto)

    def acknowledge(self, batch: Batch) -> None:
        """Remember the document."""
        self._known = batch.mark

    def close(self) -> None:
        """Nothing stays open."""

    def _ask(self, known: Known) -> tuple[int, dict[str, str], bytes]:
        place = self._place
        headers = {"Accept": _ACCEPTED, "Connection": "close"}
        if self._access.secret:
            headers["Authorization"] = f"Bearer {self._access.secret}"
        if known.etag:
            headers["if-none-match"] = known.etag
        if known.changed:
            headers["If-Modified-Since"] = known.changed
        host, port, timeout = place.host, place.hosts[0][1], self._access.timeout
        link = (
            http.client.HTTPConnection(host, port, timeout=timeout) if self._tls is None
            else http.client.HTTPSConnection(host, port, timeout=timeout, context=self._tls)
        )  # fmt: skip
        try:
            link.request("GET", self._target, headers=headers)
            answer = link.getresponse()
            body = answer.read(self._largest + 1)
        finally:
            link.close()
        if len(body) > self._largest:
            raise Later(f"{self} has more than {self._largest:,} bytes, which is too much for one document")
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, body


def _numbers_of(digest: bytes) -> dict[int, int]:
    """Return a digest as a log keeps it, 64 bits in each part of the source."""
    return {at // 8: int.from_bytes(digest[at : at + 8]) for at in range(0, len(digest), 8)}


def _digest_of(numbers: Mapping[int, int]) -> bytes:
    return b"".join(number.to_bytes(8) for _, number in sorted(numbers.items()))


def _messages(body: bytes, where: str) -> tuple[bytes, ...]:
    """Return the messages of a document; ``where``: the member of JSON that holds them, as in ``data.vehicles``."""
    text = body.removeprefix(b"\xef\xbb\xbf").strip()
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        return tuple(line for line in text.splitlines() if line.strip())
    for name in filter(None, where.split(".")):
        found = found.get(name) if isinstance(found, dict) else None
    if isinstance(found, list):
        return tuple(json.dumps(one).encode() for one in found)
    return (json.dumps(found).encode(),)
