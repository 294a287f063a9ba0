"""Which places are met on the straight way from a row of an object to its next one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dtoss.compiled.kernel import operand
from dtoss.geometry.rect_tree import count_met, list_met
from dtoss.geometry.space import Space
from dtoss.geometry.ways import LEFT_OPEN, meet_sides, share_exactly
from dtoss.watch.index.cell_frame import grid_positions
from dtoss.watch.index.covers import arc_rects
from dtoss.watch.index.large_and_small import Standing
from dtoss.watch.index.place_sides import Sides, sides_of, split_at_seam
from dtoss.watch.index.subscription_index import SubscriptionIndex
from dtoss.watch.matching.matcher import MOST_MATCHES, holding
from dtoss.watch.matching.matches import Matches, joined
from dtoss.watch.subscription import CROSS
from dtoss.watch.watch_settings import Rows

_Places = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Places by their coordinates, in degrees on the sphere, and as vectors."""


def crossing_pieces(
    standing: Standing,
    alive: NDArray[np.bool_],
    rows: Rows,
    moved: NDArray[np.int64],
    piece: Matches,
    most: int = MOST_MATCHES,
) -> Iterator[tuple[Matches, Matches]]:
    """Yield the matches of consecutive rows, and what is met on the ways to the same rows.

    Of what is met the distance is how far along the way it is, a share from 0 to 1. The condition holds for both ends;
    whether one of them lies in the place is not looked at. ``moved``: int64 (m,), rising. The rows; the way to each
    begins at the row before it; ``most``: sides that are looked at for some rows, unless one row needs more.

    Cost O(m log k + pairs) for k sides of places.
    """
    waiting = [piece]
    while waiting:
        one = waiting.pop()
        begin, end = np.searchsorted(moved, [one.first_row, one.last_row])
        looks = _looks(standing, alive, rows, moved[begin:end])
        if end - begin > 1 and sum(int(look.counts.sum()) for look in looks) > most:
            middle = int(moved[(begin + end) // 2])
            waiting += [one.between(middle, one.last_row), one.between(one.first_row, middle)]
            continue
        yield one, joined(one.first_row, one.last_row, [_find_crosses(look, rows) for look in looks])


@dataclass(frozen=True)
class _Look:
    """Ways that are held against the sides of an index."""

    built: SubscriptionIndex
    first: int  # The number of its first subscription
    wanted: NDArray[np.bool_]  # bool (n,). Which of its subscriptions count
    moved: NDArray[np.int64]  # int64 (m,). The rows to which the ways lead
    begins: _Places
    ends: _Places
    asked: NDArray[np.float64]  # float64 (r, 4). Rectangles that hold the ways, two of one across the antimeridian
    way: NDArray[np.int64]  # int64 (r,). Whose each is
    counts: NDArray[np.int64]  # int64 (r,). How many rectangles of sides each meets


def _looks(standing: Standing, alive: NDArray[np.bool_], rows: Rows, moved: NDArray[np.int64]) -> list[_Look]:
    found = []
    for first, built in standing.parts:
        wanted = alive[first : first + len(built)] & ((built.arrays["events"] & CROSS) != 0)
        if len(moved) and wanted.any():
            begins, ends = (_places(built.space, rows, at) for at in (moved - 1, moved))
            asked, way = split_at_seam(_way_rects(built.space, begins, ends))
            counts = count_met(sides_of(built).tree[0], asked)
            found.append(_Look(built, first, wanted, moved, begins, ends, asked, way, counts))
    return found


def _find_crosses(look: _Look, rows: Rows) -> Matches:
    sides = sides_of(look.built)
    tree, whose = sides.tree
    pair, side = np.repeat(look.way, look.counts), whose[list_met(tree, look.asked, look.counts)]
    kept = np.flatnonzero(look.wanted[sides.owner[side]])
    pair, side = pair[kept], side[kept]
    share = _shares(sides, look.begins, look.ends, pair, side)
    met = np.flatnonzero(share >= 0.0)
    number, owner, share = pair[met], sides.owner[side[met]], share[met]
    # of a place's sides the one that is met first
    order = np.lexsort((share, owner, number))
    number, owner, share = number[order], owner[order], share[order]
    fresh = np.ones(len(number), np.bool_)
    fresh[1:] = (number[1:] != number[:-1]) | (owner[1:] != owner[:-1])
    row, subscription = look.moved[number[fresh]], owner[fresh]
    found = Matches(0, len(rows), row, subscription, share[fresh])
    if look.built.texts:
        for ago in (0, 1):
            found = found.take(holding(look.built, rows, found.row - ago, found.subscription))
    return replace(found, subscription=(found.subscription + look.first).astype(np.int32))


def _places(space: Space, rows: Rows, at: NDArray[np.int64]) -> _Places:
    positions = operand(rows.positions[at])
    vectors = space.vectors(positions)
    return operand(grid_positions(space, positions, vectors)), operand(vectors)


def _way_rects(space: Space, begins: _Places, ends: _Places) -> NDArray[np.float64]:
    if space.metric == "sphere":
        return arc_rects(begins[1], ends[1])
    low, high = np.minimum(begins[0], ends[0]), np.maximum(begins[0], ends[0])
    return np.concatenate([low, high], axis=1)


def _shares(
    sides: Sides, begins: _Places, ends: _Places, way: NDArray[np.int64], side: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return how far along each way a side is met, float64 (pairs,); less than 0 where it is not."""
    found = np.empty(len(way))
    meet_sides(begins[0], ends[0], begins[1], ends[1], operand(way), operand(side), sides.kind, sides.facts, found)
    for at in np.flatnonzero(found == LEFT_OPEN).tolist():
        one, other = way[at], side[at]
        found[at] = share_exactly(
            tuple(begins[0][one]), tuple(ends[0][one]), int(sides.kind[other]), sides.facts[other]
        )
    return found
