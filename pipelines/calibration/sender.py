"""Processes that send requests when they are due and note when they were answered: nothing else may make them late.

A request is due at its time, whether the answers before it have come or not (an open loop). It waits where no
connection is free, and its latency counts from when it was due, so that a server that falls behind cannot hide it.
"""

from __future__ import annotations

import gc
import multiprocessing
import re
import select
import socket
import ssl
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from math import inf
from multiprocessing.connection import Connection
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.errors import InputError

AT_ONCE = 1 << 18
"""Bytes that are read at a time."""
SLEEPS = 2e-4
"""Seconds to the next request from which on the process sleeps; it looks again and again below that."""
CONNECT = 10.0
"""Seconds that a connection may take to be made."""
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_END = b"\r\n0\r\n\r\n"


@dataclass(frozen=True)
class Where:
    """Where requests go."""

    host: str
    port: int
    tls: bool  # Whether connections are encrypted
    connections: int  # How many a process has


@dataclass(frozen=True)
class Seen:
    """What a process saw of a window."""

    # float64 (n,). Seconds from when each request was due to its answer, infinite where none came or it was no 200
    latency: NDArray[np.float64]
    lag: NDArray[np.float64]  # float64 (n,). Seconds by which the process came later to each request than it was due
    # Share of the time in which the process had nothing to do. Without any, answers wait until it reads them
    spare: float
    statuses: Counter[int]  # Answers by status; 0 stands for connections that broke and answers that did not come


@cache
def trust() -> ssl.SSLContext:
    """Return what connections are encrypted with: whom this machine trusts when it is first asked."""
    return ssl.create_default_context()


@dataclass
class Link:
    """A connection and the request that is on it."""

    where: Where
    sock: Any = None
    number: int = -1  # Of the request that waits for its answer, -1 without one
    left: float = 0  # Bytes that are still to come; infinite where the answer says itself when it ends
    tail: bytes = b""  # The last bytes that came, or the beginning of a header that is not whole
    status: int = 0

    def open(self) -> None:
        """Connect; what was on an older connection is lost."""
        self.close()
        sock: Any = socket.create_connection((self.where.host, self.where.port), CONNECT)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.where.tls:
            sock = trust().wrap_socket(sock, server_hostname=self.where.host)
        sock.setblocking(False)
        self.sock, self.number, self.left, self.tail = sock, -1, 0, b""

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self.sock is not None:
            self.sock.close()
            self.sock = None

    def came(self) -> bool:
        """Read what has come, and return whether the answer is whole."""
        while True:
            try:
                data = self.sock.recv(AT_ONCE)
            except (BlockingIOError, ssl.SSLWantReadError):
                return False
            if not data:
                raise ConnectionResetError
            if self._whole(data):
                return True
            if not self.where.tls:
                return False

    def _whole(self, data: bytes) -> bool:
        if self.left == 0:
            data = self.tail + data
            end = data.find(b"\r\n\r\n")
            if end < 0:
                self.tail = data
                return False
            self.status = int(data[9:12])
            length = _LENGTH.search(data, 0, end + 2)
            self.left = inf if length is None else int(length.group(1)) + end + 4
            self.tail = b""
        if self.left == inf:
            self.tail = (self.tail + data)[-len(_END) :]
            whole = self.tail == _END
        else:
            self.left -= len(data)
            whole = self.left <= 0
        if whole:
            self.left, self.tail = 0, b""
        return whole


@dataclass
class Sender:
    """Connections that send requests."""

    where: Where
    requests: Sequence[bytes] = ()  # Bytes of the requests, sent in turn
    links: dict[int, Link] = field(default_factory=dict)  # Its connections by their file descriptors
    poll: Any = None

    def connect(self) -> None:
        """Open all connections anew, so that none has an answer on its way."""
        self.close()
        self.poll = select.poll()
        for _ in range(self.where.connections):
            self._add(Link(self.where))

    def close(self) -> None:
        """Close all connections."""
        for link in self.links.values():
            link.close()
        self.links = {}

    def _add(self, link: Link) -> None:
        link.open()
        self.links[link.sock.fileno()] = link
        self.poll.register(link.sock.fileno(), select.POLLIN)

    def _again(self, number: int, link: Link) -> None:
        """Open a connection that broke again."""
        self.poll.unregister(number)
        del self.links[number]
        self._add(link)

    def _send(self, link: Link, request: bytes) -> None:
        """Send a request, on another connection where the server has closed the old one meanwhile."""
        try:
            link.sock.send(request)
        except ConnectionError:
            number = link.number
            self._again(link.sock.fileno(), link)
            link.number = number
            link.sock.send(request)

    def at_times(self, due: NDArray[np.float64], begin: float, patience: float) -> Seen:
        """Send each request when it is due, and return what was seen.

        ``due``: float64 (n,), ascending. Seconds after the beginning; ``patience``: seconds after the last is due for
        which answers are waited for.
        """
        count, times, requests = len(due), due.tolist(), self.requests
        latency, lag, statuses = [inf] * count, [0.0] * count, Counter[int]()
        idle, waiting = list(self.links.values()), deque[int]()
        at = done = 0
        first = before = monotonic() - begin
        spare, slept, busy = 0.0, 0.0, True
        last = (times[-1] if count else 0.0) + patience
        while done < count:
            now = monotonic() - begin
            spare += slept if busy else now - before
            slept, before, busy = 0.0, now, False
            while at < count and times[at] <= now:
                busy = True
                lag[at] = now - times[at]
                waiting.append(at)
                at += 1
            while waiting and idle:
                link = idle.pop()
                link.number = waiting.popleft()
                self._send(link, requests[link.number % len(requests)])
            rest = (times[at] if at < count else last) - now
            if rest <= 0 and at == count:
                break
            if rest > SLEEPS:
                asleep = monotonic()
                select.select(list(self.links), [], [], rest - SLEEPS / 2)
                slept = monotonic() - asleep
            for number, _ in self.poll.poll(0):
                link, busy = self.links[number], True
                try:
                    if not link.came():
                        continue
                    status = link.status
                except OSError:
                    status, asked = 0, link.number
                    self._again(number, link)
                    if asked < 0:
                        continue
                    link.number = asked
                statuses[status] += 1
                if status == 200:
                    latency[link.number] = monotonic() - begin - times[link.number]
                link.number = -1
                idle.append(link)
                done += 1
        if done < count:
            statuses[0] += count - done
            self.connect()
        return Seen(np.array(latency), np.array(lag), spare / (before - first) if before > first else 1.0, statuses)

    def one_after_another(self, begin: float, seconds: float) -> tuple[int, Counter[int]]:
        """Send the next request on each connection when the one before is answered; return how many were, by status.

        ``seconds``: for how long; what is answered later does not count.
        """
        self.connect()
        statuses = Counter[int]()
        select.select([], [], [], max(begin - monotonic(), 0.0))
        sent = 0
        for link in self.links.values():
            link.sock.send(self.requests[sent % len(self.requests)])
            sent += 1
        while (rest := begin + seconds - monotonic()) > 0:
            for number, _ in self.poll.poll(rest * 1000):
                link = self.links[number]
                if link.came():
                    statuses[link.status] += 1
                    link.sock.send(self.requests[sent % len(self.requests)])
                    sent += 1
        self.connect()
        return statuses[200], statuses


