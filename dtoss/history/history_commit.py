"""Changes of a history, and their commits: one writer after another, each checked to have kept every row.

A change is made of a version. Who loses the race for the next number tries again upon what has won: an append always
can, unless its key stands in the ledger by now; what rewrites leaves can as long as they still stand. Every commit is
held to this: the rows of the time order have the sum of the ledger's entries, and each derived order of a period that
of its time order.

What a change that fails has written goes again, so that a disk that was full is no fuller, and it can be tried.

What is to become of a version: files and periods that come, leaves that go, entries of the ledger.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.column_rows import join_rows
from dtoss.commits.chain import Conflict
from dtoss.errors import StoreError
from dtoss.history.data_file import NewFile
from dtoss.history.row_blocks import BY_TIME, ORDER_NAMES, Blocks
from dtoss.history.schema import TIME_TYPES, Schema
from dtoss.history.segments import SEGMENTS, WRITTEN, Fresh, Segment, read_segment, table_of, write_segment
from dtoss.history.versions import HISTORY_FORMAT, KIND, LEDGER, Files, Home, Leaves, Version, files_of

TRIES = 1000
"""Races that a change may lose before it gives up."""
_PAUSE_SECONDS = 0.02
"""After a race that was lost: at most so long, so that others get on."""
_CHANCES = random.Random()
SMALL_SEGMENT = 8192
"""Blocks, or entries of the ledger, up to which a segment is written anew with what comes."""
WORD = 1 << 64


class Stale(StoreError):
    """What a change was made of has changed meanwhile: it is to be made again."""


class RepeatedKeys(StoreError):
    """Keys of a change stand in the ledger already."""

    def __init__(self, keys: Sequence[str]) -> None:
        super().__init__(f"{len(keys)} batches are in the history already: {', '.join(keys[:3])}")
        self.keys = tuple(keys)


def commit(home: Home, change: Change, after: Version | None) -> Version:
    """Commit a change and return the version that it makes.

    ``home``: the history; made where it is not there; ``change``: whose files are written already; ``after``: the
    version that the change was made of; None where there was none.
    """
    with undone(home, after):
        return _commit_change(home, change, after)


def _commit_change(home: Home, change: Change, after: Version | None) -> Version:
    version = after
    folder = home.folder
    folder.make(SEGMENTS)
    for attempt in range(TRIES):
        document, written = applied(home, version, change)
        paths = [tuple(file.name.split("/")) for file, _ in change.files]
        folder.sync([*paths, *((SEGMENTS, segment.file.name) for segment in written)])
        try:
            made = home.chain.append(document, None if version is None else version.commit)
        except Conflict:
            if attempt == TRIES - 1:
                raise
            time.sleep(_CHANCES.random() * _PAUSE_SECONDS)
            version = home.head()
            continue
        return Version.of(folder, made)
    raise AssertionError


def applied(home: Home, version: Version | None, change: Change) -> tuple[dict[str, Any], list[Segment]]:
    """Return the document of a version with a change, and the segments that were written for it."""
    schema = _schema(version, change)
    standing = None if version is None else _standing(version, change)
    numbered = 0 if version is None else int(version.document["next_period"])
    periods = _periods(version, change, numbered)
    files, leaves, blocks, new_blocks = _tables(home, version, standing, change, numbered, schema)
    ledger, new_ledger = _ledger(home, version, change)
    rows = (0 if version is None else version.rows) + sum(entry.rows for entry in change.entries)
    total = (0 if version is None else version.sum) + sum(entry.sum for entry in change.entries)
    check_kept(leaves, rows, total % WORD, {one["number"] for one in periods})
    files_segment = write_segment(home.folder, "files", table_of(files))
    leaves_segment = write_segment(home.folder, "leaves", table_of(leaves))
    document = {
        **({} if version is None else version.document),
        "kind": KIND,
        "format": HISTORY_FORMAT,
        "schema": schema.as_json(),
        "options": {**({} if version is None else version.options), **change.options},
        "rows": rows,
        "sum": f"{total % WORD:016x}",
        "next_period": numbered + len(change.periods),
        "periods": periods,
        "files": files_segment.as_json(),
        "leaves": leaves_segment.as_json(),
        "blocks": [segment.as_json() for segment in blocks],
        "ledger": [segment.as_json() for segment in ledger],
        "what": change.what,
        "detail": dict(change.detail),
    }
    if change.oldest:
        # two may clear at once: what has ended stays so
        document["oldest"] = max(change.oldest, int(document.get("oldest", 1)))
    return document, [files_segment, leaves_segment, *new_blocks, *new_ledger]


def check_kept(leaves: Leaves, rows: int, total: int, periods: set[int]) -> None:
    """Check that no row is lost or doubled."""
    truth = leaves.order == BY_TIME
    found = int(leaves.rows[truth].sum()), int(leaves.sum[truth].sum(dtype=np.uint64))
    if found != (rows, total):
        raise StoreError(
            f"nothing was committed: the time order would have {found[0]} rows (sum {found[1]:016x}), by the ledger it "
            f"has {rows} (sum {total:016x})"
        )
    if not set(leaves.period.tolist()) <= periods:
        raise StoreError("nothing was committed: a leaf belongs to a period that is not there")
    for period in periods:
        own = leaves.period == period
        wanted = _tally(leaves, own & truth)
        for code in range(BY_TIME + 1, len(ORDER_NAMES)):
            mine = own & (leaves.order == code)
            if mine.any() and _tally(leaves, mine) != wanted:
                raise StoreError(
                    f"nothing was committed: the {ORDER_NAMES[code]} order of period {period} would have other rows "
                    "than its time order"
                )


def keys_known(version: Version | None, keys: Iterable[str]) -> list[str]:
    """Return those of some keys that stand in the ledger. Cost O(entries)."""
    wanted = list(keys)
    if version is None or not wanted:
        return []
    held = version.ledger().column("key")
    found = held.filter(pc.is_in(held, pa.array(wanted, pa.large_string()))).to_pylist()
    return [key for key in wanted if key in set(found)]


def _tally(leaves: Leaves, mask: NDArray[np.bool_]) -> tuple[int, int]:
    return int(leaves.rows[mask].sum()), int(leaves.sum[mask].sum(dtype=np.uint64))


def _schema(version: Version | None, change: Change) -> Schema:
    if version is None:
        if change.schema is None:
            raise StoreError("the first version of a history needs a schema")
        return change.schema
    return version.schema if change.schema is None else version.schema.merged(change.schema)


def _periods(version: Version | None, change: Change, numbered: int) -> list[dict[str, int]]:
    held = [] if version is None else [dict(one) for one in version.document["periods"]]
    here = {one["number"] for one in held}
    if missing := [number for number in change.gone_periods if number not in here]:
        raise Stale(f"period {missing[0]} was rewritten meanwhile")
    kept = [one for one in held if one["number"] not in change.gone_periods]
    return kept + [{"number": numbered + i, "tier": new.tier} for i, new in enumerate(change.periods)]


def _standing(version: Version, change: Change) -> NDArray[np.bool_]:
    """Return which leaves stay."""
    leaves, names = version.leaves, version.files.name
    stays = ~np.isin(leaves.period, np.array(change.gone_periods, np.int32))
    if change.gone:
        where = {(names[file], _first_group(version, leaf)): leaf for leaf, file in enumerate(leaves.file.tolist())}
        for key in change.gone:
            if key not in where:
                raise Stale(f"blocks of {key[0]} were rewritten meanwhile")
            stays[where[key]] = False
    here = {one["number"] for one in version.document["periods"]} - set(change.gone_periods)
    for file, period in change.files:
        if period >= 0 and period not in here:
            raise Stale(f"period {period}, of which {file.name} is, was rewritten meanwhile")
    return stays


def _first_group(version: Version, leaf: int) -> int:
    first = int(version.leaves.first[leaf])
    return int(version.segment_blocks(int(version.leaves.segment[leaf])).row_group[first])


def _tables(
    home: Home,
    version: Version | None,
    standing: NDArray[np.bool_] | None,
    change: Change,
    numbered: int,
    schema: Schema,
) -> tuple[Files, Leaves, list[Segment], list[Segment]]:
    """Return files, leaves and segments of blocks with a change, and which of the segments are new."""
    kept = None if version is None or standing is None else version.leaves.take(standing)
    segments = [] if version is None else list(version.block_segments)
    parts: list[Blocks] = []
    at = 0
    if version is not None and kept is not None:
        kept, segments, parts = _gathered(version, kept, segments, more=bool(change.files), bare=change.bare)
        at = sum(len(part) for part in parts)
    since = 1 if version is None else version.number + 1
    groups = [] if kept is None else [kept]
    held = [] if version is None else version.files.name
    for i, (file, period) in enumerate(change.files):
        number = period if period >= 0 else numbered - 1 - period
        groups.append(_leaves_of(file, len(held) + i, number, len(segments), at, since))
        parts.append(file.blocks)
        at += len(file.blocks)
    new: list[Segment] = []
    if parts:
        new = [write_segment(home.folder, "blocks", table_of(join_rows(parts)))]
        segments.append(new[0])
    leaves = join_rows(groups) if groups else _none(schema)
    return *_with_files(version, change, leaves), segments, new


def _gathered(
    version: Version, kept: Leaves, segments: list[Segment], *, more: bool, bare: bool
) -> tuple[Leaves, list[Segment], list[Blocks]]:
    """Return leaves and segments without those that nothing needs, and the blocks of small or half dead ones.

    With ``bare`` those of all that are not whole.

    Those go into the segment that comes: the leaves that are returned already say so.
    """
    live = np.zeros(len(segments), np.int64)
    np.add.at(live, kept.segment, kept.count.astype(np.int64))
    again = [
        i
        for i, segment in enumerate(segments)
        if live[i]
        and ((more and segment.file.rows < SMALL_SEGMENT) or (1 if bare else 2) * live[i] < segment.file.rows)
    ]
    stay = [i for i in range(len(segments)) if live[i] and i not in again]
    place = np.full(len(segments) + 1, len(stay), np.int32)
    place[stay] = np.arange(len(stay))
    moved = np.isin(kept.segment, again)
    first, parts, at = kept.first.copy(), [], 0
    for leaf in np.flatnonzero(moved).tolist():
        begin, count = int(kept.first[leaf]), int(kept.count[leaf])
        parts.append(version.segment_blocks(int(kept.segment[leaf])).take(slice(begin, begin + count)))
        first[leaf] = at
        at += count
    return replace(kept, segment=place[kept.segment], first=first), [segments[i] for i in stay], parts


def _leaves_of(file: NewFile, number: int, period: int, segment: int, at: int, since: int) -> Leaves:
    blocks, n = file.blocks, len(file.leaves)
    starts = np.array([leaf.first for leaf in file.leaves])
    counts = np.array([leaf.count for leaf in file.leaves])

    def same(value: int, kind: Any) -> NDArray[Any]:
        return np.full(n, value, kind)

    return Leaves(
        file=same(number, np.int32),
        order=same(file.order, np.int8),
        period=same(period, np.int32),
        segment=same(segment, np.int32),
        first=at + starts.astype(np.int64),
        count=counts.astype(np.int32),
        rows=np.add.reduceat(blocks.rows.astype(np.int64), starts),
        bytes=np.add.reduceat(blocks.bytes.astype(np.int64), starts),
        offset=blocks.offset[starts],
        sum=np.add.reduceat(blocks.sum, starts),
        t_from=np.minimum.reduceat(blocks.t_from, starts),
        t_to=np.maximum.reduceat(blocks.t_to, starts),
        id_from=np.minimum.reduceat(blocks.id_from, starts),
        id_to=np.maximum.reduceat(blocks.id_to, starts),
        low=np.minimum.reduceat(blocks.low, starts, axis=0),
        high=np.maximum.reduceat(blocks.high, starts, axis=0),
        cell=np.array([leaf.cell for leaf in file.leaves], np.float64).reshape(n, 4),
        since=same(since, np.int64),
        marks=np.add.reduceat(blocks.marks.astype(np.int64), starts),
    )


def _with_files(version: Version | None, change: Change, leaves: Leaves) -> tuple[Files, Leaves]:
    """Return the files that leaves need, and the leaves with the files' numbers."""
    old = None if version is None else version.files
    names = [*([] if old is None else old.name), *(file.name for file, _ in change.files)]
    digests = [*([] if old is None else old.sha256), *(file.sha256 for file, _ in change.files)]

    def column(name: str, kind: Any) -> NDArray[Any]:
        new = np.array([getattr(file, name) for file, _ in change.files], kind)
        return new if old is None else np.concatenate([getattr(old, name), new])

    needed = np.unique(leaves.file)
    place = np.zeros(len(names), np.int32)
    place[needed] = np.arange(len(needed))
    kinds = (("order", np.int8), ("bytes", np.int64), ("rows", np.int64), ("sum", np.uint64))
    columns = [column(name, kind)[needed] for name, kind in kinds]
    files = Files([names[i] for i in needed], [digests[i] for i in needed], *columns)
    return files, replace(leaves, file=place[leaves.file])


