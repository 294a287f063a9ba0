"""Removing what is no snapshot, and snapshots that go: nothing that may still be written is touched.

The folder of a snapshot in the making: it has a mark from the first, and in the end only what is listed.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress

from dtoss.commits.chain import Chain
from dtoss.commits.folder import Folder
from dtoss.commits.lease import Holder, leftovers
from dtoss.commits.log_compaction import clear_passing
from dtoss.commits.process import STALE_SECONDS, is_passing
from dtoss.errors import StoreError, reason
from dtoss.snapshots.folder_names import FRESH, REMOVED, fresh_name, is_left_over, removed_name

MARK = "WRITING"
"""The file that says who is making a snapshot; gone once it has become current."""


def is_debris(folder: Folder, snapshot: str) -> bool:
    """Return whether nobody goes on with a snapshot that is not finished.

    Of another machine's that is so after a day.
    """
    data = folder.read("snapshots", snapshot, MARK)
    if data is None:
        return not folder.is_file("snapshots", snapshot, "manifest.json")
    holder = Holder.read(data)
    if holder is None:
        return True
    if holder.here:
        return not holder.runs
    return time.time() - holder.began > STALE_SECONDS


def why_unfinished(folder: Folder, name: str) -> str:
    """Return why a folder is there that is no finished snapshot."""
    if name.startswith(REMOVED):
        return "could not be removed, or is just going"
    if name.startswith(FRESH) and not is_left_over(name):
        return "just being made"
    try:
        if name.startswith(FRESH) or is_debris(folder, name):
            return "debris, which the next rebuild removes"
        return f"made by {Holder.read(folder.read('snapshots', name, MARK) or b'')}; kept, for that may still run"
    except OSError as error:
        return f"it cannot be read: {reason(error)}"


def remove_snapshot(folder: Folder, name: str, points_to: Callable[[], str | None]) -> bool:
    """Remove a snapshot so that it is none at once, and its files after that; return whether it went.

    ``points_to``: tells the current snapshot. It is asked when this one is none any more, and before a file of it is
    gone: one that somebody has rolled back to meanwhile, without a lease, is put back. Whoever rolls back looks for it
    after the commit. So either this one sees the commit, or that one sees that the snapshot has gone.
    """
    manifest = ("snapshots", name, "manifest.json")
    if not folder.renames:
        data = folder.read(*manifest)
        folder.remove(*manifest)
        if data is not None and points_to() == name:
            folder.replace(data, *manifest)
            return False
        folder.remove_folder("snapshots", name)
        return True
    aside = removed_name(name)
    try:
        folder.move(("snapshots", name), ("snapshots", aside))
    except FileNotFoundError:
        return False
    if points_to() == name:
        folder.move(("snapshots", aside), ("snapshots", name))
        return False
    folder.remove_folder("snapshots", aside)
    return True


def clear_debris(
    folder: Folder,
    current: str | None,
    finished: Collection[str],
    points_to: Callable[[], str | None],
    warn: Callable[[str], None],
) -> list[str]:
    """Remove unfinished snapshots that nobody writes, and files under passing names; return the snapshots.

    ``points_to`` tells what is current by the time when one goes.
    """
    removed = []
    if current is not None:
        with warning(warn, folder.path("snapshots", current, MARK)):
            settle(folder, current)
    for name in folder.folders("snapshots"):
        with warning(warn, folder.path("snapshots", name)):
            if is_left_over(name):
                folder.remove_folder("snapshots", name)
                continue
            unfinished = name not in finished and name != current and not name.startswith(".")
            if unfinished and is_debris(folder, name) and remove_snapshot(folder, name, points_to):
                removed.append(name)
    with warning(warn, folder.path()):
        # of earlier versions, whose passing names told nothing
        passing = [name for name in folder.files() if name.startswith("CURRENT.") and not is_passing(name)]
        for name in [*passing, *leftovers(folder)]:
            folder.remove(name)
        clear_passing(Chain(folder))
    return removed


def settle(folder: Folder, current: str) -> None:
    """Remove the mark that a process left which was killed when its snapshot had become current."""
    if folder.is_file("snapshots", current, MARK):
        folder.remove("snapshots", current, MARK)


@contextmanager
def warning(warn: Callable[[str], None], path: str) -> Iterator[None]:
    """Turn what a file system refuses, or a lost lease, into a warning that a path was not removed."""
    try:
        yield
    except (OSError, StoreError) as error:
        why = reason(error) if isinstance(error, OSError) else str(error)
        name = getattr(error, "filename", None) or path
        warn(f"{name} could not be removed ({why}): the next rebuild tries again")


def make_folder(folder: Folder, name: str) -> bool:
    """Make a snapshot's folder with the mark of this process; return whether no other process was faster."""
    mark = Holder.me().data
    if not folder.renames:
        # where folders are only names the mark is the first that has this one: without it, it would be debris
        if not folder.exclusive:
            folder.make("snapshots", name, "partitions")
        created = folder.create(mark, "snapshots", name, MARK)
        if created and folder.exclusive:
            folder.make("snapshots", name, "partitions")
        return created
    fresh = fresh_name()
    try:
        folder.make("snapshots", fresh, "partitions")
        folder.replace(mark, "snapshots", fresh, MARK)
        folder.move(("snapshots", fresh), ("snapshots", name))
    except BaseException as error:
        with suppress(OSError):
            folder.remove_folder("snapshots", fresh)
        if isinstance(error, OSError) and error.errno in (errno.EEXIST, errno.ENOTEMPTY):
            return False
        raise
    return True


def strip(folder: Folder, snapshot: str, listed: Collection[str]) -> None:
    """Remove the files of a snapshot that its manifest does not list: of tasks that were killed, or ran twice."""
    # Spark's own files beside rejected rows tell that these are whole
    folders = {file.rpartition("/")[0] for file in listed} - {"quarantine"} | {""}
    for inner in folders:
        parts = tuple(filter(None, inner.split("/")))
        for name in folder.files("snapshots", snapshot, *parts):
            if "/".join([*parts, name]) not in {*listed, MARK, "manifest.json"}:
                folder.remove("snapshots", snapshot, *parts, name)
