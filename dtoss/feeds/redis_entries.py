"""Entries of a stream of Redis, read as one of a group: Redis keeps those that are not acknowledged.

The log knows up to where all are in it. From there the group goes on, whatever Redis knows of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from dtoss.brokers import WRONG, RedisClient, why_of
from dtoss.client.endpoint import Access, Place
from dtoss.client.http_connections import Later
from dtoss.errors import InputError
from dtoss.feeds.feed import MESSAGES_AT_ONCE, Batch
from dtoss.log.read_upto import ReadUpto

UNACKNOWLEDGED, NEW = "0", ">"
"""From where entries are read: those that were given to this reader before, and those that nobody was given."""
IDLE_MILLISECONDS = 60_000
"""A minute."""
_CLOSED = (*WRONG, "NOAUTH", "WRONGPASS")
"""How errors begin that do not end by themselves."""
_LAST_OF_MOMENT = (1 << 64) - 1


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
        self._name, self._idle, self._upto = str(place), idle, access.upto
        self._source = f"{place}/{place.name or 0}?stream={self._stream}&group={self._group}"
        self._begun, self._where = False, UNACKNOWLEDGED

    def __str__(self) -> str:
        return f"{self._name} ({self._stream})"

    def take(self, seconds: float) -> Batch | None:
        """Return the next entries: first those that were not acknowledged, of other readers that are gone, too."""
        with self._telling():
            if not self._begun:
                self._begin()
            if entries := self._read(None if self._where == UNACKNOWLEDGED else max(int(seconds * 1000), 1)):
                # of one that was deleted meanwhile there are no fields
                messages = tuple(self._message(fields) for _, fields in entries if fields)
                ids = [id_ for id_, _ in entries]
                return Batch(messages, ids, upto=ReadUpto(self._source, dict(enumerate(self._end_of_settled(ids)))))
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

    def _read(self, wait: int | None) -> list[tuple[bytes, dict[bytes, bytes]]]:
        told = self._client.xreadgroup(self._group, self._me, {self._stream: self._where}, MESSAGES_AT_ONCE, wait)
        return told[0][1] if told else []

    def _begin(self) -> None:
        """Go on where the log says, unless the group is before that, or the stream: then it is another one."""
        known = self._upto(self._source)
        at, last = (known.get(0, 0), known.get(1, 0)), self._client.xrevrange(self._stream, count=1)
        begin = f"{at[0]}-{at[1]}" if last and at <= _number_of(last[0][0]) else "0"
        try:
            self._client.xgroup_create(self._stream, self._group, begin, mkstream=True)
        except self._error as error:
            if not str(error).startswith("BUSYGROUP"):
                raise
            if known and at <= self._last_delivered(self._client.xinfo_groups(self._stream)):
                self._client.xgroup_setid(self._stream, self._group, begin)
                while entries := self._read(None):  # they are in the log, or come anew
                    self._client.xack(self._stream, self._group, *(id_ for id_, _ in entries))
        self._begun = True

    def _end_of_settled(self, mine: list[bytes]) -> tuple[int, int]:
        """Return up to where all entries are in the log once mine are: those that nobody acknowledges lie behind."""
        with self._client.pipeline() as both:
            groups, held = both.xinfo_groups(self._stream).xpending(self._stream, self._group).execute()
        found = [self._last_delivered(groups)]
        if held["pending"] > len(mine):
            some = self._client.xpending_range(self._stream, self._group, "-", "+", len(mine) + 1)
            found += map(_before, {one["message_id"] for one in some} - {*mine})
        return min(found)

    def _last_delivered(self, groups: list[dict[str, bytes]]) -> tuple[int, int]:
        """Return the last entry that somebody of the group was given."""
        return next(_number_of(one["last-delivered-id"]) for one in groups if one["name"] == self._group.encode())

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


def _number_of(entry: bytes) -> tuple[int, int]:
    """Return the two numbers of the id of an entry: milliseconds, and which of these."""
    moment, _, number = entry.partition(b"-")
    return int(moment), int(number)


def _before(entry: bytes) -> tuple[int, int]:
    moment, number = _number_of(entry)
    return (moment, number - 1) if number else (moment - 1, _LAST_OF_MOMENT)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
