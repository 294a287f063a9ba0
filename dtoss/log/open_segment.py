"""An open segment as bytes: a slot that says what is durable, the columns, then records of rows.

::

    0   64   a slot: mark, checksum, where what is durable ends, the last sequence number of that, zeros
    64       a record without rows: the schema, as Arrow's IPC has it
    ...      records of rows: a record batch, as Arrow's IPC has it
    ...      among them records without rows: up to where the rows of a source are in the log, as JSON

A record is a mark, the XXH64 of all that follows in it, the first sequence number, the rows, the bytes of what it holds
(whole numbers of 64 bits, little-endian), and these bytes, a multiple of eight. The checksums begin with the log's
digits, so that no bytes that somebody sends, and none of another log, look like a record of this one.

The slot is written after each sync, in place. So what is damaged before its end was acknowledged, and is an error; what
follows it and is not whole was not.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from dtoss.errors import StoreError
from dtoss.log.read_upto import ReadUpto, together, upto_of
from dtoss.snapshots.xxh64 import xxh64

SLOT_BYTES = 64
_SLOT_MARK, _MARK = b"dtosslg1", b"dtossrow"
_SUM = 16
"""Where that begins of which the checksum is."""
_SAID = struct.Struct("<QQQ")
RECORD_HEAD = _SUM + _SAID.size
RECORD_ROWS = 1 << 16
"""Rows of a record."""


@dataclass(frozen=True)
class Durable:
    """What of an open segment is on the disk."""

    end: int  # Bytes
    last: int  # The last sequence number; that before the first where there is no row


@dataclass(frozen=True)
class Record:
    """A record that is whole, of rows or of offsets."""

    end: int  # Where it ends in the file
    first: int
    rows: int
    payload: memoryview


@dataclass(frozen=True)
class Contents:
    """What is in an open segment."""

    schema: pa.Schema
    records: tuple[Record, ...]
    begin: int  # Where the first record begins
    end: int  # Where the last whole record ends
    cut: int  # Bytes after that, which were never acknowledged

    @property
    def last(self) -> int | None:
        """The last sequence number; None where there is no row."""
        last = self.records[-1].first + self.records[-1].rows - 1 if self.records else -1
        return last if self.records and last >= self.records[0].first else None

    def upto(self) -> dict[str, ReadUpto]:
        """Return where each source goes on."""
        return together(upto_of(one.payload) for one in self.records if one.rows == 0)

    def batches(self, begin: int, last: int | None = None) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the rows from a sequence number on, up to one, with the number of the first of each batch."""
        for record in self.records:
            skip = max(begin - record.first, 0)
            stop = record.rows if last is None else min(record.rows, last - record.first + 1)
            if skip < stop:
                rows = pa.ipc.read_record_batch(pa.py_buffer(record.payload), self.schema)
                yield record.first + skip, rows.slice(skip, stop - skip)


def slot_of(log: str, durable: Durable) -> bytes:
    """Return the bytes of a slot."""
    said = _SAID.pack(durable.end, durable.last, 0).ljust(SLOT_BYTES - _SUM, b"\0")
    return _SLOT_MARK + _checksum(log, said) + said


def durable_of(log: str, slot: bytes | memoryview) -> Durable | None:
    """Return what a slot says; None where it is damaged, or was read while it was written."""
    slot = memoryview(slot)[:SLOT_BYTES]
    mark = bytes(slot[:8])
    if mark[:7] == _SLOT_MARK[:7] and mark[7:].isdigit() and mark != _SLOT_MARK:
        raise StoreError(f"log {log} has format {mark[7:].decode()}, this dtoss reads 1: install a newer one")
    if len(slot) < SLOT_BYTES or mark != _SLOT_MARK or _checksum(log, slot[_SUM:]) != bytes(slot[8:_SUM]):
        return None
    end, last, _ = _SAID.unpack_from(slot, _SUM)
    return Durable(end, last)


def record_of(log: str, first: int, rows: int, payload: pa.Buffer) -> bytes:
    """Return the bytes of a record."""
    body = b"".join((_SAID.pack(first, rows, payload.size), memoryview(payload)))
    return b"".join((_MARK, _checksum(log, body), body))


def records_of(log: str, first: int, rows: pa.Table) -> bytes:
    """Return the bytes of records of rows that have the numbers from ``first`` on."""
    made = []
    for batch in rows.combine_chunks().to_batches(max_chunksize=RECORD_ROWS):
        made.append(record_of(log, first, len(batch), batch.serialize()))
        first += len(batch)
    return b"".join(made)


def begin_of(log: str, first: int, schema: pa.Schema, upto: Iterable[ReadUpto]) -> bytes:
    """Return the bytes of an open segment without rows, which goes on with the offsets of those before."""
    said = record_of(log, first, 0, schema.serialize()) + b"".join(upto_record(log, first, one) for one in upto)
    return slot_of(log, Durable(SLOT_BYTES + len(said), first - 1)) + said


def upto_record(log: str, following: int, upto: ReadUpto) -> bytes:
    """Return the bytes of a record of offsets; ``following``: the number of the next row."""
    return record_of(log, following, 0, pa.py_buffer(upto.data()))


def record_at(log: str, data: memoryview, at: int) -> Record | None:
    """Return the record at a place; None where no whole one is."""
    if len(data) - at < RECORD_HEAD or bytes(data[at : at + 8]) != _MARK:
        return None
    first, rows, size = _SAID.unpack_from(data, at + _SUM)
    end = at + RECORD_HEAD + size
    if end > len(data) or _checksum(log, data[at + _SUM : end]) != bytes(data[at + 8 : at + _SUM]):
        return None
    return Record(end, first, rows, data[at + RECORD_HEAD : end])


def records_from(log: str, data: memoryview, at: int, first: int) -> Iterator[Record]:
    """Yield whole records from a place on, which go on from a sequence number without a gap."""
    while (record := record_at(log, data, at)) is not None and record.first == first:
        yield record
        at, first = record.end, first + record.rows


def contents_of(log: str, first: int, data: bytes, path: str) -> Contents:
    """Return what is in an open segment.

    What was acknowledged and is not whole is a StoreError that says where; the rest that is not whole is cut.
    """
    view = memoryview(data)
    columns = record_at(log, view, SLOT_BYTES)
    if columns is None or columns.first != first or columns.rows:
        raise _damage_at(path, 0 if columns is not None else SLOT_BYTES)
    records = tuple(records_from(log, view, columns.end, first))
    end = records[-1].end if records else columns.end
    durable = durable_of(log, view)
    # nobody knows what was acknowledged: something was, if there is a record behind
    if end < len(view) and durable is None and _is_followed(log, view, end):
        raise _damage_at(path, end)
    if durable is not None and end < durable.end:
        raise _damage_at(path, end)
    schema = pa.ipc.read_schema(pa.py_buffer(columns.payload))
    return Contents(schema, records, columns.end, end, len(view) - end)


def _is_followed(log: str, data: memoryview, at: int) -> bool:
    """Return whether there is a whole record behind a place."""
    whole = bytes(data[at:])
    found = whole.find(_MARK, 1)
    while found >= 0:
        if found % 8 == 0 and record_at(log, data, at + found) is not None:
            return True
        found = whole.find(_MARK, found + 1)
    return False


def _damage_at(path: str, at: int) -> StoreError:
    return StoreError(
        f"{path} is damaged at byte {at:,}, and rows behind it were acknowledged: restore it from a copy; without it "
        "a new log begins"
    )


def _checksum(log: str, data: bytes | memoryview) -> bytes:
    return bytes.fromhex(xxh64(data, int(log, 16)))
