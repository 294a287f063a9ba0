"""Adds and removes subscriptions: a file of what changes, then a commit that names it.

Whoever ends between the two leaves a file that nothing names, and the subscriptions as they were. Of several writers
one commits, and the others look again at what stands now.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dtoss.commits.chain import Commit
from dtoss.commits.columnar_files import encode_parquet
from dtoss.commits.file_entry import FileEntry, write_entry
from dtoss.commits.log_compaction import clear_unneeded
from dtoss.commits.table import commit_change
from dtoss.errors import InputError
from dtoss.geometry.space import Space
from dtoss.ids import as_list
from dtoss.watch.subscription import SUBSCRIPTION_SCHEMA
from dtoss.watch.subscriptions.current import (
    CHANGE_KIND,
    CHANGE_SCHEMA,
    REMOVED_COLUMN,
    Base,
    base_of,
    by_id,
    standing_of,
    table_at,
)
from dtoss.watch.subscriptions.subscription_text import ids_of, with_arcs
from dtoss.watch.watch_folder import CHANGES, Home

BASE_NAME = "base-"
"""How names of files of bases begin."""
ASKED_GROUP_BYTES = 4 << 20
"""Of a row group, about."""
_COMPARED = [name for name in SUBSCRIPTION_SCHEMA.names if name not in ("id", "version")]


@dataclass(frozen=True)
class Change:
    """What a change has done."""

    number: int  # Of the change; of the one before where nothing has changed
    # added, changed, removed: subscriptions that are new, that were others under the same id, and that are gone
    added: int
    changed: int
    removed: int
    same: int  # Those that stood already, just so, and stay as they are


def subscribe(home: Home, table: pa.Table, *, replace: bool = False, space: Space | None = None) -> Change:
    """Add subscriptions; those of the same id become others.

    ``table``: of :data:`dtoss.watch.subscription.SUBSCRIPTION_SCHEMA`, checked; its versions do not matter;
    ``replace``: those that it does not hold are removed; ``space``: that the places are in, which the change notes;
    None notes that of the change before.

    A row that stands already, equal in all but its version, is left out of the change; without any other row there is
    no change. Cost O(n), and the base is read; of a replacement O(all that stand).
    """
    table = table.select(SUBSCRIPTION_SCHEMA.names).cast(SUBSCRIPTION_SCHEMA)
    ids = _ids_of(table)

    def change(number: int) -> tuple[pa.Table, pa.Array, Change]:
        stands = table_at(home, number) if replace else standing_of(home, number, ids)
        old = pc.index_in(ids, _ids_of(stands)).to_numpy(zero_copy_only=False)
        there = ~np.isnan(old) if old.dtype.kind == "f" else np.ones(len(old), np.bool_)
        rows = np.flatnonzero(there)
        same = np.zeros(len(table), np.bool_)
        same[rows] = _equal(table.take(pa.array(rows)), stands.take(pa.array(old[rows].astype(np.int64))))
        gone = pa.array([], pa.string())
        if replace:
            before = _ids_of(stands)
            gone = before.filter(pc.invert(pc.is_in(before, ids)))
        counts = Change(0, int((~there).sum()), int((there & ~same).sum()), len(gone), int(same.sum()))
        return table.filter(pa.array(~same)), gone, counts

    return _commit(home, change, replace, space)


def unsubscribe(home: Home, ids: Any) -> Change:
    """Remove subscriptions; those that do not stand are passed over.

    ``ids``: texts; whole numbers are their decimal digits, as :func:`subscribe` has them. One by itself, too.
    """
    try:
        named = as_list(ids)
    except TypeError:
        named = [ids]
    wrong: dict[int, str] = {}
    asked = ids_of(named, len(named), wrong).drop_null().unique()
    # a text that nobody could be called by is one that does not stand
    texts = (str, pa.StringScalar, pa.LargeStringScalar)
    if (row := min((row for row in wrong if not isinstance(named[row], texts)), default=None)) is not None:
        raise InputError(f"{wrong[row]} (number {row} of {len(named):,} to be removed)")

    def change(number: int) -> tuple[pa.Table, pa.Array, Change]:
        gone = _ids_of(standing_of(home, number, asked))
        return SUBSCRIPTION_SCHEMA.empty_table(), gone, Change(0, 0, 0, len(gone), 0)

    return _commit(home, change, False, None)


def upgrade(home: Home) -> Change:
    """Decide about the borders of all polygons as is done today, where they were made by the rule of before.

    Their edges stay great-circle arcs, and they keep their versions: nobody is told of an enter or a leave.
    """

    def change(number: int) -> tuple[pa.Table, pa.Array, Change]:
        stands = table_at(home, number)
        texts = stands.column("polygon").combine_chunks()
        made = with_arcs(texts)
        other = pc.fill_null(pc.not_equal(made, texts), False)
        place = stands.schema.get_field_index("polygon")
        upgraded = stands.set_column(place, SUBSCRIPTION_SCHEMA.field("polygon"), made).filter(other)
        counts = Change(0, 0, len(upgraded), 0, len(stands) - len(upgraded))
        return upgraded, pa.array([], pa.string()), counts

    return _commit(home, change, False, None, stay=True)


def _commit(
    home: Home,
    change: Callable[[int], tuple[pa.Table, pa.Array, Change]],
    anew: bool,
    space: Space | None,
    stay: bool = False,
) -> Change:
    """Make a change; with ``stay`` what it adds keeps the version that it has."""
    done = Change(0, 0, 0, 0, 0)

    def document(head: Commit | None) -> dict[str, Any] | None:
        nonlocal done
        number = 0 if head is None else head.number
        added, gone, counts = change(number)
        done = replace(counts, number=number)
        if not len(added) and not len(gone):
            return None
        file = _written(home, _rows_of(added, gone, stay), "")
        # nothing of before stands any more: what was before needs not be read
        whole = anew and not counts.same and head is not None
        base, pending = (Base(number, None), 0) if whole else _base(home, head)
        return {
            "kind": CHANGE_KIND,
            "file": file["name"],
            "sha256": file["sha256"],
            "bytes": file["bytes"],
            "rows": file["rows"],
            "added": len(added),
            "removed": counts.removed,
            "count": _count(home, head) + counts.added - counts.removed,
            "replace": whole,
            "space": _space_in(head) if space is None else asdict(space),
            "base": base.as_json(),
            "pending": pending + file["rows"],
        }

    made = commit_change(home.changes, document)
    return done if made is None else replace(done, number=made.number)


def _count(home: Home, head: Commit | None) -> int:
    """Return how many stand after a change; of one that does not say so all are read."""
    if head is None:
        return 0
    said = head.document.get("count")
    return said if isinstance(said, int) else len(table_at(home, head.number))


def _base(home: Home, head: Commit | None) -> tuple[Base, int]:
    """Return the base that the next change names, and the rows of changes after it: a new one where those are many."""
    if head is None:
        return Base(0, None), 0
    base, pending = base_of(head, home.changes.path(head.number)), int(head.document.get("pending", 0))
    rows = 0 if base.entry is None else base.entry.rows
    if head.number - base.number < home.limits.base_every and pending <= max(home.limits.least_pending, rows):
        return base, pending
    table = table_at(home, head.number)
    made = Base(head.number, FileEntry.of(_written(home, table, BASE_NAME)) if len(table) else None)
    _clear_bases(home, [one.entry.name for one in (made, base) if one.entry is not None])
    return made, 0


def _clear_bases(home: Home, needed: list[str]) -> None:
    """Remove bases that nobody has read for long; whoever wants one of them reads the changes instead."""
    with suppress(OSError):
        bases = {name: size for name, size in home.asked.sizes(CHANGES).items() if name.startswith(BASE_NAME)}
        clear_unneeded(home.asked, CHANGES, set(needed), home.limits.spared_seconds, bases)


def _rows_of(added: pa.Table, gone: pa.Array, stay: bool) -> pa.Table:
    """Return the rows of a change's file, by id."""
    versions = added.schema.get_field_index("version")
    none = pa.nulls(len(added), pa.int64())
    fresh = added if stay else added.set_column(versions, SUBSCRIPTION_SCHEMA.field("version"), none)
    fresh = fresh.append_column(CHANGE_SCHEMA.field(REMOVED_COLUMN), pa.array(np.zeros(len(added), np.bool_)))
    empty = {field.name: pa.nulls(len(gone), field.type) for field in CHANGE_SCHEMA}
    empty |= {"id": gone, REMOVED_COLUMN: pa.array(np.ones(len(gone), np.bool_))}
    return by_id(pa.concat_tables([fresh, pa.table(empty, schema=CHANGE_SCHEMA)]))


