"""Subscriptions by id, some at a time: of the files that hold them only what is shown is read.

Each file is sorted by id: a base, which holds all that stood at a moment, and the changes after it. They are merged as
they are read; of an id the newest row counts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dtoss.commits.chain import Commit
from dtoss.commits.columnar_files import decoding
from dtoss.commits.file_entry import FileEntry, open_entry
from dtoss.recent import Recent
from dtoss.watch.subscription import SUBSCRIPTION_SCHEMA
from dtoss.watch.subscriptions.current import (
    CHANGE_SCHEMA,
    REMOVED_COLUMN,
    Base,
    base_of,
    base_there,
    by_id,
    file_of_change,
    last_of_each,
    table_at,
)
from dtoss.watch.watch_folder import CHANGES, Home

_NO_BASE = Base(0, None)


@dataclass(frozen=True)
class Run:
    """A file of subscriptions by id."""

    number: int  # Of the change whose file it is; of a base that at which all of it stood
    file: FileEntry  # As a commit lists it
    change: bool  # Whether it is a change's: its versions are null, and some of its rows only remove


@dataclass(frozen=True)
class Stand:
    """What stands after a change, as the files that say so."""

    number: int = 0  # number, sha256: of the change, and of its commit; 0 before the first
    sha256: str = ""
    count: int = 0  # How many subscriptions stand
    base: Base = _NO_BASE  # The last moment of which there is a file
    runs: tuple[Run, ...] = ()  # Those files that count, the newest first


class Pages:
    """Reads subscriptions by id; thread-safe."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self._held: Stand | None = None
        self._tables: Recent[pa.Table] = Recent(home.limits.kept_tables_bytes)

    def now(self) -> Stand:
        """Return what stands now.

        Cost: the head of the chain is read, and the commits since the last call.
        """
        head = self.home.changes.head()
        if head is None:
            return Stand()
        held = self._held
        if held is not None and held.sha256 == head.sha256:
            return held
        base = base_there(self.home, base_of(head, self.home.changes.path(head.number)))
        count = head.document.get("count")
        if not isinstance(count, int):
            count = len(table_at(self.home, head.number))
        self._held = Stand(head.number, head.sha256, count, base, tuple(self._runs(head, base, held)))
        return self._held

    def _runs(self, head: Commit, base: Base, held: Stand | None) -> Iterator[Run]:
        """Yield the files from the head down to the base; of what is known already no commit is read."""
        commit = head
        while commit.number > base.number:
            yield Run(commit.number, file_of_change(commit, self.home.changes.path(commit.number)), True)
            if commit.document.get("replace"):
                return  # nothing of before stands
            if held is not None and held.base == base and held.sha256 == commit.parent:
                yield from held.runs
                return
            if commit.number == 1:
                return
            commit = self.home.changes.read(commit.number - 1)
        if base.entry is not None:
            yield Run(base.number, base.entry, False)

    def behind(self, stand: Stand, after: str | None) -> Iterator[pa.Table]:
        """Yield the subscriptions behind an id in their order, some at a time, each with its version.

        ``after``: the id; from the first one on when None.

        Of each file a group of rows is read at a time; of small ones nothing that was read before.
        """
        files, most = [self._opened(run) for run in stand.runs], self.home.limits.merged_at_once
        while True:
            pieces = [file.behind(after, most) for file in files]
            upto = min((_id(piece, -1) for piece, more in pieces if more), default=None)
            some = [piece if upto is None else piece.slice(0, _place(piece, upto)) for piece, _ in pieces]
            found = _merged(some[::-1])
            if len(found):
                yield found
            if upto is None:
                return
            after = upto

    def one(self, stand: Stand, id: str) -> pa.Table:
        """Return the subscription of an id; an empty table where none stands."""
        for run in stand.runs:
            found = self._opened(run).of(id)
            if len(found):
                return _merged([found])
        return SUBSCRIPTION_SCHEMA.empty_table()

    def _opened(self, run: Run) -> _Sorted:
        key = (run.number, run.file.name)
        table = self._tables.get(key)
        if table is not None:
            return _Sorted([None], lambda group: table)
        path = self.home.asked.path(CHANGES, run.file.name)
        with decoding(path):
            file = pq.ParquetFile(open_entry(self.home.asked, CHANGES, run.file), page_checksum_verification=True)
            lasts = _lasts(file.metadata)

        def read(group: int) -> pa.Table:
            with decoding(path):
                return _as_change(file.read_row_group(group, use_threads=False), run)

        if run.file.bytes > self.home.limits.small_bytes:
            return _Sorted(lasts, read)
        parts = [read(group) for group in range(len(lasts))]
        whole = pa.concat_tables([CHANGE_SCHEMA.empty_table(), *parts]).combine_chunks()
        self._tables.keep(key, whole, whole.nbytes)
        return _Sorted([None], lambda group: whole)


