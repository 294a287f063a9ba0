"""Tables of flatbuffers as they stand in the messages of Arrow, read without trusting a single number in them.

Each place is compared with the ends of the message before it is read, so that nothing but :class:`Malformed` comes of
any bytes. A table is a place; before it stands how far back its list of fields is, which says where each field is.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

U8, I16, U16, I32, U32, I64 = (Struct(f"<{code}") for code in "BhHiIq")


class Malformed(ValueError):
    """Bytes that are not what they should be; the message says what."""


class Table(NamedTuple):
    """A table in a message."""

    message: bytes  # The metadata of a message
    at: int  # Where the table is in it
    fields: int  # Where its list of fields is
    size: int  # Bytes of that list

    def number(self, field: int, kind: Struct, default: int = 0) -> int:
        """Return a number, the default where it is left out."""
        at = self._place(field)
        return default if at is None else read(self.message, at, kind)

    def table(self, field: int) -> Table | None:
        """Return another table, None where it is left out."""
        at = self._place(field)
        return None if at is None else table_at(self.message, at + read(self.message, at, U32))

    def text(self, field: int, longest: int) -> str:
        """Return a text of so many bytes at the most, empty where it is left out."""
        begin, size = self.vector(field, 1)
        if size > longest:
            raise Malformed(f"a name has {size} bytes: at most {longest} are allowed")
        try:
            return self.message[begin : begin + size].decode()
        except UnicodeDecodeError:
            raise Malformed("a name is not UTF-8") from None

    def vector(self, field: int, width: int) -> tuple[int, int]:
        """Return where a list of items of so many bytes begins and how many there are; none where it is left out."""
        at = self._place(field)
        if at is None:
            return 0, 0
        begin = at + read(self.message, at, U32)
        size = read(self.message, begin, U32)
        if begin + 4 + size * width > len(self.message):
            raise Malformed(f"a list of {size} items reaches over the end of its message")
        return begin + 4, size

    def tables(self, field: int, most: int) -> list[Table]:
        """Return a list of tables, at the most so many."""
        begin, size = self.vector(field, 4)
        if size > most:
            raise Malformed(f"there are {size} of what there are at most {most}")
        places = range(begin, begin + 4 * size, 4)
        return [table_at(self.message, at + read(self.message, at, U32)) for at in places]

    def _place(self, field: int) -> int | None:
        slot = 4 + 2 * field
        if slot + 2 > self.size:
            return None
        offset = read(self.message, self.fields + slot, U16)
        return self.at + offset if offset else None


def root_of(message: bytes) -> Table:
    """Return the table that a message is."""
    return table_at(message, read(message, 0, U32))


def table_at(message: bytes, at: int) -> Table:
    """Return the table at a place."""
    fields = at - read(message, at, I32)
    size = read(message, fields, U16)
    if fields + size > len(message):
        raise Malformed("a list of fields reaches over the end of its message")
    return Table(message, at, fields, size)


def read(message: bytes, at: int, kind: Struct) -> int:
    """Return the number at a place."""
    if not 0 <= at <= len(message) - kind.size:
        raise Malformed(f"an offset leads to byte {at} of a message of {len(message)}")
    value: int = kind.unpack_from(message, at)[0]
    return value
