"""Files that a commit's document lists, each named by its bytes: written, compared with how they are listed, mapped.

Files that are mapped: as many as the system has room for maps, for none of them holds a descriptor.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dtoss.commits.folder import Folder, LocalFolder, RemoteFolder
from dtoss.errors import StoreError, naming

if TYPE_CHECKING:
    import pyarrow as pa

FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")
"""Of files that a document lists: never a path."""
HASHED_BYTES = 8 << 20
"""Files up to this size are read whole, and their hash is compared; of larger ones the size, and checksums of pages."""
HASH_DIGITS = 16
"""Hexadecimal digits of a hash in a name."""
ANY_BYTES = -1
"""The bytes of a file of which nothing says how many it has."""
_RUN_RATIO = 2
"""A run is at least so many times as large as the next."""
_SHA = re.compile(r"[0-9a-f]{64}\Z")


class Missing(StoreError):
    """A file is not there: it may have been folded or removed since it was listed."""


@dataclass(frozen=True)
class FileEntry:
    """A file that a document lists."""

    name: str
    rows: int  # How many it has
    bytes: int  # How many it has
    sha256: str  # Of its bytes, in hexadecimal digits

    @classmethod
    def of(cls, said: Any, *, sized: bool = True) -> FileEntry:
        """Return the file that JSON names; ``sized``: whether it says of how many bytes."""
        if not isinstance(said, dict):
            raise ValueError(f"a listed file is {said!r:.60}, an object is wanted")
        name, sha = said.get("name"), said.get("sha256")
        if not isinstance(name, str) or not FILE_NAME.match(name):
            raise ValueError(f"the name of a listed file is {name!r:.60}")
        if not isinstance(sha, str) or not _SHA.match(sha):
            raise ValueError(f"the sha256 of {name} is {sha!r:.80}")
        size = whole(said.get("bytes"), f"bytes of {name}") if sized else ANY_BYTES
        return cls(name, whole(said.get("rows"), f"rows of {name}"), size, sha)

    def as_json(self) -> dict[str, Any]:
        """Return what a document holds of it."""
        said: dict[str, Any] = {"name": self.name, "rows": self.rows, "sha256": self.sha256}
        return said if self.bytes == ANY_BYTES else said | {"bytes": self.bytes}


def whole(value: Any, name: str, least: int | None = 0) -> int:
    """Return a whole number that JSON holds.

    ``least``: the least one that is right; any when None.
    """
    if isinstance(value, bool) or not isinstance(value, int) or (least is not None and value < least):
        raise ValueError(f"{name} is {value!r:.60}, a whole number is wanted")
    return value


def write_entry(
    folder: Folder,
    data: bytes | pa.Buffer,
    rows: int,
    ending: str,
    *room: str,
    begin: str = "",
    digits: int = HASH_DIGITS,
) -> dict[str, Any]:
    """Write a file that is named by its bytes, to the disk, and return what a commit says of it.

    One of this name that stands already is written anew: power that failed may have left it short, and who clears what
    nothing names goes by its age. ``begin`` comes before the hash, of which the name has ``digits``.
    """
    digest = hashlib.sha256(data).hexdigest()
    name = f"{begin}{digest[:digits]}.{ending}"
    folder.make(*room)
    folder.write(data, *room, name)
    folder.sync([(*room, name)])
    return {"name": name, "rows": rows, "sha256": digest, "bytes": len(data)}


def checked_bytes(folder: Folder, room: str, file: FileEntry) -> bytes:
    """Return the bytes of a file, which are those that it was listed with."""
    path, data = folder.path(room, file.name), folder.read(room, file.name)
    if data is None:
        raise _missing(path)
    if len(data) != file.bytes:
        raise _short(path, len(data), file)
    if hashlib.sha256(data).hexdigest() != file.sha256:
        raise StoreError(f"{path} is damaged: it does not have the bytes that it was written with")
    return data


def open_entry(folder: Folder, room: str, file: FileEntry) -> pa.NativeFile:
    """Return a file of which some is read: a small one with its bytes compared, a large one with its size."""
    import pyarrow as pa

    path = folder.path(room, file.name)
    if file.bytes <= HASHED_BYTES or not isinstance(folder, LocalFolder | RemoteFolder):
        return pa.BufferReader(checked_bytes(folder, room, file))
    try:
        with naming(path):
            found = pa.OSFile(path) if isinstance(folder, LocalFolder) else folder.filesystem.open_input_file(path)
    except FileNotFoundError:
        raise _missing(path) from None
    if found.size() != file.bytes:
        raise _short(path, found.size(), file)
    return found


def _missing(path: str) -> Missing:
    return Missing(f"{path} is missing: a commit lists it; restore it from a copy")


def _short(path: str, size: int, file: FileEntry) -> StoreError:
    return StoreError(f"{path} is damaged: it has {size:,} bytes, its commit says {file.bytes:,}")


def map_entry(folder: Folder, room: str, name: str, remedy: str) -> pa.Buffer:
    """Return the bytes of a file, mapped on a disk and read whole from elsewhere.

    ``name``: ends, before its suffix, with digits of the SHA-256 of its bytes.

    Cost O(bytes): all are hashed, so that no damage becomes an answer. Whoever asks keeps what is returned.
    """
    path, found = folder.path(room, name), mapped_bytes(folder, room, name)
    if found is None:
        raise StoreError(f"{path} is missing: {remedy}")
    if not name.rpartition(".")[0].endswith(hashlib.sha256(found).hexdigest()[:HASH_DIGITS]):
        raise StoreError(f"{path} is damaged: it does not have the bytes that it was written with; {remedy}")
    return found


def mapped_bytes(folder: Folder, *parts: str) -> pa.Buffer | None:
    """Return the bytes of a file, mapped on a disk and read whole from elsewhere; None where it is missing."""
    if not isinstance(folder, LocalFolder):
        import pyarrow as pa

        data = folder.read(*parts)
        return None if data is None else pa.py_buffer(data)
    try:
        return map_file(folder.path(*parts))[0]
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def merged_from(sizes: Sequence[int], more: int) -> int:
    """Return how many of the oldest runs stay when rows come; the others become one run with them.

    Each run is at least twice as large as the next: there are few, and a row is written anew only so often as what came
    doubles.

    ``sizes``: rows of the runs, oldest first.
    """
    stay = len(sizes)
    while stay and _RUN_RATIO * more > sizes[stay - 1]:
        stay -= 1
        more += sizes[stay]
    return stay


def map_file(path: str) -> tuple[pa.Buffer, os.stat_result]:
    """Return the bytes of a file on a disk, mapped for as long as they are held, and which file it is.

    Python's own maps keep a descriptor each, before 3.13 always. Arrow's are closed here: what was read of one holds
    the whole map. One byte is read, for Arrow lets the disk fetch all that is; nothing waits for it.
    """
    import pyarrow as pa

    there = os.stat(path)  # noqa: PTH116
    if there.st_size == 0:  # nothing to map
        return pa.py_buffer(b""), there
    if stat.S_ISDIR(there.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    # as bytes: a name need not be UTF-8
    with naming(path), pa.memory_map(os.fsencode(path)) as file:
        first = file.read_buffer(1)
        return pa.foreign_buffer(first.address, file.size(), first), there
