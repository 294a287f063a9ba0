"""What a watch is as tables: which files its batches and its changes of subscriptions name, and what these hold.

The order of the events of a file: by object, then time, then leave before enter before inside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.commits.chain import Commit
from dtoss.commits.file_entry import ANY_BYTES, FileEntry
from dtoss.commits.ledger_runs import LEDGERS
from dtoss.commits.log_compaction import NOTHING_REMOVED, SPARED_DEBRIS_SECONDS, Removal
from dtoss.commits.table import Check, NamedFile, Table, files_of_ledger, tidy, verify
from dtoss.commits.verify_report import Look, VerifyReport, noting, whole_ones
from dtoss.errors import StoreError
from dtoss.snapshots.store_location import hide_keys
from dtoss.watch.events.event_counts import added, counted, read_tally
from dtoss.watch.events.folded_list import Contents, contents_of
from dtoss.watch.events.readers import END_OF_BATCH, Cursor, readers
from dtoss.watch.events.watch_document import Document, document_of, head_of
from dtoss.watch.processing.event_table import EVENT_KINDS
from dtoss.watch.subscriptions.current import Base, base_of, file_of_change
from dtoss.watch.watch_folder import (
    BUILT,
    CHANGES,
    EVENTS,
    LAYOUTS,
    LOAD,
    QUARANTINED,
    READERS,
    STATE,
    SUBSCRIPTIONS,
    Home,
    way_to,
)

_ORDINAL_BITS = 32
_INDEXES, _LAYOUTS = f"{SUBSCRIPTIONS}/{BUILT}", f"{SUBSCRIPTIONS}/{LAYOUTS}"


def tables_of(home: Home) -> tuple[Table, Table]:
    """Return the tables of a watch: its batches, and its changes of subscriptions."""
    rooms = (EVENTS, QUARANTINED, LOAD, STATE, LEDGERS, _INDEXES, _LAYOUTS)
    name = f"watch {home.name}"
    return (
        Table(
            name, home.batches, rooms, partial(_of_batches, home), (READERS,), lambda: _contents(home).begin,
            said=_said_of_batch,
        ),
        Table(
            f"subscriptions of {name}", home.changes, (CHANGES,), partial(_of_changes, home),
            counted="changes", said=_said_of_change,
        ),
    )  # fmt: skip


def clear_watch(home: Home, spare_seconds: float = SPARED_DEBRIS_SECONDS) -> Removal:
    """Remove the files of a watch that no commit needs, and return what went. Events stay, however old."""
    return sum((tidy(table, spare_seconds) for table in tables_of(home)), NOTHING_REMOVED)


def verify_watch(home: Home) -> VerifyReport:
    """Return what is wrong with a watch, and what could not be read; nothing of what is found is an error.

    Looked at are the tables of it (:func:`dtoss.commits.table.verify`); the columns, order and numbers of events, in
    files of batches and in folded ones, and that these have as many of each batch as it committed; counts; cursors of
    readers. A batch that commits meanwhile is not looked at.
    """
    batches, changes = tables_of(home)
    look = Look()
    look.found.held = {"changes": 0, "events": 0}
    with noting(look.found):
        if not any((*batches.chain.listed(), *changes.chain.listed())):
            path = hide_keys(home.path)
            raise StoreError(f"{path} is no watch: it has neither batches nor subscriptions{way_to(home)}")
        verify((batches, changes), look)
    return look.found


def _contents(home: Home) -> Contents:
    head = head_of(home)
    return Contents() if head is None else contents_of(home, head.folded)


def _said_of_batch(commit: Commit) -> dict[str, Any]:
    said = commit.document
    return {
        "what": "batch",
        "rows": said["counts"].get("rows", 0),
        "events": sum(one["rows"] for one in said["events"]),
    }


def _said_of_change(commit: Commit) -> dict[str, Any]:
    return {"what": "change", **{name: commit.document[name] for name in ("added", "removed", "count")}}


# -- batches ----------------------------------------------------------------------------------------------------------


def _of_batches(home: Home, look: Look | None, numbers: range) -> Iterator[NamedFile]:
    if look is not None:
        try:
            readers(home)
        except StoreError as error:
            look.wrong(error)
    if not numbers:
        return
    head = document_of(home, home.batches.read(numbers[-1]))
    contents = _known_contents(home, head, look)
    first = numbers[0]
    if look is None:
        first = contents.swept + 1
        if home.folder.files(QUARANTINED) or home.folder.files(LOAD):
            first = min(contents.begin, first)
    events = _Events(home, contents)
    before: Document | None = None
    for document in whole_ones(home.batches, partial(document_of, home), first, head.number, look):
        yield from _of_batch(home, document, contents, look, events, newest=document.number == head.number)
        if look is not None and before is not None and document.changes < before.changes:
            path = home.batches.path(document.number)
            look.wrong(f"{path} is damaged: it has adopted change {document.changes} after {before.changes}")
        before = document
    for file in contents.aside.files:
        yield NamedFile(QUARANTINED, file, check=Look.parquet)
    for folded in contents.files:
        yield NamedFile(EVENTS, folded.file, check=events.check_fold(folded.first, folded.last))
    if contents.counts is not None:
        yield NamedFile(EVENTS, contents.counts, check=events.tally)
    if look is not None:
        events.agree(look)
        return
    for name in (head.folded, contents.before):
        if name is not None:  # the list before goes with the next fold
            yield NamedFile(EVENTS, FileEntry(name, 0, ANY_BYTES, ""), name == head.folded, spared=True)


def _known_contents(home: Home, head: Document, look: Look | None) -> Contents:
    try:
        return contents_of(home, head.folded)
    except StoreError as error:
        if look is None:
            raise
        look.wrong(error)
        # nothing says which files are needed
        return Contents(head.number, begin=head.number + 1, gone=Cursor(head.number, END_OF_BATCH))


def _of_batch(
    home: Home, document: Document, contents: Contents, look: Look | None, events: _Events, *, newest: bool
) -> Iterator[NamedFile]:
    number = document.number
    own = events.of_batch(document)
    for file in document.events:
        yield NamedFile(EVENTS, file, number > contents.last, number > contents.swept, own)
    for file in document.state:
        yield NamedFile(STATE, file, newest, check=Look.arrow)
    for file in document.quarantine:
        needed = number >= contents.begin and number > contents.aside.last
        yield NamedFile(QUARANTINED, file, needed, check=Look.parquet)
    for file in document.load:
        yield NamedFile(LOAD, file, number >= contents.begin, check=Look.parquet)
    yield from files_of_ledger(document.runs, newest=newest)
    if look is None and not newest:
        return
    layout = document.layout
    indexes = layout.get("indexes")
    said = [(_INDEXES, document.standing.get(part)) for part in ("base", "delta")]
    said += [(_LAYOUTS, layout.get(part)) for part in ("layout", "base", "delta", "memory", "words")]
    said += [(_INDEXES, one) for one in (indexes.values() if isinstance(indexes, dict) else ())]
    # of the round before, when nobody has decided yet
    said.append((LOAD, layout.get("ended")))
    for room, one in said:
        if one is None:
            continue
        try:
            file = FileEntry.of(one)
        except ValueError as error:
            if look is None:
                raise StoreError(f"{home.batches.path(number)} is damaged: {error}") from None
            look.wrong(f"{home.batches.path(number)} is damaged: {error}")
            continue
        yield NamedFile(room, file, newest, check=Look.parquet if room == LOAD else Look.any_arrow)


class _Events:
    """Looks at events: what files of batches hold, and whether folded ones hold the same."""

    def __init__(self, home: Home, contents: Contents) -> None:
        self.home = home
        self.contents = contents
        self.committed: dict[int, int] = {}  # Events of each batch that was looked at
        self.had: Counter[int] = Counter()  # Events of each batch in folded files
        self.tallies: list[pa.Table] = []  # Of the folded files that are whole
        self.upto = contents.gone or Cursor(0, END_OF_BATCH)

    def of_batch(self, document: Document) -> Check:
        """Return what looks at the files of a batch, one after the other."""
        self.committed[document.number] = document.rows
        ordinals = [-1]

        def check(look: Look, path: str, data: bytes, file: FileEntry) -> None:
            table = look.parquet(path, data, file)
            if table is None or not table.num_rows:
                return
            try:
                numbers = table.column("number").to_numpy()
                batches = table.column("batch").to_numpy()
                mine = int(numbers[0]) >> _ORDINAL_BITS
                expected = (mine << _ORDINAL_BITS) + np.arange(len(numbers))
                if not (batches == document.number).all():
                    look.wrong(f"{path} is damaged: its events are not all of batch {document.number}")
                elif not np.array_equal(numbers, expected) or mine <= ordinals[-1]:
                    look.wrong(f"{path} is damaged: its events are not numbered one after the other")
                elif why := wrong_order(table):
                    look.wrong(f"{path} is damaged: {why}")
            except (KeyError, pa.ArrowInvalid, ValueError) as error:
                look.wrong(f"{path} is damaged: {error!s:.200}")
                return
            ordinals.append(mine)
            if document.number > self.contents.last:
                look.found.hold("events", len(numbers))

        return check

    def check_fold(self, first: Cursor, last: Cursor) -> Check:
        """Return what looks at a file of folded events, from one cursor to another."""

        def check(look: Look, path: str, data: bytes, file: FileEntry) -> None:
            table = look.parquet(path, data, file)
            if table is None:
                return
            try:
                batches, numbers = table.column("batch").to_numpy(), table.column("number").to_numpy()
                tally = counted(table)
            except (KeyError, pa.ArrowInvalid, ValueError) as error:
                look.wrong(f"{path} is damaged: {error!s:.200}")
                return
            self.tallies.append(tally)
            rising = (np.diff(batches) > 0) | ((np.diff(batches) == 0) & (np.diff(numbers) > 0))
            ends = [Cursor(int(batches[row]), int(numbers[row])) for row in (0, -1)] if len(batches) else []
            if ends != [first, last] or not rising.all() or first <= self.upto:
                look.wrong(f"{path} is damaged: its events are not in their order")
            self.upto = last
            for batch, rows in zip(*np.unique(batches, return_counts=True), strict=True):
                self.had[int(batch)] += int(rows)
            look.found.hold("events", table.num_rows)

        return check

    def tally(self, look: Look, path: str, data: bytes, file: FileEntry) -> None:
        """Look whether the counts are those of the folded events."""
        try:
            tally = read_tally(self.home, self.contents)
        except (StoreError, OSError) as error:
            look.wrong(error)
            return
        comparable = self._is_whole and self.contents.gone is None
        if comparable and not tally.equals(added([tally.slice(0, 0), *self.tallies])):
            look.wrong(f"{path} is damaged: its counts are not those of the events")

    def agree(self, look: Look) -> None:
        """Look whether folded files have the events that were committed."""
        contents = self.contents
        gone = 0 if contents.gone is None else contents.gone.batch
        for number, rows in self.committed.items():
            if self._is_whole and gone < number <= contents.last and self.had[number] != rows:
                look.wrong(
                    f"{self.home.folder.path(EVENTS, contents.encoded()[0])} is damaged: its files have "
                    f"{self.had[number]:,} events of batch {number}, which committed {rows:,}"
                )

    @property
    def _is_whole(self) -> bool:
        return len(self.tallies) == len(self.contents.files)


_EXPIRED = "expired"


def wrong_order(table: pa.Table) -> str | None:
    """Return what is wrong with the order of a file's events; None where it is right.

    What an object is told of until it expires comes first, whatever came of it afterwards. Events without an object, of
    messages or resets, have no order among them. Cost O(events).
    """
    if table.num_rows < 2:
        return None
    objects = _plain(table, "object")
    kinds = _plain(table, "kind")
    unknown = pc.invert(pc.is_in(kinds, pa.array(EVENT_KINDS)))
    if pc.any(unknown).as_py():
        return f"it has events of kind {kinds.filter(unknown)[0].as_py()!r}"
    same = _and(pc.equal(objects[1:], objects[:-1]))
    lower = _and(pc.less(objects[1:], objects[:-1]))
    if lower.any():
        return "its objects are not in their order"
    expired = _and(pc.equal(_plain(table, "reason"), _EXPIRED))
    t = table.column("t").fill_null(0).to_numpy()
    rank = pc.index_in(kinds, pa.array(EVENT_KINDS)).to_numpy(zero_copy_only=False)
    row = np.arange(len(rank), dtype=np.int64)
    object = np.append(0, np.cumsum(~same))
    upto = np.full(len(row), -1)
    np.maximum.at(upto, object[expired], row[expired])
    order = np.lexsort((row, rank, t, row > upto[object], object))
    if (order != row).any():
        return "its events are not in the order of their objects' rows"
    return None


def _plain(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name).combine_chunks()
    column = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
    return column.cast(column.type.value_type) if isinstance(column, pa.DictionaryArray) else column


def _and(mask: pa.Array) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = mask.fill_null(False).to_numpy(zero_copy_only=False)
    return found


# -- changes of subscriptions -----------------------------------------------------------------------------------------


def _of_changes(home: Home, look: Look | None, numbers: range) -> Iterator[NamedFile]:
    last, base = numbers[-1] if numbers else 0, Base(0, None)
    try:
        head = head_of(home)
        if look is not None and head is not None and head.changes > last:
            path = home.batches.path(head.number)
            look.wrong(f"{path} is damaged: it has adopted change {head.changes}, the highest is {last}")
        if head is not None and head.changes:
            # the indexes of the newest batch hold what stood before this base
            base = base_of(home.changes.read(head.changes), home.changes.path(head.changes))
    except StoreError as error:
        if look is None:
            raise
        look.wrong(error)
    if look is None and base.entry is not None:
        yield NamedFile(CHANGES, base.entry)
    first = base.number + 1 if look is None else 1
    for number, files in whole_ones(home.changes, partial(_files_of, home), first, last, look):
        for file in files:
            stays = number > base.number or file == base.entry
            # of bases the newest is needed: who wants an older one reads the changes instead
            needed = stays and (file is files[0] or number == last)
            yield NamedFile(CHANGES, file, needed, stays, Look.parquet)


def _files_of(home: Home, commit: Commit) -> tuple[int, list[FileEntry]]:
    """Return the number of a change, its own file, and that of the base that it names."""
    path = home.changes.path(commit.number)
    base = base_of(commit, path).entry
    return commit.number, [file_of_change(commit, path), *([] if base is None else [base])]
