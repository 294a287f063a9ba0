"""Frequent questions: targets read in a microsecond, and those of one turn of the loop answered by one call.

No timer waits for more of them: a request by itself is answered at the end of the turn in which it came.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from math import inf, isfinite
from typing import NamedTuple, Protocol, TypeAlias
from urllib.parse import unquote_plus

import numpy as np
from numpy.typing import NDArray

from dtoss.geometry.space import FURTHEST, Space
from dtoss.kinds.all_kinds import ALL_KINDS
from dtoss.kinds.searches import DEFAULT_K
from dtoss.plain_numbers import FINITE
from dtoss.serve.answers.open_snapshots import ServedSnapshot
from dtoss.serve.cluster.cluster import Away, NotHeld, Slow, SnapshotElsewhere
from dtoss.serve.core.problems import Problem
from dtoss.serve.observability.log_lines import askers
from dtoss.serve.requests.bundles import FORWARD_PATH, hot_bodies, packed_bundle, packed_group, read_bodies
from dtoss.serve.state.worker_state import WorkerState
from dtoss.shards.merge_answers import NOBODY

_PLAIN = re.compile(rb"-?(0|[1-9][0-9]*)(\.[0-9]+)?").fullmatch
"""Of plain numbers: what is written otherwise means the same to the framework, or nothing."""
_JSON = re.compile(rb"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?").fullmatch
_NUMBERS = re.compile(rb"(?<![^&])(lon|lat|x|y|radius|max_distance|west|south|east|north|xmin|ymin|xmax|ymax)=([^&]*)")
"""The parameters that are numbers, whole ones aside."""
_SMALL = re.compile(rb"[1-9][0-9]?").fullmatch


class Reading(NamedTuple):
    """What the targets of a store look like."""

    first: bytes  # Names of the coordinates
    second: bytes  # Names of the coordinates
    furthest_x: float
    furthest_y: float
    most: int
    condition_length: int  # Characters of a condition
    line_bytes: int  # Bytes of a target


def reading_of(space: Space, most_k: int, condition_length: int, line_bytes: int) -> Reading | None:
    """Return how targets are read; None where positions have to be transformed first, which takes its time."""
    if space.to_lonlat:
        return None
    most = min(most_k, MOST)
    if space.geographic:
        return Reading(b"lon", b"lat", 180.0, 90.0, most, condition_length, line_bytes)
    return Reading(b"x", b"y", FURTHEST, FURTHEST, most, condition_length, line_bytes)


def read_target(url: bytes, reading: Reading) -> Target | None:
    """Return the question in a target, None where anything about it is unusual.

    Examples
    --------
    >>> from dtoss.geometry.space import space_of
    >>> reading = reading_of(space_of(), 1_000, 1_000, 8_192)
    >>> read_target(b"/knn?lon=2.5&lat=-7&k=3", reading)
    Target(kind=0, x=2.5, y=-7.0, k=3, radius=inf, where=None)
    >>> read_target(b"/knn?lon=2.5&lat=nan", reading), read_target(b"/range?lon=1&lat=1", reading)
    (None, None)
    """
    path, _, query = url.partition(b"?")
    if path == b"/knn":
        kind = HOT_KNN
    elif path == b"/range":
        kind = HOT_RANGE
    else:
        return None
    if len(url) > reading.line_bytes:
        return None
    x = y = radius = None
    k, where = None, None
    try:
        for pair in query.split(b"&"):
            name, _, value = pair.partition(b"=")
            if name == reading.first and x is None:
                x = _number(value)
            elif name == reading.second and y is None:
                y = _number(value)
            elif name == b"k" and kind == HOT_KNN and k is None and _SMALL(value):
                k = int(value)
            elif name == (b"max_distance" if kind == HOT_KNN else b"radius") and radius is None:
                radius = _number(value)
            elif name == b"where" and where is None:
                where = unquote_plus(value.decode("latin-1"))
            else:
                return None
    except ValueError:
        return None
    if x is None or y is None or not (abs(x) <= reading.furthest_x and abs(y) <= reading.furthest_y):
        return None
    if radius is None:
        if kind == HOT_RANGE:
            return None
        radius = inf
    elif not 0.0 <= radius < inf:
        return None
    if where is not None and not 0 < len(where) <= reading.condition_length:
        return None
    if kind == HOT_RANGE:
        return Target(kind, x, y, 0, radius, where)
    k = DEFAULT_K if k is None else k
    return Target(kind, x, y, k, radius, where) if 0 < k <= reading.most else None


def with_plain_numbers(query: bytes) -> bytes:
    """Return a query in which numbers are written as the framework takes them, all that commands take among them.

    Examples
    --------
    >>> with_plain_numbers(b"lon=.5&lat=-5.&radius=1e3&k=.5"), with_plain_numbers(b"lon=1_0&lat=%2B5")
    (b'lon=0.5&lat=-5.0&radius=1e3&k=.5', b'lon=1_0&lat=5.0')
    """
    return _NUMBERS.sub(_rewritten, query)


def _rewritten(found: re.Match[bytes]) -> bytes:
    name, text = found[1], unquote_plus(found[2].decode("latin-1"))
    if FINITE.fullmatch(text) is None or _JSON(found[2]) or not isfinite(number := float(text)):
        return found[0]
    return b"%b=%b" % (name, repr(number).replace("+", "").encode())


def _number(value: bytes) -> float:
    if _PLAIN(value) is None:
        raise ValueError(value)
    return float(value)


Floats: TypeAlias = NDArray[np.float64]

K_SIZES = (1, 8, 32, 64)
"""What k is rounded up to: the k nearest are the first of more."""
MOST = K_SIZES[-1]
"""The largest k, and more hits than a range has whose answer is small."""
SIZE_OF_K = (0, *(next(size for size in K_SIZES if size >= k) for k in range(1, MOST + 1)))
HELD_BACK_SECONDS = 0.005
"""Questions to a server wait so long at the most while it has a message in hand."""
HOT_KNN, HOT_RANGE, OBJECT, WINDOWS_ROUTE = 0, 1, 2, 3
"""Kinds of hot questions: the numbers of their routes in the metrics."""
GATHERED = {kind.name: number for number, kind in enumerate(kind for kind in ALL_KINDS.values() if kind.gathered)}
"""Those of kinds of questions about a place, by their names."""


class Target(NamedTuple):
    """A question: ``k`` nearest within ``radius``, or all within it where k = 0."""

    kind: int
    x: float
    y: float
    k: int
    radius: float
    where: str | None


class Asked(Protocol):
    """A question that waits for the end of the turn.

    ``size`` is what k is rounded up to; a range has k = 0, and its radius. ``asker`` is the name of its token.
    """

    kind: int
    x: float
    y: float
    k: int
    radius: float
    where: str | None

    @property
    def asker(self) -> str:
        """Return the name of its token."""

    def answered(self, served: ServedSnapshot, body: bytes) -> None:
        """Take the answer."""

    def elsewhere(self) -> None:
        """Ask on the long way: this one would hold up the others, or failed."""


class Waiting:
    """A question that came by way of the framework, whose answer a coroutine waits for."""

    __slots__ = ("answer", "asker", "k", "kind", "radius", "where", "x", "y")

    def __init__(self, target: Target, asker: str, answer: asyncio.Future[tuple[ServedSnapshot, bytes] | None]) -> None:
        self.kind, self.x, self.y, self.k, self.radius, self.where = target
        self.asker = asker
        self.answer = answer

    def answered(self, served: ServedSnapshot, body: bytes) -> None:
        """Take the answer."""
        if not self.answer.done():
            self.answer.set_result((served, body))

    def elsewhere(self) -> None:
        """Take it that there is none here."""
        if not self.answer.done():
            self.answer.set_result(None)


class Alike(NamedTuple):
    """Questions that one call of a kernel answers: of one kind, under one condition, for as many hits."""

    kind: int
    size: int  # What their k is rounded up to
    where: str | None
    asked: Sequence[Asked]
    places: Floats  # float64 (m, 2)
    radius: Floats  # float64 (m,)

    @property
    def nearest(self) -> bool:
        """Whether the nearest are wanted, and not all within the radius."""
        return self.kind == HOT_KNN

    @property
    def k(self) -> list[int]:
        """How many hits each wants."""
        return [one.k for one in self.asked]

    def take(self, rows: NDArray[np.int64]) -> Alike:
        """Return some of them; rows rise."""
        if len(rows) == len(self.asked):
            return self
        some = [self.asked[row] for row in rows.tolist()]
        return self._replace(asked=some, places=self.places[rows], radius=self.radius[rows])


class Gathering:
    """Questions of this turn of the loop."""

    def __init__(self, state: WorkerState, loop: asyncio.AbstractEventLoop) -> None:
        self._state = state
        self._loop = loop
        self._waiting: list[Asked] = []
        self._bundles: dict[tuple[int, ServedSnapshot], list[Alike]] = {}
        self._asked_now: dict[int, float] = {}
        self._in_hand: set[asyncio.Task[None]] = set()

    def add(self, asked: Asked) -> None:
        """Let a question wait for the end of this turn."""
        if not self._waiting:
            self._loop.call_soon(self._answer)
        self._waiting.append(asked)

    async def ask(self, target: Target, asker: str) -> tuple[ServedSnapshot, bytes] | None:
        """Return the answer to a question and the snapshot that gave it; None where it has to go to the pool."""
        waiting = Waiting(target, asker, self._loop.create_future())
        self.add(waiting)
        return await waiting.answer

    def _answer(self) -> None:
        waiting, self._waiting = self._waiting, []
        served = self._state.serving.now
        self._state.metrics.gathered(len(waiting))
        groups: dict[tuple[int, int, str | None], list[Asked]] = {}
        for asked in waiting:
            group = (asked.kind, SIZE_OF_K[asked.k], asked.where)
            if group in groups:
                groups[group].append(asked)
            else:
                groups[group] = [asked]
        for (kind, size, where), some in groups.items():
            places, radius = np.array([(one.x, one.y) for one in some]), np.array([one.radius for one in some])
            self._group(served, Alike(kind, size or MOST, where, some, places, radius))

    def _group(self, served: ServedSnapshot, group: Alike) -> None:
        try:
            if served.share is not None:
                kept = self._forward(served, group)
                if not len(kept):
                    return
                group = group.take(kept)
            self._here(served, group)
        except Exception as error:  # the long way says what is wrong, to each its own; not to those that were sent on
            self._state.log.event("gathering failed", error=repr(error))
            for asked in group.asked:
                asked.elsewhere()

    def _here(self, served: ServedSnapshot, group: Alike) -> None:
        """Answer what this server can answer by itself."""
        made = hot_bodies(served, group.nearest, group.size, group.where, group.places, group.radius, group.k)
        if made is None:
            for asked in group.asked:
                asked.elsewhere()
            return
        bodies, found = made
        self._handed_out(served, group, bodies)
        self._state.metrics.read(int(found.reads.sum()), len(group.asked))

    def _handed_out(self, served: ServedSnapshot, group: Alike, bodies: Sequence[bytes | None]) -> None:
        left = []
        for row, (asked, body) in enumerate(zip(group.asked, bodies, strict=True)):
            if body is None:
                left.append(row)
                asked.elsewhere()
            else:
                asked.answered(served, body)
        self._record(group, left)

    def _forward(self, served: ServedSnapshot, group: Alike) -> NDArray[np.int64]:
        """Return the rows whose homes are here; the others go to their servers at the end of this turn."""
        circle, share = self._state.circle, served.share
        assert circle is not None
        assert share is not None
        home = share.index.partitioning.nearest(share.index.space.vectors(group.places))
        server_of = circle.server_of(share)[home]
        self._loop.call_soon(self._send)
        others = np.unique(server_of[(server_of != circle.me) & (server_of != NOBODY)]).tolist()
        sent = [(server, group.take(np.flatnonzero(server_of == server))) for server in others]
        for server, some in sent:
            self._bundles.setdefault((server, served), []).append(some)
        for row in np.flatnonzero(server_of == NOBODY).tolist():
            group.asked[row].elsewhere()
        return np.flatnonzero(server_of == circle.me)

    def _send(self) -> None:
        """Send what waits for servers that have no message in hand; what comes meanwhile travels in the next one."""
        for server, served in [*self._bundles]:
            if server in self._asked_now and self._loop.time() - self._asked_now[server] < HELD_BACK_SECONDS:
                continue
            groups = self._bundles.pop((server, served))
            self._asked_now[server] = self._loop.time()
            task = self._loop.create_task(self._exchange(server, served, groups))
            self._in_hand.add(task)
            task.add_done_callback(self._in_hand.discard)

    def _send_held(self, server: int) -> None:
        self._asked_now.pop(server, None)
        if self._bundles:
            self._send()

    async def _exchange(self, server: int, served: ServedSnapshot, groups: list[Alike]) -> None:
        """Have questions answered by another server; those that it does not answer go the long way."""
        circle, share = self._state.circle, served.share
        assert circle is not None
        assert share is not None
        asked_of = sum(len(one.asked) for one in groups)
        self._state.metrics.forwarded("gathered", asked_of)
        try:
            patient = not circle.has_copies(share, server)
            seconds = self._state.settings.limits.pool_seconds
            self._loop.call_later(HELD_BACK_SECONDS, self._send_held, server)
            names = askers(asked.asker for one in groups for asked in one.asked)
            data = packed_bundle(
                served.name,
                [packed_group(one.nearest, one.size, one.where, one.places, one.radius, one.k) for one in groups],
            )
            reply = await circle.post(server, data, seconds, patient, FORWARD_PATH, names)
            self._send_held(server)
            circle.check(server, reply)
            bodies = read_bodies(reply.body)
            if len(bodies) != asked_of:
                raise ValueError(f"{len(bodies)} answers came to {asked_of} questions")
        except Exception as error:
            if isinstance(error, Slow):
                self._state.metrics.forwarded("hedged", asked_of)
            elif not isinstance(error, Away | NotHeld | SnapshotElsewhere | Problem):
                self._state.log.event("bundle failed", error=repr(error))
            bodies = [None] * asked_of
        at = 0
        for one in groups:
            self._handed_out(served, one, bodies[at : at + len(one.asked)])
            at += len(one.asked)

    def _record(self, group: Alike, left: list[int]) -> None:
        """Put those that were answered into the access log."""
        if left:
            group = group.take(np.delete(np.arange(len(group.asked)), left))
        if not group.asked:
            return
        radius = group.radius
        limit = None if radius.min() == inf else np.where(radius == inf, np.nan, radius)
        k = np.array(group.k) if group.nearest else None
        self._state.accesses.many(group.places[:, 0], group.places[:, 1], k, limit)
