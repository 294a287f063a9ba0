"""What a log does to a disk: few steps, each of which may fail, or be the last one of a process."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

Bytes = bytes | bytearray | memoryview


class Disk:
    """A disk of this machine; that of a test stops where it is told to."""

    def make(self, path: str, data: Sequence[Bytes]) -> int:
        """Write a file of some pieces and bring it to the disk; return its number, open for reading and writing."""
        number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        try:
            at = 0
            for piece in data:
                self.write(number, piece, at)
                at += len(piece)
            self.sync(number)
        except BaseException:
            self.close(number)
            with suppress(OSError):
                self.remove(path)
            raise
        return number

    def close(self, number: int) -> None:
        """Let go of a file."""
        os.close(number)

    def write(self, number: int, data: Bytes, at: int) -> None:
        """Write all of the bytes at a place of a file."""
        left = memoryview(data).cast("B")
        while len(left):
            count = os.pwrite(number, left, at)
            if count == 0:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            at, left = at + count, left[count:]

    def cut(self, number: int, size: int) -> None:
        """Cut a file to its first bytes."""
        os.ftruncate(number, size)

    def sync(self, number: int) -> None:
        """Bring the bytes of a file to the disk, and its size."""
        getattr(os, "fdatasync", os.fsync)(number)

    def rename(self, path: str, name: str) -> None:
        """Give a file another name, in place of the file that has it."""
        os.replace(path, name)  # noqa: PTH105

    def sync_folder(self, path: str) -> None:
        """Bring the names in a folder to the disk."""
        number = os.open(path, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""
        Path(path).unlink(missing_ok=True)
