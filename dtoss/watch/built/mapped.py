"""A file whose name holds the hash of its bytes, mapped; it is compared with its name once in a process."""

from __future__ import annotations

import hashlib

import pyarrow as pa

from dtoss.commits.folder import Folder, LocalFolder
from dtoss.errors import StoreError

HASH_DIGITS = 16
"""Hexadecimal digits of a hash at the end of a name."""


def mapped(folder: Folder, room: str, name: str, remedy: str) -> pa.Buffer:
    """Return the bytes of a file, mapped on a disk and read whole from elsewhere.

    Parameters
    ----------
    folder, room
        Where it is.
    name
        Ends, before its suffix, with digits of the SHA-256 of its bytes.
    remedy
        What helps where it is missing or damaged, for the message.

    Raises
    ------
    StoreError
        If it is missing, or a byte of it has changed; the message names it.
    OSError
        If it cannot be read.

    Notes
    -----
    Cost O(bytes): all are hashed, so that no damage becomes an answer. Whoever asks keeps what is returned.
    """
    path = folder.path(room, name)
    try:
        if isinstance(folder, LocalFolder):
            found = _on_disk(path)
        else:
            data = folder.read(room, name)
            if data is None:
                raise FileNotFoundError(path)
            found = pa.py_buffer(data)
    except (FileNotFoundError, NotADirectoryError):
        raise StoreError(f"{path} is missing: {remedy}") from None
    if not name.rpartition(".")[0].endswith(hashlib.sha256(found).hexdigest()[:HASH_DIGITS]):
        raise StoreError(f"{path} is damaged: it does not have the bytes that it was written with; {remedy}")
    return found


def _on_disk(path: str) -> pa.Buffer:
    with pa.OSFile(path) as file:
        if file.size() == 0:  # nothing to map
            return pa.py_buffer(b"")
    return pa.memory_map(path).read_buffer()
