"""The tiles of one snapshot, what is made once for all of them, and what the page is told that never changes.

Tiles of regions, cells and uncertified cells of one snapshot, and what is made once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil, log
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import pyproj
from numpy.typing import NDArray

from dtoss.geometry.space import NO_CRS, Space
from dtoss.index import Index
from dtoss.locks import Lock, Recent, once
from dtoss.partitioning.regions import Regions
from dtoss.tiles.cell_tiles import (
    CELL_LIMITS,
    MOST_UNCERTIFIED,
    NEAR_ZOOM,
    CellSource,
    DrawnRegions,
    UncertifiedCells,
    region_tile,
    regions_on_map,
    uncertified_on_map,
    uncertified_tile,
)
from dtoss.tiles.classes import Classes, classes_of, kind_of
from dtoss.tiles.map_frame import Frame, frame_of, unmercator
from dtoss.tiles.objects_by_row import ObjectRows, column_held, ids_held, objects_in, place_objects
from dtoss.tiles.point_tiles import ShownPoints, rows_of, sampled_tile, whole_tile
from dtoss.tiles.sample import KEY_BITS, SAMPLED, Sample, at_once, gather_bits, sample_among, sample_of

if TYPE_CHECKING:
    from dtoss.conditions.matching_objects import Filter


T = TypeVar("T")
WHOLE_FROM = 12
"""The zoom from which on a tile shows many objects; before, a sample of them looks alike, in a tenth of the bytes."""
DEEPEST_TILE = 16
"""The zoom of the smallest tiles; maps enlarge them beyond."""
KEPT_CHOICES = 8
"""Attributes and conditions that are kept for the objects of the sample, a byte for each object."""


class Whole(NamedTuple):
    """A tile that holds fewer objects shows all of them, with their ids: ``below``, and ``afar`` before that zoom."""

    below: int = 20_000
    afar: int = 2_000


DRAWN_WHOLE = Whole()


class Tiles:
    """What a map shows of an index; thread-safe.

    ``among``: only what satisfies this condition is an object; None for all. Regions and cells are those of all.
    """

    def __init__(
        self, index: Index, most: int = SAMPLED, whole: Whole = DRAWN_WHOLE, among: Filter | None = None
    ) -> None:
        self._index, self._among = index, among
        self._most, self._shown_whole = most, whole
        self._sample: Sample | None = None
        self._sampling = Lock()
        self._making = Lock()
        self._kept: Recent[Any] = Recent(KEPT_CHOICES)

    @once
    def frame(self) -> Frame:
        """The map."""
        bounds = self._index.bounds
        return frame_of(self._index.space, None if bounds is None else np.array(bounds))

    @once
    def shapes(self) -> ShapeTiles:
        """Tiles of regions, cells and uncertified cells."""
        return ShapeTiles(self._index, self.frame)

    @property
    def sample(self) -> Sample:
        """A sample of the objects. Made when first asked for: cost O(objects)."""
        return self.sampled()

    def sampled(self, breathe: Callable[[], None] = at_once) -> Sample:
        """Return the sample; the first who asks makes it, and others wait for it."""
        if self._sample is None:
            with self._sampling:
                if self._sample is None:
                    self._sample = sample_of(self._index, self.frame, self._most, self._among, breathe)
        return self._sample

    def classes(self, column: str) -> Classes:
        """Return the classes of an attribute, by the sample."""
        return self._classified(column)[0]

    def objects(self, z: int, x: int, y: int, by: str | None = None, where: Filter | None = None) -> bytes:
        """Return the tile of objects: all of them with their ids if they are few, else those of the sample.

        Where few objects of the whole index satisfy the condition, all that do are in their tiles.
        """
        classes, of_sample = (None, None) if by is None else self._classified(by)
        if where is not None and self.sample.one_of > 1 and where.count < self._shown_whole.below:
            matches = self._once(("all", where.condition.text), lambda: self._matching(where))
            rows = rows_of(matches, z, x, y)
            all_there = ObjectRows(matches.part[rows], matches.item[rows])
            return self._whole(all_there, matches.keys[rows], by, classes, (z, x, y))
        if (held := self._few(z, x, y)) is not None:
            if where is not None:
                held = held.rows(where.holds(*held))
            return self._whole(*place_objects(self._index, self.frame, held), by, classes, (z, x, y))
        sample = self.sample
        # by its text: a filter holds a byte for each object of the index
        kept = (
            None
            if where is None
            else self._once(("where", where.condition.text), lambda: where.holds(sample.part, sample.item))
        )
        return sampled_tile(sample, ShownPoints(of_sample, kept), z, x, y)

    def _whole(
        self,
        held: ObjectRows,
        keys: NDArray[np.uint64],
        by: str | None,
        classes: Classes | None,
        tile: tuple[int, int, int],
    ) -> bytes:
        found = None if by is None or classes is None else classes.of(column_held(self._index, held, by))
        return whole_tile(keys, ids_held(self._index, held), found, *tile)

    def _matching(self, where: Filter) -> Sample:
        """Return all objects that satisfy a condition, as a sample."""
        return sample_among(self._index, self.frame, 1, where.rows)

    def _few(self, z: int, x: int, y: int) -> ObjectRows | None:
        """Return all objects of a tile and some round it, if they are few; else None."""
        sample, whole = self.sample, self._shown_whole
        rows = rows_of(sample, z, x, y)
        count = rows.stop - rows.start
        if sample.one_of == 1:
            return ObjectRows(sample.part[rows], sample.item[rows]) if count < whole.below else None
        few = whole.below if z >= WHOLE_FROM else min(whole.afar, whole.below)
        # the sample says how many there are, give or take some of a hundred
        if count * sample.one_of >= 2 * few:
            return None
        among = None if self._among is None else self._among.condition.text
        return objects_in(self._index, self.frame, z, x, y, few, among)

    def _classified(self, column: str) -> tuple[Classes, NDArray[np.uint8]]:
        if column not in self._index.column_names:
            raise KeyError(column)
        sample = self.sample

        def made() -> tuple[Classes, NDArray[np.uint8]]:
            values = column_held(self._index, ObjectRows(sample.part, sample.item), column)
            classes = classes_of(values)
            return classes, classes.of(values)

        return self._once(("by", column), made)

    def _once(self, key: Hashable, made: Callable[[], T]) -> T:
        """Return what is kept under a key, made if it is not there; the latest :data:`KEPT_CHOICES` are kept."""
        with self._making:
            found: T = self._kept.of(key, lambda: (made(), 1))
            return found


DRAWN_EARLY = 512
"""Regions up to which drawing them all takes a second: twice as many take three times as long."""


class ShapeTiles:
    """What a map shows of an index besides its objects; thread-safe.

    ``most_uncertified``: so many uncertified cells are drawn from afar at the most, the largest ones.
    """

    def __init__(self, index: Index, frame: Frame, most_uncertified: int = MOST_UNCERTIFIED) -> None:
        self._index, self._frame, self._most_uncertified = index, frame, most_uncertified
        self._bounds = None if index.bounds is None else np.array(index.bounds)

    def make_early(self, most: int = DRAWN_EARLY) -> None:
        """Draw the regions before anybody asks, unless they are so many that this takes more than a second."""
        if len(self._index.partitioning) <= most:
            self.regions_drawn  # noqa: B018

    @once
    def regions_drawn(self) -> DrawnRegions:
        """The regions on the map; snapshots of the same pivots and weights share them."""
        return _regions_drawn(
            _Asked(self._index.partitioning.digest, self._frame, self._index.bounds, self._index.partitioning)
        )

    @once
    def uncertified_drawn(self) -> UncertifiedCells:
        """The uncertified cells on the map. Made when first asked for: cost O(their neighbours)."""
        return uncertified_on_map(self._frame, self._index.border, self._bounds, self._most_uncertified)

    @once
    def cell_source(self) -> CellSource:
        """What makes cells by the tile."""
        return CellSource(self._index, self._frame)

    @property
    def cells_from(self) -> int:
        """The zoom from which on cells are worth asking for.

        Where all are few that is the first one. A plane's square is as large as its bounds, so its objects say from
        where on they are few in a tile; on the sphere they are in towns.
        """
        if len(self._index) <= CELL_LIMITS.far:
            return 0
        if self._frame.plane is None:
            return NEAR_ZOOM
        return min(NEAR_ZOOM, 1 + ceil(log(len(self._index) / CELL_LIMITS.far, 4.0)))

    def regions(self, z: int, x: int, y: int) -> bytes:
        """Return the tile of regions."""
        return region_tile(self.regions_drawn, z, x, y)

    def cells(self, z: int, x: int, y: int) -> bytes:
        """Return the tile of cells; no bytes where they are too many to be seen."""
        return self.cell_source.tile(z, x, y)

    def uncertified(self, z: int, x: int, y: int) -> bytes:
        """Return the tile of uncertified cells; where not all are kept, those in view are looked up from near by."""
        drawn = self.uncertified_drawn
        if z >= NEAR_ZOOM and not drawn.complete:
            return self.cell_source.uncertified_tile(z, x, y)
        return uncertified_tile(drawn, z, x, y)


@dataclass(frozen=True)
class _Asked:
    """Regions by their digest."""

    digest: str
    frame: Frame
    bounds: tuple[float, float, float, float] | None
    regions: Regions = field(compare=False)


@lru_cache(maxsize=2)
def _regions_drawn(asked: _Asked) -> DrawnRegions:
    bounds: NDArray[np.float64] | None = None if asked.bounds is None else np.array(asked.bounds)
    return regions_on_map(asked.frame, asked.regions, bounds)


WHOLE_MAP = (-180.0, -85.0, 180.0, 85.0)
"""What is seen where there are no objects."""
NARROWEST_VIEW = 1e-3
"""Degrees that a view is wide and high at least."""


def length_unit(space: Space) -> str:
    """Return "m" where distances are metres, the CRS's name of its unit, or "units" where it has none.

    Examples
    --------
    >>> from dtoss.geometry.space import space_of
    >>> [length_unit(space_of(crs)) for crs in ("EPSG:4326", "EPSG:32633", "EPSG:2263", "none")]
    ['m', 'm', 'US survey foot', 'units']
    """
    if space.metric == "sphere":
        return "m"
    unit = "units" if space.crs == NO_CRS else str(pyproj.CRS(space.crs).axis_info[0].unit_name)
    return "m" if unit == "metre" else unit


class MapFacts:
    """The facts of one snapshot; thread-safe.

    ``sizes``: bytes of the file of each partition; empty where there are no files.
    """

    def __init__(self, index: Index, tiles: Tiles, sizes: Sequence[int] = ()) -> None:
        self._index = index
        self._tiles = tiles
        self._sizes = sizes
        self._making = Lock()
        self._told: dict[str, Any] | None = None

    def told(self, breathe: Callable[[], None] = at_once) -> dict[str, Any]:
        """Return what the page is told; the first who asks makes it, and others wait for it.

        Cost O(n log n) for the n objects of the sample, for each column.
        """
        if self._told is None:
            with self._making:
                if self._told is None:
                    self._told = self._made(breathe)
        return self._told

    def _made(self, breathe: Callable[[], None]) -> dict[str, Any]:
        index, tiles = self._index, self._tiles
        plane, sample = tiles.frame.plane, tiles.sampled(breathe)
        columns = []
        for name in index.column_names:
            columns.append(self._column(name))
            breathe()
        return {
            "sites": index.sites,
            "partitions": len(index.parts),
            "crs": index.crs,
            "metric": index.space.metric,
            "unit": length_unit(index.space),
            "id_type": "string" if index.string_ids else "int64",
            "plane": None if plane is None else dict(zip(("x0", "y1", "side"), plane, strict=True)),
            "view": view_of(sample.keys, round_world=plane is None),
            "sample": sample.one_of,
            "nowhere": sample.nowhere,
            "columns": columns,
            "regions": self._regions(),
        }

    def _column(self, name: str) -> dict[str, Any]:
        kind = self._index.parts[0].attributes[name].type
        found = {"name": name, "type": str(kind), "kind": kind_of(kind), "classes": []}
        if found["kind"] != "other":
            found["classes"] = list(self._tiles.classes(name).labels)
        return found

    def _regions(self) -> dict[str, list[Any]]:
        facts = self._index.parts.facts
        place = self._tiles.frame.lonlat_of_vectors(self._index.partitioning.pivots)
        return {
            "objects": [one.objects for one in facts],
            "sites": [one.sites for one in facts],
            "bytes": list(self._sizes) or [0] * len(facts),
            "place": place.round(6).tolist(),
        }


def view_of(keys: NDArray[np.uint64], *, round_world: bool) -> list[float]:
    """Return west, south, east and north of the objects of a sample, degrees on the map.

    An east above 180 is beyond the antimeridian: what is seen is as narrow as it can be.
    """
    if not len(keys):
        return [*WHOLE_MAP]
    world = np.stack([gather_bits.py_func(keys), gather_bits.py_func(keys >> np.uint64(1))], axis=1) / 2.0**KEY_BITS
    (_, north), (_, south) = unmercator(np.array([[0.0, world[:, 1].min()], [0.0, world[:, 1].max()]])).tolist()
    lon = unmercator(world)[:, 0]
    lon.sort()
    widest = int(np.diff(lon, append=lon[0] + 360.0).argmax()) if round_world else len(lon) - 1
    # the east is where the widest gap begins; what comes after it is further west
    west, east = float(lon[(widest + 1) % len(lon)]), float(lon[widest])
    if east < west:
        east += 360.0
    width, height = max(NARROWEST_VIEW - (east - west), 0.0) / 2, max(NARROWEST_VIEW - (north - south), 0.0) / 2
    return [west - width, max(south - height, -90.0), east + width, min(north + height, 90.0)]
