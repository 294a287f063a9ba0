"""A frequent question that came by way of the framework, gathered with those of the short way."""

from __future__ import annotations

import asyncio

from dtoss.serve.answers.open_snapshots import ServedSnapshot
from dtoss.serve.requests.hot_requests import Target
from dtoss.serve.requests.request_batches import Gathering


class Waiting:
    """A question whose answer a coroutine waits for."""

    __slots__ = ("answer", "asker", "k", "kind", "radius", "where", "x", "y")

    def __init__(self, target: Target, asker: str, answer: asyncio.Future[tuple[ServedSnapshot, bytes] | None]) -> None:
        self.kind, self.x, self.y, self.k, self.radius, self.where = target
        self.asker = asker
        self.answer = answer

    def answered(self, served: ServedSnapshot, body: bytes) -> None:
        """Take the answer."""
        if not self.answer.done():
            self.answer.set_result((served, body))

    def elsewhere(self) -> None:
        """Take it that there is none here."""
        if not self.answer.done():
            self.answer.set_result(None)


async def ask(gathering: Gathering, target: Target, asker: str = "") -> tuple[ServedSnapshot, bytes] | None:
    """Return the answer to a frequent question and the snapshot that gave it; None where it has to go to the pool."""
    waiting = Waiting(target, asker, asyncio.get_running_loop().create_future())
    gathering.add(waiting)
    return await waiting.answer
