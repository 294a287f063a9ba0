"""One parent and its workers: it forks them, starts another where one has died, and ends them.

The parent has no loop and no threads of its own. Whatever comes, a signal, the end of a child, a word of a worker that
listens now, wakes it up.

The port of a server: one listening socket for each worker, so that the kernel shares connections out evenly.

Of one socket that several loops wait on, one of them takes nearly all connections. A socket ends with its worker, and
with it the connections that nobody has accepted yet; the port stays with the parent.
"""

from __future__ import annotations

import ipaddress
import os
import select
import signal
import socket
import sys
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn

from dtoss.errors import InputError
from dtoss.snapshots.deferred_signals import set_handlers

HEARD = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
SECONDS_TO_END = 4.7
"""That workers have before they are killed; it is 5 until a server has ended."""
MOST_DEATHS = 5
"""Workers that may die within :data:`DEATHS_WITHIN` seconds before the server gives up."""
DEATHS_WITHIN = 60.0
BESIDE_SECONDS = 0.5
"""Between two beginnings of the child that answers nobody."""


class Post(NamedTuple):
    """What a worker is handed at its beginning."""

    number: int  # Of the worker, from 0; one that stands in for a dead one has its number
    again: bool  # Whether it stands in for a dead one
    socket: socket.socket | None  # Its own, bound to the server's port; None where it answers no connections
    parent: int  # File descriptor that is at its end when the parent is gone
    ready: Callable[[], None]  # To be called once the worker listens


@dataclass
class _Child:
    number: int
    pid: int
    word: int
    """File descriptor from which it can be read that the worker is ready."""
    ready: bool = False
    began: float = field(default_factory=time.monotonic)


class _Heard:
    """Signals that have come, and a pipe that wakes up who waits for them."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.pipe = os.pipe()
        for end in self.pipe:
            os.set_blocking(end, False)

    def take(self) -> list[int]:
        with suppress(BlockingIOError):
            while os.read(self.pipe[0], 1024):
                pass
        taken, self.numbers = self.numbers, []
        return taken


@contextmanager
def _hearing() -> Iterator[_Heard]:
    heard = _Heard()
    before = {number: signal.getsignal(number) for number in HEARD}
    wakeup = signal.set_wakeup_fd(heard.pipe[1], warn_on_full_buffer=False)
    for number in HEARD:
        signal.signal(number, lambda got, _frame: heard.numbers.append(got))
    try:
        yield heard
    finally:
        set_handlers(before)
        signal.set_wakeup_fd(wakeup)
        for end in heard.pipe:
            os.close(end)


def keep_running(
    port: Port,
    workers: int,
    work: Callable[[Post], int],
    *,
    ready: Callable[[], None],
    died: Callable[[int, int, str], None],
    every_second: Callable[[Callable[[], bool]], None] = lambda interrupted: None,
    beside: Callable[[Post], int] | None = None,
) -> int:
    """Return the exit code of a server, 0 after SIGTERM or SIGINT, 1 where its workers keep dying.

    ``beside``: the work of one more child, whose number is that of the workers: it answers nobody, and however often
    it dies another one takes its place.
    ``ready``: is called once, when all workers listen; ``died``: is called with the number, the process id and the fate
    of each worker that has died; ``every_second``: is called once a second, when all workers run; with a function that
    says whether a signal has come meanwhile.
    """
    alive = os.pipe()
    children: dict[int, _Child] = {}
    deaths: deque[float] = deque()
    with _hearing() as heard:

        def start(number: int, again: bool) -> None:
            words = [child.word for child in children.values()]
            place, does = (port.another(), work) if number < workers else (None, beside)
            children[number] = _forked(place, number, again, does or work, alive, [*heard.pipe, *words])

        every = workers + (beside is not None)
        due: float | None = None  # when the one beside is to be begun again
        try:
            for number in range(every):
                start(number, again=False)
            told = False
            while True:
                _wait(heard, children, 1.0)
                signals = heard.take()
                if {signal.SIGTERM, signal.SIGINT} & {*signals}:
                    return 0
                if signal.SIGHUP in signals:
                    _tell(children, signal.SIGHUP)
                for child, fate in _ended(children):
                    died(child.number, child.pid, fate)
                    now = time.monotonic()
                    if child.number == workers:
                        due = max(child.began + BESIDE_SECONDS, now)
                        continue
                    deaths.append(now)
                    while deaths[0] < now - DEATHS_WITHIN:
                        deaths.popleft()
                    if len(deaths) > MOST_DEATHS:
                        return 1
                    start(child.number, again=True)
                if due is not None and time.monotonic() >= due:
                    start(workers, again=True)
                    due = None
                if not told and len(children) == every and all(child.ready for child in children.values()):
                    told = True
                    ready()
                if told:
                    every_second(lambda: bool(heard.numbers))
        finally:
            _end(heard, children)
            for end in alive:
                os.close(end)


def _forked(
    place: socket.socket | None,
    number: int,
    again: bool,
    work: Callable[[Post], int],
    alive: tuple[int, int],
    ends: list[int],
) -> _Child:
    """Return a new child, which closes the files of the parent's in ``ends``."""
    word = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    # no handler of the parent's may run in the child
    signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
    try:
        with warnings.catch_warnings():
            # of idle threads that a batch has used, in Python from 3.12 on; dtoss and Arrow begin with new ones
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            post = Post(number, again, place, alive[0], lambda: _say(word[1]))
            _work(post, work, [*ends, alive[1], word[0]])
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HEARD)
    # the socket is the worker's alone: it has to close when the worker ends, however it does
    if place is not None:
        place.close()
    os.close(word[1])
    return _Child(number, pid, word[0])


