"""The questions of a request, asked of all servers of a plan together; answers are those of one index."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.column_rows import one_chunk
from dtoss.kinds.alone import Alone
from dtoss.kinds.hit_tables import SATISFIED, hits_of_table
from dtoss.kinds.kind import A, Question, Tells
from dtoss.serve.answers.one_object import ObjectQuestion
from dtoss.serve.answers.open_snapshots import ServedSnapshot
from dtoss.serve.bulk.hit_rows import Form, Rows
from dtoss.serve.core.pool import Stop
from dtoss.serve.core.request_options import GIVEN, ClusterOptions
from dtoss.serve.scatter_gather.partial_answers import answered_here, older_shapes
from dtoss.serve.scatter_gather.scatter_gather import answer_together
from dtoss.serve.state.worker_state import WorkerState
from dtoss.shards.merge_answers import Together

T = TypeVar("T")


class Answers(Protocol):
    """What answers the questions of one request: an index, or all servers of a plan together."""

    async def ask(self, asked: Question[A], stop: Stop | None = None, /) -> A:
        """Return the answer to a question; it raises what an index raises."""


class ClusterIndex:
    """All servers of a plan for one request, as one index."""

    def __init__(self, state: WorkerState, served: ServedSnapshot) -> None:
        self._state, self._served = state, served
        self._given = GIVEN.get() or ClusterOptions()
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
        """Return the answer of all servers to a question; work of the pool."""
        served, state = self._served, self._state
        stop = stop or Stop()
        assert served.share is not None
        assert state.circle is not None
        return await answer_together(
            state.circle,
            served.share,
            served.name,
            question,
            lambda one: answered_here(state, served, one, stop),
            lambda one: older_shapes(state, served, one, stop),
            self._ends,
            self._given.missing if self._given.partial else None,
            self._given.asker,
        )


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
