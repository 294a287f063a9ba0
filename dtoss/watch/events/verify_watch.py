"""Whether a watch is whole: every byte of every file that its commits list, and what the files hold.

The order of the events of a file: by object, then time, then leave before enter before inside.

Whether the subscriptions of a watch are whole: every change, and the indexes that the newest batch has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.commits.between import commits_from
from dtoss.commits.file_entry import FileEntry
from dtoss.commits.verify_report import Look, VerifyReport, noting, verify_chain
from dtoss.errors import StoreError
from dtoss.snapshots.store_location import hide_keys
from dtoss.watch.events.cursor import END_OF_BATCH, Cursor
from dtoss.watch.events.event_counts import added, counted, read_tally
from dtoss.watch.events.event_retention import needless_changes
from dtoss.watch.events.folded_list import Contents, contents_of
from dtoss.watch.events.readers import readers
from dtoss.watch.events.watch_document import Document, document_of
from dtoss.watch.processing.event_table import EVENT_KINDS
from dtoss.watch.subscriptions.current import named_files
from dtoss.watch.watch_folder import BUILT, CHANGES, EVENTS, LAYOUTS, LOAD, QUARANTINED, STATE, Home, way_to

_ORDINAL_BITS = 32


def verify_watch(home: Home) -> VerifyReport:
    """Return what is wrong with a watch, and what could not be read; nothing of what is found is an error.

    Looked at are the chains of batches and of changes, with each parent's hash; size, SHA-256 and rows of each file
    that they list; the columns, order and numbers of events, in files of batches and in folded ones, and that these
    have as many of each batch as it committed; counts; the state of the newest commit; built subscriptions; layouts
    and loads; cursors of readers. Files that a later commit has made needless may be missing, and are compared where
    they are there. A batch that commits meanwhile is not looked at. Cost: everything is read once. Memory: the largest
    file.
    """
    verify = _Verify(home)
    with noting(verify.found):
        verify.all()
    return verify.found


class _Verify(Look):
    def __init__(self, home: Home) -> None:
        super().__init__()
        self.home = home
        self.found.held = {"changes": 0, "events": 0}
        self.tallies: list[pa.Table] = []

    def all(self) -> None:
        files, logs = self.home.batches.listed()
        changes = self.home.changes
        if not files and not logs and not any(changes.listed()):
            path = hide_keys(self.home.path)
            raise StoreError(f"{path} is no watch: it has neither batches nor subscriptions{way_to(self.home)}")
        last = max([*files, *(last for _, last in logs)], default=0)
        head, contents = None, Contents()
        try:  # of what could not be read nothing says what it needs
            head = document_of(self.home, self.home.batches.read(last)) if last else None
            contents = contents if head is None else contents_of(self.home, head.folded)
        except StoreError as error:
            self.wrong(error)
        if contents.begin > 1:  # logs before it may be gone, all together
            kept = min([*files, *(first for first, _ in logs)])
            first = kept if kept <= contents.begin else 1
        else:
            first = 1
        self.found.commits = last - first + 1 if last else 0
        for what in verify_chain(self.home.batches, first):
            self.wrong(what)
        if head is not None:
            self._batches(first, head, contents)
        verify_asked(self.home, head, self)
        try:
            readers(self.home)
        except StoreError as error:
            self.wrong(error)

    def _document(self, number: int) -> Document | None:
        try:
            return document_of(self.home, self.home.batches.read(number))
        except (StoreError, OSError) as error:
            self.wrong(error)
            return None

    # -- batches ------------------------------------------------------------------------------------------------------

    def _batches(self, first: int, head: Document, contents: Contents) -> None:
        committed: dict[int, int] = {}
        before: Document | None = None
        for document in self._documents(first, head.number):
            committed[document.number] = document.rows
            own = document.number > contents.last
            ordinal = -1
            for file in document.events:
                data = self.bytes_of(self.home.folder, EVENTS, file, needed=own)
                if data is not None:
                    ordinal = self._events(file, data, document, ordinal, own)
            for file in document.state:
                data = self.bytes_of(self.home.folder, STATE, file, needed=document.number == head.number)
                if data is not None:
                    self.arrow(self.home.folder.path(STATE, file.name), data, file.rows)
            for file in document.quarantine:
                needed = document.number >= contents.begin and document.number > contents.aside.last
                data = self.bytes_of(self.home.folder, QUARANTINED, file, needed=needed)
                if data is not None:
                    self.parquet(self.home.folder.path(QUARANTINED, file.name), data, file.rows)
            for file in document.load:
                data = self.bytes_of(self.home.folder, LOAD, file, needed=document.number >= contents.begin)
                if data is not None:
                    self.parquet(self.home.folder.path(LOAD, file.name), data, file.rows)
            verify_built(self.home, document, self, needed=document.number == head.number)
            if before is not None and document.changes < before.changes:
                path = self.home.batches.path(document.number)
                self.wrong(f"{path} is damaged: it has adopted change {document.changes} after {before.changes}")
            before = document
        for file in contents.aside.files:
            data = self.bytes_of(self.home.folder, QUARANTINED, file, needed=True)
            if data is not None:
                self.parquet(self.home.folder.path(QUARANTINED, file.name), data, file.rows)
        self._folded(contents, committed)

    def _documents(self, first: int, last: int) -> Iterator[Document]:
        for number in range(first, last + 1):
            try:
                for commit in commits_from(self.home.batches, number, last):
                    number = commit.number
                    yield document_of(self.home, commit)
                return
            except (StoreError, OSError) as error:
                self.wrong(error)
                rest = number + 1
                while rest <= last:
                    document = self._document(rest)
                    if document is not None:
                        yield document
                    rest += 1
                return

    def _events(self, file: FileEntry, data: bytes, document: Document, ordinal: int, own: bool) -> int:
        path = self.home.folder.path(EVENTS, file.name)
        table = self.parquet(path, data, file.rows)
        if table is None or not table.num_rows:
            return ordinal
        try:
            numbers = table.column("number").to_numpy()
            batches = table.column("batch").to_numpy()
            mine = int(numbers[0]) >> _ORDINAL_BITS
            expected = (mine << _ORDINAL_BITS) + np.arange(len(numbers))
            if not (batches == document.number).all():
                self.wrong(f"{path} is damaged: its events are not all of batch {document.number}")
            elif not np.array_equal(numbers, expected) or mine <= ordinal:
                self.wrong(f"{path} is damaged: its events are not numbered one after the other")
            elif why := wrong_order(table):
                self.wrong(f"{path} is damaged: {why}")
        except (KeyError, pa.ArrowInvalid, ValueError) as error:
            self.wrong(f"{path} is damaged: {error!s:.200}")
            return ordinal
        if own:
            self.found.hold("events", len(numbers))
        return mine

    def _folded(self, contents: Contents, committed: dict[int, int]) -> None:
        had: Counter[int] = Counter()
        upto = contents.gone or Cursor(0, END_OF_BATCH)
        whole = True
        for folded in contents.files:
            path = self.home.folder.path(EVENTS, folded.file.name)
            data = self.bytes_of(self.home.folder, EVENTS, folded.file, needed=True)
            table = None if data is None else self.parquet(path, data, folded.file.rows)
            if table is None:
                whole = False
                continue
            try:
                batches, numbers = table.column("batch").to_numpy(), table.column("number").to_numpy()
                self.tallies.append(counted(table))
            except (KeyError, pa.ArrowInvalid, ValueError) as error:
                self.wrong(f"{path} is damaged: {error!s:.200}")
                whole = False
                continue
            rising = (np.diff(batches) > 0) | ((np.diff(batches) == 0) & (np.diff(numbers) > 0))
            ends = [Cursor(int(batches[row]), int(numbers[row])) for row in (0, -1)] if len(batches) else []
            if ends != [folded.first, folded.last] or not rising.all() or folded.first <= upto:
                self.wrong(f"{path} is damaged: its events are not in their order")
            upto = folded.last
            for batch, rows in zip(*np.unique(batches, return_counts=True), strict=True):
                had[int(batch)] += int(rows)
            self.found.hold("events", table.num_rows)
        gone = 0 if contents.gone is None else contents.gone.batch
        for number, rows in committed.items():
            if whole and gone < number <= contents.last and had[number] != rows:
                name = contents.encoded()[0]
                self.wrong(
                    f"{self.home.folder.path(EVENTS, name)} is damaged: its files have {had[number]:,} events of batch "
                    f"{number}, which committed {rows:,}"
                )
        self._tally(contents, whole)

    def _tally(self, contents: Contents, whole: bool) -> None:
        if contents.counts is None:
            return
        self.found.files += 1
        self.found.bytes += contents.counts.bytes
        try:
            tally = read_tally(self.home, contents)
        except (StoreError, OSError) as error:
            self.wrong(error)
            return
        if whole and contents.gone is None and not tally.equals(added([tally.slice(0, 0), *self.tallies])):
            path = self.home.folder.path(EVENTS, contents.counts.name)
            self.wrong(f"{path} is damaged: its counts are not those of the events")


_EXPIRED = "expired"


def wrong_order(table: pa.Table) -> str | None:
    """Return what is wrong with the order of a file's events; None where it is right.

    An object that expires leaves first, whatever came of it afterwards. Events without an object, of messages or
    resets, have no order among them. Cost O(events).
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
    late = ~expired
    t = table.column("t").fill_null(0).to_numpy()
    rank = pc.index_in(kinds, pa.array(EVENT_KINDS)).to_numpy(zero_copy_only=False)
    row = np.arange(len(rank), dtype=np.int64)
    order = np.lexsort((row, rank, np.where(expired, 0, t), late))
    place = np.empty(len(row), np.int64)
    place[order] = row
    if (same & (np.diff(place) < 0)).any():
        return "its events are not in the order of their objects' rows"
    return None


