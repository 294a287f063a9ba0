"""Rows against a grid of places: the cells that hold a row, and of what stands there what holds it, each once.

How many places of a grid are looked at for each row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoss.compiled.kernel import kernel, operand
from dtoss.compiled.pointers import pointer, prefetch, shift
from dtoss.geometry.distance import SPHERE, Place, plane_distance, sphere_distance
from dtoss.geometry.space import QUARTER_TURN
from dtoss.queries.kernels.zone_kernel import IN, OUT, Tables, polygon_holds
from dtoss.watch.index.cell_frame import cell_key, column_of, columns_of, grid_positions, row_of
from dtoss.watch.index.covers import CIRCULAR, RECTANGULAR
from dtoss.watch.index.grid_kernel import PLACE_FACTS, begin_of, count_of, entry_of, frame_in, place_in
from dtoss.watch.index.large_and_small import Standing
from dtoss.watch.index.subscription_index import SubscriptionIndex

UNSURE_FROM = -2.0
"""Distances from here down stand for polygons that rational numbers must tell of: -2 for polygon 0."""
_SURE = 1.0 - 4e-11
"""Share of the bound of a squared chord below which a row is within for sure."""
_PLAIN_CHORD = 1.0
"""Squared chord up to which chords and distances go together to the last digits but three."""
_LEAST_CHORD = 1e-200
_NORTH = 3
_SHORT = 24
"""Hits that are put in order by insertion."""
_AT_A_TIME = 32
"""Rows whose cells are looked for together, so that loads from memory overlap."""
_LINES = 8
"""Pieces of memory, of two places each, that are asked for before a cell is looked at."""
_PLACES_A_LINE, _MARKS_A_LINE = 2, 8


class Row(NamedTuple):
    """A row that is asked about: where it is, what it wants, whether it is on a sphere."""

    x: Any
    y: Any
    place: Any
    wants: Any


class Cells(NamedTuple):
    """What finds the cells of rows: the frame, pointers to levels and slots, and how many of both there are."""

    frame: Any
    levels: Any
    height: int
    slots: Any
    room: int


class Told(NamedTuple):
    """Pointers to what is told of subscriptions: what they want, and their radii."""

    events: Any
    radius: Any


@kernel
def _squared_chord(place, facts):
    """Return the squared chord to the centre of a circle, of which ``facts`` is the pointer."""
    x, y, z = place.x - facts[0], place.y - facts[1], place.z - facts[2]
    return x * x + y * y + z * z


@kernel
def _near_in(place, facts, tags, count, chosen):
    """List what of a cell may hold a row, without a branch: circles whose centres are near, and all other places."""
    found = 0
    for k in range(count):
        chord2 = _squared_chord(place, shift(facts, PLACE_FACTS * k))
        chosen[found] = k
        found += int(chord2 <= facts[PLACE_FACTS * k + _NORTH]) | int(tags[2 * k + 1] != CIRCULAR)
    return found


@kernel
def within_circle(place, facts, radius, number, chord2):
    """Return the reported distance to a circle's centre if it is at most ``radius[number]``, else -1."""
    if place.dimension == SPHERE:
        far = sphere_distance(place.x, place.y, place.z, facts[0], facts[1], facts[2])
    else:
        far = plane_distance(place.x, place.y, facts[0], facts[1])
    bound = facts[_NORTH]
    sure = _LEAST_CHORD < bound <= _PLAIN_CHORD or place.dimension != SPHERE
    if sure and bound > _LEAST_CHORD and chord2 <= bound * _SURE:
        return far
    return far if far <= radius[number] else -1.0


@kernel
def in_rectangle(x, y, rect, sphere):
    """Return whether a rectangle, of which ``rect`` is the pointer, holds a place, its border included."""
    if not rect[1] <= y <= rect[_NORTH]:
        return False
    west, east = rect[0], rect[2]
    if sphere and abs(y) == QUARTER_TURN:
        return True
    if west <= east or not sphere:
        return west <= x <= east
    return x >= west or x <= east


