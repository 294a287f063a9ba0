"""Files that are compared with how the commits of a chain list them, and what was found."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from dtoss.commits.file_entry import FileEntry
from dtoss.commits.folder import Folder
from dtoss.errors import Unreadable, unreadable


@dataclass
class VerifyReport:
    """What was looked at, and what is wrong."""

    commits: int = 0  # How many there are
    files: int = 0
    bytes: int = 0
    # How much of what these files hold, by its name: events, results, rows
    held: dict[str, int] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)  # A line for each thing that is wrong; it names the file
    # A line for each thing that could not be read, which may be whole; it names the file and the reason
    unread: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON has it: what is held beside the other counts."""
        counts = {"commits": self.commits, "files": self.files, "bytes": self.bytes}
        return {**counts, **self.held, "damaged": self.damaged, "unread": self.unread}

    def hold(self, name: str, count: int) -> None:
        """Count more of what files hold."""
        self.held[name] = self.held.get(name, 0) + count


class Found(Protocol):
    """What a look has found."""

    damaged: list[str]
    unread: list[str]


def line_of(what: str | Exception) -> tuple[str, bool]:
    """Return a line that says what is wrong, and whether it was only refused: a folder is no file, all else may be."""
    refused = isinstance(what, OSError | Unreadable) and not isinstance(what, IsADirectoryError)
    return str(unreadable(what.filename, what) if isinstance(what, OSError) and what.filename else what), refused


def note(found: Found, what: str | Exception) -> None:
    """Say once what is wrong, among what is damaged or what could not be read."""
    line, refused = line_of(what)
    lines = found.unread if refused else found.damaged
    if line not in lines:
        lines.append(line)


@contextmanager
def noting(found: Found) -> Iterator[None]:
    """End a look where it could not be read what else there is to look at, and keep what it has found."""
    try:
        yield
    except (Unreadable, OSError) as error:
        note(found, error)


class Look:
    """Looks at files, each once, and keeps what was ``found``."""

    def __init__(self) -> None:
        self.found = VerifyReport()
        self._looked: set[tuple[str, str]] = set()

    def wrong(self, what: str | Exception) -> None:
        """Say what is wrong, or could not be read, once."""
        note(self.found, what)

    def bytes_of(self, folder: Folder, room: str, file: FileEntry, *, needed: bool) -> bytes | None:
        """Return the bytes of a file that are as it is listed; None of others, and of a file that was looked at."""
        path = folder.path(room, file.name)
        if (path, file.sha256) in self._looked:
            return None
        try:
            data = folder.read(room, file.name)
        except OSError as error:
            self.wrong(error)
            return None
        if data is None:
            if needed:
                self.wrong(f"{path} is missing")
            return None
        self._looked.add((path, file.sha256))
        self.found.files += 1
        self.found.bytes += len(data)
        if len(data) != file.bytes:
            self.wrong(f"{path} is damaged: it has {len(data):,} bytes, {file.bytes:,} are listed")
        elif hashlib.sha256(data).hexdigest() != file.sha256:
            self.wrong(f"{path} is damaged: it does not have the bytes that it was written with")
        else:
            return data
        return None

    def parquet(self, path: str, data: bytes, rows: int) -> pa.Table | None:
        """Return the rows of a Parquet file; None where it has others."""
        try:
            table = pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False)
        except (pa.ArrowInvalid, OSError, ValueError) as error:
            self.wrong(f"{path} is damaged: {error!s:.200}")
            return None
        if table.num_rows != rows:
            self.wrong(f"{path} is damaged: it has {table.num_rows:,} rows, {rows:,} are listed")
            return None
        return table

    def arrow(self, path: str, data: bytes, rows: int | None) -> None:
        """Look whether an Arrow file can be read, and has so many rows."""
        try:
            found = pa.ipc.open_file(pa.BufferReader(data)).read_all()
        except (pa.ArrowInvalid, OSError) as error:
            self.wrong(f"{path} is damaged: {error!s:.200}")
            return
        if rows is not None and found.num_rows != rows:
            self.wrong(f"{path} is damaged: it has {found.num_rows:,} rows, {rows:,} are listed")
