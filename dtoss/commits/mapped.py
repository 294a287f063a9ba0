"""Files that are mapped: as many as the system has room for maps, for none of them holds a descriptor."""

from __future__ import annotations

import errno
import os
import stat

import pyarrow as pa

from dtoss.errors import naming


def map_file(path: str) -> tuple[pa.Buffer, os.stat_result]:
    """Return the bytes of a file on a disk, mapped for as long as they are held, and which file it is.

    Python's own maps keep a descriptor each, before 3.13 always. Arrow's are closed here: what was read of one holds
    the whole map. One byte is read, for Arrow lets the disk fetch all that is; nothing waits for it.
    """
    there = os.stat(path)  # noqa: PTH116
    if there.st_size == 0:  # nothing to map
        return pa.py_buffer(b""), there
    if stat.S_ISDIR(there.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    # as bytes: a name need not be UTF-8
    with naming(path), pa.memory_map(os.fsencode(path)) as file:
        first = file.read_buffer(1)
        return pa.foreign_buffer(first.address, file.size(), first), there
