"""An index that a server has open: the methods of :class:`dtoss.Index`, answered over HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn
from urllib.parse import quote

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dtoss.arguments import column_names, distances, whole_number
from dtoss.client.endpoint import address_of
from dtoss.client.http_connections import ARROW_MEDIA, JSON, Answer, Connections, Followed, Missing
from dtoss.client.put_rows import Put, put_offsets, put_table, table_of_rows
from dtoss.client.remote_server import PLACES_AT_A_TIME, Facts, Sent, Server, sent_boxes, sent_polygons
from dtoss.client.url_and_hits import (
    FARTHEST,
    geojson,
    hits_of_document,
    id_text,
    parameters_of,
    table_of,
)
from dtoss.errors import DtossError, InputError
from dtoss.frames.arrow_tables import Places
from dtoss.geometry.space import Space
from dtoss.hits import Hits
from dtoss.html_table import facts_html
from dtoss.kinds.kind import A, Kind, Tells
from dtoss.kinds.searches import LOCATE
from dtoss.kinds.shapes import IN_POLYGONS
from dtoss.kinds.spatial_index import SpatialIndex
from dtoss.log.read_upto import ReadUpto, read_upto
from dtoss.names import position_names

HOT = 64
"""Up to this k one question by itself is asked by the way that servers answer quickest."""
NOWHERE = np.zeros((0, 2))
"""No places: who asks about them hears what is wrong with a question, and what columns there are."""
HITS_AT_A_TIME = 800_000
"""Hits of one request, about, where it is known how many there will be."""


class RemoteIndex(SpatialIndex):
    """An index that a server has open, asked as :class:`dtoss.Index` is, with the same answers bit for bit.

    Made by :func:`dtoss.connect`; thread-safe: each thread has a connection of its own, also after a fork. Batches
    larger than the server answers at a time are asked in pieces, all answered by one snapshot. How many threads answer
    is the server's business: ``threads`` is checked, and changes nothing.

    A method takes and raises what the one of an index of its name does; ValueError also where more is asked for than
    the server allows (``--limits``), and DtossError where the server cannot be asked. A position with more hits than
    the server gives is not answered, each polygon is a request, and ``order="none"`` is answered in the order of
    ``"distance"``. All batches are of the snapshot that answered first, and where that is open no more, the next one
    is a StoreError. A token that may see some objects only is told of no neighbours: a DtossError.

    Parameters
    ----------
    url, token, snapshot, timeout
        As :func:`dtoss.connect`, which asks at once whether the server is there.
    others
        URLs of servers that answer the same.
    least
        As :meth:`at_least`.

    Raises
    ------
    ValueError
        If the URL, the token or the timeout is none, or both a snapshot and a sequence number are named.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        snapshot: str | None = None,
        timeout: float = 60.0,
        others: tuple[str, ...] = (),
        least: int | None = None,
    ) -> None:
        if least is not None:
            least = whole_number("seq", least, 0)
            if snapshot is not None:
                raise ValueError(f"snapshot {snapshot!r} alone answers, and rows that are told come later: name one")
        addresses = [address_of(one) for one in others]
        self._server = Server(Connections(address_of(url), token, timeout, addresses), snapshot, least)
        self._made_from = (url, token, snapshot, timeout, others, least)

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteIndex, self._made_from

    def __len__(self) -> int:
        return self._server.facts().objects

    def __repr__(self) -> str:
        facts = self._server.seen()
        return (
            f"<dtoss.RemoteIndex of {facts.objects:,} objects in {facts.partitions} partitions, {facts.space.crs}, "
            f"snapshot {facts.snapshot}, at {self.url}>"
        )

    def _repr_html_(self) -> str:
        facts = self._server.seen()
        return facts_html(
            "dtoss.RemoteIndex",
            [
                ("objects", f"{facts.objects:,}"),
                ("partitions", f"{facts.partitions:,}"),
                ("crs", facts.space.crs),
                ("snapshot", facts.snapshot),
                ("server", self.url),
            ],
        )

    @property
    def url(self) -> str:
        """Where the server is."""
        return self._server.url

    @property
    def snapshot(self) -> str:
        """The snapshot that is pinned, or else the one that answered last."""
        return self._server.answered or self._server.facts().snapshot

    @property
    def space(self) -> Space:
        """What positions mean."""
        return self._server.seen().space

    @property
    def crs(self) -> str:
        """The CRS of positions, as it was named when the snapshot was made."""
        return self.space.crs

    @property
    def bounds(self) -> tuple[float, float, float, float] | None:
        """The rectangle that planar cells are clipped to: xmin, ymin, xmax, ymax; None on the sphere."""
        return self._server.facts().bounds

    @property
    def sites(self) -> int:
        """Distinct places of the objects."""
        return self._server.facts().sites

    @property
    def string_ids(self) -> bool:
        """Whether ids are texts."""
        return self._server.seen().string_ids

    @property
    def column_names(self) -> list[str]:
        """Names of the attributes that the objects carry."""
        return list(self._server.facts().columns)

    @property
    def version(self) -> str:
        """The server's version of dtoss."""
        return self._server.facts().version

    # -- who is near? -------------------------------------------------------------------------------------------------

    def range_batches(
        self,
        positions: Places,
        radius: ArrayLike,
        *,
        batch_size: int = 1 << 20,
        where: str | None = None,
        having: str | None = None,
        columns: Sequence[str] = (),
        crs: str | None = None,
        threads: int = 1,
    ) -> Iterator[Hits]:
        batch_size = whole_number("batch_size", batch_size, 1)
        whole_number("threads", threads, 1)
        places = self._server.places(positions, crs)
        radii = np.minimum(distances("radius", radius, len(places)), FARTHEST)
        asked = self._asked(where, having, columns)
        counts, snapshot = self._server.counts(places, radii, where)
        if having is not None or len(places) == 0:
            # a condition that is wrong says so
            self._server.hits("/range", self._server.places_to_send(places[:0], radii[:0]), asked, snapshot)
        return self._server.batches(places, radii, asked, counts, batch_size, snapshot)

    def within_batches(
        self,
        polygons: Any,
        *,
        batch_size: int = 1 << 20,
        where: str | None = None,
        having: str | None = None,
        columns: Sequence[str] = (),
        edges: str | None = None,
        threads: int = 1,
    ) -> Iterator[Hits]:
        batch_size = whole_number("batch_size", batch_size, 1)
        shapes = self._polygons(polygons, edges, threads)
        asked = self._asked(where, having, columns)
        # conditions that are wrong say so at once, and what answers is the snapshot of all
        _, snapshot = self._server.counts(NOWHERE, np.zeros(0), where)
        self._server.hits("/knn", self._server.places_to_send(NOWHERE), asked, snapshot)

        def batches() -> Iterator[Hits]:
            for row, shape in enumerate(shapes):
                hits = self._server.hits("/within", sent_polygons([shape]), asked, snapshot, row)
                for at in range(0, len(hits), batch_size):
                    yield hits[at : at + batch_size]

        return batches()

    def locate(self, positions: Places, *, crs: str | None = None, threads: int = 1) -> NDArray[Any]:
        self._server.check(_not_empty)
        return self._ask(LOCATE, positions, {}, crs=crs, threads=threads)

    def _ask(
        self,
        kind: Kind[A],
        positions: Places,
        given: Mapping[str, Any],
        where: str | None = None,
        having: str | None = None,
        columns: Sequence[str] = (),
        crs: str | None = None,
        threads: int = 1,
    ) -> A:
        values = kind.with_defaults(given, where, having, columns)
        whole_number("threads", threads, 1)
        places = self._server.places(positions, crs)
        radius, asked = parameters_of(kind, values, len(places))
        asked |= self._asked(where, having, columns)
        route, few = f"/{kind.name}", values.get("k", HOT + 1) <= HOT
        found: Any  # of the kind's type, as its `tells` says
        if kind.tells != Tells.HITS:
            found = self._server.column(route, kind.tells, self._server.places_to_send(places, radius), asked)[0]
        elif (
            kind.gathered and few and len(places) == 1 and where is None and having is None and not columns
            and not self.space.to_lonlat
        ):  # fmt: skip
            asked = self._server.at(places[0]) | asked | {"ids": "string" if self.string_ids else None}
            found = hits_of_document(self._server.ask("GET", route, asked, accept=JSON), self.string_ids, self.space)
        else:
            most = max(HITS_AT_A_TIME // values["k"], 1) if "k" in values else PLACES_AT_A_TIME
            found = self._server.hits(route, self._server.places_to_send(places, radius, most), asked)
        return found

    def _find_in(
        self,
        kind: Kind[Any],
        shapes: Any,
        edges: str | None,
        where: str | None,
        having: str | None,
        columns: Sequence[str],
        threads: int,
    ) -> Hits:
        sent = self._shapes(kind, shapes, edges, threads)
        asked = self._asked(where, having, columns)
        if sent.count == 0 and kind is IN_POLYGONS:  # the columns have their types all the same
            return self._server.hits("/knn", self._server.places_to_send(NOWHERE), asked)
        return self._server.hits(f"/{kind.name}", sent, asked)

    def _count_in(
        self, kind: Kind[Any], shapes: Any, edges: str | None, where: str | None, threads: int
    ) -> NDArray[np.int64]:
        sent = self._shapes(kind, shapes, edges, threads)
        if sent.count == 0 and kind is IN_POLYGONS:
            return self._server.counts(NOWHERE, np.zeros(0), where)[0]
        return self._server.column(f"/{kind.name}", "count", sent, {"where": where, "count": 1})[0]

    # -- what is a single object's place? ------------------------------------------------------------------------------

    def __getitem__(self, object_id: Any) -> dict[str, Any]:
        (found,) = table_of(self._object(object_id, {"neighbours": 0})).to_pylist()
        return {**found, "id": object_id}

    __iter__ = None  # an index in process has all ids at hand; a server gives no list of them

    def __contains__(self, object_id: Any) -> bool:
        try:
            self._object(object_id, {"neighbours": 0})
        except KeyError:
            return False
        return True

    def cell(self, object_id: Any) -> NDArray[np.float64]:
        rings = self._cell(object_id)["cell"]["coordinates"]
        corners = rings[0][:-1] if rings else []
        return np.array(corners, np.float64).reshape(len(corners), 2)

    def neighbours(self, object_id: Any) -> NDArray[Any]:
        found = self._object(object_id, {}, JSON).document().get("neighbours")
        if found is None:
            raise DtossError("the token may see some objects only, and neighbours are among all: ask for the nearest")
        return np.array(found, object if self.string_ids else np.int64)

    def area(self, object_id: Any) -> float:
        return float(self._cell(object_id)["area"])

    # -- what is told? ------------------------------------------------------------------------------------------------

    def put(
        self, frame: Any, *, patience: float = 60.0, source: str = "", offsets: Mapping[int, int] | None = None
    ) -> Put:
        """Return what became of rows of positions that the server is told, once they are on its disk.

        Parameters
        ----------
        frame
            A mapping of columns, a DataFrame of pandas or polars, a GeoDataFrame of points, or an Arrow table, with the
            columns that the store was built of. A row is the whole object. One with true in a column ``deleted``
            deletes its object, and needs an id and a time.
        patience
            Seconds for which rows are sent again where the server is away or busy.
        source, offsets
            Where the source of the rows goes on behind them, as of :meth:`put_offsets`: in the same sync as the last
            of them, also where all of these are bad.

        Returns
        -------
        Put
            How many rows were ``taken``, the sequence number ``seq`` of the last of them, how many were ``late`` or
            ``unchanged``, how many are ``bad``, and of the first of those which they are and why, ``refused``: pairs of
            the row, from 0 on, and the reason.

        Raises
        ------
        ValueError
            If it is no frame, is in another CRS, holds no row, or the server takes no such columns.
        DtossError
            If the server cannot be asked for longer, takes no rows, or does not let the token tell positions; rows
            that came before may have been taken. Twice does no harm: put all of them again.

        Notes
        -----
        Sent in pieces of 50,000 rows. Of an id the row with the latest time counts, whatever was put first. Answers
        hold the rows within about a second; :meth:`at_least` waits for them.
        """
        server = self._server
        upto = read_upto(source, ReadUpto(source, dict(offsets)).text()) if offsets else None
        return put_table(server, table_of_rows(frame, self.space, server.names()), patience, upto)

    def put_offsets(
        self, source: str, offsets: Mapping[int, int] | None = None, *, patience: float = 60.0
    ) -> dict[int, int]:
        """Return where a source of rows goes on by the log of the server: by the number of a part, the next offset.

        Parameters
        ----------
        source
            A name that no other source has.
        offsets
            Behind rows that were :meth:`put`: of some parts, what is to be read next; None only asks.
        patience
            As of :meth:`put`.

        Raises
        ------
        InputError
            If the name is empty or longer than 400 characters, or a part is above 9,999.
        DtossError
            As of :meth:`put`.

        Notes
        -----
        Of a part counts what was put last. Offsets that are put behind their rows, and from which a source begins
        again, lose no row: of a log that was restored from a copy either.
        """
        upto = read_upto(source, ReadUpto(source, dict(offsets or {})).text())
        return put_offsets(self._server, upto, patience).offsets

    def at_least(self, seq: int | None) -> RemoteIndex:
        """Return an index of the same server whose answers hold all rows that were put up to a sequence number.

        Parameters
        ----------
        seq
            Of :meth:`put`; None for any. A question waits until the server has the row: some seconds at most.

        Raises
        ------
        ValueError
            If it is no whole number, or a snapshot is pinned.
        """
        return RemoteIndex(*self._made_from[:-1], seq)

    # -- what happens in its watch? -----------------------------------------------------------------------------------

    def events(
        self,
        after: str | int | None = None,
        subscription: str | Sequence[str] | None = None,
        kinds: Sequence[str] | None = None,
        patience: float = 60.0,
    ) -> Followed:
        """Return the events of the watch that the server tells of, to be iterated: in their order, each once.

        Parameters
        ----------
        after
            The id of the last event that is known, or the number of a batch; ``beginning`` for all that are left; None
            for what is committed from now on. Keep the ``id`` of the last event, and you can go on with it at any time.
        subscription
            The id of the only one, or some ids; all when None.
        kinds
            Of "dwell", "cross", "leave", "enter", "inside" and "reset"; all when None.
        patience
            Seconds for which the server may be away: it is connected to again until then.

        Raises
        ------
        ValueError
            If the patience is none. While it is iterated: if a cursor or a kind is none.
        StoreError
            While it is iterated: if events behind the cursor were removed.
        DtossError
            While it is iterated: if the server is away for longer, does not know the token, or tells of no watch.

        Notes
        -----
        It ends when its ``close()`` is called, from any thread, and not by itself. An event is a dict, as a line of
        ``dtoss events`` has it. A connection that breaks is made again from the last id, so none is lost or doubled.
        """
        names = [subscription] if isinstance(subscription, str) else list(subscription or ())
        wanted = {"subscription": names, "kind": list(kinds or ())}
        return Followed(self._server.connections, wanted, None if after is None else str(after), patience)

    # -- how ----------------------------------------------------------------------------------------------------------

    def save(self, store: Any, **options: Any) -> NoReturn:
        """Refuse to save, by an InputError: an index is saved where its files are, by :meth:`dtoss.Index.save`."""
        raise InputError(f"the index is at {self.url}, and its files are there: dtoss.open(...).save(...) copies them")

    def _asked(self, where: str | None, having: str | None, columns: Sequence[str]) -> dict[str, Any]:
        """Return parameters that several routes share, once the columns are known to be carried."""
        self._server.check(
            lambda facts: column_names(columns, [*facts.columns, *position_names(facts.space.geographic)])
        )
        return {"where": where, "having": having, "columns": ",".join(columns) or None}

    def _object(self, object_id: Any, parameters: dict[str, Any], accept: str = ARROW_MEDIA) -> Answer:
        strings = self.string_ids
        text = id_text(object_id, strings)
        if text is not None:
            told = {**parameters, "ids": "string"} if strings and accept == JSON else parameters
            try:
                return self._server.ask("GET", f"/objects/{quote(text, safe='')}", told, accept=accept)
            except Missing:
                pass
        raise KeyError(f"no object has the id {object_id!r}")

    def _cell(self, object_id: Any) -> dict[str, Any]:
        return self._object(object_id, {"neighbours": 0, "cell": 1}, JSON).document()

    def _shapes(self, kind: Kind[Any], shapes: Any, edges: str | None, threads: int) -> Sent:
        """Return boxes or polygons as they are sent."""
        if kind is IN_POLYGONS:
            return sent_polygons(self._polygons(shapes, edges, threads))
        from dtoss.queries.covered import as_boxes

        boxes = self._server.check(lambda facts: as_boxes(shapes, facts.space))
        whole_number("threads", threads, 1)
        return sent_boxes(boxes)

    def _polygons(self, polygons: Any, edges: str | None, threads: int) -> list[bytes]:
        """Return each polygon as GeoJSON, which a server reads."""
        from dtoss.frames.polygon_frames import shapes_asked

        shapes: list[bytes] = self._server.check(
            lambda facts: [geojson(rings, kind) for rings, kind in shapes_asked(polygons, facts.space, edges)]
        )
        whole_number("threads", threads, 1)
        return shapes


def _not_empty(facts: Facts) -> None:
    if facts.objects == 0:
        raise ValueError("the index is empty: no object owns a place")
