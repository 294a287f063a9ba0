"""Small logs, what is in them, and disks that stop or fail at a step."""

from __future__ import annotations

import errno
import json
import os
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from dtoss.commits.offsets import Ledger
from dtoss.log.disk import Disk
from dtoss.log.log_reader import META, LogReader
from dtoss.log.log_writer import LogWriter

ROLES = {"id": "id", "x": "lon", "y": "lat", "time": "t", "deleted": "deleted"}
COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("lon", pa.float64()),
        pa.field("lat", pa.float64()),
        pa.field("t", pa.int64(), nullable=False),
        pa.field("word", pa.string()),
        pa.field("deleted", pa.bool_(), nullable=False),
    ],
    metadata={META: json.dumps(ROLES)},
)
LITTLE = pa.schema([COLUMNS.field("id"), COLUMNS.field("deleted")])
"""Of which a record is small, to be tried byte by byte."""


def rows_of(ids, schema=COLUMNS):
    """Return a row of each id; each third deletes its object."""
    rows = [
        {"id": one, "lon": None, "lat": None, "t": one, "word": None, "deleted": True}
        if one % 3 == 0
        else {"id": one, "lon": one / 8, "lat": -one / 8, "t": one, "word": f"w{one}", "deleted": False}
        for one in ids
    ]
    return pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in rows], schema=schema)


def writer_of(folder, schema=COLUMNS, **options):
    """Return a writer without a lease, whose warnings are errors if nobody takes them."""
    return LogWriter.open(folder, schema, **{"lease": False, "warn": refuse, "disk": Unsynced(), **options})


def refuse(message):
    raise AssertionError(message)


def ids_in(folder, ledger=None, upto=None, schema=COLUMNS):
    """Return the ids of all rows of a log that a ledger has not read, after a look at their numbers."""
    found, after = [], 0
    for first, rows in LogReader(folder, schema).rows_unread(ledger or Ledger(), upto):
        assert rows.schema.equals(schema, check_metadata=True)
        assert first > after
        assert len(rows) > 0
        after = first + len(rows) - 1
        found += rows.column("id").to_pylist()
    return found


def opened(folder):
    """Return the path of the one open segment."""
    (path,) = (Path(folder) / ".log").glob("*.open")
    return path


def sealed(folder):
    """Return the names of the sealed segments."""
    return sorted(path.name for path in Path(folder).glob("positions-*.parquet"))


class Stopped(BaseException):
    """The process ends here."""


class Unsynced(Disk):
    """A disk that no power ever leaves."""

    def sync(self, number):
        pass

    def sync_folder(self, path):
        pass


class FaultyDisk(Unsynced):
    """A disk whose n-th step is the last one of the process, or fails, after half of what it was to write."""

    def __init__(self, at=None, fault=None):
        self.at, self.fault, self.steps, self.dead = at, fault, 0, False
        self.numbers, self.always = set(), False

    def step(self, halfway=lambda: None):
        if self.dead:
            raise Stopped
        self.steps += 1
        if not self.always and self.steps not in (self.at if isinstance(self.at, set) else {self.at}):
            return
        halfway()
        if self.fault is not None:
            raise OSError(self.fault, os.strerror(self.fault))
        self.dead = True
        raise Stopped

    def make(self, path, data):
        self.step()
        number = super().make(path, data)
        self.numbers.add(number)
        return number

    def close(self, number):
        if not self.dead:
            self.numbers.discard(number)
            super().close(number)

    def write(self, number, data, at):
        self.step(lambda: os.pwrite(number, bytes(data)[: len(data) // 2], at))
        super().write(number, data, at)

    def cut(self, number, size):
        self.step()
        super().cut(number, size)

    def sync(self, number):
        self.step()
        super().sync(number)

    def rename(self, path, name):
        self.step()
        super().rename(path, name)

    def sync_folder(self, path):
        self.step()
        super().sync_folder(path)

    def remove(self, path):
        self.step()
        super().remove(path)

    def let_go(self):
        """Close what the process that has ended had open."""
        for number in self.numbers:
            with suppress(OSError):
                os.close(number)
        self.numbers.clear()


FULL, BROKEN = errno.ENOSPC, errno.EIO
