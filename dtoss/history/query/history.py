"""The history as users see it: questions about places, times and objects."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dtoss.arguments import column_names, distances, whole_number
from dtoss.frames.coordinates import as_places
from dtoss.geometry.space import Space
from dtoss.history.data_file import Reads
from dtoss.history.query import nearest_query, place_batches, range_query
from dtoss.history.query.block_queries import BlockQueries, Spans, discs, ends_of, spans_of, stored_kind
from dtoss.history.query.place_batches import NeighbourQuery
from dtoss.history.query.scan_blocks import QUESTIONS, FoundRows, Scan, Told, as_hits, condition_on, read_columns
from dtoss.history.schema import Schema, moment_of, seconds_before
from dtoss.history.versions import Home, Version
from dtoss.hits import Hits
from dtoss.ids import stored_ids

if TYPE_CHECKING:
    from dtoss.queries.covered import Shape

Between = Any
"""Two times, both included, either of which may be None or "-"; or as many pairs as there are questions."""


@dataclass(frozen=True, repr=False)
class History:
    """A version of a history of positions, opened for questions.

    Parameters
    ----------
    home
        Where it is.
    version
        Which one: rows that are appended later are not seen; open it again for those.
    listen
        Is told of every question that was answered.

    Notes
    -----
    Answers are :class:`dtoss.Hits` with the columns ``t`` and ``lon``, ``lat`` (``x``, ``y`` in a plane) always among
    them, in the order (query, distance, id, t). They equal brute force over all rows that were appended, wherever those
    lie. Deletions are no positions: only :meth:`at` looks at them.
    """

    home: Home
    version: Version
    listen: Callable[[Told], None] | None = None

    @property
    def schema(self) -> Schema:
        """What rows are."""
        return self.version.schema

    @property
    def space(self) -> Space:
        """What positions and distances mean."""
        return self.version.schema.space

    def __len__(self) -> int:
        return self.version.rows

    def __repr__(self) -> str:
        number = self.version.number
        return f"<dtoss.History of {len(self):,} rows, {self.space.crs}, version {number} of {self.home.shown}>"

    def range(
        self,
        places: Any,
        radius: ArrayLike,
        *,
        between: Between = None,
        where: str | None = None,
        having: str | None = None,
        columns: Sequence[str] = (),
        crs: str | None = None,
    ) -> Hits:
        """Return all rows within a radius of each place, in the order (query, distance, id, t).

        Parameters
        ----------
        places
            As in :meth:`dtoss.Index.knn`.
        radius
            One, or one a place: metres on the sphere, CRS units in the plane. The disc is closed.
        between
            Two times, both included, or as many pairs as places; either may be None or "-".
        where
            A condition on the rows: on attributes, id, t, and positions.
        having
            A condition on the hits; means the same here.
        columns
            Attributes to return; t and the position are always there.
        crs
            Of the places, to be sure that it is the history's own.

        Raises
        ------
        ValueError
            If a place is not legal, a radius negative or NaN, an interval turned round, a column unknown, or a
            condition cannot be read.
        InputError
            If an end of an interval is no time.
        StoreError
            If a file is damaged, or gone because the version was cleared.
        """
        centres, spans = self._places(places, crs, between)
        radii = distances("radius", radius, len(centres))
        scan = self._scan(columns, where, having)
        asked = discs(centres, radii, spans, self.space)
        began = time.perf_counter()
        if len(centres) < place_batches.TOGETHER_FROM:
            found, facts = range_query.rows_of(scan, asked, range_query.disc_test(scan, centres, radii))
        else:
            found, facts = (
                place_batches.near_many(scan, centres, radii, spans, NeighbourQuery()),
                place_batches.facts_of_many(scan, asked),
            )
        return self._hits("range", asked, scan, facts, found, began, columns, having)

    def box(
        self,
        boxes: ArrayLike,
        *,
        between: Between = None,
        where: str | None = None,
        columns: Sequence[str] = (),
    ) -> Hits:
        """Return all rows in boxes, in the order (query, id, t); distances are 0.

        Parameters
        ----------
        boxes
            As in :meth:`dtoss.Index.box`: closed, and across the antimeridian where west is greater than east.
        between, where, columns
            As in :meth:`range`.

        Raises
        ------
        ValueError
            As :meth:`dtoss.Index.box`, or as :meth:`range`.
        InputError, StoreError
            As :meth:`range`.
        """
        return self._in_shapes("box", self._boxes(boxes), between, where, columns)

    def within(
        self,
        polygons: Any,
        *,
        between: Between = None,
        where: str | None = None,
        columns: Sequence[str] = (),
        edges: str | None = None,
    ) -> Hits:
        """Return all rows within polygons or on their edges, in the order (query, id, t); distances are 0.

        Parameters
        ----------
        polygons
            As in :meth:`dtoss.Index.within`.
        between, where, columns
            As in :meth:`range`.
        edges
            As in :meth:`dtoss.Index.within`.

        Raises
        ------
        ValueError
            As :meth:`dtoss.Index.within`, or as :meth:`range`.
        InputError, StoreError
            As :meth:`range`.
        """
        return self._in_shapes("within", self._polygons(polygons, edges), between, where, columns)

    def knn(
        self,
        places: Any,
        k: int = 1,
        *,
        per: Literal["object", "row"] = "object",
        max_distance: ArrayLike | None = None,
        between: Between = None,
        where: str | None = None,
        having: str | None = None,
        columns: Sequence[str] = (),
        crs: str | None = None,
    ) -> Hits:
        """Return the k objects that came nearest to each place, in the order (query, distance, id, t).

        Parameters
        ----------
        places
            As in :meth:`range`.
        k
            At least 1; where there are fewer, all of them.
        per
            "object" is the nearest row of each object, the earliest of several: a parked cab must not fill the answer.
            "row" is the k nearest rows.
        max_distance
            As in :meth:`dtoss.Index.knn`.
        between, where
            As in :meth:`range`.
        having
            A condition on the hits: those of the k nearest that satisfy it.
        columns, crs
            As in :meth:`range`.

        Raises
        ------
        ValueError
            If k is not a whole number of at least 1, ``per`` is neither, or as :meth:`range`.
        InputError, StoreError
            As :meth:`range`.

        Notes
        -----
        At most three rounds of reading: :mod:`dtoss.history.query.nearest_query`.
        """
        k = whole_number("k", k, 1)
        if per not in ("object", "row"):
            raise ValueError(f"per is {per!r}: object or row is wanted")
        centres, spans = self._places(places, crs, between)
        scan = self._scan(columns, where, having)
        began = time.perf_counter()
        furthest = self._furthest(max_distance, len(centres))
        if len(centres) < place_batches.TOGETHER_FROM:
            found, rounds = nearest_query.nearest_rows(scan, centres, k, furthest, spans, per)
            asked, facts = (
                discs(centres, nearest_query.reached(found, len(centres)), spans, self.space),
                nearest_query.facts_of(rounds),
            )
        else:
            found = place_batches.near_many(scan, centres, furthest, spans, NeighbourQuery(k, per == "object"))
            asked = discs(centres, nearest_query.reached(found, len(centres)), spans, self.space)
            facts = place_batches.facts_of_many(scan, asked)
        return self._hits("knn", asked, scan, facts, found, began, columns, having)

    def count(
        self,
        places: Any = None,
        radius: ArrayLike | None = None,
        *,
        between: Between = None,
        where: str | None = None,
        crs: str | None = None,
    ) -> NDArray[np.int64]:
        """Return how many rows are within a radius of each place, int64 (m,); of everywhere, (1,), without places.

        Parameters
        ----------
        places, radius, between, where, crs
            As in :meth:`range`.

        Raises
        ------
        ValueError
            If only one of places and radius is given, or as :meth:`range`.
        InputError, StoreError
            As :meth:`range`.

        Notes
        -----
        Blocks that lie within a disc and an interval as a whole are counted without being read.
        """
        if (places is None) != (radius is None):
            raise ValueError("places and radius go together: one of them is missing")
        scan = self._scan((), where)
        if places is None or radius is None:
            return self._counted("count", scan, BlockQueries(spans_of(between, self.schema, 1)), range_query.ALL)
        centres, spans = self._places(places, crs, between)
        radii = distances("radius", radius, len(centres))
        asked = discs(centres, radii, spans, self.space)
        certain = range_query.certain_chords(radii, asked, self.space)
        return self._counted("count", scan, asked, range_query.disc_test(scan, centres, radii), certain)

    def count_box(self, boxes: ArrayLike, *, between: Between = None, where: str | None = None) -> NDArray[np.int64]:
        """Return how many rows are in boxes, int64 (m,).

        Parameters
        ----------
        boxes, between, where
            As in :meth:`box`.

        Raises
        ------
        ValueError, InputError, StoreError
            As :meth:`box`.
        """
        return self._count_shapes("count_box", self._boxes(boxes), between, where)

    def count_within(
        self, polygons: Any, *, between: Between = None, where: str | None = None, edges: str | None = None
    ) -> NDArray[np.int64]:
        """Return how many rows are within polygons, int64 (m,).

        Parameters
        ----------
        polygons, between, where, edges
            As in :meth:`within`.

        Raises
        ------
        ValueError, InputError, StoreError
            As :meth:`within`.
        """
        return self._count_shapes("count_within", self._polygons(polygons, edges), between, where)

    def trajectory(
        self,
        ids: Any,
        *,
        between: Between = None,
        where: str | None = None,
        columns: Sequence[str] = (),
    ) -> Hits:
        """Return the rows of objects in the order (query, t); ``query`` is the number of the id, distances are 0.

        Parameters
        ----------
        ids
            One, or (m,).
        between
            As in :meth:`range`, one pair or one an id.
        where, columns
            As in :meth:`range`.

        Raises
        ------
        ValueError
            If an id is of another type than the history's, or as :meth:`range`.
        InputError, StoreError
            As :meth:`range`.
        """
        wanted = stored_ids(ids, self.schema.id_type, "this history")
        scan = self._scan(columns, where)
        asked = range_query.asked_of_ids(wanted, spans_of(between, self.schema, len(wanted)))
        began = time.perf_counter()
        found, facts = range_query.rows_of_objects(scan, wanted, asked)
        return self._hits("trajectory", asked, scan, facts, found, began, columns)

    def at(
        self,
        moment: Any,
        *,
        max_age: float | None = None,
        where: str | None = None,
        columns: Sequence[str] = (),
    ) -> Hits:
        """Return where each object was at a time: its latest row by then, by id; distances are 0.

        Parameters
        ----------
        moment
            ISO 8601 (UTC without a zone), a datetime, or a number as the history's times.
        max_age
            Seconds: objects that were not heard of for longer are left out. None for none, which reads all rows before.
        where
            A condition on the rows that stand then.
        columns
            As in :meth:`range`.

        Raises
        ------
        ValueError
            If ``max_age`` is negative, or as :meth:`range`.
        InputError, StoreError
            As :meth:`range`.

        Notes
        -----
        At equal times a deletion counts, else the greatest (x, y, attributes): as in every cycle.
        """
        last = moment_of(moment, self.schema.t_type)
        first = ends_of(stored_kind(self.schema))[0]
        if max_age is not None:
            first = seconds_before(last, float(distances("max_age", max_age, 1)[0]), self.schema.t_type)
        asked = range_query.asked_at(first, last, self.schema)
        self._check(columns)
        scan = Scan(self.home, self.version, tuple(self.schema.attributes), None, Reads(), deletions=True)
        began = time.perf_counter()
        found, facts = range_query.rows_at(scan, asked, condition_on(self.schema, where))
        return self._hits("at", asked, scan, facts, found, began, columns)

    def explain(self, question: str, *arguments: Any, **named: Any) -> dict[str, Any]:
        """Return what answering a question reads: orders, files, ranges, bytes, and what was pruned.

        Parameters
        ----------
        question
            The name of a method: "range", "box", "within", "knn", "trajectory", "at" or "count".
        *arguments, **named
            Its arguments.

        Raises
        ------
        ValueError
            If there is no such question, or as its method.
        InputError, StoreError
            As its method.
        """
        if question not in QUESTIONS:
            raise ValueError(f"question is {question!r}: one of {', '.join(QUESTIONS)} is wanted")
        told: list[Told] = []
        getattr(replace(self, listen=told.append), question)(*arguments, **named)
        return told[-1].as_json()

    # -- what questions have in common --------------------------------------------------------------------------------

    def _check(self, columns: Sequence[str]) -> None:
        column_names(columns, ["t", *self.schema.position_names, *self.schema.attributes])

    def _scan(self, columns: Sequence[str], where: str | None, having: str | None = None) -> Scan:
        self._check(columns)
        more = condition_on(self.schema, having)
        wanted = [*columns, *(() if more is None else sorted(more.columns))]
        return Scan(
            self.home, self.version, read_columns(wanted, self.schema), condition_on(self.schema, where), Reads()
        )

    def _places(self, places: Any, crs: str | None, between: Between) -> tuple[NDArray[np.float64], Spans]:
        positions = as_places(places, self.space, crs)
        return self.space.vectors(positions), spans_of(between, self.schema, len(positions))

    def _furthest(self, value: ArrayLike | None, count: int) -> NDArray[np.float64]:
        return np.full(count, np.inf) if value is None else distances("max_distance", value, count)

    def _boxes(self, boxes: ArrayLike) -> list[list[Shape]]:
        from dtoss.queries.covered import boxes_of

        return boxes_of(boxes, self.space)

    def _polygons(self, polygons: Any, edges: str | None) -> list[list[Shape]]:
        from dtoss.frames.polygon_frames import polygons_asked
        from dtoss.queries.covered import shape_of

        return [[shape_of(part) for part in whole] for whole in polygons_asked(polygons, self.space, edges)]

    def _in_shapes(
        self, question: str, shapes: list[list[Shape]], between: Between, where: str | None, columns: Sequence[str]
    ) -> Hits:
        scan = self._scan(columns, where)
        asked = range_query.asked_of_shapes(shapes, spans_of(between, self.schema, len(shapes)), self.space)
        began = time.perf_counter()
        found, facts = range_query.rows_of(scan, asked, range_query.shape_test(scan, shapes), by_id=True)
        return self._hits(question, asked, scan, facts, found, began, columns)

    def _count_shapes(
        self, question: str, shapes: list[list[Shape]], between: Between, where: str | None
    ) -> NDArray[np.int64]:
        scan = self._scan((), where)
        asked = range_query.asked_of_shapes(shapes, spans_of(between, self.schema, len(shapes)), self.space)
        return self._counted(question, scan, asked, range_query.shape_test(scan, shapes))

    def _counted(
        self,
        question: str,
        scan: Scan,
        asked: BlockQueries,
        test: range_query.Test,
        certain: NDArray[np.float64] | None = None,
    ) -> NDArray[np.int64]:
        began = time.perf_counter()
        counts, facts = range_query.count_rows(scan, asked, test, certain)
        if self.listen is not None:
            self.listen(Told(question, asked, facts, scan, -1, time.perf_counter() - began))
        return counts

    def _hits(
        self,
        question: str,
        asked: BlockQueries,
        scan: Scan,
        facts: Mapping[str, Any],
        found: FoundRows,
        began: float,
        columns: Sequence[str],
        having: str | None = None,
    ) -> Hits:
        hits = as_hits(found, self.schema, columns, condition_on(self.schema, having))
        if self.listen is not None:
            self.listen(Told(question, asked, facts, scan, len(hits), time.perf_counter() - began))
        return hits
