"""How delimited text is written, and its records line by line: slow, plain, what the fast way is held to.

A line is a record, unless quotes that it opens are open at its end. Such a record goes on to the line that closes them.
It is one row where values may hold line ends; else each of its lines is a bad row.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from typing import NamedTuple

DELIMITERS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "blank": " ", "space": " ", "pipe": "|"}
"""Names of delimiters that are hard to write in a shell."""
BLANKS = "".join(map(chr, range(33)))
"""What is taken from both ends of a value that stands without quotes."""
_ENDS = "\r\n"


@dataclass(frozen=True)
class Dialect:
    """How delimited text is written."""

    delimiter: str = ","
    quote: str | None = '"'  # One character; None where quotes are text like any other
    # A character that makes a quote, a delimiter or itself, where one follows, a plain character; None for none. A
    # quote within quotes may be doubled in any case
    escape: str | None = None
    null: str | None = None  # A value that stands for none, as the empty one does
    encoding: str = "utf-8"  # As Python knows it
    multiline: bool = False  # Values in quotes may hold line ends
    header: bool = True  # Whether a record of names comes first
    skip: int = 0  # Lines before that, or before the first row
    trim: bool = True  # Whether blanks round a value are no part of it

    @property
    def blanks(self) -> str:
        """What is taken from the ends of values."""
        return BLANKS.replace(self.delimiter, "") if self.trim else ""

    @property
    def utf8(self) -> bool:
        """Whether text is to be UTF-8."""
        return codecs.lookup(self.encoding).name in ("utf-8", "utf-8-sig", "ascii")

    @property
    def splits(self) -> bool:
        """Whether each byte of a line feed is a line end, so that text can be read from any of them on."""
        name = codecs.lookup(self.encoding).name
        return self.utf8 or name.startswith(("iso8859-", "cp125", "koi8-"))


def character(said: str, what: str) -> str:
    """Return a character that is said as itself or by its name."""
    found = DELIMITERS.get(said.lower(), said)
    if len(found) != 1 or found in _ENDS:
        raise ValueError(f"{what} is {said!r}: one character, or {', '.join(DELIMITERS)}, is wanted")
    return found


def dialect_of(
    delimiter: str = ",",
    quote: str = '"',
    escape: str | None = None,
    null: str | None = None,
    encoding: str = "utf-8",
    *,
    multiline: bool = False,
    header: bool = True,
    skip: int = 0,
    trim: bool = True,
) -> Dialect:
    """Return a dialect as people say it: characters or their names, ``none`` for no quotes."""
    check_encoding(encoding)
    marks = character(delimiter, "delimiter"), None if quote.lower() in ("", "none") else character(quote, "quote")
    other = None if escape is None else character(escape, "escape")
    dialect = Dialect(
        *marks,
        None if other == marks[1] else other,  # a doubled quote is one without being asked for
        null,
        encoding,
        multiline,
        header,
        skip,
        trim,
    )
    if dialect.delimiter in (dialect.quote, dialect.escape):
        raise ValueError(f"{dialect.delimiter!r} is the delimiter and the quote or escape too: name another")
    return dialect


def check_encoding(encoding: str) -> None:
    """Check that Python knows an encoding of text."""
    try:
        known = codecs.lookup(encoding)
        "".encode(known.name)
    except LookupError:
        raise ValueError(f"no encoding is called {encoding!r}: utf-8, latin-1, cp1252 and utf-16 are") from None


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
