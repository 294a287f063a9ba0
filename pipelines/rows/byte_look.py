"""A first look at the bytes of text: whether quotes hold line ends, and whether all of it is UTF-8."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

MOST = 1 << 30
"""Bytes that are looked at in this process, a second of work; of more, Spark looks in parallel."""
_AT_A_TIME = 1 << 23
_QUOTE, _LINE_FEED, _RETURN = b'"\n\r'


def bytes_at_hand(paths: Sequence[str], files: Sequence[str], packed: tuple[str, ...]) -> bool:
    """Return whether files are on this machine's disks, not packed, and of :data:`MOST` bytes at the most."""
    if not files or any("://" in path and not path.startswith("file://") for path in paths):
        return False
    if any(file.lower().endswith(packed) or not Path(file).is_file() for file in files):
        return False
    return sum(Path(file).stat().st_size for file in files) <= MOST


def look_at_bytes(files: Sequence[str], *, at_a_time: int = _AT_A_TIME) -> tuple[bool, bool]:
    """Return whether a line of some file has an odd number of quotes, and whether some bytes are not UTF-8.

    Lines end in a line feed, a carriage return, or both. Cost O(bytes).

    Raises
    ------
    OSError
        If a file cannot be read.
    """
    opened = undecoded = False
    for name in files:
        with Path(name).open("rb") as file:
            odd, bad = _look(file, at_a_time)
        opened, undecoded = opened or odd, undecoded or bad
    return opened, undecoded


def _look(file: BinaryIO, at_a_time: int) -> tuple[bool, bool]:
    decoder, begun = codecs.getincrementaldecoder("utf-8")(), False
    opened = undecoded = False
    quotes = 0  # in the line that the piece before ends in
    while piece := file.read(at_a_time):
        if not opened:
            opened, quotes = _odd(piece, quotes)
        if not undecoded and (begun or not piece.isascii()):
            try:
                decoder.decode(piece)
                begun = decoder.getstate()[0] != b""
            except UnicodeDecodeError:
                undecoded = True
    return opened or quotes % 2 == 1, undecoded or begun


def _odd(piece: bytes, before: int) -> tuple[bool, int]:
    """Return whether a line that ends in a piece has an odd number of quotes, and how many the last one has so far."""
    if piece.count(_QUOTE) == 0 and before % 2 == 0:
        return False, 0
    seen = np.frombuffer(piece, np.uint8)
    places = np.flatnonzero(seen == _QUOTE)
    ends = np.flatnonzero((seen == _LINE_FEED) | (seen == _RETURN))
    if len(ends) == 0:
        return False, before + len(places)
    # how many quotes stand before each line end, those of lines before included
    upto = np.searchsorted(places, ends)
    of_lines = np.diff(upto, prepend=-before)
    return bool((of_lines % 2 == 1).any()), len(places) - int(upto[-1])
