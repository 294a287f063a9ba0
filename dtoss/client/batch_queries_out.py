"""Questions of many places or shapes at once, in pieces that one snapshot answers: hits, counts, owners."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.client.chunked_queries import PLACES_AT_A_TIME
from dtoss.client.http_connections import Answer
from dtoss.client.remote_server import Server
from dtoss.client.url_and_hits import column_of, hits_of, together
from dtoss.geometry.space import Space
from dtoss.hits import Hits

Bodies = Callable[[slice], bytes]
"""The body that asks some of the shapes."""


class Bulk:
    """The bulk questions of one server."""

    def __init__(self, server: Server) -> None:
        self._server = server

    @property
    def _space(self) -> Space:
        return self._server.seen().space

    def hits(
        self,
        route: str,
        places: NDArray[np.float64],
        radius: NDArray[np.float64] | None,
        parameters: dict[str, Any],
        *,
        most: int = PLACES_AT_A_TIME,
        snapshot: str | None = None,
        first: int = 0,
    ) -> Hits:
        """Return the hits of places.

        ``places``: float64 (m, 2); ``radius``: float64 (m,); None where the route takes none; ``snapshot``: that has to
        answer; any when None; ``first``: the number of the first place.
        """
        server = self._server

        def ask(rows: slice, one: str | None) -> tuple[Answer, Hits]:
            answer = server.ask("POST", route, parameters, one, server.table(places, radius, rows))
            return answer, hits_of(answer, rows.stop - rows.start, self._space, first + rows.start)

        return together(server.whole(len(places), min(most, PLACES_AT_A_TIME), ask, snapshot)[0])

    def column(
        self,
        route: str,
        name: str,
        places: NDArray[np.float64],
        radius: NDArray[np.float64] | None,
        parameters: dict[str, Any],
    ) -> tuple[NDArray[Any], str]:
        """Return a column with a value for each place, and the snapshot that has answered."""
        server = self._server

        def ask(rows: slice, one: str | None) -> tuple[Answer, NDArray[Any]]:
            answer = server.ask("POST", route, parameters, one, server.table(places, radius, rows))
            return answer, column_of(answer, name)

        found, snapshot = server.whole(len(places), PLACES_AT_A_TIME, ask)
        return np.concatenate(found), snapshot

    def counts(
        self, places: NDArray[np.float64], radii: NDArray[np.float64], where: str | None
    ) -> tuple[NDArray[np.int64], str]:
        """Return how many objects lie within radii of places, int64 (m,), and the snapshot that said so."""
        return self.column("/count", "count", places, radii, {"where": where})

    def batches(
        self,
        places: NDArray[np.float64],
        radii: NDArray[np.float64],
        parameters: dict[str, Any],
        counts: NDArray[np.int64],
        most: int,
        snapshot: str,
    ) -> Iterator[Hits]:
        """Yield the hits of radii of places, so many at a time or fewer.

        ``counts``: int64 (m,). How many hits each has.
        """
        ends = np.cumsum(counts)
        first = 0
        while first < len(counts):
            before = int(ends[first] - counts[first])
            last = max(int(np.searchsorted(ends, before + most, side="right")), first + 1)
            if ends[last - 1] > before:
                rows = slice(first, last)
                hits = self.hits("/range", places[rows], radii[rows], parameters, snapshot=snapshot, first=first)
                for at in range(0, len(hits), most):
                    yield hits[at : at + most] if len(hits) > most else hits
            first = last

    def hits_of_shapes(
        self,
        route: str,
        bodies: Bodies,
        count: int,
        most: int,
        parameters: dict[str, Any],
        first: int = 0,
        snapshot: str | None = None,
    ) -> Hits:
        """Return the hits of shapes.

        ``first``: the number of the first one.
        """
        if not count:
            return self.hits("/knn", np.zeros((0, 2)), None, parameters)

        def ask(rows: slice, one: str | None) -> tuple[Answer, Hits]:
            answer = self._server.ask("POST", route, parameters, one, bodies(rows))
            return answer, hits_of(answer, rows.stop - rows.start, self._space, first + rows.start)

        return together(self._server.whole(count, most, ask, snapshot)[0])

    def counts_of_shapes(
        self, route: str, bodies: Bodies, count: int, most: int, where: str | None
    ) -> NDArray[np.int64]:
        """Return how many objects lie in each shape, int64 (n,).

        ``where``: A condition; None for all objects.
        """
        if not count:
            return self.counts(np.zeros((0, 2)), np.zeros(0), where)[0]

        def ask(rows: slice, one: str | None) -> tuple[Answer, NDArray[np.int64]]:
            answer = self._server.ask("POST", route, {"where": where, "count": 1}, one, bodies(rows))
            return answer, column_of(answer, "count")

        return np.concatenate(self._server.whole(count, most, ask)[0])
