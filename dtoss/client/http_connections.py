"""Requests over connections that stay open, one a thread; streams of events, and pauses before one is tried again."""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from dtoss.client.endpoint import Address
from dtoss.errors import DtossError, InputError, StoreError

ARROW_MEDIA = "application/vnd.apache.arrow.stream"
"""Content type of tables on the wire."""
JSON = "application/json"
"""Content type of documents."""
LATER = (429, 502, 503, 504)
"""Answers after which it is asked again by who has patience."""
MOST_DIGITS = 9
"""Of seconds that a server asks for: what is longer says none."""
SAID = 1000
"""Characters that are quoted, at the most, of an answer that cannot be read."""


def seconds_asked(after: str | None, now: float) -> float:
    """Return the seconds that a header Retry-After asks for, 0 where it says none; ``now``: seconds since 1970.

    Examples
    --------
    >>> seconds_asked("120", 0.0), seconds_asked("Thu, 01 Jan 1970 00:01:00 GMT", 20.0), seconds_asked("soon", 0.0)
    (120.0, 40.0, 0.0)
    """
    if after is None or (len(after) > MOST_DIGITS and after.isdecimal()):
        return 0.0
    if after.isascii() and after.isdecimal():
        return float(after)
    from email.utils import parsedate_to_datetime

    try:
        return max(parsedate_to_datetime(after).timestamp() - now, 0.0)
    except (ValueError, TypeError, OverflowError):
        return 0.0


class TooMuch(ValueError):
    """More was asked for than the server answers at a time: what it says, which limit it is, and by how much."""

    def __init__(self, detail: str, limit: str, value: Any, bound: Any) -> None:
        super().__init__(detail)
        self.limit, self.value, self.bound = limit, value, bound


class BadRows(ValueError):
    """No row of a request could be used: how many there are, and of the first ones the number and the reason."""

    def __init__(self, detail: str, bad: int, rows: Sequence[dict[str, Any]]) -> None:
        super().__init__(detail)
        self.bad, self.rows = bad, rows


class Later(DtossError):
    """A server is away or busy: ask again after some seconds."""

    def __init__(self, why: str, seconds: float = 0.0) -> None:
        super().__init__(why)
        self.seconds = seconds


class Gone(StoreError):
    """The snapshot that was asked for is not open any more."""


class Missing(DtossError):
    """There is no such object or route."""


@dataclass(frozen=True)
class Answer:
    """What a server answered."""

    kind: str  # Content type, without parameters
    snapshot: str  # Which one answered, empty where the server names none
    following: str | None  # The cursor of the next page, None where this is the last
    body: bytes  # Its bytes

    def document(self) -> dict[str, Any]:
        """Return the JSON object in it."""
        try:
            found = json.loads(self.body)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise DtossError(f"the server's answer is of type {self.kind}: JSON is wanted; is it a server of dtoss?")
        return found


class _Held:
    """A connection, which is closed when its thread ends."""

    def __init__(self, link: http.client.HTTPConnection, address: Address) -> None:
        self.link, self.address, self.process = link, address, os.getpid()

    def __del__(self) -> None:
        self.link.close()


