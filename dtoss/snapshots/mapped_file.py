"""A file of a snapshot, mapped where it is local."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dtoss.commits.folder import Folder, RemoteFolder
from dtoss.errors import StoreError, unreadable

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Source:
    """A file of a snapshot: its path on its file system and its bytes, mapped where it is local."""

    path: str  # On its file system
    data: pa.Buffer  # Its bytes
    inode: tuple[int, int] | None = None  # Device and number of the file that is mapped; None where nothing is

    def check_size(self) -> None:
        """Check that the file still has the size with which it was mapped: reading past its end would be a signal.

        One that was removed or replaced stays as it was, for whoever has mapped it.
        """
        if self.inode is None:
            return
        try:
            found = os.stat(self.path)  # noqa: PTH116
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise unreadable(self.path, error) from None
        if (found.st_dev, found.st_ino) == self.inode and found.st_size != self.data.size:
            raise StoreError(
                f"{self.path} has {found.st_size} bytes, it had {self.data.size} when it was opened: something has "
                "changed it; roll back or rebuild"
            )

    def free_pages(self) -> None:
        """Take the map's pages from this process, without the interpreter's lock; who still reads gets them again.

        Where Python unmaps a file all other threads wait meanwhile, for a millisecond each 15 MB.
        """
        if self.inode is not None and sys.platform == "linux":
            ctypes.CDLL(None).madvise(
                ctypes.c_void_p(self.data.address), ctypes.c_size_t(self.data.size), mmap.MADV_DONTNEED
            )


def open_source(folder: Folder, path: str, size: int | None = None) -> Source:
    """Return a file of a snapshot, memory-mapped where it is local: then no descriptor stays open."""
    try:
        if isinstance(folder, RemoteFolder):
            with folder.filesystem.open_input_file(path) as stream:
                source = Source(path, stream.read_buffer())
        else:
            from dtoss.commits.file_entry import map_file  # which loads pyarrow

            data, there = map_file(path)
            source = Source(path, data, (there.st_dev, there.st_ino))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        raise StoreError(f"{path} is missing; roll back or rebuild") from None
    except OSError as error:
        raise unreadable(path, error) from None
    found = source.data.size
    if size is not None and found != size:
        raise StoreError(f"{path} has {found} bytes, the manifest says {size}: it is damaged; roll back or rebuild")
    return source
