"""Which subscriptions stand: a base that holds the whole table of a moment, and the changes after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.commits.chain import Commit
from dtoss.commits.columnar_files import decoding
from dtoss.commits.file_entry import FileEntry, checked_bytes
from dtoss.errors import StoreError
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
