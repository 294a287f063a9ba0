"""The index: an immutable snapshot, open for questions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dtoss.arguments import by_distance, column_names, distances, whole_number
from dtoss.hits import Hits
from dtoss.kinds.kind import A, Kind
from dtoss.kinds.shapes import IN_BOXES
from dtoss.kinds.spatial_index import SpatialIndex
from dtoss.names import position_names

if TYPE_CHECKING:
    import geopandas
    import pyarrow as pa
    from matplotlib.axes import Axes

    from dtoss.building.border import BorderTable
    from dtoss.conditions.matching_objects import Filters
    from dtoss.frames.arrow_tables import Frame, Places
    from dtoss.geometry.space import Space
    from dtoss.partition import Partition
    from dtoss.partitioning.regions import Regions
    from dtoss.queries.find_by_id import Place
    from dtoss.queries.open_partitions import OpenPartitions
    from dtoss.queries.raw_hits import RawHits
    from dtoss.save_index import BuildRecord, SnapshotRecord
    from dtoss.snapshots.store import Store


class Index(SpatialIndex):
    """An immutable index of objects; thread-safe, and read by any number of processes at once.

    Made by :func:`dtoss.open` from a store or by :func:`dtoss.build` in process. One that was opened is pickled by the
    path of its store while its snapshot is there, and whole once that is gone; loading one whose snapshot has gone
    since is a :class:`~dtoss.StoreError`.
    """

    def __init__(
        self,
        space: Space,
        regions: Regions,
        reach: NDArray[np.float64],
        parts: OpenPartitions,
        *,
        bounds: NDArray[np.float64] | None = None,
        snapshot: str | None = None,
        string_ids: bool = False,
        border: BorderTable | Callable[[], BorderTable] | None = None,
        origin: Callable[[], tuple[Callable[..., Index], tuple[Any, ...]] | None] | None = None,
        most: int | None = None,
        record: BuildRecord | SnapshotRecord | None = None,
    ) -> None:
        from dtoss.engine import Engine  # which loads numba: the class alone is here without

        self.engine = Engine(space, regions, reach, parts, bounds, string_ids, border, most)
        self._one = self.engine.one
        self.space = space
        self.partitioning = regions
        self.reach = self.engine.reach
        self.parts = parts
        self.snapshot = snapshot
        self.string_ids = string_ids
        self._bounds = bounds
        self._origin = origin
        self._record = record

    def __reduce__(self) -> tuple[Any, ...]:
        if self._origin is not None and (opening := self._origin()):
            return opening
        return self._of(self.parts, self._bounds, self.border, self._record, self.snapshot), ()

    def __len__(self) -> int:
        return sum(facts.objects for facts in self.parts.facts)

    def __repr__(self) -> str:
        name = f", snapshot {self.snapshot}" if self.snapshot else ""
        return f"<dtoss.Index of {len(self):,} objects in {len(self.parts)} partitions, {self.crs}{name}>"

    def _repr_html_(self) -> str:
        from dtoss.html_table import index_html

        return index_html(self)

    @property
    def crs(self) -> str:
        """The CRS of positions, as it was named when the snapshot was made."""
        return self.space.crs

    @property
    def bounds(self) -> tuple[float, float, float, float] | None:
        """The rectangle that planar cells are clipped to: xmin, ymin, xmax, ymax; None on the sphere."""
        if self._bounds is None:
            return None
        xmin, ymin, xmax, ymax = self._bounds.tolist()
        return xmin, ymin, xmax, ymax

    @property
    def sites(self) -> int:
        """Distinct places of the objects."""
        return sum(facts.sites for facts in self.parts.facts)

    @property
    def column_names(self) -> list[str]:
        """Names of the attributes that the objects carry."""
        return list(self.parts[0].attributes)

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
        if where is None and having is None and crs is None and _plain(columns, threads):
            hits = self._one.nearest(positions, k, max_distance)
            if hits is not None:
                return hits
        k, threads = whole_number("k", k, 1), whole_number("threads", threads, 1)
        places = self.engine.places(positions, crs)
        radius = None if max_distance is None else distances("max_distance", max_distance, len(places))
        return self.engine.find(places, radius, k, where, having, columns, threads)

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
        ordered = by_distance(order)
        if where is None and having is None and crs is None and _plain(columns, threads):
            hits = self._one.within(positions, radius, ordered)
            if hits is not None:
                return hits
        threads = whole_number("threads", threads, 1)
        places = self.engine.places(positions, crs)
        radii = distances("radius", radius, len(places))
        return self.engine.find(places, radii, 0, where, having, columns, threads, ordered)

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
        threads = whole_number("threads", threads, 1)
        queries = self.engine.vectors(positions, crs, threads)
        radii = distances("radius", radius, len(queries))
        places = bool(columns) or having is not None

        def answered(rows: slice, k: int) -> RawHits:
            return self.engine.answer(queries[rows], radii[rows], k, where, threads, places=places)

        return self.engine.batches(
            len(queries),
            batch_size,
            lambda rows: answered(rows, -1).count,
            lambda rows: answered(rows, 0),
            where,
            having,
            columns,
        )

    def count(
        self,
        positions: Places,
        radius: ArrayLike,
        *,
        where: str | None = None,
        crs: str | None = None,
        threads: int = 1,
    ) -> NDArray[np.int64]:
        if where is None and crs is None and _plain((), threads):
            count = self._one.count(positions, radius)
            if count is not None:
                return count
        threads = whole_number("threads", threads, 1)
        places = self.engine.places(positions, crs)
        return self.engine.count(places, distances("radius", radius, len(places)), where, threads)

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
        threads = whole_number("threads", threads, 1)
        asked = self.engine.polygons(polygons, edges)
        return self.engine.batches(
            len(asked),
            batch_size,
            lambda rows: self.engine.count_polygons(asked[rows], where, threads),
            lambda rows: self.engine.within_polygons(asked[rows], where, threads),
            where,
            having,
            columns,
        )

    def locate(self, positions: Places, *, crs: str | None = None, threads: int = 1) -> NDArray[Any]:
        if len(self) == 0:
            raise ValueError("the index is empty: no object owns a place")
        return self.knn(positions, 1, crs=crs, threads=threads).id

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
        from dtoss.kinds.alone import Alone

        values = kind.with_defaults(given, where, having, columns)
        threads = whole_number("threads", threads, 1)
        places = self.engine.places(positions, crs)
        return Alone(self.engine, threads).answer(kind.question(places, values, where, having, columns))

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
        engine = self.engine
        if kind is IN_BOXES:
            found = engine.within(engine.boxes(shapes), where, whole_number("threads", threads, 1))
        else:
            threads = whole_number("threads", threads, 1)
            found = engine.within_polygons(engine.polygons(shapes, edges), where, threads)
        return engine.hits(found, columns, having)

    def _count_in(
        self, kind: Kind[Any], shapes: Any, edges: str | None, where: str | None, threads: int
    ) -> NDArray[np.int64]:
        engine = self.engine
        if kind is IN_BOXES:
            return engine.within(engine.boxes(shapes), where, whole_number("threads", threads, 1)).count
        threads = whole_number("threads", threads, 1)
        return engine.count_polygons(engine.polygons(shapes, edges), where, threads)

    # -- what is a single object's place? ------------------------------------------------------------------------------

    def __getitem__(self, object_id: Any) -> dict[str, Any]:
        place = self.place_of(object_id)
        partition = place.partition
        x, y = partition.positions[place.item].tolist()
        names = position_names(self.space.geographic)
        found = {"id": object_id, names[0]: x, names[1]: y}
        return found | {name: column[place.item].as_py() for name, column in partition.attributes.items()}

    def __iter__(self) -> Iterator[Any]:
        """Yield the ids of all objects in ascending order, strings by code point. Cost O(n log n)."""
        owned = [partition.ids[: partition.owned_objects] for partition in self.parts.all()]
        if self.string_ids:
            yield from sorted(chain.from_iterable(ids.tolist() for ids in owned))
            return
        ids = np.sort(np.concatenate(owned))
        for begin in range(0, len(ids), 100_000):
            yield from ids[begin : begin + 100_000].tolist()

    def __contains__(self, object_id: Any) -> bool:
        return self.engine.whereabouts.lookup.find(object_id) is not None

    def cell(self, object_id: Any) -> NDArray[np.float64]:
        return self.space.positions(self._outline(object_id)[0])

    def neighbours(self, object_id: Any) -> NDArray[Any]:
        from dtoss.queries.cell_of import cell_at

        return cell_at(self.engine.view, self.place_of(object_id)).neighbours

    def area(self, object_id: Any) -> float:
        return self._outline(object_id)[1]

    def cells(self, ids: Iterable[Any] | None = None, *, clip: Any = None) -> geopandas.GeoDataFrame:
        """Return Voronoi cells as a GeoDataFrame of valid polygons: id, objects, area, neighbours, partition, geometry.

        Parameters
        ----------
        ids
            Whose cells, a row each in their order; None is a row for each place, with the lowest id on it.
        clip
            What the cells are cut by: a shapely polygon or a box of four numbers in the coordinates of the cells, or a
            GeoDataFrame. Only cells that reach into it are there; ``area`` and ``neighbours`` are those of whole ones.

        Raises
        ------
        KeyError
            If there is no object of an id.
        ValueError
            If ``clip`` is none of these, or holds no polygon.
        InputError
            If GeoPandas is not installed.

        Notes
        -----
        Edges on the sphere are drawn straight in lon, lat, within 1 metre of the great circles that they are: cells are
        cut at the antimeridian and closed along the poles (:mod:`dtoss.export.planar`). ``area`` is that of the true
        cell, in square metres or square CRS units. A cell within 0.1 mm has no geometry. Cost O(cells).
        """
        from dtoss.export.export_layers import cells_frame

        return cells_frame(self.engine.view, self.string_ids, ids, clip, self.place_of)

    def regions(self, *, clip: Any = None) -> geopandas.GeoDataFrame:
        """Return what the partitions own as a GeoDataFrame: partition, objects, sites, area, neighbours, geometry.

        Parameters
        ----------
        clip
            As in :meth:`cells`.

        Raises
        ------
        ValueError
            As in :meth:`cells`.
        InputError
            If GeoPandas is not installed.

        Notes
        -----
        Drawn as cells are. An empty region has no geometry. Cost O(P^2) of P partitions.
        """
        from dtoss.export.export_layers import regions_frame

        return regions_frame(self.partitioning, self._bounds, self.parts, self.space, clip)

    def objects(
        self, where: str | None = None, columns: Sequence[str] | None = None, *, clip: Any = None
    ) -> geopandas.GeoDataFrame:
        """Return objects as a GeoDataFrame of points in the CRS of the index: id, partition, attributes, geometry.

        Parameters
        ----------
        where
            A condition on the objects, as in :meth:`knn`; None is all of them.
        columns
            Attributes; None is all.
        clip
            As in :meth:`cells`: objects within it or on its edges.

        Raises
        ------
        ValueError
            If a column is unknown, the condition cannot be read, or as in :meth:`cells`.
        InputError
            If GeoPandas is not installed.

        Notes
        -----
        Partition by partition, along the curve. Cost O(n).
        """
        from dtoss.export.export_layers import objects_frame

        if columns is not None:
            column_names(columns, [*self.column_names, *position_names(self.space.geographic)])
        rows_of = None if where is None else self.filters.get(where).rows
        return objects_frame(self.parts, self.space, self.string_ids, rows_of, columns, clip)

    def plot(
        self,
        what: str = "objects",
        *,
        bounds: ArrayLike | None = None,
        ax: Any = None,
        limit: int | None = None,
        **style: Any,
    ) -> Axes:
        """Draw objects, cells or regions and return matplotlib's Axes; the title says how many are drawn.

        Parameters
        ----------
        what
            "objects": of more than ``limit`` each n-th along the curve. "cells": those that reach into the view.
            "regions": those of the partitions.
        bounds
            The view: west, south, east, north in degrees on the sphere (a west greater than the east crosses the
            antimeridian), xmin, ymin, xmax, ymax in CRS units in the plane. None is what ``ax`` shows already, else
            where the objects are.
        ax
            Matplotlib's Axes to draw on; a new figure's when None.
        limit
            20,000 objects and 10,000 cells when None.
        **style
            For the scatter of objects or the collection of cells or regions, such as ``color="black"``.

        Raises
        ------
        ValueError
            If ``what`` is none of these, the bounds are not legal, or more cells than ``limit`` reach into the view.
        InputError
            If matplotlib is not installed.
        """
        from dtoss.export.plot import draw

        return draw(self, what, bounds, ax, limit, style)

    # -- what moved ---------------------------------------------------------------------------------------------------

    def with_updates(
        self, frame: Frame, *, time: str | None = None, deleted: str | None = None, threads: int = 1
    ) -> Index:
        """Return an index in which the rows of a frame stand too; this one stays as it is.

        Partitions that a row leaves, enters or lies near are built anew, and all others shared, so it is exact as
        :func:`dtoss.build` is, without a store: :func:`dtoss.update` is the same with one.

        Parameters
        ----------
        frame
            As :func:`dtoss.build` takes it, in the index's CRS, with the columns that its objects carry. A row is the
            whole object. Other columns are not looked at.
        time
            The column that says when a row is, which the objects carry too: of all rows of an id the latest counts, and
            at equal times that with the greatest coordinates and attributes. None is the times of a snapshot, or else a
            column ``t``; where there is none, a row replaces what stands, and ids are distinct.
        deleted
            The column, of booleans, that says of a row whether it takes its object away; it needs no position then, and
            wins at equal times. It is not remembered: an older row that comes later brings the object back.
        threads
            How many build partitions side by side.

        Raises
        ------
        TypeError
            If ``frame`` is no frame.
        ValueError
            If a column is missing or of another type, ids are of the other kind or stand more than once where there are
            no times, a position is not legal, or lies outside bounds that were given; or the index is a server's share
            of the partitions.

        Notes
        -----
        Dissertation, section 3.4.6, in memory. The partitions stay those that were chosen when the index was built:
        build anew once they are uneven. Cost O(u log n) for u rows, and O(n) in the objects of the partitions that they
        touch.

        Examples
        --------
        >>> import dtoss
        >>> index = dtoss.build({"id": [7, 8], "lon": [0.0, 1.0], "lat": [0.0, 0.0]})
        >>> moved = index.with_updates({"id": [8, 9], "lon": [5.0, 0.8], "lat": [0.0, 0.0]})
        >>> index.knn([0.9, 0.0]).id.tolist(), moved.knn([0.9, 0.0], 3).id.tolist()
        ([8], [9, 7, 8])
        """
        from dtoss.merge_rows import merge_frame

        if self._record is None:
            raise ValueError("the index holds some of the partitions of another one: merge rows with that one")
        merged: Index = merge_frame(self, frame, time, deleted, whole_number("threads", threads, 1))
        return merged

    def _of(
        self,
        parts: OpenPartitions,
        bounds: NDArray[np.float64] | None,
        border: BorderTable | Callable[[], BorderTable] | None,
        record: BuildRecord | SnapshotRecord | None,
        snapshot: str | None = None,
    ) -> partial[Index]:
        """Return what makes an index of the same regions."""
        return partial(
            Index,
            self.space,
            self.partitioning,
            self.reach,
            parts,
            bounds=bounds,
            snapshot=snapshot,
            string_ids=self.string_ids,
            border=border,
            record=record,
        )

    def _with(
        self,
        partitions: Sequence[Partition],
        bounds: NDArray[np.float64] | None,
        border: Callable[[], BorderTable],
        record: BuildRecord,
    ) -> Index:
        from dtoss.queries.open_partitions import OpenPartitions, facts_of

        parts = OpenPartitions(partitions, [facts_of(partition) for partition in partitions])
        return self._of(parts, bounds, border, record)()

    # -- keeping it ---------------------------------------------------------------------------------------------------

    def save(
        self,
        store: str | PathLike[str] | Store,
        *,
        time: str | None = None,
        keep: int | None = 3,
        keep_for: float | None = None,
        lease: bool = True,
    ) -> str:
        """Make the index the current snapshot of a store, and return the snapshot's name.

        Of an index that was built in process it is the snapshot of a rebuild from the same rows, with the same files.
        Of one that was opened from a store it is a copy, of its files and what the manifest says of them.

        Parameters
        ----------
        store
            A path, a URI, or a :class:`~dtoss.snapshots.store.Store`; made where there is none.
        time
            The attribute that says of when each object is: updates can be merged with the snapshot then (``dtoss
            rebuild --updates``, ``dtoss run``). None takes ``t`` where there is one. A copy has the times that it had.
        keep
            Finished snapshots that stay in the store; all when None.
        keep_for
            Seconds: what was current less than that ago stays too. None is ten minutes on object stores, where readers
            open files late, and 0 elsewhere.
        lease
            Whether others are kept out from the start. Without it, who commits first is through, and the others fail
            when all is written.

        Raises
        ------
        InputError
            If the index is empty, is a server's share of the partitions, has a column of a type that no store can hold
            or of which an object has no time, or holds an object that is forgotten in the store.
        StoreError
            If another process writes to the store or has committed meanwhile, it cannot be written, or a file of the
            snapshot that is copied is gone or damaged.
        ValueError
            If ``store`` is no path, ``time`` no column or named for a copy, or another argument out of its bounds.

        Notes
        -----
        The store is as it was until all files are on the disk. Integers without a sign become larger ones with a sign,
        categories their values, and moments are cut to microseconds. With times, a rebuild of more than 12,000 objects
        a partition may choose another lambda. Who is forgotten in the store that a copy is from is not known in the
        other one. Cost O(n) to write and to sync.

        Examples
        --------
        >>> from tempfile import mkdtemp
        >>> import dtoss
        >>> store = mkdtemp()
        >>> name = dtoss.build({"id": [7, 8], "lon": [0.0, 1.0], "lat": [0.0, 0.0]}).save(store)
        >>> dtoss.open(store).snapshot == name, dtoss.open(store).knn([0.9, 0.0]).id.tolist()
        (True, [8])
        """
        from dtoss.save_index import save_index

        return save_index(self, self._record, store, time, keep, keep_for, lease)

    # -- how ----------------------------------------------------------------------------------------------------------

    @property
    def filters(self) -> Filters:
        """The conditions that were asked lately, evaluated."""
        return self.engine.filters

    @property
    def border(self) -> BorderTable | None:
        """The exact cells of sites near borders, read from the store when first asked for."""
        return self.engine.border

    def _outline(self, object_id: Any) -> tuple[NDArray[np.float64], float]:
        from dtoss.queries.cell_of import outline_at

        return outline_at(self.engine.view, self.place_of(object_id))

    def place_of(self, object_id: Any) -> Place:
        """Return in which partition an object is, and where in it.

        Raises
        ------
        KeyError
            If there is no object of this id.
        """
        place = self.engine.whereabouts.lookup.find(object_id)
        if place is None:
            raise KeyError(f"no object has the id {object_id!r}")
        return place

    def search(
        self,
        positions: NDArray[np.float64],
        radius: NDArray[np.float64],
        k: int,
        where: str | None = None,
        *,
        places: bool = True,
        threads: int = 1,
    ) -> RawHits:
        """Answer checked positions without making hits: as :func:`.batch_answer.answer`, for joins and servers."""
        return self.engine.answer(self.space.vectors(positions), radius, k, where, threads, places=places)

    def search_vectors(
        self, vectors: NDArray[np.float64], radius: NDArray[np.float64], k: int, where: str | None = None
    ) -> RawHits:
        """Answer as :meth:`search`, of places that are vectors already, such as the middles of discs."""
        return self.engine.answer(vectors, radius, k, where, 1)

    def ids_of(self, found: RawHits) -> pa.Array:
        """Return the ids of raw hits."""
        return self.engine.ids_of(found)

    def satisfying(self, found: RawHits, condition: str) -> NDArray[np.bool_]:
        """Return which raw hits satisfy a condition.

        Raises
        ------
        ValueError
            As :func:`dtoss.conditions.parse.parse_condition`.
        """
        return self.engine.satisfying(found, condition)


def _plain(columns: Any, threads: Any) -> bool:
    """Return whether no columns are asked for, and any number of threads: one query by itself needs one."""
    return type(columns) is tuple and not columns and type(threads) is int and threads > 0
