"""Files by what they hold: the SHA-256 of their bytes, so that one that was moved, copied or touched is the same."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from dtoss.errors import InputError
from dtoss.history.batches import OF_FILE, Key
from dtoss.snapshots.place import filesystem_of

_PIECE = 1 << 22
_AT_ONCE = 4
"""Files that are read at a time."""


@dataclass(frozen=True)
class KeyedFile:
    """A file and its key, and what tells that it was not changed since.

    Parameters
    ----------
    path
        As Spark is to read it.
    key
        By its bytes.
    size, mtime_ns
        When it was read for the key.
    """

    path: str
    key: Key
    size: int
    mtime_ns: int


def keyed(paths: Sequence[str]) -> list[KeyedFile]:
    """Return the keys of files; each is read once more than Spark reads it. Cost O(bytes).

    Raises
    ------
    InputError
        If one cannot be read.
    """
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(_keyed, paths))


def check_unchanged(files: Sequence[KeyedFile]) -> None:
    """Check that files are as they were when their keys were made.

    Raises
    ------
    InputError
        If one has changed while it was read: its rows are not those of its key.
    """
    for file in files:
        if _facts(file.path) != (file.size, file.mtime_ns):
            raise InputError(f"{file.path} has changed while it was read: nothing was appended; start again")


def _keyed(path: str) -> KeyedFile:
    size, mtime = _facts(path)
    digest = hashlib.sha256()
    place, root = filesystem_of(path)
    try:
        with place.open_input_stream(root, compression=None) as stream:
            while data := stream.read(_PIECE):
                digest.update(data)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    return KeyedFile(path, Key(f"sha256:{digest.hexdigest()}", OF_FILE, path), size, mtime)


def _facts(path: str) -> tuple[int, int]:
    place, root = filesystem_of(path)
    info = place.get_file_info(root)
    return info.size or 0, info.mtime_ns or 0
