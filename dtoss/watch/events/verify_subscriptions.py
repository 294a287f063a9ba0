"""Whether the subscriptions of a watch are whole: every change, and the indexes that the newest batch has."""

from __future__ import annotations

from typing import Any

from dtoss.commits.file_entry import FileEntry
from dtoss.commits.verify_chain import verify_chain
from dtoss.commits.verify_report import Look
from dtoss.errors import StoreError
from dtoss.watch.events.watch_document import Document
from dtoss.watch.events.watch_orphans import needless_changes
from dtoss.watch.subscriptions.current import named_files
from dtoss.watch.watch_folder import BUILT, CHANGES, LAYOUTS, Home


def verify_asked(home: Home, head: Document | None, look: Look) -> None:
    """Look at the subscriptions of a watch.

    ``head``: the newest batch; None before the first, or where it is damaged.
    """
    chain = home.changes
    files, logs = chain.listed()
    last = max([*files, *(last for _, last in logs)], default=0)
    look.found.held["changes"] = last
    for what in verify_chain(chain):
        look.wrong(what)
    if head is not None and head.changes > last:
        path = home.batches.path(head.number)
        look.wrong(f"{path} is damaged: it has adopted change {head.changes}, the highest is {last}")
    needless: set[str] = set()
    try:
        needless = needless_changes(home, head)
    except StoreError as error:
        look.wrong(error)
    for number in range(1, last + 1):
        try:
            listed = [FileEntry.of(file) for file in named_files(chain.read(number).document)]
        except (StoreError, OSError) as error:
            look.wrong(error)
            continue
        except (KeyError, TypeError, ValueError) as error:
            look.wrong(f"{chain.path(number)} is damaged: it is no change of subscriptions: {error!s:.100}")
            continue
        for file in listed:
            # of bases the newest is needed: who wants an older one reads the changes instead
            stays = file is listed[0] or number == last
            data = look.bytes_of(home.asked, CHANGES, file, needed=stays and file.name not in needless)
            if data is not None:
                look.parquet(home.asked.path(CHANGES, file.name), data, file.rows)


def verify_built(home: Home, batch: Document, look: Look, *, needed: bool) -> None:
    """Look at the indexes of subscriptions that a batch was held against, and at how its rows were spread."""
    for part in ("base", "delta"):
        _look_at(home, batch, look, BUILT, batch.standing.get(part), needed=needed)
    layout = batch.layout
    for part in ("layout", "base", "delta", "memory", "words"):
        _look_at(home, batch, look, LAYOUTS, layout.get(part), needed=needed)
    indexes = layout.get("indexes")
    for said in indexes.values() if isinstance(indexes, dict) else ():
        _look_at(home, batch, look, BUILT, said, needed=needed)


def _look_at(home: Home, batch: Document, look: Look, room: str, said: Any, *, needed: bool) -> None:
    """Look at an Arrow file that a batch names; at nothing where it names none."""
    if said is None:
        return
    try:
        file = FileEntry.of(said)
    except ValueError as error:
        look.wrong(f"{home.batches.path(batch.number)} is damaged: {error}")
        return
    data = look.bytes_of(home.asked, room, file, needed=needed)
    if data is not None:
        look.arrow(home.asked.path(room, file.name), data, None)
