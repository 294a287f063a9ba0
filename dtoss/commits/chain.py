"""The chain of commits: numbered files, each made by one writer, which say their format and name the one before.

::

    FOLDER/
      CURRENT                                 the number of a commit: a hint, which may lag
      commits/<20 digits>.json                a document, who committed it and when, the hash of the parent's file
      commits/log-<20 digits>-<20 digits>.jsonl   a thousand old commits, a line each
      (:mod:`dtoss.commits.log_compaction`)

The commit with the highest number is what counts. It is found from the hint upwards until a number is missing, without
listing. Of several that commit after the same parent one makes the file, and the others get a :class:`Conflict`. A
commit is canonical JSON with its own hash, so that any byte that changes is found.
"""

from __future__ import annotations

import binascii
import hashlib
import json
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from dtoss.commits import process
from dtoss.commits.folder import Folder
from dtoss.errors import InputError, StoreError

HINT = "CURRENT"
COMMITS = "commits"
COMMITS_OF_A_LOG = 1000
"""Commits of a log."""
RESTORE = "restore it from a copy"
_FILE = re.compile(r"(\d{20})\.json\Z")
_LOG = re.compile(r"log-(\d{20})-(\d{20})\.jsonl\Z")
_HINT = re.compile(rb"(\d{20})(?: ([0-9a-f]{8}))?\n?\Z")
_FIELDS = {"document", "nonce", "number", "parent", "sha256", "time", "writer"}


class Conflict(StoreError):
    """Another writer has committed meanwhile; nothing was overwritten."""


@dataclass(frozen=True)
class Commit:
    """A commit as it stands in its file."""

    number: int  # From 1 on, without a gap
    document: dict[str, Any]  # What was committed, as JSON has it
    parent: str | None  # The SHA-256 of the file of the commit before; None for the first
    writer: str  # ``HOST:PID`` of who made it
    time: str  # When, by the writer's clock, in ISO 8601 with its offset
    nonce: str = ""  # What tells it from another one of the same process and moment
    sha256: str = ""  # Of its own file

    @property
    def at(self) -> datetime:
        """The moment of :attr:`time`."""
        return datetime.fromisoformat(self.time)


def encode(commit: Commit) -> bytes:
    """Return the bytes of a commit's file: a line of JSON without spaces, its keys sorted, with a hash."""
    body = {
        "document": commit.document,
        "nonce": commit.nonce,
        "number": commit.number,
        "parent": commit.parent,
        "time": commit.time,
        "writer": commit.writer,
    }
    return seal(body)


def decode(data: bytes, number: int, path: str) -> Commit:
    """Return the commit of a file."""
    try:
        said = json.loads(data)
        if not isinstance(said, dict) or set(said) != _FIELDS:
            raise ValueError("it has not the fields of a commit")
        made = said.pop("sha256")
        if made != hashlib.sha256(canonical(said)).hexdigest():
            raise ValueError("it does not have the hash that it says")
        if canonical(said | {"sha256": made}) + b"\n" != data:
            raise ValueError("it is not written as a commit is")
        if said["number"] != number or isinstance(said["number"], bool):
            raise ValueError(f"it is commit {said['number']}")
        if not isinstance(said["document"], dict):
            raise ValueError("its document is no object")
        commit = Commit(**said, sha256=hashlib.sha256(data).hexdigest())
        if commit.at.tzinfo is None:
            raise ValueError("its time has no offset")
    except (ValueError, TypeError, RecursionError) as error:
        why = "it is not JSON" if isinstance(error, json.JSONDecodeError | RecursionError) else str(error)
        raise StoreError(f"{path} is damaged: {why}; roll back or rebuild") from None
    return commit


def seal(body: dict[str, Any]) -> bytes:
    """Return a line of canonical JSON that holds its own hash, as ``sha256``."""
    return canonical(body | {"sha256": hashlib.sha256(canonical(body)).hexdigest()}) + b"\n"