def _plain(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name).combine_chunks()
    column = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
    return column.cast(column.type.value_type) if isinstance(column, pa.DictionaryArray) else column


def _and(mask: pa.Array) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = mask.fill_null(False).to_numpy(zero_copy_only=False)
    return found


def verify_asked(home: Home, head: Document | None, look: Look) -> None:
    """Look at the subscriptions of a watch.

    ``head``: the newest batch; None before the first, or where it is damaged.
    """
    chain = home.changes
    files, logs = chain.listed()
    last = max([*files, *(last for _, last in logs)], default=0)
    look.found.held["changes"] = last
    for what in verify_chain(chain):
        look.wrong(what)
    if head is not None and head.changes > last:
        path = home.batches.path(head.number)
        look.wrong(f"{path} is damaged: it has adopted change {head.changes}, the highest is {last}")
    needless: set[str] = set()
    try:
        needless = needless_changes(home, head)
    except StoreError as error:
        look.wrong(error)
    for number in range(1, last + 1):
        try:
            listed = [FileEntry.of(file) for file in named_files(chain.read(number).document)]
        except (StoreError, OSError) as error:
            look.wrong(error)
            continue
        except (KeyError, TypeError, ValueError) as error:
            look.wrong(f"{chain.path(number)} is damaged: it is no change of subscriptions: {error!s:.100}")
            continue
        for file in listed:
            # of bases the newest is needed: who wants an older one reads the changes instead
            stays = file is listed[0] or number == last
            data = look.bytes_of(home.asked, CHANGES, file, needed=stays and file.name not in needless)
            if data is not None:
                look.parquet(home.asked.path(CHANGES, file.name), data, file.rows)


def verify_built(home: Home, batch: Document, look: Look, *, needed: bool) -> None:
    """Look at the indexes of subscriptions that a batch was held against, and at how its rows were spread."""
    for part in ("base", "delta"):
        _look_at(home, batch, look, BUILT, batch.standing.get(part), needed=needed)
    layout = batch.layout
    for part in ("layout", "base", "delta", "memory", "words"):
        _look_at(home, batch, look, LAYOUTS, layout.get(part), needed=needed)
    indexes = layout.get("indexes")
    for said in indexes.values() if isinstance(indexes, dict) else ():
        _look_at(home, batch, look, BUILT, said, needed=needed)


def _look_at(home: Home, batch: Document, look: Look, room: str, said: Any, *, needed: bool) -> None:
    """Look at an Arrow file that a batch names; at nothing where it names none."""
    if said is None:
        return
    try:
        file = FileEntry.of(said)
    except ValueError as error:
        look.wrong(f"{home.batches.path(batch.number)} is damaged: {error}")
        return
    data = look.bytes_of(home.asked, room, file, needed=needed)
    if data is not None:
        look.arrow(home.asked.path(room, file.name), data, None)
