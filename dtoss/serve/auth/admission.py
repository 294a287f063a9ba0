"""The doors: whether a request may come in, by its headers alone; the same for both ways.

How often somebody may ask: a bucket that fills at a rate, and of which each request takes one.

Which pages may ask from a browser (CORS), and the headers that tell it so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from ipaddress import ip_address
from math import ceil
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from dtoss.errors import InputError
from dtoss.serve.auth.tokens import ADMIN, EVERYBODY, PEER, POSITIONS, SUBSCRIBE, WRITE, Token, TokenBook, read_tokens
from dtoss.serve.core.problems import Problem
from dtoss.serve.core.server_settings import Settings

HEADER = b"host"
MOST_KNOWN = 256
"""Values of the header that are known to be good."""
_VALUE = re.compile(rb"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")
_NAME = re.compile(r"[A-Za-z0-9._-]+")


class Hosts:
    """Which hosts are asked for here.

    ``allowed``: names beside ``localhost`` and IP addresses; None answers to all, where a token says who asks.
    """

    def __init__(self, allowed: Sequence[str] | None = None) -> None:
        for name in allowed or ():
            if not is_name(name):
                raise InputError(f"--allow-host {name!r} is no name of a host: map.example.org is one, without a port")
        self._allowed = None if allowed is None else frozenset(map(_plain, allowed))
        self.known: set[bytes] = set()  # values of the header that were found to be good

    def check(self, headers: Iterable[tuple[bytes, bytes]], version: str) -> None:
        """Refuse a request for another host."""
        given = [value for name, value in headers if name == HEADER]
        if not given and version == "1.0":
            return
        if len(given) != 1:
            raise Problem(400, f"there are {len(given)} headers Host: a request names the host once", limit="host")
        if (problem := self._problem_of(given[0])) is not None:
            raise problem

    def takes(self, value: bytes) -> bool:
        """Return whether a header names a host that is answered to."""
        return value in self.known or self._problem_of(value) is None

    def _problem_of(self, value: bytes) -> Problem | None:
        """Return what is wrong with a header; one that is good is remembered."""
        if value in self.known:
            return None
        found = _VALUE.fullmatch(value)
        if found is None:
            return Problem(400, f"Host is {_quote(value)}: a name or an address is wanted, and a port", limit="host")
        name = _plain(found[1].decode())
        if self._allowed is not None and name not in self._allowed and not _is_local(name):
            return Problem(
                403,
                f"{_quote(value)} is not answered to without tokens: ask by an IP address or localhost, or start the "
                f"server with --allow-host {name[:100]} or --token-file",
                limit="host",
            )
        if len(self.known) < MOST_KNOWN:
            self.known.add(value)
        return None


def is_name(host: str) -> bool:
    """Return whether a host may be asked for by this name; one of an address of IPv6 needs none."""
    return _NAME.fullmatch(host) is not None


def _plain(name: str) -> str:
    return name.lower().removesuffix(".")


def _is_local(name: str) -> bool:
    """Return whether no name server can lead a name elsewhere: it is an address, or one of this machine."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def _quote(value: bytes) -> str:
    return repr(value[:100].decode("latin-1"))


