"""Which objects come near one another, row by row in the order of time: a grid of where each was seen last."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoss.compiled.kernel import kernel
from dtoss.geometry.distance import SPHERE, chord_of, plane_distance, sphere_distance

MOST_NEAR = 100
"""Others that an object is near to at a time, at most: of more nothing is told, but how often they were found."""
CAME, WENT = 0, 1
"""What has become of a pair."""
_ROOM = 1 << 12
_GROWN = 1.0 + 1e-9
_CELL, _LIST = 4, 3
"""Numbers of an object's cell: where it is along each axis, and the place of its list, the last one."""
_ROW, _EVENTS, _USED, _FREE, _CROWDED, _STATES = range(6)
"""The state: the next row, events, nodes that are used, the first that is free again, how often one was crowded."""
_SECOND = 3
"""Column of an event."""
_MIX_X, _MIX_Y, _MIX_Z = 73856093, 19349663, 83492791
"""Primes that spread cells over lists (Teschner and others, 2003)."""


@dataclass(frozen=True)
class Moves:
    """Objects, where they are at first, and the rows that move them, in the order of time."""

    places: NDArray[np.float64]  # float64 (n, 3). Vectors; z is 0 in the plane
    # uint8 (n,). Of each object at first: 1 where it satisfies the one condition, 2 the other; 0 where it is nowhere
    sides: NDArray[np.uint8]
    object: NDArray[np.int64]  # int64 (m,). Of each row
    to: NDArray[np.float64]  # float64 (m, 3)
    to_sides: NDArray[np.uint8]  # uint8 (m,). As above; 0 takes an object away


@dataclass(frozen=True)
class NearPairs:
    """What has become of pairs, (k,) each, by row, those that went first, then by the other object; what is left."""

    row: NDArray[np.int64]
    kind: NDArray[np.uint8]
    first: NDArray[np.int64]  # first, second: the objects of the one and of the other condition
    second: NDArray[np.int64]
    left: NDArray[np.int64]  # int64 (p, 2). Pairs that are near at the end
    crowded: int  # How often a pair was found near and is none, because one of both had MOST_NEAR already

    def taken(self, some: NDArray[np.bool_]) -> NearPairs:
        """Return this of some rows."""
        return replace(self, row=self.row[some], kind=self.kind[some], first=self.first[some], second=self.second[some])


