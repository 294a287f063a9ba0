"""How delimited text is written: its delimiter, quotes, escapes, nulls, encoding, and whether values hold line ends."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

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
