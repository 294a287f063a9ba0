"""The process that makes generations: a child of the one that writes the log, so that neither waits for the other.

It begins when it is told to, and ends with its parent.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import NoReturn

from dtoss.fresh.fresh_counts import FreshCounts
from dtoss.fresh.generations import Generations, look_for_bases, make_generations

WORKS = (make_generations, look_for_bases)
MAKER_NICE = 19
"""How much the process stands back for those that answer and acknowledge, where cores are short."""
_WORDS = 1 << 12
"""Words that are read at once: one for each sync."""


@dataclass(frozen=True)
class Maker:
    """The process, as its parent knows it."""

    link: socket.socket  # At its end when the process has ended

    def tell(self) -> None:
        """Say that there may be rows; the first time, that generations are to be made."""
        with suppress(OSError):  # it has been told often, or is gone, which is seen at the link
            self.link.send(b"r")

    async def has_begun(self) -> bool:
        """Return whether the first generation was published, once it was; False where the process has ended."""
        with suppress(ConnectionError):
            return bool(await asyncio.get_running_loop().sock_recv(self.link, 1))
        return False

    def has_ended(self) -> bool:
        """Return whether the process is gone."""
        with suppress(ConnectionError):
            try:
                return not self.link.recv(1)
            except BlockingIOError:
                return False
        return True


@contextmanager
def start_maker(
    made: Callable[[], Generations],
    counts: FreshCounts,
    event: Callable[..., None],
    expires: Callable[..., None] | None = None,
) -> Iterator[Maker]:
    """Run the process that makes generations; it ends with this.

    ``made``: returns what makes generations, before it has begun; ``expires``: deletes what has expired, for a thread.
    To be called while the process has no other threads.
    """
    here, there = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        here.close()
        _work(made, there, counts, event, expires)
    there.close()
    here.setblocking(False)
    try:
        yield Maker(here)
    finally:
        here.close()
        os.waitpid(pid, 0)


def _work(
    made: Callable[[], Generations],
    parent: socket.socket,
    counts: FreshCounts,
    event: Callable[..., None],
    expires: Callable[..., None] | None,
) -> NoReturn:
    """Make generations as long as the parent is there, and end the process: nothing of its stack may go on here."""
    code = 1
    os.nice(MAKER_NICE)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it ends with its parent, which is told, too
    try:
        if parent.recv(1):
            generations, news, stop = made(), threading.Event(), threading.Event()
            generations.begin()
            counts.begin()
            standing = generations.standing
            event("builder started", pid=os.getpid(), seq=standing.seq, base=standing.base)
            parent.send(b"b")
            for work in WORKS:
                threading.Thread(target=work, args=(generations, news, stop), daemon=True).start()
            if expires is not None:
                threading.Thread(target=expires, args=(generations,), kwargs={"stop": stop}, daemon=True).start()
            while parent.recv(_WORDS):
                news.set()
        code = 0
    except ConnectionError:  # the parent is gone
        code = 0
    except BaseException as error:
        event("no generation", detail=f"{type(error).__name__}: {error}")
    finally:
        os._exit(code)
