"""Files of a folder that nothing names any more, and that nobody is about to name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from dtoss.commits.folder import Folder
from dtoss.commits.process import is_left, is_passing

SPARED_DEBRIS_SECONDS = 3600.0
"""A file that nothing names stays so long after it was written: a batch that is under way may be about to name it."""


@dataclass(frozen=True)
class Removal:
    """What was removed."""

    files: int = 0
    bytes: int = 0

    def __add__(self, other: Removal) -> Removal:
        return Removal(self.files + other.files, self.bytes + other.bytes)

    def __str__(self) -> str:
        files = "1 file" if self.files == 1 else f"{self.files:,} files"
        return f"{files} of {self.bytes:,} bytes"


NOTHING_REMOVED = Removal()


def clear_unneeded(
    folder: Folder,
    room: str,
    needed: AbstractSet[str],
    spare: float | Callable[[str], float],
    there: Mapping[str, int] | None = None,
) -> Removal:
    """Remove the files of a room that are not needed, and return what went.

    ``spare``: seconds for which others stay after they were written, or what says that of a path; what a process that
    is gone was writing goes at once; ``there``: names and bytes of files, listed before it was found out what is
    needed, in the order in which they go; listed now when None.
    """
    gone = NOTHING_REMOVED
    parts = room.split("/")
    for name, size in (folder.sizes(*parts) if there is None else there).items():
        if name in needed or (is_passing(name) and not is_left(name)):
            continue
        least = spare(f"{room}/{name}") if callable(spare) else spare
        # what a process that is gone was writing is nobody's
        if is_left(name) or folder.idle(*parts, name) >= least:
            folder.remove(*parts, name)
            gone += Removal(1, size)
    return gone
