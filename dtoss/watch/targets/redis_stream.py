"""Events as entries of a stream of Redis, each once: the id of an event is that of its entry."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dtoss.brokers import WRONG, RedisClient, why_of
from dtoss.client.endpoint import Access, Place
from dtoss.client.http_connections import Later
from dtoss.errors import InputError
from dtoss.plain_numbers import is_whole
from dtoss.watch.events.readers import Cursor
from dtoss.watch.targets.target import USUAL_BATCH, Batch, Refused

FIELD = "event"
"""Of an entry, which holds the line of an event."""


class RedisStream:
    """A stream that nobody else adds to."""

    batch = USUAL_BATCH

    def __init__(self, place: Place, access: Access) -> None:
        options = place.options("stream", "maxlen")
        most = options.get("maxlen", "1")
        if not is_whole(most) or int(most) < 1:
            raise InputError(f"--to {place} is no stream that keeps {most} entries: &maxlen=N is wanted")
        opened = RedisClient(place, options, access.secret, access.timeout, decode_responses=True)
        self._place, self._stream, self._client, self._error = place, opened.stream, opened.client, opened.error
        self._beside = f"{{{opened.stream}}}:reader"  # in a cluster on the same server
        self._most = int(most) if "maxlen" in options else None
        self._reached: Cursor | None = None
        self._known = False  # whether it is known up to where the stream has all

    def __str__(self) -> str:
        return f"{self._place} ({self._stream})"

    def begin(self, mark: str) -> Cursor | None:
        """Return the last event that the stream has had, which no other reader may add to."""
        with self._telling():
            whose = self._client.get(self._beside)
            if whose is None and not self._client.exists(self._stream):
                self._client.set(self._beside, mark, nx=True)
                whose = self._client.get(self._beside)
            if whose != mark:
                raise InputError(
                    f"the stream {self._stream} holds what another reader has added, or somebody else: name another "
                    f"one, or delete it and {self._beside}"
                )
            return self._last()

    def take(self, batch: Batch) -> None:
        """Add the events of a batch that the stream has not had, all of them at once."""
        with self._telling():
            if not self._known:
                self._reached = self._last()
            self._known = False  # until an answer has come
            with self._client.pipeline(transaction=True) as adding:
                for cursor, line in batch.lines.each:
                    if self._reached is None or cursor > self._reached:
                        event = {FIELD: line[:-1]}
                        adding.xadd(self._stream, event, id=str(cursor), maxlen=self._most, approximate=True)
                adding.execute()
            last = batch.lines.last
            self._reached, self._known = max(last, self._reached or last), True

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _last(self) -> Cursor | None:
        if not self._client.exists(self._stream):
            return None
        return Cursor.of(self._client.xinfo_stream(self._stream)["last-generated-id"])

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Turn errors of the client into what a target says of itself."""
        try:
            yield
        except self._error as error:
            text = why_of(error)
            raise (Refused if text.startswith(WRONG) else Later)(f"says no ({text})") from None
