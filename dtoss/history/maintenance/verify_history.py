"""What of a history is damaged: every file that a version needs is read, and every sum compared."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dtoss.commits.verify_report import line_of, verify_chain
from dtoss.errors import StoreError
from dtoss.history.history_commit import WORD, check_kept
from dtoss.history.read_blocks import read_blocks
from dtoss.history.row_blocks import ORDER_NAMES
from dtoss.history.segments import SEGMENTS
from dtoss.history.sums import row_hashes
from dtoss.history.versions import Home, Version


@dataclass(frozen=True)
class Damage:
    """Something that is not as it was written."""

    what: str  # In a line, which names the file
    file: int = -1  # The number of the file of rows in its version; -1 where it is something else
    unread: bool = False  # Whether it could not be read, and may be whole

    @classmethod
    def of(cls, what: str | Exception, file: int = -1) -> Damage:
        """Return what a line or an error says."""
        line, refused = line_of(what)
        return cls(line, file, refused)


def verify(home: Home, version: Version | None = None, *, rows: bool = True) -> Iterator[Damage]:
    """Yield what is damaged or missing of a version, and what could not be read.

    ``version``: the newest one when None; ``rows``: whether rows are decoded, too, and the sum of each block compared,
    and not the bytes of files alone.
    """
    try:
        yield from map(Damage.of, verify_chain(home.chain))
        yield from _version(home, version or home.version(), rows)
    except OSError as error:
        yield Damage.of(error)


def _version(home: Home, version: Version, rows: bool) -> Iterator[Damage]:
    whole = True
    for segment in version.segments():
        path = home.folder.path(SEGMENTS, segment.name)
        try:
            data = home.folder.read(SEGMENTS, segment.name)
        except OSError as error:
            yield Damage.of(error)
            whole = False
            continue
        if data is None:
            yield Damage(f"{path} is missing")
            whole = False
        elif hashlib.sha256(data).hexdigest() != segment.sha256:
            yield Damage(f"{path} is damaged: it does not have the bytes that it was written with")
            whole = False
    if not whole:
        return  # nothing says which files there are
    ledger = version.ledger()
    batches = int(ledger.column("sum").to_numpy().sum(dtype=np.uint64)), int(ledger.column("rows").to_numpy().sum())
    if batches != (version.sum, version.rows):
        yield Damage(f"version {version.number}: its batches have other rows than it says")
    try:
        check_kept(version.leaves, version.rows, version.sum, set(version.periods.number.tolist()))
    except StoreError as error:
        yield Damage(f"version {version.number}: {error}")
    for number in range(len(version.files.name)):
        yield from _file(home, version, number, rows)


def _file(home: Home, version: Version, number: int, rows: bool) -> Iterator[Damage]:
    name = version.files.name[number]
    path = home.folder.path(name)
    try:
        data = home.folder.read(*name.split("/"))
    except OSError as error:
        yield Damage.of(error, number)
        return
    if data is None:
        yield Damage(f"{path} is missing", number)
        return
    if hashlib.sha256(data).hexdigest() != version.files.sha256[number]:
        yield Damage(f"{path} is damaged: it does not have the bytes that it was written with", number)
        return
    if not rows:
        return
    total = 0
    for leaf in np.flatnonzero(version.leaves.file == number).tolist():
        blocks = version.blocks(leaf)
        try:
            found = read_blocks(home, name, blocks, version.schema)
        except (StoreError, OSError) as error:
            yield Damage.of(error, number)
            return
        starts = np.cumsum(blocks.rows) - blocks.rows
        sums = np.add.reduceat(row_hashes(found), starts) if len(found) else blocks.sum
        total += int(sums.sum(dtype=np.uint64))
        if len(found) != blocks.rows.sum() or not np.array_equal(sums, blocks.sum):
            yield Damage(f"{path} is damaged: its rows do not have the sums that they were written with", number)
            return
    if total % WORD != int(version.leaves.sum[version.leaves.file == number].sum(dtype=np.uint64)):
        order = ORDER_NAMES[int(version.files.order[number])]
        yield Damage(f"{path} is damaged: its leaves by {order} have other sums", number)