def _written(home: Home, table: pa.Table, prefix: str) -> dict[str, Any]:
    """Write a table to the disk, under the hash of its bytes, and return what a commit says of it."""
    rows = max(min(home.limits.asked_group_rows, ASKED_GROUP_BYTES * len(table) // max(table.nbytes, 1)), 1)
    data = encode_parquet(table, row_group_size=rows, write_page_checksum=True)
    return write_entry(home.asked, data, len(table), "parquet", CHANGES, begin=prefix)


def _equal(one: pa.Table, other: pa.Table) -> Any:
    """Return which rows of two tables are equal in all that counts, bool (n,)."""
    equal = np.ones(len(one), np.bool_)
    for name in _COMPARED:
        a, b = (table.column(name).combine_chunks() for table in (one, other))
        alike = pc.or_(pc.equal(a, b).fill_null(False), pc.and_(a.is_null(), b.is_null()))
        equal &= np.asarray(alike.to_numpy(zero_copy_only=False), np.bool_)
    return equal


def _ids_of(table: pa.Table) -> pa.Array:
    column = table.column("id").combine_chunks()
    ids = column if isinstance(column, pa.Array) else pa.concat_arrays(column.chunks)
    if ids.null_count:
        raise InputError("a subscription has no id")
    if pc.count_distinct(ids).as_py() < len(ids):
        raise InputError("two subscriptions have one id: keep one of them")
    return ids


def _space_in(head: Commit | None) -> dict[str, Any] | None:
    found: dict[str, Any] | None = None if head is None else head.document.get("space")
    return found
