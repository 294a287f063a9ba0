"""The folder of a snapshot in the making: it has a mark from the first, and in the end only what is listed."""

from __future__ import annotations

import errno
from collections.abc import Collection
from contextlib import suppress

from dtoss.commits.folder import Folder
from dtoss.commits.lease import Holder
from dtoss.snapshots.folder_names import fresh_name
from dtoss.snapshots.snapshot_orphans import MARK


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
