"""A person out of a watch: events lose whom they are of, rows before and rows that were set aside go.

An event keeps its place, its kind and its subscription, so that cursors, counts and what readers have yet to read stay
as they are; its object, time, place and what was carried along go. Events of all batches become folded files, and rows
that were set aside a file of their own, for what commits have listed once stands in the chain for ever. One commit says
all of it. Then the files of before go, also those that a fold would spare: who has just listed them lists them again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.buckets import buckets_in
from dtoss.commits.columnar_files import encode_rejected, read_rejected
from dtoss.commits.file_entry import FileEntry, write_entry
from dtoss.commits.table import remove_orphans
from dtoss.erasure.forgotten import Mentions, among, without_mentions
from dtoss.watch.events.event_compaction import HOUR_US, FoldedWriter, write_listed
from dtoss.watch.events.event_counts import added, encoded_tally, read_tally
from dtoss.watch.events.event_log import read_events
from dtoss.watch.events.folded_list import Aside, Contents, carried_on, contents_of, write_contents
from dtoss.watch.events.readers import Cursor, readers
from dtoss.watch.events.watch_document import Document, dated, documents, head_of
from dtoss.watch.events.watch_tables import tables_of
from dtoss.watch.processing.event_table import OTHER_COLUMN
from dtoss.watch.processing.last_rows import Before, Run, write_run
from dtoss.watch.processing.state_runs import open_run
from dtoss.watch.processing.watch_clock import Clock
from dtoss.watch.subscriptions.current import change_number, table_at
from dtoss.watch.watch_folder import QUARANTINED, Home

_STAYS = ("batch", "number", "subscription", "version", "kind", "reason", "meta")
"""Columns of an event that say nothing of an object."""


@dataclass(frozen=True)
class ErasedWatch:
    """What went of a watch, or would go."""

    events: int = 0  # That have lost their object
    unread: dict[str, int] = field(default_factory=dict)  # How many of these each named reader has yet to read
    rows: int = 0
    rejected: int = 0  # Rows that had been set aside
    around: tuple[str, ...] = ()  # Subscriptions that are around one of the objects: they stay, and name it


def erase_watched(home: Home, ids: pa.Array, mentions: Mentions, now_us: int, *, dry: bool = False) -> ErasedWatch:
    """Remove objects from a watch, and return what went.

    ``mentions``: the same for rows as they were read; ``now_us``: what the time is, in microseconds since 1970.

    Where it is ended on its way, the next call goes on. Cost: all events, rows before and rows that were set aside are
    read, and written again where one of them goes.
    """
    around = _around(home, mentions)
    head = head_of(home)
    if head is None:
        return ErasedWatch(around=around)
    contents = contents_of(home, head.folded)
    found = _Found(home, head, contents, ids, mentions)
    told, unread = found.events()
    states = found.states()
    rows, rejected = sum(len(one.gone) for one in states), found.rejected()
    done = ErasedWatch(told, unread, rows, rejected, around)
    if dry:
        return done
    if told or rows or rejected:
        _commit(found, states, now_us)
    batches, _ = tables_of(home)
    remove_orphans(batches, 0.0, erase=True)
    return done


@dataclass(frozen=True)
class _State:
    """A run of rows before, and its rows that go."""

    said: dict[str, Any]
    rows: Before
    bucket: NDArray[np.int64]
    gone: NDArray[np.int64]


@dataclass(frozen=True)
class _Found:
    """Where a watch has something of objects."""

    home: Home
    head: Document
    contents: Contents
    ids: pa.Array
    mentions: Mentions

    def own(self) -> list[Document]:
        """Return the commits whose events are in no list."""
        return list(documents(self.home, self.contents.last + 1, self.head.number))

    def events(self) -> tuple[int, dict[str, int]]:
        """Return how many events are of the objects, and how many of these each reader has yet to read."""
        files = [one.file for one in self.contents.files] + [file for one in self.own() for file in one.events]
        waiting = readers(self.home)
        unread = dict.fromkeys(waiting, 0)
        count = 0
        for file in files:
            for table in read_events(self.home, file, columns=["batch", "number", "object", OTHER_COLUMN]):
                mine = table.filter(pa.array(self.mask(table)))
                count += len(mine)
                for name, cursor in waiting.items():
                    unread[name] += _behind(mine, cursor)
        return count, {name: number for name, number in unread.items() if number}

    def mask(self, table: pa.Table) -> NDArray[np.bool_]:
        """Return which events are of the objects."""
        names = [one for one in ("object", OTHER_COLUMN) if one in table.column_names]
        return np.any([among(table.column(name), self.ids) for name in names], axis=0)

    def without(self, table: pa.Table) -> pa.Table:
        """Return events of which those of the objects say of nobody."""
        mask, names = self.mask(table), table.column_names
        return pa.table(
            [column if name in _STAYS else _null_rows(column, mask) for name, column in zip(names, table, strict=True)],
            table.schema,
        )

    def states(self) -> list[_State]:
        """Return the runs of rows before."""
        found = []
        for said in self.head.commit.document.get("state") or []:
            run = open_run(self.home, Run.of(said).name)
            rows = run.taken(np.arange(len(run.key)))
            whose = among(rows.ids, self.ids)
            if not len(buckets_in(said["buckets"])):  # pairs
                whose = whose | among(rows.attributes[OTHER_COLUMN], self.ids)
            found.append(_State(said, rows, run.bucket_of_rows(np.arange(len(rows))), np.flatnonzero(whose)))
        return found

    def aside(self) -> Iterator[tuple[int, pa.Table]]:
        """Yield the rows that were set aside, each table with the last commit whose it is."""
        aside = self.contents.aside
        for file in aside.files:
            yield aside.last, read_rejected(self.home.folder, QUARANTINED, file.name)
        for one in documents(self.home, max(self.contents.begin, aside.last + 1), self.head.number):
            for file in one.quarantine:
                yield one.number, read_rejected(self.home.folder, QUARANTINED, file.name)

    def rejected(self) -> int:
        """Return how many rows that were set aside speak of the objects."""
        return sum(int(self.mentions.mask(rows.column("row")).sum()) for _, rows in self.aside())


def _commit(found: _Found, states: Sequence[_State], now_us: int) -> None:
    home, head = found.home, found.head
    fresh = replace(_told_again(found, now_us), aside=_aside_again(found), before=head.folded)
    name = write_contents(home, fresh)
    document = carried_on(head, name, now_us) | _state_again(home, head, states)
    home.batches.append(document, head.commit)


def _told_again(found: _Found, now_us: int) -> Contents:
    """Write all events in folded files, and return the list of them; what is not of the objects is as it was."""
    home, contents = found.home, found.contents
    writer = FoldedWriter(home)
    files = []
    for folded in contents.files:
        tables = list(read_events(home, folded.file))
        if not any(found.mask(table).any() for table in tables):
            files.append(folded)
            continue
        before = len(writer.files)
        for table in tables:
            writer.add(found.without(table), folded.until_us)
        writer.close()
        files += writer.files[before:]
    writer.tallies.clear()  # these were counted when they were folded
    again = len(writer.files)
    batches = dated(found.own(), now_us)
    for _, hour in groupby(batches, lambda batch: batch[1] // HOUR_US):
        for batch, wall_us in hour:
            for file in batch.events:
                for table in read_events(home, file):
                    writer.add(found.without(table), wall_us)
        writer.close()
    tally = added([read_tally(home, contents), *writer.tallies])
    counts = write_listed(home, "counts-", encoded_tally(tally), tally.num_rows)
    return replace(contents, last=found.head.number, files=(*files, *writer.files[again:]), counts=counts)


def _aside_again(found: _Found) -> Aside:
    """Write the rows that were set aside and speak of none of the objects, and return where they are."""
    tables = [without_mentions(rows, found.mentions) for _, rows in found.aside()]
    whole = pa.concat_tables(tables) if tables else None
    if whole is None or not len(whole):
        return Aside(found.head.number)
    file = write_entry(found.home.folder, encode_rejected(whole), len(whole), "parquet", QUARANTINED)
    return Aside(found.head.number, (FileEntry.of(file),))


def _state_again(home: Home, head: Document, states: Sequence[_State]) -> dict[str, Any]:
    """Write the runs without the objects, and return what a document says of them and of the clock."""
    said, lasts = [], dict[Any, int]()
    for state in states:
        if not len(state.gone):
            said.append(state.said)
            continue
        counts = np.isin(state.bucket, buckets_in(state.said["buckets"]))
        for row, one in zip(state.gone.tolist(), state.rows.ids.take(pa.array(state.gone)).to_pylist(), strict=True):
            if not counts[row]:
                continue
            lasts.pop(one, None)  # of several runs the newest counts
            if not state.rows.gone[row]:
                lasts[one] = int(state.rows.t[row])
        stays = np.setdiff1d(np.arange(len(state.rows)), state.gone)
        entry = write_run(home.folder, state.bucket[stays], state.rows.take(stays))
        if entry is not None:
            said.append({**entry, "buckets": state.said["buckets"]})
    before = head.commit.document
    made: dict[str, Any] = {"state": said}
    clock = Clock.of(before)
    if lasts and clock is not None and clock.moment is not None:
        made["witnesses"] = clock.without(np.array(list(lasts.values()), np.int64)).as_json()
    return made


def _around(home: Home, mentions: Mentions) -> tuple[str, ...]:
    number = change_number(home)
    if not number:
        return ()
    table = table_at(home, number)
    mine = pc.is_in(table.column("object"), value_set=pa.array(sorted(mentions.ids), table.schema.field("object").type))
    return tuple(table.filter(mine).column("id").to_pylist())


def _null_rows(column: pa.ChunkedArray, mask: NDArray[np.bool_]) -> pa.ChunkedArray:
    """Return a column with nulls where the mask is, whose dictionary has no other values than it needs."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
    found = column.take(pa.array(np.arange(len(column)), mask=mask))
    return found.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else found


def _behind(events: pa.Table, cursor: Cursor) -> int:
    batch, number = (events.column(name).to_numpy() for name in ("batch", "number"))
    return int(((batch > cursor.batch) | ((batch == cursor.batch) & (number > cursor.number))).sum())