@kernel
def place_holds_row(row, facts, tags, told, tables):
    """Return the distance to a circle that holds a row, NaN for another place that does, -1 for none.

    Of circles only those come whose centres are near. Below -1 it is a polygon of which rounding leaves unsure whether
    it holds the row.
    """
    shape = int(tags[1])
    if shape == CIRCULAR:
        chord2 = _squared_chord(row.place, facts)
        if not told.events[tags[0]] & row.wants:
            return -1.0
        return within_circle(row.place, facts, told.radius, tags[0], chord2)
    if not in_rectangle(row.x, row.y, facts, row.place.dimension == SPHERE):
        return -1.0
    if not told.events[tags[0]] & row.wants:
        return -1.0
    if shape != RECTANGULAR:
        z = row.place.z if row.place.dimension == SPHERE else 1.0
        held = polygon_holds(tables, shape, Place(row.place.x, row.place.y, z, SPHERE))
        if held == OUT:
            return -1.0
        if held != IN:
            return UNSURE_FROM - shape
    return np.nan


@kernel
def _put_in_order(subs, far, begin, end):
    """Put hits in the order of subscriptions; those of each level are so already."""
    for i in range(begin + 1, end):
        sub, distance = subs[i], far[i]
        j = i
        while j > begin and subs[j - 1] > sub:
            subs[j], far[j] = subs[j - 1], far[j - 1]
            j -= 1
        subs[j], far[j] = sub, distance


@kernel
def _merge(subs, far, begin, middle, end):
    """Merge two ordered parts of hits."""
    if end - begin <= _SHORT:
        _put_in_order(subs, far, begin, end)
        return
    if subs[middle - 1] <= subs[middle]:
        return
    size = middle - begin
    left, left_far = np.empty(size, np.int32), np.empty(size)
    for i in range(size):
        left[i], left_far[i] = subs[begin + i], far[begin + i]
    i, j, at = 0, middle, begin
    while i < size:
        if j < end and subs[j] < left[i]:
            subs[at], far[at] = subs[j], far[j]
            j += 1
        else:
            subs[at], far[at] = left[i], left_far[i]
            i += 1
        at += 1


@kernel
def _row_at(positions, vectors, number, wants, dimension):
    at = number * dimension
    place = Place(vectors[at], vectors[at + 1], vectors[at + 2] if dimension == SPHERE else 0.0, dimension)
    return Row(positions[2 * number], positions[2 * number + 1], place, wants)


@kernel
def _cells_noted(cells, order, positions, begin, end, looks):
    """Note the keys of the cells that hold some rows, a number a level each, and ask for their slots."""
    used = 0
    for i in range(begin, end):
        x, y = positions[2 * order[i]], positions[2 * order[i] + 1]
        for index in range(cells.height):
            level = cells.levels[index]
            r = row_of(cells.frame, level, y)
            key = cell_key(index, r, column_of(cells.frame, columns_of(cells.frame, level, r), x))
            looks[used] = key
            prefetch(cells.slots, 2 * place_in(key, cells.room))
            used += 1
    return used


