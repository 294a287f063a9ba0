"""The file of events that nobody could handle: lines are appended, whole and on the disk."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dtoss.errors import InputError, reason

_BEGIN = b'{"id":"'
"""Of each line."""
_BLOCK = 1 << 16


@dataclass(frozen=True)
class DeadLetters:
    """A file of lines, which is made where there is none."""

    path: str

    def __post_init__(self) -> None:
        try:
            os.close(self._opened())
        except OSError as error:
            raise InputError(f"--dead-letter {self.path} cannot be written: {reason(error)}") from None

    def append(self, pieces: Iterable[bytes]) -> None:
        """Append whole lines, and bring them to the disk; nothing of them stays where that fails.

        What a process that was killed has left of a line goes first: its events are told again.
        """
        file = self._opened()
        try:
            with suppress(OSError):  # several may share the file; where a disk has no locks they may not
                fcntl.flock(file, fcntl.LOCK_EX)
            begin = os.fstat(file).st_size
            tail = _tail(file, begin)
            if tail.startswith(_BEGIN):
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
        finally:
            os.close(file)
        folder = os.open(Path(self.path).absolute().parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _opened(self) -> int:
        return os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)


def _tail(file: int, size: int) -> bytes:
    """Return what stands behind the last end of a line."""
    tail, at = b"", size
    while at and b"\n" not in tail:
        begin = max(at - _BLOCK, 0)
        tail = os.pread(file, at - begin, begin) + tail
        at = begin
    return tail.rpartition(b"\n")[2]