def _say(word: int) -> None:
    os.write(word, b"r")
    os.close(word)


def _work(post: Post, work: Callable[[Post], int], ends: list[int]) -> NoReturn:
    """Do a worker's work and end the process: nothing of the parent's stack may go on here."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        for number, does in zip(HEARD, (signal.SIG_DFL, signal.SIG_IGN, signal.SIG_IGN, signal.SIG_DFL), strict=True):
            signal.signal(number, does)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HEARD)
        for end in ends:
            os.close(end)
        code = work(post)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException as error:
        if os.environ.get("DTOSS_DEBUG"):
            traceback.print_exc()
        else:
            said = " ".join(str(error).split())
            print(f"error: worker {post.number}: {type(error).__name__}: {said}", file=sys.stderr)
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _wait(heard: _Heard, children: dict[int, _Child], seconds: float) -> None:
    """Wait for a signal, or a worker that is ready."""
    words = {child.word: child for child in children.values() if not child.ready}
    readable, _, _ = select.select([heard.pipe[0], *words], [], [], seconds)
    for word in readable:
        if word in words and os.read(word, 1):
            words[word].ready = True


def _tell(children: dict[int, _Child], number: signal.Signals) -> None:
    for child in children.values():
        with suppress(ProcessLookupError):
            os.kill(child.pid, number)


def _ended(children: dict[int, _Child]) -> list[tuple[_Child, str]]:
    """Return the children that have ended, which are no more among them, with how each did."""
    found = []
    for child in list(children.values()):
        pid, status = os.waitpid(child.pid, os.WNOHANG)
        if pid:
            del children[child.number]
            os.close(child.word)
            code = os.waitstatus_to_exitcode(status)
            found.append((child, f"exit code {code}" if code >= 0 else signal.Signals(-code).name))
    return found


def _end(heard: _Heard, children: dict[int, _Child]) -> None:
    """End all workers, those that take too long by force."""
    _tell(children, signal.SIGTERM)
    until = time.monotonic() + SECONDS_TO_END
    while children and (left := until - time.monotonic()) > 0:
        select.select([heard.pipe[0]], [], [], min(left, 0.2))
        heard.take()
        _ended(children)
    _tell(children, signal.SIGKILL)
    for child in children.values():
        os.waitpid(child.pid, 0)
        os.close(child.word)
    children.clear()


@dataclass(frozen=True, eq=False)
class Port:
    """A port that is held, by a socket that is bound and does not listen."""

    family: socket.AddressFamily
    address: tuple[str | int, ...]  # As sockets of the family take it: host and port first
    held: socket.socket  # Keeps the port while no worker listens

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return is_loopback(str(self.address[0]))

    def url(self, scheme: str) -> str:
        """Return the address as a client writes it."""
        host = f"[{self.address[0]}]" if self.family == socket.AF_INET6 else self.address[0]
        return f"{scheme}://{host}:{self.address[1]}"

    def another(self) -> socket.socket:
        """Return one more socket that is bound to the port; it takes connections once somebody listens."""
        return _bound(self.family, self.address, shared=True)

    def close(self) -> None:
        """Give the port back."""
        self.held.close()


def is_loopback(host: str) -> bool:
    """Return whether an address, without a name, is one of this machine alone."""
    return ipaddress.ip_address(host.partition("%")[0]).is_loopback


def is_this_machine(host: str) -> bool:
    """Return whether a host that a URL names is this machine in any case: by an address of loopback, or its name."""
    try:
        return is_loopback(host)
    except ValueError:
        return host == "localhost"


def resolve_host(host: str, port: int) -> tuple[socket.AddressFamily, tuple[str | int, ...]]:
    """Return the family and the first address of a host."""
    if not 0 <= port < 1 << 16:
        raise InputError(f"--port is {port}: 0 to 65535 is wanted, 0 takes a free one")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise InputError(f"--host {host!r} is no address of this machine: {error.strerror or error}") from None
    family, _, _, _, address = found[0]
    return family, tuple(part for part in address if isinstance(part, str | int))


def hold(host: str, port: int) -> Port:
    """Return the port, held for the workers; port 0 takes a free one."""
    family, address = resolve_host(host, port)
    # one that shares the port with nobody: sockets that share it would be let in beside those of another server
    alone = _bound(family, address, shared=False)
    address = (address[0], alone.getsockname()[1], *address[2:])
    alone.close()
    return Port(family, address, _bound(family, address, shared=True))


def _bound(family: socket.AddressFamily, address: tuple[str | int, ...], *, shared: bool) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(address[0] != "::"))
        made.bind(address)
        made.setblocking(False)
    except OSError as error:
        made.close()
        raise InputError(
            f"port {address[1]} of {address[0]} cannot be had: {error.strerror or error}; choose another one, or 0 for "
            "any that is free"
        ) from None
    return made
