"""What takes events, batch by batch, and how it says that it does not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar, Protocol, cast

from dtoss.brokers import endpoint_at
from dtoss.client.endpoint import Access
from dtoss.errors import DtossError
from dtoss.watch.events.event_lines import Lines
from dtoss.watch.events.readers import Cursor


class Refused(DtossError):
    """A target does not want these events; ``dtoss.client.http_connections.Later`` says that it is away or busy."""


@dataclass(frozen=True)
class Batch:
    """Events that are handed on together, one at least."""

    lines: Lines
    attempt: int = 1  # One more each time that they are tried again

    @property
    def name(self) -> str:
        """What tells it from the other batches of its reader, however often it is tried."""
        return f"{self.lines.first}_{self.lines.last}"

    @property
    def subscriptions(self) -> Iterator[str]:
        """Whose each event is."""
        return chain.from_iterable(table.column("subscription").to_pylist() for table in self.lines.tables)


USUAL_BATCH = 1_000
"""Events that are handed on at a time."""


class Target(Protocol):
    """What takes events."""

    batch: ClassVar[int]  # Events at a time, where nobody says how many

    def begin(self, mark: str) -> Cursor | None:
        """Return up to where it has all events of a reader already; None where it cannot say.

        ``mark``: what tells this reader from all others.
        """

    def take(self, batch: Batch) -> None:
        """Return once it has all events of a batch; it is :class:`Refused` or ``Later`` if not."""

    def close(self) -> None:
        """Let go of what is open; it may take batches again."""


def target_at(url: str, access: Access) -> Target:
    """Return the target that a URL means."""
    return cast(Target, endpoint_at(url, "target", access, "--to"))
