"""The questions of a request, asked of all servers of a plan together; answers are those of one index.

What a server answers to the questions of the others, and to its own about what it holds itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.column_rows import one_chunk
from dtoss.index import Index
from dtoss.kinds.alone import Alone, raw_table
from dtoss.kinds.hit_tables import SATISFIED, hits_of_table
from dtoss.kinds.kind import A, Question, Tells
from dtoss.serve.answers.json_out import ObjectQuestion, object_answer
from dtoss.serve.answers.open_snapshots import GIVEN, ClusterOptions, ServedSnapshot
from dtoss.serve.bulk.query_pieces import SMALLER_SHAPES, Form, Rows, check_hits, found_within
from dtoss.serve.bulk.request_bodies import read_shapes
from dtoss.serve.cluster.cluster import Away, NotHeld, PeerGroup, Slow
from dtoss.serve.cluster.wire_messages import (
    PartialAnswer,
    PeerQuestion,
    Reply,
    in_older_words,
    least_minor,
    pack_question,
    read_answer,
)
from dtoss.serve.core.pool import Stop, Until
from dtoss.serve.core.problems import Problem
from dtoss.serve.observability.log_lines import askers
from dtoss.serve.state.worker_state import WorkerState
from dtoss.shards.merge_answers import AT_HOMES, BY_SHARES, NobodyHolds, ShareQuestion, Together, answered_by

T = TypeVar("T")


class Answers(Protocol):
    """What answers the questions of one request: an index, or all servers of a plan together."""

    async def ask(self, asked: Question[A], stop: Stop | None = None, /) -> A:
        """Return the answer to a question; it raises what an index raises."""


class ClusterIndex:
    """All servers of a plan for one request, as one index."""

    def __init__(self, state: WorkerState, served: ServedSnapshot) -> None:
        assert state.circle is not None
        assert served.share is not None
        self._state, self._served = state, served
        self._circle, self._share = state.circle, served.share
        self._given = GIVEN.get() or ClusterOptions()
        self._asker = askers([self._given.asker])
        self._ends = time.monotonic() + state.settings.limits.pool_seconds

    async def ask(self, asked: Question[A], stop: Stop | None = None) -> A:
        """Return the answer to a question."""
        if asked.where or asked.having or asked.columns:  # what an index refuses is refused here
            nothing: NDArray[np.float64] = np.zeros((0, 2))
            self._served.index.knn(nothing, where=asked.where, having=asked.having, columns=asked.columns)
        found: Any  # of the kind's type, as its `tells` says
        if asked.kind.tells == Tells.COUNT:
            found = await self.counts(asked, stop)
        else:
            found = hits_of_table(await self.rows(asked, stop), asked.columns)
        return found.id if asked.kind.tells == Tells.ID else found

    async def counts(self, asked: Question[Any], stop: Stop | None = None) -> NDArray[np.int64]:
        """Return the counts that answer a question, int64 (m,)."""
        return await self.answer(lambda together: asked.kind.counts(together, asked), stop)

    async def rows(self, asked: Question[Any], stop: Stop | None = None) -> pa.Table:
        """Return the hits that answer a question, by place, distance and id."""
        return await self.answer(lambda together: asked.kind.rows(together, asked), stop)

    async def one(self, asked: ObjectQuestion, stop: Stop) -> tuple[bytes, tuple[float, float]]:
        """Return the bytes of an object's answer, and its place."""

        async def ask(together: Together) -> tuple[bytes, float, float] | None:
            servers = together.all_servers()
            me = [server for server in servers if server in together.server_of[list(together.share.held)]]
            for some in (me, [server for server in servers if server not in me]):
                for found in await together.ask([(server, asked) for server in some]):
                    if found is not None:
                        answer: tuple[bytes, float, float] = found
                        return answer
            return None

        found = await self.answer(ask, stop)
        if found is None:
            raise KeyError(f"no object has the id {asked.text!r}")
        body, x, y = found
        return body, (x, y)

    async def answer(self, question: Callable[[Together], Awaitable[T]], stop: Stop | None) -> T:
        """Return the answer of all servers, asked again of copies where one is away, slow, or holds less.

        Work of the pool, which waits for the others on the loop.
        """
        circle, share, stop = self._circle, self._share, stop or Stop()
        missing = self._given.missing if self._given.partial else None
        away: set[int] = set()
        slow: set[int] = set()
        for _ in range(2 * len(circle.links) + 3):
            if missing is not None:
                missing.clear()
            server_of = circle.server_of(share, frozenset(away), frozenset(slow))
            try:
                return await question(
                    Together(share, circle.me, server_of, lambda asks: self._ask_all(asks, slow, stop), missing)
                )
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

    async def _ask_all(self, asks: Sequence[tuple[int, Any]], slow: Collection[int], stop: Stop) -> list[Any]:
        """Return the answers of servers that are asked at the same time; this one answers its own meanwhile."""
        circle, share = self._circle, self._share
        assert circle.loop is not None
        begun: dict[int, Future[Reply]] = {}
        said: dict[int, tuple[Any, Callable[[Any], Any]]] = {}
        for at, (server, question) in enumerate(asks):
            if server != circle.me:
                left = self._ends - time.monotonic()
                if left <= 0:
                    raise Problem(503, "the time for this answer is over: ask for less at a time", retry_after=1)
                patient = server in slow or not circle.has_copies(share, server)
                known = circle.wire_of(server).minor >= least_minor(question, share.index.space)
                said[at] = (question, _as_it_is) if known else older_shapes(self._state, self._served, question, stop)
                body = pack_question(said[at][0], self._served.name, left)
                posted = circle.post(server, body, left, patient, asker=self._asker)
                begun[at] = asyncio.run_coroutine_threadsafe(posted, circle.loop)
        circle.teller.forwarded("asked", len(begun))
        try:
            answers = [
                None if at in begun else answered_here(self._state, self._served, question, stop)
                for at, (_, question) in enumerate(asks)
            ]
            await Until(begun.values())
            for at, future in begun.items():
                asked, meant = said[at]
                answers[at] = meant(self._read(asks[at][0], asked, future.result()))
        finally:
            for future in begun.values():
                future.cancel()
        return answers

    def _read(self, server: int, question: PeerQuestion, reply: Reply) -> PartialAnswer:
        """Return the answer in a reply."""
        circle = self._circle
        circle.check(server, reply)
        if circle.wire_of(server).minor < least_minor(question, self._share.index.space):
            raise NotHeld  # it was of another release when it was asked: again, in its words
        try:
            return read_answer(question, reply.body)
        except ValueError as error:
            circle.event("server not understood", server=server, detail=str(error))
            raise Away(server) from None


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


