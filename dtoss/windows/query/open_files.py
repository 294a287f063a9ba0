"""What was read of windows, and stays open: commits by number, files by hash, each verified once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import pyarrow as pa

from dtoss.commits.between import commits_from
from dtoss.commits.file_entry import FileEntry
from dtoss.locks import Lock
from dtoss.recent import Recent
from dtoss.windows.query.result_pieces import Piece, ResultFile
from dtoss.windows.storage.keys_file import read_material
from dtoss.windows.storage.window_document import Document, Part, document_of
from dtoss.windows.storage.window_folder import Home

T = TypeVar("T")
FILES_BYTES, ROWS_BYTES, ANSWERS_BYTES = 256 << 20, 128 << 20, 32 << 20
"""Of files of results that are open, of rows of them, and of answers."""
MADE_COMMITS = 2
"""Commits of which is held what is made of their state."""
LATELY = 600.0
"""Seconds for which somebody who has asked for something is taken to ask again."""
_COMMIT_BYTES, _COMMITS_BYTES = 1_000, 16 << 20
"""What a commit counts for, and all that are held."""


@dataclass(frozen=True)
class Said:
    """What a commit says of results."""

    number: int
    # watermark, watermark_before: microseconds since 1970, after its batch and before; None before the first row
    watermark: int | None
    watermark_before: int | None
    results: tuple[Part, ...]  # Its files of results


class Reader:
    """What was read of windows of one name; threads share it, and windows of one name at several commits do."""

    def __init__(self, home: Home, keys: FileEntry) -> None:
        self.home = home
        self.keys = keys
        self._lock = Lock()
        self._lines: dict[int, bytes] = {}
        self._said: Recent[Said] = Recent(_COMMITS_BYTES)
        self._files: Recent[ResultFile] = Recent(FILES_BYTES)
        self._rows: Recent[Piece] = Recent(ROWS_BYTES)
        self.answers: Recent[pa.Table] = Recent(ANSWERS_BYTES)
        self._made: dict[tuple[str, str], object] = {}
        self._making: dict[tuple[str, str], Lock] = {}
        self._asked: dict[str, float] = {}

    def said(self, number: int) -> Said:
        """Return what a commit says of results."""
        return self._said.of(number, lambda: (self._read(number), _COMMIT_BYTES))

    def between(self, first: int, last: int) -> Iterator[Said]:
        """Yield what commits say, both numbers included, in their order."""
        for number in range(first, last + 1):
            yield self.said(number)

    def file(self, file: FileEntry) -> ResultFile:
        """Return a file of results, open."""

        def opened() -> tuple[ResultFile, int]:
            found = ResultFile.opened(self.home, file, self._rows)
            return found, found.bytes

        return self._files.of(file.sha256, opened)

    @cached_property
    def material(self) -> dict[str, pa.Table]:
        """What the keys are made of."""
        return read_material(self.home, self.keys)

    def made(self, what: str, commit: str, make: Callable[[], T]) -> T:
        """Return what is made of the state of a commit, by its hash: once for each of the last two commits.

        Who wants what another thread is making waits for that.
        """
        of = what, commit
        with self._lock:
            if of in self._made:
                return self._made[of]  # type: ignore[return-value]
            making = self._making.setdefault(of, Lock())
        with making:
            with self._lock:
                if of in self._made:
                    return self._made[of]  # type: ignore[return-value]
            try:
                found = make()
                with self._lock:
                    self._made[of] = found
                    mine = [name for name in self._made if name[0] == what]
                    for name in mine[:-MADE_COMMITS]:
                        del self._made[name]
            finally:
                with self._lock:
                    self._making.pop(of, None)
        return found

    def has(self, what: str, commit: str) -> bool:
        """Return whether something is made of the state of a commit."""
        with self._lock:
            return (what, commit) in self._made

    def ask(self, what: Sequence[str]) -> None:
        """Remember what is asked for now."""
        now = time.monotonic()
        with self._lock:
            self._asked |= dict.fromkeys(what, now)

    def asked_lately(self) -> list[str]:
        """Return what was asked for in the last ten minutes."""
        since = time.monotonic() - LATELY
        with self._lock:
            return [what for what, last in self._asked.items() if last >= since]

    def _read(self, number: int) -> Said:
        with self._lock:  # the lines of a log are those of a thousand commits
            (commit,) = commits_from(self.home.batches, number, number, self._lines)
        return said_of(document_of(self.home, commit))


def said_of(document: Document) -> Said:
    """Return what a document says of results."""
    return Said(document.number, document.watermark, document.watermark_before, document.files["results"])
