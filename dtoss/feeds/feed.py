"""A source of rows: messages are taken from it, and it is told once their rows are on the disk of a log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, cast

from dtoss.brokers.schemes import endpoint_at
from dtoss.client.endpoint import Access
from dtoss.log.read_upto import ReadUpto

MESSAGES_AT_ONCE = 1_000
"""That are taken from a source at the most."""


@dataclass(frozen=True)
class Batch:
    """Messages of a source."""

    messages: tuple[bytes, ...]  # JSON, an object or a list of them each; of CSV a whole document
    mark: Any  # By which the source knows what is acknowledged
    csv: bool = False
    topics: tuple[str, ...] = ()  # On which each message came, where a source has such
    upto: ReadUpto | None = None  # Where the source goes on behind these, where a log is to keep that

    def rows(self) -> list[bytes]:
        """Return a line for each row; a message that is no JSON is one, too, and nobody can read it."""
        return list(self.messages) if self.csv else [line for one in self.messages for line in _lines(one)]


class Feed(Protocol):
    """A source; what it cannot do now it says by `dtoss.client.http_connections.Later`."""

    def take(self, seconds: float) -> Batch | None:
        """Return messages that nobody has acknowledged; None where none come for so many seconds."""

    def acknowledge(self, batch: Batch) -> None:
        """Tell the source that it need not keep messages any more: their rows are on disk."""

    def close(self) -> None:
        """Let go of connections; what was not acknowledged comes again."""


def feed_at(url: str, access: Access | None = None) -> Feed:
    """Return the source that a URL means."""
    return cast(Feed, endpoint_at(url, "source", access or Access(), "--from"))


def _lines(message: bytes) -> Iterator[bytes]:
    text = message.strip()
    if text[:1] == b"[":
        try:
            many = json.loads(text)
        except (ValueError, RecursionError):
            many = None
        if isinstance(many, list):
            yield from (json.dumps(one).encode() for one in many)
            return
    # within JSON a line's end is space
    yield text.replace(b"\r", b" ").replace(b"\n", b" ") or b"null"
