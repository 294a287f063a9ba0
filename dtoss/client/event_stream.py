"""Events that a server streams: read line by line, and asked for again from the last one where a connection breaks."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

from dtoss.backoff import backoff
from dtoss.client.http_connections import Connections, Later
from dtoss.errors import DtossError

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
