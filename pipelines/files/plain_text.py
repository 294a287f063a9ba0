"""Whether a delimited text is one that Arrow reads as Spark does, from one look at its bytes."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

_AT_A_TIME = 1 << 22
_QUOTE, _LINE_FEED, _RETURN, _BLANK = b'"\n\r '
_MARK = codecs.BOM_UTF8


@dataclass(frozen=True)
class Looks:
    """What the bytes of a text say.

    Parameters
    ----------
    plain
        All quotes stand where a value begins or ends, in pairs within a line, with no blanks beside them; and all is
        UTF-8.
    opened
        A line has an odd number of quotes.
    blanks
        There are blanks or other marks that are taken from the ends of values.
    """

    plain: bool = True
    opened: bool = False
    blanks: bool = False

    def and_those(self, other: Looks) -> Looks:
        """Return what two texts say together."""
        return Looks(self.plain and other.plain, self.opened or other.opened, self.blanks or other.blanks)


def look_at(stream: BinaryIO, delimiter: str, *, at_a_time: int = _AT_A_TIME) -> Looks:
    """Return what the bytes of a text say; lines end in a line feed, a carriage return, or both. Cost O(bytes)."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    plain, opened, blanks = True, False, False
    separators = np.zeros(256, np.bool_)
    separators[[ord(delimiter), _LINE_FEED, _RETURN]] = True
    piece = stream.read(at_a_time).removeprefix(_MARK)
    before = b"\n"
    while piece:
        if not piece.endswith(b"\n"):
            # quotes are looked at in whole lines
            piece += stream.readline()
        if plain and not (piece.isascii() and decoder.getstate()[0] == b""):
            try:
                decoder.decode(piece)
            except UnicodeDecodeError:
                plain = False
        seen = np.frombuffer(before + piece + b"\n", np.uint8)
        if not blanks:
            few = seen <= _BLANK
            blanks = bool((few & (seen != _LINE_FEED) & (seen != _RETURN) & (seen != ord(delimiter))).any())
        if b'"' in piece:
            odd, placed = _quotes(seen, separators)
            opened, plain = opened or odd, plain and placed and not odd
        before = piece[-1:]
        piece = stream.read(at_a_time)
    return Looks(plain and decoder.getstate()[0] == b"", opened, blanks)


def _quotes(seen: NDArray[np.uint8], separators: NDArray[np.bool_]) -> tuple[bool, bool]:
    """Return whether a line has an odd number of quotes, and whether all stand where a value begins or ends."""
    places = np.flatnonzero(seen == _QUOTE)
    ends = np.flatnonzero((seen == _LINE_FEED) | (seen == _RETURN))
    upto = np.searchsorted(places, ends)
    if bool((np.diff(upto, prepend=0) % 2 == 1).any()):
        return True, False
    begins, closes = places[0::2], places[1::2]
    outside = separators[seen[begins - 1]] | (seen[begins - 1] == _QUOTE)
    outside &= separators[seen[closes + 1]] | (seen[closes + 1] == _QUOTE)
    inside = (seen[begins + 1] > _BLANK) & (seen[closes - 1] > _BLANK)
    return False, bool(outside.all() and inside.all())
