"""What was asked of a history: shapes and intervals, nobody's name; by it the layout adapts."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

HALVED_AFTER = 200
"""Questions after which the weight of one is half of what it was: T of the paper's section 4.2.4."""
REMEMBERED = 4096
"""Questions that are remembered: the weight of an older one is below a millionth."""

_PLAIN: tuple[str, ...] = ("number", "kind", "version", "ids", "first", "last")


@dataclass(frozen=True)
class Questions:
    """Questions, oldest first; of m questions and p pieces.

    A piece is all places nearer than ``reach`` to a box of vectors: a disc is a box without extent, a box has no reach.
    A question without pieces asks about everywhere.
    """

    number: NDArray[np.int64]  # int64 (m,), ascending. The first question ever asked is 1
    kind: NDArray[np.int8]  # int8 (m,). Its place in :data:`dtoss.history.query.explain.QUESTIONS`
    version: NDArray[np.int64]  # int64 (m,). Of the history, which it read
    ids: NDArray[np.int32]  # int32 (m,). How many objects it was about; 0 where about all
    first: NDArray[np.float64]  # first, last: float64 (m,). Its interval as times are stored; both ends belong to it
    last: NDArray[np.float64]
    begin: NDArray[np.int64]  # int64 (m + 1,). Where the pieces of each begin
    low: NDArray[np.float64]  # low, high: float64 (p, dimension). The boxes of the pieces
    high: NDArray[np.float64]
    reach: NDArray[np.float64]  # float64 (p,). A distance of vectors

    def __len__(self) -> int:
        return len(self.number)

    def take(self, rows: NDArray[np.int64]) -> Questions:
        """Return some of them, by ascending numbers of rows; O(pieces)."""
        count = np.diff(self.begin)[rows]
        begin = np.append(0, np.cumsum(count)).astype(np.int64)
        pieces = np.repeat(self.begin[:-1][rows] - begin[:-1], count) + np.arange(begin[-1])
        number, kind, version, ids, first, last = (getattr(self, name)[rows] for name in _PLAIN)
        return Questions(
            number, kind, version, ids, first, last, begin, self.low[pieces], self.high[pieces], self.reach[pieces]
        )

    def numbered(self, after: int) -> Questions:
        """Return them with the numbers that follow one."""
        number = after + 1 + np.arange(len(self), dtype=np.int64)
        return replace(self, number=number)

    def weights(self) -> NDArray[np.float64]:
        """Return what each counts, float64 (m,): 1 for the newest, half of it :data:`HALVED_AFTER` questions before."""
        if not len(self):
            return np.zeros(0)
        return np.asarray(0.5 ** ((self.number[-1] - self.number) / HALVED_AFTER))

    def as_table(self) -> pa.Table:
        """Return a table of a row for each question; its pieces are lists of coordinates."""
        lists = {}
        for side in ("low", "high"):
            values = getattr(self, side)
            width = values.shape[1]
            offsets = pa.array(self.begin * width, pa.int32())
            lists[side] = pa.ListArray.from_arrays(offsets, pa.array(values.reshape(-1)))
        lists["reach"] = pa.ListArray.from_arrays(pa.array(self.begin, pa.int32()), pa.array(self.reach))
        plain = {name: pa.array(getattr(self, name)) for name in _PLAIN}
        return pa.table(plain | lists)

    @classmethod
    def of_table(cls, table: pa.Table, dimension: int) -> Questions:
        """Return the questions of a table."""
        try:
            plain = [table.column(name).to_numpy() for name in _PLAIN]
            reaches = table.column("reach").combine_chunks()
            sides = [table.column(side).combine_chunks().flatten().to_numpy() for side in ("low", "high")]
        except (KeyError, pa.ArrowInvalid, AttributeError) as error:
            raise ValueError(f"that is no table of questions: {error}") from None
        flat = reaches.flatten().to_numpy()
        begin = np.append(0, np.cumsum(reaches.value_lengths().to_numpy())).astype(np.int64)
        if any(len(side) != dimension * len(flat) for side in sides) or begin[-1] != len(flat):
            raise ValueError(f"that is no table of questions in {dimension} dimensions")
        low, high = (side.reshape(-1, dimension).astype(np.float64) for side in sides)
        number, kind, version, ids, first, last = plain
        return cls(number, kind, version, ids, first, last, begin, low, high, flat.astype(np.float64))


def no_questions(dimension: int) -> Questions:
    """Return none."""
    none, boxes = np.zeros(0), np.zeros((0, dimension))
    whole, kinds, ids = np.zeros(0, np.int64), np.zeros(0, np.int8), np.zeros(0, np.int32)
    return Questions(whole, kinds, whole, ids, none, none, np.zeros(1, np.int64), boxes, boxes, none)


def joined_questions(parts: list[Questions]) -> Questions:
    """Return several as one, in the order given; at least one part is wanted."""
    count = np.concatenate([np.diff(part.begin) for part in parts])
    begin = np.append(0, np.cumsum(count)).astype(np.int64)
    columns = {
        part.name: np.concatenate([getattr(one, part.name) for one in parts])
        for part in fields(Questions)
        if part.name != "begin"
    }
    return Questions(begin=begin, **columns)
