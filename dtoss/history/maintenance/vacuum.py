"""Clearing: old versions end, and files that no version needs go; never those of a writer that is at work."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from dtoss.commits.log_compaction import clear_passing, fold
from dtoss.history.history_commit import Change, commit
from dtoss.history.row_blocks import ORDER_NAMES
from dtoss.history.segments import SEGMENTS
from dtoss.history.versions import Home, Version, files_of

OLD_VERSION_SECONDS = 600.0
"""For so long a version can be read after the next one came."""
GRACE_SECONDS = 3600.0
"""Files that no version names are a writer's until they were not touched for so long."""


@dataclass(frozen=True)
class Cleared:
    """What clearing did."""

    version: Version  # Of the history now
    ended: int  # Versions that can be asked no more
    files: int
    bytes: int


def clear(
    home: Home,
    *,
    keep: int = 1,
    keep_for: float = OLD_VERSION_SECONDS,
    now: bool = False,
    grace: float = GRACE_SECONDS,
) -> Cleared:
    """End old versions and remove the files that no version needs.

    ``keep_for``: and those that were the newest one less than so many seconds ago; ``grace``: seconds for which a file
    that was never of a version stays: a writer may be about to commit it. 0 where nobody writes.

    Whoever has an older version open is told to open the history again. Cost: the tables of the versions that stay and
    of those that end, and a listing.
    """
    if keep < 1:
        raise ValueError(f"keep is {keep!r}: a whole number of at least 1 is wanted")
    head = home.version()
    was = int(head.document.get("oldest", 1))
    oldest = head.number if now else _oldest(home, head, was, keep, keep_for)
    ending = list(_ending(home, was, oldest))
    began = time.monotonic()
    if oldest > was:
        head = commit(home, Change("gc", oldest=oldest, detail={"ended": oldest - was}), head)
    needed: set[str] = set()
    for number in range(oldest, head.number + 1):
        needed |= files_of(home.version(number))
    before: set[str] = set()
    for version in ending:
        before |= files_of(version)
    gone, size = 0, 0
    for room in (*ORDER_NAMES, SEGMENTS):
        # the table of a version's files goes last: by it the next one knows what else is to go
        for name, count in sorted(home.folder.sizes(room).items(), key=lambda one: one[0].startswith("files-")):
            path = f"{room}/{name}"
            known = path in before
            wait = min(0.0 if now else keep_for, grace) if known else grace
            # whoever commits after this version has touched what it needs since
            if path not in needed and home.folder.idle(room, name) >= max(wait, time.monotonic() - began):
                home.folder.remove(room, name)
                gone, size = gone + 1, size + count
    clear_passing(home.chain)
    fold(home.chain)
    return Cleared(head, oldest - was, gone, size)


def _oldest(home: Home, head: Version, was: int, keep: int, keep_for: float) -> int:
    """Return the number of the oldest version that stays."""
    until = datetime.now(UTC) - timedelta(seconds=keep_for)
    oldest = head.number
    # a version was the newest one until the next was made
    while oldest > was and (head.number - oldest + 1 < keep or home.chain.read(oldest).at > until):
        oldest -= 1
    return oldest


def _ending(home: Home, was: int, oldest: int) -> Iterator[Version]:
    """Yield the versions that end, and those that had ended when somebody was killed who cleared."""
    for number in range(oldest - 1, 0, -1):
        version = Version.of(home.folder, home.chain.read(number))
        # tables of versions go last
        if home.folder.is_file(SEGMENTS, version.segments()[0].name):
            yield version
        elif number < was:
            return
