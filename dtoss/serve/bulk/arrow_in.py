"""Places in an Arrow IPC stream that a stranger sent.

The stream is read here and not by a library in C++: nothing but columns of plain numbers is wanted, each message says
where they are, and every such number is held against the body before memory is looked at. What else Arrow knows
(dictionaries, compression, nested and extension types, big-endian numbers) is refused by its name.

Tables of flatbuffers as they stand in the messages of Arrow, read without trusting a single number in them.

Each place is compared with the ends of the message before it is read, so that nothing but :class:`Malformed` comes of
any bytes. A table is a place; before it stands how far back its list of fields is, which says where each field is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from struct import Struct
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.serve.core.problems import Problem
from dtoss.snapshots.column_types import stored_type

Bytes: TypeAlias = bytes | bytearray
CONTINUED = 0xFFFFFFFF
"""What a message begins with."""
MOST_BATCHES = 10_000
MOST_METADATA = 1_000_000
"""Bytes of a message's metadata."""
LONGEST_NAME = 100
OLDEST_VERSION = 3
"""Of the metadata: V4, which Arrow writes since 0.8."""
SCHEMA, DICTIONARY, RECORDS = 1, 2, 3
"""What a message is."""
WHOLE, FLOATING = 2, 3
"""Types of columns that are read: integers and floating-point numbers."""
_NODE = Struct("<qq")


def columns_in(
    stream: Bytes, wanted: Sequence[str], optional: Sequence[str], most: int, check: Callable[[], None]
) -> dict[str, NDArray[np.float64]]:
    """Return the columns of a stream by their names, float64, as long as one another."""
    try:
        return _columns_in(stream, wanted, optional, most, check)
    except Malformed as wrong:
        names = ", ".join([*wanted, *(f"perhaps {name}" for name in optional)])
        raise Problem(
            400,
            f"the body is not an Arrow stream that is read here: {wrong}; send columns of numbers called {names}, "
            "without nulls and not compressed",
            limit="body",
        ) from None


def table_in(stream: Bytes, most: int, check: Callable[[], None]) -> pa.Table:
    """Return the columns of a stream of any plain types, as Arrow's own reader has them: of ``most`` rows at the most.

    What it would trust is looked at first: each message is within the body, and nothing in it claims to be longer than
    that. What it has read is compared with itself before anybody looks at a value.
    """
    try:
        _check_messages(stream, most, check)
        table = pa.ipc.open_stream(stream).read_all()
        table.validate(full=True)
        for kind in table.schema.types:
            stored_type(kind)  # decodes the names in it
        return table
    except (ValueError, pa.ArrowException, OSError, NotImplementedError, MemoryError) as wrong:
        raise Problem(
            400,
            f"the body is not an Arrow stream that is read here: {' '.join(str(wrong).split())}; send columns of plain "
            "types, not compressed and without dictionaries",
            limit="body",
        ) from None


def _check_messages(stream: Bytes, most: int, check: Callable[[], None]) -> None:
    found = _message(stream, 0)
    if found is None or found[0].number(1, U8) != SCHEMA:
        raise Malformed("it does not begin with a schema")
    rows, longest = 0, max(most, 8 * len(stream))
    for number, header, _, _ in _batches_behind(stream, found[1] + found[2], check):
        batch = header.table(2)
        if header.number(1, U8) != RECORDS or batch is None:
            raise Malformed(f"message {number} is no batch of rows: it is a dictionary, or of another kind")
        if batch.table(3) is not None:
            raise Malformed("a batch is compressed")
        rows += batch.number(0, I64)
        if rows > most:
            raise too_many_rows(rows, most)
        nodes, count = batch.vector(1, 16)
        for node in range(nodes, nodes + 16 * count, 16):
            if not 0 <= (length := read(batch.message, node, I64)) <= longest:
                raise Malformed(f"a column claims {length:,} values")


def too_many_rows(rows: int, most: int) -> Problem:
    """Return what to say of too many rows of positions."""
    return Problem(
        413,
        f"there are {rows:,} rows or more: at most {most:,} go into a request; send them in several",
        limit="rows",
        value=rows,
        bound=most,
    )


def _batches_behind(stream: Bytes, at: int, check: Callable[[], None]) -> Iterator[tuple[int, Table, int, int]]:
    """Yield each message behind a place: which one it is, from 1 on, its header, and where its body is, how long."""
    number = 0
    while (found := _message(stream, at)) is not None:
        header, begin, body = found
        at = begin + body
        number += 1
        check()
        if number > MOST_BATCHES:
            raise Malformed(f"it has more than {MOST_BATCHES:,} batches")
        yield number, header, begin, body


def _columns_in(
    stream: Bytes, wanted: Sequence[str], optional: Sequence[str], most: int, check: Callable[[], None]
) -> dict[str, NDArray[np.float64]]:
    found = _message(stream, 0)
    if found is None:
        raise Malformed("it is empty")
    header, at, body = found
    if body or header.number(1, U8) != SCHEMA:
        raise Malformed("it does not begin with a schema")
    names, kinds = _schema(header, wanted, optional)
    pieces: dict[str, list[NDArray[np.float64]]] = {name: [np.zeros(0)] for name in names}
    rows = 0
    for number, header, begin, body in _batches_behind(stream, at, check):
        kind = header.number(1, U8)
        if kind == DICTIONARY:
            raise Malformed("it has a dictionary")
        if kind != RECORDS:
            raise Malformed(f"message {number} is of kind {kind} and no batch of rows")
        length, columns = _batch(header, stream, begin, body, names, kinds, rows, most)
        rows += length
        for name, column in zip(names, columns, strict=True):
            pieces[name].append(column)
    return {name: np.concatenate(parts) for name, parts in pieces.items()}


