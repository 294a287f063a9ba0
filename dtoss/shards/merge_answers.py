"""Answers of several servers, each with its share of a snapshot, put together: the same as those of one index."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.index import Index
from dtoss.partitioning.partition_bounds import far_of_radius, owners_that_may
from dtoss.shards.shard_queries import ShardQuery, last_distance, merge_hits, numbered, table_of
from dtoss.shards.share import AtHome, Share

NOBODY = -1
"""The server of a partition that no server which answers holds."""


@dataclass(frozen=True, eq=False)
class HomeQuestion:
    """Asks the server of their homes what it says of places; answered by :meth:`.share.Share.at_home`.

    Partitions are those that it is taken to hold; it may hold others, too.
    """

    asked: ShardQuery
    partitions: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class HitsQuestion:
    """Asks a server what it has of an answer; answered by :meth:`.share.Share.hits`.

    Partitions are those that it is taken to hold; it may hold others, too.
    """

    asked: ShardQuery
    partitions: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class CountQuestion:
    """Asks how many objects some of a server's partitions own within the radius of each place."""

    asked: ShardQuery
    partitions: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class NearestToQuestion:
    """Asks which objects of some of a server's partitions are nearer to places than to any other object of these."""

    positions: NDArray[np.float64]
    partitions: tuple[int, ...]


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

    async def hits(self, asked: ShardQuery) -> pa.Table:
        """Return the hits of places: query, id, distance and columns, by place, distance and id.

        First the servers of the homes, then, for places far from everything, that of the nearest partition with
        objects, then all others that may have something; each server is asked once in each of these three.
        """
        vectors = self.index.space.vectors(asked.positions)
        home, furthest = self.index.partitioning.nearest(vectors), self.share.furthest
        far, alone = asked.radius.copy(), np.zeros(len(asked), np.bool_)
        groups = self._groups(home)
        answers: list[AtHome] = await self.ask(
            [(server, HomeQuestion(asked.take(rows), self.given(server))) for server, rows in groups]
        )
        if len(groups) == 1 and len(groups[0][1]) == len(asked) and answers[0].alone.all():
            return answers[0].hits
        done, tables = np.zeros((len(asked), len(furthest)), np.bool_), [self._none(asked)]
        for (server, rows), one in zip(groups, answers, strict=True):
            tables.append(numbered(one.hits, rows))
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

    async def counts(self, asked: ShardQuery) -> NDArray[np.int64]:
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
        answers = await self.ask([(one, CountQuestion(asked.take(rows), self.given(one))) for one, rows in groups])
        counts = np.zeros(len(asked), np.int64)
        for (_, rows), found in zip(groups, answers, strict=True):
            counts[rows] += found
        return counts

    async def reverse_nearest(self, positions: NDArray[np.float64]) -> pa.Table:
        """Return the objects that are nearer to each place than to any other object: query, id and distance.

        Whoever is nearer to the place than to all others is nearer to it than to those on its own server: each says
        who that is, and of all of them the second nearest at their own place tells.
        """
        servers = self.all_servers()
        answers = await self.ask([(one, NearestToQuestion(positions, self.given(one))) for one in servers])
        told = merge_hits([answered_by(self.share, NearestToQuestion(positions[:0], ())), *answers], 0)
        places = np.column_stack([told.column("x").to_numpy(), told.column("y").to_numpy()])
        second = await self.hits(ShardQuery(places, np.full(len(places), np.inf), 2))
        other = last_distance(second, len(places), 2)
        return told.select(["query", "id", "distance"]).filter(pa.array(told.column("distance").to_numpy() < other))

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

    def _none(self, asked: ShardQuery) -> pa.Table:
        """Return a table without hits."""
        return table_of(self.share.here, replace(asked, where=None).take(np.zeros(0, np.int64)))

    def _nearest_with_objects(
        self,
        asked: ShardQuery,
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
        self, asked: ShardQuery, place: NDArray[np.int64], part: NDArray[np.integer], done: NDArray[np.bool_]
    ) -> list[pa.Table]:
        """Return what servers have of pairs of a place and a partition, of those that were not asked yet."""
        fresh = ~done[place, part]
        place, part = place[fresh], part[fresh]
        if len(place) == 0:
            return []
        server = self._servers(part)
        groups = [(one, np.unique(place[server == one])) for one in np.unique(server).tolist() if one != NOBODY]
        answers = await self.ask([(one, HitsQuestion(asked.take(rows), self.given(one))) for one, rows in groups])
        for one, rows in groups:
            done[np.ix_(rows, np.array(self.given(one), np.int64))] = True
        return [numbered(table, rows) for (_, rows), table in zip(groups, answers, strict=True)]


def answered_by(share: Share, question: Any) -> Any:
    """Return a share's answer to a question of another server."""
    share.check_held(question.partitions)
    if isinstance(question, HomeQuestion):
        return share.at_home(question.asked)
    if isinstance(question, HitsQuestion):
        return share.hits(question.asked)
    if isinstance(question, CountQuestion):
        asked = question.asked
        return share.owned(question.partitions).search(asked.positions, asked.radius, -1, asked.where).count
    assert isinstance(question, NearestToQuestion)
    index = share.owned(question.partitions)
    found = index.reverse_nearest(question.positions)
    ids = pa.array(found.id, pa.large_string() if index.string_ids else pa.int64())
    at = found.positions
    return pa.table(
        {"query": found.query, "id": ids, "distance": found.distance, "x": at[:, 0].copy(), "y": at[:, 1].copy()}
    )
