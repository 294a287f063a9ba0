"""An index that answers by itself: searches of kinds of questions, and whole questions in this process."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.kinds.hit_tables import SATISFIED, hits_of_table
from dtoss.kinds.kind import A, Question, Search, Tells
from dtoss.partition import numbers
from dtoss.queries.batch_answer import answer
from dtoss.queries.gather import take_columns
from dtoss.queries.raw_hits import RawHits
from dtoss.queries.threads import query_vectors

if TYPE_CHECKING:
    from dtoss.engine import Engine
    from dtoss.geometry.space import Space
    from dtoss.hits import Hits

T = TypeVar("T")


class Alone:
    """One index, by its engine."""

    def __init__(self, engine: Engine, threads: int = 1) -> None:
        self._engine, self._threads = engine, threads

    @property
    def space(self) -> Space:
        """What positions mean."""
        return self._engine.space

    @property
    def objects(self) -> int:
        """How many there are."""
        return self._engine.opened.objects

    async def hits(self, asked: Search) -> pa.Table:
        """Return query, id, distance and columns, by place, distance and id."""
        engine, threads = self._engine, self._threads
        vectors = query_vectors(asked.positions, engine.space, threads)
        found = engine.answer(vectors, asked.radius, asked.k, asked.where, threads, ordered=asked.ordered)
        return raw_table(engine, found, asked.columns, asked.having)

    async def counts(self, asked: Search) -> NDArray[np.int64]:
        """Return how many objects lie within the radius of each place."""
        return self._engine.count(asked.positions, asked.radius, asked.where, self._threads)

    async def ask(self, asked: Question[A], _: object = None) -> A:
        """Return the answer to a question, as all servers of a plan do, which may be told to stop."""
        return self.answer(asked)

    def answer(self, asked: Question[A]) -> A:
        """Return the answer to a question."""
        kind, engine = asked.kind, self._engine
        found: Any = None  # of the kind's type, as its `tells` says
        if kind.part is not None:
            assert kind.part.answer is not None
            found = kind.part.answer(engine, asked.positions)
        elif kind.steps is not None:
            engine.check_columns(asked.columns)
            found = hits_of_table(run_through(kind.steps(self, asked)), asked.columns, engine.whereabouts)
        else:
            (k, radius), count = kind.reads(asked.given), kind.tells == Tells.COUNT
            # a string, which is no list of names, is refused with the hits
            needed = bool(asked.columns) or isinstance(asked.columns, str) or asked.having is not None
            if not needed and asked.where is None and len(asked.positions) == 1:
                far = np.inf if radius is None else float(radius[0])
                found = self._of_one(asked, far, k or 0, count)
            if found is None and count:
                found = engine.count(asked.positions, radius, asked.where, self._threads)
            elif found is None:
                found = engine.find(
                    asked.positions, radius, k or 0, asked.where, asked.having, asked.columns, self._threads,
                    asked.ordered,
                )  # fmt: skip
            found = found.id if kind.tells == Tells.ID else found
        return found

    def _of_one(self, asked: Question[Any], far: float, k: int, count: bool) -> Hits | NDArray[np.int64] | None:
        """Return the answer to a search round one place, None where that is one of a batch."""
        one = self._engine.one
        if count:
            return one.count(asked.positions, far)
        return one.nearest(asked.positions, k, far) if k else one.within(asked.positions, far, asked.ordered)


def run_through(made: Awaitable[T]) -> T:
    """Return what steps come to that wait for nobody."""
    try:
        made.__await__().send(None)
    except StopIteration as ended:
        found: T = ended.value
        return found
    raise AssertionError("one index waits for nobody")


def table_of(engine: Engine, asked: Search, replicas: bool = False) -> pa.Table:
    """Return the hits of an index as a table; ``replicas``: whether those that satisfy a condition count, too."""
    vectors = engine.space.vectors(asked.positions)
    if replicas and asked.where is not None:
        found = answer(engine.filters.get(asked.where).masked, vectors, asked.radius, asked.k, 1)
    else:
        found = engine.answer(vectors, asked.radius, asked.k, asked.where, 1)
    return raw_table(engine, found, asked.columns, asked.having)


def raw_table(engine: Engine, found: RawHits, columns: tuple[str, ...], having: str | None) -> pa.Table:
    """Return raw hits of an index as a table: the number of the place, the id, the distance and columns."""
    told = {"query": numbers(np.repeat(np.arange(len(found.count)), found.count)), "id": engine.ids_of(found)}
    told["distance"] = numbers(found.distance)
    taken = take_columns(engine.parts, found, list(columns))
    told |= {f"c:{name}": column for name, column in zip(columns, taken, strict=True)}
    if having is not None:
        told[SATISFIED] = numbers(engine.satisfying(found, having))
    return pa.table(told)
