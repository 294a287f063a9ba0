"""The Voronoi diagram of one set of sites as arrays, and its graph made symmetric."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.compiled.kernel import kernel

PIECE = 16_384
"""Sites cut in one go: always the same pieces, so that the result does not depend on the number of threads."""


@dataclass(frozen=True, slots=True)
class Diagram:
    """The diagram of n sites in curve order, as flat arrays."""

    first: NDArray[np.int32]  # int32 (n + 1,). The neighbours of site i are ``neighbours[first[i]:first[i + 1]]``
    # int32. For each site, counter-clockwise from the least number on, the sites whose cells share an edge with its
    # own. Symmetric: an edge that rounding shows to one side only is listed by both, at the end
    neighbours: NDArray[np.int32]
    # float64 (n,). Square CRS units in the plane (clipped to the bounds), steradians on the sphere
    area: NDArray[np.float64]
    # float64 (n,). Distance from the site to the furthest vertex of its cell: chord on the sphere
    radius: NDArray[np.float64]
    rim: NDArray[np.bool_]  # bool (n,). The cell reaches the bounds (plane), or 80 degrees from its site (sphere)
    # bool (n,). So wide that rounding of an edge does not reach far (``dtoss/cells/cell_kernel.py``); never on the rim
    compact: NDArray[np.bool_]


@kernel("Tuple((int32[::1], int32[::1]))(int32[::1], int32[::1], int32[::1], int32[::1])")
def renumber(first, neighbours, to_old, to_new):
    """Return a graph by other numbers: its site i is site ``to_old[i]`` of the one that is given."""
    n = to_old.size
    new_first = np.empty(n + 1, np.int32)
    new_neighbours = np.empty(neighbours.size, np.int32)
    at = 0
    for i in range(n):
        new_first[i] = at
        old = to_old[i]
        for t in range(first[old], first[old + 1]):
            new_neighbours[at] = to_new[neighbours[t]]
            at += 1
    new_first[n] = at
    return new_first, new_neighbours


@kernel("int64(int32[::1], int32[::1], uint8[::1], int64, int64, int32[:, ::1])")
def _one_sided(first, neighbours, doubt, begin, end, edges):
    """Count the edges that only one end lists, of those that ``begin:end`` list and that have an end in doubt.

    Those for which there is room are written to ``edges``: the end that lists it, and the other.
    """
    count = 0
    for i in range(begin, end):
        for t in range(first[i], first[i + 1]):
            j = neighbours[t]
            if doubt[i] == 0 and doubt[j] == 0:
                continue
            found = False
            for s in range(first[j], first[j + 1]):
                if neighbours[s] == i:
                    found = True
                    break
            if not found:
                if count < edges.shape[0]:
                    edges[count, 0], edges[count, 1] = i, j
                count += 1
    return count


@kernel("void(int32[::1], int32[::1], int32[::1], int32[::1])")
def _insert(first, room, source, target):
    """Add ``source`` to the lists of ``target``, which is sorted, in place."""
    n = first.size - 1
    added = target.size
    end = first[n]
    for i in range(n - 1, -1, -1):
        begin = first[i]
        first[i + 1] = end + added
        while added > 0 and target[added - 1] == i:
            added -= 1
            room[end + added] = source[added]
        if added == 0:
            return
        for t in range(end - 1, begin - 1, -1):
            room[t + added] = room[t]
        end = begin


def symmetric(
    first: NDArray[np.int32],
    neighbours: NDArray[np.int32],
    doubt: NDArray[np.uint8] | None = None,
    room: NDArray[np.int32] | None = None,
    over: Callable[..., Any] = map,
    piece: int = PIECE,
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the graph with each edge that one end lists listed by both; added ones stand last. Cost O(edges).

    Only edges with an end in ``doubt`` are looked at; all when None. Where ``room`` is given, ``neighbours`` are its
    beginning, and edges are added in place if there is room for them. ``over`` may be the map of a pool of threads,
    each of which looks at a ``piece`` of the sites at a time.
    """
    n = len(first) - 1
    doubt = np.ones(n, np.uint8) if doubt is None else doubt

    def one_sided(begin: int) -> NDArray[np.int32]:
        end = min(begin + piece, n)
        edges = np.empty((64, 2), np.int32)
        count = _one_sided(first, neighbours, doubt, begin, end, edges)
        if count > len(edges):
            edges = np.empty((count, 2), np.int32)
            _one_sided(first, neighbours, doubt, begin, end, edges)
        return edges[:count]

    missing = np.concatenate([np.empty((0, 2), np.int32), *over(one_sided, range(0, n, piece))])
    if len(missing) == 0:
        return first, neighbours
    source, target = missing[np.lexsort(missing.T)].T
    total = len(neighbours) + len(missing)
    if room is None or len(room) < total:
        first, room = first.copy(), np.concatenate([neighbours, np.empty(len(missing), np.int32)])
    _insert(first, room, np.ascontiguousarray(source), np.ascontiguousarray(target))
    return first, room[:total]
