"""Answers of several servers, each with its share of a snapshot, put together: the same as those of one index."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.geometry.space import Space
from dtoss.index import Index
from dtoss.kinds.all_kinds import ALL_KINDS
from dtoss.kinds.alone import table_of
from dtoss.kinds.hit_tables import last_distance, merge_hits, renumber, table_of_part
from dtoss.kinds.kind import Part, Question, Search
from dtoss.partitioning.partition_bounds import far_of_radius, owners_that_may
from dtoss.shards.share import AtHome, Share

NOBODY = -1
"""The server of a partition that no server which answers holds."""


ShareAnswer: TypeAlias = AtHome | pa.Table | NDArray[np.int64]
"""What a share answers to a question of another server."""


@dataclass(frozen=True)
class Step:
    """What servers are asked of their partitions on the way to an answer."""

    name: str
    number: int  # Of the message, by which servers know it for ever
    # Of a share, where only what some partitions own may count; None where limits of a server are looked at meanwhile
    answer: Callable[[Share, Search, tuple[int, ...]], ShareAnswer] | None
    radii: bool = True  # Whether each place has a radius


def step_of(part: Part) -> Step:
    """Return the step in which each server is asked for the part of a kind of question."""
    of_places = part.answer
    if of_places is None:
        return Step(part.name, part.number, None, radii=False)

    def answer(share: Share, asked: Search, partitions: tuple[int, ...]) -> pa.Table:
        return table_of_part(of_places(share.owned(partitions).engine, asked.positions))

    return Step(part.name, part.number, answer, radii=False)


def _count(share: Share, asked: Search, partitions: tuple[int, ...]) -> NDArray[np.int64]:
    return share.owned(partitions).search(asked.positions, asked.radius, -1, asked.where).count


AT_HOMES = Step("homes", 0, lambda share, asked, _: share.at_home(asked))
BY_SHARES = Step("hits", 1, lambda share, asked, _: share.hits(asked))
COUNTED_BY_SHARES = Step("counts", 2, _count)
PART_STEPS = {kind.part.name: step_of(kind.part) for kind in ALL_KINDS.values() if kind.part is not None}
SHARE_STEPS = {step.number: step for step in (AT_HOMES, BY_SHARES, COUNTED_BY_SHARES, *PART_STEPS.values())}
"""All steps by the numbers of their messages."""


@dataclass(frozen=True, eq=False)
class ShareQuestion:
    """Asks a server for a step of an answer."""

    step: Step
    asked: Search | Question[Any]  # The question itself, where it is about shapes
    partitions: tuple[int, ...]  # That it is taken to hold; it may hold others, too


Ask: TypeAlias = Callable[[Sequence[tuple[int, Any]]], Awaitable[list[Any]]]
"""Asks servers, all at the same time, and returns their answers in order."""


class NobodyHolds(Exception):
    """Partitions that an answer needs are held by no server that answers."""

    def __init__(self, partitions: Sequence[int]) -> None:
        super().__init__(f"no server that answers holds partitions {list(partitions)}")
        self.partitions = tuple(sorted(partitions))


@dataclass(frozen=True, eq=False)
class Together:
    """The servers of a snapshot as one of them sees it, for the time of one answer."""

    share: Share
    me: int  # The number of its own server
    server_of: NDArray[np.int64]  # int64 (P,). Whom to ask for each partition; :data:`NOBODY` where nobody can be
    ask: Ask
    # Takes the partitions that an answer lacks; None where an answer that lacks any is none
    partial: set[int] | None = None

    @property
    def index(self) -> Index:
        """Of all partitions, of which none has to be open."""
        return self.share.index

    @property
    def space(self) -> Space:
        """What positions mean."""
        return self.index.space

    @property
    def objects(self) -> int:
        """How many there are."""
        return len(self.index)

    async def hits(self, asked: Search) -> pa.Table:
        """Return the hits of places: query, id, distance and columns, by place, distance and id.

        First the servers of the homes, then, for places far from everything, that of the nearest partition with
        objects, then all others that may have something; each server is asked once in each of these three.
        """
        asked = replace(asked, k=min(asked.k, max(self.objects, 1)))
        vectors = self.index.space.vectors(asked.positions)
        home, furthest = self.index.partitioning.nearest(vectors), self.share.furthest
        far, alone = asked.radius.copy(), np.zeros(len(asked), np.bool_)
        groups = self._groups(home)
        answers: list[AtHome] = await self._ask_groups(AT_HOMES, asked, groups)
        if len(groups) == 1 and len(groups[0][1]) == len(asked) and answers[0].alone.all():
            return answers[0].hits
        done, tables = np.zeros((len(asked), len(furthest)), np.bool_), [self._none(asked)]
        for (server, rows), one in zip(groups, answers, strict=True):
            tables.append(renumber(one.hits, rows))
            far[rows], alone[rows] = one.far, one.alone
            done[np.ix_(rows, np.array(self.given(server), np.int64))] = True
        rest = np.flatnonzero(~alone)
        if len(rest) == 0:
            return merge_hits(tables, asked.k)
        if asked.k:
            nearest = self._nearest_with_objects(asked, vectors, home, far, rest, done, furthest)
            tables += await self._hits_of(asked.take(np.arange(len(asked)), far), *nearest, done)
            found = merge_hits(tables, asked.k)
            tables = [found]
            far = np.minimum(far, last_distance(found, len(asked), asked.k))
        place, part = owners_that_may(
            self.index.partitioning, vectors[rest], home[rest], far_of_radius(far[rest], vectors.shape[1]), furthest
        )
        some = furthest[part] >= 0.0
        tables += await self._hits_of(asked.take(np.arange(len(asked)), far), rest[place[some]], part[some], done)
        return merge_hits(tables, asked.k)

    async def counts(self, asked: Search) -> NDArray[np.int64]:
        """Return how many objects lie within the radius of each place, int64 (m,)."""
        vectors = self.index.space.vectors(asked.positions)
        home, furthest = self.index.partitioning.nearest(vectors), self.share.furthest
        place, part = owners_that_may(
            self.index.partitioning, vectors, home, far_of_radius(asked.radius, vectors.shape[1]), furthest
        )
        some = furthest[part] >= 0.0
        place, server = place[some], self._servers(part[some])
        groups = [
            (one, np.unique(place[server == one])) for one in np.unique(server[server != NOBODY]).tolist()
        ]  # fmt: skip
        answers = await self._ask_groups(COUNTED_BY_SHARES, asked, groups)
        counts = np.zeros(len(asked), np.int64)
        for (_, rows), found in zip(groups, answers, strict=True):
            counts[rows] += found
        return counts

    async def parts(self, asked: Question[Any]) -> list[Any]:
        """Return what the partitions of each server say by themselves; of none, what says of which types hits are."""
        assert asked.kind.part is not None
        step = PART_STEPS[asked.kind.part.name]
        of = Search(asked.positions, np.zeros(0), 0) if asked.shapes is None else asked
        asks = [(one, ShareQuestion(step, of, self.given(one))) for one in self.all_servers()]
        return await self.ask(asks or [(self.me, ShareQuestion(step, of, ()))])

    async def _ask_groups(self, step: Step, asked: Search, groups: list[tuple[int, NDArray[np.int64]]]) -> list[Any]:
        """Return what servers answer about some of the places each."""
        return await self.ask([(one, ShareQuestion(step, asked.take(rows), self.given(one))) for one, rows in groups])

    def given(self, server: int) -> tuple[int, ...]:
        """Return the partitions that a server is asked for."""
        found: list[int] = np.flatnonzero(self.server_of == server).tolist()
        return tuple(found)

    def all_servers(self) -> list[int]:
        """Return all servers that hold a partition with objects."""
        found: list[int] = np.unique(self._servers(np.flatnonzero(self.share.furthest >= 0.0))).tolist()
        return [one for one in found if one != NOBODY]

    def _servers(self, part: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return whom to ask for each of some partitions."""
        server = self.server_of[part]
        missing = np.unique(part[server == NOBODY]).tolist()
        if missing and self.partial is None:
            raise NobodyHolds(missing)
        if self.partial is not None:
            self.partial.update(missing)
        return server

    def _groups(self, home: NDArray[np.int32]) -> list[tuple[int, NDArray[np.int64]]]:
        """Return the servers of homes and the places of each."""
        server = self._servers(home)
        return [(one, np.flatnonzero(server == one)) for one in np.unique(server).tolist() if one != NOBODY]

    def _none(self, asked: Search) -> pa.Table:
        """Return a table without hits."""
        return table_of(self.share.here.engine, replace(asked, where=None).take(np.zeros(0, np.int64)))

    def _nearest_with_objects(
        self,
        asked: Search,
        vectors: NDArray[np.float64],
        home: NDArray[np.int32],
        far: NDArray[np.float64],
        rest: NDArray[np.int64],
        done: NDArray[np.bool_],
        furthest: NDArray[np.float64],
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return places of which too little is known, and the nearest partition of each that has objects."""
        few = rest[np.isinf(far[rest]) | (furthest[home[rest]] < 0.0)]
        some = np.flatnonzero(furthest >= 0.0)
        if len(few) == 0 or len(some) == 0:
            return few[:0], some[:0]
        pivots = self.index.partitioning.pivots[some]
        gap = np.linalg.norm(vectors[few][:, None, :] - pivots[None], axis=2)
        part = some[gap.argmin(axis=1)]
        return few, part

    async def _hits_of(
        self, asked: Search, place: NDArray[np.int64], part: NDArray[np.integer], done: NDArray[np.bool_]
    ) -> list[pa.Table]:
        """Return what servers have of pairs of a place and a partition, of those that were not asked yet."""
        fresh = ~done[place, part]
        place, part = place[fresh], part[fresh]
        if len(place) == 0:
            return []
        server = self._servers(part)
        groups = [(one, np.unique(place[server == one])) for one in np.unique(server).tolist() if one != NOBODY]
        answers = await self._ask_groups(BY_SHARES, asked, groups)
        for one, rows in groups:
            done[np.ix_(rows, np.array(self.given(one), np.int64))] = True
        return [renumber(table, rows) for (_, rows), table in zip(groups, answers, strict=True)]


def answered_by(share: Share, question: ShareQuestion) -> ShareAnswer:
    """Return a share's answer to a question of another server."""
    share.check_held(question.partitions)
    assert question.step.answer is not None
    assert isinstance(question.asked, Search)
    return question.step.answer(share, question.asked, question.partitions)
