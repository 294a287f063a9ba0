"""The one process that adds rows to a log: it appends, syncs, seals, and mends what the one before it has left."""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pyarrow as pa

from dtoss.commits.folder import LocalFolder
from dtoss.commits.lease import LEASE, Writer, take, without_lease
from dtoss.commits.process import is_passing, passing_name
from dtoss.errors import InputError, StoreError, reason
from dtoss.log.disk import Bytes, Disk
from dtoss.log.open_segment import (
    SLOT_BYTES,
    Contents,
    Durable,
    begin_of,
    contents_of,
    records_of,
    slot_of,
    upto_record,
)
from dtoss.log.read_upto import MOST_SOURCES, ReadUpto, together
from dtoss.log.segment_names import (
    HIDDEN,
    SEAL,
    SEALING,
    Segment,
    is_asked,
    open_path,
    open_segments,
    sealed_in,
    sealed_path,
)
from dtoss.snapshots.store import on_stderr

SEAL_BYTES = 64 << 20
"""Bytes of an open segment from which on it is sealed."""
SEAL_SECONDS = 60.0
"""Age of its first row from which on it is sealed, as those wait who read files."""
RETRY_SECONDS = 1.0
"""How long what could not be sealed waits until it is tried again."""


@dataclass
class _Open:
    """The open segment to which rows are added."""

    number: int  # Of the file, as the system has it
    path: str
    first: int
    size: int  # Where the next record goes
    durable: Durable
    since: float | None = None  # When its first row was added, by the writer's clock; None while there is none
    fault: OSError | None = None  # Why its name may not be on the disk; None where it is


