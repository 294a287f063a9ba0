"""Delimited text as record batches of strings, block by block: of a whole file, or of the lines in a part of it.

Blocks of delimited text by Arrow, where it reads exactly as the rules of :mod:`dtoss.delimited.records` say.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv

from dtoss.delimited.records import (
    BLANKS,
    LOST,
    UNENDED,
    Dialect,
    Fields,
    Record,
    State,
    ended,
    fields_of,
    lines_of,
    records,
)
from dtoss.errors import InputError

CORRUPT = "_corrupt_record"
FLAW = "_dtoss_flaw"
"""Columns behind those of the text: how a row that could not be read is written, and what is wrong with a row."""


@dataclass(frozen=True)
class Layout:
    """What all files of a text have in common."""

    dialect: Dialect  # How they are written
    # The fields of the record of names, with which that of each file is compared; None where it is not
    heading: tuple[str, ...] | None
    names: tuple[str, ...]  # Of the columns: no empty one, and none twice


@dataclass(frozen=True)
class Part:
    """Some rows of a text."""

    # Columns of strings, null where a value is empty, then :data:`CORRUPT` and :data:`FLAW`, in the order of the text.
    # A row that has no fields, or another number of them than there are names, is null but for these two
    rows: pa.RecordBatch
    blank: int  # Lines of blanks alone, which are no rows
    lost: int  # How often bytes were no text
    inside: bool  # Whether quotes are open at the end


def layout_of(blocks: Iterable[bytes], dialect: Dialect) -> Layout | None:
    """Return the layout of a text; None where it holds no record.

    ``blocks``: its bytes, from its beginning; no more of them are taken than are looked at; ``dialect``: how it is
    written.
    """
    if dialect.header:
        found = _take_heading(_chunks(blocks, dialect), dialect)[0]
        if found is None:
            return None
        heading = tuple(value or "" for value in found)
        return Layout(dialect, heading, names_of(heading))
    state, bad = State(), None
    for chunk in _below(_chunks(blocks, dialect), dialect.skip):
        rows, _, state = records(_text(chunk), state, dialect)
        good = next((row.fields for row in rows if row.fields is not None), None)
        if good is not None:
            return Layout(dialect, None, tuple(f"c{i + 1}" for i in range(len(good))))
        bad = bad or next(iter(rows), None)
    if bad is not None or state.held:
        raise InputError(
            f"no line can be read, from the first on: {UNENDED if bad is None else bad.flaw}; if quotes are text like "
            "any other, say so (--quote none)"
        )
    return None


def names_of(heading: Sequence[str]) -> tuple[str, ...]:
    """Return names of columns: those that are empty, or stand there before, get the column's number."""
    return tuple(
        name if name and name not in heading[:i] else f"{name}_{i + 1}" for i, name in enumerate(heading)
    )  # fmt: skip


def read_text_rows(
    blocks: Iterable[bytes],
    layout: Layout,
    wanted: Sequence[str] | None = None,
    *,
    begins: bool = True,
    file: str = "the text",
) -> Iterator[Part]:
    """Yield the rows of a text, or of whole lines in it; memory is bounded by a block, or the longest line.

    ``blocks``: the bytes; ``wanted``: of the columns, each once; all when None; ``begins``: whether these bytes are the
    beginning of a file; else they begin at a line that is outside of quotes.
    """
    dialect, names = layout.dialect, layout.names if wanted is None else tuple(wanted)
    places = [layout.names.index(name) for name in names]
    chunks = _chunks(blocks, dialect)
    if begins and dialect.header:
        heading, chunks = _take_heading(chunks, dialect)
        if heading is not None and layout.heading is not None and not _same(heading, layout.heading):
            raise InputError(
                f"the header line of {file} is not that of the other files: name files with the same columns"
            )
    elif begins:
        chunks = _below(chunks, dialect.skip)
    state = State()
    for chunk in chunks:
        columns = None
        if isinstance(chunk, bytes) and not state.inside:
            columns = read_quickly(chunk, dialect, len(layout.names), places)
        if columns is not None:
            count = len(columns[0]) if columns else 0
            none = pa.nulls(count, pa.string())
            blank = _lines(chunk) - count
            yield Part(pa.record_batch([*columns, none, none], names=[*names, CORRUPT, FLAW]), blank, 0, False)
            continue
        text = _text(chunk)
        found, blank, state = records(text, state, dialect)
        yield Part(_batch(found, layout, names, places), blank, text.count(LOST), state.inside)
    if state.held:
        yield Part(_batch(ended(state), layout, names, places), 0, 0, True)


def ends_inside(blocks: Iterable[bytes], dialect: Dialect) -> bool:
    """Return whether whole lines, the first of which begins outside of quotes, end inside of them."""
    state = State()
    for chunk in _chunks(blocks, dialect):
        if state.inside or isinstance(chunk, str) or not is_plain(chunk, dialect):
            state = records(_text(chunk), state, dialect)[2]
    return state.inside


