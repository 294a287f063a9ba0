"""What a commit of a watch says: the files that its batch made, the state it left, and where older events are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dtoss.commits.chain import Commit, check_document
from dtoss.commits.file_entry import FILE_NAME, FileEntry, whole
from dtoss.commits.ledger_runs import run_files
from dtoss.commits.verify_report import commits_from
from dtoss.errors import StoreError
from dtoss.snapshots.store_location import hide_keys
from dtoss.watch.watch_folder import WATCH_FORMAT, WATCH_KIND, Home, way_to
from dtoss.watch.watch_settings import Settings


@dataclass(frozen=True)
class Document:
    """A commit of a watch, as it is read."""

    commit: Commit  # Whose document it is
    # events, state, quarantine: the files of its batch, all runs of the state, the rows that were set aside
    events: tuple[FileEntry, ...]
    state: tuple[FileEntry, ...]
    quarantine: tuple[FileEntry, ...]
    wall_us: int  # When the batch began, in microseconds since 1970
    query: str  # query, batch: whose batch it is, and its number there; "" and -1 without rows
    batch: int
    changes: int  # The number of the change of subscriptions that it has adopted; 0 for none
    clock: int | None  # Of the watch, in microseconds since 1970; None before the first time
    folded: str | None  # The name of the list of older events; None where there is none
    runs: tuple[FileEntry, ...]  # Of the ledger

    @property
    def number(self) -> int:
        """Of the commit: the batch of a cursor."""
        return self.commit.number

    @property
    def rows(self) -> int:
        """How many events its batch has."""
        return sum(file.rows for file in self.events)

    @cached_property
    def settings(self) -> Settings:
        """Those of the watch."""
        return Settings.of(self.commit.document.get("settings"))

    @property
    def standing(self) -> dict[str, Any]:
        """What it says of the built subscriptions; empty where there are none."""
        said = self.commit.document.get("standing")
        return said if isinstance(said, dict) else {}

    @property
    def layout(self) -> dict[str, Any]:
        """What it says of how rows were spread over workers; empty where they were not."""
        said = self.commit.document.get("layout")
        return said if isinstance(said, dict) else {}

    @property
    def load(self) -> tuple[FileEntry, ...]:
        """The file of what the round that has ended with it has cost; none where none has."""
        said = self.commit.document.get("load")
        try:
            return () if said is None else (FileEntry.of(said),)
        except ValueError as error:
            raise StoreError(f"commit {self.number} is damaged: {error}; restore it from a copy") from None

    @property
    def counts(self) -> dict[str, int]:
        """What it has counted."""
        said = self.commit.document.get("counts")
        return {name: value for name, value in said.items() if isinstance(value, int)} if isinstance(said, dict) else {}


def document_of(home: Home, commit: Commit) -> Document:
    """Return what a commit says."""
    said, path = commit.document, home.batches.path(commit.number)
    check_document(path, said, WATCH_KIND, (WATCH_FORMAT,))
    try:
        batch = said.get("batch")
        if not isinstance(batch, dict) or not isinstance(batch.get("query"), str):
            raise ValueError(f"batch is {batch!r:.60}")
        folded = said.get("folded")
        if folded is not None and not (isinstance(folded, str) and FILE_NAME.match(folded)):
            raise ValueError(f"folded is {folded!r:.60}")
        clock = said.get("clock")
        return Document(
            commit,
            _files(said, "events"),
            _files(said, "state"),
            _files(said, "quarantine"),
            whole(batch.get("wall_us"), "wall_us of batch"),
            batch["query"],
            whole(batch.get("batch"), "batch of batch", -1),
            whole(said.get("changes"), "changes"),
            None if clock is None else whole(clock, "clock", None),
            folded,
            run_files(said.get("ledger")),
        )
    except ValueError as error:
        raise StoreError(f"{path} is damaged: {error}; roll back or restore it from a copy") from None


def head_of(home: Home) -> Document | None:
    """Return the newest commit of a watch; None where it has not begun."""
    commit = home.batches.head()
    return None if commit is None else document_of(home, commit)


def begun_watch(home: Home) -> Document:
    """Return the newest commit of a watch that has begun."""
    head = head_of(home)
    if head is None:
        raise StoreError(
            f"{hide_keys(home.path)} is no watch yet: none of its batches has been committed{way_to(home)}"
        )
    return head


def documents(home: Home, first: int, last: int) -> Iterator[Document]:
    """Yield what commits say, in their order."""
    for commit in commits_from(home.batches, first, last):
        yield document_of(home, commit)


def dated(commits: Iterable[Document], now_us: int) -> Iterator[tuple[Document, int]]:
    """Yield commits with when each began: one of a clock that was ahead began no later than the next one of now.

    ``commits``: in their order; ``now_us``: what the time is, in microseconds since 1970.

    Without it a clock that was a year ahead once would keep all that came since from growing old for a year.
    """
    waiting: list[Document] = []
    for document in commits:
        if document.wall_us > now_us:
            waiting.append(document)
            continue
        yield from ((one, document.wall_us) for one in waiting)
        waiting = []
        yield document, document.wall_us
    yield from ((one, now_us) for one in waiting)


def _files(said: dict[str, Any], part: str) -> tuple[FileEntry, ...]:
    found = said.get(part) or []
    if not isinstance(found, list):
        raise ValueError(f"{part} is {found!r:.60}, a list of files is wanted")
    return tuple(FileEntry.of(file) for file in found)
