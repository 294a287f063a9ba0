"""A file of a snapshot, mapped where it is local."""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dtoss.commits.folder import Folder, RemoteFolder
from dtoss.errors import StoreError

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Source:
    """A file of a snapshot: its path on its file system and its bytes, mapped where it is local."""

    path: str
    data: pa.Buffer
    mapped: mmap.mmap | None = None

    def check_size(self) -> None:
        """Check that the file still has the size with which it was mapped: reading past its end would be a signal.

        Raises
        ------
        StoreError
            If it has another one by now.
        """
        if self.mapped is not None and (found := self.mapped.size()) != self.data.size:
            raise StoreError(
                f"{self.path} has {found} bytes, it had {self.data.size} when it was opened: something has changed it; "
                "roll back or rebuild"
            )


def open_source(folder: Folder, path: str, size: int | None = None) -> Source:
    """Return a file of a snapshot, memory-mapped where it is local.

    Raises
    ------
    StoreError
        If it is missing or not of the size that the manifest states.
    """
    import pyarrow as pa

    try:
        if isinstance(folder, RemoteFolder):
            with folder.filesystem.open_input_file(path) as stream:
                source = Source(path, stream.read_buffer())
        else:
            with Path(path).open("rb") as stream:
                found = os.fstat(stream.fileno()).st_size
                # an empty file cannot be mapped
                mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) if found else None
            source = Source(path, pa.py_buffer(mapped if mapped is not None else b""), mapped)
    except (OSError, ValueError):
        raise StoreError(f"{path} is missing or cannot be read; roll back or rebuild") from None
    found = source.data.size
    if size is not None and found != size:
        raise StoreError(f"{path} has {found} bytes, the manifest says {size}: it is damaged; roll back or rebuild")
    return source
