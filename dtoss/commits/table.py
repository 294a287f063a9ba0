"""A table: a chain of commits, and folders of files that these name. Whoever has one describes it once.

The description says which files each commit names, which of these have to be there, and how a file is looked at. It is
enough to find orphans, to verify every byte, and to say what was done and when. What rows mean is the user's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

from dtoss.commits.chain import Chain, Commit, Conflict, silent
from dtoss.commits.file_entry import FileEntry, merged_from
from dtoss.commits.ledger_runs import LEDGERS, decode_whole
from dtoss.commits.log_compaction import (
    NOTHING_REMOVED,
    SPARED_DEBRIS_SECONDS,
    Removal,
    clear_passing,
    clear_unneeded,
    fold,
)
from dtoss.commits.verify_report import Look, VerifyReport, noting, verify_chain
from dtoss.errors import StoreError

if TYPE_CHECKING:
    import pyarrow as pa

COMMIT_TRIES = 20
"""How often a change is made anew where others commit meanwhile."""


Check = Callable[[Look, str, bytes, FileEntry], object]
"""Looks at the bytes of a file, which are as they are listed: of (look, path, bytes, file)."""


Join = Callable[[list["pa.Table"]], "pa.Table"]
"""Makes the rows of one file of those of several."""


@dataclass(frozen=True)
class NamedFile:
    """A file that a commit names."""

    room: str  # Its folder in that of the table
    file: FileEntry
    needed: bool = True  # Whether it has to be there
    spared: bool = False  # Whether it stays although it need not be there, for whoever has just listed it
    check: Check | None = None
    mapped: bool = False  # Whether it is mapped where that can be, and not read: its check may keep what it is given


Walk = Callable[[Look | None, range], Iterator[NamedFile]]
"""Yields the files that commits name, of their numbers. Without a look: those that stay, and what cannot be read is an
error. With one: all files, and the look is told of what is wrong; each is looked at before the next is yielded."""


@dataclass(frozen=True)
class Table:
    """What a table is."""

    name: str  # In messages: its kind and its name
    chain: Chain
    rooms: tuple[str, ...]  # Folders whose files commits name, cleared in this order
    named: Walk
    passing: tuple[str, ...] = ()  # Folders of which files go that were never finished, and no others
    begin: Callable[[], int] = lambda: 1  # The first commit that has to be there
    counted: str = "commits"  # What its commits are called where they are counted
    # What a commit did: "what", in a word or two, and facts of it
    said: Callable[[Commit], dict[str, Any]] = lambda commit: {"what": str(commit.document.get("kind", ""))}
    last: str = ""  # How names of files begin that go last of their folder
    remedy: str = ""  # The end of a sentence about a file that is damaged: what to do


def files_of_ledger(runs: Iterable[FileEntry], *, newest: bool) -> Iterator[NamedFile]:
    """Yield the runs of the ledger of a commit that stays: the newest one's are needed."""
    for file in runs:
        yield NamedFile(LEDGERS, file, newest, spared=True, check=_check_run)


def _check_run(look: Look, path: str, data: bytes, file: FileEntry) -> None:
    import pyarrow as pa

    try:
        held = len(decode_whole(pa.py_buffer(data), path, "restore it from a copy").files)
        if held != file.rows:
            look.wrong(f"{path} is damaged: it has {held:,} files, its commit says {file.rows:,}")
    except StoreError as error:
        look.wrong(error)


def orphans_of(table: Table, *, erase: bool = False) -> dict[str, dict[str, int]]:
    """Return the files of a table that no commit needs, those under passing names among them: bytes by name, by room.

    ``erase``: whether those are among them that are spared for whoever has just listed them. Cost: a listing, and the
    commits that may name files that stay.
    """
    # listed first: what comes meanwhile is not among them
    there = {room: table.chain.folder.sizes(*room.split("/")) for room in table.rooms}
    head = table.chain.head()
    for one in table.named(None, range(1, 1 if head is None else head.number + 1)):
        if one.needed or (one.spared and not erase):
            there.get(one.room, {}).pop(one.file.name, None)
    return there


def remove_orphans(
    table: Table, spare: float | Callable[[str], float] = SPARED_DEBRIS_SECONDS, *, erase: bool = False
) -> Removal:
    """Remove the files of a table that no commit needs, and return what went.

    ``spare``: seconds for which they stay after they were written, or what says that of a path in the table; ``erase``:
    as of :func:`orphans_of`.

    Safe while others write and read, as long as no batch takes longer than is spared.
    """
    gone = NOTHING_REMOVED
    for room, files in orphans_of(table, erase=erase).items():
        ordered = sorted(files.items(), key=lambda one: (bool(table.last) and one[0].startswith(table.last), one))
        gone += clear_unneeded(table.chain.folder, room, frozenset(), spare, dict(ordered))
    clear_passing(table.chain, *table.passing)
    return gone


