"""Compiling that somebody waits for: how far it is, on stderr, and a second process that takes a part of it."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from dtoss.compiled.first_kernels import needed_with, next_after
from dtoss.compiled.kept_places import kept_kernels
from dtoss.compiled.notice import QUIET
from dtoss.compiled.second_process import start_next

FIRST_SECONDS = 2.0
"""From the first line to the second; from each other to the next as long as all has taken by then."""
MOST_SECONDS = 30.0
"""From one line to the next."""


@dataclass
class Compiled:
    """What a process has compiled, and what it is known to need."""

    began: float = field(default_factory=time.monotonic)
    due: float = 0.0  # Seconds after which it is told of next
    before: frozenset[str] = field(default_factory=kept_kernels)  # Kernels of which some code was kept
    needed: set[str] = field(default_factory=set)
    done: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, kernel: str) -> None:
        """Note that a kernel is compiled now, and what is needed with it."""
        with self.lock:
            self.needed |= {*needed_with(kernel), *_EXPECTED} - self.before | {kernel}

    def line(self) -> str:
        """Return how far it is."""
        with self.lock:
            done, needed = self.done | (kept_kernels() - self.before) & self.needed, len(self.needed)
        spent = time.monotonic() - self.began
        return f"dtoss: compiling, kernel {min(len(done) + 1, needed)} of {needed}, {spent:.0f} s so far"


_NOW: list[Compiled] = []
"""What this process compiles, once there is anything."""
_EXPECTED: list[str] = []
"""Kernels of which it is known that all will be compiled, in this order."""


def expect(kernels: Sequence[str]) -> None:
    """Note that all of these kernels will be compiled, in this order, where they are not kept."""
    _EXPECTED[:] = kernels


@contextmanager
def show_compiling(kernel: str) -> Iterator[None]:
    """Show on stderr that a kernel is compiled, at once and ever more seldom, unless quiet is wanted."""
    if not _NOW:
        _NOW.append(Compiled())
        start_next(_EXPECTED[::-1] or next_after(kernel))
    now, stop = _NOW[0], threading.Event()
    now.begin(kernel)
    watcher = threading.Thread(target=_tell, args=(now, stop), daemon=True)
    if not os.environ.get(QUIET):
        watcher.start()
    try:
        yield
    finally:
        stop.set()
        if watcher.ident is not None:
            watcher.join()
        with now.lock:
            now.done.add(kernel)


def _tell(now: Compiled, stop: threading.Event) -> None:
    while True:
        spent = time.monotonic() - now.began
        if spent >= now.due:
            hint = "" if now.due else "; once for this processor, and `dtoss warm` does it beforehand"
            now.due = max(FIRST_SECONDS, spent + min(spent, MOST_SECONDS))
            print(now.line() + hint, file=sys.stderr, flush=True)
        if stop.wait(max(now.due - spent, 0.0)):
            return
