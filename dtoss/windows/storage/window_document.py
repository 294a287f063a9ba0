"""What a commit of windows says: the files that its batch made, the state it left, and what was counted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dtoss.commits.between import commits_from
from dtoss.commits.chain import Commit
from dtoss.commits.file_entry import FileEntry, whole
from dtoss.commits.formats import check_document
from dtoss.commits.ledger_runs import read_ledger, run_files
from dtoss.commits.offsets import Ledger
from dtoss.errors import StoreError
from dtoss.snapshots.store_location import hide_keys
from dtoss.windows.storage.window_folder import Home, way_to

WINDOWS_KIND = "windows"
DOCUMENT_FORMAT = 2
"""Of the documents that this reads."""
FILE_KINDS = ("objects", "patches", "panes", "results", "quarantine", "hours")
"""Parts of a document that list files, by the names of their folders."""


@dataclass(frozen=True)
class Part:
    """A file of state, or of results, and what it counts for."""

    file: FileEntry
    of: tuple[int, ...]  # Buckets or groups of whose state the file counts; or the first and the last end of results
    # Whether it has only what has changed since, of state: of several that have a bucket a later one counts more
    patch: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return what a document holds of it."""
        return {**self.file.as_json(), "of": list(self.of), **({"patch": True} if self.patch else {})}


@dataclass(frozen=True)
class Document:
    """A commit of windows, as it is read."""

    home: Home
    commit: Commit  # Whose document it is
    files: Mapping[str, tuple[Part, ...]]  # By the names of :data:`FILE_KINDS`
    # watermark, watermark_before: microseconds since 1970, after the batch and before it; None before the first row
    watermark: int | None
    watermark_before: int | None
    runs: tuple[FileEntry, ...] = ()  # Of the ledger

    @property
    def number(self) -> int:
        """Of the commit."""
        return self.commit.number

    @property
    def ledger(self) -> Ledger:
        """What was read so far."""
        return read_ledger(self.home.folder, self.commit.document.get("ledger"))

    @property
    def counts(self) -> Mapping[str, int]:
        """What the batch has counted."""
        counts: Mapping[str, int] = self.commit.document["counts"]
        return counts

    @property
    def totals(self) -> Mapping[str, int]:
        """What all batches together have counted."""
        totals: Mapping[str, int] = self.commit.document["totals"]
        return totals

    @property
    def is_rebuild(self) -> bool:
        """Whether it has counted ends anew."""
        return any(one["commit"] == self.number for one in self.commit.document.get("rebuilds", ()))

    def rebuilds(self, first: int, last: int) -> list[int]:
        """Return the commits up to this one that have counted ends anew between two ends, both included."""
        said = self.commit.document.get("rebuilds", ())
        return [one["commit"] for one in said if one["first"] <= last and one["last"] >= first]


def document_of(home: Home, commit: Commit) -> Document:
    """Return what a commit says."""
    said, path = commit.document, home.batches.path(commit.number)
    check_document(path, said, WINDOWS_KIND, (DOCUMENT_FORMAT,), "count the rows anew under another --name")
    try:
        after, before = (
            None if said.get(name) is None else whole(said[name], name, None)
            for name in ("watermark", "watermark_before")
        )
        for name in ("counts", "totals", "reasons"):
            if not isinstance(said.get(name), dict):
                raise ValueError(f"{name} is {said.get(name)!r:.60}")
        files = {part: _parts(said, part) for part in FILE_KINDS}
        return Document(home, commit, files, after, before, run_files(said.get("ledger")))
    except (ValueError, TypeError) as error:
        raise StoreError(f"{path} is damaged: {error}; restore it from a copy") from None


def _parts(said: Mapping[str, Any], name: str) -> tuple[Part, ...]:
    found = said.get(name)
    if not isinstance(found, list):
        raise ValueError(f"{name} is {found!r:.60}, a list of files is wanted")
    return tuple(
        Part(
            FileEntry.of(one), tuple(whole(value, "of", None) for value in one.get("of", ())), one.get("patch") is True
        )
        for one in found
    )


def head_of(home: Home) -> Document | None:
    """Return the newest commit of windows; None where nothing was committed."""
    commit = home.batches.head()
    return None if commit is None else document_of(home, commit)


def begun_windows(home: Home) -> Document:
    """Return the newest commit of windows that have begun."""
    head = head_of(home)
    if head is None:
        raise StoreError(f"windows {home.name} of {hide_keys(home.store)} have not begun{way_to(home)}")
    return head


def documents(home: Home, first: int, last: int) -> Iterator[Document]:
    """Yield what commits say, in their order."""
    for commit in commits_from(home.batches, first, last):
        yield document_of(home, commit)
