"""How an index answers: what its kernels are told, and what they wrote as hits.

All that loads numba stands behind this module: :class:`dtoss.Index` loads it with the first index that is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from dtoss.arguments import column_names
from dtoss.compiled.kernel import operand
from dtoss.frames.coordinates import as_places
from dtoss.geometry.space import Space
from dtoss.hits import Hits
from dtoss.locks import once
from dtoss.names import position_names
from dtoss.partitioning.regions import Regions
from dtoss.queries.batch_answer import answer, pieces_of
from dtoss.queries.gather import Whereabouts, take_columns, take_ids
from dtoss.queries.one_query import OneQuery
from dtoss.queries.open_partitions import OpenPartitions
from dtoss.queries.open_snapshot import OpenSnapshot
from dtoss.queries.raw_hits import RawHits
from dtoss.queries.threads import query_vectors

if TYPE_CHECKING:
    from dtoss.building.border import BorderTable
    from dtoss.conditions.matching_objects import Filters
    from dtoss.conditions.parse import Condition
    from dtoss.frames.arrow_tables import Places
    from dtoss.geometry.polygons import Polygon
    from dtoss.queries.cell_of import CellView
    from dtoss.queries.covered import Shape


class Engine:
    """What answers the questions of an index; thread-safe.

    ``most``: no more nearest objects are looked for; None for as many as the partitions have.
    """

    def __init__(
        self,
        space: Space,
        regions: Regions,
        reach: NDArray[np.float64],
        parts: OpenPartitions,
        bounds: NDArray[np.float64] | None,
        string_ids: bool,
        border: BorderTable | Callable[[], BorderTable] | None,
        most: int | None = None,
    ) -> None:
        self.space, self.parts, self.string_ids, self.bounds = space, parts, string_ids, bounds
        self.reach = operand(reach, dtype=np.float64)
        self._border_source = border
        self.opened = OpenSnapshot(
            parts=parts,
            regions=regions,
            reach=self.reach,
            box=operand(bounds if bounds is not None else np.zeros(4), dtype=np.float64),
            dimension=space.dimension,
            string_ids=string_ids,
            objects=sum(facts.objects for facts in parts.facts) if most is None else most,
        )
        self.whereabouts = Whereabouts(parts, space, string_ids)
        self.one = OneQuery(self.opened, space, self.whereabouts)

    @once
    def filters(self) -> Filters:
        """The conditions that were asked lately, evaluated."""
        from dtoss.conditions.matching_objects import Filters

        return Filters(self.opened, self.space)

    @once
    def border(self) -> BorderTable | None:
        """The exact cells of sites near borders, read from the store when first asked for."""
        source = self._border_source
        return source() if callable(source) else source

    @once
    def view(self) -> CellView:
        """Cells of objects, as they are drawn one by one."""
        from dtoss.queries.cell_of import CellView

        return CellView(self.space, self.opened, self.bounds, self.border)

    def places(self, positions: Places, crs: str | None) -> NDArray[np.float64]:
        """Return positions of queries, float64 (m, 2), once their CRS is known to be the index's."""
        return as_places(positions, self.space, crs)

    def vectors(self, positions: Places, crs: str | None, threads: int = 1) -> NDArray[np.float64]:
        """Return the vectors of queries, float64 (m, dimension)."""
        return query_vectors(self.places(positions, crs), self.space, threads)

    def answer(
        self,
        queries: NDArray[np.float64],
        radius: NDArray[np.float64],
        k: int,
        where: str | None,
        threads: int,
        *,
        places: bool = True,
        ordered: bool = True,
    ) -> RawHits:
        """Return raw hits of queries among the objects that satisfy a condition: as :func:`.batch_answer.answer`."""
        if where is None:
            return answer(self.opened, queries, radius, k, threads, places=places, ordered=ordered)
        return self.filters.get(where).answer(queries, radius, k, threads, places=places, ordered=ordered)

    def find(
        self,
        places: NDArray[np.float64],
        radius: NDArray[np.float64] | None,
        k: int,
        where: str | None,
        having: str | None,
        columns: Sequence[str],
        threads: int,
        ordered: bool = True,
    ) -> Hits:
        """Return the k nearest hits of legal places, all where k is 0, within a radius; anywhere where it is None."""
        queries = query_vectors(places, self.space, threads)
        if radius is None:
            radius = np.full(len(queries), np.inf)
        # ids that are numbers come with the hits; all else is found by where an object is
        needed = bool(columns) or having is not None
        raw = self.answer(queries, radius, k, where, threads, places=needed, ordered=ordered)
        return self.hits(raw, columns, having)

    def count(
        self, places: NDArray[np.float64], radius: NDArray[np.float64], where: str | None, threads: int
    ) -> NDArray[np.int64]:
        """Return how many objects lie within a radius of each legal place, int64 (m,)."""
        return self.answer(query_vectors(places, self.space, threads), radius, -1, where, threads).count

    def boxes(self, boxes: ArrayLike) -> list[list[Shape]]:
        """Return the shapes of boxes."""
        from dtoss.queries.covered import boxes_of

        return boxes_of(boxes, self.space)

    def polygons(self, polygons: Any, edges: str | None) -> list[list[Polygon]]:
        """Return the parts of each polygon of a list or a frame."""
        from dtoss.frames.polygon_frames import polygons_asked

        return polygons_asked(polygons, self.space, edges)

    def within_polygons(self, polygons: list[list[Polygon]], where: str | None, threads: int) -> RawHits:
        """Return the objects within polygons that satisfy a condition, as raw hits by id."""
        from dtoss.queries.polygon_queries import find_in_zones

        return find_in_zones(self._counting(where), polygons, threads)

    def count_polygons(self, polygons: list[list[Polygon]], where: str | None, threads: int) -> NDArray[np.int64]:
        """Return how many objects that satisfy a condition lie within each polygon, int64 (m,)."""
        from dtoss.queries.polygon_queries import count_in_zones

        return count_in_zones(self._counting(where), polygons, threads)

    def _counting(self, where: str | None) -> OpenSnapshot:
        """Return the snapshot, in which only objects count that satisfy a condition."""
        return self.opened if where is None else self.filters.get(where).masked

    def within(self, shapes: list[list[Shape]], where: str | None, threads: int) -> RawHits:
        """Return the objects within shapes that satisfy a condition, as raw hits by id."""
        from dtoss.queries.covered import search_within

        return search_within(
            shapes,
            lambda centres, radii: self.answer(centres, radii, 0, where, threads),
            self.parts,
            self.space,
            self.string_ids,
        )

    def ids_of(self, found: RawHits) -> pa.Array:
        """Return the ids of raw hits."""
        return take_ids(self.parts, found)

    def parsed(self, condition: str) -> Condition:
        """Return a condition that fits the objects."""
        from dtoss.conditions.matching_objects import schema_of
        from dtoss.conditions.parse import parse_condition

        return parse_condition(condition, schema_of(self.parts[0]))

    def satisfying(self, found: RawHits, condition: str) -> NDArray[np.bool_]:
        """Return which raw hits satisfy a condition."""
        parsed = self.parsed(condition)
        names = sorted(parsed.columns)
        carried = [name for name in names if name in self.parts[0].attributes]
        values = dict(zip(carried, take_columns(self.parts, found, carried), strict=True))
        if "id" in names and "id" not in values:
            values["id"] = self.ids_of(found)
        return parsed.matches(values.__getitem__, len(found.distance))

    def check_columns(self, columns: Sequence[str]) -> None:
        """Refuse columns that are neither attributes nor coordinates."""
        column_names(columns, [*self.parts[0].attributes, *position_names(self.space.geographic)])

    def hits(self, found: RawHits, columns: Sequence[str], having: str | None = None, first: int = 0) -> Hits:
        """Return raw hits with ids and columns, those that satisfy a condition; the first query has a number."""
        self.check_columns(columns)
        if len(found.count) == 1:
            query = np.full(len(found.distance), first)
        else:
            query = np.repeat(np.arange(first, first + len(found.count)), found.count)
        ids: NDArray[Any]
        if found.ids is not None:
            ids = found.ids
        else:
            ids = take_ids(self.parts, found).to_numpy(zero_copy_only=False).astype(object)
        taken = dict(zip(columns, take_columns(self.parts, found, columns), strict=True)) if columns else {}
        hits = Hits(query, ids, found.distance, taken, self.whereabouts)
        return hits if having is None else hits.only(self.satisfying(found, having))

    def batches(
        self,
        queries: int,
        most: int,
        count: Callable[[slice], NDArray[np.int64]],
        find: Callable[[slice], RawHits],
        where: str | None,
        having: str | None,
        columns: Sequence[str],
    ) -> Iterator[Hits]:
        """Return the hits of queries, so many at a time; what is asked of objects is checked at once.

        ``count``, ``find``: return how many hits some of the queries have, and these.
        """
        self.check_columns(columns)
        if where is not None:
            self.filters.get(where)
        if having is not None:
            self.parsed(having)
        batches = (self.hits(found, columns, having, at) for at, found in pieces_of(queries, most, count, find))
        return (hits for hits in batches if len(hits))