class Connections:
    """Connections to a server, one for each thread and process that asks.

    ``token``: who asks; None for servers that everybody may ask; ``timeout``: seconds that an answer may take to go on;
    ``others``: servers that answer the same. Where one cannot be reached, the next one is asked from then on.
    """

    def __init__(self, address: Address, token: str | None, timeout: float, others: Sequence[Address] = ()) -> None:
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < 1e9:
            raise ValueError(f"timeout is {timeout!r}: seconds above 0 are wanted")
        if token is not None and not (token and token.isascii() and token.isprintable() and " " not in token):
            raise ValueError("the token is empty, or holds blanks or letters beyond ASCII: one line without is wanted")
        self.address, self.token, self.timeout = address, token, timeout
        self._all = (address, *others)
        self._mine = threading.local()
        is_tls = any(one.scheme == "https" for one in self._all)
        self._tls = ssl.create_default_context() if is_tls else None

    def ask(self, method: str, target: str, body: bytes | None = None, accept: str = ARROW_MEDIA) -> Answer:
        """Return the answer to one request.

        A connection that the server closed while it was idle is opened again, once: nothing of an answer came, and what
        a request changes, a second one does not change again.

        ``body``: A table on the wire for Arrow, JSON where it begins with a brace; None for none.
        """
        headers = {"Accept": accept}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        if body is not None:
            headers["Content-Type"] = JSON if body[:1] == b"{" else ARROW_MEDIA
        tried = {self.address}
        while True:
            held, reused = self._held()
            try:
                return self._of(held, reused, method, target, body, headers)
            except (OSError, http.client.HTTPException) as error:
                held.link.close()
                following = next((one for one in self._all if one not in tried), None)
                if following is None:
                    raise Later(self.broken(error)) from None
                tried.add(following)
                self.address = following

    def _of(
        self, held: _Held, reused: bool, method: str, target: str, body: bytes | None, headers: dict[str, str]
    ) -> Answer:
        """Return the answer over a connection, which is opened again where it was closed while it was idle."""
        try:
            try:
                return self._exchange(held, method, target, body, headers)
            except (
                ConnectionResetError,
                BrokenPipeError,
                ConnectionAbortedError,
            ):  # http.client's RemoteDisconnected too
                if not reused:
                    raise
            held.link.close()
            return self._exchange(held, method, target, body, headers)
        except (OSError, http.client.HTTPException):
            raise
        except BaseException as error:
            if not isinstance(error, (DtossError, ValueError)):
                held.link.close()  # interrupted: the rest of an answer may still be on its way
            raise

    def link(self) -> http.client.HTTPConnection:
        """Return a connection that is not open yet."""
        at = (self.address.host, self.address.port)
        if self._tls is None or self.address.scheme == "http":
            return http.client.HTTPConnection(*at, timeout=self.timeout)
        return http.client.HTTPSConnection(*at, timeout=self.timeout, context=self._tls)

    def _held(self) -> tuple[_Held, bool]:
        """Return this thread's connection, and whether it has been used."""
        held: _Held | None = getattr(self._mine, "held", None)
        if held is None or held.process != os.getpid() or held.address != self.address:
            held = self._mine.held = _Held(self.link(), self.address)
        return held, held.link.sock is not None

    def _exchange(self, held: _Held, method: str, target: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        link = held.link
        try:
            link.request(method, held.address.prefix + target, body, headers)
        except (BrokenPipeError, ConnectionResetError):
            if body is None:
                raise
            # a server may refuse a body before it has read all of it, and say why
        response = link.getresponse()
        found = response.read()
        kind = response.headers.get_content_type()
        if response.status != 200:
            raise self.wrong(response.status, kind, found, response.headers.get("Retry-After", ""))
        snapshot = response.headers.get("X-Dtoss-Snapshot", "")
        return Answer(kind, snapshot, response.headers.get("X-Dtoss-Next"), found)

    def broken(self, error: Exception) -> str:
        """Return what to say of a server that did not answer."""
        if isinstance(error, ConnectionRefusedError):
            return f"no server answers at {self.address}: start one by dtoss serve, or give the URL of one"
        if isinstance(error, TimeoutError):
            return (
                f"the server at {self.address} has not answered within {self.timeout:g} seconds: ask for less at a "
                "time, or raise timeout="
            )
        if isinstance(error, ssl.SSLCertVerificationError):
            return (
                f"the certificate of {self.address} is not trusted ({error.verify_message}): name that of who signed "
                "it in SSL_CERT_FILE"
            )
        if isinstance(error, http.client.IncompleteRead):
            return f"the server at {self.address} broke off an answer: ask again"
        said = " ".join(str(error).split()) or type(error).__name__
        return f"the server at {self.address} cannot be asked ({said}): is it up, and is that a URL of dtoss serve?"

    def wrong(self, status: int, kind: str, body: bytes, after: str = "") -> Exception:
        """Return the exception that an answer other than 200 stands for; ``after``: what it says of when to come."""
        seconds = seconds_asked(after, time.time())
        problem: dict[str, Any] = {}
        if kind.endswith("json"):
            try:
                problem = json.loads(body)
            except ValueError:
                problem = {}
        if not isinstance(problem, dict):
            problem = {}
        detail = str(problem.get("detail") or "").strip()
        if not detail:
            text = " ".join(body[:SAID].decode("utf-8", "replace").split())
            said = f"{self.address} answers {status} {text or kind}: is it a server of dtoss?"
            return Later(said, seconds) if status in LATER else DtossError(said)
        if status == 413:
            return TooMuch(detail, str(problem.get("limit")), problem.get("value"), problem.get("bound"))
        if status in LATER:
            return Later(f"{self.address}: {detail}", seconds)
        if status == 400 and isinstance(problem.get("rows"), list):
            return BadRows(detail, problem["bad"], problem["rows"])
        if status in (400, 414):
            return ValueError(detail)
        if status == 422:
            return InputError(f"{self.address}: {detail}")
        if status == 404:
            return Missing(f"{self.address}: {detail}")
        if status == 410:
            return Gone(detail)
        return DtossError(f"{self.address}: {detail}")


EVENTS_MEDIA = "text/event-stream"
"""Content type of a stream of events."""
SHORTEST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds before a server is asked again."""


class Followed:
    """The events of a server's watch, in their order, each once; made by :meth:`.remote_index.RemoteIndex.events`.

    ``after``: the id of the last event that is known; None for what is committed from now on; ``patience``: seconds for
    which the server may be away.
    """

    def __init__(
        self, connections: Connections, parameters: dict[str, list[str]], after: str | None, patience: float
    ) -> None:
        if isinstance(patience, bool) or not isinstance(patience, (int, float)) or not 0 <= patience < 1e9:
            raise ValueError(f"patience is {patience!r}: seconds from 0 on are wanted")
        self.last = after
        self._connections = connections
        self._parameters = parameters
        self._patience = patience
        self._socket: socket.socket | None = None
        self._closed = threading.Event()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield events until it is closed; iterated again it goes on where it was."""
        heard, pauses = time.monotonic(), backoff(SHORTEST_PAUSE, LONGEST_PAUSE)
        while not self._closed.is_set():
            why: Exception
            least = 0.0
            try:
                for event in self._heard():
                    if event is not None:
                        yield event
                    heard, pauses = time.monotonic(), backoff(SHORTEST_PAUSE, LONGEST_PAUSE)
                why = DtossError(f"the server at {self._connections.address} has ended the stream: is it ending?")
            except Later as later:
                why, least = later, later.seconds
            except (OSError, http.client.HTTPException) as error:
                why = DtossError(self._connections.broken(error))
            finally:
                self._hang_up()
            left = heard + self._patience - time.monotonic()
            if self._closed.is_set():
                return
            if left <= 0:
                raise why
            self._closed.wait(min(max(next(pauses), least), left))

    def close(self) -> None:
        """End it, also where another thread waits for its next event."""
        self._closed.set()
        self._hang_up()

    def __enter__(self) -> Followed:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _heard(self) -> Iterator[dict[str, Any] | None]:
        """Yield the events of one connection, and None for whatever else shows that the server is there."""
        asked = self._connections
        headers = {"Accept": EVENTS_MEDIA}
        if asked.token is not None:
            headers["Authorization"] = f"Bearer {asked.token}"
        given = {name: values for name, values in self._parameters.items() if values}
        if self.last is not None:
            given["after"] = [self.last]
        link = asked.link()
        try:
            link.connect()
            self._socket = link.sock
            if self._closed.is_set():  # while it was made there was nothing to hang up
                return
            link.request("GET", f"{asked.address.prefix}/events?{urlencode(given, doseq=True)}", headers=headers)
            response = link.getresponse()
            self._check(response)
            yield None
            yield from self._blocks(response)
        finally:
            link.close()

    def _check(self, response: http.client.HTTPResponse) -> None:
        kind = response.headers.get_content_type()
        if response.status == 200 and kind == EVENTS_MEDIA:
            return
        after = response.headers.get("Retry-After", "")
        raise self._connections.wrong(response.status, kind, response.read(), after)

    def _blocks(self, response: http.client.HTTPResponse) -> Iterator[dict[str, Any] | None]:
        """Yield what the blocks of a stream hold; one that is cut off is none."""
        place: str | None = None
        data: list[bytes] = []
        while (line := response.readline()).endswith(b"\n"):
            name, _, value = line.rstrip(b"\r\n").partition(b":")
            if name == b"id":
                place = value.removeprefix(b" ").decode()
            elif name == b"data":
                data.append(value.removeprefix(b" "))
            elif not name and not value:
                self.last = place or self.last
                yield json.loads(b"\n".join(data)) if data else None
                place, data = None, []

    def _hang_up(self) -> None:
        held, self._socket = self._socket, None
        if held is not None:
            with suppress(OSError):
                held.shutdown(socket.SHUT_RDWR)
            held.close()


def backoff(shortest: float, longest: float, chance: Callable[[], float] = lambda: 0.0) -> Iterator[float]:
    """Yield seconds to wait before each new try, without end: each twice as long as the one before, up to a bound.

    ``shortest``, ``longest``: the first, and the bound; ``chance``: draws how much of half a pause is left out, from 0
    to 1, so that many who wait for the same do not come at once.

    Examples
    --------
    >>> from itertools import islice
    >>> list(islice(backoff(1.0, 5.0), 4))
    [1.0, 2.0, 4.0, 5.0]
    """
    pause = shortest
    while True:
        yield min(pause, longest) * (1.0 - chance() / 2)
        pause = min(2 * pause, longest)
