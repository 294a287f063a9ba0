"""What is old goes: events that no named reader waits for, and files that nothing needs any more.

Only what the newest commits name is kept, and what is young: a batch that is under way may be about to name it. All
writers write a file anew before they name it, so its age says when that was.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dtoss.commits.chain import COMMITS, log_of
from dtoss.commits.orphans import NOTHING_REMOVED, SPARED_DEBRIS_SECONDS, Removal
from dtoss.watch.events.cursor import Cursor
from dtoss.watch.events.event_compaction import fold_events
from dtoss.watch.events.folded_list import Contents, commit_contents, contents_of
from dtoss.watch.events.readers import readers
from dtoss.watch.events.watch_document import dated, documents, head_of
from dtoss.watch.events.watch_tables import clear_watch
from dtoss.watch.watch_folder import Home


@dataclass(frozen=True)
class Retained:
    """What retention has removed."""

    events: int = 0  # Events that are gone
    removed: Removal = NOTHING_REMOVED  # Files that nothing needs any more
    commits: int = 0  # Commits that went, with their logs
    held_by: str | None = None  # The named reader for which older events stay; None where none holds any back


def retain(home: Home, older_than_us: int, now_us: int, spare_seconds: float = SPARED_DEBRIS_SECONDS) -> Retained:
    """Remove events of batches that began long ago, whole files of them, and what nothing needs any more.

    ``older_than_us``: events of batches that began so many microseconds before now may go; ``now_us``: what the time
    is, in microseconds since 1970; ``spare_seconds``: files that nothing names stay so long after they were written.

    First all hours that have ended are folded. A commit then says what is gone, and only then files are removed, so
    that a reader is told of it and sees no gap. Never removed: what is behind the cursor of a named reader, the files
    of the newest commit, and commits that are no line of a log yet.
    """
    if older_than_us < 0:
        raise ValueError(f"older_than_us is {older_than_us}: at least 0 is wanted")
    waiting = readers(home)
    fold_events(home, now_us)
    head = head_of(home)
    if head is None:
        return Retained()
    contents = contents_of(home, head.folded)
    fresh, held_by = _without_old(contents, home, waiting, now_us, older_than_us)
    gone = 0
    if fresh is not contents:
        gone = sum(file.file.rows for file in contents.files[: len(contents.files) - len(fresh.files)])
        if not commit_contents(home, replace(fresh, before=head.folded), head, now_us):
            return Retained(held_by=held_by)  # another one was faster
        head = head_of(home)
        if head is None:
            return Retained(held_by=held_by)
        contents = contents_of(home, head.folded)
    removed = clear_watch(home, spare_seconds)
    return Retained(gone, removed, _remove_commits(home, contents), held_by)


def _without_old(
    contents: Contents, home: Home, waiting: dict[str, Cursor], now_us: int, older_than_us: int
) -> tuple[Contents, str | None]:
    """Return the list without files whose events may all go, and who holds back the first that stays."""
    least = min(waiting.items(), key=lambda item: (item[1], item[0]), default=None)
    number, held_by = 0, None
    oldest_us = now_us - older_than_us
    for file in contents.files:
        if file.until_us > oldest_us:
            break
        if least is not None and least[1] < file.last:
            held_by = least[0]
            break
        number += 1
    begin = _first_kept(contents, home, number, now_us, older_than_us, least)
    if not number and begin == contents.begin:
        return contents, held_by
    gone = contents.files[number - 1].last if number else contents.gone
    return replace(contents, files=contents.files[number:], begin=begin, gone=gone), held_by


def _first_kept(
    contents: Contents, home: Home, number: int, now_us: int, older_than_us: int, least: tuple[str, Cursor] | None
) -> int:
    """Return the first commit that stays: of the first event that stays, or that is young; none that is not folded."""
    bound = contents.files[number].first.batch if number < len(contents.files) else contents.last + 1
    if least is not None:
        bound = min(bound, least[1].batch + 1)
    begin = contents.begin
    # a folded list ends with an hour: nothing of a batch is in two lists
    for document, wall_us in dated(documents(home, contents.begin, contents.last), now_us):
        if wall_us > now_us - older_than_us or document.number >= min(bound, contents.last + 1):
            break
        begin = document.number + 1
    return max(begin, contents.begin)


def _remove_commits(home: Home, contents: Contents) -> int:
    """Remove logs of commits before the first that is kept."""
    chain = home.batches
    gone = 0
    for first, last in chain.listed()[1]:
        if last < min(contents.begin, contents.swept + 1):
            chain.folder.remove(COMMITS, log_of(first, last))
            gone += last - first + 1
    return gone
