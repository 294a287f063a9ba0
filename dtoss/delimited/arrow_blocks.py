"""Blocks of delimited text by Arrow, where it reads exactly as the rules of :mod:`dtoss.delimited.records` say."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv

from dtoss.delimited.dialect import BLANKS, Dialect

_LINE_FEED, _RETURN, _BLANK = b"\n\r "
_EDGES = [pair for blank in (b" ", b"\t") for pair in (blank + b"\n", b"\n" + blank, blank + b"\r", b"\r" + blank)]


def read_quickly(block: bytes, dialect: Dialect, columns: int, wanted: Sequence[int]) -> list[pa.Array] | None:
    """Return some columns of whole lines that begin outside of quotes; None where Arrow would read them otherwise.

    ``block``: UTF-8; ``dialect``: how it is written.
    """
    if columns < 2 or not dialect.trim or not is_plain(block, dialect):
        return None
    quoted = dialect.quote is not None and dialect.quote.encode() in block
    names = [str(i) for i in range(columns)]
    chosen = [str(i) for i in wanted]
    nulls = ["", *([] if dialect.null is None else [dialect.null])]
    try:
        table = csv.read_csv(
            pa.BufferReader(block),
            read_options=csv.ReadOptions(column_names=names, block_size=len(block) + 1, use_threads=False),
            parse_options=csv.ParseOptions(delimiter=dialect.delimiter, quote_char=dialect.quote if quoted else False),
            convert_options=csv.ConvertOptions(
                include_columns=chosen, column_types=dict.fromkeys(chosen, pa.string()), null_values=nulls,
                strings_can_be_null=True, quoted_strings_can_be_null=True, check_utf8=False,
            ),
        )  # fmt: skip
    except pa.ArrowInvalid:
        # a record of another number of fields, or a line of blanks alone
        return None
    found = [column.combine_chunks() for column in table.columns]
    if _has_edges(block, dialect):
        found = [_bare(column, nulls) for column in found]
    return None if dialect.delimiter in BLANKS and _has_empty_row(found) else found


def is_plain(block: bytes, dialect: Dialect) -> bool:
    """Return whether each line is a record, all quotes stand where values begin and end, and nothing is escaped."""
    marks = [mark for mark in (dialect.delimiter, dialect.quote) if mark is not None]
    if not all(mark.isascii() for mark in marks) or block.startswith(codecs.BOM_UTF8):
        return False
    if dialect.escape is not None and dialect.escape.encode() in block:
        return False
    return dialect.quote is None or dialect.quote.encode() not in block or _placed(block, dialect)


def _placed(block: bytes, dialect: Dialect) -> bool:
    """Return whether quotes stand in pairs within lines, where values begin and end, with no blanks inside of them."""
    quote, delimiter = ord(dialect.quote or ""), ord(dialect.delimiter)
    seen = np.frombuffer(b"\n" + block + b"\n", np.uint8)
    places = np.flatnonzero(seen == quote)
    ends = np.flatnonzero((seen == _LINE_FEED) | (seen == _RETURN))
    if bool((np.diff(np.searchsorted(places, ends), prepend=0) % 2 == 1).any()):
        return False
    begins, closes = places[0::2], places[1::2]
    before, after = seen[begins - 1], seen[closes + 1]
    outside = _separates(before, delimiter, quote) & _separates(after, delimiter, quote)
    # one that stands beside another one is doubled, in the midst of a value
    inside = ((seen[begins + 1] > _BLANK) | (before == quote)) & ((seen[closes - 1] > _BLANK) | (after == quote))
    return bool(outside.all() and inside.all())


def _separates(seen: NDArray[np.uint8], delimiter: int, quote: int) -> NDArray[np.bool_]:
    return (seen == delimiter) | (seen == _LINE_FEED) | (seen == _RETURN) | (seen == quote)


def _has_edges(block: bytes, dialect: Dialect) -> bool:
    """Return whether there are blanks at the ends of values, or there may be."""
    blanks = [blank for blank in (b" ", b"\t") if blank != dialect.delimiter.encode()]
    if any(block.startswith(blank) or block.endswith(blank) for blank in blanks):
        return True
    delimiter = dialect.delimiter.encode()
    edges = [pair for blank in blanks for pair in (blank + delimiter, delimiter + blank)]
    edges += [pair for pair in _EDGES if pair.strip(b"\r\n") != delimiter]
    if any(edge in block for edge in edges):
        return True
    usual = sum(block.count(mark) for mark in (b"\n", b"\r", b"\t"))
    return int(np.count_nonzero(np.frombuffer(block, np.uint8) < _BLANK)) != usual


def _has_empty_row(columns: Sequence[pa.Array]) -> bool:
    """Return whether a row has no value at all: a line of blanks, where they are delimiters."""
    fewest = min(column.null_count for column in columns)
    if fewest == 0:
        return False
    empty = columns[0].is_null()
    for column in columns[1:]:
        empty = pc.and_(empty, column.is_null())
    return bool(pc.any(empty).as_py())


def _bare(texts: pa.Array, nulls: Sequence[str]) -> pa.Array:
    """Return texts without blanks at their ends, null where nothing else was there."""
    bare = pc.ascii_trim(texts, characters=BLANKS)
    return pc.if_else(pc.is_in(bare, value_set=pa.array(nulls)), None, bare)
