"""Which subscriptions stand: a base and the changes after it, and pages by id for which only what is shown is read.

Each file is sorted by id: a base, which holds all that stood at a moment, and the changes after it. They are merged as
they are read; of an id the newest row counts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dtoss.commits.chain import Commit
from dtoss.commits.columnar_files import decoding
from dtoss.commits.file_entry import FileEntry, checked_bytes, open_entry
from dtoss.errors import StoreError
from dtoss.locks import Recent
from dtoss.watch.subscription import SUBSCRIPTION_SCHEMA, with_later_columns
from dtoss.watch.watch_folder import CHANGES, Home

REMOVED_COLUMN = "removed"
CHANGE_SCHEMA = SUBSCRIPTION_SCHEMA.append(pa.field(REMOVED_COLUMN, pa.bool_()))
"""Of the file of a change: what it adds, with the version null unless it stays, and the ids that it only removes."""
CHANGE_KIND = "subscriptions"
"""What a commit of changes calls itself."""


@dataclass(frozen=True)
class Delta:
    """What has changed between two numbers."""

    table: pa.Table  # The subscriptions that came after the first and stand at the last, by id
    # The ids that changes have touched, each once, by id: what stood at the first under one of them stands no more.
    # Some may not have stood then
    removed: pa.Array
    replaced: bool = False  # Whether nothing of the first stands at all. Then ids of before are not among those removed


@dataclass(frozen=True)
class Base:
    """A file that holds the whole table of a number."""

    number: int  # Of the change; 0 is before all
    entry: FileEntry | None  # None where there were none

    def as_json(self) -> dict[str, Any]:
        """Return what a commit's document holds of it."""
        return {"number": self.number, "entry": None if self.entry is None else self.entry.as_json()}


def change_number(home: Home) -> int:
    """Return the number of the last change; 0 where there is none. Cost: the head of the chain is read."""
    head = home.changes.head()
    return 0 if head is None else head.number


def base_of(commit: Commit, path: str = "") -> Base:
    """Return the base that a commit of changes names."""
    try:
        said = commit.document["base"]
        base = Base(int(said["number"]), None if said["entry"] is None else FileEntry.of(said["entry"]))
        if commit.document["kind"] != CHANGE_KIND or not 0 <= base.number <= commit.number:
            raise ValueError
    except (KeyError, TypeError, ValueError):
        raise StoreError(f"{path or f'change {commit.number}'} is no change of subscriptions") from None
    return base


def file_of_change(commit: Commit, path: str) -> FileEntry:
    """Return the file of a change."""
    try:
        return FileEntry.of(commit.document | {"name": commit.document["file"]})
    except (KeyError, ValueError):
        raise StoreError(f"{path} is no change of subscriptions") from None


def table_at(home: Home, number: int) -> pa.Table:
    """Return the subscriptions that stand after a change, by id, each with its version.

    ``number``: of the change; 0 is before the first.

    Cost: the base that the commit names, and the changes after it, at most a few dozen, are read.
    """
    if number == 0:
        return SUBSCRIPTION_SCHEMA.empty_table()
    base = base_there(home, base_of(home.changes.read(number), home.changes.path(number)))
    table = base_table(home, base)
    if base.number == number:
        return table
    delta = changes_between(home, base.number, number)
    if delta.replaced or not len(table):
        return delta.table
    kept = table.filter(pc.invert(pc.is_in(table.column("id"), delta.removed)))
    return by_id(pa.concat_tables([kept, delta.table])) if len(delta.table) else kept


def base_there(home: Home, base: Base) -> Base:
    """Return a base, or what is before all changes where its file has gone because there is a later one."""
    if base.entry is not None and not home.asked.is_file(CHANGES, base.entry.name):
        return Base(0, None)
    return base


def base_table(home: Home, base: Base) -> pa.Table:
    """Return the table of a base."""
    if base.entry is None:
        return SUBSCRIPTION_SCHEMA.empty_table()
    return read_listed(home, base.entry, SUBSCRIPTION_SCHEMA)


def changes_between(home: Home, first_excl: int, last_incl: int) -> Delta:
    """Return what has changed after one number, up to another.

    ``first_excl``, ``last_incl``: numbers of changes; 0 is before the first.

    Cost O(rows of the changes between); each commit and its file is read, those before a replacement are not.
    """
    parts = []
    replaced = False
    for number in range(last_incl, first_excl, -1):
        commit = home.changes.read(number)
        part = read_listed(home, file_of_change(commit, home.changes.path(number)), CHANGE_SCHEMA)
        stamped = pc.fill_null(part.column("version"), number)
        parts.append(
            part.set_column(part.schema.get_field_index("version"), SUBSCRIPTION_SCHEMA.field("version"), stamped)
        )
        if commit.document.get("replace"):
            replaced = True
            break
    if not parts:
        return Delta(SUBSCRIPTION_SCHEMA.empty_table(), pa.array([], pa.string()))
    together = pa.concat_tables(parts[::-1])
    together = together.take(pa.array(last_of_each(together.column("id")))) if len(parts) > 1 else together
    together = by_id(together)
    alive = together.filter(pc.invert(together.column(REMOVED_COLUMN))).select(SUBSCRIPTION_SCHEMA.names)
    return Delta(alive, _one_array(together.column("id")), replaced)


def standing_of(home: Home, number: int, ids: pa.Array) -> pa.Table:
    """Return those of some ids that stand after a change; the base is read, and only what has these ids is kept."""
    if number == 0:
        return SUBSCRIPTION_SCHEMA.empty_table()
    base = base_there(home, base_of(home.changes.read(number), home.changes.path(number)))
    delta = changes_between(home, base.number, number)
    left = ids.filter(pc.invert(pc.is_in(ids, delta.removed))) if len(delta.removed) else ids
    old = SUBSCRIPTION_SCHEMA.empty_table()
    if base.entry is not None and len(left) and not delta.replaced:
        old = read_listed(home, base.entry, SUBSCRIPTION_SCHEMA, left)
    new = delta.table.filter(pc.is_in(delta.table.column("id"), ids))
    return pa.concat_tables([old, new])


def read_listed(home: Home, file: FileEntry, schema: pa.Schema, ids: pa.Array | None = None) -> pa.Table:
    """Return the table of a listed file of changes.

    ``ids``: only rows that have one of them; None is all.
    """
    import pyarrow.parquet as pq

    data = pa.BufferReader(checked_bytes(home.asked, CHANGES, file))
    with decoding(home.asked.path(CHANGES, file.name)):
        if ids is None:
            table = pq.ParquetFile(data).read()
        else:
            table = pq.read_table(data, filters=pc.is_in(pc.field("id"), ids))
        return with_later_columns(table).select(schema.names).cast(schema)


def by_id(table: pa.Table) -> pa.Table:
    """Return a table in the order of its ids. Cost O(n log n)."""
    return table.take(pc.sort_indices(table, sort_keys=[("id", "ascending")]))


def last_of_each(ids: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return the last row of each id, int64 (m,)."""
    coded = _one_array(ids).dictionary_encode()
    last = np.zeros(len(coded.dictionary), np.int64)
    np.maximum.at(last, coded.indices.to_numpy(), np.arange(len(coded)))
    return last


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return found if isinstance(found, pa.Array) else pa.concat_arrays(found.chunks)


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
