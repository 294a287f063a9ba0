"""Entries of a stream of Redis, read as one of a group: Redis keeps those that are not acknowledged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from dtoss.brokers.redis_client import WRONG, RedisClient, why_of
from dtoss.client.endpoint import Access, Place
from dtoss.client.http_connections import Later
from dtoss.errors import InputError
from dtoss.feeds.feed import MESSAGES_AT_ONCE, Batch

UNACKNOWLEDGED, NEW = "0", ">"
"""From where entries are read: those that were given to this reader before, and those that nobody was given."""
IDLE_MILLISECONDS = 60_000
"""A minute."""
_CLOSED = (*WRONG, "NOAUTH", "WRONGPASS")
"""How errors begin that do not end by themselves."""


class RedisEntries:
    """A stream and a group of its readers.

    ``idle``: milliseconds after which entries that another reader does not acknowledge are this one's.
    """

    def __init__(self, place: Place, access: Access, idle: int = IDLE_MILLISECONDS) -> None:
        said = place.options("stream", "group", "consumer", "field")
        opened = RedisClient(place, said, access.secret, access.timeout)
        self._client, self._error = opened.client, opened.error
        self._stream, self._field = said["stream"], said.get("field")
        self._group, self._me = said.get("group", "dtoss"), said.get("consumer", "dtoss")
        self._name, self._idle = str(place), idle
        self._begun, self._where = False, UNACKNOWLEDGED

    def __str__(self) -> str:
        return f"{self._name} ({self._stream})"

    def take(self, seconds: float) -> Batch | None:
        """Return the next entries: first those that were not acknowledged, of other readers that are gone, too."""
        with self._telling():
            if not self._begun:
                self._begin()
            wait = None if self._where == UNACKNOWLEDGED else max(int(seconds * 1000), 1)
            told = self._client.xreadgroup(self._group, self._me, {self._stream: self._where}, MESSAGES_AT_ONCE, wait)
            entries = told[0][1] if told else []
            if entries:
                # of one that was deleted meanwhile there are no fields
                messages = tuple(self._message(fields) for _, fields in entries if fields)
                return Batch(messages, [id_ for id_, _ in entries])
            if self._where == UNACKNOWLEDGED:
                self._where = NEW
            elif self._client.xautoclaim(self._stream, self._group, self._me, self._idle, count=MESSAGES_AT_ONCE)[1]:
                self._where = UNACKNOWLEDGED
            else:
                return None
        return self.take(seconds)

    def acknowledge(self, batch: Batch) -> None:
        """Acknowledge entries."""
        with self._telling():
            self._client.xack(self._stream, self._group, *batch.mark)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _begin(self) -> None:
        try:
            self._client.xgroup_create(self._stream, self._group, "0", mkstream=True)
        except self._error as error:
            if not str(error).startswith("BUSYGROUP"):
                raise
        self._begun = True

    def _message(self, fields: dict[bytes, bytes]) -> bytes:
        """Return an entry as JSON: the field that holds it, or all of them with text as values."""
        if self._field is not None:
            return bytes(fields.get(self._field.encode(), b""))
        texts = {_text(name): _text(value) for name, value in fields.items()}
        return json.dumps(texts).encode()

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Turn errors of the client into what a source says; what it has given is read again then."""
        try:
            yield
        except self._error as error:
            self._begun, self._where = False, UNACKNOWLEDGED
            text = why_of(error)
            if text.startswith(_CLOSED):
                raise InputError(f"--from {self} says no: {text}") from None
            raise Later(f"{self} cannot be read ({text})") from None


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
