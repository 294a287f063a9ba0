"""The questions of a request, asked of all servers of a plan together; answers are those of one index."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from math import inf
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.frames.coordinates import as_places
from dtoss.hits import Hits
from dtoss.index import Index
from dtoss.serve.answers.open_snapshots import ServedSnapshot
from dtoss.serve.bulk.hit_rows import Form, Rows
from dtoss.serve.bulk.query_pieces import SMALLER_SHAPES, check_hits
from dtoss.serve.cluster.wire_messages import ObjectQuestion, ShapesQuestion
from dtoss.serve.core.pool import Stop
from dtoss.serve.core.request_options import GIVEN, ClusterOptions
from dtoss.serve.scatter_gather.partial_answers import answered_here, older_shapes
from dtoss.serve.scatter_gather.scatter_gather import answer_together
from dtoss.serve.state.worker_state import WorkerState
from dtoss.shards.merge_answers import Together
from dtoss.shards.shard_queries import HAVING, ShardQuery, merge_hits

T = TypeVar("T")


class Questions:
    """The questions of one request, by the names that an index has for them; they raise what it raises.

    ``served``: the snapshot, of which this server holds a share.
    """

    def __init__(self, state: WorkerState, served: ServedSnapshot) -> None:
        self._state, self._served = state, served
        self._given = GIVEN.get() or ClusterOptions()
        self._ends = time.monotonic() + state.settings.limits.pool_seconds

    async def knn(
        self,
        position: Any,
        k: int,
        *,
        max_distance: float | None = None,
        where: str | None = None,
        having: str | None = None,
        columns: Any = (),
        stop: Stop | None = None,
    ) -> Hits:
        """Return the k nearest objects of a place."""
        self._check(where, having, columns)
        k = min(k, max(len(self._served.whole), 1))
        return await self._hits(
            position, inf if max_distance is None else max_distance, k, where, having, columns, stop
        )

    async def range(
        self,
        position: Any,
        radius: float,
        *,
        where: str | None = None,
        having: str | None = None,
        columns: Any = (),
        stop: Stop | None = None,
    ) -> Hits:
        """Return all objects within a radius of a place."""
        self._check(where, having, columns)
        return await self._hits(position, radius, 0, where, having, columns, stop)

    async def count(self, position: Any, radius: float, *, where: str | None = None) -> NDArray[np.int64]:
        """Return how many objects lie within a radius of a place, int64 (1,)."""
        self._check(where, None, ())
        return await self.counts(self._places(position), np.array([float(radius)]), where)

    async def locate(self, position: Any) -> NDArray[Any]:
        """Return the id of the nearest object of a place."""
        if len(self._served.whole) == 0:
            raise ValueError("the index is empty: no object owns a place")
        return (await self._hits(position, inf, 1, None, None, (), None)).id

    async def reverse_nearest(self, position: Any, stop: Stop | None = None) -> Hits:
        """Return the objects that are nearer to a place than to any other object."""
        places = self._places(position)
        return hits_of(await self.answer(lambda together: together.reverse_nearest(places), stop), (), None)

    async def counts(
        self, positions: NDArray[np.float64], radius: NDArray[np.float64], where: str | None, stop: Stop | None = None
    ) -> NDArray[np.int64]:
        """Return how many objects lie within the radius of each place, int64 (m,)."""
        asked = ShardQuery(positions, radius, 0, where)
        return await self.answer(lambda together: together.counts(asked), stop)

    async def table(self, asked: ShardQuery, stop: Stop | None = None) -> pa.Table:
        """Return the hits of places, as :meth:`dtoss.shards.merge_answers.Together.hits`."""
        return await self.answer(lambda together: together.hits(asked), stop)

    async def shapes(
        self, kind: str, text: bytes, where: str | None, form: Form, count: bool, shapes: int, stop: Stop
    ) -> pa.Table | NDArray[np.int64]:
        """Return the hits of shapes by shape and id, or how many each has.

        ``count``: whether only numbers are.
        """
        most = self._state.settings.limits.hits

        async def ask(together: Together) -> Any:
            asks = [(server, asked(together.given(server))) for server in together.all_servers()]
            return await together.ask([(together.me, nothing), *asks])

        def asked(partitions: tuple[int, ...]) -> ShapesQuestion:
            columns = tuple(form.columns)
            return ShapesQuestion(text, kind, where, form.having, columns, partitions, most, count)

        # of no partition: says what columns there are where nobody holds an object
        nothing = asked(())
        found = await self.answer(ask, stop)
        if count:
            return np.sum(found, axis=0, dtype=np.int64) if shapes else np.zeros(0, np.int64)
        check_hits(sum(map(len, found)), most, SMALLER_SHAPES)
        return merge_hits(found, 0)

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

    async def _hits(
        self,
        position: Any,
        radius: float,
        k: int,
        where: str | None,
        having: str | None,
        columns: Any,
        stop: Stop | None,
    ) -> Hits:
        asked = ShardQuery(self._places(position), np.array([float(radius)]), k, where, tuple(columns), having)
        return hits_of(await self.table(asked, stop), columns, having)

    def _places(self, position: Any) -> NDArray[np.float64]:
        return as_places(position, self._served.index.space, None).reshape(-1, 2)

    def _check(self, where: str | None, having: str | None, columns: Any) -> None:
        """Refuse what an index refuses."""
        if where or having or columns:
            self._served.index.knn(np.zeros((0, 2)), 1, where=where, having=having, columns=columns)


class Alone:
    """The same of a server that holds all: its index answers, which waits for nobody."""

    def __init__(self, index: Index) -> None:
        self._index = index

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        ask = getattr(self._index, name)

        async def answer(*given: Any, **named: Any) -> Any:
            return ask(*given, **named)

        return answer


def questions_of(state: WorkerState, served: ServedSnapshot) -> Any:
    """Return what answers the questions of the request in hand: the index, or all servers together."""
    return Alone(served.index) if served.share is None else Questions(state, served)


def hits_of(table: pa.Table, columns: Any, having: str | None) -> Hits:
    """Return the hits of a table, those that satisfy the condition on hits if there is one."""
    table = table.combine_chunks()
    if having is not None:
        table = table.filter(table.column(HAVING))
    ids = table.column("id").to_numpy()
    carried = {name: _whole(table.column(f"c:{name}")) for name in columns}
    return Hits(table.column("query").to_numpy(), ids, table.column("distance").to_numpy(), carried)


def rows_of_table(table: pa.Table, form: Form) -> Rows:
    """Return hits as rows."""
    if form.having is not None:
        table = table.filter(table.column(HAVING))
    columns = {name: _whole(table.column(f"c:{name}")) for name in form.columns}
    return Rows(
        table.column("query").to_numpy(), _whole(table.column("id")), table.column("distance").to_numpy(), columns
    )


def pieces_of_table(table: pa.Table, form: Form, most: int) -> Iterator[Rows]:
    """Yield hits as rows, so many at a time."""
    rows = rows_of_table(table, form)
    for at in range(0, len(rows.query), most):
        yield rows.slice(at, most)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return pc.cast(found, column.type) if isinstance(found, pa.Array) else pa.concat_arrays(found.chunks)
