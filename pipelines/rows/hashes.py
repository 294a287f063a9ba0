"""The SHA-256 of a file's bytes: by it a file that was moved, copied or touched is the same."""

from __future__ import annotations

import hashlib

from pyarrow import fs

_PIECE = 1 << 22


def sha256_of(filesystem: fs.FileSystem, path: str) -> str:
    """Return the SHA-256 of a file's bytes, as hexadecimal digits. Cost O(bytes)."""
    digest = hashlib.sha256()
    with filesystem.open_input_stream(path, compression=None) as stream:
        while data := stream.read(_PIECE):
            digest.update(data)
    return digest.hexdigest()
