"""A folder in memory for as long as a process runs, and without those that dead processes have left."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from dtoss.commits.process import is_left, passing_name

MEMORY = "/dev/shm"
"""Files here are in memory, where the system has it."""
FOLDER_PREFIX = "dtoss-fresh."


def make_memory_folder(wanted: int, places: tuple[str, ...] = (MEMORY,)) -> str:
    """Return a new folder that this user alone may read, in the first place that has ``wanted`` bytes free.

    Where none has, it is among the temporary files. What dead processes have left in any of these goes first.
    """
    last = tempfile.gettempdir()
    for place in (*places, last):
        if Path(place).is_dir():
            clear_left(place)
    folder = Path(roomy_place(wanted, (*places, last)) or last) / f"{FOLDER_PREFIX}{passing_name()}"
    folder.mkdir(mode=0o700)
    return str(folder)


def roomy_place(wanted: int, places: tuple[str, ...] = (MEMORY,)) -> str | None:
    """Return the first of some places where this user may write and so many bytes are free; None where none is."""
    there = (place for place in places if Path(place).is_dir() and os.access(place, os.W_OK))
    return next((place for place in there if _free(place) >= wanted), None)


def clear_left(place: str) -> list[str]:
    """Remove folders of processes that are gone, and return their names."""
    found = [entry.name for entry in os.scandir(place) if entry.name.startswith(FOLDER_PREFIX) and is_left(entry.name)]
    for name in found:
        shutil.rmtree(Path(place) / name, ignore_errors=True)
    return found


def _free(place: str) -> int:
    found = os.statvfs(place)
    return found.f_bavail * found.f_frsize
