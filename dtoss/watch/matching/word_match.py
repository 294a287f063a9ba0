"""Messages against an index of subscriptions with words: whose words say what is asked, near enough by rectangle.

Messages against an index of subscriptions with words: the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoss.compiled.kernel import kernel, operand
from dtoss.compiled.pointers import pointer, prefetch, shift
from dtoss.geometry.space import QUARTER_TURN
from dtoss.watch.index.cell_frame import Frame
from dtoss.watch.index.grid_kernel import EMPTY, PLACE_FACTS, begin_of, count_of, entry_of, frame_in, place_in
from dtoss.watch.index.word_index import BITS_OF_SIFT, LAST_BIT, MARKS, WordIndex, bit_of, bits_of, cell_at
from dtoss.watch.words.formula_programs import ACCEPT, TESTS
from dtoss.watch.words.messages import Messages, put_in_order

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


_FULL = -1
"""There was no room for the hits of a message."""
_EAST, _NORTH = 2, 3
_LAST = 3
WORD_LOOKS = 4
"""Numbers of a look: message, word, begin and end of a span of postings; or a key, and _KEYED."""
_KEYED = -1
MOST_LOOKS = 512
"""Looks that are noted before they are taken."""
_FEW_WORDS = 8
"""Words that are looked through one by one."""


class Texts(NamedTuple):
    """Pointers to the messages: where they are, and :class:`dtoss.watch.words.messages.Messages`."""

    positions: Any
    begin: Any
    tokens: Any
    first: Any
    words: Any
    at: Any
    places: Any


class Text(NamedTuple):
    """A message, by pointers into the arrays of all.

    Its distinct words are from ``first`` to ``last``, its words from ``begin`` to ``end``.
    """

    words: Any
    at: Any
    places: Any
    tokens: Any
    first: int
    last: int
    begin: int
    end: int


class Asked(NamedTuple):
    """Pointers to what is asked: see :class:`dtoss.watch.index.word_index.WordIndex`."""

    covers: Any
    code: Any
    phrase: Any
    phrases: Any
    places: Any
    marks: Any


class Found(NamedTuple):
    """Pointers to what finds it; ``every`` is the word that all texts have, ``cells`` those of the message at hand."""

    frame: Frame
    levels: Any
    height: int
    heads: Any
    table: Any
    room: int
    sift: Any
    size: int
    every: int
    bits: int
    cells: Any


class Spot(NamedTuple):
    """Where a message is."""

    x: float
    y: float
    sphere: int


class Hits(NamedTuple):
    """A pointer to where hits are written, and for how many there is room."""

    out: Any
    room: int


@kernel
def _where(text, word):
    """Return the place of a word among the distinct words of a message, -1 if it is not there."""
    low, high = text.first, text.last
    while high - low > _FEW_WORDS:
        middle = (low + high) // 2
        if text.words[middle] <= word:
            low = middle
        else:
            high = middle
    for at in range(low, high):
        if text.words[at] == word:
            return at
    return -1


@kernel
def _says(text, asked, phrase):
    """Return whether a message has the words of a phrase, one after another: by the places of the rarest of them."""
    begin, end = asked.phrase[phrase], asked.phrase[phrase + 1]
    rarest, fewest, offset = -1, 0, 0
    for k in range(begin, end):
        at = _where(text, asked.phrases[k])
        if at < 0:
            return False
        count = text.at[at + 1] - text.at[at]
        if rarest < 0 or count < fewest:
            rarest, fewest, offset = at, count, k - begin
    for k in range(text.at[rarest], text.at[rarest + 1]):
        start = text.places[k] - offset
        same = start >= text.begin and start + end - begin <= text.end
        step = 0
        while same and step < end - begin:
            same = text.tokens[start + step] == asked.phrases[begin + step]
            step += 1
        if same:
            return True
    return False


@kernel
def _holds(text, asked, test):
    """Return whether a program accepts a message."""
    while test >= 0:
        code = shift(asked.code, TESTS * test)
        there = _where(text, code[0]) >= 0 if code[0] >= 0 else _says(text, asked, -1 - code[0])
        test = code[1] if there else code[2]
    return test == ACCEPT


@kernel
def _is_first(text, asked, cover, word):
    """Return whether no word of a cover before this one is in a message: only then it is found here."""
    while asked.covers[cover] < word:
        if _where(text, asked.covers[cover]) >= 0:
            return False
        cover += 1
    return True


@kernel
def _within(spot, rect):
    """Return whether a rectangle holds a position."""
    if not rect[1] <= spot.y <= rect[_NORTH]:
        return False
    if spot.sphere:
        if spot.y >= QUARTER_TURN or spot.y <= -QUARTER_TURN:
            return True
        if rect[0] > rect[_EAST]:
            return spot.x >= rect[0] or spot.x <= rect[_EAST]
    return rect[0] <= spot.x <= rect[_EAST]


@kernel
def _look(spot, text, asked, word, begin, end, hits, filled):
    """Write the subscriptions of postings that hold a message; return where they end, _FULL if there is no room."""
    for at in range(begin, end):
        if not _within(spot, shift(asked.places, PLACE_FACTS * at)):
            continue
        marks = shift(asked.marks, MARKS * at)
        if marks[2] >= 0 and not _is_first(text, asked, marks[2], word):
            continue
        if marks[1] != ACCEPT and not _holds(text, asked, marks[1]):
            continue
        if filled == hits.room:
            return _FULL
        hits.out[filled] = marks[0]
        filled += 1
    return filled


def _read(kind: str, dimensions: int = 1) -> str:
    return f"Array({kind}, {dimensions}, 'C', readonly=True)"


_FLOATS, _LONGS, _INTS = _read("float64"), _read("int64"), _read("int32")
_WORDED = (
    f"{_INTS}, {_read('int32', 2)}, {_INTS}, {_INTS}, {_read('float64', 2)}, {_read('int32', 2)}, {_read('int32', 2)},"
    f" {_read('int64', 2)}, {_LONGS}, {_FLOATS}, {_LONGS}"
)
_MESSAGES = f"{_LONGS}, {_INTS}, {_LONGS}, {_INTS}, {_LONGS}, {_LONGS}"


@kernel
def _note(looks, used, message, word, begin, end):
    """Note that a message asks for a span of postings under a word, or for that of a key where ``end`` is KEYED."""
    looks[WORD_LOOKS * used] = message
    looks[WORD_LOOKS * used + 1] = word
    looks[WORD_LOOKS * used + 2] = begin
    looks[WORD_LOOKS * used + _LAST] = end
    return used + 1


@kernel
def _note_word(texts, found, asked, looks, used, message, word):
    """Note all that a message asks for under a word, and ask the processor to load it."""
    begin, end = found.heads[2 * word], found.heads[2 * word + 2]
    if begin < end:
        prefetch(asked.places, PLACE_FACTS * begin)
        used = _note(looks, used, message, word, begin, end)
    mask, level = found.heads[2 * word + 1] >> 1, 1
    while mask:
        if mask & 1:
            if found.cells[level] == EMPTY:
                x, y = texts.positions[2 * message], texts.positions[2 * message + 1]
                found.cells[level] = cell_at(found.frame, level, found.levels[level], x, y)
            key = (found.cells[level] << found.bits) | word
            prefetch(found.sift, bit_of(key, found.size) >> BITS_OF_SIFT)
            used = _note(looks, used, message, word, key, _KEYED)
        mask >>= 1
        level += 1
    return used


@kernel
def _note_requests(texts, found, asked, looks, at, last):
    """Note what messages ask for from a place on, until there is no room; return how much, and the place to go on.

    A place is a message and one of its words.
    """
    message, k = at
    used = 0
    while message < last:
        if k == texts.first[message]:
            for level in range(found.height):
                found.cells[level] = EMPTY
        end = texts.first[message + 1]
        while k <= end:
            if used + found.height > MOST_LOOKS:
                return used, message, k
            word = int(texts.words[k]) if k < end else found.every
            used = _note_word(texts, found, asked, looks, used, message, word)
            k += 1
        message += 1
        k = end
    return used, message, k


@kernel
def _looked_up(found, asked, looks, used):
    """Turn keys into the spans of postings that stand under them."""
    for i in range(used):
        if looks[WORD_LOOKS * i + _LAST] == _KEYED:
            key = looks[WORD_LOOKS * i + 2]
            bit = bit_of(key, found.size)
            if found.sift[bit >> BITS_OF_SIFT] >> (bit & LAST_BIT) & 1:
                prefetch(found.table, 2 * place_in(key, found.room))
            else:
                looks[WORD_LOOKS * i + 2] = looks[WORD_LOOKS * i + _LAST] = 0
    for i in range(used):
        if looks[WORD_LOOKS * i + _LAST] == _KEYED:
            entry = entry_of(found.table, found.room, looks[WORD_LOOKS * i + 2])
            begin = begin_of(entry)
            looks[WORD_LOOKS * i + 2] = begin
            looks[WORD_LOOKS * i + _LAST] = begin + count_of(entry)
            prefetch(asked.places, PLACE_FACTS * begin)


@kernel
def _text_of(texts, message):
    first, begin = texts.first, texts.begin
    return Text(
        texts.words, texts.at, texts.places, texts.tokens, first[message], first[message + 1], begin[message],
        begin[message + 1],
    )  # fmt: skip


@kernel(
    f"int64(int64, {_read('float64', 2)}, {_MESSAGES}, {_WORDED}, int64, int64[::1], int64[:, ::1], int64[::1],"
    " int64[::1])"
)
def find_spoken(
    start: Any, positions: Any, begin: Any, tokens: Any, first: Any, words: Any, ats: Any, word_places: Any,
    covers: Any, code: Any, phrase: Any, phrases: Any, places: Any, marks: Any, heads: Any, table: Any, sift: Any,
    world: Any, levels: Any, bits: int, cells: Any, looks: Any, ends: Any, out: Any,
) -> Any:  # fmt: skip
    """Write the hits of messages from ``start`` on, and set where those of each end.

    Returns the first message for which there was no room, or how many there are. ``cells`` has room for a number a
    level, ``looks`` for MOST_LOOKS. What many messages ask for is noted first, then looked up, then looked at: loads
    from memory overlap.
    """
    texts = Texts(
        pointer(positions), pointer(begin), pointer(tokens), pointer(first), pointer(words), pointer(ats),
        pointer(word_places),
    )  # fmt: skip
    asked = Asked(pointer(covers), pointer(code), pointer(phrase), pointer(phrases), pointer(places), pointer(marks))
    found = Found(
        frame_in(pointer(world)), pointer(levels), levels.size, pointer(heads), pointer(table), table.shape[0],
        pointer(sift), sift.size, heads.shape[0] - 2, bits, pointer(cells),
    )  # fmt: skip
    hits, noted = Hits(pointer(out), out.size), pointer(looks)
    last, mine, filled = positions.shape[0], 0, 0
    current, message, k = start, start, first[start] if start < last else 0
    while message < last:
        used, message, k = _note_requests(texts, found, asked, noted, (message, k), last)
        _looked_up(found, asked, noted, used)
        for i in range(used):
            look = shift(noted, WORD_LOOKS * i)
            while current < look[0]:
                put_in_order(out, mine, filled)
                ends[current] = mine = filled
                current += 1
            spot = Spot(positions[current, 0], positions[current, 1], found.frame.sphere)
            filled = _look(spot, _text_of(texts, current), asked, look[1], look[2], look[_LAST], hits, filled)
            if filled == _FULL:
                return current
    while current < last:
        put_in_order(out, mine, filled)
        ends[current] = mine = filled
        current += 1
    return last
