"""GI2 of PS2Stream, for comparison: one grid whose cells list subscriptions, changed in place, with lazy deletion.

A deleted subscription is marked, and taken from a list by the next row that looks through that list. What stands in a
list is kept inline, as in our grid, so that both look at a candidate at the same price.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dtoss.compiled.kernel import kernel, operand
from dtoss.compiled.pointers import pointer, shift
from dtoss.geometry.distance import sphere_distance
from dtoss.geometry.space import space_of
from dtoss.watch.index.cell_frame import GLOBE, cell_key, column_of, columns_of, row_of
from dtoss.watch.index.covers import circle_rects, squared_chords
from dtoss.watch.index.grid_kernel import EMPTY, PLACE_FACTS, frame_in, place_in, reach_of
from dtoss.watch.matching.matches import Matches

Floats = NDArray[np.float64]
_NORTH = 3
_LEAST = 4
_KEY, _BEGIN, _COUNT, _CAPACITY = range(4)
_SPARE = 0.6


@kernel("int64(Array(float64, 2, 'C', readonly=True), int64, Array(float64, 1, 'C', readonly=True), int64[::1])")
def count_lists(rects, level, world, counts):
    """Set in how many cells each rectangle stands, and return how many that is."""
    frame, total = frame_in(pointer(world)), 0
    for p in range(rects.shape[0]):
        counts[p] = 0
        rect = shift(pointer(rects), PLACE_FACTS * p)
        for row in range(row_of(frame, level, rect[1]), row_of(frame, level, rect[_NORTH]) + 1):
            reach = reach_of(frame, level, row, rect)
            counts[p] += reach.last - reach.first + reach.wrapped + 2
        total += counts[p]
    return total


@kernel
def _put(slots, key, pool, owner, used, facts, number):
    """Put a subscription into the list of a cell, which moves to twice the room where it is full; return what is used.

    A slot is a key, and where its list begins, how long it is and how much room it has.
    """
    at = place_in(key, slots.shape[0])
    while slots[at, _KEY] != key and slots[at, _KEY] != EMPTY:
        at = (at + 1) & (slots.shape[0] - 1)
    if slots[at, _KEY] == EMPTY:
        slots[at, _KEY], slots[at, _BEGIN], slots[at, _COUNT], slots[at, _CAPACITY] = key, used, 0, _LEAST
        used += _LEAST
    begin, count = slots[at, _BEGIN], slots[at, _COUNT]
    if count == slots[at, _CAPACITY]:
        for k in range(count):
            for column in range(PLACE_FACTS):
                pool[used + k, column] = pool[begin + k, column]
            owner[used + k] = owner[begin + k]
        slots[at, _BEGIN], slots[at, _CAPACITY] = used, 2 * count
        begin = used
        used += 2 * count
    for column in range(PLACE_FACTS):
        pool[begin + count, column] = facts[column]
    owner[begin + count] = number
    slots[at, _COUNT] = count + 1
    return used


@kernel(
    "int64(Array(float64, 2, 'C', readonly=True), Array(float64, 2, 'C', readonly=True), int32[::1], int64,"
    " Array(float64, 1, 'C', readonly=True), int64[:, ::1], float64[:, ::1], int32[::1], int64)"
)
def put_in_lists(rects, facts, numbers, level, world, slots, pool, owner, used):
    """Put subscriptions into the lists of their cells; return how much of the pool is used then."""
    frame = frame_in(pointer(world))
    for p in range(rects.shape[0]):
        rect = shift(pointer(rects), PLACE_FACTS * p)
        mine = shift(pointer(facts), PLACE_FACTS * p)
        for row in range(row_of(frame, level, rect[1]), row_of(frame, level, rect[_NORTH]) + 1):
            reach = reach_of(frame, level, row, rect)
            for column in range(reach.first, reach.last + 1):
                used = _put(slots, cell_key(0, row, column), pool, owner, used, mine, numbers[p])
            for column in range(reach.wrapped + 1):
                used = _put(slots, cell_key(0, row, column), pool, owner, used, mine, numbers[p])
    return used


@kernel(
    "int64(int64, Array(float64, 2, 'C', readonly=True), Array(float64, 2, 'C', readonly=True), int64,"
    " Array(float64, 1, 'C', readonly=True), int64[:, ::1], float64[:, ::1], int32[::1], uint8[::1],"
    " Array(float64, 1, 'C', readonly=True), int64[::1], int32[::1], float64[::1])"
)
def search_lists(start, positions, vectors, level, world, slots, pool, owner, dead, radius, ends, subs, far):
    """Write the hits of rows from ``start`` on; return the first row for which there was no room, or how many."""
    frame, used = frame_in(pointer(world)), 0
    facts, owners = pointer(pool), pointer(owner)
    for i in range(start, positions.shape[0]):
        row = row_of(frame, level, positions[i, 1])
        key = cell_key(0, row, column_of(frame, columns_of(frame, level, row), positions[i, 0]))
        at = place_in(key, slots.shape[0])
        while slots[at, _KEY] != key and slots[at, _KEY] != EMPTY:
            at = (at + 1) & (slots.shape[0] - 1)
        count = slots[at, _COUNT] if slots[at, _KEY] == key else 0
        if used + count > subs.size:
            return i
        begin = slots[at, _BEGIN]
        x, y, z = vectors[i, 0], vectors[i, 1], vectors[i, 2]
        k = 0
        while k < count:
            place = shift(facts, PLACE_FACTS * (begin + k))
            sub = owners[begin + k]
            if dead[sub]:
                count -= 1
                for column in range(PLACE_FACTS):
                    place[column] = facts[PLACE_FACTS * (begin + count) + column]
                owners[begin + k] = owners[begin + count]
                continue
            dx, dy, dz = x - place[0], y - place[1], z - place[2]
            if dx * dx + dy * dy + dz * dz <= place[_NORTH]:
                distance = sphere_distance(x, y, z, place[0], place[1], place[2])
                if distance <= radius[sub]:
                    subs[used], far[used] = sub, distance
                    used += 1
            k += 1
        if slots[at, _KEY] == key:
            slots[at, _COUNT] = count
        ends[i] = used
    return positions.shape[0]


class GI2:
    """Circles in the lists of one grid.

    Parameters
    ----------
    centres, radius
        float64 (n, 2) in degrees and (n,) in metres.
    level
        The grid has 2^level rows.
    """

    def __init__(self, centres: Floats, radius: Floats, level: int) -> None:
        self._level, self._world = level, np.array(GLOBE, np.float64)
        self._radius, self._dead, self._count = np.zeros(0), np.zeros(0, np.uint8), 0
        self._slots, self._taken = np.full((16, 4), EMPTY, np.int64), 0
        self._pool, self._owner, self._used = np.empty((0, PLACE_FACTS)), np.empty(0, np.int32), 0
        self.insert(centres, radius)

    def __len__(self) -> int:
        return self._count

    def insert(self, centres: Floats, radius: Floats) -> None:
        """Add circles, which are numbered on; what is too small for them is grown first."""
        space = space_of()
        vectors = space.vectors(operand(centres))
        rects = operand(circle_rects(centres, vectors, radius, space))
        facts = np.empty((len(radius), PLACE_FACTS))
        facts[:, :_NORTH], facts[:, _NORTH] = vectors, squared_chords(radius, space)
        first, last = self._count, self._count + len(radius)
        if last > len(self._radius):
            self._radius = np.concatenate([self._radius, np.zeros(2 * last)])
            self._dead = np.concatenate([self._dead, np.zeros(2 * last, np.uint8)])
        self._radius[first:last], self._count = radius, last
        self._make_room(int(count_lists(rects, self._level, self._world, np.empty(len(rects), np.int64))))
        self._used = put_in_lists(
            rects, facts, np.arange(first, last, dtype=np.int32), self._level, self._world, self._slots, self._pool,
            self._owner, self._used,
        )  # fmt: skip

    def _make_room(self, more: int) -> None:
        self._taken += more
        if self._taken > _SPARE * len(self._slots):
            # how many are taken is known at most until they are counted
            taken = self._slots[self._slots[:, _KEY] != EMPTY]
            self._taken = len(taken) + more
            if self._taken > _SPARE * len(self._slots):
                self._slots = np.full((1 << int(np.ceil(np.log2(2 * self._taken / _SPARE))), 4), EMPTY, np.int64)
                move_slots(operand(taken), self._slots)
        # each place that is added may double a list, or begin one
        wanted = self._used + (2 + _LEAST) * more
        if wanted > len(self._pool):
            pool, owner = np.empty((2 * wanted, PLACE_FACTS)), np.empty(2 * wanted, np.int32)
            pool[: self._used], owner[: self._used] = self._pool[: self._used], self._owner[: self._used]
            self._pool, self._owner = pool, owner

    def delete(self, numbers: NDArray[np.int64]) -> None:
        """Mark circles as deleted."""
        self._dead[numbers] = 1

    def match(self, positions: Floats) -> Matches:
        """Return the matches of rows; those of a row in no order."""
        vectors = space_of().vectors(positions)
        count, begin, room = len(positions), 0, 1 << 22
        ends = np.zeros(count, np.int64)
        found = []
        while begin < count:
            subs, far = np.empty(room, np.int32), np.empty(room)
            end = search_lists(
                begin, positions, vectors, self._level, self._world, self._slots, self._pool, self._owner, self._dead,
                self._radius, ends, subs, far,
            )  # fmt: skip
            if end == begin:
                room *= 4
                continue
            sizes = np.diff(ends[begin:end], prepend=0)
            last = int(ends[end - 1])
            found.append((np.repeat(np.arange(begin, end), sizes), subs[:last], far[:last]))
            begin = end
        row, sub, distance = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return Matches(0, count, row, sub, distance)


@kernel("void(int64[:, ::1], int64[:, ::1])")
def move_slots(taken, slots):
    """Write the slots of a table into a larger one."""
    for i in range(taken.shape[0]):
        at = place_in(taken[i, _KEY], slots.shape[0])
        while slots[at, _KEY] != EMPTY:
            at = (at + 1) & (slots.shape[0] - 1)
        for column in range(4):
            slots[at, column] = taken[i, column]
