"""An answer of all servers of a plan together: asked again of copies where a server is away, slow, or holds less."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from dtoss.serve.cluster.cluster import Away, NotHeld, PeerGroup, Slow
from dtoss.serve.cluster.link import Reply
from dtoss.serve.cluster.wire_messages import PartialAnswer, PeerQuestion, least_minor, pack_question, read_answer
from dtoss.serve.core.pool import Until
from dtoss.serve.core.problems import Problem
from dtoss.serve.observability.audit import askers
from dtoss.shards.merge_answers import NobodyHolds, Together
from dtoss.shards.share import Share

T = TypeVar("T")


async def answer_together(
    circle: PeerGroup,
    share: Share,
    snapshot: str,
    question: Callable[[Together], Awaitable[T]],
    local: Callable[[Any], Any],
    older: Callable[[Any], tuple[Any, Callable[[Any], Any]]],
    ends: float,
    partial: set[int] | None,
    asker: str = "",
) -> T:
    """Return the answer of all servers together; work of the pool, which waits for the others on the loop.

    ``local``: answers what this server is asked itself; ``partial``: takes partitions that the answer lacks; None where
    it may lack none.
    """
    away: set[int] = set()
    slow: set[int] = set()
    for _ in range(2 * len(circle.links) + 3):
        if partial is not None:
            partial.clear()
        server_of = circle.server_of(share, frozenset(away), frozenset(slow))

        async def ask(asks: Sequence[tuple[int, Any]]) -> list[Any]:
            return await _ask_all(circle, share, snapshot, asks, local, older, ends, away, slow, askers([asker]))

        try:
            return await question(Together(share, circle.me, server_of, ask, partial))
        except Away as error:
            away.add(error.server)
        except Slow as error:
            slow.add(error.server)
            circle.teller.forwarded("hedged")
        except NotHeld:
            circle.teller.forwarded("moved")
        except NobodyHolds as error:
            raise _nobody(circle, error.partitions) from None
    raise Problem(503, "servers change faster than they can be asked: ask again", retry_after=1)


def _nobody(circle: PeerGroup, partitions: tuple[int, ...]) -> Problem:
    """Return what to say where nobody answers for some partitions."""
    by_plan = {server for number in partitions for server in circle.placement.holders[number] if server != circle.me}
    why = {one: f": {said}" for one, said in circle.unread.items()}
    at = {one: circle.peers.addresses.get(one, "no known URL") for one in sorted(by_plan)}
    where = "; ".join(f"server {one} at {address}{why.get(one, '')}" for one, address in at.items())
    few = ", ".join(map(str, partitions[:20])) + (", ..." if len(partitions) > 20 else "")
    return Problem(
        503,
        f"partitions {few} are held by no server that answers ({where or 'the plan has no other'}): ask again, or "
        "with partial=ok for what the others have",
        retry_after=1,
        more={"servers": sorted(by_plan), "partitions": list(partitions)},
    )


async def _ask_all(
    circle: PeerGroup,
    share: Share,
    snapshot: str,
    asks: Sequence[tuple[int, Any]],
    local: Callable[[Any], Any],
    older: Callable[[Any], tuple[Any, Callable[[Any], Any]]],
    ends: float,
    away: set[int],
    slow: set[int],
    asker: bytes,
) -> list[Any]:
    assert circle.loop is not None
    begun: dict[int, Future[Reply]] = {}
    said: dict[int, tuple[Any, Callable[[Any], Any]]] = {}
    for at, (server, question) in enumerate(asks):
        if server != circle.me:
            left = ends - time.monotonic()
            if left <= 0:
                raise Problem(503, "the time for this answer is over: ask for less at a time", retry_after=1)
            patient = server in slow or not circle.has_copies(share, server)
            known = circle.wire_of(server).minor >= least_minor(question, share.index.space)
            said[at] = (question, _as_it_is) if known else older(question)
            body = pack_question(said[at][0], snapshot, left)
            posted = circle.post(server, body, left, patient, asker=asker)
            begun[at] = asyncio.run_coroutine_threadsafe(posted, circle.loop)
    circle.teller.forwarded("asked", len(begun))
    try:
        answers = [None if at in begun else local(question) for at, (_, question) in enumerate(asks)]
        await Until(begun.values())
        for at, future in begun.items():
            asked, meant = said[at]
            answers[at] = meant(_read(circle, asks[at][0], asked, share, future.result()))
    finally:
        for future in begun.values():
            future.cancel()
    return answers


def _as_it_is(answer: T) -> T:
    return answer


def _read(circle: PeerGroup, server: int, question: PeerQuestion, share: Share, reply: Reply) -> PartialAnswer:
    """Return the answer in a reply."""
    circle.check(server, reply)
    if circle.wire_of(server).minor < least_minor(question, share.index.space):
        raise NotHeld  # it was of another release when it was asked: again, in its words
    try:
        return read_answer(question, reply.body)
    except ValueError as error:
        circle.event("server not understood", server=server, detail=str(error))
        raise Away(server) from None