def _ledger(home: Home, version: Version | None, change: Change) -> tuple[list[Segment], list[Segment]]:
    """Return the segments of the ledger with a change's entries, and which of them are new."""
    segments = [] if version is None else [Segment.of(said) for said in version.document["ledger"]]
    if not change.entries:
        return segments, []
    keys = [entry.key for entry in change.entries]
    if known := keys_known(version, keys) or sorted({key for key in keys if keys.count(key) > 1}):
        raise RepeatedKeys(known)
    number = 1 if version is None else version.number + 1
    values = [[e.key, e.kind, e.source, e.batch, e.rows, e.sum % WORD, number] for e in change.entries]
    columns = list(zip(*values, strict=True))
    fresh = pa.table([pa.array(column, part.type) for column, part in zip(columns, LEDGER, strict=True)], schema=LEDGER)
    if segments and segments[-1].file.rows < SMALL_SEGMENT:
        fresh = pa.concat_tables([read_segment(home.folder, segments.pop()), fresh])
    segment = write_segment(home.folder, "ledger", fresh)
    return [*segments, segment], [segment]


def _none(schema: Schema) -> Leaves:
    """Return no leaves."""
    kinds: dict[str, Any] = {
        "file": np.int32, "order": np.int8, "period": np.int32, "segment": np.int32, "first": np.int64,
        "count": np.int32, "sum": np.uint64,
    }  # fmt: skip
    stored = np.float64 if pa.types.is_floating(TIME_TYPES[schema.t_type]) else np.int64
    kinds |= {"t_from": stored, "t_to": stored}
    wide = {"low": schema.space.dimension, "high": schema.space.dimension, "cell": 4}
    made = {}
    for name in Leaves.__dataclass_fields__:
        shape = (0, wide[name]) if name in wide else (0,)
        made[name] = np.zeros(shape, np.float64 if name in wide else kinds.get(name, np.int64))
    return Leaves(**made)


