"""Many small files of events become one of an hour: the same rows, in the same order, with the same numbers.

First the files of the hours are written, with a table of counts and a list that names them all; then a commit names the
list. Whatever ends in between, the events are where the newest commit says. Files that were folded go with the next
fold, so that whoever had just listed them has an hour to read them. A writer whose batch was under way when a fold
commits loses it and does it again: whoever watches folds between two batches.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dtoss.commits.chain import Chain, Conflict, silent
from dtoss.commits.folding import KEPT, clear_passing, fold
from dtoss.watch.home import EVENTS, Home
from dtoss.watch.told.contents import Contents, FoldedFile, contents_of
from dtoss.watch.told.counts import added, counted, encoded_tally, read_tally
from dtoss.watch.told.cursor import Cursor
from dtoss.watch.told.document import Document, Listed, documents, head_of
from dtoss.watch.told.event_files import read_events

HOUR_US = 3_600_000_000
FOLDED_BYTES = 128 << 20
"""A file of folded events is closed once it is so long."""
FOLDED_GROUP_ROWS = 1 << 17
"""Rows of a group of a folded file: a cursor skips groups."""
COMMIT_TRIES = 20
"""How often a list is committed where others commit meanwhile."""
KEPT_COMMITS_SECONDS = 3600.0
"""Commits younger than this stay files of their own."""
_FOLDED_FROM = 2
_TALLIES = 64


@dataclass(frozen=True)
class Folding:
    """What a fold has done.

    Parameters
    ----------
    batches
        Commits that are covered now and were not.
    events
        Of these.
    files
        That hold them now.
    removed
        Files of earlier folds that went.
    commits
        Files of commits that are lines of a log now.
    """

    batches: int = 0
    events: int = 0
    files: int = 0
    removed: int = 0
    commits: int = 0


def fold_watch(home: Home, now_us: int, warn: Callable[[str], None] = silent) -> Folding:
    """Fold the events of all hours that have ended, and old commits.

    Parameters
    ----------
    home
        Of the watch.
    now_us
        What the time is, in microseconds since 1970.
    warn
        Is told what was left out.

    Raises
    ------
    StoreError
        If a file that is to be folded is missing or damaged: nothing is folded then.
    OSError
        If something cannot be read or written.

    Notes
    -----
    Cost: each event is read and written once in all. Memory: a file of :data:`FOLDED_BYTES` and a group of rows.
    """
    done = fold_events(home, now_us)
    commits = 0
    for chain in (home.batches, home.changes):
        clear_passing(chain)
        commits += fold_chain(chain, now_us, warn)
    return replace(done, commits=commits)


def fold_events(home: Home, now_us: int) -> Folding:
    """Fold the events of all hours that have ended, and remove the files that the fold before has made needless.

    Parameters
    ----------
    home
        Of the watch.
    now_us
        What the time is, in microseconds since 1970.

    Raises
    ------
    StoreError, OSError
        As :func:`fold_watch`.
    """
    head = head_of(home)
    if head is None:
        return Folding()
    contents = contents_of(home, head.folded)
    batches = list(_ended(home, contents.last + 1, head.number, now_us - now_us % HOUR_US))
    if len(batches) < _FOLDED_FROM:
        return Folding()
    removed = sweep(home, contents)
    writer = _Writer(home)
    for _, hour in groupby(batches, lambda batch: batch.wall_us // HOUR_US):
        for batch in hour:
            for file in batch.events:
                for table in read_events(home, file):
                    writer.add(table, batch.wall_us)
        writer.close()
    tally = added([read_tally(home, contents), *writer.tallies])
    fresh = Contents(
        batches[-1].number,
        (*contents.files, *writer.files),
        contents.last,
        write_listed(home, "counts-", encoded_tally(tally), tally.num_rows),
        contents.begin,
        contents.gone,
        head.folded,
    )
    if not commit_contents(home, fresh, head, now_us):
        return Folding(removed=removed)  # another one was faster
    rows = sum(file.file.rows for file in writer.files)
    return Folding(len(batches), rows, len(writer.files), removed)


def sweep(home: Home, contents: Contents) -> int:
    """Remove what the list of older events has made needless, and return how many files went.

    Parameters
    ----------
    home
        Of the watch.
    contents
        The newest list. Gone are then the own files of all batches that it covers, and older lists.

    Raises
    ------
    StoreError
        If a commit cannot be read.
    OSError
        If a file cannot be removed.
    """
    there = home.folder.sizes(EVENTS)
    needed = contents.names
    gone = 0
    for batch in documents(home, max(contents.swept + 1, contents.begin), contents.last):
        for name in [file.name for file in batch.events]:
            if name in there and name not in needed:
                home.folder.remove(EVENTS, name)
                gone += 1
    if contents.before is not None and contents.before in there:
        before = contents_of(home, contents.before)
        old = {contents.before} | ({before.counts.name} if before.counts is not None else set())
        for name in sorted(old - needed):
            if name in there:
                home.folder.remove(EVENTS, name)
                gone += 1
    return gone


def commit_contents(home: Home, contents: Contents, before: Document, now_us: int) -> bool:
    """Let a commit name a list of older events; return False if it was made from a list that is not the newest.

    Parameters
    ----------
    home
        Of the watch.
    contents
        The list.
    before
        The commit that it was made from. Batches may have been committed since, but no other list.
    now_us
        What the time is, in microseconds since 1970.

    Raises
    ------
    StoreError
        If the newest commit is damaged.
    Conflict
        If others commit again and again.
    OSError
        If something cannot be written.
    """
    name, data = contents.encoded()
    home.folder.write(data, EVENTS, name)
    home.folder.sync([(EVENTS, name)])
    head: Document | None = before
    for attempt in range(COMMIT_TRIES):
        if head is None or head.folded != before.folded:
            return False
        try:
            home.batches.append(carried_on(head, name, now_us), head.commit)
            return True
        except Conflict:
            if attempt == COMMIT_TRIES - 1:
                raise
            head = head_of(home)
    raise AssertionError


def carried_on(head: Document, folded: str | None, now_us: int) -> dict[str, Any]:
    """Return the document of a commit without rows, which leaves all but the list of older events as it is.

    Parameters
    ----------
    head
        The commit before.
    folded
        The name of the list.
    now_us
        What the time is, in microseconds since 1970.
    """
    said = dict(head.commit.document)
    counts = said.get("counts")
    if isinstance(counts, dict):
        # what is counted of a batch is of that batch; what stands, stands
        said["counts"] = {name: value if name == "objects" else 0 for name, value in counts.items()}
    if "quarantine" in said:
        said["quarantine"] = []
    return said | {
        "batch": {"query": "", "batch": -1, "wall_us": now_us},
        "events": [],
        "folded": folded,
    }


def write_listed(home: Home, prefix: str, data: bytes, rows: int) -> Listed:
    """Write a file under a name that holds its hash, to the disk, and return how a list has it.

    Parameters
    ----------
    home
        Of the watch.
    prefix
        The beginning of its name.
    data
        Its bytes.
    rows
        How many it has.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    sha = hashlib.sha256(data).hexdigest()
    name = f"{prefix}{sha[:32]}.parquet"
    home.folder.make(EVENTS)
    home.folder.write(data, EVENTS, name)
    home.folder.sync([(EVENTS, name)])
    return Listed(name, rows, len(data), sha)


