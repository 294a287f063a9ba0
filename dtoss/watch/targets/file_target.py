"""Events as lines of a file, each once: the file says itself up to where it has them."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

from dtoss.client.endpoint import Access, Place
from dtoss.client.http_connections import Later
from dtoss.errors import InputError, reason
from dtoss.watch.events.cursor import Cursor
from dtoss.watch.targets.appended_lines import AppendedLines
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
