"""Where the files of a log are, and what their names say.

::

    FOLDER/
      positions-<log>-<first>-<last>.parquet    a sealed segment: its log, the first and the last sequence number
      .log/
        <log>-<first>.open                      an open segment; of two the first is being sealed
        LEASE                                   who writes
        SEAL, SEALING                           somebody wants what is open to be sealed; it is being done

A log is eight random hexadecimal digits, numbers have twenty digits. So segments of two logs are never called the same.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

HIDDEN = ".log"
SEAL, SEALING = "SEAL", "SEALING"
_SEALED = re.compile(r"(?:\A|/)positions-([0-9a-f]{8})-(\d{20})-(\d{20})\.parquet\Z")
_OPEN = re.compile(r"([0-9a-f]{8})-(\d{20})\.open\Z")


@dataclass(frozen=True)
class Segment:
    """A file of a log."""

    log: str
    first: int  # The sequence number of its first row
    last: int | None  # Of its last row; None while it is open
    path: str

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.path.rpartition("/")[2]


def sealed_path(folder: str, log: str, first: int, last: int) -> str:
    """Return the path of a sealed segment."""
    return f"{folder}/positions-{log}-{first:020}-{last:020}.parquet"


def open_path(folder: str, log: str, first: int) -> str:
    """Return the path of an open segment."""
    return f"{folder}/{HIDDEN}/{log}-{first:020}.open"


def is_log(folder: str) -> bool:
    """Return whether rows have ever been told in a folder."""
    return bool(open_segments(folder))


def open_segments(folder: str) -> list[Segment]:
    """Return the open segments of a folder in their order."""
    found = [(found, name) for name in _names(f"{folder}/{HIDDEN}") if (found := _OPEN.match(name))]
    segments = [Segment(match[1], int(match[2]), None, f"{folder}/{HIDDEN}/{name}") for match, name in found]
    return sorted(segments, key=lambda one: (one.log, one.first))


def sealed_segments(paths: Iterable[str]) -> list[Segment]:
    """Return those of some files that are sealed segments, in their order."""
    found = [(found, path) for path in paths if (found := _SEALED.search(path))]
    segments = [Segment(match[1], int(match[2]), int(match[3]), path) for match, path in found]
    return sorted(segments, key=lambda one: (one.log, one.first))


def sealed_in(folder: str) -> list[Segment]:
    """Return the sealed segments of a folder in their order."""
    return sealed_segments(f"{folder}/{name}" for name in _names(folder))


def is_asked(folder: str) -> bool:
    """Return whether somebody has asked for what is open to be sealed, and it is not yet."""
    return any(Path(f"{folder}/{HIDDEN}/{name}").exists() for name in (SEAL, SEALING))


def ask_to_seal(folder: str) -> bool:
    """Ask the writer of a folder's log to seal what is open; return whether there is a log."""
    if not is_log(folder):
        return False
    with suppress(OSError):
        Path(f"{folder}/{HIDDEN}/{SEAL}").touch()
    return True


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208
    except (FileNotFoundError, NotADirectoryError):
        return []
