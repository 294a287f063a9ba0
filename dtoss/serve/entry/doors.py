"""The doors: whether a request may come in, by its headers alone; the same for both ways."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dtoss.errors import InputError
from dtoss.serve.entry.buckets import Buckets
from dtoss.serve.entry.hosts import Hosts, is_name
from dtoss.serve.entry.origins import Origins
from dtoss.serve.entry.tokens import PEER, WRITE, TokenBook, read_tokens
from dtoss.serve.problems import Problem
from dtoss.serve.settings import Settings


class Doors:
    """Who may ask, how often, and pages of which origins.

    Parameters
    ----------
    token_file
        Of those who may ask; None lets everybody.
    rate
        Requests/s of each token, of all together without tokens; None: any. The kernel spreads connections over
        workers, and each worker lets through its share of the rate: so a single connection gets that share.
    origins
        Whose pages may ask from a browser.
    allow_host
        Names that are answered to without tokens, beside addresses and those of this machine.
    workers
        Of the server.
    tell
        Is told what happens, as :meth:`.log_lines.Log.event`.

    Raises
    ------
    InputError
        If the file cannot be read, an origin is none, or a name of a host.
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
    ) -> None:
        self._file = token_file
        self._book = None if token_file is None else TokenBook(read_tokens(token_file))
        self._rate = rate
        self._buckets = None if rate is None else Buckets(rate / workers)
        self._origins = Origins(origins)
        self._tell = tell
        self.hosts = Hosts(None if token_file is not None else allow_host)
        """Which hosts are answered to."""
        self.cors = self._origins.headers
        self.preflight = self._origins.preflight

    def admit(self, authorization: bytes | None) -> str:
        """Return the name of the token in a header, "" where none is needed.

        Raises
        ------
        Problem
            401 if it is nobody's, 429 if it asks too often.
        """
        name = ""
        if self._book is not None:
            found = None if authorization is None else self._book.find(authorization)
            if found is None:
                missing = "no token came with the request" if authorization is None else "the token is not known here"
                raise Problem(401, f"{missing}: send a known one in the header Authorization: Bearer TOKEN")
            name = found.name
        if self._buckets is not None and (seconds := self._buckets.take(name)):
            raise Problem(
                429,
                f"{name or 'everybody together'} may ask {self._rate:g} times a second: wait {seconds} s",
                limit="rate",
                bound=self._rate,
                retry_after=seconds,
            )
        return name

    @property
    def lets_write(self) -> bool:
        """Whether somebody may change subscriptions."""
        return self._book is not None and self._book.lets_write

    def may_write(self, authorization: bytes | None) -> bool:
        """Return whether the token in a header may change subscriptions; without one nobody may."""
        return self._book is not None and self._right(authorization) == WRITE

    def is_peer(self, authorization: bytes | None) -> bool:
        """Return whether the token in a header is one that servers of a plan say; without tokens everybody is one."""
        return self._book is None or self._right(authorization) == PEER

    def _right(self, authorization: bytes | None) -> str:
        found = None if self._book is None or authorization is None else self._book.find(authorization)
        return "" if found is None else found.right

    def reload(self) -> None:
        """Read the tokens anew; a file that is no good changes nothing, and is logged."""
        if self._file is None:
            return
        try:
            self._book = TokenBook(read_tokens(self._file))
        except InputError as error:
            self._event("tokens kept", detail=str(error))
        else:
            self._event("tokens read")

    def _event(self, what: str, **facts: Any) -> None:
        if self._tell is not None:
            self._tell(what, **facts)


def doors_of(settings: Settings, tell: Callable[..., Any] | None = None) -> Doors:
    """Return the doors of a server, or of one of its workers, which is told by ``tell`` what happens.

    Raises
    ------
    InputError
        As :class:`Doors`.
    """
    hosts = (*settings.allow_host, settings.host) if is_name(settings.host) else settings.allow_host
    return Doors(
        settings.token_file, settings.rate, settings.cors, allow_host=hosts, workers=settings.workers, tell=tell
    )