class _Sorted:
    """The rows of a file, by id.

    ``lasts``: the last id of each group of rows; None where it is not known.
    """

    def __init__(self, lasts: Sequence[str | None], read: Callable[[int], pa.Table]) -> None:
        self._lasts = lasts
        self._read = read
        self._group: tuple[int, pa.Table] | None = None

    def behind(self, after: str | None, most: int) -> tuple[pa.Table, bool]:
        """Return some rows behind an id, so many at most, and whether there are more; none only if there are none."""
        for group, last in enumerate(self._lasts):
            if after is not None and last is not None and last <= after:
                continue
            table = self._rows(group)
            first = 0 if after is None else _place(table, after)
            if first < len(table):
                return table.slice(first, most), first + most < len(table) or group + 1 < len(self._lasts)
        return CHANGE_SCHEMA.empty_table(), False

    def of(self, id: str) -> pa.Table:
        """Return the row of an id; an empty table where there is none."""
        for group, last in enumerate(self._lasts):
            if last is not None and last < id:
                continue
            table = self._rows(group)
            end = _place(table, id)
            if end and _id(table, end - 1) == id:
                return table.slice(end - 1, 1)
            if end < len(table):
                break
        return CHANGE_SCHEMA.empty_table()

    def _rows(self, group: int) -> pa.Table:
        if self._group is None or self._group[0] != group:
            self._group = (group, self._read(group))
        return self._group[1]


def _lasts(footer: pq.FileMetaData) -> list[str | None]:
    """Return the last id of each group of rows; None where the footer does not say."""
    at = footer.schema.names.index("id")
    columns = [footer.row_group(group).column(at) for group in range(footer.num_row_groups)]
    return [one.statistics.max if one.is_stats_set and one.statistics.has_min_max else None for one in columns]


def _as_change(rows: pa.Table, run: Run) -> pa.Table:
    """Return rows of a file with all columns, each with the version that it stands for."""
    if run.change:
        version = pa.array(np.full(len(rows), run.number, np.int64))
        rows = rows.set_column(rows.schema.get_field_index("version"), CHANGE_SCHEMA.field("version"), version)
    else:
        rows = rows.append_column(CHANGE_SCHEMA.field(REMOVED_COLUMN), pa.array(np.zeros(len(rows), np.bool_)))
    return rows.select(CHANGE_SCHEMA.names).cast(CHANGE_SCHEMA).combine_chunks()


def _merged(pieces: Sequence[pa.Table]) -> pa.Table:
    """Return what stands of rows, by id: of those of one id the last counts."""
    some = [piece for piece in pieces if len(piece)]
    rows = pa.concat_tables(some) if some else CHANGE_SCHEMA.empty_table()
    if len(some) > 1:
        rows = by_id(rows.take(pa.array(last_of_each(rows.column("id")))))
    return rows.filter(pc.invert(rows.column(REMOVED_COLUMN))).select(SUBSCRIPTION_SCHEMA.names)


def _id(table: pa.Table, row: int) -> str:
    return str(table.column("id")[row].as_py())


def _place(table: pa.Table, after: str) -> int:
    """Return the first row whose id comes after another one, in the order of their bytes."""
    return bisect_right(range(len(table)), after, key=lambda row: _id(table, row))