def canonical(value: Any) -> bytes:
    """Return JSON that is written in one way only: without spaces, keys sorted."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def silent(message: str) -> None:
    """Hear no warning."""


@dataclass(frozen=True)
class Chain:
    """The commits of a folder."""

    folder: Folder
    block: int = COMMITS_OF_A_LOG  # How many commits a log holds
    # Whether nobody takes the newest commit away: the one that the hint says has to be there then, or a later one
    kept: bool = False

    # -- reading ------------------------------------------------------------------------------------------------------

    def head(self, warn: Callable[[str], None] = silent) -> Commit | None:
        """Return the highest commit; None where there is none.

        Cost O(1): the hint, the commit that it names, and a look for the one after it. A hint that lags by n costs n
        more reads. Where it is missing or damaged the folder is listed, and ``warn`` is told.
        """
        top = self._top(warn)
        return None if top is None else decode(top[1], top[0], self.path(top[0]))

    def last(self, warn: Callable[[str], None] = silent) -> Commit | None:
        """Return the highest commit to commit after: as :meth:`head`, but a damaged one has no document."""
        top = self._top(warn)
        if top is None:
            return None
        try:
            return decode(top[1], top[0], self.path(top[0]))
        except StoreError as error:
            warn(str(error))
            return Commit(top[0], {}, None, "", "", sha256=hashlib.sha256(top[1]).hexdigest())

    def read(self, number: int) -> Commit:
        """Return the commit of a number, from its file or its log."""
        data = self._bytes(number)
        if data is None:
            raise StoreError(f"{self.path(number)} is missing; roll back or rebuild")
        return decode(data, number, self.path(number))

    def newest_first(self, warn: Callable[[str], None] = silent) -> Iterator[Commit]:
        """Yield the commits from the head down to the first; damaged and missing ones are told of and left out."""
        top = self._top(warn)
        if top is None:
            return
        lines: dict[int, bytes] = {}
        for number in range(top[0], 0, -1):
            data = lines.get(number) or (top[1] if number == top[0] else self._file(number))
            if data is None and (log := self._log(number)) is not None:
                lines = log
                data = lines.get(number)
            if data is None:
                warn(f"{self.path(number)} is missing")
                files, logs = self.listed()
                if not any(other < number for other in [*files, *(first for first, _ in logs)]):
                    return
                continue
            try:
                yield decode(data, number, self.path(number))
            except StoreError as error:
                warn(str(error))

    def path(self, number: int) -> str:
        """Return the path of a commit's file, for messages."""
        return self.folder.path(COMMITS, file_of(number))

    def hint(self) -> int | None:
        """Return what the hint says, whether there is such a commit or not; None where it is missing or damaged."""
        try:
            data = self.folder.read(HINT)
        except IsADirectoryError:
            return None
        found = None if data is None else _HINT.match(data)
        if found is None or found[2] not in (None, _check_of(found[1])):
            return None
        return int(found[1])

    def listed(self) -> tuple[list[int], list[tuple[int, int]]]:
        """Return the numbers of all files and the first and last numbers of all logs, by listing."""
        names = self.folder.files(COMMITS)
        files = [int(found[1]) for name in names if (found := _FILE.match(name))]
        logs = [(int(found[1]), int(found[2])) for name in names if (found := _LOG.match(name))]
        return files, logs

    def _top(self, warn: Callable[[str], None]) -> tuple[int, bytes] | None:
        number = self.hint()
        found = None if number is None else self._bytes(number)
        if number is None or found is None:
            files, logs = self.listed()
            said, number = number or 0, max([*files, *(last for _, last in logs)], default=0)
            if self.kept and number < said:
                raise StoreError(f"{self.path(said)} is missing: {HINT} says that it was committed; {RESTORE}")
            found = self._bytes(number)
            if found is None:
                return None
            if number > 1 or self.folder.is_file(HINT):  # else it is just to come
                warn(
                    f"{self.folder.path(HINT)} is missing or damaged: {self.path(number)} is the highest that is listed"
                )
        while True:
            following = self._file(number + 1)
            if following is not None:
                number, found = number + 1, following
                continue
            # whoever folds writes the log before files go: a number that is in neither was never committed
            end = self._end(number + 1)
            if not self.folder.is_file(COMMITS, self._log_name(number + 1)):
                return number, found
            last = self._bytes(end)
            if last is None:
                return number, found
            number, found = end, last

    def _bytes(self, number: int) -> bytes | None:
        data = self._file(number)
        if data is None and (log := self._log(number)) is not None:
            return log.get(number)
        return data

    def _file(self, number: int) -> bytes | None:
        return self.folder.read(COMMITS, file_of(number))

    def _log(self, number: int) -> dict[int, bytes] | None:
        """Return the lines of the log that holds a number, if there is one."""
        data = self.folder.read(COMMITS, self._log_name(number))
        if data is None:
            return None
        first = self._end(number) - self.block + 1
        return {first + row: line for row, line in enumerate(data.splitlines(keepends=True))}

    def _end(self, number: int) -> int:
        return -(-number // self.block) * self.block

    def _log_name(self, number: int) -> str:
        return log_of(self._end(number) - self.block + 1, self._end(number))

    # -- writing ------------------------------------------------------------------------------------------------------

    def append(self, document: dict[str, Any], after: Commit | None) -> Commit:
        """Commit a document after the commit that it was made from, and return its commit.

        ``document``: what JSON can hold, without infinities and NaN; ``after``: the head when the work began; None
        where there was none.
        """
        commit = Commit(
            1 if after is None else after.number + 1,
            document,
            None if after is None else after.sha256,
            process.me(),
            datetime.now(UTC).isoformat(timespec="microseconds"),
            uuid.uuid4().hex[:16],
        )
        data = encode(commit)
        commit = replace(commit, sha256=hashlib.sha256(data).hexdigest())
        if after is None:
            self.folder.make(COMMITS)
        # an upload that was tried again may find its own first one
        if not self.folder.create(data, COMMITS, file_of(commit.number)) and self._file(commit.number) != data:
            raise self.conflict(commit.number)
        self._check_stands(commit, data)
        with suppress(OSError):
            self.move_hint(commit.number)
        return commit

    def move_hint(self, number: int) -> None:
        """Let the hint say a number, if it does not say that of a later commit."""
        said = self.hint() or 0
        if said < number or (said > number and self._bytes(said) is None):
            digits = f"{number:020}".encode()
            self.folder.replace(digits + b" " + _check_of(digits) + b"\n", HINT)

    def _check_stands(self, commit: Commit, data: bytes) -> None:
        """Check that the number was free because it is the next one, and not because its commit was folded away."""
        log = self._log(commit.number)
        lost = log is not None and log.get(commit.number) != data
        said = None if lost else self.hint()  # before the next commit is looked for: whoever makes it moves the hint
        following = None if lost else self._bytes(commit.number + 1)
        if following is not None:
            with suppress(StoreError):
                lost = decode(following, commit.number + 1, "").parent != commit.sha256
        elif said is not None and said > commit.number:
            # the next one came and went, with the log of this number; a hint of what never was says nothing
            lost = self._bytes(said) is not None
        if lost:
            self.folder.remove(COMMITS, file_of(commit.number))
            raise self.conflict(commit.number)

    def conflict(self, number: int) -> Conflict:
        """Return the error of who comes too late for a number; it names who was faster."""
        who = "another process"
        with suppress(StoreError, OSError):
            who = self.read(number).writer
        return Conflict(
            f"{self.folder.path()} has changed: version {number} was committed by {who} meanwhile; nothing was "
            "overwritten, start again"
        )


def file_of(number: int) -> str:
    """Return the name of a commit's file."""
    return f"{number:020}.json"


def log_of(first: int, last: int) -> str:
    """Return the name of the log of commits."""
    return f"log-{first:020}-{last:020}.jsonl"


def _check_of(digits: bytes) -> bytes:
    return f"{binascii.crc32(digits):08x}".encode()


def check_document(
    path: str, said: Mapping[str, Any], kind: str, reads: Sequence[int], older: str = "restore it from a copy"
) -> None:
    """Refuse a document of another kind, or of a format that this version does not read: see :func:`check_format`."""
    if said.get("kind") != kind:
        raise StoreError(f"{path} is of kind {said.get('kind')!r:.60}, {kind!r} is wanted")
    check_format(path, said.get("format"), reads, older)


def check_format(what: str, found: object, reads: Sequence[int], older: str = "restore it from a copy") -> None:
    """Refuse a format that this version does not read.

    ``reads``: those that are read, ascending.
    """
    number = isinstance(found, int) and not isinstance(found, bool)
    if number and found in reads:
        return
    way = "install a newer one" if number and found > reads[-1] else older  # type: ignore[operator]
    raise StoreError(f"{what} has format {found!r:.60}, this dtoss reads {' and '.join(map(str, reads))}: {way}")


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")


def check_name(kind: str, name: str) -> None:
    """Check that a name is one that a folder of every system can have."""
    if not _NAME.match(name):
        raise InputError(
            f"{kind} {name!r} cannot be a name: up to 64 letters, digits, '.', '_' and '-' are wanted, the first a "
            "letter or digit"
        )


def path_in(place: str, *parts: str) -> str:
    """Return the path or URI of a folder in another one, whose options stay behind it.

    Examples
    --------
    >>> path_in("s3://bucket/store?region=eu", "watch", "default")
    's3://bucket/store/watch/default?region=eu'
    """
    base, mark, options = place.partition("?")
    return "/".join([base.rstrip("/"), *parts]) + mark + options


def names_in(folder: Folder) -> list[str]:
    """Return the names of the folders in a folder, sorted; of none where there is no such folder."""
    return [name for name in folder.folders() if _NAME.match(name)]
