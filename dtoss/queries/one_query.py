"""Questions of one place by itself, which take a few microseconds: one call of a kernel, and no array but the answer's.

What is asked in any unusual way is left to the way of batches, which says what is wrong with it as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.compiled.checked_memory import address
from dtoss.geometry.space import Space
from dtoss.hits import Hits
from dtoss.queries.gather import Whereabouts, take_ids
from dtoss.queries.kernels import one_kernel as one
from dtoss.queries.kernels.address_table import AddressTable
from dtoss.queries.kernels.knn_kernel import NOT_OPEN
from dtoss.queries.kernels.one_kernel import NO_PLACE, TOO_SMALL, nearest_to_one, within_of_one
from dtoss.queries.kernels.query_arguments import NO_ROOM
from dtoss.queries.open_partitions import needed
from dtoss.queries.open_snapshot import OpenSnapshot, addresses_of_runs, arguments_of
from dtoss.queries.raw_hits import RawHits
from dtoss.queries.workspace import workspace

FLOAT64, INT64 = np.dtype(np.float64), np.dtype(np.int64)
"""numpy takes as long to find these by the type's name as to make a small array."""
INFINITE = np.inf


@dataclass(frozen=True)
class SnapshotRow:
    """What kernels of one place are told of a snapshot; it holds what its addresses name."""

    address: int
    columns: NDArray[np.int64]
    table: AddressTable
    arrays: tuple[Any, ...]


def row_of_snapshot(opened: OpenSnapshot) -> SnapshotRow:
    """Return the row of a snapshot, of those partitions that are open now."""
    table = opened.parts.table
    arrays = arguments_of(opened, table)
    columns = np.zeros(one.COLUMNS_OF_ROW, np.int64)
    names = "rows furthest pivots weights order border reach bounds"
    at = (one.ROWS_AT, one.FURTHEST_AT, one.PIVOTS_AT, one.WEIGHTS_AT, one.ORDER_AT, one.BORDER_AT, one.REACH_AT,
          one.BOUNDS_AT)  # fmt: skip
    for column, array, name in zip(at, arrays, names.split(), strict=True):
        columns[column] = address(array, name)
    columns[one.RUNS_AT] = address(table.runs, "addresses of runs")
    order = opened.regions.borders.order
    columns[one.PARTITIONS], columns[one.BORDER_COUNT] = len(opened.regions), order.shape[1]
    columns[one.DIMENSION], columns[one.STRING_IDS] = opened.dimension, opened.string_ids
    columns[one.MOST_BLOCKS], columns[one.MOST_LINKS] = table.most_blocks, table.most_links
    return SnapshotRow(address(columns, "a snapshot's row"), columns, table, arrays)


def one_position(positions: Any) -> tuple[float, float] | None:
    """Return the two numbers of a single position, None where it is not plainly one: an array, a list or a tuple."""
    kind = type(positions)
    if kind is np.ndarray:
        if positions.size != 2 or positions.dtype is not FLOAT64:
            return None
        positions = positions.tolist()
    elif kind is not list and kind is not tuple:
        return None
    if len(positions) == 1:
        positions = positions[0]
        if type(positions) is not list and type(positions) is not tuple:
            return None
    if len(positions) != 2:
        return None
    x, y = positions
    if type(x) is float and type(y) is float:
        return x, y
    if isinstance(x, (float, int)) and isinstance(y, (float, int)):
        if isinstance(x, bool) or isinstance(y, bool):
            return None
        try:
            return float(x), float(y)
        except OverflowError:
            return None
    return None


def one_distance(value: Any) -> float | None:
    """Return a single distance, None where it is not plainly one."""
    if type(value) is not float:
        if not isinstance(value, (float, int)) or isinstance(value, bool):
            return None
        try:
            value = float(value)
        except OverflowError:
            return None
    return value if value >= 0.0 else None


