"""Which snapshots stay when a store is cleared: the only place that says so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

from dtoss.commits.chain import Commit
from dtoss.snapshots.folder_names import name_in

KEPT_FOR_SECONDS = 600.0
"""On object stores a reader opens files late: what was current within this time stays."""


def kept(
    current: str, finished: Sequence[str], line: Iterable[str], keep: int | None, lately: frozenset[str]
) -> set[str]:
    """Return the snapshots that stay.

    The current one stays in any case, then those that rolling back leads to, then the latest of the others, ``keep`` in
    all; and beside these what was current lately.

    ``finished``: all that are finished, oldest first; ``keep``: at least 1; all stay when None.
    """
    if keep is None:
        return set(finished) | {current}
    staying: list[str] = [current]
    for name in line:
        if len(staying) >= keep:
            break
        if name not in staying:
            staying.append(name)
    others = [name for name in reversed(finished) if name not in staying]
    staying += others[: max(keep - len(staying), 0)]
    return {*staying, *lately}


def current_within(commits: Iterator[Commit], seconds: float, now: datetime | None = None) -> frozenset[str]:
    """Return the snapshots that were current less than so many seconds ago, and the current one.

    ``now``: this moment when None.
    """
    since = (now or datetime.now(UTC)) - timedelta(seconds=seconds)
    found = set()
    for commit in commits:
        if (name := snapshot_of(commit)) is not None:
            found.add(name)
        # what stands before it was current until then
        if commit.at <= since or seconds <= 0:
            break
    return frozenset(found)


def snapshot_of(commit: Commit) -> str | None:
    """Return the snapshot that a commit made current; None if it names none."""
    said = commit.document.get("snapshot")
    return name_in(said.encode(errors="replace")) if isinstance(said, str) else None
