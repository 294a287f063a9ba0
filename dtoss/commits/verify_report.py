"""Commits of a chain in their order, and files that are compared with how these list them.

Whether a chain of commits is whole: every number once, every byte as it was written, each parent's hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar

from dtoss.commits.chain import COMMITS, HINT, RESTORE, Chain, Commit, decode, file_of, log_of
from dtoss.commits.file_entry import ANY_BYTES, FileEntry, Missing, mapped_bytes
from dtoss.commits.folder import Folder
from dtoss.errors import StoreError, Unreadable, unreadable

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class VerifyReport:
    """What was looked at, and what is wrong."""

    commits: int = 0  # How many there are
    files: int = 0
    bytes: int = 0
    # How much of what these files hold, by its name: events, results, rows; or names of what was looked at
    held: dict[str, Any] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)  # A line for each thing that is wrong; it names the file
    # A line for each thing that could not be read, which may be whole; it names the file and the reason
    unread: list[str] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)  # Paths in their tables of files of which something is wrong

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON has it: what is held beside the other counts."""
        counts = {"commits": self.commits, "files": self.files, "bytes": self.bytes}
        return {**counts, **self.held, "damaged": self.damaged, "unread": self.unread}

    def become(self, other: VerifyReport) -> None:
        """Say what another one says, and no more."""
        for one in fields(self):
            setattr(self, one.name, getattr(other, one.name))

    def hold(self, name: str, count: int) -> None:
        """Count more of what files hold."""
        self.held[name] = self.held.get(name, 0) + count

    def count(self, name: str, count: int) -> None:
        """Count more commits, which are called so."""
        if name == "commits":
            self.commits += count
        else:
            self.hold(name, count)


def added_reports(reports: Sequence[VerifyReport]) -> VerifyReport:
    """Return what was found in all of some looks."""
    added = VerifyReport()
    for one in reports:
        added.commits, added.files, added.bytes = (
            added.commits + one.commits, added.files + one.files, added.bytes + one.bytes
        )  # fmt: skip
        for name, held in one.held.items():
            added.held[name] = held if name not in added.held else added.held[name] + held
        added.damaged = list(dict.fromkeys(added.damaged + one.damaged))
        added.unread = list(dict.fromkeys(added.unread + one.unread))
    return added


def line_of(what: str | Exception) -> tuple[str, bool]:
    """Return a line that says what is wrong, and whether it was only refused: a folder is no file, all else may be."""
    refused = isinstance(what, OSError | Unreadable) and not isinstance(what, IsADirectoryError)
    return str(unreadable(what.filename, what) if isinstance(what, OSError) and what.filename else what), refused


def note(found: VerifyReport, what: str | Exception) -> None:
    """Say once what is wrong, among what is damaged or what could not be read."""
    line, refused = line_of(what)
    lines = found.unread if refused else found.damaged
    if line not in lines:
        lines.append(line)


@contextmanager
def noting(found: VerifyReport) -> Iterator[None]:
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

    def bytes_of(
        self, folder: Folder, room: str, file: FileEntry, *, needed: bool, mapped: bool, remedy: str
    ) -> bytes | pa.Buffer | None:
        """Return the bytes of a file that are as it is listed; None of others, and of a file that was looked at."""
        path, parts = folder.path(room, file.name), (*room.split("/"), file.name)
        if (path, file.sha256) in self._looked:
            return None
        try:
            data = mapped_bytes(folder, *parts) if mapped else folder.read(*parts)
        except OSError as error:
            self.wrong(error)
            return None
        if data is None:
            if needed:
                self.wrong(f"{path} is missing{remedy}")
            return None
        self._looked.add((path, file.sha256))
        self.found.files += 1
        self.found.bytes += len(data)
        if file.bytes != ANY_BYTES and len(data) != file.bytes:
            self.wrong(f"{path} is damaged: it has {len(data):,} bytes, {file.bytes:,} are listed{remedy}")
        elif file.sha256 and hashlib.sha256(data).hexdigest() != file.sha256:
            self.wrong(f"{path} is damaged: it does not have the bytes that it was written with{remedy}")
        else:
            return data
        return None

    def parquet(self, path: str, data: bytes, file: FileEntry) -> pa.Table | None:
        """Return the rows of a Parquet file; None where it has others."""
        return self._table(path, file, lambda: _rows_of_parquet(data))

    def arrow(self, path: str, data: bytes, file: FileEntry) -> pa.Table | None:
        """Return the rows of an Arrow file; None where it has others."""
        return self._table(path, file, lambda: _rows_of_arrow(data))

    def any_arrow(self, path: str, data: bytes, file: FileEntry) -> None:
        """Look whether an Arrow file can be read, which is listed with the rows of something else."""
        self._table(path, None, lambda: _rows_of_arrow(data))

    def _table(self, path: str, file: FileEntry | None, read: Callable[[], pa.Table]) -> pa.Table | None:
        try:
            table = read()
        except (OSError, ValueError) as error:
            self.wrong(f"{path} is damaged: {error!s:.200}")
            return None
        if file is not None and table.num_rows != file.rows:
            self.wrong(f"{path} is damaged: it has {table.num_rows:,} rows, {file.rows:,} are listed")
            return None
        return table


