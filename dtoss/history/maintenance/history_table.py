"""What a history is as a table: the files of its versions, what these hold, and which versions and files may go."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dtoss.commits.chain import Commit
from dtoss.commits.file_entry import ANY_BYTES, FileEntry
from dtoss.commits.orphans import Removal
from dtoss.commits.table import Check, NamedFile, Table, oldest_kept, tidy, verify
from dtoss.commits.verify_report import Look, VerifyReport, noting
from dtoss.errors import StoreError
from dtoss.history.history_commit import WORD, Change, check_kept, commit
from dtoss.history.read_blocks import read_blocks
from dtoss.history.row_blocks import ORDER_NAMES
from dtoss.history.segments import SEGMENTS
from dtoss.history.sums import row_hashes
from dtoss.history.versions import Home, Version, files_of

OLD_VERSION_SECONDS = 600.0
"""For so long a version can be read after the next one came."""
GRACE_SECONDS = 3600.0
"""Files that no version names are a writer's until they were not touched for so long."""


def table_of(home: Home, version: Version | None = None, *, rows: bool = True) -> Table:
    """Return the table of a history. Needed are the files of its versions; looked at are those of one.

    ``version``: that one; the newest when None; ``rows``: whether its rows are looked at, or bytes alone.
    """
    walk = partial(_files_of, home, version, rows)
    # the table of a version's files goes last: by it the next one knows what else is to go
    return Table(f"history {home.shown}", home.chain, (*ORDER_NAMES, SEGMENTS), walk, said=_facts_of, last="files-")


def verify_history(home: Home, version: Version | None = None, *, rows: bool = True) -> VerifyReport:
    """Return what is damaged or missing of a version, and what could not be read.

    ``version``: the newest one when None; ``rows``: whether rows are decoded, too, and the sum of each block compared,
    and not the bytes of files alone.
    """
    look = Look()
    with noting(look.found):
        if not any(home.chain.listed()):
            home.version()  # which says that there is none
        verify([table_of(home, version, rows=rows)], look)
    return look.found


def _facts_of(one: Commit) -> dict[str, Any]:
    said = one.document
    return {"what": said["what"], "rows": said["rows"], "detail": said["detail"]}


def _files_of(
    home: Home, version: Version | None, rows: bool, look: Look | None, numbers: range
) -> Iterator[NamedFile]:
    head = home.version() if version is None else version
    if look is None:
        for number in range(int(head.document.get("oldest", 1)), head.number + 1):
            for room, _, name in (file.partition("/") for file in files_of(home.version(number))):
                yield NamedFile(room, FileEntry(name, 0, ANY_BYTES, ""))
        return
    look.found.held = {"version": head.number, "rows": head.rows}
    for segment in head.segments():
        yield NamedFile(SEGMENTS, segment.file)
    if look.found.broken:
        return  # nothing says which files there are
    ledger = head.ledger()
    batches = int(ledger.column("sum").to_numpy().sum(dtype=np.uint64)), int(ledger.column("rows").to_numpy().sum())
    if batches != (head.sum, head.rows):
        look.wrong(f"version {head.number}: its batches have other rows than it says")
    try:
        check_kept(head.leaves, head.rows, head.sum, set(head.periods.number.tolist()))
    except StoreError as error:
        look.wrong(f"version {head.number}: {error}")
    files = head.files
    for number, file in enumerate(files.name):
        room, _, name = file.partition("/")
        entry = FileEntry(name, int(files.rows[number]), int(files.bytes[number]), files.sha256[number])
        yield NamedFile(room, entry, check=_rows_of(home, head, number) if rows else None)


def _rows_of(home: Home, version: Version, number: int) -> Check:
    """Return what compares the rows of a file with the sums of its blocks and leaves."""

    def check(look: Look, path: str, data: bytes, file: FileEntry) -> None:
        total, leaves = 0, version.leaves
        mine = leaves.file == number
        for leaf in np.flatnonzero(mine).tolist():
            blocks = version.blocks(leaf)
            try:
                found = read_blocks(home, version.files.name[number], blocks, version.schema)
            except (StoreError, OSError) as error:
                look.wrong(error)
                return
            starts = np.cumsum(blocks.rows) - blocks.rows
            sums = np.add.reduceat(row_hashes(found), starts) if len(found) else blocks.sum
            total += int(sums.sum(dtype=np.uint64))
            if len(found) != blocks.rows.sum() or not np.array_equal(sums, blocks.sum):
                look.wrong(f"{path} is damaged: its rows do not have the sums that they were written with")
                return
        if total % WORD != int(leaves.sum[mine].sum(dtype=np.uint64)):
            order = ORDER_NAMES[int(version.files.order[number])]
            look.wrong(f"{path} is damaged: its leaves by {order} have other sums")

    return check


@dataclass(frozen=True)
class Cleared:
    """What clearing did."""

    version: Version  # Of the history now
    ended: int  # Versions that can be asked no more
    removed: Removal


def clear(
    home: Home,
    *,
    keep: int = 1,
    keep_for: float = OLD_VERSION_SECONDS,
    now: bool = False,
    grace: float = GRACE_SECONDS,
) -> Cleared:
    """End old versions and remove the files that no version needs; never those of a writer that is at work.

    ``keep_for``: and those that were the newest one less than so many seconds ago; ``grace``: seconds for which a file
    that was never of a version stays: a writer may be about to commit it. 0 where nobody writes.

    Whoever has an older version open is told to open the history again. Cost: the tables of the versions that stay and
    of those that end, and a listing.
    """
    if keep < 1:
        raise ValueError(f"keep is {keep!r}: a whole number of at least 1 is wanted")
    head = home.version()
    was = int(head.document.get("oldest", 1))
    oldest = head.number if now else oldest_kept(home.chain, head.number, was, keep, keep_for)
    ending = list(_ending(home, was, oldest))
    began = time.monotonic()
    if oldest > was:
        head = commit(home, Change("gc", oldest=oldest, detail={"ended": oldest - was}), head)
    before = set().union(*map(files_of, ending))

    def spare(path: str) -> float:
        wait = min(0.0 if now else keep_for, grace) if path in before else grace
        # whoever commits after this version has touched what it needs since
        return max(wait, time.monotonic() - began)

    return Cleared(head, oldest - was, tidy(table_of(home), spare))


def _ending(home: Home, was: int, oldest: int) -> Iterator[Version]:
    """Yield the versions that end, and those that had ended when somebody was killed who cleared."""
    for number in range(oldest - 1, 0, -1):
        version = Version.of(home.folder, home.chain.read(number))
        # tables of versions go last
        if home.folder.is_file(SEGMENTS, version.segments()[0].file.name):
            yield version
        elif number < was:
            return