def _message(stream: Bytes, at: int) -> tuple[Table, int, int] | None:
    """Return a message's table, where its body begins and how long it is; None at the end of the stream."""
    if at == len(stream):
        return None
    if len(stream) - at < 8 or U32.unpack_from(stream, at)[0] != CONTINUED:
        raise Malformed(f"no message begins at byte {at}")
    size: int = I32.unpack_from(stream, at + 4)[0]
    if size == 0:
        return None
    begin = at + 8 + size
    if not 8 <= size <= MOST_METADATA or begin > len(stream):
        raise Malformed(f"the message at byte {at} claims {size:,} bytes of metadata")
    header = root_of(bytes(stream[at + 8 : begin]))
    body = header.number(3, I64)
    if not 0 <= body <= len(stream) - begin:
        raise Malformed(f"the message at byte {at} claims a body of {body:,} bytes, and {len(stream) - begin:,} follow")
    if header.number(0, I16) < OLDEST_VERSION:
        raise Malformed("it is of a version before V4")
    return header, begin, body


def _schema(message: Table, wanted: Sequence[str], optional: Sequence[str]) -> tuple[list[str], list[np.dtype]]:
    """Return the names and types of the columns."""
    schema = message.table(2)
    if schema is None:
        raise Malformed("its schema is missing")
    if schema.number(0, I16) != 0:
        raise Malformed("its numbers are big-endian")
    names: list[str] = []
    kinds = []
    for field in schema.tables(1, 1_000):
        name = field.text(0, LONGEST_NAME)
        if name not in wanted and name not in optional:
            raise Malformed(f"column {name!r} is not known")
        if name in names:
            raise Malformed(f"column {name!r} is there twice")
        names.append(name)
        kinds.append(_kind(field, name))
    for name in wanted:
        if name not in names:
            raise Malformed(f"column {name!r} is missing")
    return names, kinds


def _kind(field: Table, name: str) -> np.dtype:
    """Return the type of a column's numbers."""
    kind, told = field.number(2, U8), field.table(3)
    if field.table(4) is not None:
        raise Malformed(f"column {name!r} is encoded by a dictionary")
    if told is None or kind not in (WHOLE, FLOATING) or field.tables(5, 0):
        raise Malformed(f"column {name!r} is not of numbers")
    if kind == FLOATING:
        codes = {0: "<f2", 1: "<f4", 2: "<f8"}
        code = codes.get(told.number(0, I16))
    else:
        width = told.number(0, I32)
        code = f"<{'i' if told.number(1, U8) else 'u'}{width // 8}" if width in (8, 16, 32, 64) else None
    if code is None:
        raise Malformed(f"column {name!r} is not of numbers that are read here")
    return np.dtype(code)


def _batch(
    message: Table,
    stream: Bytes,
    begin: int,
    body: int,
    names: list[str],
    kinds: list[np.dtype],
    rows: int,
    most: int,
) -> tuple[int, list[NDArray[np.float64]]]:
    """Return how many rows a batch has, and its columns."""
    batch = message.table(2)
    if batch is None:
        raise Malformed("a batch is missing")
    length = batch.number(0, I64)
    if length < 0:
        raise Malformed(f"a batch claims {length} rows")
    if rows + length > most:
        raise Problem(
            413,
            f"there are {rows + length:,} places or more: at most {most:,} go into a request; send them in several",
            limit="bulk_queries",
            value=rows + length,
            bound=most,
        )
    if batch.table(3) is not None:
        raise Malformed("a batch is compressed")
    nodes, count = batch.vector(1, 16)
    buffers, places = batch.vector(2, 16)
    if count != len(names) or places != 2 * count or batch.vector(4, 8)[1]:
        raise Malformed(f"a batch has {count} columns in {places} buffers: {len(names)} in {2 * len(names)} are wanted")
    columns = []
    for i, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        own, nulls = _NODE.unpack_from(batch.message, nodes + 16 * i)
        if own != length:
            raise Malformed(f"column {name!r} has {own} rows in a batch of {length}")
        valid = _buffer(batch.message, buffers + 32 * i, begin, body)
        at, size = _buffer(batch.message, buffers + 32 * i + 16, begin, body)
        if size < length * kind.itemsize:
            raise Malformed(f"column {name!r} has {size} bytes for {length} rows")
        _no_nulls(stream, valid, length, nulls, name, rows)
        columns.append(np.frombuffer(stream, kind, length, at).astype(np.float64))
    return length, columns


def _buffer(message: bytes, at: int, begin: int, body: int) -> tuple[int, int]:
    """Return where in the stream a buffer begins, and how long it is."""
    offset, size = read(message, at, I64), read(message, at + 8, I64)
    if not (0 <= offset <= body and 0 <= size <= body - offset):
        raise Malformed(f"a buffer at {offset} of {size} bytes is not within its body of {body}")
    return begin + offset, size


def _no_nulls(stream: Bytes, valid: tuple[int, int], length: int, nulls: int, name: str, rows: int) -> None:
    """Refuse a column that has nulls, by the row of the first."""
    at, size = valid
    if size == 0:
        if nulls:
            raise Malformed(f"column {name!r} claims {nulls} nulls and does not say where")
        return
    if 8 * size < length:
        raise Malformed(f"column {name!r} says of {8 * size} rows whether they are null, and has {length}")
    bits = np.unpackbits(np.frombuffer(stream, np.uint8, -(-length // 8), at), bitorder="little")[:length]
    if not bits.all():
        raise Malformed(f"column {name!r} is null in row {rows + int(bits.argmin())}")


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
