"""Messages against an index of subscriptions with words: whose words say what is asked, near enough by rectangle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoss.compiled.kernel import operand
from dtoss.watch.index.word_index import WordIndex, bits_of
from dtoss.watch.matching.word_kernel import MOST_LOOKS, WORD_LOOKS, find_spoken
from dtoss.watch.words.messages import Messages

_ROOM = 1 << 16
_ROOM_A_ROW = 4


class Piece(NamedTuple):
    """What consecutive messages match."""

    first_row: int  # first_row, last_row: the messages: the first, and the one after the last
    last_row: int
    row: NDArray[np.int64]  # int64 (m,). Of each pair, rising
    subscription: NDArray[np.int32]  # int32 (m,). Of each pair, rising for each row


def as_worded(worded: WordIndex | Mapping[str, NDArray[Any]]) -> WordIndex:
    """Return an index of its arrays by name."""
    if isinstance(worded, WordIndex):
        return worded
    return WordIndex(*(worded[name] for name in WordIndex._fields))


def candidate_pieces(
    worded: WordIndex, positions: NDArray[np.float64], messages: Messages, most: int = 1 << 22
) -> Iterator[Piece]:
    """Yield the pairs of a message and a subscription whose formula and rectangle hold it, in turn.

    ``positions``: float64 (n, 2).
    """
    size = len(positions)
    where = operand(positions, np.float64)
    asked = (
        worded.covers, worded.code, worded.phrase, worded.phrases, worded.places, worded.marks, worded.heads,
        worded.table, worded.sift, worded.world, worded.levels,
    )  # fmt: skip
    bits, cells = bits_of(len(worded.heads) - 1), np.empty(len(worded.levels), np.int64)
    looks, ends = np.empty((MOST_LOOKS, WORD_LOOKS), np.int64), np.empty(size, np.int64)
    usual = room = max(min(max(_ROOM, _ROOM_A_ROW * size), most), 1)
    begin = 0
    while begin < size:
        out = np.empty(room, np.int64)
        tried = where if room == usual else where[: begin + 1]
        end = find_spoken(begin, tried, *messages, *asked, bits, cells, looks, ends, out)
        if end == begin:
            room *= 2
            continue
        mine = ends[begin:end]
        row = np.repeat(np.arange(begin, end), np.diff(mine, prepend=0))
        yield Piece(begin, end, row, out[: mine[-1]].astype(np.int32))
        begin, room = end, usual
