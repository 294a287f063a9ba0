"""Which files of subscriptions the newest commit, and all after it, have no need of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dtoss.errors import StoreError
from dtoss.watch.asked.live import base_of, named_files
from dtoss.watch.home import Home
from dtoss.watch.told.document import Document, commits_from


def needless_changes(home: Home, head: Document | None) -> set[str]:
    """Return the files of changes that no table of subscriptions is made from any more.

    Parameters
    ----------
    home
        Of the watch.
    head
        The newest commit; None where there is none, and all are needed.

    Raises
    ------
    StoreError
        If a change is missing or damaged.
    OSError
        If one cannot be read.

    Notes
    -----
    Needed is what came after the base of the change that it has adopted, and after that of its large index. Cost
    O(changes).
    """
    if head is None or head.changes == 0:
        return set()
    adopted = home.changes.read(head.changes)
    base = base_of(adopted, home.changes.path(adopted.number))
    built = head.standing.get("base_number", base.number)
    least = min(base.number, built if isinstance(built, int) else 0)
    needed = {base.entry["name"]} if base.entry is not None else set()
    old: set[str] = set()
    last = home.changes.head()
    for commit in commits_from(home.changes, 1, adopted.number if last is None else last.number):
        try:
            names = {file["name"] for file in named_files(commit.document)}
        except (KeyError, TypeError):
            raise StoreError(f"{home.changes.path(commit.number)} is no change of subscriptions") from None
        if commit.number > least:
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
