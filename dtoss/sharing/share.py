"""A server's share of a snapshot: it answers what its partitions know, and asks others what they own of the rest."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.index import Index
from dtoss.locks import Lock
from dtoss.partitioning.routing import far_of_radius, owners_that_may
from dtoss.sharing.asked import Asked, last_distance, merged, numbered, table_of
from dtoss.sharing.held import held_index, known_index

_VIEWS = 256
"""Sets of partitions that a share keeps as indexes."""

Ask = Callable[[int, Asked, tuple[int, ...]], pa.Table]
"""Asks a server what some of its partitions own of an answer; returns the hits, as :meth:`Share.partial` does."""


class Share:
    """Some partitions of a snapshot, and how the rest of an answer is asked of those that hold it; thread-safe.

    Parameters
    ----------
    index
        Of all partitions; only those that are held are opened.
    held
        Numbers of partitions.
    """

    def __init__(self, index: Index, held: Iterable[int]) -> None:
        self.index = index
        self.held = tuple(sorted(set(held)))
        self._lock = Lock()
        self._views: OrderedDict[tuple[int, ...], Index] = OrderedDict()
        self._known: dict[int, Index] = {}
        self._furthest = np.array([one.furthest if one.sites else -1.0 for one in index.parts.facts])

    def view(self, partitions: tuple[int, ...]) -> Index:
        """Return the index of some of the partitions that are held."""
        with self._lock:
            found = self._views.pop(partitions, None)
            if found is None:
                found = held_index(self.index, partitions)
            self._views[partitions] = found
            while len(self._views) > _VIEWS:
                self._views.popitem(last=False)
        return found

    def known(self, number: int) -> Index:
        """Return the index of what a partition that is held knows."""
        with self._lock:
            found = self._known.get(number)
            if found is None:
                found = self._known[number] = known_index(self.index, number)
        return found

    def partial(self, asked: Asked, partitions: tuple[int, ...]) -> pa.Table:
        """Return what some of the partitions have of an answer, at most k of each place.

        Parameters
        ----------
        asked
            With radii beyond which nothing of an answer lies.
        partitions
            Which of those that are held.

        Raises
        ------
        KeyError
            If one of them is not held.
        ValueError
            As :func:`dtoss.sharing.asked.table_of`.
        """
        missing = set(partitions) - set(self.held)
        if missing:
            raise KeyError(f"partition {min(missing)} is not held here")
        return table_of(self.view(partitions), asked)

    def answer(self, asked: Asked, server_of: NDArray[np.int64], me: int, ask: Ask) -> pa.Table:
        """Return the answer of places whose homes are held.

        Parameters
        ----------
        asked
            What is asked.
        server_of
            int64 (P,). Whom to ask for each partition; this server's number for all that it has itself.
        me
            The number of this server.
        ask
            Asks another one.

        Raises
        ------
        KeyError
            If a home is not held.
        ValueError
            As :meth:`partial`.

        Notes
        -----
        What the home knows gives a distance beyond which nothing of the answer lies (dissertation, 3.3.1). Where it
        knows all up to there, nobody else is asked. Else each partition that may own something is asked for once.
        """
        vectors = self.index.space.vectors(asked.positions)
        home = self.index.partitioning.nearest(vectors)
        known, far = self._at_home(asked, home)
        alone = self._alone(vectors, home, far)
        rest = np.flatnonzero(~alone)
        if len(rest) == 0:
            return known
        whole = [known.filter(pa.array(alone[known.column("query").to_numpy()]))]
        asked, vectors, home = asked.take(rest, far[rest]), vectors[rest], home[rest]
        mine = tuple(np.flatnonzero(server_of == me).tolist())
        found = self.partial(asked, mine)
        done = np.zeros((len(rest), len(server_of)), np.bool_)
        done[:, list(mine)] = True
        if asked.k:
            found = self._nearest_first(asked, vectors, home, found, done, server_of, ask)
            asked = asked.take(np.arange(len(rest)), np.minimum(asked.radius, last_distance(found, len(rest), asked.k)))
        place, part = owners_that_may(
            self.index.partitioning, vectors, home, far_of_radius(asked.radius, vectors.shape[1]), self._furthest
        )
        left = ~done[place, part]
        others = self._asked_of(asked, place[left], part[left], server_of, ask)
        return merged([*whole, numbered(merged([found, *others], asked.k), rest)], 0)

    def _at_home(self, asked: Asked, home: NDArray[np.int32]) -> tuple[pa.Table, NDArray[np.float64]]:
        """Return the hits that homes know, and how far the answer of each place reaches at the most."""
        tables, far = [table_of(self.view(()), asked.take(np.zeros(0, np.int64)))], asked.radius.copy()
        for number in np.unique(home).tolist():
            if number not in self.held:
                raise KeyError(f"partition {number} is not held here")
            rows = np.flatnonzero(home == number)
            if self._furthest[number] < 0.0:
                continue  # an empty home may have replicas, but says nothing of what is beyond
            some = table_of(self.known(number), asked.take(rows), replicas=True)
            tables.append(numbered(some, rows))
            if asked.k:
                far[rows] = np.minimum(far[rows], last_distance(some, len(rows), asked.k))
        return merged(tables, 0), far

    def _alone(
        self, vectors: NDArray[np.float64], home: NDArray[np.int32], far: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """Return of which places the home knows everything within a distance."""
        if len(self._furthest) == 1:
            return np.ones(len(home), np.bool_)
        place, part = owners_that_may(
            self.index.partitioning,
            vectors,
            home,
            far_of_radius(far, vectors.shape[1]),
            self._furthest,
            self.index.reach,
        )
        others = np.bincount(place[part != home[place]], minlength=len(home))
        return (others == 0) & (self._furthest[home] >= 0.0)

    def _nearest_first(
        self,
        asked: Asked,
        vectors: NDArray[np.float64],
        home: NDArray[np.int32],
        found: pa.Table,
        done: NDArray[np.bool_],
        server_of: NDArray[np.int64],
        ask: Ask,
    ) -> pa.Table:
        """Return hits with those of the nearest partition that has objects, for places of which too little is known."""
        few = np.flatnonzero(np.isinf(last_distance(found, len(asked), asked.k)) | (self._furthest[home] < 0.0))
        some = np.flatnonzero(self._furthest >= 0.0)
        if len(few) == 0 or len(some) == 0:
            return found
        pivots = self.index.partitioning.pivots[some]
        gap = np.linalg.norm(vectors[few][:, None, :] - pivots[None], axis=2)
        part = some[gap.argmin(axis=1)]
        fresh = ~done[few, part]
        few, part = few[fresh], part[fresh]
        tables = self._asked_of(asked, few, part, server_of, ask)
        done[few, part] = True
        return merged([found, *tables], asked.k)

    def _asked_of(
        self, asked: Asked, place: NDArray[np.int64], part: NDArray[np.integer], server_of: NDArray[np.int64], ask: Ask
    ) -> list[pa.Table]:
        """Return what others have of pairs of a place and a partition, each server asked once for the same ones."""
        tables = []
        sets: dict[tuple[int, tuple[int, ...]], list[int]] = {}
        order = np.lexsort((part, server_of[part], place))
        key = place[order] * (int(server_of.max()) + 1) + server_of[part[order]]
        for group in np.split(order, np.flatnonzero(np.diff(key)) + 1) if len(order) else []:
            server = int(server_of[part[group[0]]])
            sets.setdefault((server, tuple(part[group].tolist())), []).append(int(place[group[0]]))
        for (server, partitions), places in sets.items():
            rows = np.array(places, np.int64)
            tables.append(numbered(ask(server, asked.take(rows), partitions), rows))
        return tables