def near_pairs(moves: Moves, pairs: NDArray[np.int64], metres: float, sphere: bool, most: int = MOST_NEAR) -> NearPairs:
    """Return which pairs come to be at most so far apart, and which are no longer.

    ``pairs``: int64 (p, 2). Those that are near at first. A pair in which both satisfy both conditions has the lower
    object first. Cost O(rows x objects in 27 cells as wide as the distance).
    """
    count = len(moves.places)
    side = float(chord_of(metres)) * _GROWN if sphere else metres
    cells = np.zeros((count, _CELL), np.int64)
    heads = np.full(1 << max(int(np.ceil(np.log2(max(2 * count, 2)))), 4), -1, np.int64)
    links = np.full((count, 2), -1, np.int64)
    lists, degrees, stamp = np.full(count, -1, np.int64), np.zeros(count, np.int64), np.full(count, -1, np.int64)
    nodes = np.empty((_ROOM + 2 * len(pairs) + 2 * most, 3), np.int64)
    found = np.empty((_ROOM + 2 * most, 4), np.int64)
    state = np.zeros(_STATES, np.int64)
    state[_FREE] = -1
    places, sides = moves.places.copy(), moves.sides.copy()
    begin_near(places, sides, side, cells, heads, links, pairs, lists, degrees, nodes, state)
    others, told = np.empty(count, np.int64), []
    while True:
        follow_near(
            places, sides, moves.object, moves.to, moves.to_sides, metres, side, sphere, most, cells, heads, links,
            lists, degrees, stamp, nodes, others, found, state,
        )  # fmt: skip
        told.append(found[: state[_EVENTS]].copy())
        state[_EVENTS] = 0
        if state[_ROW] == len(moves.object):
            break
        if state[_USED] + 2 * most > len(nodes):
            nodes = np.concatenate([nodes, np.empty_like(nodes)])
    whole = np.concatenate(told)
    left = np.empty((int(degrees.sum()) // 2, 2), np.int64)
    list_near(lists, nodes, left)
    return NearPairs(whole[:, 0], whole[:, 1].astype(np.uint8), whole[:, 2], whole[:, 3], left, int(state[_CROWDED]))


class _Objects(NamedTuple):
    """Where objects are, which conditions they satisfy, and how far apart those of a pair are at most."""

    places: Any
    sides: Any
    metres: Any
    sphere: Any


class _Grid(NamedTuple):
    """The width of its cells, the cell of each object, the first object of each list, and those beside each."""

    side: Any
    cells: Any
    heads: Any
    links: Any


class _Pairs(NamedTuple):
    """The list of each object's others, and how long it is; their nodes; what is told of them; the state."""

    lists: Any
    degrees: Any
    nodes: Any
    found: Any
    state: Any


@kernel
def _cell_of(at, side, cell):
    """Write where a place is along each axis, in cells."""
    for axis in range(SPHERE):
        cell[axis] = int(np.floor(at[axis] / side))


@kernel
def _slot(x, y, z, size):
    return ((x * _MIX_X) ^ (y * _MIX_Y) ^ (z * _MIX_Z)) & (size - 1)


@kernel
def _put(object, places, grid):
    """Put an object at the head of the list of its cell."""
    cell, heads, links = grid.cells[object], grid.heads, grid.links
    _cell_of(places[object], grid.side, cell)
    slot = _slot(cell[0], cell[1], cell[2], heads.size)
    cell[_LIST] = slot
    links[object, 0], links[object, 1] = -1, heads[slot]
    if heads[slot] >= 0:
        links[heads[slot], 0] = object
    heads[slot] = object


@kernel
def _remove(object, grid):
    """Take an object out of the list of its cell."""
    links = grid.links
    before, after = links[object, 0], links[object, 1]
    if before >= 0:
        links[before, 1] = after
    else:
        grid.heads[grid.cells[object, _LIST]] = after
    if after >= 0:
        links[after, 0] = before


@kernel
def _join(one, other, first, pairs):
    """Note that an object is near another one; ``first`` says whether it is the first of the pair."""
    nodes, state = pairs.nodes, pairs.state
    node = state[_FREE]
    if node >= 0:
        state[_FREE] = nodes[node, 0]
    else:
        node = state[_USED]
        state[_USED] += 1
    nodes[node, 0], nodes[node, 1], nodes[node, 2] = pairs.lists[one], other, first
    pairs.lists[one] = node
    pairs.degrees[one] += 1


@kernel
def _part(one, other, pairs):
    """Note that an object is no longer near another one; return whether it was the first of the pair."""
    nodes, state = pairs.nodes, pairs.state
    before, node = -1, pairs.lists[one]
    while nodes[node, 1] != other:
        before, node = node, nodes[node, 0]
    if before >= 0:
        nodes[before, 0] = nodes[node, 0]
    else:
        pairs.lists[one] = nodes[node, 0]
    first = nodes[node, 2]
    nodes[node, 0] = state[_FREE]
    state[_FREE] = node
    pairs.degrees[one] -= 1
    return first


@kernel
def _pair_of(one, other, sides):
    """Return 1 where an object is the first of a pair with another one, 0 where the other is, -1 where it is none."""
    forth = (sides[one] & 1) != 0 and (sides[other] & 2) != 0
    back = (sides[other] & 1) != 0 and (sides[one] & 2) != 0
    if forth and back:
        return 1 if one < other else 0
    return 1 if forth else 0 if back else -1


@kernel
def _are_near(one, other, objects):
    a, b = objects.places[one], objects.places[other]
    if objects.sphere:
        return sphere_distance(a[0], a[1], a[2], b[0], b[1], b[2]) <= objects.metres
    return plane_distance(a[0], a[1], b[0], b[1]) <= objects.metres


@kernel(
    "void(float64[:, ::1], uint8[::1], float64, int64[:, ::1], int64[::1], int64[:, ::1], int64[:, ::1],"
    " int64[::1], int64[::1], int64[:, ::1], int64[::1])"
)
def begin_near(places, sides, side, cells, heads, links, pairs, lists, degrees, nodes, state):
    """Put all objects where they are at first, and note the pairs."""
    grid, noted = _Grid(side, cells, heads, links), _Pairs(lists, degrees, nodes, nodes, state)
    for object in range(places.shape[0]):
        if sides[object]:
            _put(object, places, grid)
    for i in range(pairs.shape[0]):
        _join(pairs[i, 0], pairs[i, 1], 1, noted)
        _join(pairs[i, 1], pairs[i, 0], 0, noted)


@kernel
def _write(row, kind, object, other, first, pairs):
    event = pairs.found[pairs.state[_EVENTS]]
    event[0], event[1] = row, kind
    event[2], event[_SECOND] = (object, other) if first else (other, object)
    pairs.state[_EVENTS] += 1


@kernel
def _leave_others(row, object, objects, pairs, others):
    """Write the pairs of an object that are none any more, by the other object."""
    count, node = 0, pairs.lists[object]
    while node >= 0:
        other = pairs.nodes[node, 1]
        if _pair_of(object, other, objects.sides) < 0 or not _are_near(object, other, objects):
            others[count] = other
            count += 1
        node = pairs.nodes[node, 0]
    others[:count].sort()
    for i in range(count):
        first = _part(object, others[i], pairs)
        _part(others[i], object, pairs)
        _write(row, WENT, object, others[i], first, pairs)


@kernel
def _meet_others(row, object, most, stamp, objects, grid, pairs, others):
    """Write the pairs that an object comes to be in, by the other object, as far as there is room for them."""
    degrees, state, heads, cells = pairs.degrees, pairs.state, grid.heads, grid.cells
    node = pairs.lists[object]
    while node >= 0:
        stamp[pairs.nodes[node, 1]] = row
        node = pairs.nodes[node, 0]
    count, at = 0, cells[object]
    for x in range(at[0] - 1, at[0] + 2):
        for y in range(at[1] - 1, at[1] + 2):
            for z in range(at[2] - 1, at[2] + 2):
                other = heads[_slot(x, y, z, heads.size)]
                while other >= 0:
                    there = cells[other, 0] == x and cells[other, 1] == y and cells[other, 2] == z
                    new = there and other != object and stamp[other] != row
                    if new and _pair_of(object, other, objects.sides) >= 0 and _are_near(object, other, objects):
                        if degrees[object] >= most or degrees[other] >= most:
                            state[_CROWDED] += 1
                        else:
                            others[count] = other
                            count += 1
                    other = grid.links[other, 1]
    others[:count].sort()
    for i in range(count):
        other = others[i]
        if degrees[object] >= most:
            state[_CROWDED] += count - i
            break
        first = _pair_of(object, other, objects.sides)
        _join(object, other, first, pairs)
        _join(other, object, 1 - first, pairs)
        _write(row, CAME, object, other, first, pairs)


@kernel(
    "void(float64[:, ::1], uint8[::1], int64[::1], float64[:, ::1], uint8[::1], float64, float64, boolean, int64,"
    " int64[:, ::1], int64[::1], int64[:, ::1], int64[::1], int64[::1], int64[::1], int64[:, ::1], int64[::1],"
    " int64[:, ::1], int64[::1])"
)
def follow_near(
    places, sides, object, to, to_sides, metres, side, sphere, most, cells, heads, links, lists, degrees, stamp, nodes,
    others, found, state,
):  # fmt: skip
    """Move objects row by row, and write what becomes of pairs, until there is no room for those of a row."""
    objects, grid = _Objects(places, sides, metres, sphere), _Grid(side, cells, heads, links)
    pairs = _Pairs(lists, degrees, nodes, found, state)
    while state[_ROW] < object.size:
        row = state[_ROW]
        if state[_EVENTS] + 2 * most > found.shape[0] or state[_USED] + 2 * most > nodes.shape[0]:
            return
        mine = object[row]
        if sides[mine]:
            _remove(mine, grid)
        sides[mine] = to_sides[row]
        places[mine] = to[row]
        _leave_others(row, mine, objects, pairs, others)
        if sides[mine]:
            _put(mine, places, grid)
            _meet_others(row, mine, most, stamp, objects, grid, pairs, others)
        state[_ROW] = row + 1


@kernel("void(int64[::1], int64[:, ::1], int64[:, ::1])")
def list_near(lists, nodes, out):
    """Write the pairs, each once, by the first object and then by the second."""
    count = 0
    for object in range(lists.size):
        begin, node = count, lists[object]
        while node >= 0:
            if nodes[node, 2]:
                out[count, 0], out[count, 1] = object, nodes[node, 1]
                count += 1
            node = nodes[node, 0]
        out[begin:count, 1].sort()
