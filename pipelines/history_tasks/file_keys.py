"""Files by what they hold: the SHA-256 of their bytes, so that one that was moved, copied or touched is the same.

Where the names of folders are values of columns, they are part of what a file holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from pyarrow import fs

from dtoss.errors import InputError
from dtoss.history.append_frame import OF_FILE, Key
from pipelines.rows.inputs import Inputs
from pipelines.rows.list_files import sha256_of

_AT_ONCE = 4
"""Files that are read at a time."""


@dataclass(frozen=True)
class KeyedFile:
    """A file and its key, and what tells that it was not changed since."""

    filesystem: fs.FileSystem
    path: str
    key: Key  # By its bytes
    size: int  # When it was read for the key
    mtime_ns: int  # When it was read for the key


def key_files(inputs: Inputs) -> list[KeyedFile]:
    """Return the keys of files; each is read once more than Spark reads it. Cost O(bytes)."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(_keyed, inputs.places, inputs.named, inputs.folders))


def check_unchanged(files: Sequence[KeyedFile]) -> None:
    """Check that files are as they were when their keys were made."""
    for file in files:
        if _facts(file.filesystem, file.path) != (file.size, file.mtime_ns):
            raise InputError(f"{file.key.source} has changed while it was read: nothing was appended; start again")


def _keyed(place: tuple[fs.FileSystem, str], named: str, folders: str) -> KeyedFile:
    filesystem, path = place
    source = path if named.startswith("file://") else named
    try:
        size, mtime = _facts(filesystem, path)
        digest = sha256_of(filesystem, path)
    except OSError as error:
        raise InputError(f"{source} cannot be read: {error}") from None
    key = f"sha256:{digest}" + (f" {folders}" if folders else "")
    return KeyedFile(filesystem, path, Key(key, OF_FILE, source), size, mtime)


def _facts(filesystem: fs.FileSystem, path: str) -> tuple[int, int]:
    info = filesystem.get_file_info(path)
    return info.size or 0, info.mtime_ns or 0
