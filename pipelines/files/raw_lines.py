"""Records of delimited text that Arrow would not read as Spark does: odd quotes, line ends in values, other encodings.

Slow and plain: each record goes through Python.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from pipelines.files.text_values import BLANKS
from pipelines.rows.delimited import LONGEST_RECORD

Row = list[str | None]


def rows_of(stream: BinaryIO, encoding: str, delimiter: str, *, whole: bool) -> Iterator[Row]:
    """Yield the fields of each record of a text; None where a field is empty.

    Parameters
    ----------
    stream
        The bytes.
    encoding
        Of the text; what is not in it becomes the replacement character.
    delimiter
        One character.
    whole
        Whether values in quotes may hold line ends. A record of very many lines is taken for a quote that was never
        closed: each of its lines is a row of one field without a value then.
    """
    text = io.TextIOWrapper(stream, encoding="utf-8-sig" if encoding == "utf-8" else encoding, errors="replace")
    held = ""
    for line in text:
        record = held + line
        if not held and not line.strip(BLANKS):
            continue
        fields, opened = fields_of(record.rstrip("\n"), delimiter)
        if opened and whole:
            held = record
            continue
        held = ""
        yield from _ended(record, fields)
    if held:
        yield from _ended(held, fields_of(held, delimiter)[0])


def _ended(record: str, fields: Row) -> Iterator[Row]:
    lines = record.rstrip("\n").count("\n")
    if lines < LONGEST_RECORD:
        yield fields
        return
    for _ in range(lines + 1):
        yield [None]


def fields_of(record: str, delimiter: str) -> tuple[Row, bool]:
    """Return the fields of a record, and whether it ends inside quotes.

    Blanks round a value are no part of it, unless they stand inside quotes. A quote inside quotes is doubled; where one
    stands alone, the value goes on to the next delimiter, with its quotes.
    """
    fields: Row = []
    at, opened = 0, False
    while True:
        while at < len(record) and record[at] in BLANKS and record[at] != delimiter:
            at += 1
        if at < len(record) and record[at] == '"':
            value, at, opened = _quoted(record, at, delimiter)
            fields.append(value or None)
        else:
            end = record.find(delimiter, at)
            end = len(record) if end < 0 else end
            fields.append(record[at:end].strip(BLANKS) or None)
            at = end
        if opened or at >= len(record):
            return fields, opened
        at += 1


def _quoted(record: str, start: int, delimiter: str) -> tuple[str, int, bool]:
    """Return the value whose quotes begin at a place, where it ends, and whether its quotes are open there."""
    pieces: list[str] = []
    at = start + 1
    while True:
        end = record.find('"', at)
        if end < 0:
            return "".join([*pieces, record[at:]]), len(record), True
        pieces.append(record[at:end])
        if record.startswith('""', end):
            pieces.append('"')
            at = end + 2
            continue
        after = end + 1
        while after < len(record) and record[after] in BLANKS and record[after] != delimiter:
            after += 1
        if after >= len(record) or record[after] == delimiter:
            return "".join(pieces), after, False
        stop = record.find(delimiter, end)
        stop = len(record) if stop < 0 else stop
        return '"' + "".join(pieces) + record[end:stop].rstrip(BLANKS), stop, False


def padded(row: Sequence[str | None], at: int) -> str | None:
    """Return the field of a number, None where a record is shorter."""
    return row[at] if at < len(row) else None
