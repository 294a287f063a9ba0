"""Events as lines of a file, each once and on the disk: the file says itself up to where it has them."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from dtoss.client.endpoint import Access, Place
from dtoss.client.http_connections import Later
from dtoss.errors import InputError, reason
from dtoss.watch.events.readers import Cursor
from dtoss.watch.targets.target import USUAL_BATCH, Batch

OWNER_SUFFIX = ".reader"
"""Behind the name of a file, of the one that says whose events it holds."""


class FileTarget:
    """A file to which events are appended."""

    batch = USUAL_BATCH

    def __init__(self, place: Place, access: Access) -> None:
        if place.hosts not in ((), (("localhost", None),)) or not place.name:
            raise InputError("--to file: wants the path of a file on this machine: file:///var/log/events.jsonl")
        if access.secret is not None:
            raise InputError("--secret-file says nothing of a file")
        place.options()
        self._path = place.name if not place.path.startswith("/") else f"/{place.name}"

    def __str__(self) -> str:
        return f"file {self._path}"

    def begin(self, mark: str) -> Cursor | None:
        """Return the last event that the file holds, which no other reader may write."""
        lines = AppendedLines(self._path, "--to file:")
        beside = Path(self._path + OWNER_SUFFIX)
        whose = None
        with suppress(FileNotFoundError, ValueError, TypeError, KeyError):
            whose = json.loads(beside.read_bytes())["reader"]
        if whose is None and Path(self._path).stat().st_size == 0:
            _write_whole(beside, json.dumps({"reader": mark}).encode() + b"\n")
        elif whose != mark:
            raise InputError(
                f"{self._path} holds what another reader has written, or somebody else: name another file, or remove "
                f"it and {beside.name}"
            )
        return lines.last()

    def take(self, batch: Batch) -> None:
        """Append the events of a batch."""
        try:
            AppendedLines(self._path, "--to file:").append(batch.lines.pieces)
        except (OSError, InputError) as error:
            raise Later(f"cannot be written ({reason(error) if isinstance(error, OSError) else error})") from None

    def close(self) -> None:
        """Nothing stays open."""


def _write_whole(path: Path, data: bytes) -> None:
    """Write a small file that is there whole or not at all, and on the disk."""
    passing = path.with_name(f"{path.name}.{os.getpid()}")
    file = os.open(passing, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640)
    try:
        os.write(file, data)
        os.fsync(file)
    finally:
        os.close(file)
    passing.replace(path)


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
