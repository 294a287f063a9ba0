"""Questions of many places or shapes at once, in pieces that one snapshot answers: hits, counts, owners."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.client.chunked_queries import PLACES_AT_A_TIME
from dtoss.client.http_connections import Answer
from dtoss.client.remote_server import Server
from dtoss.client.url_and_hits import boxes_json, column_of, hits_of, together
from dtoss.hits import Hits


@dataclass(frozen=True)
class Sent:
    """What is asked about, places or shapes, as a server reads it."""

    count: int
    body: Callable[[slice], bytes]  # Of some of them
    most: int = PLACES_AT_A_TIME  # Of a request


def sent_boxes(boxes: NDArray[np.float64]) -> Sent:
    """Return boxes, float64 (m, 4), as they are sent."""
    return Sent(len(boxes), lambda rows: boxes_json(boxes[rows]))


def sent_polygons(shapes: list[bytes]) -> Sent:
    """Return GeoJSON as it is sent: one of them in a request."""
    return Sent(len(shapes), lambda rows: shapes[rows.start], 1)


class Bulk:
    """The bulk questions of one server."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def places(
        self, places: NDArray[np.float64], radius: NDArray[np.float64] | None = None, most: int = PLACES_AT_A_TIME
    ) -> Sent:
        """Return places, float64 (m, 2), with radii, float64 (m,), if there are any, as they are sent."""
        most = min(most, PLACES_AT_A_TIME)
        return Sent(len(places), lambda rows: self._server.table(places, radius, rows), most)

    def hits(
        self, route: str, sent: Sent, parameters: dict[str, Any], snapshot: str | None = None, first: int = 0
    ) -> Hits:
        """Return the hits of places or shapes."""
        server = self._server

        def ask(rows: slice, one: str | None) -> tuple[Answer, Hits]:
            answer = server.ask("POST", route, parameters, one, sent.body(rows))
            return answer, hits_of(answer, rows.stop - rows.start, server.seen().space, first + rows.start)

        return together(server.whole(sent.count, sent.most, ask, snapshot)[0])

    def column(self, route: str, name: str, sent: Sent, parameters: dict[str, Any]) -> tuple[NDArray[Any], str]:
        """Return a column with a value for each place or shape, and the snapshot that has answered."""
        server = self._server

        def ask(rows: slice, one: str | None) -> tuple[Answer, NDArray[Any]]:
            answer = server.ask("POST", route, parameters, one, sent.body(rows))
            return answer, column_of(answer, name)

        found, snapshot = server.whole(sent.count, sent.most, ask)
        return np.concatenate(found), snapshot

    def counts(
        self, places: NDArray[np.float64], radii: NDArray[np.float64], where: str | None
    ) -> tuple[NDArray[np.int64], str]:
        """Return how many objects lie within radii of places, int64 (m,), and the snapshot that said so."""
        return self.column("/count", "count", self.places(places, radii), {"where": where})

    def batches(
        self,
        places: NDArray[np.float64],
        radii: NDArray[np.float64],
        parameters: dict[str, Any],
        counts: NDArray[np.int64],
        most: int,
        snapshot: str,
    ) -> Iterator[Hits]:
        """Yield the hits of radii of places, so many at a time or fewer."""
        ends = np.cumsum(counts)
        first = 0
        while first < len(counts):
            before = int(ends[first] - counts[first])
            last = max(int(np.searchsorted(ends, before + most, side="right")), first + 1)
            if ends[last - 1] > before:
                rows = slice(first, last)
                hits = self.hits("/range", self.places(places[rows], radii[rows]), parameters, snapshot, first)
                for at in range(0, len(hits), most):
                    yield hits[at : at + most] if len(hits) > most else hits
            first = last
