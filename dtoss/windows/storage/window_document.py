"""Where windows are, the folder ``STORE/windows/NAME``, and what a commit says: files, state, and what was counted.

::

    STORE/windows/NAME/
      spec.json                   what is asked for, once and for all
      CURRENT, commits/           the chain of batches: what each made visible
      LEASE                       who runs them
      keys/<name>.arrow           what the keys are made of: pivots, sites, polygons
      objects/<name>.arrow        the state of objects by bucket, and patches of it
      patches/<name>.arrow        what the tasks of the last batch changed in panes
      panes/<name>.arrow          the state of panes by group of keys, and patches of it
      results/<name>.parquet      results of ends that became due, and revisions; those of a past hour in one file
      quarantine/<name>.parquet   rows that were set aside
      ledger/<name>.json.zst      of what was read, the many files that no commit says itself
      hours/<name>.json           which files have past hours, and from when on ends are kept
      sets/CURRENT, sets/commits/ the chain of sets, once another one has begun (:mod:`dtoss.windows.storage.sets`)
      sets/<number>/              a later set, with all of the above but the lease
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dtoss.commits.chain import Chain, Commit, check_document, check_name, names_in, path_in
from dtoss.commits.file_entry import FileEntry, whole
from dtoss.commits.folder import Folder
from dtoss.commits.ledger_runs import LEDGERS, read_ledger, run_files
from dtoss.commits.offsets import Ledger
from dtoss.commits.verify_report import commits_from
from dtoss.errors import StoreError
from dtoss.names import near_name
from dtoss.snapshots.store_location import folder_of, hide_keys

WINDOWS = "windows"
"""The folder of a store that holds its windows."""
SPEC = "spec.json"
KEY_FILES, OBJECT_STATES, PATCHES, PANES, RESULTS, SET_ASIDE, HOURS = (
    "keys",
    "objects",
    "patches",
    "panes",
    "results",
    "quarantine",
    "hours",
)
SETS = "sets"
"""The folder of a name that holds its later sets, and the chain that says which of them counts."""
ROOMS = (KEY_FILES, OBJECT_STATES, PATCHES, PANES, RESULTS, SET_ASIDE, HOURS, LEDGERS)
_NAMED = 5
"""Windows that a message names."""


@dataclass(frozen=True)
class Home:
    """Where a set of windows is; small, and pickled as what it is made of."""

    store: str  # Path or URI of the store
    name: str
    number: int = 1  # Of the set; the first one is in the folder of the name, later ones in folders of their own in it

    def __post_init__(self) -> None:
        check_name(WINDOWS, self.name)

    def __reduce__(self) -> tuple[type[Home], tuple[str, str, int]]:
        return Home, (self.store, self.name, self.number)

    @property
    def path(self) -> str:
        """Path or URI of the folder."""
        later = () if self.number == 1 else (SETS, str(self.number))
        return path_in(self.store, WINDOWS, self.name, *later)

    @property
    def first(self) -> Home:
        """The first set of the name, whose folder has the lease and the chain of sets."""
        return self if self.number == 1 else Home(self.store, self.name)

    @property
    def sets(self) -> Chain:
        """The chain that says which set counts; it begins with the second one."""
        return Chain(folder_of(path_in(self.first.path, SETS)), kept=True)

    @cached_property
    def folder(self) -> Folder:
        """The folder."""
        return folder_of(self.path)

    @property
    def batches(self) -> Chain:
        """The chain of batches."""
        return Chain(self.folder, kept=True)


def windows_of(store: str) -> list[str]:
    """Return the names of the windows of a store, sorted."""
    return names_in(folder_of(path_in(store, WINDOWS)))


def way_to(home: Home) -> str:
    """Return the end of a sentence about windows that are not there: which are meant, or how they begin."""
    names, store = windows_of(home.store), hide_keys(home.store)
    if home.name in names or not names:
        return f"; dtoss windows run POSITIONS --store {store} --name {home.name} commits the first batch"
    near = near_name(home.name, names)
    if near is not None:
        return f"; did you mean --name {near}?"
    more = ", ..." if len(names) > _NAMED else ""
    return f"; the store has {', '.join(names[:_NAMED])}{more}"


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