def _rows_of_parquet(data: bytes) -> pa.Table:
    from pyarrow import BufferReader
    from pyarrow.parquet import ParquetFile

    return ParquetFile(BufferReader(data)).read(use_threads=False)


def _rows_of_arrow(data: bytes) -> pa.Table:
    from pyarrow import BufferReader, ipc

    return ipc.open_file(BufferReader(data)).read_all()


def verify_chain(chain: Chain, first: int = 1) -> Iterator[str | OSError]:
    """Yield what is wrong with a chain, a line for each, which names the file; nothing where it is whole.

    Of a commit or a log that could not be read, which may be whole, it is the error of the system.

    ``first``: the first commit that has to be there: those before it were removed on purpose.

    Checked are all commits from the first to the highest: that each is there, in its file or its log, that its bytes
    are canonical and have its hash, and that it names the hash of the one before. A hint may lag, but not be ahead.
    Cost O(commits).
    """
    files, logs = chain.listed()
    there = set(files)
    highest = max([*files, *(last for _, last in logs)], default=0)
    hint = chain.hint()
    if chain.kept and hint is not None and hint > highest:
        yield f"{chain.path(hint)} is missing: {chain.folder.path(HINT)} says that it was committed; {RESTORE}"
    elif highest and (hint is None or hint > highest):
        why = "does not hold the number of a commit" if hint is None else f"says {hint}, the highest is {highest}"
        yield f"{chain.folder.path(HINT)} is missing or damaged: it {why}; the next commit mends it"
    before: str | None = None
    lines: dict[int, bytes] = {}
    unread = 0
    firsts = dict(logs)
    for number in range(first, highest + 1):
        path = chain.path(number)
        if number in firsts:
            try:
                lines, complaints = _lines(chain, number, firsts[number])
                yield from complaints
            except OSError as error:
                yield error
                lines, unread = {}, firsts[number]
        line = lines.pop(number, None)
        try:
            data = chain.folder.read(COMMITS, file_of(number)) if number in there else None
        except OSError as error:
            yield error
            before = None
            continue
        if line is not None:
            if data not in (None, line):
                yield f"{path} is damaged: it is not what its log holds; dtoss gc removes it"
            data, path = line, _log_path(chain, number, logs)
        if data is None:
            if number > unread:
                yield f"{path} is missing: commit {number} of {highest}"
            before = None
            continue
        digest = hashlib.sha256(data).hexdigest()
        try:
            commit = decode(data, number, path)
        except StoreError as error:
            yield str(error)
        else:
            if number == 1 and commit.parent is not None:
                yield f"{path} is damaged: the first commit has no parent"
            if number > 1 and before is not None and commit.parent != before:
                yield f"{path} is damaged: its parent is not commit {number - 1} as it stands there"
        before = digest


def _lines(chain: Chain, first: int, last: int) -> tuple[dict[int, bytes], list[str]]:
    path = chain.folder.path(COMMITS, log_of(first, last))
    data = chain.folder.read(COMMITS, log_of(first, last)) or b""
    lines = data.splitlines(keepends=True)
    wrong = []
    if len(lines) != last - first + 1:
        wrong.append(f"{path} is damaged: it has {len(lines)} lines, {last - first + 1} are wanted")
    return dict(zip(range(first, last + 1), lines, strict=False)), wrong


def _log_path(chain: Chain, number: int, logs: list[tuple[int, int]]) -> str:
    first, last = next((first, last) for first, last in logs if first <= number <= last)
    return chain.folder.path(COMMITS, log_of(first, last))


T = TypeVar("T")


def commits_from(chain: Chain, first: int, last: int, lines: dict[int, bytes] | None = None) -> Iterator[Commit]:
    """Yield commits in their order, each log read once.

    ``lines``: the lines of the log that was read last, by number; who asks again hands on the same ones.
    """
    lines = {} if lines is None else lines
    for number in range(max(first, 1), last + 1):
        data = lines.get(number)
        if data is None:
            data = chain.folder.read(COMMITS, file_of(number))
        if data is None:  # whoever folds writes the log before files go
            end = -(-number // chain.block) * chain.block
            log = chain.folder.read(COMMITS, log_of(end - chain.block + 1, end)) or b""
            lines.clear()
            lines.update(enumerate(log.splitlines(keepends=True), end - chain.block + 1))
            data = lines.get(number)
        if data is None:
            raise Missing(f"{chain.path(number)} is missing; roll back or restore it from a copy")
        yield decode(data, number, chain.path(number))


def whole_ones(
    chain: Chain, read: Callable[[Commit], T], first: int, last: int, look: Look | None = None
) -> Iterator[T]:
    """Yield what ``read`` makes of commits in their order; a look is told of those that are not whole.

    Without one the first of these is an error.
    """
    lines: dict[int, bytes] = {}
    for number in range(max(first, 1), last + 1):
        try:
            (commit,) = commits_from(chain, number, number, lines)
            found = read(commit)
        except (StoreError, OSError) as error:
            if look is None:
                raise
            look.wrong(error)
            continue
        yield found
