"""The servers of a plan as one worker sees them: who holds what, who answers, and whom it asks.

How well another server answers: whether it is asked at all, and how long it is waited for.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Protocol, TypeVar

import numpy as np
import orjson
from numpy.typing import NDArray

from dtoss.client.endpoint import Peers
from dtoss.locks import Lock
from dtoss.serve.cluster.served_plans import Placement, first_by_rank
from dtoss.serve.cluster.wire_messages import UNSAID, WIRE_SPOKEN, Link, Reply, Wire, read_wire, unread
from dtoss.serve.core.problems import Problem
from dtoss.shards.merge_answers import NOBODY
from dtoss.shards.share import Share

T = TypeVar("T")
PARTIAL_PATH, READY_PATH, ALIVE_PATH = "/partial", "/readyz", "/healthz"
NOT_HELD, OTHER_SNAPSHOT, NOT_READ = 421, 409, 501
"""What a server answers that does not hold a partition, has another snapshot, or does not read such messages."""
LOOK_AT_OTHERS_SECONDS = 1.0
"""Between two looks at what the others hold."""
LAST_RESORT_SECONDS = 1.0
"""For which a server is waited for that has failed, where nobody else has what is asked."""
HOP_SECONDS = 1.0
"""After which a server that has not said a word is taken for frozen."""
FAILED = 500
"""What a server answers that failed at one question, and may be asked others."""
PASSED_ON = (400, 413, 422, 429)
"""Answers of another server that are as good for the client."""


class Away(Exception):
    """A server did not answer."""

    def __init__(self, server: int) -> None:
        super().__init__(f"server {server} does not answer")
        self.server = server


class Slow(Exception):
    """A server has not answered for so long that the next copy is asked."""

    def __init__(self, server: int) -> None:
        super().__init__(f"server {server} takes its time")
        self.server = server


class NotHeld(Exception):
    """A server holds something else by now than it was taken to."""


class SnapshotElsewhere(Exception):
    """Another server has the snapshot no more, and others instead."""

    def __init__(self, server: int, snapshots: tuple[str, ...]) -> None:
        super().__init__(f"server {server} has snapshots {', '.join(snapshots) or 'that it does not name'}")
        self.server, self.snapshots = server, snapshots


class Teller(Protocol):
    """What is told of forwards; the metrics of a worker."""

    def forwarded(self, what: str, requests: int = 1) -> None:
        """Count something that happened to requests of other servers."""

    def forwarded_bytes(self, size: int, /) -> None:
        """Count the bytes of a question and its answer."""

    def unread_servers(self, count: int, /) -> None:
        """Say how many servers there are whose messages are not read."""


class PeerGroup:
    """The other servers; thread-safe, but for what is said to run on the loop."""

    def __init__(self, me: int, peers: Peers, placement: Placement, teller: Teller, event: Callable[..., None]) -> None:
        self.me = me
        self.hop_seconds = HOP_SECONDS
        self.teller, self.event = teller, event
        self._lock = Lock()
        self.loop: asyncio.AbstractEventLoop | None = None
        self._polling: asyncio.Task[None] | None = None
        self.peers = peers
        self.links: dict[int, Link] = {}
        self.health: dict[int, Health] = {}
        self.held_of: dict[int, frozenset[int]] = {}
        self.wires: dict[int, Wire] = {}
        self.unread: dict[int, str] = {}
        self._version = 0
        self._known: dict[Any, NDArray[np.int64]] = {}
        self.placement = placement
        self.said: set[int] = set()
        self._take(peers)
        for server in self.links:
            self.held_of[server] = placement.held_by(server)

    # -- what is known of the others ----------------------------------------------------------------------------------

    def follow(self, peers: Peers, placement: Placement) -> None:
        """Go on by other files; on the loop. Who holds what is what each says, until it has said something else."""
        self.placement = placement
        self._take(peers)
        self.teller.unread_servers(len(self.unread))
        for server in self.links:
            if server not in self.said:
                self.held_of[server] = placement.held_by(server)
        self._changed()

    def _take(self, peers: Peers) -> None:
        self.peers = peers
        for server in [*self.links]:
            if peers.addresses.get(server) != self.links[server].address or peers.token != self.links[server].token:
                self.links.pop(server).close()
                self.health.pop(server)
                self.wires.pop(server, None)
                self.unread = {one: why for one, why in self.unread.items() if one != server}
                self.held_of.pop(server, None)
                self.said.discard(server)
        for server, address in peers.addresses.items():
            if server != self.me and server not in self.links:
                self.links[server], self.health[server] = Link(address, peers.token), Health()
                self.held_of.setdefault(server, frozenset())

    def holds(self, server: int, held: Iterable[int]) -> None:
        """Take it from a server what it holds."""
        found = frozenset(held)
        self.said.add(server)
        if self.held_of.get(server) != found:
            self.held_of[server] = found
            self._changed()

    def hear(self, server: int, said: bytes | str | None) -> None:
        """Take it from a server which version its messages have."""
        try:
            wire = read_wire(said)
            why = unread(wire)
        except ValueError as error:
            wire, why = UNSAID, str(error)
        self.wires[server] = wire
        if self.unread.get(server) != why:
            rest = {one: known for one, known in self.unread.items() if one != server}
            self.unread = rest if why is None else rest | {server: why}
            self.teller.unread_servers(len(self.unread))
            self.event("server read again" if why is None else "server not read", server=server, detail=why)
            self._changed()
        if why is not None:
            raise Away(server)

    def wire_of(self, server: int) -> Wire:
        """Return the version of a server's messages; that of this one until it has said another one."""
        return self.wires.get(server, WIRE_SPOKEN)

    def _changed(self) -> None:
        with self._lock:
            self._version += 1
            self._known.clear()

    def server_of(
        self,
        share: Share,
        away: frozenset[int] = frozenset(),
        slow: frozenset[int] = frozenset(),
        last_resort: bool = True,
    ) -> NDArray[np.int64]:
        """Return whom to ask for each partition, int64 (P,): this server for what it holds, else a copy that answers.

        ``away``, ``slow``: servers that are not asked, or only where there is nobody else; ``last_resort``: whether one
        that has failed is asked all the same where nobody else has a partition.
        """
        closed = frozenset(server for server, health in self.health.items() if not health.may_be_asked())
        away |= frozenset(self.unread)
        left_out = away if last_resort else away | closed
        key = (share.mark, left_out, slow, closed)
        with self._lock:
            found = self._known.get(key)
            version = self._version
        if found is None:
            open_ones = [server for server in [*self.links] if server not in left_out]
            # the best comes last: each takes what it holds from those before
            orders = sorted({(server in closed, server in slow) for server in open_ones}, reverse=True)
            found = np.full(len(share.furthest), NOBODY, np.int64)
            for order in orders:
                some = [server for server in open_ones if (server in closed, server in slow) == order]
                chosen = first_by_rank({server: self.held_of.get(server, frozenset()) for server in some}, len(found))
                found = np.where(chosen == NOBODY, found, chosen)
            found[list(share.held)] = self.me
            with self._lock:
                if version == self._version and len(self._known) < 64:
                    self._known[key] = found
        return found

    def has_copies(self, share: Share, server: int) -> bool:
        """Return whether all that is asked of a server could be asked of others."""
        rest = self.server_of(share, frozenset((server,)), last_resort=False)
        return bool((rest[self.server_of(share) == server] != NOBODY).all())

    # -- asking -------------------------------------------------------------------------------------------------------

    def check(self, server: int, reply: Reply) -> None:
        """Refuse a reply other than 200."""
        if reply.status == 200:
            self.hear(server, reply.wire)
            return
        try:
            said = orjson.loads(reply.body)
        except ValueError:
            said = {}
        said = said if isinstance(said, dict) else {}
        if reply.status == NOT_HELD:
            self.holds(server, said.get("held", ()))
            raise NotHeld
        if reply.status == OTHER_SNAPSHOT:
            raise SnapshotElsewhere(server, tuple(said.get("snapshots", ())))
        detail = str(said.get("detail", ""))
        if reply.status == NOT_READ and "wire" in said:
            self.hear(server, str(said["wire"]))
        if reply.status in PASSED_ON:
            raise Problem(
                reply.status, detail, limit=said.get("limit"), value=said.get("value"), bound=said.get("bound"),
                retry_after=1 if reply.status == 429 else None,
            )  # fmt: skip
        if reply.status == FAILED:
            self.event("server failed at a question", server=server, detail=detail)
        else:
            self.failed(server, f"{reply.status} {detail}")
        raise Away(server)

    async def post(
        self, server: int, body: bytes, left: float, patient: bool, path: str = PARTIAL_PATH, asker: bytes = b""
    ) -> Reply:
        """Return a server's reply, which is told for whom it answers; on the loop."""
        link, health = self.links.get(server), self.health.get(server)
        if link is None or health is None:
            raise Away(server)
        if not health.may_be_asked():
            left = min(left, LAST_RESORT_SECONDS)
        began = time.perf_counter()
        try:
            if patient:
                reply = await self._patiently(link, path, body, left, asker)
            else:
                reply = await link.ask(path, body, min(left, health.hedge_after), asker)
        except TimeoutError:
            if patient:
                self.failed(server, "it does not answer in time")
                raise Away(server) from None
            self._opens(server, "it takes its time")
            raise Slow(server) from None
        except OSError as error:
            self.failed(server, str(error) or type(error).__name__)
            raise Away(server) from None
        self.teller.forwarded_bytes(len(body) + len(reply.body))
        if reply.status < 500:
            health.answered(time.perf_counter() - began)
        return reply

    async def _patiently(self, link: Link, path: str, body: bytes, left: float, asker: bytes) -> Reply:
        """Return the reply of a server whose answer may take its time, while it shows that it is there.

        One that says nothing at all for :data:`HOP_SECONDS`, or a third of the time that is left, is frozen.
        """
        hop = min(self.hop_seconds, left / 3)
        loop, limit = asyncio.get_running_loop(), asyncio.timeout(left)
        watching: list[asyncio.Task[None]] = []

        async def watch() -> None:
            try:
                while True:
                    await link.ask(ALIVE_PATH, None, hop / 2)
                    await asyncio.sleep(hop / 2)
            except OSError:
                limit.reschedule(loop.time())

        # most answers are there before anybody looks
        looks = loop.call_later(hop / 2, lambda: watching.append(loop.create_task(watch())))
        try:
            return await link.ask(path, body, limit, asker)
        finally:
            looks.cancel()
            for one in watching:
                one.cancel()

    def failed(self, server: int, why: str) -> None:
        """Take it that a server did not answer."""
        self.teller.forwarded("failed")
        self._opens(server, why)

    def _opens(self, server: int, why: str) -> None:
        """Count a failure, and say so where it was the one after which a server is not asked any more."""
        health = self.health.get(server)
        if health is not None and health.failed():
            self.event("server not asked any more", server=server, detail=why)

    # -- on the loop --------------------------------------------------------------------------------------------------

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look what the others hold from now on, each second; on the loop."""
        self.loop = loop
        self._polling = loop.create_task(self._poll())

    def stop(self) -> None:
        """Look no more; on the loop."""
        if self._polling is not None:
            self._polling.cancel()
        for link in self.links.values():
            link.close()

    async def _poll(self) -> None:
        while True:
            await asyncio.gather(*(self._look(server) for server in [*self.links]), return_exceptions=True)
            await asyncio.sleep(LOOK_AT_OTHERS_SECONDS)

    async def _look(self, server: int) -> None:
        """Look what a server holds, and whether one that failed answers again."""
        link, health = self.links[server], self.health[server]
        if not health.may_be_asked() and not health.probes():
            return
        was_open = health.open
        try:
            reply = await link.ask(READY_PATH, None, LOOK_AT_OTHERS_SECONDS)
            said = orjson.loads(reply.body)
            held = said.get("held")
        except (OSError, ValueError, AttributeError) as error:
            self.failed(server, str(error) or type(error).__name__)
            return
        if was_open:
            health.answered(health.hedge_after)
            self.event("server asked again", server=server)
        if isinstance(held, list):
            self.holds(server, held)
            with suppress(Away):
                self.hear(server, said.get("wire"))


FAILURES_IN_TEN_SECONDS, WITHIN_SECONDS = 5, 10.0
"""So many failures within so many seconds, and a server is not asked any more."""
PROBE_SECONDS = 1.0
"""Between two requests that look whether it answers again."""
HEDGE = 3.0
"""Times its 99th percentile that is waited before the next copy is asked."""
FASTEST_HEDGE, FIRST_HEDGE = 0.02, 0.5
"""Seconds: it is waited so long at least, and so long while little is known."""
_REMEMBERED, _LEARNED_EACH = 512, 32


class Health:
    """Of one other server; for one loop, and read by any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: deque[float] = deque(maxlen=FAILURES_IN_TEN_SECONDS)
        self._took: deque[float] = deque(maxlen=_REMEMBERED)
        self._since = 0
        self.hedge_after = FIRST_HEDGE
        self.open = False
        self._next_probe = 0.0

    def answered(self, seconds: float) -> None:
        """Take it that it answered."""
        self._failures.clear()
        self.open = False
        self._took.append(seconds)
        self._since += 1
        if self._since >= _LEARNED_EACH:
            self._since = 0
            p99 = float(np.quantile(np.array(self._took), 0.99))
            self.hedge_after = min(max(HEDGE * p99, FASTEST_HEDGE), FIRST_HEDGE)

    def failed(self) -> bool:
        """Take it that it did not; return whether it is not asked any more from now on."""
        now = self._clock()
        self._failures.append(now)
        if self.open:
            self._next_probe = now + PROBE_SECONDS
            return False
        if len(self._failures) == FAILURES_IN_TEN_SECONDS and now - self._failures[0] <= WITHIN_SECONDS:
            self.open, self._next_probe = True, now + PROBE_SECONDS
            return True
        return False

    def may_be_asked(self) -> bool:
        """Return whether requests go there; the one that looks whether it answers again is :meth:`probes`."""
        return not self.open

    def probes(self) -> bool:
        """Return whether it is time to look whether it answers again; True at most once a second."""
        now = self._clock()
        if not self.open or now < self._next_probe:
            return False
        self._next_probe = now + PROBE_SECONDS
        return True