def tidy(
    table: Table, spare: float | Callable[[str], float] = SPARED_DEBRIS_SECONDS, warn: Callable[[str], None] = silent
) -> Removal:
    """Remove the orphans of a table (:func:`remove_orphans`), fold its old commits into logs, and return what went."""
    gone = remove_orphans(table, spare)
    fold(table.chain, warn=warn)
    return gone


def verify(tables: Iterable[Table], look: Look | None = None) -> VerifyReport:
    """Return what is wrong with tables, and what could not be read; nothing of what is found is an error.

    Looked at are the chains of commits, with each parent's hash; size and SHA-256 of each file that a commit names,
    once; and what the description of the table looks at. A file that is not needed may be missing, and is compared
    where it is there. Cost: everything is read once. Memory: the largest file.
    """
    look = look or Look()
    with noting(look.found):
        for table in tables:
            _verify(table, look)
    return look.found


def _verify(table: Table, look: Look) -> None:
    files, logs = table.chain.listed()
    last = max([*files, *(end for _, end in logs)], default=0)
    first = 1
    try:
        begin = table.begin() if last else 1
        if begin > 1:  # logs before it may be gone, all together
            there = min([*files, *(first for first, _ in logs)])
            first = there if there <= begin else 1
    except StoreError as error:
        look.wrong(error)
    look.found.count(table.counted, last - first + 1 if last else 0)
    for what in verify_chain(table.chain, first):
        look.wrong(what)
    folder = table.chain.folder
    try:
        for one in table.named(look, range(first, last + 1)):
            lines = len(look.found.damaged) + len(look.found.unread)
            how = {"needed": one.needed, "mapped": one.mapped}
            data = look.bytes_of(folder, one.room, one.file, remedy=table.remedy, **how)
            if data is not None and one.check is not None:
                one.check(look, folder.path(one.room, one.file.name), data, one.file)
            if len(look.found.damaged) + len(look.found.unread) > lines:
                look.found.broken.add(f"{one.room}/{one.file.name}")
    except StoreError as error:  # of what could not be read nothing says what it needs
        look.wrong(error)


def log_of(table: Table, count: int, warn: Callable[[str], None] = silent) -> list[dict[str, Any]]:
    """Return the last commits of a table, the newest first: ``table``, ``number``, ``time``, ``writer`` and facts."""
    found = []
    for one in islice(table.chain.newest_first(warn), count):
        facts = {"table": table.name, "number": one.number, "time": one.time, "writer": one.writer}
        try:
            found.append(facts | table.said(one))
        except (KeyError, TypeError, AttributeError):  # whole, and not a commit of this table: verify says so
            found.append(facts | {"what": "unknown"})
    return found


def compact(
    files: Sequence[FileEntry],
    rows: pa.Table,
    read: Callable[[FileEntry], pa.Table],
    write: Callable[[pa.Table], FileEntry],
    join: Join | None = None,
    most: int | None = None,
) -> tuple[FileEntry, ...]:
    """Return the files that a commit names, oldest first, with rows that come.

    They are written with the rows of the newest files that are not much larger, so that files stay few and a row is
    written anew only so often as what came doubles. ``most``: rows from which on a file is not written anew.
    """
    if join is None:
        from pyarrow import concat_tables

        join = concat_tables
    stay = merged_from([file.rows for file in files], len(rows))
    while most is not None and stay < len(files) and files[stay].rows >= most:
        stay += 1
    if stay < len(files):
        rows = join([*map(read, files[stay:]), rows])
    return (*files[:stay], write(rows))


def oldest_kept(chain: Chain, head: int, was: int, keep: int, keep_for: float) -> int:
    """Return the oldest commit that stays of those from ``was`` on: the last ``keep``, and who was the head lately.

    ``keep_for``: and those that were the head less than so many seconds ago.
    """
    until = datetime.now(UTC) - timedelta(seconds=keep_for)
    oldest = head
    # a commit was the head until the next was made
    while oldest > was and (head - oldest + 1 < keep or chain.read(oldest).at > until):
        oldest -= 1
    return oldest


def commit_change(chain: Chain, change: Callable[[Commit | None], dict[str, Any] | None]) -> Commit | None:
    """Commit what ``change`` makes of the head, made anew where another one was faster; None where it makes nothing."""
    for _ in range(COMMIT_TRIES):
        head = chain.head()
        document = change(head)
        if document is None:
            return None
        with suppress(Conflict):
            return chain.append(document, head)
    where = chain.folder.path()
    raise Conflict(f"{where} was changed by others {COMMIT_TRIES} times meanwhile: nothing was changed, start again")
