"""Rows against an index of subscriptions, some consecutive ones at a time, so that memory has a bound.

Conditions of subscriptions: each distinct text once, on the rows that may match only.

Rows against all that stands: the large index and the small one, as if they were one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.compiled.kernel import operand
from dtoss.conditions.parse import Condition
from dtoss.watch.index.cell_frame import grid_positions
from dtoss.watch.index.large_and_small import Standing
from dtoss.watch.index.subscription_index import NO_TEXT, SubscriptionIndex
from dtoss.watch.matching.exact_pairs import areas_in, held_pairs, recheck_unsure
from dtoss.watch.matching.grid_search import search_grid
from dtoss.watch.matching.matches import Matches, join_pieces, joined, order_by_place, put_back
from dtoss.watch.subscription import ANY_EVENT, COMPLEMENT
from dtoss.watch.watch_settings import Rows

MOST_MATCHES = 1 << 22
"""Matches that are held at a time, unless one row has more."""
_ROWS = 1 << 16
_CROWDED = 4
"""Fewer matches than this share of what may be held at a time let more rows be asked at a time."""
_FILLED = 0.7
"""Of the rows for which there was room: others may have more matches."""


@dataclass(frozen=True)
class Matcher:
    """What holds rows against the subscriptions of an index that are alive."""

    built: SubscriptionIndex
    alive: NDArray[np.bool_]  # bool (n,). Which of its subscriptions count

    def pieces(
        self, rows: Rows, wants: int | NDArray[np.uint8] = ANY_EVENT, most: int = MOST_MATCHES
    ) -> Iterator[Matches]:
        """Yield the matches of consecutive rows, all rows in turn.

        ``wants``: only subscriptions that want one of these events, as bits; for all rows, or uint8 (n,).
        """
        wanted = np.broadcast_to(np.asarray(wants, np.uint8), len(rows))
        begin, size, most = 0, _ROWS, max(most, 1)
        while begin < len(rows):
            end = min(begin + size, len(rows))
            found = self._matched(rows, wanted, begin, end, most)
            if isinstance(found, int):
                size = max(min(found, (end - begin) // 2), 1)
                continue
            yield found
            begin = end
            if len(found) < most // _CROWDED:  # a crowded place is behind
                size = min(2 * size, _ROWS)

    @cached_property
    def _events(self) -> NDArray[np.uint8]:
        """What each subscription that counts wants, as bits; nothing of the others."""
        return np.where(self.alive, self.built.arrays["events"], 0).astype(np.uint8)

    def match(self, rows: Rows, wants: int | NDArray[np.uint8] = ANY_EVENT) -> Matches:
        """Return all matches of rows at once."""
        return join_pieces(0, len(rows), list(self.pieces(rows, wants)))

    def _matched(self, rows: Rows, wants: NDArray[np.uint8], begin: int, end: int, most: int) -> Matches | int:
        """Return the matches of some rows, or how many rows to try if these have more than wanted."""
        some = rows if end - begin == len(rows) else rows.take(np.arange(begin, end))
        events = self._events
        want = operand(wants[begin:end], np.uint8)
        vectors = self.built.space.vectors(some.positions)
        positions = operand(grid_positions(self.built.space, some.positions, vectors))
        placed = self._placed(positions, vectors, want, events, most)
        if isinstance(placed, int):
            return placed
        outside = np.flatnonzero(events & COMPLEMENT).astype(np.int32)
        everywhere = self._everywhere(some, want, events, most, outside)
        if isinstance(everywhere, int):
            return everywhere
        if len(outside):
            lies = (events[placed.subscription] & COMPLEMENT) != 0
            everywhere = [_without(part, placed.take(lies), len(events)) for part in everywhere]
            placed = placed.take(~lies)
        spoken = self._spoken(some, positions, vectors, want, events, most)
        if isinstance(spoken, int):
            return spoken
        if self.built.texts:
            placed = placed.take(holding(self.built, some, placed.row, placed.subscription))
        parts = [placed, *everywhere, *spoken]
        total = sum(len(part) for part in parts)
        if total > most and end - begin > 1:
            return int(_FILLED * (end - begin) * most / total)
        found = joined(0, end - begin, parts)
        row = found.row + begin if begin else found.row
        return Matches(begin, end, row, found.subscription, found.distance)

    def _placed(
        self,
        positions: NDArray[np.float64],
        vectors: NDArray[np.float64],
        want: NDArray[np.uint8],
        events: NDArray[np.uint8],
        most: int,
    ) -> Matches | int:
        """Return the matches of places in the grid, conditions not asked yet, or how many rows would fit."""
        arrays = self.built.arrays
        count = len(positions)
        if len(arrays["grid/marks"]) == 0:
            return joined(0, count, [])
        order = order_by_place(positions)
        room = most
        while True:
            subs, far = np.empty(room, np.int32), np.empty(room)
            ends = np.zeros(count, np.int64)
            came, _ = search_grid(
                order, positions, vectors, want,
                *(arrays[f"grid/{name}"] for name in ("world", "levels", "slots", "places", "marks")),
                events, arrays["radius"], *areas_in(self.built), ends, subs, far,
            )  # fmt: skip
            if came == count:
                break
            if count > 1:
                return int(_FILLED * came)
            room *= 4
        total = int(ends[-1])
        row, subscription, distance = np.empty(total, np.int64), np.empty(total, np.int32), np.empty(total)
        put_back(order, ends, subs, far, np.empty(count, np.int64), row, subscription, distance)
        found = Matches(0, count, row, subscription, distance)
        if len(arrays["polygon/rects"]) == 0:
            return found
        kept = recheck_unsure(self.built, positions, vectors, row, distance)
        if total > 1:
            # the parts of a polygon are places of one subscription
            held = np.flatnonzero(kept)
            again = (row[held][1:] == row[held][:-1]) & (subscription[held][1:] == subscription[held][:-1])
            kept[held[1:][again]] = False
        return found.take(kept)

    def _everywhere(
        self,
        rows: Rows,
        want: NDArray[np.uint8],
        events: NDArray[np.uint8],
        most: int,
        outside: NDArray[np.int32],
    ) -> list[Matches] | int:
        """Return the matches of subscriptions that have neither place nor words, or how many rows would fit.

        ``outside``: int32. Others that are taken for such.
        """
        every = np.concatenate([self.built.arrays["everywhere"], outside])
        every = every[events[every] != 0]
        if len(every) == 0:
            return []
        count = len(rows)
        number = self.built.arrays["where"][every]
        found = []
        total = 0
        for text in np.unique(number).tolist():
            mine = every[number == text]
            held = np.arange(count)
            if text != NO_TEXT:
                held = held[texts_hold(self.built.conditions[text], rows, held)]
            total += len(held) * len(mine)
            if total > most and count > 1:
                return int(count * most / total / 2)
            row, subscription = np.repeat(held, len(mine)), np.tile(mine, len(held))
            wanted = (events[subscription] & want[row]) != 0
            row, subscription = row[wanted], subscription[wanted]
            found.append(Matches(0, count, row, subscription, np.full(len(row), np.nan)))
        return found

    def _spoken(
        self,
        rows: Rows,
        positions: NDArray[np.float64],
        vectors: NDArray[np.float64],
        want: NDArray[np.uint8],
        events: NDArray[np.uint8],
        most: int,
    ) -> list[Matches] | int:
        """Return the matches of subscriptions that have words, or how many rows would fit."""
        spoken = self.built.arrays.get("spoken")
        if spoken is None or rows.text is None or not (events[spoken] != 0).any():
            return []
        from dtoss.watch.index.word_index import vocabulary_in
        from dtoss.watch.matching.word_match import as_worded, candidate_pieces
        from dtoss.watch.words.messages import messages_of

        index = as_worded(self.built.worded)
        messages = messages_of(vocabulary_in(index), rows.text)
        found, total = [], 0
        for piece in candidate_pieces(index, positions, messages, most):
            total += len(piece.row)
            if total > most and len(rows) > 1:
                return int(_FILLED * piece.first_row)
            subscription = np.ascontiguousarray(spoken[piece.subscription])
            wanted = (events[subscription] & want[piece.row]) != 0
            row, subscription = np.ascontiguousarray(piece.row[wanted]), np.ascontiguousarray(subscription[wanted])
            held, far = held_pairs(self.built, positions, vectors, row, subscription)
            mine = Matches(0, len(rows), row[held], subscription[held], far[held])
            found.append(mine.take(holding(self.built, rows, mine.row, mine.subscription)))
        return found


def _without(found: Matches, others: Matches, subscriptions: int) -> Matches:
    """Return matches without those that others are too."""
    keys, gone = (one.row * subscriptions + one.subscription for one in (found, others))
    return found.take(~np.isin(keys, gone))


def texts_hold(condition: Condition, rows: Rows, chosen: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which of the chosen rows a condition holds for.

    A row for which it cannot be computed, such as a cast of a text that is no number, does not match, and the others
    are not harmed by it.

    Costs one evaluation where all rows can be computed; else, of d rows that differ in what it reads, k of which
    cannot, O(k log d) evaluations.
    """
    if len(chosen) == 0:
        return np.zeros(0, np.bool_)
    columns = {name: _column(rows, name).take(pa.array(chosen)) for name in condition.columns}
    try:
        return condition.matches(columns.__getitem__, len(chosen))
    except ValueError:
        first, back = _differing(columns, len(chosen))
        some = {name: column.take(pa.array(first)) for name, column in columns.items()}
        return _held_in_halves(condition, some, len(first))[back]


