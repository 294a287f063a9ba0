"""Old events: many small files become one of an hour, and what no named reader waits for goes.

Only what the newest commits name is kept, and what is young: a batch that is under way may be about to name it. All
writers write a file anew before they name it, so its age says when that was.

First the files of the hours are written, with a table of counts and a list that names them all; then a commit names the
list. Whatever ends in between, the events are where the newest commit says. Files that were folded are needed until the
next fold, so that whoever had just listed them has an hour to read them. A writer whose batch was under way when a fold
commits loses it and does it again: whoever watches folds between two batches.

Files of folded events, as they are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby

import pyarrow as pa
import pyarrow.parquet as pq

from dtoss.commits.chain import COMMITS, Chain, log_of, silent
from dtoss.commits.file_entry import FileEntry, write_entry
from dtoss.commits.log_compaction import NOTHING_REMOVED, SPARED_DEBRIS_SECONDS, Removal, clear_passing, fold
from dtoss.watch.events.event_counts import added, counted, encoded_tally, read_tally
from dtoss.watch.events.event_log import read_events
from dtoss.watch.events.folded_list import Contents, FoldedFile, commit_contents, contents_of
from dtoss.watch.events.readers import Cursor, readers
from dtoss.watch.events.watch_document import Document, dated, documents, head_of
from dtoss.watch.events.watch_tables import clear_watch
from dtoss.watch.watch_folder import EVENTS, Home


@dataclass(frozen=True)
class Retained:
    """What retention has removed."""

    events: int = 0  # Events that are gone
    removed: Removal = NOTHING_REMOVED  # Files that nothing needs any more
    commits: int = 0  # Commits that went, with their logs
    held_by: str | None = None  # The named reader for which older events stay; None where none holds any back


def retain(home: Home, older_than_us: int, now_us: int, spare_seconds: float = SPARED_DEBRIS_SECONDS) -> Retained:
    """Remove events of batches that began long ago, whole files of them, and what nothing needs any more.

    ``older_than_us``: events of batches that began so many microseconds before now may go; ``now_us``: what the time
    is, in microseconds since 1970; ``spare_seconds``: files that nothing names stay so long after they were written.

    First all hours that have ended are folded. A commit then says what is gone, and only then files are removed, so
    that a reader is told of it and sees no gap. Never removed: what is behind the cursor of a named reader, the files
    of the newest commit, and commits that are no line of a log yet.
    """
    if older_than_us < 0:
        raise ValueError(f"older_than_us is {older_than_us}: at least 0 is wanted")
    waiting = readers(home)
    fold_events(home, now_us)
    head = head_of(home)
    if head is None:
        return Retained()
    contents = contents_of(home, head.folded)
    fresh, held_by = _without_old(contents, home, waiting, now_us, older_than_us)
    gone = 0
    if fresh is not contents:
        gone = sum(file.file.rows for file in contents.files[: len(contents.files) - len(fresh.files)])
        if not commit_contents(home, replace(fresh, before=head.folded), head, now_us):
            return Retained(held_by=held_by)  # another one was faster
        head = head_of(home)
        if head is None:
            return Retained(held_by=held_by)
        contents = contents_of(home, head.folded)
    removed = clear_watch(home, spare_seconds)
    return Retained(gone, removed, _remove_commits(home, contents), held_by)


def _without_old(
    contents: Contents, home: Home, waiting: dict[str, Cursor], now_us: int, older_than_us: int
) -> tuple[Contents, str | None]:
    """Return the list without files whose events may all go, and who holds back the first that stays."""
    least = min(waiting.items(), key=lambda item: (item[1], item[0]), default=None)
    number, held_by = 0, None
    oldest_us = now_us - older_than_us
    for file in contents.files:
        if file.until_us > oldest_us:
            break
        if least is not None and least[1] < file.last:
            held_by = least[0]
            break
        number += 1
    begin = _first_kept(contents, home, number, now_us, older_than_us, least)
    if not number and begin == contents.begin:
        return contents, held_by
    gone = contents.files[number - 1].last if number else contents.gone
    return replace(contents, files=contents.files[number:], begin=begin, gone=gone), held_by


def _first_kept(
    contents: Contents, home: Home, number: int, now_us: int, older_than_us: int, least: tuple[str, Cursor] | None
) -> int:
    """Return the first commit that stays: of the first event that stays, or that is young; none that is not folded."""
    bound = contents.files[number].first.batch if number < len(contents.files) else contents.last + 1
    if least is not None:
        bound = min(bound, least[1].batch + 1)
    begin = contents.begin
    # a folded list ends with an hour: nothing of a batch is in two lists
    for document, wall_us in dated(documents(home, contents.begin, contents.last), now_us):
        if wall_us > now_us - older_than_us or document.number >= min(bound, contents.last + 1):
            break
        begin = document.number + 1
    return max(begin, contents.begin)


def _remove_commits(home: Home, contents: Contents) -> int:
    """Remove logs of commits before the first that is kept."""
    chain = home.batches
    gone = 0
    for first, last in chain.listed()[1]:
        if last < min(contents.begin, contents.swept + 1):
            chain.folder.remove(COMMITS, log_of(first, last))
            gone += last - first + 1
    return gone


HOUR_US = 3_600_000_000
KEPT_COMMITS_SECONDS = 3600.0
"""Commits younger than this stay files of their own."""
_FOLDED_FROM = 2


@dataclass(frozen=True)
class Folding:
    """What a fold has done."""

    batches: int = 0  # Commits that are covered now and were not
    events: int = 0
    files: int = 0  # That hold them now
    commits: int = 0  # Files of commits that are lines of a log now


def fold_watch(home: Home, now_us: int, warn: Callable[[str], None] = silent) -> Folding:
    """Fold the events of all hours that have ended, and old commits.

    ``now_us``: what the time is, in microseconds since 1970.

    Cost: each event is read and written once in all. Memory: a file of
    :attr:`~dtoss.watch.watch_folder.Limits.folded_bytes`, and a group of rows.
    """
    done = fold_events(home, now_us)
    commits = 0
    for chain in (home.batches, home.changes):
        clear_passing(chain)
        commits += fold_chain(chain, home.limits.kept_commits, now_us, warn)
    return replace(done, commits=commits)


def fold_events(home: Home, now_us: int) -> Folding:
    """Fold the events of all hours that have ended.

    ``now_us``: what the time is, in microseconds since 1970.
    """
    head = head_of(home)
    if head is None:
        return Folding()
    contents = contents_of(home, head.folded)
    batches = list(_ended(home, contents.last + 1, head.number, now_us))
    if len(batches) < _FOLDED_FROM:
        return Folding()
    writer = FoldedWriter(home)
    for _, hour in groupby(batches, lambda batch: batch[1] // HOUR_US):
        for batch, wall_us in hour:
            for file in batch.events:
                for table in read_events(home, file):
                    writer.add(table, wall_us)
        writer.close()
    tally = added([read_tally(home, contents), *writer.tallies])
    fresh = Contents(
        batches[-1][0].number,
        (*contents.files, *writer.files),
        contents.last,
        write_listed(home, "counts-", encoded_tally(tally), tally.num_rows),
        contents.begin,
        contents.gone,
        head.folded,
        contents.aside,
    )
    if not commit_contents(home, fresh, head, now_us):
        return Folding()  # another one was faster
    rows = sum(file.file.rows for file in writer.files)
    return Folding(len(batches), rows, len(writer.files))


def _ended(home: Home, first: int, last: int, now_us: int) -> Iterator[tuple[Document, int]]:
    """Yield the first commits that were made in hours that have ended, and when each was."""
    end_us = now_us - now_us % HOUR_US
    for document, wall_us in dated(documents(home, first, last), now_us):
        if wall_us >= end_us:
            return
        yield document, wall_us


def fold_chain(chain: Chain, keep: int, now_us: int, warn: Callable[[str], None] = silent) -> int:
    """Fold old commits of a chain, and return how many files went.

    ``now_us``: what the time is, in microseconds since 1970.
    """
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=now_us)
    return fold(chain, keep, KEPT_COMMITS_SECONDS, warn, moment)


_TALLIES = 64


def write_listed(home: Home, prefix: str, data: bytes | pa.Buffer, rows: int) -> FileEntry:
    """Write a file of older events, to the disk, and return how a list has it."""
    return FileEntry.of(write_entry(home.folder, data, rows, "parquet", EVENTS, begin=prefix, digits=32))


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
