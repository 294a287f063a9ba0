"""Files of a folder that nothing names any more, and that nobody is about to name."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from dtoss.commits.folder import Folder
from dtoss.commits.process import is_left, is_passing

SPARED_DEBRIS_SECONDS = 3600.0
"""A file that nothing names stays so long after it was written: a batch that is under way may be about to name it."""


def clear_unneeded(folder: Folder, room: str, needed: AbstractSet[str], spare_seconds: float) -> int:
    """Remove the files of a room that are not needed, and return how many went.

    ``spare_seconds``: others stay so long after they were written; what a process that is gone was writing goes at
    once.
    """
    gone = 0
    for name in folder.files(room):
        if name in needed or (is_passing(name) and not is_left(name)):
            continue
        # what a process that is gone was writing is nobody's
        if is_left(name) or folder.idle(room, name) >= spare_seconds:
            folder.remove(room, name)
            gone += 1
    return gone