@kernel
def _cells_looked_up(cells, looks, used, facts, tags):
    """Turn keys of cells into what stands in their slots, and ask for the first of what stands in the cells."""
    for at in range(used):
        entry = looks[at] = entry_of(cells.slots, cells.room, looks[at])
        count, begin = count_of(entry), begin_of(entry)
        for line in range(min((count + _PLACES_A_LINE - 1) // _PLACES_A_LINE, _LINES)):
            prefetch(facts, PLACE_FACTS * (begin + _PLACES_A_LINE * line))
        for line in range(min((count + _MARKS_A_LINE - 1) // _MARKS_A_LINE, _LINES)):
            prefetch(tags, 2 * (begin + _MARKS_A_LINE * line))


_TABLE = (
    "Array(float64, 2, 'C', readonly=True), Array(float64, 3, 'C', readonly=True), Array(float64, 2, 'C',"
    " readonly=True), Array(float64, 2, 'C', readonly=True), Array(float64, 2, 'C', readonly=True), Array(int64, 1,"
    " 'C', readonly=True), Array(int64, 1, 'C', readonly=True), Array(int32, 1, 'C', readonly=True)"
)
_GRID = (
    "Array(float64, 1, 'C', readonly=True), Array(int64, 1, 'C', readonly=True), Array(int64, 2, 'C', readonly=True),"
    " Array(float64, 2, 'C', readonly=True), Array(int32, 2, 'C', readonly=True)"
)


@kernel(
    f"Tuple((int64, int64))(Array(int32, 1, 'C', readonly=True), float64[:, ::1], float64[:, ::1], uint8[::1],"
    f" {_GRID}, Array(uint8, 1, 'C', readonly=True), Array(float64, 1, 'C', readonly=True), {_TABLE},"
    " int64[::1], int32[::1], float64[::1])"
)
def search_grid(
    order: Any, positions: Any, vectors: Any, wants: Any,
    world: Any, levels: Any, slots: Any, places: Any, marks: Any, events: Any, radius: Any,
    facts: Any, sides: Any, begins: Any, ends: Any, flat: Any, strip: Any, listed: Any, edges: Any,
    hits_end: Any, subs: Any, far: Any,
) -> Any:  # fmt: skip
    """Write the hits of rows, in the order in which ``order`` names them.

    ``hits_end`` gets where the hits of each row end, by its place in ``order``; ``subs`` and ``far`` the hits. Returns
    the place in ``order`` of the first row for which there was no room, or how many rows there are, and the candidates
    that were looked at.
    """
    dimension = vectors.shape[1]
    cells = Cells(frame_in(pointer(world)), pointer(levels), levels.size, pointer(slots), slots.shape[0])
    tables = Tables(
        pointer(facts), pointer(sides), pointer(begins), pointer(ends), pointer(flat), pointer(strip), pointer(listed),
        pointer(edges),
    )  # fmt: skip
    told = Told(pointer(events), pointer(radius))
    used = looked = 0
    most = subs.size
    of_facts, of_marks, of_subs = pointer(places), pointer(marks), pointer(subs)
    looks = np.empty(_AT_A_TIME * levels.size, np.int64)
    for start in range(0, order.size, _AT_A_TIME):
        stop = min(start + _AT_A_TIME, order.size)
        noted = _cells_noted(cells, pointer(order), pointer(positions), start, stop, pointer(looks))
        _cells_looked_up(cells, pointer(looks), noted, of_facts, of_marks)
        for i in range(start, stop):
            number = order[i]
            row = _row_at(pointer(positions), pointer(vectors), number, wants[number], dimension)
            first = used
            for index in range(levels.size):
                entry = looks[(i - start) * levels.size + index]
                count, at = count_of(entry), begin_of(entry)
                looked += count
                if used + count > most:
                    return i, looked
                middle = used
                near = _near_in(
                    row.place,
                    shift(of_facts, PLACE_FACTS * at),
                    shift(of_marks, 2 * at),
                    count,
                    shift(of_subs, used),
                )
                for j in range(near):
                    k = at + subs[middle + j]
                    distance = place_holds_row(
                        row, shift(of_facts, PLACE_FACTS * k), shift(of_marks, 2 * k), told, tables
                    )
                    if distance != -1.0:
                        subs[used] = of_marks[2 * k]
                        far[used] = distance
                        used += 1
                if first < middle < used:
                    _merge(pointer(subs), pointer(far), first, middle, used)
            hits_end[i] = used
    looks[0] = used  # the array is kept until here
    return order.size, looked


def candidates_of(standing: Standing, positions: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return how many places are looked at for each position, int64 (n,). Words and what is everywhere do not count.

    Cost O(n) a level.
    """
    found = np.zeros(len(positions), np.int64)
    for _, built in standing.parts:
        found += _in_index(built, positions)
    return found


def _in_index(built: SubscriptionIndex, positions: NDArray[np.float64]) -> NDArray[np.int64]:
    found = np.zeros(len(positions), np.int64)
    if len(built.arrays["grid/marks"]) and len(positions):
        placed = operand(grid_positions(built.space, positions, built.space.vectors(positions)))
        count_candidates(placed, *(built.arrays[f"grid/{name}"] for name in ("world", "levels", "slots")), found)
    return found


@kernel(
    "void(float64[:, ::1], Array(float64, 1, 'C', readonly=True), Array(int64, 1, 'C', readonly=True),"
    " Array(int64, 2, 'C', readonly=True), int64[::1])"
)
def count_candidates(positions: Any, world: Any, levels: Any, slots: Any, found: Any) -> None:
    """Add what stands in the cells of each position."""
    frame = frame_in(pointer(world))
    of_slots = pointer(slots)
    for i in range(positions.shape[0]):
        place = shift(pointer(positions), 2 * i)
        for index in range(levels.size):
            row = row_of(frame, levels[index], place[1])
            column = column_of(frame, columns_of(frame, levels[index], row), place[0])
            found[i] += count_of(entry_of(of_slots, slots.shape[0], cell_key(index, row, column)))
