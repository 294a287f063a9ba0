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
from dataclasses import dataclass
from functools import cache
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


@cache
def memory_bytes() -> int:
    """Return the memory of this machine, or of the group of processes that this one is in where that has less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            total = min(total, int(Path(file).read_text()))
        except (OSError, ValueError):
            continue
    return total


class Memory:
    """Bytes that batches of spools may take together.

    ``most``: when None what this process may take, as :func:`bytes_for_rows`.
    """

    def __init__(self, most: int | None = None) -> None:
        self.taken = 0
        self._most = most
        self._lock = threading.Lock()

    def take(self, size: int) -> bool:
        """Return whether so many bytes more are within the bound; they are counted then."""
        most = bytes_for_rows() if self._most is None else self._most
        with self._lock:
            if self.taken + size > most:
                return False
            self.taken += size
            return True

    def give(self, size: int) -> None:
        """Count so many bytes as free again."""
        with self._lock:
            self.taken -= size


OF_PROCESS = Memory()
"""What all spools share that are told of no other."""


@dataclass
class _Held:
    """Bytes that one spool holds."""

    memory: Memory
    size: int = 0

    def free(self) -> None:
        """Count all of them as free."""
        self.memory.give(self.size)


class Spool:
    """Batches in groups, in memory as far as it goes, which is free again when they were read or nobody has the spool.

    ``keep``: a group can be read as often as is wanted; else once, and what was read is let go of.
    """

    def __init__(self, groups: int, memory: Memory = OF_PROCESS, *, keep: bool = False) -> None:
        self._lock = threading.Lock()
        self._groups: list[list[tuple[int, pa.RecordBatch | slice]]] = [[] for _ in range(groups)]
        self._keep = keep
        self._held = _Held(memory)
        weakref.finalize(self, self._held.free)
        self._file: Any = None
        self._sink: Any = None
        self._mapped: pa.Buffer | None = None

    def add(self, group: int, batch: pa.RecordBatch, origin: int) -> None:
        """Keep a batch of a group, behind the others of its origin and of lower ones."""
        size = batch.nbytes
        fits = self._held.memory.take(size)
        with self._lock:
            if fits:
                self._held.size += size
            self._groups[group].append((origin, batch if fits else self._write(batch)))

    def read(self, group: int) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a group in their order; nothing is added from now on."""
        waiting = deque(batch for _, batch in sorted(self._groups[group], key=lambda pair: pair[0]))
        if not self._keep:
            self._groups[group] = []
        while waiting:
            one = waiting.popleft()
            if isinstance(one, slice):
                yield self._load(one)
                continue
            if not self._keep:
                with self._lock:
                    self._held.size -= one.nbytes
                self._held.memory.give(one.nbytes)
            yield one

    def _write(self, batch: pa.RecordBatch) -> slice:
        """Write a batch behind the others, as a stream of its own, and return where it lies."""
        folder = _folder()
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
                weakref.finalize(self, self._file.close)
                self._sink = pa.PythonFile(self._file, mode="w")
            begin = self._sink.tell()
            with pa.ipc.new_stream(self._sink, batch.schema) as stream:
                stream.write_batch(batch)
            return slice(begin, self._sink.tell())
        except OSError as error:
            raise InputError(
                f"{folder} cannot take the rows that do not fit in memory ({error.strerror or error}): name a folder "
                f"with room (TMPDIR), allow more memory ({MEMORY}), or take --engine spark"
            ) from None

    def _load(self, where: slice) -> pa.RecordBatch:
        with self._lock:
            if self._mapped is None:
                self._file.flush()
                self._mapped = pa.memory_map(f"/proc/self/fd/{self._file.fileno()}").read_buffer()
        return pa.ipc.open_stream(self._mapped[where]).read_next_batch()


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