@contextmanager
def undone(home: Home, after: Version | None) -> Iterator[None]:
    """Remove what is written within where it fails, whatever the reason; a version that stands by then keeps its own.

    ``after``: the version that the change is made of; None where there is none.

    A file that another writer has found there and touched stays. On object stores nothing tells that it was touched:
    there, as after a kill, files wait for :func:`dtoss.history.maintenance.history_table.clear`.
    """
    written: list[Fresh] = []
    token = WRITTEN.set(written)
    try:
        yield
    except BaseException:
        # where nobody can say what is needed, all stays
        with suppress(OSError, StoreError):
            _remove(home, 0 if after is None else after.number, written)
        raise
    finally:
        WRITTEN.reset(token)


def _remove(home: Home, number: int, written: list[Fresh]) -> None:
    # a commit of which the last sync failed stands
    head = home.head() if written else None
    newest = 0 if head is None else head.number
    needed = {name for later in range(number + 1, newest + 1) for name in files_of(home.version(later))}
    for fresh in written:
        if f"{fresh.room}/{fresh.name}" not in needed:
            home.folder.remove_unchanged(fresh.mark, fresh.room, fresh.name)


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the ledger: a batch that came, or rows that went (then ``rows`` and ``sum`` are negative)."""

    key: str  # What tells the batch from others
    kind: str  # "file", "stream", "given", "forget" or "retain"
    source: str  # The path or query
    batch: int  # The number of a stream's batch; else -1
    rows: int
    sum: int


@dataclass(frozen=True, slots=True)
class NewPeriod:
    """A period that a change makes."""

    tier: int


@dataclass(frozen=True)
class Change:
    """What is to become of a version."""

    what: str  # In a word, such as "append"
    # Files that were written, each with its period: the number of one that stands, or -1 - i for ``periods[i]``
    files: tuple[tuple[NewFile, int], ...] = ()
    # Leaves that go and have to stand still: the name of the file and the number of the first row group
    gone: tuple[tuple[str, int], ...] = ()
    gone_periods: tuple[int, ...] = ()  # Periods that go with all their leaves
    periods: tuple[NewPeriod, ...] = ()
    entries: tuple[Entry, ...] = ()
    schema: Schema | None = None  # Of the rows that come; None where none do
    detail: Mapping[str, Any] = field(default_factory=dict)  # What the version says of itself
    options: Mapping[str, Any] = field(default_factory=dict)  # Of the history, where they change
    oldest: int = 0  # The oldest version that can be asked from now on; 0 where that does not change
    bare: bool = False  # No segment keeps blocks of leaves that are gone: they say between which ids these were
