"""A history as a table: the files of its versions, which of these may go, and which are made again where damaged."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dtoss.commits.chain import Commit
from dtoss.commits.file_entry import ANY_BYTES, FileEntry
from dtoss.commits.log_compaction import Removal
from dtoss.commits.table import Check, NamedFile, Table, oldest_kept, tidy, verify
from dtoss.commits.verify_report import Look, VerifyReport, noting
from dtoss.errors import StoreError, Unreadable
from dtoss.history.data_file import read_blocks
from dtoss.history.history_commit import WORD, Change, check_kept, commit, undone
from dtoss.history.layouts.compaction import keys_of, sizes_of
from dtoss.history.layouts.write_layout import MAKERS, source_of
from dtoss.history.row_blocks import BY_TIME, ORDER_NAMES
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


@dataclass(frozen=True)
class Restored:
    """What restoring did."""

    version: Version  # Of the history now
    made: tuple[tuple[str, int], ...]  # Orders of periods that were made again, as (order, period)
    lost: tuple[str, ...]  # What cannot be restored, a line each


def restore(home: Home, say: Callable[[str], None] | None = None) -> Restored:
    """Make again what is damaged, where another order has the same rows, and return what was done.

    The rows and sums of what is made are compared with those of the period, as in every commit. Cost: all files are
    read once.
    """
    version = home.version()
    found = verify_history(home, version)
    if found.unread:
        raise Unreadable(f"{found.unread[0]}; nothing is made again before all can be read")
    files = [number for number, name in enumerate(version.files.name) if name in found.broken]
    leaves = version.leaves
    broken = {
        (int(leaves.period[leaf]), int(leaves.order[leaf])) for leaf in np.flatnonzero(np.isin(leaves.file, files))
    }
    made: list[tuple[str, int]] = []
    lost: list[str] = []
    # the truth first: derived orders are then made of it
    for period, order in sorted(broken, key=lambda one: (one[1] != BY_TIME, one)):
        has = int(version.periods.orders[version.periods.number == period][0])
        whole = [code for code in range(len(ORDER_NAMES)) if has >> code & 1 and (period, code) not in broken]
        if not whole:
            lost.append(f"the order by {ORDER_NAMES[order]} of period {period}: no other order of it is whole")
            continue
        version = _made_again(home, version, period, order, whole[0])
        broken = broken - {(period, order)}
        made.append((ORDER_NAMES[order], period))
        if say is not None:
            say(f"the order by {ORDER_NAMES[order]} of period {period} was made again from that by "
                f"{ORDER_NAMES[whole[0]]}")  # fmt: skip
    return Restored(version, tuple(made), tuple(lost))


def _made_again(home: Home, version: Version, period: int, order: int, source: int) -> Version:
    old = np.flatnonzero((version.leaves.order == order) & (version.leaves.period == period))
    for number in np.unique(version.leaves.file[old]):
        # a file is named by what it holds: what is made may have this name
        name = version.files.name[number]
        if _is_damaged(home, name, version.files.sha256[number]):
            home.folder.remove(*name.split("/"))
    rows = source_of(home, version, np.array([period], np.int32), source)
    try:
        with undone(home, version):
            change = Change(
                "restore",
                tuple((file, period) for file in MAKERS[order](rows, sizes_of(version, {}))),
                gone=keys_of(version, old),
                detail={"period": period, "order": ORDER_NAMES[order], "from": ORDER_NAMES[source]},
            )
            return commit(home, change, version)
    except StoreError as error:
        raise StoreError(f"the order by {ORDER_NAMES[order]} of period {period} is not restored: {error}") from None


def _is_damaged(home: Home, name: str, digest: str) -> bool:
    import hashlib

    data = home.folder.read(*name.split("/"))
    return data is None or hashlib.sha256(data).hexdigest() != digest