def _same(found: Fields, heading: Sequence[str]) -> bool:
    return [(name or "").casefold() for name in found] == [name.casefold() for name in heading]


def _batch(found: Sequence[Record], layout: Layout, names: Sequence[str], places: Sequence[int]) -> pa.RecordBatch:
    fits = [row.fields is not None and len(row.fields) == len(layout.names) for row in found]
    nothing: Fields = [None] * len(layout.names)
    rows = [row.fields if fit and row.fields is not None else nothing for row, fit in zip(found, fits, strict=True)]
    columns = [pa.array([row[at] for row in rows], pa.string()) for at in places]
    raw = pa.array([None if fit else row.raw for row, fit in zip(found, fits, strict=True)], pa.string())
    flaws = pa.array([row.flaw for row in found], pa.string())
    return pa.record_batch([*columns, raw, flaws], names=[*names, CORRUPT, FLAW])


def _chunks(blocks: Iterable[bytes], dialect: Dialect) -> Iterator[bytes | str]:
    """Yield whole lines: UTF-8, or text where some bytes are none; the mark at the beginning is left out."""
    if not dialect.utf8:
        yield from _transcoded(blocks, dialect.encoding)
        return
    rest, first = b"", True
    for block in chain(blocks, [b""]):
        rest += block
        cut = len(rest) if not block else rest.rfind(b"\n") + 1 or rest.rfind(b"\r", 0, -1) + 1
        if not cut:
            continue
        lines, rest = rest[:cut], rest[cut:]
        lines = lines.removeprefix(codecs.BOM_UTF8) if first else lines
        first = False
        if lines:
            yield _decode(lines)


def _decode(lines: bytes) -> bytes | str:
    try:
        if not lines.isascii():
            lines.decode()
    except UnicodeDecodeError:
        return lines.decode("utf-8", "dtoss.lost")
    return lines


def _transcoded(blocks: Iterable[bytes], encoding: str) -> Iterator[bytes | str]:
    decoder = codecs.getincrementaldecoder(encoding)("dtoss.lost")
    rest, first = "", True
    for block in chain(blocks, [b""]):
        rest += decoder.decode(block, final=not block)
        cut = len(rest) if not block else rest.rfind("\n") + 1 or rest.rfind("\r", 0, -1) + 1
        if not cut:
            continue
        lines, rest = rest[:cut], rest[cut:]
        lines = lines.removeprefix("\ufeff") if first else lines
        first = False
        if lines:
            yield lines if LOST in lines else lines.encode()


def _text(chunk: bytes | str) -> str:
    return chunk if isinstance(chunk, str) else chunk.decode()


def _lines(chunk: bytes | str) -> int:
    """Return how many lines end in a chunk."""
    assert isinstance(chunk, bytes)
    returns = chunk.count(b"\r") - chunk.count(b"\r\n") if b"\r" in chunk else 0
    return chunk.count(b"\n") + returns + (not chunk.endswith((b"\n", b"\r")))


def _below(chunks: Iterator[bytes | str], skip: int) -> Iterator[bytes | str]:
    """Yield what is below some lines."""
    for chunk in chunks:
        while skip and chunk:
            chunk, skip = chunk[_line_end(chunk) :], skip - 1
        if chunk:
            yield chunk


def _take_heading(chunks: Iterator[bytes | str], dialect: Dialect) -> tuple[Fields | None, Iterator[bytes | str]]:
    """Return the record of names, None where there is none, and what is below it."""
    chunks = _below(chunks, dialect.skip)
    record = ""
    for chunk in chunks:
        while chunk:
            end = _line_end(chunk)
            line, chunk = _text(chunk[:end]).rstrip("\r\n"), chunk[end:]
            if not record and not line.strip(BLANKS):
                continue
            record = f"{record}\n{line}" if record else line
            fields, broken, opened = fields_of(record, dialect)
            if opened and dialect.multiline:
                continue
            if opened or broken:
                raise _no_names(record)
            names = [None if name is None else name.replace(LOST, "\ufffd") for name in fields]
            return names, chain([chunk] if chunk else [], chunks)
    if record:
        raise _no_names(record)
    return None, iter(())


def _no_names(record: str) -> InputError:
    line = lines_of(record)[0][:60].replace(LOST, "\ufffd")
    return InputError(
        f"the header line {line!r} is no line of names: its quotes do not "
        "end with a value; if they are text like any other, say so (--quote none)"
    )


def _line_end(chunk: bytes | str) -> int:
    """Return where the first line ends, its end included."""
    feed, back = (b"\n", b"\r") if isinstance(chunk, bytes) else ("\n", "\r")
    at = chunk.find(feed)  # type: ignore[arg-type]
    end = len(chunk) if at < 0 else at + 1
    before = chunk.find(back, 0, end)  # type: ignore[arg-type]
    return end if before < 0 or (at >= 0 and before == at - 1) else before + 1


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
    return dialect.quote is None or dialect.quote.encode() not in block or _quotes_in_pairs(block, dialect)


def _quotes_in_pairs(block: bytes, dialect: Dialect) -> bool:
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
