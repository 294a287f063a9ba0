"""What an index of objects is asked, by an index in this process and by that of a server: a method for each kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from dtoss.arguments import by_distance
from dtoss.kinds.all_kinds import kind_of
from dtoss.kinds.kind import A, About, Kind
from dtoss.kinds.nearest_to import REVERSE_NEAREST
from dtoss.kinds.searches import COUNT, KNN, RANGE
from dtoss.kinds.shapes import IN_BOXES, IN_POLYGONS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from dtoss.frames.arrow_tables import Places
    from dtoss.hits import Hits


class SpatialIndex(Protocol):
    """An index of objects: :class:`dtoss.Index` and :class:`dtoss.RemoteIndex` are two, with the same answers.

    What a method takes and raises is said here, once.
    """

    # -- how it answers -----------------------------------------------------------------------------------------------

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
        """Return the answer to a question about places."""

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
        """Return the objects in boxes, or in polygons."""

    def _count_in(
        self, kind: Kind[Any], shapes: Any, edges: str | None, where: str | None, threads: int
    ) -> NDArray[np.int64]:
        """Return how many objects lie in each box, or in each polygon."""

    def __len__(self) -> int:
        """Return how many objects there are."""

    # -- who is near? -------------------------------------------------------------------------------------------------

    def knn(
        self,
        positions: Places,
        k: int = 1,
        *,
        max_distance: float | None = None,
        where: str | None = None,
        having: str | None = None,
        columns: Sequence[str] = (),
        crs: str | None = None,
        threads: int = 1,
    ) -> Hits:
        """Return the k nearest objects of each position, ordered by (query, distance, id).

        Parameters
        ----------
        positions
            (2,) or (m, 2): lon, lat in degrees or x, y in CRS units. Or a frame, a GeoSeries, shapely or GeoArrow
            points, in the CRS of the index (:func:`dtoss.frames.coordinates.places_of`); ``query`` is the row's
            number.
        k
            At least 1; where fewer objects are known (or within ``max_distance``), all of them.
        max_distance
            Metres on the sphere, CRS units in the plane; objects at exactly this distance belong to the answer.
        where
            A condition on the objects, such as ``"occupied = 0 and kind in ('taxi')"``: the k nearest of those that
            satisfy it. :func:`dtoss.conditions.parse.parse_condition` says what it may hold; ``id`` is a column too.
        having
            A condition on the hits: those of the k nearest that satisfy it.
        columns
            Attributes to return with the hits; ``lon`` and ``lat``, or ``x`` and ``y`` in a plane, are the objects' own
            positions.
        crs
            Of the positions, to be sure that it is the index's own.
        threads
            A batch is split among so many; the answer is the same.

        Raises
        ------
        ValueError
            If k is not a whole number of at least 1, a position is not legal, ``max_distance`` is negative or NaN, a
            column is unknown, a condition cannot be read or does not fit the columns, or the CRS is another one.

        Notes
        -----
        Ties are resolved by id, strings by code point. Cost O(k) a query, once it is found where it starts. A condition
        is evaluated once for all objects, and kept for the next queries (:mod:`dtoss.conditions.matching_objects`).
        """
        given = {"k": k, "max_distance": max_distance}
        return self._ask(KNN, positions, given, where, having, columns, crs, threads)

    def range(
        self,
        positions: Places,
        radius: ArrayLike,
        *,
        where: str | None = None,
        having: str | None = None,
        columns: Sequence[str] = (),
        crs: str | None = None,
        threads: int = 1,
        order: str = "distance",
    ) -> Hits:
        """Return all objects within a radius of each position, ordered by (query, distance, id), or by query alone.

        Parameters
        ----------
        positions
            As in :meth:`knn`.
        radius
            One, or one a position: metres on the sphere, CRS units in the plane. The disc is closed: an object at
            exactly this distance belongs to the answer.
        where, having, columns, crs, threads
            As in :meth:`knn`; the two conditions mean the same here.
        order
            ``"distance"``, or ``"none"``: the hits of a query in any order, the same on every run, in half the time
            where they are hundreds. Distances are given all the same.

        Raises
        ------
        ValueError
            If a radius is negative or NaN, a position is not legal, a column is unknown, a condition cannot be read,
            the CRS is another one, or the order is neither.

        Notes
        -----
        Cost O(hits) a query, once it is found where it starts.
        """
        by_distance(order)
        return self._ask(RANGE, positions, {"radius": radius}, where, having, columns, crs, threads)

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
        """Return an iterator over the hits of :meth:`range`, in the same order, ``batch_size`` at a time or fewer.

        Parameters
        ----------
        positions, radius
            As in :meth:`range`.
        batch_size
            Hits in a batch, at the most. A query with more goes on in the next batch.
        where, having, columns, crs, threads
            As in :meth:`range`.

        Raises
        ------
        ValueError
            At once: as :meth:`range`, or if ``batch_size`` is not a whole number of at least 1.

        Notes
        -----
        Hits are counted first: up to half as long again as :meth:`range`. It holds one batch, or the hits of one query.
        """

    def count(
        self,
        positions: Places,
        radius: ArrayLike,
        *,
        where: str | None = None,
        crs: str | None = None,
        threads: int = 1,
    ) -> NDArray[np.int64]:
        """Return how many objects lie within a radius of each position, int64 (m,): :meth:`range` without a list."""
        return self._ask(COUNT, positions, {"radius": radius}, where, crs=crs, threads=threads)

    def box(
        self,
        boxes: ArrayLike,
        *,
        where: str | None = None,
        having: str | None = None,
        columns: Sequence[str] = (),
        threads: int = 1,
    ) -> Hits:
        """Return all objects in boxes, ordered by (query, id); ``query`` is the row of the box, distances are 0.

        Parameters
        ----------
        boxes
            (4,) or (m, 4): west, south, east, north in degrees or xmin, ymin, xmax, ymax in CRS units, closed. A west
            greater than the east crosses the antimeridian.
        where, having, columns, threads
            As in :meth:`knn`.

        Raises
        ------
        ValueError
            If a box is not legal, a column is unknown, or a condition cannot be read.

        Notes
        -----
        Sides of a box on the sphere are meridians and parallels, and positions are compared as they were read. Cost
        O(r) for r objects in the discs that cover the box.
        """
        return self._find_in(IN_BOXES, boxes, None, where, having, columns, threads)

    def within(
        self,
        polygons: Any,
        *,
        where: str | None = None,
        having: str | None = None,
        columns: Sequence[str] = (),
        edges: str | None = None,
        threads: int = 1,
    ) -> Hits:
        """Return all objects within polygons or on their edges, ordered by (query, id); distances are 0.

        Parameters
        ----------
        polygons
            One, or a list of them; each an array (v, 2) of corners, or a GeoJSON Polygon, MultiPolygon or Feature
            (:func:`dtoss.geometry.polygons.as_polygons`). ``query`` is the place in the list. A GeoDataFrame, a
            GeoSeries, shapely's polygons or a table with WKB (:func:`dtoss.frames.polygon_frames.zones_of`): ``query``
            is the row, in the order of the frame; a row without a geometry has no hits.
        where, having, columns
            As in :meth:`knn`.
        edges
            On the sphere: "planar" edges are straight in longitude and latitude, and none crosses the antimeridian;
            "spherical" ones are great-circle arcs. None is what the polygons mean: GeoJSON, shapely, WKB and frames
            are planar (RFC 7946) unless they say something else, arrays of corners are spherical.
        threads
            As in :meth:`knn`.

        Raises
        ------
        ValueError
            If a polygon is not legal, one of arcs does not fit in a hemisphere, a frame has another CRS, a column is
            unknown, a condition cannot be read, or ``edges`` is neither.

        Warns
        -----
        UserWarning
            Where an edge spans more than 180 degrees of longitude, and ``edges`` does not say which way it goes.

        Notes
        -----
        A place is inside where it is inside of an odd number of rings, or on an edge. Straight edges, corners, arcs on
        meridians and on the equator are decided by the numbers that were written, other arcs by the nearest vectors of
        their ends, each exactly. Parts of one MultiPolygon are together: an object is once in it. Cost as
        :func:`dtoss.queries.polygon_queries.count_in_zones`.
        """
        return self._find_in(IN_POLYGONS, polygons, edges, where, having, columns, threads)

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
        """Return an iterator over the hits of :meth:`within`, in the same order, ``batch_size`` at a time or fewer.

        Parameters
        ----------
        polygons
            As in :meth:`within`.
        batch_size
            Hits in a batch, at the most. A polygon with more goes on in the next batch.
        where, having, columns, edges, threads
            As in :meth:`within`.

        Raises
        ------
        ValueError
            At once: as :meth:`within`, or if ``batch_size`` is not a whole number of at least 1.

        Notes
        -----
        Hits are counted first: up to a fifth as long again as :meth:`within`. It holds one batch, or the hits of one
        polygon.
        """

    def count_box(self, boxes: ArrayLike, *, where: str | None = None, threads: int = 1) -> NDArray[np.int64]:
        """Return how many objects lie in each box, int64 (m,): :meth:`box` without a list."""
        return self._count_in(IN_BOXES, boxes, None, where, threads)

    def count_within(
        self, polygons: Any, *, where: str | None = None, edges: str | None = None, threads: int = 1
    ) -> NDArray[np.int64]:
        """Return how many objects lie within each polygon, int64 (m,): :meth:`within` without a list."""
        return self._count_in(IN_POLYGONS, polygons, edges, where, threads)

    def locate(self, positions: Places, *, crs: str | None = None, threads: int = 1) -> NDArray[Any]:
        """Return the id of the object whose cell holds each position, (m,): the nearest one, ties to the lowest id.

        Raises
        ------
        ValueError
            If the index is empty, a position is not legal, or the CRS is another one.
        """

    def reverse_nearest(self, positions: Places, *, crs: str | None = None) -> Hits:
        """Return the objects nearer to each position than to any other object, ordered by (query, distance, id).

        These are the objects that a new one at the position would become the nearest neighbour of. At most six for each
        position, fewer where objects share a place: each of those is nearest to the other.

        Raises
        ------
        ValueError
            If a position is not legal, or the CRS is another one.
        """
        return self._ask(REVERSE_NEAREST, positions, {}, crs=crs)

    def ask(
        self,
        kind: str,
        positions: Any,
        *,
        where: str | None = None,
        having: str | None = None,
        columns: Sequence[str] = (),
        crs: str | None = None,
        threads: int = 1,
        **parameters: Any,
    ) -> Hits | NDArray[Any]:
        """Return the answer to a question of any kind, by its name: hits, or a value for each position.

        Parameters
        ----------
        kind
            Such as ``"reverse_nearest"``: those of :data:`dtoss.kinds.all_kinds.ALL_KINDS`, which say what they take.
        positions, where, having, columns, crs, threads
            As in :meth:`knn`; boxes or polygons of a kind that is about those, as in :meth:`box` and :meth:`within`.
        **parameters
            What the kind takes beside, such as ``k``, or ``edges`` of polygons; what is left out is as a server has it.

        Raises
        ------
        ValueError
            If there is no such kind, it cannot be asked with a condition or with columns, or as :meth:`knn`.
        TypeError
            If the kind takes no such parameter.

        Examples
        --------
        >>> import dtoss
        >>> index = dtoss.build({"id": [7, 8], "lon": [0.0, 1.0], "lat": [0.0, 0.0]})
        >>> index.ask("count", [[0.1, 0.0], [5.0, 5.0]], radius=20_000.0).tolist()
        [1, 0]
        """
        named = kind_of(kind)
        if named.about == About.PLACES:
            return self._ask(named, positions, parameters, where, having, columns, crs, threads)
        given = named.with_defaults(parameters, where, having, columns)
        if crs is not None:
            raise ValueError(f"{named.name} takes no crs: leave it out")
        return self._find_in(named, positions, given.get("edges"), where, having, columns, threads)

    def __getitem__(self, object_id: Any) -> dict[str, Any]:
        """Return an object as a dictionary: id, its position under lon and lat or x and y, and its attributes."""

    def cell(self, object_id: Any) -> NDArray[np.float64]:
        """Return the Voronoi cell of an object's place among all objects, float64 (v, 2), counter-clockwise.

        Edges are great-circle arcs on the sphere, segments in the plane, where the cell is clipped to the bounds.
        Where there is one site only, it owns the whole sphere and the cell has no vertices.

        Raises
        ------
        KeyError
            If there is no object of this id.
        """

    def neighbours(self, object_id: Any) -> NDArray[Any]:
        """Return the lowest id on each place whose cell shares an edge with the object's, counter-clockwise.

        Edges no longer than 1e-9 of the radius of the Earth (6 mm), or of the diagonal of the bounds, do not count.

        Raises
        ------
        KeyError
            If there is no object of this id.
        """

    def area(self, object_id: Any) -> float:
        """Return the area of an object's cell: square metres on the sphere, square CRS units in the plane.

        Raises
        ------
        KeyError
            If there is no object of this id.
        """