def _as_it_is(answer: T) -> T:
    return answer


def cluster_of(state: WorkerState, served: ServedSnapshot) -> ClusterIndex | None:
    """Return all servers for the request in hand, None where this one holds all partitions."""
    return None if served.share is None else ClusterIndex(state, served)


def answers_of(state: WorkerState, served: ServedSnapshot) -> Answers:
    """Return what answers the questions of the request in hand."""
    return cluster_of(state, served) or Alone(served.index.engine)


def rows_of_table(table: pa.Table, form: Form) -> Rows:
    """Return hits as rows."""
    if form.having is not None:
        table = table.filter(table.column(SATISFIED))
    columns = {name: one_chunk(table.column(f"c:{name}")) for name in form.columns}
    return Rows(
        table.column("query").to_numpy(), one_chunk(table.column("id")), table.column("distance").to_numpy(), columns
    )


def pieces_of_table(table: pa.Table, form: Form, most: int) -> Iterator[Rows]:
    """Yield hits as rows, so many at a time."""
    rows = rows_of_table(table, form)
    for at in range(0, len(rows.query), most):
        yield rows.take(slice(at, at + most))


def answered_here(state: WorkerState, served: ServedSnapshot, question: PeerQuestion, stop: Stop) -> PartialAnswer:
    """Return this server's answer to a question."""
    stop.check()
    assert served.share is not None
    if isinstance(question, ObjectQuestion):
        return _object(served, question)
    if isinstance(question.asked, Question):
        return _shapes(state, served.share.owned(question.partitions), question.asked, stop)
    if question.step in (AT_HOMES, BY_SHARES) and question.asked.k == 0:
        # the one who asks has counted; a stranger may not have
        asked = question.asked
        count = int(served.index.search(asked.positions, asked.radius, -1, asked.where).count.sum())
        check_hits(count, state.settings.limits.hits, "ask about fewer places at a time, or for smaller radii")
    return answered_by(served.share, question)


def _shapes(state: WorkerState, index: Index, asked: Question[Any], stop: Stop) -> pa.Table | NDArray[np.int64]:
    """Return the hits that an index has in shapes, or how many there are in each."""
    assert asked.shapes is not None
    shapes, corners = read_shapes(asked.shapes, index.space, state.settings.limits, stop)
    most = asked.given["most"]
    found = found_within(index, shapes, corners, asked.where, most, stop, state.metrics, state.sizes.tested)
    if asked.given["count"]:
        return found.count
    check_hits(len(found.distance), most, SMALLER_SHAPES)
    return raw_table(index.engine, found, tuple(asked.columns), asked.having)


def older_shapes(
    state: WorkerState, served: ServedSnapshot, asked: ShareQuestion, stop: Stop
) -> tuple[ShareQuestion, Callable[[Any], Any]]:
    """Return a question about shapes in the words of an older server, and what makes its answer the right one."""
    space, limits = served.index.space, state.settings.limits
    assert isinstance(asked.asked, Question)
    assert asked.asked.shapes is not None
    shapes, _ = read_shapes(asked.asked.shapes, space, limits, stop)
    return in_older_words(asked, space, shapes, limits.hits)


def _object(served: ServedSnapshot, asked: ObjectQuestion) -> tuple[bytes, float, float] | None:
    """Return the bytes of an answer and the object's place, None where it is not held."""
    try:
        body, (x, y) = object_answer(served, asked)
    except KeyError:
        return None
    return body, x, y
