"""Events as entries of a stream of Redis, each once: the id of an event is that of its entry."""

from __future__ import annotations

from typing import Any

from dtoss.client.endpoint import Access, Place, printable
from dtoss.client.http_connections import Later
from dtoss.errors import InputError
from dtoss.extras import need
from dtoss.plain_numbers import is_whole
from dtoss.watch.events.cursor import Cursor
from dtoss.watch.targets.target import USUAL_BATCH, Batch, Refused

FIELD = "event"
"""Of an entry, which holds the line of an event."""
_FOR_GOOD = ("WRONGTYPE", "NOPERM")
"""How errors begin that do not end by themselves."""


class RedisStream:
    """A stream that nobody else adds to."""

    batch = USUAL_BATCH

    def __init__(self, place: Place, access: Access) -> None:
        options = place.options("stream", "maxlen")
        stream, most, base = options.get("stream", ""), options.get("maxlen", "1"), place.name or "0"
        if len(place.hosts) != 1 or not stream or not is_whole(base) or not is_whole(most) or int(most) < 1:
            raise InputError(f"--to {place} is no stream: {place.scheme}://HOST:6379/0?stream=NAME&maxlen=N is wanted")
        self._redis = need("redis", f"--to {place.scheme}:", "redis")
        self._place, self._stream = place, stream
        self._beside = f"{{{stream}}}:reader"  # in a cluster on the same server
        self._most = int(most) if "maxlen" in options else None
        self._client: Any = self._redis.Redis(
            place.host, place.port(6379), int(base), access.secret, username=place.user, ssl=place.scheme == "rediss",
            socket_timeout=access.timeout, socket_connect_timeout=access.timeout, retry=None, decode_responses=True,
        )  # fmt: skip
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

    def _telling(self) -> _Telling:
        return _Telling(self._redis.RedisError)


class _Telling:
    """Turns errors of the client into what a target says of itself."""

    def __init__(self, kind: type[Exception]) -> None:
        self._kind = kind

    def __enter__(self) -> None:
        return None

    def __exit__(self, _type: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, self._kind):
            text = str(error).rpartition("caused error: ")[2]  # what is before it shows an event
            why = f"says no ({printable(text) or type(error).__name__})"
            raise (Refused if text.startswith(_FOR_GOOD) else Later)(why) from None
