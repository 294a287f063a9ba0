"""A file of events to which lines are appended, whole and on the disk: a target, and those that nobody could handle."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from dtoss.errors import InputError, reason
from dtoss.watch.events.cursor import Cursor

_BEGIN = b'{"id":"'
"""Of each line."""
_BLOCK = 1 << 16


@dataclass(frozen=True)
class AppendedLines:
    """A file of lines, which is made where there is none."""

    path: str
    said: str  # The option that names it

    def __post_init__(self) -> None:
        try:
            os.close(self._open())
        except OSError as error:
            raise InputError(f"{self.said} {self.path} cannot be written: {reason(error)}") from None

    def append(self, pieces: Iterable[bytes]) -> None:
        """Append whole lines, and bring them to the disk; nothing of them stays where that fails.

        What a process that was killed has left of a line goes first: its events are told again.
        """
        with self._lock() as file:
            begin = os.fstat(file).st_size
            tail = _tail(file, begin)
            if tail and (tail.startswith(_BEGIN) or _BEGIN.startswith(tail)):
                begin -= len(tail)
                os.ftruncate(file, begin)
                tail = b""
            try:
                for piece in (b"\n" if tail else b"", *pieces):
                    rest = memoryview(piece)
                    while len(rest):
                        rest = rest[os.write(file, rest) :]
                os.fsync(file)
            except BaseException:
                with suppress(OSError):
                    os.ftruncate(file, begin)
                raise
        folder = os.open(Path(self.path).absolute().parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def last(self) -> Cursor | None:
        """Return the id of the last event that stands there whole; what stands behind it goes."""
        with self._lock() as file:
            size = os.fstat(file).st_size
            end = size - len(_tail(file, size))
            if end == 0:
                os.ftruncate(file, 0)
                return None
            try:
                found = Cursor.of(json.loads(_tail(file, end - 1))["id"])
            except (ValueError, TypeError, KeyError, InputError):
                raise InputError(
                    f"{self.said} {self.path} does not end with an event: name another file, or mend its last line"
                ) from None
            os.ftruncate(file, end)
            return found

    @contextmanager
    def _lock(self) -> Iterator[int]:
        file = self._open()
        try:
            with suppress(OSError):  # several may share the file; where a disk has no locks they may not
                fcntl.flock(file, fcntl.LOCK_EX)
            yield file
        finally:
            os.close(file)

    def _open(self) -> int:
        return os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)


def _tail(file: int, size: int) -> bytes:
    """Return what stands behind the last end of a line, of so many bytes of a file."""
    tail, at = b"", size
    while at and b"\n" not in tail:
        begin = max(at - _BLOCK, 0)
        tail = os.pread(file, at - begin, begin) + tail
        at = begin
    return tail.rpartition(b"\n")[2]
