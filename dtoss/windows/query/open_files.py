"""What was read of windows, and stays open: commits, files of results by end, and sums for lengths not declared.

What was made lately, up to so many bytes; threads share it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dtoss.commits.columnar_files import decoding
from dtoss.commits.file_entry import FileEntry, open_entry
from dtoss.commits.verify_report import commits_from
from dtoss.locks import Lock, Recent
from dtoss.windows.aggregation.pane_state import Columns, PaneState
from dtoss.windows.aggregation.windows_at_watermark import Backwards, sums_before
from dtoss.windows.spec import Spec
from dtoss.windows.state.hour_files import Hours, read_hours
from dtoss.windows.state.state_files import PARTS, object_states, read_panes
from dtoss.windows.storage.keys_file import read_material
from dtoss.windows.storage.window_document import HOURS, RESULTS, Document, Home, Part, document_of
from dtoss.windows.trajectories.visitors import last_visits

_FEW = 8
"""Pieces that are read whole and held; of more only what is asked for is read."""
_OPEN_BYTES = 1 << 16
"""What a file that is held counts for, besides its bytes."""


@dataclass(frozen=True, eq=False)
class Piece:
    """Rows of a row group."""

    rows: pa.Table  # Those, each column whole
    end: NDArray[np.int64]  # int64 (n,). Their ends
    rising: bool  # Whether these are in order

    @classmethod
    def of(cls, rows: pa.Table) -> Piece:
        """Return rows as a piece."""
        end = rows["end"].to_numpy()
        return cls(rows, end, bool((end[1:] >= end[:-1]).all()))

    def between(self, first: int, last: int, names: list[str]) -> pa.Table:
        """Return some columns of the rows of ends, both included."""
        some = self.rows.select(names)
        if self.rising:
            low, high = self.end.searchsorted(first), self.end.searchsorted(last, "right")
            return some.slice(int(low), int(high - low))
        return some.filter(pa.array((self.end >= first) & (self.end <= last)))


@dataclass(frozen=True, eq=False)
class ResultFile:
    """A file of results. A large one is opened for each read: of those that are held none has a descriptor."""

    home: Home
    file: FileEntry  # As a commit lists it
    data: pa.Buffer | None  # The bytes of a small one; None of a large one
    footer: pq.FileMetaData  # What it says of its pieces
    first: NDArray[np.int64]  # int64 (pieces,). The ends of each row group
    last: NDArray[np.int64]  # int64 (pieces,). The ends of each row group
    rows: Recent[Piece]  # Where pieces that were read are held
    bytes: int

    @classmethod
    def opened(cls, home: Home, file: FileEntry, rows: Recent[Piece]) -> ResultFile:
        """Return a file of results: a small one was hashed, of a large one the pages are checked as they are read."""
        with open_entry(home.folder, RESULTS, file) as source, decoding(home.folder.path(RESULTS, file.name)):
            data = source.read_buffer() if isinstance(source, pa.BufferReader) else None
            source.seek(0)
            footer = pq.read_metadata(source)
            at = footer.schema.to_arrow_schema().names.index("end")
            told = [footer.row_group(i).column(at).statistics for i in range(footer.num_row_groups)]
            first, last = (np.array([getattr(one, side) for one in told], np.int64) for side in ("min", "max"))
        return cls(home, file, data, footer, first, last, rows, _OPEN_BYTES + (0 if data is None else data.size))

    @property
    def schema(self) -> pa.Schema:
        """Its columns."""
        return self.footer.schema.to_arrow_schema()

    def between(self, first: int, last: int, names: Sequence[str], key: int | None) -> Iterator[pa.Table]:
        """Yield the rows of ends, both included, of all keys or one."""
        there = np.flatnonzero((self.first <= last) & (self.last >= first)).tolist()
        few, wanted = len(there) <= _FEW, list(names)
        for piece in there:
            held = self._piece(piece) if few else Piece.of(self._read(piece, wanted))
            found = held.between(first, last, wanted)
            yield found if key is None else found.filter(pc.equal(found["key"], key))

    def _piece(self, piece: int) -> Piece:
        def read() -> tuple[Piece, int]:
            found = self._read(piece, None)
            return Piece.of(found), found.nbytes

        return self.rows.of((self.file.sha256, piece), read)

    def _read(self, piece: int, names: list[str] | None) -> pa.Table:
        folder = self.home.folder
        source = open_entry(folder, RESULTS, self.file) if self.data is None else pa.BufferReader(self.data)
        with source, decoding(folder.path(RESULTS, self.file.name)):
            parquet = pq.ParquetFile(source, metadata=self.footer, page_checksum_verification=True)
            return parquet.read_row_group(piece, columns=names, use_threads=False).combine_chunks()


T = TypeVar("T")
FILES_BYTES, ROWS_BYTES, ANSWERS_BYTES = 256 << 20, 128 << 20, 32 << 20
"""Of files of results that are open, of rows of them, and of answers."""
MADE_COMMITS = 2
"""Commits of which is held what is made of their state."""
LATELY = 600.0
"""Seconds for which somebody who has asked for something is taken to ask again."""
_COMMIT_BYTES, _COMMITS_BYTES = 1_000, 16 << 20
"""What a commit counts for, and all that are held."""


@dataclass(frozen=True)
class Said:
    """What a commit says of results."""

    number: int
    # watermark, watermark_before: microseconds since 1970, after its batch and before; None before the first row
    watermark: int | None
    watermark_before: int | None
    results: tuple[Part, ...]  # Its files of results


class Reader:
    """What was read of windows of one name; threads share it, and windows of one name at several commits do."""

    def __init__(self, home: Home, keys: FileEntry) -> None:
        self.home = home
        self.keys = keys
        self._lock = Lock()
        self._lines: dict[int, bytes] = {}
        self._said: Recent[Said] = Recent(_COMMITS_BYTES)
        self._files: Recent[ResultFile] = Recent(FILES_BYTES)
        self._rows: Recent[Piece] = Recent(ROWS_BYTES)
        self.answers: Recent[pa.Table] = Recent(ANSWERS_BYTES)
        self._made: dict[tuple[str, str], object] = {}
        self._making: dict[tuple[str, str], Lock] = {}
        self._asked: dict[str, float] = {}

    def said(self, number: int) -> Said:
        """Return what a commit says of results."""
        return self._said.of(number, lambda: (self._read(number), _COMMIT_BYTES))

    def between(self, first: int, last: int) -> Iterator[Said]:
        """Yield what commits say, both numbers included, in their order."""
        for number in range(first, last + 1):
            yield self.said(number)

    def file(self, file: FileEntry) -> ResultFile:
        """Return a file of results, open."""

        def opened() -> tuple[ResultFile, int]:
            found = ResultFile.opened(self.home, file, self._rows)
            return found, found.bytes

        return self._files.of(file.sha256, opened)

    @cached_property
    def material(self) -> dict[str, pa.Table]:
        """What the keys are made of."""
        return read_material(self.home, self.keys)

    def made(self, what: str, commit: str, make: Callable[[], T]) -> T:
        """Return what is made of the state of a commit, by its hash: once for each of the last two commits.

        Who wants what another thread is making waits for that.
        """
        of = what, commit
        with self._lock:
            if of in self._made:
                return self._made[of]  # type: ignore[return-value]
            making = self._making.setdefault(of, Lock())
        with making:
            with self._lock:
                if of in self._made:
                    return self._made[of]  # type: ignore[return-value]
            try:
                found = make()
                with self._lock:
                    self._made[of] = found
                    mine = [name for name in self._made if name[0] == what]
                    for name in mine[:-MADE_COMMITS]:
                        del self._made[name]
            finally:
                with self._lock:
                    self._making.pop(of, None)
        return found

    def has(self, what: str, commit: str) -> bool:
        """Return whether something is made of the state of a commit."""
        with self._lock:
            return (what, commit) in self._made

    def ask(self, what: Sequence[str]) -> None:
        """Remember what is asked for now."""
        now = time.monotonic()
        with self._lock:
            self._asked |= dict.fromkeys(what, now)

    def asked_lately(self) -> list[str]:
        """Return what was asked for in the last ten minutes."""
        since = time.monotonic() - LATELY
        with self._lock:
            return [what for what, last in self._asked.items() if last >= since]

    def _read(self, number: int) -> Said:
        with self._lock:  # the lines of a log are those of a thousand commits
            (commit,) = commits_from(self.home.batches, number, number, self._lines)
        return said_of(document_of(self.home, commit))


def said_of(document: Document) -> Said:
    """Return what a document says of results."""
    return Said(document.number, document.watermark, document.watermark_before, document.files["results"])


def first_due(reader: Reader, head: Document, end: int) -> int:
    """Return the number of the commit with which an end became due; that of the head where it is not due.

    Cost O(log n) commits, of those since then: the head is looked at first.
    """
    high, step = head.number, 1
    while high > 1 and _is_due(reader, high - step, end):
        high, step = high - step, min(2 * step, high - step - 1)
    low = max(high - step, 0)
    while high - low > 1:
        middle = (low + high) // 2
        if _is_due(reader, middle, end):
            high = middle
        else:
            low = middle
    return max(high, 1)


def _is_due(reader: Reader, number: int, end: int) -> bool:
    mark = reader.said(number).watermark
    return mark is not None and mark >= end


def results_between(
    reader: Reader, spec: Spec, head: Document, first: int, last: int, columns: list[str], key: int | None = None
) -> pa.Table:
    """Return the last word on each end and key, by end and key.

    ``key``: only this one; all when None.
    """
    names = ["end", "key", "revision", "final", *columns]
    parts: list[pa.Table] = []
    for part in _files(reader, spec, head, first, last):
        if part.of[0] <= last and part.of[1] >= first:
            parts += reader.file(part.file).between(first, last, names, key)
    if not parts:
        known = Columns(spec).results
        return pa.schema([known.field(name) for name in names]).empty_table()
    return last_words(pa.concat_tables(parts), first == last)


def _files(reader: Reader, spec: Spec, head: Document, first: int, last: int) -> Iterator[Part]:
    """Yield the files that may have ends: of past hours, of rebuilds since these were merged, of commits."""
    hours = hours_read(reader, head)
    if first < hours.until:
        yield from hours.between(first, last)
        for number in head.rebuilds(first, min(last, hours.until - 1)):
            if number > hours.commit:
                yield from reader.said(number).results
    if last >= hours.until:
        for said in _saying(reader, spec, head, max(first, hours.until), last):
            yield from said.results  # a rebuild may be given twice: of equal revisions one stays


def hours_read(reader: Reader, head: Document) -> Hours:
    """Return the results of past hours that a commit names; they are read once."""
    found = head.files[HOURS]
    if not found:
        return Hours()
    file = found[0].file
    return reader.made("hours", file.sha256, lambda: read_hours(reader.home, file))


def _saying(reader: Reader, spec: Spec, head: Document, first: int, last: int) -> Iterator[Said]:
    """Yield the commits that may say something of ends, in their order."""
    for said in reader.between(first_due(reader, head, first), head.number):
        before = said.watermark_before
        if before is not None and before - spec.late >= last:
            yield from (reader.said(number) for number in head.rebuilds(first, last) if number >= said.number)
            return
        yield said


def last_words(table: pa.Table, one_end: bool) -> pa.Table:
    """Return of each end and key the row of the highest revision, by end and key."""
    table = table.combine_chunks()
    if len(table) == 0:
        return table
    end, key, revision = (table[name].to_numpy() for name in ("end", "key", "revision"))
    order = np.lexsort((revision, key) if one_end else (revision, key, end))
    end, key = end[order], key[order]
    newest = np.append((end[1:] != end[:-1]) | (key[1:] != key[:-1]), True)
    return table.take(pa.array(order[newest]))


def with_final(spec: Spec, table: pa.Table, watermark: int | None) -> pa.Table:
    """Return results with what is final by now."""
    if watermark is None:
        return table
    final = pc.less_equal(table["end"], watermark - spec.late)
    return table.set_column(table.column_names.index("final"), "final", final)


ALL_PANES, ALL_SUMS, LAST_VISITS = "panes", "sums", "visits"


@dataclass(frozen=True)
class StateAsked:
    """The state of windows at a commit, as it is asked. What is made of it is held for the last two commits."""

    reader: Reader
    spec: Spec
    head: Document  # The commit, with a watermark

    def asked(self, *what: str) -> StateAsked:
        """Return this, and remember that somebody asks for it now."""
        self.reader.ask(what)
        return self

    def panes(self) -> PaneState:
        """Return all panes that are kept. Cost O(bytes of them), once."""

        def joined() -> PaneState:
            parts, mark = self.head.files["panes"], self.head.watermark
            return PaneState.joined(
                self.spec, [read_panes(self.reader.home, self.spec, parts, part, mark) for part in range(PARTS)]
            )

        return self.reader.made(ALL_PANES, self.head.commit.sha256, joined)

    def sums(self) -> Backwards:
        """Return the sums of panes backwards from the watermark."""

        def summed() -> Backwards:
            return sums_before(self.spec, self.panes(), self._end()).with_table(self.spec.longest)

        return self.reader.made(ALL_SUMS, self.head.commit.sha256, summed)

    def visits(self) -> Backwards:
        """Return how many objects were last in a key in which pane, backwards. Cost O(bytes of all objects), once."""

        def counted() -> Backwards:
            states = object_states(self.reader.home, self.head.files["objects"], self.head.commit.document["id"])
            return last_visits(self.spec, states, self._end()).with_table(self.spec.longest)

        return self.reader.made(LAST_VISITS, self.head.commit.sha256, counted)

    def is_ready(self) -> bool:
        """Return whether all that was asked for lately is made of this commit."""
        return all(self.reader.has(what, self.head.commit.sha256) for what in self._wanted())

    def prepare(self) -> None:
        """Make what was asked for lately of this commit, so that nobody waits for it."""
        for what in self._wanted():
            {ALL_PANES: self.panes, ALL_SUMS: self.sums, LAST_VISITS: self.visits}[what]()

    def _wanted(self) -> list[str]:
        return [] if self.head.watermark is None else self.reader.asked_lately()

    def _end(self) -> int:
        assert self.head.watermark is not None
        return self.head.watermark // self.spec.pane
