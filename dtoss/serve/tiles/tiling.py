"""The tiles of one snapshot, and what is made once for all of them: the sample, classes, which objects match.

Tiles of regions, cells and uncertified cells of one snapshot, and what is made once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil, log
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dtoss.index import Index
from dtoss.locks import Lock, once
from dtoss.partitioning.regions import Regions
from dtoss.recent import Recent
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
from dtoss.tiles.classes import Classes, classes_of
from dtoss.tiles.map_frame import Frame, frame_of
from dtoss.tiles.objects_by_row import ObjectRows, column_held, ids_held, objects_in, place_objects
from dtoss.tiles.point_tiles import ShownPoints, rows_of, sampled_tile, whole_tile
from dtoss.tiles.sample import SAMPLED, Sample, at_once, sample_among, sample_of

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
