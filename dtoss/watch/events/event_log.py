"""Events in their order, each once, from folded files, then those of each batch; a file is opened with a check.

Events as they are committed: asked for again and again, each time from where the last answer ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dtoss.commits.columnar_files import decoding
from dtoss.commits.file_entry import FileEntry, Missing, open_entry
from dtoss.errors import InputError, StoreError
from dtoss.watch.events.folded_list import Contents, contents_of
from dtoss.watch.events.readers import BEGINNING, END_OF_BATCH, Cursor
from dtoss.watch.events.watch_document import Document, documents, head_of
from dtoss.watch.processing.event_table import CROSS_COLUMNS, EVENT_KINDS, OTHER_COLUMN, OTHER_PLACE
from dtoss.watch.watch_folder import EVENTS, Home

if TYPE_CHECKING:
    import pyarrow.dataset as ds


@dataclass(frozen=True)
class View:
    """What there is to be read at a moment."""

    head: Document
    contents: Contents  # The list of older events that it names

    def check_behind(self, after: Cursor) -> None:
        """Check that all events behind a cursor are there, and that it is one of this watch."""
        self.contents.check_kept(after)
        if after.batch > self.head.number:
            raise InputError(
                f"{after} is behind all events, there are {self.head.number:,} batches: the watch was begun anew, or "
                "restored from an older copy, and numbers now mean other events; begin without --after, or with the id "
                "of an event that is there"
            )


@dataclass(frozen=True)
class EventPart:
    """Some events, and where a reader stands behind them."""

    # In their order; without rows where a stretch has none that were asked for, and None where it has none at all
    events: pa.Table | None
    upto: Cursor  # All events that were asked for up to this cursor have been told


def view_of(home: Home) -> View | None:
    """Return what there is to be read now; None where the watch has not begun."""
    for attempt in range(3):
        head = head_of(home)
        if head is None:
            return None
        try:
            return View(head, contents_of(home, head.folded))
        except StoreError:
            # it may have been folded once more, twice even, since the commit was read
            again = head_of(home)
            if attempt == 2 or again is None or again.folded == head.folded:
                raise
    raise AssertionError


def events(
    home: Home,
    after: Cursor | None = None,
    subscription: str | None = None,
    kinds: Collection[str] | None = None,
    until: Cursor | None = None,
    columns: Sequence[str] | None = None,
) -> Iterator[pa.Table]:
    """Yield the events of a watch in their order.

    ``after``: events behind this one; from the oldest that retention has left when None; ``subscription``: the id of
    the only one; all when None; ``kinds``: some of :data:`dtoss.watch.processing.event_table.EVENT_KINDS`; all when
    None; ``until``: up to this one; all that are committed when it is begun when None; ``columns``: of those that a
    file has; all when None.

    Files that end before the cursor are not opened, and of large ones only groups of rows that may hold what is asked
    for. It may be folded and retained meanwhile. Memory: one group of rows, or one file of a batch.
    """
    for told in told_events(home, after, subscription, kinds, until, columns):
        if told.events is not None and told.events.num_rows:
            yield told.events


def told_events(
    home: Home,
    after: Cursor | None = None,
    subscription: str | None = None,
    kinds: Collection[str] | None = None,
    until: Cursor | None = None,
    columns: Sequence[str] | None = None,
) -> Iterator[EventPart]:
    """Yield events as :func:`events`, with where a reader stands behind them; to be asked again from there."""
    for kind in kinds or ():
        if kind not in EVENT_KINDS:
            raise InputError(f"kind {kind!r} is none of events: {', '.join(EVENT_KINDS)} are")
    view = view_of(home)
    if view is None:
        return
    end = Cursor(view.head.number, END_OF_BATCH)
    if until is None or until > end:
        until = end
    if after is None:
        after = view.contents.gone or BEGINNING
    view.check_behind(after)
    at = after
    asked = Asked(after, until, subscription, None if kinds is None else tuple(kinds))
    while True:
        try:
            for told in _told(home, view, asked, at, columns):
                yield told
                at = told.upto
            return
        except Missing:
            # its events may be in a folded file by now, or removed
            again = view_of(home)
            if again is None or again.head.folded == view.head.folded:
                raise
            view = again
            view.check_behind(at)


def _told(home: Home, view: View, asked: Asked, at: Cursor, columns: Sequence[str] | None) -> Iterator[EventPart]:
    """Yield what is behind a cursor; a part that fails is begun again at what was told before it."""
    contents, until = view.contents, asked.until
    for folded in contents.files:
        if folded.last <= at:
            continue
        if until is not None and until < folded.first:
            return
        yield from _parts(home, folded.file, asked, at, folded.first, folded.last, columns)
        at = folded.last
        yield EventPart(None, at)
    covered = Cursor(contents.last, END_OF_BATCH)
    if at < covered:
        at = covered
        yield EventPart(None, at)
    first = at.batch + (at.number == END_OF_BATCH)
    last = view.head.number if until is None else min(until.batch, view.head.number)
    for document in documents(home, max(first, contents.last + 1), last):
        end = Cursor(document.number, END_OF_BATCH)
        start = Cursor(document.number, 0)
        for file in document.events:
            yield from _parts(home, file, asked, at, start, end, columns)
        at = end
        yield EventPart(None, at)


def _parts(
    home: Home,
    file: FileEntry,
    asked: Asked,
    at: Cursor,
    first: Cursor,
    last: Cursor,
    columns: Sequence[str] | None,
) -> Iterator[EventPart]:
    wanted = None if columns is None else [*columns, *(name for name in ("batch", "number") if name not in columns)]
    for table in read_events(home, file, asked.filter(at, first, last), wanted):
        if not table.num_rows:
            continue
        row = table.num_rows - 1
        upto = Cursor(table.column("batch")[row].as_py(), table.column("number")[row].as_py())
        yield EventPart(table if columns is None else table.select(list(columns)), upto)


FOLLOW_SECONDS = 0.25
"""Between two looks for a new commit."""


def looks(
    home: Home,
    after: Cursor | None = None,
    subscription: str | None = None,
    kinds: Collection[str] | None = None,
    *,
    goes_on: Callable[[], bool],
    every: float = FOLLOW_SECONDS,
) -> Iterator[Iterator[EventPart]]:
    """Yield what each look for a new commit finds, until it is to end.

    Each is to be read before the next is asked for. ``every``: seconds between two looks; one without a new commit
    costs one small read.
    """
    at, seen = after, 0

    def look(end: Cursor) -> Iterator[EventPart]:
        nonlocal at
        for told in told_events(home, at, subscription, kinds, end):
            at = told.upto
            yield told

    while goes_on():
        head = head_of(home)
        if head is not None and head.number > seen:
            yield look(Cursor(head.number, END_OF_BATCH))
            seen = head.number
        else:
            time.sleep(every)


def event_paths(home: Home, after: Cursor | None = None) -> list[str]:
    """Return the paths of the files that hold all events that are left, in their order.

    Parameters
    ----------
    home
        Of the watch.
    after
        Files that end before it are left out; where its own batch is, other events of its files come too.

    Raises
    ------
    InputError
        If retention has removed events behind the cursor, or there is no such event yet.
    StoreError
        If a commit or a list is missing or damaged.
    OSError
        If something cannot be read.

    Notes
    -----
    They stay for an hour at least: files that were folded go with the next fold.
    """
    view = view_of(home)
    if view is None:
        return []
    if after is not None:
        view.check_behind(after)
    names = [file.file.name for file in view.contents.files if after is None or file.last > after]
    first = max(view.contents.last + 1, 1 if after is None else after.batch)
    for document in documents(home, first, view.head.number):
        names += [file.name for file in document.events if file.rows]
    return [home.folder.path(EVENTS, name) for name in names]


EVENT_COLUMNS = (
    "batch",
    "number",
    "subscription",
    "version",
    "kind",
    "object",
    "t",
    "x",
    "y",
    "distance",
    "reason",
    "meta",
    *CROSS_COLUMNS,
    OTHER_COLUMN,
    *OTHER_PLACE,
)
"""Of files of events, the last five only where a subscription wanted crosses or pairs; others are carried along."""
PLACE_COLUMNS = ("x", "y", "distance", *OTHER_PLACE)
"""Those that say where objects are."""


@dataclass(frozen=True)
class Asked:
    """Which events are wanted."""

    after: Cursor  # Events behind this one
    until: Cursor | None = None  # Events up to this one; all when None
    subscription: str | None = None  # Of this subscription; of all when None
    kinds: tuple[str, ...] | None = None  # Of these kinds; of all when None

    def filter(self, after: Cursor, first: Cursor | None, last: Cursor) -> ds.Expression | None:
        """Return what rows of a file must satisfy; None for all.

        ``first``, ``last``: bounds of the file's events; the first is None where it is not known.
        """
        batch, number = pc.field("batch"), pc.field("number")
        parts = []
        if first is None or first <= after:
            parts.append((batch > after.batch) | ((batch == after.batch) & (number > after.number)))
        if self.until is not None and self.until < last:
            parts.append((batch < self.until.batch) | ((batch == self.until.batch) & (number <= self.until.number)))
        if self.subscription is not None:
            parts.append(pc.field("subscription") == self.subscription)
        if self.kinds is not None:
            parts.append(pc.field("kind").isin(list(self.kinds)))
        if not parts:
            return None
        found = parts[0]
        for part in parts[1:]:
            found = found & part
        return found


def read_events(
    home: Home, file: FileEntry, wanted: ds.Expression | None = None, columns: Sequence[str] | None = None
) -> Iterator[pa.Table]:
    """Yield the rows of a file of events in their order, a row group or less at a time.

    ``wanted``: what rows must satisfy; groups whose statistics exclude it are not read; ``columns``: those to read; all
    when None.
    """
    path = home.folder.path(EVENTS, file.name)
    source = open_entry(home.folder, EVENTS, file)
    with decoding(path):
        footer = pq.read_metadata(source)
        if footer.num_rows != file.rows:
            raise ValueError(f"it has {footer.num_rows:,} rows, its commit says {file.rows:,}")
        if footer.num_rows == 0:
            return
        source.seek(0)
        if wanted is None:
            reader = pq.ParquetFile(source, metadata=footer, page_checksum_verification=True)
            for group in range(footer.num_row_groups):
                yield reader.read_row_group(group, columns=columns, use_threads=False)
            return
        import pyarrow.dataset as ds  # it loads pandas

        form = ds.ParquetFileFormat(
            default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
        )
        fragment = form.make_fragment(source)
        kept = fragment.subset(filter=wanted)
        if not kept.row_groups:
            return
        found = kept.scanner(
            schema=fragment.physical_schema,
            columns=None if columns is None else list(columns),
            filter=wanted,
            use_threads=False,
        )
        for batch in found.to_batches():
            if batch.num_rows:
                yield pa.Table.from_batches([batch])
