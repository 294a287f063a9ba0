"""The doors: whether a request may come in, by its headers alone; the same for both ways."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

from dtoss.errors import InputError
from dtoss.serve.auth.cors import Origins
from dtoss.serve.auth.hosts import Hosts, is_name
from dtoss.serve.auth.rate_limit import Buckets
from dtoss.serve.auth.tokens import ADMIN, EVERYBODY, PEER, SUBSCRIBE, WRITE, Token, TokenBook, read_tokens
from dtoss.serve.core.problems import Problem
from dtoss.serve.core.server_settings import Settings


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

    @property
    def lets_write(self) -> bool:
        """Whether somebody may change subscriptions."""
        return self._book is not None and self._book.lets_write

    def may_write(self, authorization: bytes | None) -> bool:
        """Return whether the token in a header may change subscriptions; without one nobody may."""
        return self._book is not None and bool(self._scopes(authorization) & {SUBSCRIBE, WRITE})

    def is_peer(self, authorization: bytes | None) -> bool:
        """Return whether the token in a header is one that servers of a plan say; without tokens everybody is one."""
        return self._book is None or PEER in self._scopes(authorization)

    def is_admin(self, token: Token) -> bool:
        """Return whether a token reads what is for admins: one that says so, or where none does, one that sees all."""
        if ADMIN in token.scopes:
            return True
        return not token.narrowed and (self._book is None or not self._book.names_admins)

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
