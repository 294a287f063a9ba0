"""Files that nothing needs: what batches that ended early have left, and what later ones have made needless.

Only what the newest commits name is kept, and what is young: a batch that is under way may be about to name it. All
writers write a file anew before they name it, so its age says when that was.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from dtoss.commits.between import commits_from
from dtoss.commits.orphans import SPARED_DEBRIS_SECONDS, clear_unneeded
from dtoss.commits.process import is_passing
from dtoss.errors import StoreError
from dtoss.watch.events.folded_list import Contents, contents_of
from dtoss.watch.events.watch_document import Document, documents, head_of
from dtoss.watch.subscriptions.current import base_of, named_files
from dtoss.watch.watch_folder import BUILT, CHANGES, EVENTS, LAYOUTS, LOAD, QUARANTINED, READERS, STATE, Home


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