def work(pipe: Any, where: Where) -> None:
    """Do what comes by a pipe until it ends: a name of a method and its arguments; the answer goes back."""
    gc.disable()
    sender = Sender(where)
    try:
        while True:
            name, arguments = pipe.recv()
            try:
                if name == "requests":
                    sender.requests = arguments[0]
                    pipe.send(None)
                else:
                    pipe.send(getattr(sender, name)(*arguments))
            except OSError as error:
                pipe.send(error)
    except (EOFError, KeyboardInterrupt):
        pass
    finally:
        sender.close()


AHEAD = 0.05
"""Seconds from when processes are told to when they begin."""


@dataclass(frozen=True)
class Window:
    """What was seen while requests came at a rate."""

    rate: float  # Requests/s that were due
    seconds: float
    p50: float  # p50, p99: seconds from when a request was due within which so many were answered
    p99: float
    lag: float  # Seconds within which senders came to 99 % of the requests after these were due
    spare: float  # Share of the time in which the busiest sender had nothing to do
    statuses: Counter[int]  # Answers by status; 0 where none came


class Senders:
    """Processes that send requests."""

    def __init__(self, where: Where, processes: int) -> None:
        self.where = where
        self._running: list[tuple[Any, Connection]] = []
        context = multiprocessing.get_context("spawn")
        shares = np.diff(np.linspace(0, where.connections, processes + 1).astype(int)).tolist()
        try:
            for share in shares:
                mine, theirs = context.Pipe()
                mine_of = Where(where.host, where.port, where.tls, share)
                process = context.Process(target=work, args=(theirs, mine_of), daemon=True)
                process.start()
                theirs.close()
                self._running.append((process, mine))
            self._all("connect", [()] * len(self._running))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Senders:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes."""
        for process, pipe in self._running:
            pipe.close()
            process.join(5.0)
            if process.is_alive():
                process.terminate()
                process.join()
        self._running = []

    def load(self, requests: Sequence[bytes]) -> None:
        """Give the processes the requests that they send, each a share."""
        many = len(self._running)
        self._all("requests", [(list(requests[at::many] or requests),) for at in range(many)])

    def at_rate(self, rate: float, seconds: float, patience: float, rng: np.random.Generator) -> Window:
        """Return what is seen while requests come at a rate, at random times that do not depend on one another.

        ``patience``: seconds for which answers are waited for after that.
        """
        each = rate / len(self._running)
        due = [np.sort(rng.uniform(0.0, seconds, rng.poisson(each * seconds))) for _ in self._running]
        begin = monotonic() + AHEAD
        seen: list[Seen] = self._all("at_times", [(times, begin, patience) for times in due])
        latency, lag = (np.concatenate([getattr(one, name) for one in seen]) for name in ("latency", "lag"))
        statuses = sum((one.statuses for one in seen), Counter[int]())
        if not len(latency):
            latency, lag = np.array([np.inf]), np.array([0.0])
        p50, p99 = np.quantile(latency, (0.5, 0.99), method="higher").tolist()
        return Window(rate, seconds, p50, p99, float(np.quantile(lag, 0.99)), min(one.spare for one in seen), statuses)

    def at_most(self, seconds: float) -> tuple[float, Counter[int]]:
        """Return the requests/s that are answered where each connection always waits for one, and all by status."""
        begin = monotonic() + AHEAD
        seen = self._all("one_after_another", [(begin, seconds)] * len(self._running))
        return sum(count for count, _ in seen) / seconds, sum((by for _, by in seen), Counter[int]())

    def _all(self, name: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        found = []
        try:
            for (_, pipe), given in zip(self._running, arguments, strict=True):
                pipe.send((name, given))
            found = [pipe.recv() for _, pipe in self._running]
        except (EOFError, BrokenPipeError, ConnectionResetError):
            raise InputError("a process that sends requests is gone: is there memory for it?") from None
        for one in found:
            if isinstance(one, OSError):
                raise InputError(f"{self.where.host}:{self.where.port} cannot be asked any more: {one}")
        return found
