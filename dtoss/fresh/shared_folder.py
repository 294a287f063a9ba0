"""The folder of generations that all servers of a plan open: beside the log, or in memory for as long as they run.

::

    UPDATES/.log/
      generations     the store of generations; a link into memory where all servers are on one machine
      SERVERS         locked by each server for as long as it runs
"""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import tempfile
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dtoss.commits.process import is_left, passing_name
from dtoss.errors import InputError, StoreError, reason
from dtoss.log.segment_names import HIDDEN

GENERATIONS, SERVERS = "generations", "SERVERS"
_TRIES = 10
_CHANCES = random.Random()


def shared_path(updates: str) -> str:
    """Return where servers of a plan find the generations of a log."""
    return f"{updates.rstrip('/')}/{HIDDEN}/{GENERATIONS}"


@dataclass(frozen=True)
class SharedFolder:
    """A folder that this server and others use; its children do too, until the last of them has ended."""

    path: str
    lock: int  # File descriptor of SERVERS

    def leave(self) -> None:
        """Use it no longer; who is the last one removes it."""
        with suppress(OSError):
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _clear(self.path)
        os.close(self.lock)


def join_folder(updates: str, wanted: int, *, in_memory: bool) -> SharedFolder:
    """Return the folder of generations of a log, made anew where no server uses it.

    ``in_memory``: whether it is, if ``wanted`` bytes are free there. What servers that were killed have left goes.
    """
    path = shared_path(updates)
    try:
        Path(path).parent.mkdir(exist_ok=True)
        lock = os.open(Path(path).with_name(SERVERS), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except FileNotFoundError:
        raise InputError(f"nothing is at {updates}: make the folder in which updates arrive") from None
    except OSError as error:
        raise StoreError(f"{path} cannot be made: {reason(error)}") from None
    try:
        for _ in range(_TRIES):
            if _alone(lock):
                _clear(path)
                _make(path, wanted if in_memory else None)
            fcntl.flock(lock, fcntl.LOCK_SH)
            if Path(path).is_dir():
                return SharedFolder(path, lock)
            time.sleep(_CHANCES.uniform(0.0, 0.1))  # the last one that used it has just ended, or others come, too
        raise StoreError(
            f"{path} leads into the memory of another machine, whose servers use it: end them, and start all of the "
            "plan with --peers of URLs that other machines reach"
        )
    except OSError as error:
        os.close(lock)
        raise StoreError(f"{path} cannot be made: {reason(error)}") from None
    except BaseException:
        os.close(lock)
        raise


def _alone(lock: int) -> bool:
    """Return whether no other server uses the folder; this one may change it then."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _make(path: str, wanted: int | None) -> None:
    place = None if wanted is None else roomy_place(wanted)
    if place is None:
        Path(path).mkdir(mode=0o700)
        return
    folder = Path(place) / f"{FOLDER_PREFIX}{uuid.uuid4().hex}"
    folder.mkdir(mode=0o700)
    Path(path).symlink_to(folder)


def _clear(path: str) -> None:
    """Remove the folder, and what its name leads to."""
    if Path(path).is_symlink():
        place = Path(path).readlink()
        if place.name.startswith(FOLDER_PREFIX):  # made here, and nobody's else
            shutil.rmtree(place, ignore_errors=True)
        Path(path).unlink()
    elif Path(path).is_dir():
        shutil.rmtree(path)


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
