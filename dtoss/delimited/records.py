"""Records of delimited text, line by line: slow and plain, the rules that the fast way is held to.

A line is a record, unless quotes that it opens are open at its end. Such a record goes on to the line that closes them.
It is one row where values may hold line ends; else each of its lines is a bad row.
"""

from __future__ import annotations

import codecs
import re
from typing import NamedTuple

from dtoss.delimited.dialect import BLANKS, Dialect

UNDECODED = "bytes that are not text in this encoding"
UNENDED = "line end inside quotes"
BEHIND_QUOTE = "text behind a closing quote"
LOST = "\udcfd"
"""What stands, in a text that was decoded, for bytes that are none; no text holds it."""
RECORD_CHARACTERS = 1 << 24
"""Of a record that holds line ends; a longer one is taken for a quote that was never closed."""
_LINE_END = re.compile(r"\r\n|\n|\r")

Fields = list[str | None]


class Record(NamedTuple):
    """A row: its fields, none of a bad one that has none, how it is written, and its flaw, None of a good one."""

    fields: Fields | None
    raw: str
    flaw: str | None


class State(NamedTuple):
    """Where a text stands between two of its lines."""

    inside: bool = False  # Whether quotes are open
    held: tuple[str, ...] = ()  # The lines of a record that goes on


def _lose(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return LOST, error.end


codecs.register_error("dtoss.lost", _lose)


def lines_of(text: str) -> list[str]:
    """Return the lines of a text without their ends: a line feed, a carriage return, or both."""
    lines = _LINE_END.split(text) if "\r" in text else text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def records(text: str, state: State, dialect: Dialect) -> tuple[list[Record], int, State]:
    """Return the records that end in a text of whole lines, how many blank lines there are, and where it ends.

    ``text``: decoded; :data:`LOST` stands where bytes were none; ``dialect``: how it is written.
    """
    found: list[Record] = []
    inside, held, blank = state.inside, list(state.held), 0
    size = sum(map(len, held))
    for line in lines_of(text):
        if not inside and not line.strip(BLANKS):
            blank += 1
            continue
        fields, broken, opened = fields_of(line, dialect, inside)
        if dialect.multiline and (held or (opened and not inside)):
            held.append(line)
            size += len(line)
            if not opened:
                record = "\n".join(held)
                found.append(_record(record, *fields_of(record, dialect)[:2]))
            elif size > RECORD_CHARACTERS:
                found += map(_unended, held)
            if not opened or size > RECORD_CHARACTERS:
                held, size = [], 0
        elif opened or inside:
            found.append(_unended(line))
        else:
            found.append(_record(line, fields, broken))
        inside = opened
    return found, blank, State(inside, tuple(held))


def ended(state: State) -> list[Record]:
    """Return the bad rows of a record that goes on where the text ends."""
    return [_unended(line) for line in state.held]


def _record(raw: str, fields: Fields, broken: bool) -> Record:
    if LOST not in raw:
        return Record(None, raw, BEHIND_QUOTE) if broken else Record(fields, raw, None)
    shown: Fields = [value and value.replace(LOST, "\ufffd") for value in fields]
    return Record(None if broken else shown, raw.replace(LOST, "\ufffd"), UNDECODED)


def _unended(line: str) -> Record:
    return Record(None, line.replace(LOST, "\ufffd"), UNDECODED if LOST in line else UNENDED)


def fields_of(record: str, dialect: Dialect, inside: bool = False) -> tuple[Fields, bool, bool]:
    """Return the fields of a record, whether one has text behind its closing quote, and whether it ends inside quotes.

    ``dialect``: how it is written.
    """
    delimiter, quote, escape, blanks = dialect.delimiter, dialect.quote, dialect.escape, dialect.blanks
    null = dialect.null
    if not inside and (quote is None or quote not in record) and (escape is None or escape not in record):
        plain: Fields = [value.strip(blanks) or None for value in record.split(delimiter)]
        return (plain if null is None else [None if value == null else value for value in plain]), False, False
    fields: Fields = []
    at, broken = 0, False
    while True:
        while not inside and at < len(record) and record[at] in blanks:
            at += 1
        if inside or (quote is not None and record.startswith(quote, at)):
            value, at, inside, odd = _quoted(record, at if inside else at + 1, dialect)
            broken = broken or odd
        else:
            value, at = _plain(record, at, dialect)
            value = value.strip(blanks)
        fields.append(value if value and value != null else None)
        if inside or at >= len(record):
            return fields, broken, inside
        at += 1


def _quoted(record: str, at: int, dialect: Dialect) -> tuple[str, int, bool, bool]:
    """Return the value within quotes from a place on, where it ends, whether it is open there, whether text follows."""
    quote, escape, delimiter = dialect.quote or "", dialect.escape, dialect.delimiter
    pieces: list[str] = []
    while True:
        end = _next(record, at, quote, escape)
        pieces.append(record[at:end])
        if end == len(record):
            return "".join(pieces), end, True, False
        if record.startswith(quote, end + 1) and record[end] == quote:
            pieces.append(quote)
            at = end + 2
        elif record[end] != quote:
            value, at = _behind_escape(record, end, dialect)
            pieces.append(value)
        else:
            after = end + 1
            while after < len(record) and record[after] in dialect.blanks:
                after += 1
            if after == len(record) or record[after] == delimiter:
                return "".join(pieces), after, False, False
            return "", _plain(record, after, dialect)[1], False, True


def _plain(record: str, at: int, dialect: Dialect) -> tuple[str, int]:
    """Return the value without quotes from a place on, and where it ends."""
    pieces: list[str] = []
    while True:
        end = _next(record, at, dialect.delimiter, dialect.escape)
        pieces.append(record[at:end])
        if end == len(record) or record[end] == dialect.delimiter:
            return "".join(pieces), end
        value, at = _behind_escape(record, end, dialect)
        pieces.append(value)


def _next(record: str, at: int, mark: str, escape: str | None) -> int:
    """Return where a mark or the escape comes next; the end where neither does."""
    places = [record.find(one, at) for one in (mark, escape) if one is not None]
    return min((place for place in places if place >= 0), default=len(record))


def _behind_escape(record: str, at: int, dialect: Dialect) -> tuple[str, int]:
    """Return what the escape at a place and the character behind it stand for, and the place behind them."""
    after = record[at + 1 : at + 2]
    if after and after in (dialect.quote, dialect.delimiter, dialect.escape):
        return after, at + 2
    return record[at], at + 1
