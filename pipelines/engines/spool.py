"""Batches that wait: in memory while rows may take more of it, and beyond that in a file without a name.

Nothing names the file, so no kill leaves it behind.
"""

from __future__ import annotations

import os
import tempfile
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from dtoss.errors import InputError

SHARE_OF_MEMORY = 0.4
"""Of this machine's memory that rows may take where nobody says how much."""
MEMORY = "DTOSS_MEMORY"
"""The variable that says how much memory rows may take: bytes, or with k, m, g behind."""
_UNITS = {"k": 10, "m": 20, "g": 30}
_IN_MEMORY_ALONE = ("tmpfs", "ramfs")


def bytes_for_rows() -> int:
    """Return how much memory rows may take in this process."""
    said = os.environ.get(MEMORY, "").strip().lower()
    if not said:
        return int(SHARE_OF_MEMORY * memory_bytes())
    digits = said.rstrip("kmg")
    if not digits.isdecimal() or len(said) - len(digits) > 1:
        raise InputError(f"{MEMORY} is {said!r}: a number of bytes such as 4g is wanted")
    return int(digits) << _UNITS.get(said[len(digits) :], 0)


def memory_bytes() -> int:
    """Return the memory of this machine, or of the group of processes that this one is in where that has less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            total = min(total, int(Path(file).read_text()))
        except (OSError, ValueError):
            continue
    return total


class Spool:
    """Batches of one schema, in groups; each group is read once, and lets go of what was read."""

    def __init__(self, groups: int, room: int | None = None) -> None:
        self._lock = threading.Lock()
        self._groups: list[list[tuple[int, pa.RecordBatch | int]]] = [[] for _ in range(groups)]
        self._room = bytes_for_rows() if room is None else room
        self._file: Any = None
        self._writer: Any = None
        self._reader: pa.ipc.RecordBatchFileReader | None = None
        self._written = 0

    def add(self, group: int, batch: pa.RecordBatch, origin: int) -> None:
        """Keep a batch of a group, behind the others of its origin and of lower ones."""
        with self._lock:
            if batch.nbytes <= self._room:
                self._room -= batch.nbytes
                self._groups[group].append((origin, batch))
                return
            self._write(batch)
            self._groups[group].append((origin, self._written))
            self._written += 1

    def read(self, group: int) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a group in their order, and let go of them; nothing is added from now on."""
        waiting = deque(batch for _, batch in sorted(self._groups[group], key=lambda pair: pair[0]))
        self._groups[group] = []
        while waiting:
            one = waiting.popleft()
            if isinstance(one, int):
                yield self._load(one)
            else:
                yield one

    def _write(self, batch: pa.RecordBatch) -> None:
        folder = _folder()
        try:
            if self._writer is None:
                self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
                weakref.finalize(self, self._file.close)
                self._writer = pa.ipc.new_file(pa.PythonFile(self._file, mode="w"), batch.schema)
            self._writer.write_batch(batch)
        except OSError as error:
            raise InputError(
                f"{folder} cannot take the rows that do not fit in memory ({error.strerror or error}): name a folder "
                f"with room (TMPDIR), allow more memory ({MEMORY}), or take --engine spark"
            ) from None

    def _load(self, number: int) -> pa.RecordBatch:
        with self._lock:
            if self._reader is None:
                self._writer.close()
                self._file.flush()
                self._reader = pa.ipc.open_file(pa.memory_map(f"/proc/self/fd/{self._file.fileno()}"))
            return self._reader.get_batch(number)


def _folder() -> str:
    """Return where temporary files go: never where these are memory."""
    named = os.environ.get("TMPDIR") or tempfile.gettempdir()
    return named if _kind_of(named) not in _IN_MEMORY_ALONE else "/var/tmp"


def _kind_of(folder: str) -> str:
    """Return the kind of the file system that a folder is on; nothing where that is not known."""
    try:
        mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return ""
    real = os.path.realpath(folder)
    held = [pair for pair in mounts if real == pair[0] or real.startswith(pair[0].rstrip("/") + "/")]
    return max(held, key=lambda pair: len(pair[0]), default=["", ""])[1]
