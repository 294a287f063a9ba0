"""Memory that goes back to the system when an answer is sent: what each worker keeps is not shared with the others."""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress

_ARENAS, _TRIM, _MAPPED = -8, -1, -3  # M_ARENA_MAX, M_TRIM_THRESHOLD, M_MMAP_THRESHOLD of malloc.h
LARGE_BYTES = 1 << 19
"""From which an array has pages of its own: those of a piece of a bulk request, some 300 kB, still share them."""
TRIM_BYTES = 1_000_000
"""Free bytes at the end of the heap from which on they are given back."""
MOST_ARENAS = 2
"""Heaps that the threads of a process share."""


def give_back() -> None:
    """Let this process and those that it forks give back memory that they have freed, once and before Arrow is loaded.

    With 10 M objects, one condition and every route asked, a worker's own memory is 39 MB with it and 54 without. It
    does nothing for memory of others than glibc's.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    with suppress(AttributeError, OSError):
        option = ctypes.CDLL(None).mallopt
        for name, value in ((_ARENAS, MOST_ARENAS), (_TRIM, TRIM_BYTES), (_MAPPED, LARGE_BYTES)):
            option(name, value)


class _Missing:
    """Says of pandas that it is not there."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(f"{name} is left out of servers", name=name)


def leave_out_pandas() -> None:
    """Keep pandas out of this process and those that it forks: Arrow looks for it, and a server is given no frames.

    It is half a second of a processor and 50 MB, with the first scalar that Arrow makes. Loaded already, it stays.
    """
    sys.meta_path.insert(0, _Missing)