@dataclass
class _Writer:
    """Files of folded events, of which one is open."""

    home: Home
    files: list[FoldedFile] = field(default_factory=list)
    tallies: list[pa.Table] = field(default_factory=list)
    _waiting: list[pa.Table] = field(default_factory=list)
    _waiting_rows: int = 0
    _sink: pa.BufferOutputStream | None = None
    _writer: pq.ParquetWriter | None = None
    _rows: int = 0
    _first: Cursor | None = None
    _last: Cursor | None = None
    _until_us: int = 0

    def add(self, table: pa.Table, wall_us: int) -> None:
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
        if self._waiting_rows >= FOLDED_GROUP_ROWS:
            self._flush()
            if self._sink is not None and self._sink.tell() >= FOLDED_BYTES:
                self.close()

    def _flush(self) -> None:
        if not self._waiting:
            return
        schema = self._waiting[0].schema
        if self._writer is None:
            self._sink = pa.BufferOutputStream()
            self._writer = pq.ParquetWriter(self._sink, schema, compression="zstd", write_page_checksum=True)
        table = pa.concat_tables(self._waiting).unify_dictionaries().combine_chunks()
        self._writer.write_table(table, FOLDED_GROUP_ROWS)
        # the schema of the file that is open stands for the next tables too
        self._waiting = [table.slice(0, 0)]
        self._waiting_rows = 0

    def close(self) -> None:
        if self._waiting_rows or (self._writer is None and self._waiting):
            self._flush()
        if self._writer is not None and self._sink is not None and self._first is not None and self._last is not None:
            self._writer.close()
            data = bytes(self._sink.getvalue())
            listed = write_listed(self.home, "hour-", data, self._rows)
            self.files.append(FoldedFile(listed, self._first, self._last, self._until_us))
        self._waiting, self._waiting_rows, self._rows, self._until_us = [], 0, 0, 0
        self._sink = self._writer = self._first = self._last = None


def _cursor(table: pa.Table, row: int) -> Cursor:
    return Cursor(table.column("batch")[row].as_py(), table.column("number")[row].as_py())


def _ended(home: Home, first: int, last: int, end_us: int) -> Iterator[Document]:
    """Yield the first commits that were made in hours that have ended."""
    for document in documents(home, first, last):
        if document.wall_us >= end_us:
            return
        yield document


def fold_chain(chain: Chain, now_us: int, warn: Callable[[str], None] = silent) -> int:
    """Fold old commits of a chain, and return how many files went.

    Parameters
    ----------
    chain
        Of a watch, or of its changes.
    now_us
        What the time is, in microseconds since 1970.
    warn
        Is told what was left out.

    Raises
    ------
    StoreError, OSError
        As :func:`dtoss.commits.folding.fold`.
    """
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=now_us)
    return fold(chain, KEPT, KEPT_COMMITS_SECONDS, warn, moment)