class OneQuery:
    """Questions of one place to a snapshot; any number of threads may ask.

    Where a question is unusual, or mistaken, the answer is None, and a batch of one is the way.
    """

    def __init__(self, opened: OpenSnapshot, space: Space, origin: Whereabouts) -> None:
        self._opened = opened
        self._origin = origin
        # positions of a projected CRS that are compared on the sphere are transformed as a batch
        self._most_k = 0 if space.to_lonlat else opened.objects
        self._string_ids = opened.string_ids
        self._row: SnapshotRow | None = None
        self._with_runs: AddressTable | None = None

    def nearest(self, positions: Any, k: Any, max_distance: Any = None) -> Hits | None:
        """Return the k nearest objects within a distance of a single position; as :meth:`dtoss.Index.knn`."""
        place = one_position(positions)
        most = INFINITE if max_distance is None else one_distance(max_distance)
        if place is None or most is None or type(k) is not int or not 0 < k <= self._most_k:
            return None
        ids, distance = np.empty(k, INT64), np.empty(k)
        row = self._row
        size = TOO_SMALL if row is None else nearest_to_one(row.address, workspace.row, *place, most, ids, distance)
        mended = size < 0
        while size < 0:
            if size == NO_PLACE:
                return None
            row = self._mended(size)
            size = nearest_to_one(row.address, workspace.row, *place, most, ids, distance)
        if self._string_ids:
            ids = self._strings(size)
        if mended:
            workspace.trim()
        if size < k:
            ids, distance = ids[:size], distance[:size]
        return Hits(np.zeros(size, INT64), ids, distance, {}, self._origin)

    def within(self, positions: Any, radius: Any, ordered: bool = True) -> Hits | None:
        """Return all objects within a radius of a single position; as :meth:`dtoss.Index.range`."""
        size = self._search(positions, radius, False, ordered)
        if size is None:
            return None
        ids = self._strings(size) if self._string_ids else workspace.id[:size].copy()
        hits = Hits(np.zeros(size, INT64), ids, workspace.far[:size].copy(), {}, self._origin)
        workspace.trim()
        return hits

    def count(self, positions: Any, radius: Any) -> NDArray[np.int64] | None:
        """Return how many objects lie within a radius of a single position; as :meth:`dtoss.Index.count`."""
        size = self._search(positions, radius, True, True)
        return None if size is None else np.array([size], INT64)

    def _search(self, positions: Any, radius: Any, counting: bool, ordered: bool) -> int | None:
        """Return how many objects lie within a radius; they stand in the memory of the thread, unless counted only."""
        place, far = one_position(positions), one_distance(radius)
        if place is None or far is None or self._most_k == 0:
            return None
        row = self._row
        asked = (*place, far, counting, ordered)
        size = TOO_SMALL
        if row is not None and row.table is self._with_runs:
            size = within_of_one(row.address, workspace.row, *asked)
        while size < 0:
            if size == NO_PLACE:
                return None
            row = self._mended(size)
            addresses_of_runs(row.table)
            self._with_runs = row.table
            size = within_of_one(row.address, workspace.row, *asked)
        return int(size)

    def _mended(self, why: int) -> SnapshotRow:
        """Return the snapshot's row once what kept a kernel from answering has been put right."""
        if why == NO_ROOM:
            workspace.grow()
        elif why == NOT_OPEN:
            numbers = needed(workspace.need)
            workspace.need[:] = 0
            self._opened.parts.open(numbers)
        row = self._row
        if row is None or row.table is not self._opened.parts.table:
            row = self._row = row_of_snapshot(self._opened)
        workspace.fit_one(row.table)
        return row

    def _strings(self, size: int) -> NDArray[Any]:
        """Return the ids of the hits that the last kernel of this thread found."""
        none = np.zeros(0)
        part, item = workspace.part[:size], workspace.item[:size]
        found = RawHits(np.array([size]), part, item, none, None, workspace.reads)
        ids: NDArray[Any] = take_ids(self._opened.parts, found).to_numpy(zero_copy_only=False).astype(object)
        return ids