def _column(rows: Rows, name: str) -> pa.Array:
    whole = rows.ids if name == "id" and name not in rows.attributes else rows.attributes[name]
    assert whole is not None
    return whole


def _differing(columns: dict[str, pa.Array], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first row of each combination of values, and the number of the combination of each row."""
    number, first = np.zeros(count, np.int64), np.zeros(1, np.int64)
    for column in columns.values():
        coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        code = coded.indices.cast(pa.int64()).fill_null(-1).to_numpy() + 1
        number = number * (len(coded.dictionary) + 1) + code
        _, first, number = np.unique(number, return_index=True, return_inverse=True)
    return first, number


def _held_in_halves(condition: Condition, columns: dict[str, pa.Array], count: int) -> NDArray[np.bool_]:
    try:
        return condition.matches(columns.__getitem__, count)
    except ValueError:
        if count == 1:
            return np.zeros(1, np.bool_)
    half = count // 2
    parts = ((0, half), (half, count - half))
    return np.concatenate(
        [
            _held_in_halves(condition, {name: column.slice(begin, size) for name, column in columns.items()}, size)
            for begin, size in parts
        ]
    )


def holding(
    built: SubscriptionIndex, rows: Rows, row: NDArray[np.int64], subscription: NDArray[np.int32]
) -> NDArray[np.bool_]:
    """Return which pairs of a row and a subscription satisfy the subscription's condition, if it has one, bool (m,).

    Cost O(m log m), and each text once for the rows that may match.
    """
    number = built.arrays["where"][subscription]
    asked = np.flatnonzero(number != NO_TEXT)
    kept = np.ones(len(row), np.bool_)
    if len(asked) == 0:
        return kept
    order = asked[np.argsort(number[asked], kind="stable")]
    texts, first = np.unique(number[order], return_index=True)
    for text, pairs in zip(texts.tolist(), np.split(order, first[1:]), strict=True):
        chosen, back = np.unique(row[pairs], return_inverse=True)
        kept[pairs] = texts_hold(built.conditions[text], rows, chosen)[back]
    return kept


@dataclass(frozen=True)
class StandingMatcher:
    """What holds rows against the subscriptions that are alive."""

    standing: Standing
    alive: NDArray[np.bool_]  # bool (n,). Which of it count

    def pieces(
        self, rows: Rows, wants: int | NDArray[np.uint8] = ANY_EVENT, most: int = MOST_MATCHES
    ) -> Iterator[Matches]:
        """Yield the matches of consecutive rows, as :meth:`Matcher.pieces`; subscriptions are numbered as the table."""
        matchers = [
            (first, Matcher(built, self.alive[first : first + len(built)])) for first, built in self.standing.parts
        ]
        if not matchers:
            yield joined(0, len(rows), [])
            return
        wanted = np.broadcast_to(np.asarray(wants, np.uint8), len(rows))
        _, large = matchers[0]
        for piece in large.pieces(rows, wanted, most):
            if len(matchers) == 1:
                yield piece
                continue
            begin = piece.first_row
            first, small = matchers[1]
            some = rows.take(np.arange(begin, piece.last_row))
            for few in small.pieces(some, wanted[begin : piece.last_row], most):
                last = begin + few.last_row
                numbers = (few.subscription + first).astype(np.int32)
                mine = Matches(begin + few.first_row, last, few.row + begin, numbers, few.distance)
                yield joined(mine.first_row, last, [piece.between(mine.first_row, last), mine])

    def match(self, rows: Rows, wants: int | NDArray[np.uint8] = ANY_EVENT) -> Matches:
        """Return all matches of rows at once."""
        return join_pieces(0, len(rows), list(self.pieces(rows, wants)))