class Doors:
    """Who may ask, how often, and pages of which origins.

    ``token_file``: of those who may ask; None lets everybody; ``rate``: requests/s of each token, of all together
    without tokens; None: any. The kernel spreads connections over workers, and each worker lets through its share of
    the rate: so a single connection gets that share; ``allow_host``: names that are answered to without tokens, beside
    addresses and those of this machine.
    """

    def __init__(
        self,
        token_file: str | None = None,
        rate: float | None = None,
        origins: Sequence[str] = (),
        *,
        allow_host: Sequence[str] = (),
        workers: int = 1,
        tell: Callable[..., Any] | None = None,
        longest: int = 1_000,
    ) -> None:
        self._file = token_file
        self._longest = longest
        self._book = self._read()
        self._listening: dict[object, tuple[Token, Callable[[], None]]] = {}
        self._rate = rate
        self._buckets = None if rate is None else Buckets(rate / workers)
        self._origins = Origins(origins)
        self._tell = tell
        self.hosts = Hosts(None if token_file is not None else allow_host)
        """Which hosts are answered to."""
        self.cors = self._origins.headers
        self.preflight = self._origins.preflight

    def admit(self, authorization: bytes | None) -> Token:
        """Return the token in a header, :data:`.tokens.EVERYBODY` where none is needed."""
        token = EVERYBODY
        if self._book is not None:
            found = None if authorization is None else self._book.find(authorization)
            if found is None:
                missing = "no token came with the request" if authorization is None else "the token is not known here"
                raise Problem(401, f"{missing}: send a known one in the header Authorization: Bearer TOKEN")
            token = found
        if self._buckets is not None and (seconds := self._buckets.take(token.name)):
            raise Problem(
                429,
                f"{token.name or 'everybody together'} may ask {self._rate:g} times a second: wait {seconds} s",
                limit="rate",
                bound=self._rate,
                retry_after=seconds,
            )
        return token

    def give_back(self, token: Token) -> None:
        """Count a request that was admitted no more, as another server counts it."""
        if self._buckets is not None:
            self._buckets.give_back(token.name)

    @property
    def lets_write(self) -> bool:
        """Whether somebody may change subscriptions."""
        return any(token.scopes & {SUBSCRIBE, WRITE} for token in self.tokens)

    def may_write(self, authorization: bytes | None) -> bool:
        """Return whether the token in a header may change subscriptions; without one nobody may."""
        return self._book is not None and bool(self._scopes(authorization) & {SUBSCRIBE, WRITE})

    @property
    def lets_tell(self) -> bool:
        """Whether somebody may tell positions."""
        return self._book is None or any(POSITIONS in token.scopes for token in self.tokens)

    def may_tell(self, authorization: bytes | None) -> bool:
        """Return whether the token in a header may tell positions; without tokens everybody may."""
        return self._book is None or POSITIONS in self._scopes(authorization)

    def lets_page(self, origin: bytes | None, host: bytes) -> bool:
        """Return whether a page may change something: one of this host, or of an origin that may ask.

        Without tokens a browser would send what a page of any other site makes it send, and not show it the answer.
        """
        if origin is None or origin.partition(b"://")[2] == host:
            return True
        return any(name == b"access-control-allow-origin" for name, _ in self.cors(origin))

    def is_peer(self, authorization: bytes | None) -> bool:
        """Return whether the token in a header is one that servers of a plan say; without tokens everybody is one."""
        return self._book is None or PEER in self._scopes(authorization)

    def is_admin(self, token: Token) -> bool:
        """Return whether a token reads what is for admins: one that says so, or where none does, one that sees all."""
        named = any(ADMIN in one.scopes for one in self.tokens)
        return ADMIN in token.scopes or not (token.narrowed or named)

    @property
    def tokens(self) -> list[Token]:
        """All that may ask, none where everybody may."""
        return [] if self._book is None else [*self._book]

    @property
    def mark(self) -> str:
        """What stands for the tokens of now: another one when some have come, gone or changed."""
        return "" if self._book is None else sha256(repr(self.tokens).encode()).hexdigest()

    @contextmanager
    def listening(self, token: Token, over: Callable[[], None]) -> Iterator[None]:
        """Have a stream told, as long as the ``with`` lasts, that its token may not do any more what it may now."""
        key = object()
        self._listening[key] = token, over
        try:
            yield
        finally:
            del self._listening[key]

    def _scopes(self, authorization: bytes | None) -> frozenset[str]:
        found = None if self._book is None or authorization is None else self._book.find(authorization)
        return frozenset() if found is None else found.scopes

    def _read(self) -> TokenBook | None:
        if self._file is None:
            return None
        return TokenBook(read_tokens(self._file, self._longest))

    def reload(self) -> None:
        """Read the tokens anew; a file that is no good changes nothing, and is logged.

        Streams whose token is gone, or may do something else now, end: their clients ask again.
        """
        if self._file is None:
            return
        try:
            self._book = book = self._read()
        except InputError as error:
            self._event("tokens kept", detail=str(error))
            return
        assert book is not None
        known = frozenset(book)
        ending = [over for token, over in self._listening.values() if token not in known]
        for over in ending:
            over()
        self._event("tokens read", **({"streams_ended": len(ending)} if ending else {}))

    def _event(self, what: str, **facts: Any) -> None:
        if self._tell is not None:
            self._tell(what, **facts)


def doors_of(settings: Settings, tell: Callable[..., Any] | None = None) -> Doors:
    """Return the doors of a server, or of one of its workers, which is told by ``tell`` what happens."""
    hosts = (*settings.allow_host, settings.host) if is_name(settings.host) else settings.allow_host
    return Doors(
        settings.token_file, settings.rate, settings.cors, allow_host=hosts, workers=settings.workers, tell=tell,
        longest=settings.limits.condition_length,
    )  # fmt: skip


class Buckets:
    """A bucket for each name, full at first; it holds one second of the rate, and at least one request."""

    def __init__(self, rate: float, clock: Callable[[], float] = monotonic) -> None:
        if not 0.0 < rate < float("inf"):
            raise ValueError(f"rate is {rate}: a number of requests/s above 0 is wanted")
        self._rate = rate
        self._most = max(rate, 1.0)
        self._clock = clock
        self._full_at: dict[str, float] = {}

    def take(self, name: str) -> int:
        """Return 0 and take a request of a name, or whole seconds after which there is one again."""
        now = self._clock()
        # the moment when the bucket is full tells how much it lacks
        full_at = max(self._full_at.get(name, now), now) + 1.0 / self._rate
        lacking = (full_at - now) * self._rate - self._most
        if lacking > 1e-9:
            return max(ceil(lacking / self._rate), 1)
        self._full_at[name] = full_at
        return 0

    def give_back(self, name: str) -> None:
        """Put back a request of a name that was taken."""
        self._full_at[name] -= 1.0 / self._rate


ANY = "*"
Headers = list[tuple[bytes, bytes]]
_SHOWN = b"dtoss-seq, etag, link, retry-after, x-dtoss-snapshot, x-request-id"
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
            self._told[origin.encode()] = _headers_of(origin.encode())
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


def _headers_of(origin: bytes) -> Headers:
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
