"""What is old goes: events that no named reader waits for, and files that nothing needs any more.

Files that nothing needs: what batches that ended early have left, and what later ones have made needless.

Only what the newest commits name is kept, and what is young: a batch that is under way may be about to name it. All
writers write a file anew before they name it, so its age says when that was.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

from dtoss.commits.between import commits_from
from dtoss.commits.chain import COMMITS, log_of
from dtoss.commits.orphans import SPARED_DEBRIS_SECONDS, clear_unneeded
from dtoss.commits.process import is_passing
from dtoss.errors import StoreError
from dtoss.watch.events.cursor import Cursor
from dtoss.watch.events.event_compaction import fold_events
from dtoss.watch.events.folded_list import Contents, commit_contents, contents_of
from dtoss.watch.events.readers import readers
from dtoss.watch.events.watch_document import Document, dated, documents, head_of
from dtoss.watch.subscriptions.current import base_of, named_files
from dtoss.watch.watch_folder import BUILT, CHANGES, EVENTS, LAYOUTS, LOAD, QUARANTINED, READERS, STATE, Home


@dataclass(frozen=True)
class Retained:
    """What retention has removed."""

    events: int = 0  # Events that are gone
    files: int = 0  # Files of events and lists that went, quarantine among them
    state: int = 0  # Files of state that went
    subscriptions: int = 0  # Files of changes and of built subscriptions that went
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
    files, state = clear_batches(home, head, contents, spare_seconds)
    asked = clear_asked(home, head, needless_changes(home, head), spare_seconds)
    commits = _remove_commits(home, contents)
    return Retained(gone, files, state, asked, commits, held_by)


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


@dataclass(frozen=True)
class Debris:
    """What clearing has removed."""

    # Files of events and lists, of rows that were set aside, of loads, and what readers were writing when they ended
    files: int = 0
    state: int = 0  # Files of the state
    subscriptions: int = 0  # Files of changes, of built subscriptions, and of layouts


def clear_debris(home: Home, spare_seconds: float = SPARED_DEBRIS_SECONDS) -> Debris:
    """Remove files that no commit names, and those of the state and of subscriptions that the newest does not need.

    ``spare_seconds``: files stay so long after they were written.

    Events stay, however old. Safe while others write and read, as long as no batch takes longer than is spared. Cost
    O(files + commits since the last fold + changes).
    """
    head = head_of(home)
    contents = Contents() if head is None else contents_of(home, head.folded)
    unneeded = _unnamed_changes(home) | needless_changes(home, head)
    files, state = clear_batches(home, head, contents, spare_seconds)
    return Debris(files, state, clear_asked(home, head, unneeded, spare_seconds))


def clear_batches(home: Home, head: Document | None, contents: Contents, spare_seconds: float) -> tuple[int, int]:
    """Remove what no commit needs, and return how many files of events and quarantine, and of state, went.

    ``head``: the newest commit; None where there is none, and nothing is needed; ``spare_seconds``: files stay so long
    after they were written.
    """
    events, quarantine = contents.names, {file.name for file in contents.aside.files}
    state, load = set[str](), set[str]()
    # the list before goes with the next fold
    events |= {name for name in (contents.before, None if head is None else head.folded) if name is not None}
    if head is not None:
        first = contents.swept + 1
        if home.folder.files(QUARANTINED) or home.folder.files(LOAD):
            first = min(contents.begin, first)
        for document in documents(home, first, head.number):
            if document.number > contents.swept:
                events |= {file.name for file in document.events}
            if document.number >= contents.begin and document.number > contents.aside.last:
                quarantine |= {file.name for file in document.quarantine}
            if document.number >= contents.begin:
                load |= {file.name for file in document.load}
        load |= set(names_in(head.layout))
        state = {file.name for file in head.state}
        state |= set(names_in({name: value for name, value in head.commit.document.items() if name != "events"}))
    files = clear_unneeded(home.folder, EVENTS, events, spare_seconds)
    files += clear_unneeded(home.folder, QUARANTINED, quarantine, spare_seconds)
    files += clear_unneeded(home.folder, LOAD, load, spare_seconds)
    cursors = {name for name in home.folder.files(READERS) if not is_passing(name)}
    files += clear_unneeded(home.folder, READERS, cursors, spare_seconds)
    return files, clear_unneeded(home.folder, STATE, state, spare_seconds)


def clear_asked(home: Home, head: Document | None, changes: AbstractSet[str], spare_seconds: float) -> int:
    """Remove some files of changes, and built files and layouts that the newest commit does not name; return how many.

    ``head``: the newest commit; None where there is none; ``spare_seconds``: files stay so long after they were
    written.
    """
    layout = set() if head is None else set(names_in(head.layout))
    named = layout if head is None else layout | set(names_in(head.standing))
    kept = set(home.asked.files(CHANGES)) - changes
    return sum(
        clear_unneeded(home.asked, room, names, spare_seconds)
        for room, names in ((BUILT, named), (LAYOUTS, layout), (CHANGES, kept))
    )


def _unnamed_changes(home: Home) -> set[str]:
    """Return files of changes that no change names. They are listed first: what comes meanwhile is not among them."""
    there = {name for name in home.asked.files(CHANGES) if not is_passing(name)}
    last = home.changes.head()
    for commit in () if last is None else commits_from(home.changes, 1, last.number):
        there -= {file["name"] for file in named_files(commit.document)}
    return there


def needless_changes(home: Home, head: Document | None) -> set[str]:
    """Return the files of changes that no table of subscriptions is made from any more.

    ``head``: the newest commit; None where there is none, and all are needed.

    Needed is what came after the base of the change that it has adopted: its indexes hold what stands there. Cost
    O(changes).
    """
    if head is None or head.changes == 0:
        return set()
    adopted = home.changes.read(head.changes)
    base = base_of(adopted, home.changes.path(adopted.number))
    needed = {base.entry["name"]} if base.entry is not None else set()
    old: set[str] = set()
    last = home.changes.head()
    for commit in commits_from(home.changes, 1, adopted.number if last is None else last.number):
        try:
            names = {file["name"] for file in named_files(commit.document)}
        except (KeyError, TypeError):
            raise StoreError(f"{home.changes.path(commit.number)} is no change of subscriptions") from None
        if commit.number > base.number:
            needed |= names
        else:
            old |= names
    return old - needed


def names_in(said: Any) -> Iterator[str]:
    """Yield all texts in a value of JSON: those that a document may name files by."""
    if isinstance(said, str):
        yield said
    elif isinstance(said, dict):
        for value in said.values():
            yield from names_in(value)
    elif isinstance(said, list):
        for value in said:
            yield from names_in(value)
