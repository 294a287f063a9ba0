"""What tells a process from all others: for leases, marks, and the names of files that are only passing.

A file or folder that is made under a passing name carries the process in it, so that whoever cleans up knows at once
whether its maker may still go on.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
import time
import uuid
from functools import cache
from pathlib import Path

STALE_SECONDS = 24 * 3600
"""Age from which on what another machine was making is debris."""
_TRACE = re.compile(r"([0-9a-f]+)-([0-9a-f]+)-([0-9a-zA-Z]*)-([0-9a-f]{8})-([0-9a-f]{12})\Z")


def me() -> str:
    """Return this process as ``HOST:PID``."""
    return f"{socket.gethostname()}:{os.getpid()}"


def passing_name() -> str:
    """Return the end of a name that nothing else has: when it was made, by which process, where."""
    pid = os.getpid()
    return f"{int(time.time()):x}-{pid:x}-{_start_of_this(pid)}-{_machine()}-{uuid.uuid4().hex[:12]}"


def is_left(name: str) -> bool:
    """Return whether a name ends as :func:`passing_name` made it, and its process is gone.

    Of a process of another machine that is so after a day.
    """
    found = _TRACE.search(name.rpartition(".")[2])
    if found is None:
        return False
    made, pid, start, machine, _ = found.groups()
    if machine != _machine():
        return time.time() - int(made, 16) > STALE_SECONDS
    return not runs(int(pid, 16), start, simple=True)


def is_passing(name: str) -> bool:
    """Return whether a name ends as :func:`passing_name` made it."""
    return _TRACE.search(name.rpartition(".")[2]) is not None


def runs(pid: int, start: str, *, simple: bool = False) -> bool:
    """Return whether a process of this machine runs that began at ``start``; any of its number where that is empty."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    now = start_of(pid)
    return now != "ended" and (not start or not now or start == (_simple(now) if simple else now))


@cache
def boot() -> str:
    """Return what tells this start of the machine, and this container on it, from others of the same name."""
    try:
        found = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{found}/{os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115
    except OSError:
        return ""


def start_of(pid: int) -> str:
    """Return when a process began, in the machine's own words; "ended" if it waits to be reaped, "" if unknown."""
    if Path("/proc/self/stat").exists():
        try:
            # the name in parentheses may hold anything
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            return ""
        return "ended" if fields[0] in (b"Z", b"X") else fields[19].decode()
    import subprocess

    try:
        said = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return said.stdout.strip()


@cache
def _start_of_this(pid: int) -> str:
    return _simple(start_of(pid))


# a child may have the number of an ancestor that is gone
os.register_at_fork(after_in_child=_start_of_this.cache_clear)


@cache
def _machine() -> str:
    return hashlib.sha256(f"{socket.gethostname()}/{boot()}".encode()).hexdigest()[:8]


def _simple(start: str) -> str:
    return "".join(letter for letter in start if letter.isascii() and letter.isalnum())
