"""What a folder of years does without: old commits are folded into logs, and files that nothing names go.

A log holds a block of commits, a line each, exactly the bytes of their files. Its name follows from any number in it,
so that a writer of long ago, to whom a number looks free, finds it there, and has lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from dtoss.commits.chain import COMMITS, Chain, decode, file_of, log_of, silent
from dtoss.commits.folder import Folder
from dtoss.commits.process import is_left, is_passing
from dtoss.errors import StoreError

SPARED_DEBRIS_SECONDS = 3600.0
"""A file that nothing names stays so long after it was written: a batch that is under way may be about to name it."""


@dataclass(frozen=True)
class Removal:
    """What was removed."""

    files: int = 0
    bytes: int = 0

    def __add__(self, other: Removal) -> Removal:
        return Removal(self.files + other.files, self.bytes + other.bytes)

    def __str__(self) -> str:
        files = "1 file" if self.files == 1 else f"{self.files:,} files"
        return f"{files} of {self.bytes:,} bytes"


NOTHING_REMOVED = Removal()


def clear_unneeded(
    folder: Folder,
    room: str,
    needed: AbstractSet[str],
    spare: float | Callable[[str], float],
    there: Mapping[str, int] | None = None,
) -> Removal:
    """Remove the files of a room that are not needed, and return what went.

    ``spare``: seconds for which others stay after they were written, or what says that of a path; what a process that
    is gone was writing goes at once; ``there``: names and bytes of files, listed before it was found out what is
    needed, in the order in which they go; listed now when None.
    """
    gone = NOTHING_REMOVED
    parts = room.split("/")
    for name, size in (folder.sizes(*parts) if there is None else there).items():
        if name in needed or (is_passing(name) and not is_left(name)):
            continue
        least = spare(f"{room}/{name}") if callable(spare) else spare
        # what a process that is gone was writing is nobody's
        if is_left(name) or folder.idle(*parts, name) >= least:
            folder.remove(*parts, name)
            gone += Removal(1, size)
    return gone


KEPT = 1000
"""So many of the last commits are always files of their own."""
KEPT_SECONDS = 24 * 3600.0
"""And all that are younger."""


def fold(
    chain: Chain,
    keep: int = KEPT,
    keep_for: float = KEPT_SECONDS,
    warn: Callable[[str], None] = silent,
    now: datetime | None = None,
) -> int:
    """Fold whole blocks of commits that are older than the last ``keep`` and than ``keep_for`` seconds.

    Returns how many files went. The hint is moved first, then a log is written, then files go: whatever ends in
    between, every commit stands in a file or a log, and the next call goes on. A block with a damaged commit stays.
    Cost: one listing, and O(commits that are folded).
    """
    head = chain.head(warn)
    if head is None:
        return 0
    chain.move_hint(head.number)
    oldest = (now or datetime.now(UTC)) - timedelta(seconds=keep_for)
    files, logs = chain.listed()
    folded = {first for first, _ in logs}
    there = set(files)
    gone = 0
    for first in sorted({(number - 1) // chain.block * chain.block + 1 for number in files}):
        last = first + chain.block - 1
        if first not in folded:
            if last > head.number - keep:
                break
            try:
                if chain.read(last).at > oldest:
                    break
                data = _block(chain, first, last)
            except StoreError as error:
                # another process may just have folded them
                if not chain.folder.is_file(COMMITS, log_of(first, last)):
                    warn(f"commits {first} to {last} are not folded: {error}")
                continue
            chain.folder.create(data, COMMITS, log_of(first, last))
            if chain.folder.read(COMMITS, log_of(first, last)) != data:
                warn(f"commits {first} to {last} are not folded: their log is another one")
                continue
        elif not _is_whole(chain, first, last):
            warn(f"{chain.folder.path(COMMITS, log_of(first, last))} is damaged: the files of its commits stay")
            continue
        # also what a fold that was cut short has left, or a writer that had lost
        for number in range(first, last + 1):
            if number in there:
                chain.folder.remove(COMMITS, file_of(number))
                gone += 1
    return gone


def _is_whole(chain: Chain, first: int, last: int) -> bool:
    number = 0
    try:
        for number, line in enumerate((chain.folder.read(COMMITS, log_of(first, last)) or b"").splitlines(True), first):
            decode(line, number, "")
    except StoreError:
        return False
    return number == last


def clear_passing(chain: Chain, *rooms: str) -> None:
    """Remove files under passing names that processes left which are gone, of a chain and of other rooms beside it."""
    for folder in ((), (COMMITS,), *((room,) for room in rooms)):
        for name in chain.folder.files(*folder):
            if is_left(name):
                chain.folder.remove(*folder, name)


def _block(chain: Chain, first: int, last: int) -> bytes:
    lines = []
    for number in range(first, last + 1):
        data = chain.folder.read(COMMITS, file_of(number))
        if data is None:
            raise StoreError(f"{chain.path(number)} is missing")
        decode(data, number, chain.path(number))
        lines.append(data)
    return b"".join(lines)
