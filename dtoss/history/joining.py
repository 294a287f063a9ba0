"""Many places at once, each with a radius and an interval of its own: which rows are near them, or nearest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.commits.folder import LocalFolder
from dtoss.conditions.parse import Condition, parse_condition
from dtoss.history.blocks import BY_PLACE, BY_TIME, Blocks, joined
from dtoss.history.latest import order_keys
from dtoss.history.meeting import Asked, Slice, answers, guessed, touched
from dtoss.history.reading import Reads, ranges_of, read_blocks
from dtoss.history.rows import t_numbers
from dtoss.history.schema import Schema
from dtoss.history.versions import Home, Version

READ_ROWS = 262_144
"""Rows of the blocks that are read at a time, about."""
MOST_HELD = 4_000_000
"""Rows held for several places above which they are asked in halves."""
_NEAR_REQUEST, _FAR_REQUEST = 50_000, 1_000_000
"""Bytes that could be read in the time of one request, on a local disk and elsewhere."""
_GROWTH = 4.0
"""Times which a radius grows where nothing was found within."""
_SURPLUS, _ROWS_AN_OBJECT = 2.0, 8.0
"""Rows that are looked for, for one that is wanted: of rows, and of objects, which stand there for a while."""
_ROUNDS = 8
"""Of growing radii, after which everything is asked."""

Piece = tuple[str, Blocks]
"""Blocks of one file, by its name."""


@dataclass(frozen=True)
class Wanted:
    """What is wanted of the rows near places.

    Parameters
    ----------
    k
        The k nearest; 0 for all.
    per_object
        Of each id the nearest row only.
    columns
        Attributes that come along.
    condition
        That rows have to satisfy, or None.
    own
        The id of each place, whose rows are left out; None where none is.
    """

    k: int = 0
    per_object: bool = False
    columns: tuple[str, ...] = ()
    condition: Condition | None = None
    own: pa.Array | None = None


@dataclass(frozen=True)
class Near:
    """Rows that answer, in the order (place, distance, id, t, all else).

    Parameters
    ----------
    place
        int64 (h,). The number of the place.
    distance
        float64 (h,).
    rows
        id, t, x, y, and the attributes that were wanted.
    """

    place: NDArray[np.int64]
    distance: NDArray[np.float64]
    rows: pa.Table

    def __len__(self) -> int:
        return len(self.place)

    def take(self, rows: NDArray[Any]) -> Near:
        """Return some of them, by a mask or numbers."""
        if rows.dtype == np.bool_:
            rows = np.flatnonzero(rows)
        return Near(self.place[rows], self.distance[rows], self.rows.take(pa.array(rows)))


def near(home: Home, version: Version, asked: Asked, wanted: Wanted, reads: Reads | None = None) -> Iterator[Near]:
    """Yield the rows that answer places, some places at a time, each place once and whole.

    Parameters
    ----------
    home, version
        The history. Deletions are no rows.
    asked
        Places with their radii and intervals, best neighbours together: their blocks are read once.
    wanted
        What of the rows.
    reads
        Counts what was read.

    Raises
    ------
    StoreError
        If a file is gone or damaged.
    ValueError
        If arithmetic in the condition overflows.

    Notes
    -----
    Of each period the order is read that costs least. The answers are the same whatever the order, and whatever radius
    is guessed for the nearest.
    """
    waiting = [np.arange(len(asked))]
    while waiting:
        some = waiting.pop()
        part = replace(wanted, own=None if wanted.own is None else wanted.own.take(pa.array(some)))
        search = _Search(home, version, part, reads)
        found = search.within(asked.take(some)) if not wanted.k else search.nearest(asked.take(some))
        if found is None:
            half = len(some) // 2
            waiting += [some[half:], some[:half]]
        else:
            yield replace(found, place=some[found.place])


@dataclass(frozen=True)
class _Search:
    home: Home
    version: Version
    wanted: Wanted
    reads: Reads | None

    def within(self, asked: Asked) -> Near | None:
        """Return all rows within the radii; None where they are too many for several places."""
        held: list[Near] = []
        count = 0
        for found in self._found(asked):
            held.append(found)
            count += len(found)
            if count > MOST_HELD:
                held = [self._kept(held)]
                count = len(held[0])
                if count > MOST_HELD and len(asked) > 1:
                    return None
        return self._kept(held)

    def nearest(self, asked: Asked) -> Near:
        """Return the k nearest rows or objects within the radii."""
        done: list[Near] = []
        left = np.arange(len(asked))
        guess = self._guessed(asked)
        for turn in range(_ROUNDS + 1):
            radius = asked.radius[left] if turn == _ROUNDS else np.minimum(guess[left], asked.radius[left])
            part = replace(self.wanted, own=None if self.wanted.own is None else self.wanted.own.take(pa.array(left)))
            found = replace(self, wanted=part)._nearest_within(replace(asked.take(left), radius=radius))
            count = np.bincount(found.place, minlength=len(left))
            enough = (count >= self.wanted.k) | (radius >= asked.radius[left])
            done.append(replace(found.take(enough[found.place]), place=left[found.place[enough[found.place]]]))
            missing = self.wanted.k / np.maximum(count, 0.5)
            guess[left] *= np.clip(np.sqrt(2.0 * missing), 2.0, _GROWTH * self.wanted.k)
            left = left[~enough]
            if not len(left):
                break
        return self._sorted(_joined(done))

    def _nearest_within(self, asked: Asked) -> Near:
        held = self._nothing()
        radius = asked.radius.copy()
        for found in self._found(asked, radius):
            held = self._kept([held, found])
            count = np.bincount(held.place, minlength=len(radius))
            full = np.flatnonzero(count >= self.wanted.k)
            # of each place that has k, what is further than the last of them is no answer
            ends = np.cumsum(count)[full] - 1
            radius[full] = np.minimum(radius[full], held.distance[ends])
        return held

    def _found(self, asked: Asked, radius: NDArray[np.float64] | None = None) -> Iterator[Near]:
        """Yield rows within the radii, which may shrink meanwhile."""
        schema, condition = self.version.schema, self.wanted.condition
        names = ["id", "t", "x", "y", *self.wanted.columns]
        needed = {*names, "deleted"}
        if condition is not None:
            needed |= {stored_name(name, schema) for name in condition.columns}
        for name, blocks in pieces_of(self.version, asked, request_bytes(self.home, self.version)):
            for begin, end in cuts(blocks.rows, READ_ROWS):
                some = blocks.part(begin, end)
                rows = read_blocks(self.home, name, some, schema, sorted(needed), self.reads)
                counts = ~rows.column("deleted").to_numpy(zero_copy_only=False)
                if condition is not None:
                    counts &= satisfying(condition, rows, schema)
                part = Slice.of(rows, some, t_numbers(rows.column("t")), counts, schema.space)
                now = asked if radius is None else replace(asked, radius=radius)
                place, row, far = answers(part, some, now)
                found = Near(place.astype(np.int64), far, rows.select(names).take(pa.array(row)))
                yield found if self.wanted.own is None else self._of_others(found, self.wanted.own)

    def _of_others(self, found: Near, own: pa.Array) -> Near:
        import pyarrow.compute as pc

        mine = own.take(pa.array(found.place)).cast(found.rows.schema.field("id").type)
        same = pc.fill_null(pc.equal(found.rows.column("id").combine_chunks(), mine), False)
        return found.take(~same.to_numpy(zero_copy_only=False))

    def _kept(self, parts: Sequence[Near]) -> Near:
        """Return what is wanted of rows, in order."""
        found = self._sorted(_joined([self._nothing(), *parts]))
        if self.wanted.per_object and len(found):
            # rows of an object are not side by side: they lie by their distance
            ids = order_keys(found.rows.column("id").combine_chunks())
            by = np.lexsort((np.arange(len(found)), ids, found.place))
            again = (ids[by[1:]] == ids[by[:-1]]) & (found.place[by[1:]] == found.place[by[:-1]])
            found = found.take(np.sort(by[np.append(True, ~again)]))
        if self.wanted.k and len(found):
            first = np.searchsorted(found.place, found.place)
            found = found.take(np.arange(len(found)) - first < self.wanted.k)
        return found

    def _sorted(self, found: Near) -> Near:
        return found.take(_order(found))

    def _nothing(self) -> Near:
        names = ["id", "t", "x", "y", *self.wanted.columns]
        schema = pa.schema([self.version.schema.arrow.field(name) for name in names])
        return Near(np.zeros(0, np.int64), np.zeros(0), schema.empty_table())

    def _guessed(self, asked: Asked) -> NDArray[np.float64]:
        leaves = self.version.leaves
        periods = self.version.periods
        placed = np.isin(leaves.period, periods.number[periods.orders >> BY_PLACE & 1 == 1])
        leaves = leaves.take(leaves.order == np.where(placed, BY_PLACE, BY_TIME))
        rows = self.wanted.k * (_ROWS_AN_OBJECT if self.wanted.per_object else _SURPLUS)
        return guessed(leaves, leaves.rows, asked, rows, self.version.schema.space)


def pieces_of(version: Version, asked: Asked, request: float) -> list[Piece]:
    """Return the blocks that may hold answers, file by file: of each period in the order in which that costs least.

    Parameters
    ----------
    version
        Of the history.
    asked
        The places.
    request
        Bytes that could be read in the time of one request.
    """
    leaves, names = version.leaves, version.files.name
    found: dict[tuple[int, int], dict[str, list[Blocks]]] = defaultdict(lambda: defaultdict(list))
    concerned = np.isin(leaves.order, (BY_TIME, BY_PLACE)) & touched(leaves, asked)
    for leaf in np.flatnonzero(concerned).tolist():
        blocks = version.blocks(leaf)
        hit = np.flatnonzero(touched(blocks, asked))
        if len(hit):
            name = names[leaves.file[leaf]]
            found[int(leaves.period[leaf]), int(leaves.order[leaf])][name].append(blocks.take(hit))
    made = {key: [(name, _in_order(parts)) for name, parts in files.items()] for key, files in found.items()}
    best: list[Piece] = []
    for period, orders in zip(version.periods.number.tolist(), version.periods.orders.tolist(), strict=True):
        there = [order for order in (BY_TIME, BY_PLACE) if orders >> order & 1]
        # where none of an order's blocks is concerned, the period has no answer
        ways: list[list[Piece]] = [made.get((period, order), []) for order in there]
        cheapest: list[Piece] = min(ways, key=lambda way: cost_of(way, request))
        best += cheapest
    return best


def _in_order(parts: list[Blocks]) -> Blocks:
    blocks = joined(parts)
    return blocks.take(np.argsort(blocks.row_group, kind="stable"))


def cost_of(pieces: list[Piece], request: float) -> float:
    """Return bytes and requests of reading blocks, in bytes."""
    spans = [ranges_of(blocks) for _, blocks in pieces]
    return float(sum(size + request for some in spans for _, size in some))


def _joined(parts: Sequence[Near]) -> Near:
    return Near(
        np.concatenate([part.place for part in parts]),
        np.concatenate([part.distance for part in parts]),
        pa.concat_tables([part.rows for part in parts]).combine_chunks(),
    )


def _order(found: Near) -> NDArray[np.int64]:
    """Return the numbers of rows in the order (place, distance, id, t, all else), int64 (h,)."""
    rows = found.rows
    ids, t = (order_keys(rows.column(name).combine_chunks()) for name in ("id", "t"))
    keys = (found.place, found.distance, ids, t)
    by = np.lexsort(keys[::-1]).astype(np.int64)
    equal = np.ones(max(len(by) - 1, 0), np.bool_)
    for key in keys:
        equal &= key[by[1:]] == key[by[:-1]]
    if equal.any():
        tied = np.flatnonzero(np.append(equal, False) | np.append(False, equal))
        group = np.cumsum(np.append(True, ~equal))[tied]
        some = rows.take(pa.array(by[tied]))
        rest = [order_keys(some.column(name).combine_chunks()) for name in rows.column_names[2:]]
        by[tied] = by[tied[np.lexsort((*reversed(rest), group))]]
    return by


def request_bytes(home: Home, version: Version) -> float:
    """Return how many bytes could be read in the time of one request."""
    usual = _NEAR_REQUEST if isinstance(home.folder, LocalFolder) else _FAR_REQUEST
    return float(version.options.get("request_bytes") or usual)


def cuts(rows: NDArray[Any], most: int) -> list[tuple[int, int]]:
    """Return runs of blocks, as first and end, of about so many rows each.

    Examples
    --------
    >>> cuts(np.array([4, 4, 4, 1]), 8), cuts(np.array([], int), 8)
    ([(0, 2), (2, 4)], [])
    """
    if not len(rows):
        return []
    turn = (np.cumsum(rows, dtype=np.int64) - 1) // most
    firsts = np.flatnonzero(np.diff(turn, prepend=-1))
    return list(zip(firsts.tolist(), [*firsts[1:].tolist(), len(rows)], strict=True))


def satisfying(condition: Condition, rows: pa.Table, schema: Schema) -> NDArray[np.bool_]:
    """Return which rows satisfy a condition, bool (n,).

    Raises
    ------
    ValueError
        If arithmetic in it overflows.
    """
    return condition.matches(lambda name: rows.column(stored_name(name, schema)).combine_chunks(), len(rows))


def condition_on(schema: Schema, where: str) -> Condition:
    """Return a condition on the rows of a history: on their attributes, id, t and positions.

    Raises
    ------
    ValueError
        If it is none, or names another column.
    """
    own = {name: schema.arrow.field(name).type for name in ("id", "t")}
    return parse_condition(where, {**schema.attributes, **own, **dict.fromkeys(schema.position_names, pa.float64())})


def stored_name(name: str, schema: Schema) -> str:
    """Return how a table of rows calls a column that answers call otherwise: a coordinate."""
    return dict(zip(schema.position_names, ("x", "y"), strict=True)).get(name, name)
