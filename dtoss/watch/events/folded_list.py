"""The list of older events: files of many batches each, and what retention has removed. A commit names it.

``events/folded-<sha256>.json`` is canonical JSON whose hash is in its name. It covers all commits up to ``last``: their
own event files need not be there any more, and nobody reads those up to ``swept``.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from dtoss.commits.chain import Commit, canonical, check_format
from dtoss.commits.file_entry import FILE_NAME, FileEntry, whole, write_entry
from dtoss.commits.table import commit_change
from dtoss.errors import InputError, StoreError
from dtoss.watch.events.readers import Cursor
from dtoss.watch.events.watch_document import Document, document_of
from dtoss.watch.watch_folder import EVENTS, Home

FOLDED_PREFIX, FOLDED_SUFFIX = "folded-", ".json"
FOLDED_FORMAT = 2
"""Of lists of which somebody was erased; others are of format 1, which an older release reads."""


@dataclass(frozen=True)
class FoldedFile:
    """Events of many batches in one file, in their order."""

    file: FileEntry
    first: Cursor
    last: Cursor
    until_us: int  # The latest beginning of a batch of it, in microseconds since 1970

    def as_json(self) -> dict[str, Any]:
        """Return what the list holds of it."""
        return {
            **self.file.as_json(),
            "first": str(self.first),
            "last": str(self.last),
            "until_us": self.until_us,
        }


@dataclass(frozen=True)
class Aside:
    """Where rows are that were set aside, once somebody was erased: before that, in the files that commits list."""

    last: int = 0  # Rows of commits up to this one are in the files, or are gone; 0 where commits list all
    files: tuple[FileEntry, ...] = ()

    def as_json(self) -> dict[str, Any] | None:
        """Return what the list holds of it; None where commits list all."""
        return {"last": self.last, "files": [file.as_json() for file in self.files]} if self.last else None

    @classmethod
    def of(cls, said: Any) -> Aside:
        """Return what a list says."""
        if said is None:
            return cls()
        return cls(whole(said["last"], "last of set_aside"), tuple(map(FileEntry.of, said["files"])))


@dataclass(frozen=True)
class Contents:
    """Where older events are."""

    last: int = 0  # Commits up to this one are covered; 0 where none is
    files: tuple[FoldedFile, ...] = ()  # In the order of their events
    swept: int = 0  # The own event files of commits up to this one are nobody's
    # How many events of which kind each subscription had up to ``last``; None before the first
    counts: FileEntry | None = None
    begin: int = 1  # The first commit that retention has left; 1 where it has removed nothing
    gone: Cursor | None = None  # The last event that it has removed; None where it has removed none
    before: str | None = None  # The name of the list before; None for the first
    aside: Aside = Aside()  # Where rows are that were set aside

    def encoded(self) -> tuple[str, bytes]:
        """Return the name of the list's file and its bytes."""
        body = {
            "kind": "folded",
            # a version that knows no more than the first would take what was erased for lost
            "format": FOLDED_FORMAT if self.aside.last else 1,
            "last": self.last,
            "files": [file.as_json() for file in self.files],
            "swept": self.swept,
            "counts": None if self.counts is None else self.counts.as_json(),
            "begin": self.begin,
            "gone": None if self.gone is None else str(self.gone),
            "before": self.before,
            "set_aside": self.aside.as_json(),
        }
        data = canonical(body) + b"\n"
        return f"{FOLDED_PREFIX}{hashlib.sha256(data).hexdigest()}{FOLDED_SUFFIX}", data

    def check_kept(self, after: Cursor) -> None:
        """Check that all events behind a cursor are still there."""
        if self.gone is not None and after < self.gone:
            raise InputError(
                f"events behind {after} are gone: those up to {self.gone} were removed (--retain); begin with --after "
                f"{self.gone}, or without --after"
            )

    @property
    def names(self) -> set[str]:
        """The files that it lists."""
        return {file.file.name for file in self.files} | ({self.counts.name} if self.counts is not None else set())


def contents_of(home: Home, name: str | None) -> Contents:
    """Return a list of older events; an empty one where there is none.

    ``name``: as the commit has it; None where there is none.
    """
    if name is None:
        return Contents()
    path = home.folder.path(EVENTS, name)
    data = home.folder.read(EVENTS, name)
    if data is None:
        raise StoreError(f"{path} is missing: it lists older events; restore it from a copy")
    if name != f"{FOLDED_PREFIX}{hashlib.sha256(data).hexdigest()}{FOLDED_SUFFIX}":
        raise StoreError(f"{path} is damaged: it does not have the bytes that it was written with")
    try:
        said = json.loads(data)
        if said["kind"] != "folded":
            raise ValueError(f"its kind is {said['kind']!r:.60}")
        check_format(path, said["format"], (1, FOLDED_FORMAT))
        before = said["before"]
        if before is not None and not FILE_NAME.match(before):
            raise ValueError(f"before is {before!r:.60}")
        return Contents(
            whole(said["last"], "last"),
            tuple(_file(file) for file in said["files"]),
            whole(said["swept"], "swept"),
            None if said["counts"] is None else FileEntry.of(said["counts"]),
            whole(said["begin"], "begin", 1),
            None if said["gone"] is None else Cursor.of(said["gone"]),
            before,
            Aside.of(said.get("set_aside")),
        )
    except (ValueError, KeyError, TypeError, RecursionError, InputError) as error:
        raise StoreError(f"{path} is damaged: {error}") from None


def _file(said: Any) -> FoldedFile:
    first, last = Cursor.of(said["first"]), Cursor.of(said["last"])
    return FoldedFile(FileEntry.of(said), first, last, whole(said["until_us"], "until_us", None))


def commit_contents(home: Home, contents: Contents, before: Document, now_us: int) -> bool:
    """Let a commit name a list of older events; return False if it was made from a list that is not the newest.

    ``now_us``: what the time is, in microseconds since 1970.
    """
    name = write_contents(home, contents)

    def change(head: Commit | None) -> dict[str, Any] | None:
        document = None if head is None else document_of(home, head)
        if document is None or document.folded != before.folded:
            return None
        return carried_on(document, name, now_us)

    return commit_change(home.batches, change) is not None


def write_contents(home: Home, contents: Contents) -> str:
    """Write a list of older events, to the disk, and return the name of its file."""
    _, data = contents.encoded()
    name: str = write_entry(home.folder, data, 0, "json", EVENTS, begin=FOLDED_PREFIX, digits=64)["name"]
    return name


def carried_on(head: Document, folded: str | None, now_us: int) -> dict[str, Any]:
    """Return the document of a commit without rows, which leaves all but the list of older events as it is.

    ``now_us``: what the time is, in microseconds since 1970.
    """
    said = dict(head.commit.document)
    counts = said.get("counts")
    if isinstance(counts, dict):
        # what is counted of a batch is of that batch; what stands, stands
        said["counts"] = {name: value if name == "objects" else 0 for name, value in counts.items()}
    for name, nothing in (("quarantine", []), ("reasons", {}), ("work", []), ("load", None)):
        if name in said:
            said[name] = nothing
    return said | {
        "batch": {"query": "", "batch": -1, "wall_us": now_us},
        "events": [],
        "folded": folded,
    }