class LogWriter:
    """The writer of a log. Several threads may use one."""

    def __init__(
        self,
        folder: str,
        schema: pa.Schema,
        lease: Writer,
        seal_bytes: int,
        seal_seconds: float,
        warn: Callable[[str], None],
        clock: Callable[[], float],
        disk: Disk,
    ) -> None:
        self.folder, self.schema = folder, schema
        self.log = ""  # What tells the log from others: eight hexadecimal digits
        self.next = 1  # The sequence number of the next row
        self.upto: dict[str, ReadUpto] = {}  # Where sources go on, as far as that is on the disk
        self._said: list[ReadUpto] = []  # What was said of them since
        self._lease, self._warn, self._clock, self._disk = lease, warn, clock, disk
        self._seal_bytes, self._seal_seconds = seal_bytes, seal_seconds
        self._open = _Open(-1, "", 1, 0, Durable(0, 0))
        self._ailing = False  # Whether the open segment is not trusted, and has to be made anew
        self._taken_back = False  # Whether rows were, and nobody who waits for them was told
        self._left: list[tuple[Segment, int]] = []  # What is to be sealed yet, and the last number of each
        self._retry = 0.0
        self._adding, self._sealing = threading.RLock(), threading.Lock()

    @classmethod
    def open(
        cls,
        folder: str | os.PathLike[str],
        schema: pa.Schema,
        *,
        seal_bytes: int = SEAL_BYTES,
        seal_seconds: float = SEAL_SECONDS,
        warn: Callable[[str], None] = on_stderr,
        clock: Callable[[], float] = time.monotonic,
        lease: bool = True,
        disk: Disk | None = None,
    ) -> LogWriter:
        """Return the writer of the log of a folder, which begins with this if there is none.

        ``schema``: as :func:`dtoss.log.log_reader.log_schema` has it. Another process that writes to it, and what is
        damaged and was acknowledged, are a StoreError. What was cut off, which never was, is told of. Without ``lease``
        the caller keeps others away.
        """
        place = os.fspath(folder).rstrip("/") or "/"
        if "://" in place:
            raise InputError(f"{place} is not on a disk: rows that are told are kept on one of this machine")
        if not Path(place).is_dir():
            raise InputError(f"nothing is at {place}: make the folder in which updates arrive")
        hidden = LocalFolder(f"{place}/{HIDDEN}")
        with _refusing(place):
            hidden.make()
            name = f"the log of {place}"
            held = take(hidden, name, warn, lambda: None) if lease else without_lease(hidden, name)
        writer = cls(place, schema, held, seal_bytes, seal_seconds, warn, clock, disk or Disk())
        try:
            with _refusing(place):
                writer._begin()
        except BaseException:
            if writer._open.number >= 0:
                writer._disk.close(writer._open.number)
            held.release()
            raise
        return writer

    @property
    def durable(self) -> int:
        """The sequence number of the last row that is on the disk."""
        return self._open.durable.last

    def check(self) -> None:
        """Do nothing while nobody else has the right to write; a StoreError where somebody took it."""
        self._lease.check()

    def append(self, rows: pa.Table, upto: ReadUpto | None = None) -> int:
        """Write rows, which are not durable yet, and return the sequence number of the first.

        Where that fails none of them is in the log. ``upto``: where their source goes on once they are durable.
        """
        _check(rows, self.schema)
        with self._adding, _refusing(self.folder):
            self._heal()
            first, now = self.next, self._open
            data = records_of(self.log, first, rows) if len(rows) else b""
            if upto is not None:
                if upto.source not in self.upto and len(self.upto) + len(self._said) >= MOST_SOURCES:
                    raise StoreError(f"{self.folder} has offsets of {MOST_SOURCES} sources, and keeps no more")
                data += upto_record(self.log, first + len(rows), upto)
            if not data:
                return first
            try:
                self._disk.write(now.number, data, now.size)
            except BaseException:
                self._cut()
                raise
            now.size += len(data)
            self.next += len(rows)
            self._said += [] if upto is None else [upto]
            if now.since is None and len(rows):
                now.since = self._clock()
        return first

    def sync(self) -> int:
        """Bring all rows that were appended to the disk, and return the sequence number of the last.

        Where that fails, or an append or seal has failed before, those behind :attr:`durable` are not in the log, and
        their numbers are given again. Some may be in it where the process ends before the disk works again.
        """
        with self._adding, _refusing(self.folder):
            try:
                if not self._taken_back:
                    return self._sync()
                self._distrust()
                raise StoreError(f"the log of {self.folder} could not be written: rows were taken back")
            finally:
                self._taken_back = False

    def due(self, now: float | None = None) -> bool:
        """Return whether the log should be sealed: by size, age or wish; not soon after that has failed.

        ``now``: by the writer's clock.
        """
        now = self._clock() if now is None else now
        if now < self._retry:
            return False
        old = self._open.since is not None and now - self._open.since >= self._seal_seconds
        return old or self._open.size >= self._seal_bytes or bool(self._left) or is_asked(self.folder)

    def seal(self) -> str | None:
        """Make a file of updates of what is open, and return its name; None where nothing is.

        Rows may be appended meanwhile by other threads. Where it fails, all rows are in the log as before.
        """
        with self._sealing, _refusing(self.folder):
            asked, doing = (f"{self.folder}/{HIDDEN}/{name}" for name in (SEAL, SEALING))
            try:
                # who asks from now on is served the next time
                with suppress(FileNotFoundError):
                    self._disk.rename(asked, doing)
                # while what is left cannot be sealed no more is left
                before = self._seal_left()
                self._begin_next()
                name = self._seal_left() or before
                self._disk.remove(doing)
            except BaseException:
                self._retry = self._clock() + RETRY_SECONDS
                raise
            return name

    def close(self) -> None:
        """Sync what was appended, and give the log back. What is open stays so."""
        with self._sealing, self._adding:
            try:
                self._sync()
                with suppress(OSError, StoreError):  # who lost the right changes nothing
                    self._heal()
            finally:
                self._disk.close(self._open.number)
                self._lease.release()

    # -- what the writer before has left ------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Mend what is there, and make the open segment: always a new file, so that no late writer reaches it."""
        hidden = f"{self.folder}/{HIDDEN}"
        for file in sorted(os.listdir(hidden)):  # noqa: PTH208
            if is_passing(file) and not file.startswith(LEASE):
                self._disk.remove(f"{hidden}/{file}")
        found = open_segments(self.folder)
        if len({one.log for one in found}) > 1:
            raise StoreError(f"{hidden} has segments of two logs, {found[0].name} and {found[-1].name}: move one away")
        if not found:
            self.log = uuid.uuid4().hex[:8]
            self._take(self._make(1))
        else:
            self.log = found[0].log
            self._left = [(one, after.first - 1) for one, after in pairwise(found)]
            self._go_on(found[-1])
        self._seal_left()
        self._disk.remove(f"{hidden}/{SEALING}")

    def _go_on(self, last: Segment) -> None:
        """Go on with an open segment, in a new file of its name; with other columns after it."""
        data = Path(last.path).read_bytes()
        held = contents_of(self.log, last.first, data, last.path)
        self.upto = held.upto()
        if held.cut:
            self._warn(f"{last.path}: {held.cut:,} bytes at its end were cut off, which were never acknowledged")
        self.next = last.first if held.last is None else held.last + 1
        if held.schema.equals(self.schema, check_metadata=True):
            self._take(self._make_of(data, held, last.first))
            return
        if held.last is not None:
            self._take(self._make_of(data, held, last.first))
            self._disk.close(self._open.number)
            self._left.append((last, held.last))
        self._take(self._make(self.next))

    def _take(self, fresh: _Open) -> None:
        """Let rows go to an open segment from now on; it is not trusted before its name is on the disk."""
        self._open, self._ailing = fresh, fresh.fault is not None
        if fresh.fault is not None:
            raise fresh.fault

    def _make(self, first: int) -> _Open:
        """Make an open segment without rows."""
        data = begin_of(self.log, first, self.schema, self.upto.values())
        return self._place([data], first, Durable(len(data), first - 1))

    def _make_of(self, data: bytes, held: Contents, first: int) -> _Open:
        """Make an open segment anew of what is whole of it."""
        durable = Durable(held.end, first - 1 if held.last is None else held.last)
        view = memoryview(data)[: held.end]
        slot = slot_of(self.log, durable)
        return self._place([slot, view[len(slot) :]], first, durable)

    def _place(self, pieces: Sequence[Bytes], first: int, durable: Durable) -> _Open:
        """Make a file under the name of an open segment."""
        path = open_path(self.folder, self.log, first)
        number = self._put(pieces, path)
        made = _Open(number, path, first, durable.end, durable, self._clock() if durable.last >= first else None)
        try:
            self._disk.sync_folder(f"{self.folder}/{HIDDEN}")
        except OSError as error:
            # it is there for all who look, and cannot be taken back
            made.fault = error
        return made

    def _put(self, pieces: Sequence[Bytes], path: str) -> int:
        """Make a file under a name, whole or not at all, and return its number, as the system has it."""
        fresh = f"{self.folder}/{HIDDEN}/{passing_name()}"
        number = self._disk.make(fresh, pieces)
        try:
            self._lease.check()
            self._disk.rename(fresh, path)
        except BaseException:
            self._disk.close(number)
            with suppress(OSError):
                self._disk.remove(fresh)
            raise
        return number

    # -- the disk ---------------------------------------------------------------------------------------------------

    def _cut(self) -> None:
        """Cut off what was half written."""
        try:
            self._disk.cut(self._open.number, self._open.size)
        except OSError:
            self._distrust()

    def _sync(self) -> int:
        now = self._open
        if now.size == now.durable.end:
            return now.durable.last
        durable = Durable(now.size, self.next - 1)
        try:
            self._lease.check()
            self._disk.sync(now.number)
        except BaseException:
            self._distrust()
            raise
        now.durable = durable
        self.upto, self._said = together([*self.upto.values(), *self._said]), []
        try:
            self._disk.write(now.number, slot_of(self.log, durable), 0)
        except OSError:
            # somebody may have read it all the same: the rows are in
            self._distrust()
            self._heal()
        return durable.last

    def _distrust(self) -> None:
        """Take back what is not durable: nobody knows what of it is on the disk."""
        self._ailing = True
        self._taken_back |= self._open.size > self._open.durable.end
        self.next, self._said = self._open.durable.last + 1, []
        self._open.size = self._open.durable.end

    def _heal(self) -> None:
        """Make the open segment anew of what was durable, where it is not trusted."""
        if not self._ailing:
            return
        old = self._open
        # what its slot says is not trusted either
        data = slot_of(self.log, old.durable) + os.pread(old.number, old.durable.end - SLOT_BYTES, SLOT_BYTES)
        held = contents_of(self.log, old.first, data, old.path)
        fresh = self._make_of(data, held, old.first)
        self._disk.close(old.number)
        self._take(fresh)

    # -- sealing ------------------------------------------------------------------------------------------------------

    def _begin_next(self) -> None:
        """Begin the next open segment, if there are rows in the one that is: so their numbers are never given again.

        One that only offsets have made large is made anew under its name.
        """
        with self._adding:
            self._sync()
            self._heal()
            now = self._open
            if self.next > now.first or now.size >= self._seal_bytes:
                fresh = self._make(self.next)
                if self.next > now.first:
                    self._left.append((Segment(self.log, now.first, None, now.path), self.next - 1))
                self._disk.close(now.number)
                self._take(fresh)

    def _seal_left(self) -> str | None:
        """Make files of updates of what is to be sealed; return the name of the last one."""
        name = None
        while self._left:
            name = self._seal_one(*self._left[0])
            del self._left[0]
        return name

    def _seal_one(self, segment: Segment, last: int) -> str:
        done = sealed_path(self.folder, segment.log, segment.first, last)
        if not any((one.log, one.first) == (segment.log, segment.first) for one in sealed_in(self.folder)):
            held = contents_of(segment.log, segment.first, Path(segment.path).read_bytes(), segment.path)
            if held.last is None or held.last < last:
                raise StoreError(f"{segment.path} ends before row {last:,}, where the next segment begins")
            self._disk.close(self._put([memoryview(_parquet(held, segment.first, last))], done))
        self._disk.sync_folder(self.folder)
        self._disk.remove(segment.path)
        self._disk.sync_folder(f"{self.folder}/{HIDDEN}")
        return done.rpartition("/")[2]


def _parquet(held: Contents, first: int, last: int) -> pa.Buffer:
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    rows = pa.Table.from_batches([rows for _, rows in held.batches(first, last)], held.schema)
    pq.write_table(rows.combine_chunks(), sink, compression="zstd")
    return sink.getvalue()


def _check(rows: pa.Table, schema: pa.Schema) -> None:
    if not rows.schema.equals(schema):
        raise ValueError(f"rows have the columns {_schema_text(rows.schema)}, and the log {_schema_text(schema)}")
    for field in schema:
        if not field.nullable and (nulls := rows.column(field.name).null_count):
            raise ValueError(f"column {field.name!r} holds no value in {nulls:,} of {len(rows):,} rows")


def _schema_text(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} ({field.type}{'' if field.nullable else ' not null'})" for field in schema)


@contextmanager
def _refusing(folder: str) -> Iterator[None]:
    """Turn what the disk refuses into the error of who could not write."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"the log of {folder} cannot be written: {reason(error)}") from None
