"""One server and its snapshot: what is known of it, and questions that are checked here before they go there.

What a server says of the snapshot that it has open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dtoss.client.http_connections import ARROW_MEDIA, JSON, Answer, Connections, Gone, TooMuch
from dtoss.client.url_and_hits import boxes_json, column_of, hits_of, table_bytes, target
from dtoss.column_rows import join_rows
from dtoss.errors import DtossError, StoreError
from dtoss.frames.arrow_tables import Places
from dtoss.frames.coordinates import as_places, places_of
from dtoss.geometry.space import LONLAT, Space, space_of
from dtoss.hits import Hits
from dtoss.names import position_names

T = TypeVar("T")


PLACES_AT_A_TIME = 100_000
"""Queries that are asked at a time, at the most."""
BEGINNINGS = 3
"""How often it is begun again where snapshots go while they are asked."""
SPLIT_AT = ("hits", "bulk_queries", "rows", "body_bytes", "corners")
"""Limits that a smaller piece keeps."""


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


class Server:
    """A server that is asked of one snapshot, or of whichever is current.

    ``pinned``: the snapshot that has to answer; None follows what is current; ``least``: the sequence number of the log
    up to which answers have to hold all rows; None for any.
    """

    def __init__(self, connections: Connections, pinned: str | None, least: int | None = None) -> None:
        self.connections, self._pinned, self._least = connections, pinned, least
        self._known: Facts | None = None
        self.answered = pinned

    @property
    def url(self) -> str:
        """Where it is."""
        return str(self.connections.address)

    def ask(
        self,
        method: str,
        route: str,
        parameters: dict[str, Any],
        snapshot: str | None = None,
        body: bytes | None = None,
        accept: str = ARROW_MEDIA,
    ) -> Answer:
        """Return the answer to one request, of the snapshot that is named or pinned."""
        named = snapshot or self._pinned
        told = {**parameters, "snapshot": named, "min_seq": self._least if named is None else None}
        answer = self.connections.ask(method, target(route, told), body, accept)
        if self._pinned is None:
            self.answered = answer.snapshot
        return answer

    def whole(
        self,
        queries: int,
        most: int,
        ask: Callable[[slice, str | None], tuple[Answer, T]],
        snapshot: str | None = None,
    ) -> tuple[list[T], str]:
        """Return what was found for all queries, in order of the pieces, and the snapshot that answered all of them.

        Without queries an empty piece is asked all the same. Where no snapshot is named or pinned, what answers the
        first piece answers the others.
        """
        pinned = snapshot or self._pinned
        for _ in range(BEGINNINGS):
            found: list[T] = []
            answering = pinned
            waiting = [slice(at, min(at + most, queries)) for at in range(0, max(queries, 1), most)][::-1]
            try:
                while waiting:
                    rows = waiting.pop()
                    try:
                        answer, piece = ask(rows, answering)
                    except TooMuch as error:
                        waiting += smaller_pieces(rows, error)[::-1]
                        continue
                    found.append(piece)
                    answering = answering or answer.snapshot
            except Gone:
                if pinned is not None:
                    raise
                continue
            return found, answering or ""
        raise StoreError(
            f"snapshots at {self.url} went {BEGINNINGS} times while {queries:,} queries were asked: ask for fewer at a "
            "time"
        )

    def facts(self) -> Facts:
        """Return what the server says of the snapshot, which is asked anew unless one is pinned."""
        known = self._known
        if known is None or self._pinned is None:
            known = facts_of(self.ask("GET", "/snapshot", {}, accept=JSON).document())
            self._known = known
        return known

    def seen(self) -> Facts:
        """Return what the server last said of the snapshot."""
        return self._known or self.facts()

    def check(self, check: Callable[[Facts], T]) -> T:
        """Return what a check makes of what is known of the snapshot, or where that fails, of what is said now."""
        known = self.seen()
        try:
            return check(known)
        except ValueError:
            try:
                now = self.facts()
            except DtossError:
                now = known
            if now == known:
                raise
        return check(now)

    def places(self, positions: Places, crs: str | None) -> NDArray[np.float64]:
        """Return positions as float64 (n, 2), checked as an index in process does."""
        found = places_of(positions)  # once: a stream is read to its end

        def check(facts: Facts) -> NDArray[np.float64]:
            space = facts.space
            places = as_places(positions if found is None else found, space, crs)
            if space.to_lonlat:
                space.vectors(places)
            return places

        return self.check(check)

    def names(self) -> tuple[str, str]:
        """Return as what coordinates are called."""
        return position_names(self.seen().space.geographic)

    def at(self, place: NDArray[np.float64]) -> dict[str, Any]:
        """Return a place as parameters."""
        return dict(zip(self.names(), place.tolist(), strict=True))

    def table(self, places: NDArray[np.float64], radius: NDArray[np.float64] | None, rows: slice) -> bytes:
        """Return some of the places as they are sent, with their radii if there are any."""
        columns = [places[rows, 0], places[rows, 1]]
        if radius is None:
            return table_bytes(self.names(), columns)
        return table_bytes([*self.names(), "radius"], [*columns, radius[rows]])

    def places_to_send(
        self, places: NDArray[np.float64], radius: NDArray[np.float64] | None = None, most: int = PLACES_AT_A_TIME
    ) -> Sent:
        """Return places, float64 (m, 2), with radii, float64 (m,), if there are any, as they are sent."""
        most = min(most, PLACES_AT_A_TIME)
        return Sent(len(places), lambda rows: self.table(places, radius, rows), most)

    def hits(
        self, route: str, sent: Sent, parameters: dict[str, Any], snapshot: str | None = None, first: int = 0
    ) -> Hits:
        """Return the hits of places or shapes."""

        def ask(rows: slice, one: str | None) -> tuple[Answer, Hits]:
            answer = self.ask("POST", route, parameters, one, sent.body(rows))
            return answer, hits_of(answer, rows.stop - rows.start, self.seen().space, first + rows.start)

        return join_rows(self.whole(sent.count, sent.most, ask, snapshot)[0])

    def column(self, route: str, name: str, sent: Sent, parameters: dict[str, Any]) -> tuple[NDArray[Any], str]:
        """Return a column with a value for each place or shape, and the snapshot that has answered."""

        def ask(rows: slice, one: str | None) -> tuple[Answer, NDArray[Any]]:
            answer = self.ask("POST", route, parameters, one, sent.body(rows))
            return answer, column_of(answer, name)

        found, snapshot = self.whole(sent.count, sent.most, ask)
        return np.concatenate(found), snapshot

    def counts(
        self, places: NDArray[np.float64], radii: NDArray[np.float64], where: str | None
    ) -> tuple[NDArray[np.int64], str]:
        """Return how many objects lie within radii of places, int64 (m,), and the snapshot that said so."""
        return self.column("/count", "count", self.places_to_send(places, radii), {"where": where})

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
                hits = self.hits("/range", self.places_to_send(places[rows], radii[rows]), parameters, snapshot, first)
                for at in range(0, len(hits), most):
                    yield hits[at : at + most] if len(hits) > most else hits
            first = last


def smaller_pieces(rows: slice, error: TooMuch) -> list[slice]:
    """Return pieces of a piece that was too much."""
    size = rows.stop - rows.start
    if size < 2 or error.limit not in SPLIT_AT:
        raise error from None
    parts = 2
    if isinstance(error.value, (int, float)) and isinstance(error.bound, (int, float)) and error.bound > 0:
        parts = int(min(max(1.25 * error.value / error.bound + 1, 2), size))
    step = -(-size // parts)
    return [slice(at, min(at + step, rows.stop)) for at in range(rows.start, rows.stop, step)]


@dataclass(frozen=True)
class Facts:
    """A snapshot that a server has open."""

    snapshot: str
    # objects, sites, partitions: how many there are; 0 sites where the token may see some objects only, whose places
    # nobody counts
    objects: int
    sites: int
    partitions: int
    space: Space  # What its positions mean
    # The rectangle that planar cells are clipped to; None on the sphere
    bounds: tuple[float, float, float, float] | None
    string_ids: bool  # Whether ids are texts
    columns: Mapping[str, str]  # Attributes of the objects, and their types as Arrow writes them
    version: str


def facts_of(document: Mapping[str, Any]) -> Facts:
    """Return the facts in the answer of ``/snapshot``."""
    try:
        bounds = document["bounds"]
        return Facts(
            snapshot=str(document["snapshot"]),
            objects=int(document["objects"]),
            sites=int(document.get("sites") or 0),
            partitions=int(document["partitions"]),
            space=_space(document["crs"], document["metric"]),
            bounds=None if bounds is None else (bounds[0], bounds[1], bounds[2], bounds[3]),
            string_ids=document["id_type"] != "int64",
            columns=dict(document["columns"]),
            version=str(document["version"]),
        )
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise DtossError(f"/snapshot says something else than a server of dtoss of this version ({error!r})") from None


def _space(crs: str, metric: str) -> Space:
    """Return a space; a library that reads names of CRS is loaded only where one may be projected."""
    if metric == "plane" or crs == LONLAT:
        return Space(crs, metric)
    return space_of(crs, metric)
