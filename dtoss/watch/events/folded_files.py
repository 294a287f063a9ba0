"""Files of folded events, as they are written."""

from __future__ import annotations

import hashlib

import pyarrow as pa
import pyarrow.parquet as pq

from dtoss.commits.file_entry import FileEntry
from dtoss.watch.events.cursor import Cursor
from dtoss.watch.events.event_counts import added, counted
from dtoss.watch.events.folded_list import FoldedFile
from dtoss.watch.watch_folder import EVENTS, Home

_TALLIES = 64


def write_listed(home: Home, prefix: str, data: bytes, rows: int) -> FileEntry:
    """Write a file under a name that holds its hash, to the disk, and return how a list has it.

    ``data``: its bytes.
    """
    sha = hashlib.sha256(data).hexdigest()
    name = f"{prefix}{sha[:32]}.parquet"
    home.folder.make(EVENTS)
    home.folder.write(data, EVENTS, name)
    home.folder.sync([(EVENTS, name)])
    return FileEntry(name, rows, len(data), sha)


class FoldedWriter:
    """Files of folded events, of which one is open."""

    def __init__(self, home: Home) -> None:
        self.files: list[FoldedFile] = []
        self.tallies: list[pa.Table] = []
        self._home = home
        self._waiting: list[pa.Table] = []
        self._waiting_rows = 0
        self._sink: pa.BufferOutputStream | None = None
        self._writer: pq.ParquetWriter | None = None
        self._rows = 0
        self._first: Cursor | None = None
        self._last: Cursor | None = None
        self._until_us = 0

    def add(self, table: pa.Table, wall_us: int) -> None:
        """Take some events, which follow those that it has, of a batch that began at a time."""
        if not table.num_rows:
            return
        if self._waiting and not self._waiting[0].schema.equals(table.schema):
            self.close()
        self.tallies.append(counted(table))
        if len(self.tallies) >= _TALLIES:
            self.tallies = [added(self.tallies)]
        self._first = self._first or _cursor(table, 0)
        self._last = _cursor(table, table.num_rows - 1)
        self._until_us = max(self._until_us, wall_us)
        self._waiting.append(table)
        self._waiting_rows += table.num_rows
        self._rows += table.num_rows
        if self._waiting_rows >= self._home.limits.folded_group_rows:
            self._flush()
            if self._sink is not None and self._sink.tell() >= self._home.limits.folded_bytes:
                self.close()

    def _flush(self) -> None:
        if not self._waiting:
            return
        schema = self._waiting[0].schema
        if self._writer is None:
            self._sink = pa.BufferOutputStream()
            self._writer = pq.ParquetWriter(self._sink, schema, compression="zstd", write_page_checksum=True)
        table = pa.concat_tables(self._waiting).unify_dictionaries().combine_chunks()
        self._writer.write_table(table, self._home.limits.folded_group_rows)
        # the schema of the file that is open stands for the next tables too
        self._waiting = [table.slice(0, 0)]
        self._waiting_rows = 0

    def close(self) -> None:
        """Write the file that is open, if there is one: what comes next is in another."""
        if self._waiting_rows or (self._writer is None and self._waiting):
            self._flush()
        if self._writer is not None and self._sink is not None and self._first is not None and self._last is not None:
            self._writer.close()
            data = bytes(self._sink.getvalue())
            listed = write_listed(self._home, "hour-", data, self._rows)
            self.files.append(FoldedFile(listed, self._first, self._last, self._until_us))
        self._waiting, self._waiting_rows, self._rows, self._until_us = [], 0, 0, 0
        self._sink = self._writer = self._first = self._last = None


def _cursor(table: pa.Table, row: int) -> Cursor:
    return Cursor(table.column("batch")[row].as_py(), table.column("number")[row].as_py())
