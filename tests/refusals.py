"""What the system refuses to read, whoever asks: a file, and all that want a descriptor when there are none left."""

from __future__ import annotations

import os
import resource
from contextlib import contextmanager

REFUSAL = os.strerror(40)  # too many levels of symbolic links
NO_MORE = os.strerror(24)  # too many open files


@contextmanager
def unopenable(path):
    """A file that nobody can open meanwhile, not even the superuser: a link to itself."""
    data = path.read_bytes()
    path.unlink()
    path.symlink_to(path.name)
    try:
        yield
    finally:
        path.unlink()
        path.write_bytes(data)


@contextmanager
def descriptors(spare):
    """So many descriptors that this process may still open meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = max(map(int, os.listdir("/proc/self/fd"))) + 1 + spare  # noqa: PTH208
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    held = []
    try:
        while True:
            held.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        for _ in range(spare):
            os.close(held.pop())
    try:
        yield
    finally:
        for number in held:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def files_in(folder):
    """The files of a folder that are read by who verifies it."""
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "LEASE"]
