"""What happens in a watch as the page is told: how often, where lately, to which subscriptions, and to one of them.

How many events subscriptions had in all, as far as counting them is cheap beside what is shown.
"""

from __future__ import annotations

import heapq
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from time import thread_time
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.errors import InputError, StoreError
from dtoss.geometry.space import Space
from dtoss.locks import Lock
from dtoss.serve.map.subscriptions_in_view import SubscriptionPlaces, marks_of
from dtoss.serve.tiles.tiling import length_unit
from dtoss.tiles.map_frame import Frame
from dtoss.watch.events.event_counts import tally_of
from dtoss.watch.events.event_log import PLACE_COLUMNS, read_events
from dtoss.watch.events.folded_list import contents_of
from dtoss.watch.events.watch_document import Document, document_of, head_of
from dtoss.watch.subscription import AROUND, BOX, CIRCLE, COMPLEMENT, POLYGON, WANTS
from dtoss.watch.watch_folder import Home

_START = datetime(1970, 1, 1, tzinfo=UTC)


def fence_told(home: Home, placed: SubscriptionPlaces, row: int, frame: Frame | None, zoom: float) -> dict[str, Any]:
    """Return what the page tells of a subscription.

    ``meta`` is JSON as text, as it was given. ``counts`` are None where counting would take long: more than 20 million
    events since the last fold.
    """
    said = placed.table.slice(row, 1).to_pylist()[0]
    view = None if frame is None else placed.view(row, frame)
    drawn = None
    if frame is not None and view is not None:
        drawn = placed.drawn(np.array([row]), frame, zoom, 0.0)[0]
    expires = said["expires"]
    head = head_of(home)
    counts: dict[str, int] | None = {}
    if head is not None:
        counts = counts_of(home, said["id"]) if events_to_count(home, head) <= MOST_AT_CLICK else None
    return {
        "id": said["id"],
        "unit": length_unit(placed.space),
        "place": place_of(said),
        "where": said["where"],
        "words": said["words"],
        "wants": [name for name, bit in WANTS.items() if said["events"] & bit],
        "version": said["version"] or 0,
        "expires": None if expires is None else _moment(expires),
        "meta": said["meta"],
        "counts": counts,
        "view": view,
        "drawn": drawn,
    }


def place_of(said: dict[str, Any]) -> dict[str, Any]:
    """Return a subscription's place by its kind, of a polygon how many corners it has; outside where it is all else."""
    if said["events"] & COMPLEMENT:
        return place_of(said | {"events": 0}) | {"outside": True}
    kind = said["kind"]
    if kind == CIRCLE:
        return {"circle": [said["x"], said["y"], said["radius"]]}
    if kind == BOX:
        return {"box": [said["west"], said["south"], said["east"], said["north"]]}
    if kind == AROUND:
        centre = None if said["x"] is None else [said["x"], said["y"]]
        return {"around": {"object": said["object"], "distance": said["radius"], "centre": centre}}
    if kind == POLYGON:
        shape = orjson.loads(said["polygon"])
        parts = [shape["coordinates"]] if shape["type"] == "Polygon" else shape["coordinates"]
        return {"polygon": {"parts": len(parts), "corners": sum(len(ring) for rings in parts for ring in rings)}}
    return {"everywhere": True}


def _moment(microseconds: int) -> str:
    try:
        return (_START + timedelta(microseconds=microseconds)).isoformat(timespec="seconds")
    except OverflowError:  # beyond the year 9999
        return f"{microseconds / 1e6:g} s since 1970"


MOST_AT_ONCE = 2_000_000
"""Events since the last fold that are read to count them while others wait; more only for one who asks."""
MOST_AT_CLICK = 20_000_000
"""The same for one who asks: two seconds."""
_SPENT = 0.05
"""Share of the time that counting takes."""
_LEAST_SECONDS = 2.0
_EVENTS = ("enter", "leave", "inside")


@dataclass(frozen=True)
class Total:
    """Events up to a batch, by subscription."""

    batch: int
    events: dict[str, int]


class Totals:
    """Counts again and again, the more seldom the longer it takes; of one thread."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._tally: pa.Table | None = None
        self._batch = 0
        self._due = 0.0

    def of(self, ids: Sequence[str], head: Document, now: float) -> Total | None:
        """Return the events of some subscriptions in all, without resets; None where these are not known."""
        if now >= self._due and (self._tally is not None or events_to_count(self._home, head) <= MOST_AT_ONCE):
            begun = thread_time()
            tally, after = tally_of(self._home), head_of(self._home)
            if after is not None and after.number == head.number:  # else it may be of either
                self._tally, self._batch = tally, head.number
            self._due = now + max(_LEAST_SECONDS, (thread_time() - begun) / _SPENT)
        if self._tally is None:
            return None
        found = dict.fromkeys(ids, 0)
        mine = self._tally.filter(pc.is_in(self._tally.column("subscription"), value_set=pa.array(ids, pa.string())))
        for one in mine.to_pylist():
            if one["kind"] in _EVENTS:
                found[one["subscription"]] += one["events"]
        return Total(self._batch, found)


def events_to_count(home: Home, head: Document) -> int:
    """Return how many events there are since the last fold, as the commits say."""
    last = contents_of(home, head.folded).last
    folded = _total(home.batches.read(last).document) if last else 0
    return _total(head.commit.document) - folded


def _total(document: dict[str, object]) -> int:
    totals = document.get("totals")
    if not isinstance(totals, dict):
        return 0
    return sum(int(totals.get(kind, 0)) for kind in (*_EVENTS, "reset"))


def counts_of(home: Home, id: str) -> dict[str, int]:
    """Return how many events of which kind a subscription has had."""
    tally = tally_of(home)
    mine = tally.filter(pc.equal(tally.column("subscription"), id))
    return dict(zip(mine.column("kind").to_pylist(), mine.column("events").to_pylist(), strict=True))


SHOWN_KINDS = ("enter", "leave", "inside", "dwell", "cross")
"""Kinds of events that have a place, in the order of their numbers."""
MOST_MARKS = 200
"""Events that are shown of a second."""
MOST_READ = 100_000
"""Events that are read at a look; where there are more, those that are counted by subscription are a sample."""
MOST_COMMITS = 300
"""Batches that are read at a look, the last ones."""
HAPPENING_SECONDS = 300.0
"""Of the busiest subscriptions."""
RATE_SECONDS = 30.0
"""Of which rates are the mean."""
BUSIEST = 20
"""Subscriptions of the table."""
_KEPT_OF_BATCH = 5_000
"""Subscriptions of a batch that are counted, its busiest."""
_FRESH_SECONDS = 30.0
"""How old a batch may be whose events are shown to who comes later."""
_SILENT_GAPS, _SILENT_SECONDS = 3.0, 5.0
"""Nothing happens any more where no batch came for so many times the time between two, and for so long."""
_MICRO = 1e6
_OTHER_PLACE = PLACE_COLUMNS[-2:]
_COLUMNS = ("kind", "subscription", "x", "y", *_OTHER_PLACE)


@dataclass(frozen=True)
class Happened:
    """What a batch has told."""

    number: int
    wall_us: int
    kinds: tuple[int, ...]  # How many events of each of :data:`SHOWN_KINDS`
    busy: Counter[str] = field(default_factory=Counter)  # Events by subscription, of those that were read


class Happening:
    """What the page is told of a watch; one thread reads, others take what it has read.

    ``frame_of``: gives what the map is for places of a space; None where they have no place on it; ``now``: seconds
    since 1970.
    """

    def __init__(
        self,
        home: Home,
        frame_of: Callable[[Space], Frame | None],
        now: Callable[[], float] = time.time,
        most: int = MOST_READ,
    ) -> None:
        self.home = home
        self._frame_of = frame_of
        self._now = now
        self._most = most
        self._reading = Lock()
        self._seen: Document | None = None
        self._window: deque[Happened] = deque()
        self._sum: Counter[str] = Counter()
        self._totals = Totals(home)
        self._last: dict[str, Any] = {}
        self._reset = 0
        self._sampled = False
        self.told: dict[str, Any] | None = None
        self.problem: str | None = None

    def look(self) -> None:
        """Read what is new; in a thread that may wait for a disk, and not at all while another one does.

        Where something is damaged or cannot be read, what was read stays, and ``problem`` says why.
        """
        if not self._reading.acquire(blocking=False):
            return
        try:
            self.told, self.problem = self._look(), None
        except (InputError, StoreError, OSError) as error:
            self.problem = " ".join(str(error).split())
            if self.told is not None:
                self.told = self.told | {"problem": self.problem}
        finally:
            self._reading.release()

    def _look(self) -> dict[str, Any] | None:
        head = head_of(self.home)
        marks = marks_of(self.home, head)
        if head is None:
            self._begin_anew()
            if not marks.change:
                return None
            return {"watch": self.home.name, "batch": 0, "mark": marks.text, "problem": None}
        if self._seen is not None and not self._follows(head):
            self._begin_anew()
        if self._seen is None or head.number != self._seen.number:
            self._take(head)
        self._forget()
        said = {
            "watch": self.home.name,
            "batch": head.number,
            "mark": f"{marks.text}-{self._reset}",
            "wall": head.wall_us / _MICRO,
            "rates": self._rates(),
            "busiest": self._busiest(head),
            "sampled": self._sampled,
            "minutes": HAPPENING_SECONDS / 60.0,
            "problem": None,
        }
        return said | self._last

    def _begin_anew(self) -> None:
        self._seen = None
        self._window.clear()
        self._sum.clear()
        self._last, self._reset = {}, 0
        self._totals = Totals(self.home)

    def _follows(self, head: Document) -> bool:
        """Return whether what was seen last is a batch of the same watch."""
        seen = self._seen
        assert seen is not None
        if head.number == seen.number:
            return head.commit.sha256 == seen.commit.sha256
        if head.number < seen.number:
            return False
        return self.home.batches.read(seen.number).sha256 == seen.commit.sha256

    def _take(self, head: Document) -> None:
        """Read the batches since the last look: the last of them, as far back as the window goes."""
        oldest = (self._now() - HAPPENING_SECONDS) * _MICRO
        fresh: list[Document] = []
        number, document = head.number, head
        while len(fresh) < MOST_COMMITS and (self._seen is None or number > self._seen.number):
            if fresh and document.wall_us < oldest:
                break
            fresh.append(document)
            number -= 1
            if number < 1:
                break
            try:
                document = document_of(self.home, self.home.batches.read(number))
            except StoreError:  # retention has removed it
                break
        fresh.reverse()
        left, shown = self._most, []
        self._sampled = sum(one.rows for one in fresh) > self._most
        young = (self._now() - _FRESH_SECONDS) * _MICRO
        for document in fresh:
            share = max(left // (len(fresh)), 1) if self._sampled else left
            events = self._read(document, share)
            if document.wall_us >= young or document is head:
                shown.append(events)
            self._count(document, events)
        self._seen = head
        self._last = self._marks(head, shown, [one for one in fresh if one.wall_us >= young or one is head])

    def _read(self, document: Document, most: int) -> pa.Table:
        """Return events of a batch, at most so many of each of its files' share."""
        found = [_NO_EVENTS]
        rows = document.rows
        for file in document.events:
            mine = -(-most * file.rows // rows) if rows > most else file.rows
            for table in read_events(self.home, file, columns=list(_COLUMNS)):
                table = table.slice(0, mine)
                found.append(pa.table({
                    one.name: table.column(one.name).cast(one.type) if one.name in table.column_names
                    else pa.nulls(len(table), one.type) for one in _NO_EVENTS.schema
                }))  # fmt: skip
                mine -= len(table)
                if mine <= 0:
                    break
        return pa.concat_tables(found)

    def _count(self, document: Document, events: pa.Table) -> None:
        counts = document.counts
        if counts.get("reset"):
            self._reset = document.number
        happened = events.filter(pc.not_equal(events.column("kind"), "reset"))
        found = happened.group_by("subscription", use_threads=False).aggregate([([], "count_all")])
        if len(found) > _KEPT_OF_BATCH:
            found = found.take(pc.select_k_unstable(found, _KEPT_OF_BATCH, [("count_all", "descending")]))
        busy = Counter(
            dict(zip(found.column("subscription").to_pylist(), found.column("count_all").to_pylist(), strict=True))
        )
        kinds = tuple(counts.get(kind, 0) for kind in SHOWN_KINDS)
        self._window.append(Happened(document.number, document.wall_us, kinds, busy))
        self._sum.update(busy)

    def _forget(self) -> None:
        """Leave out of the window what is older."""
        oldest = (self._now() - HAPPENING_SECONDS) * _MICRO
        while self._window and self._window[0].wall_us < oldest:
            self._sum.subtract(gone := self._window.popleft().busy)
            for id in gone:
                if not self._sum[id]:
                    del self._sum[id]

    def _rates(self) -> dict[str, float]:
        return rates_of(list(self._window), self._now())

    def _busiest(self, head: Document) -> list[list[Any]]:
        """Return the id of each of the busiest, its events of the window and in all, None where these are not known."""
        found = heapq.nsmallest(BUSIEST, self._sum.items(), key=lambda one: (-one[1], one[0]))
        totals = self._totals.of([id for id, _ in found], head, self._now())
        if totals is None:
            return [[id, count, None] for id, count in found]
        since = [one.busy for one in self._window if one.number > totals.batch]
        return [[id, count, totals.events[id] + sum(busy[id] for busy in since)] for id, count in found]

    def _marks(self, head: Document, shown: list[pa.Table], of: list[Document]) -> dict[str, Any]:
        """Return some of the events that were read, and how many there were.

        Each is its kind, longitude and latitude; of a pair those of the other object follow.
        """
        events = pa.concat_tables([_NO_EVENTS, *shown])
        there = {kind: sum(one.counts.get(kind, 0) for one in of) for kind in SHOWN_KINDS}
        frame = self._frame_of(head.settings.space)
        if frame is None:
            return {"events": there, "marks": [], "nowhere": True}
        codes = pc.index_in(events.column("kind"), value_set=pa.array(SHOWN_KINDS))
        placed = pc.and_(pc.is_valid(codes), pc.is_valid(events.column("x")))
        events, codes = events.filter(placed), codes.filter(placed).to_numpy()
        rows = sampled_rows(codes, MOST_MARKS)
        here, beside = (
            frame.lonlat_of(np.stack([events.column(name).to_numpy()[rows] for name in names], axis=1))
            .round(6)
            .tolist()
            for names in (("x", "y"), _OTHER_PLACE)
        )
        marks = [
            [kind, *at, *(other if other[0] == other[0] else ())]
            for kind, at, other in zip(codes[rows].tolist(), here, beside, strict=True)
            if at[0] == at[0]
        ]
        return {"events": there, "marks": marks, "nowhere": False}


_NO_EVENTS = pa.Table.from_batches(  # an empty_table loads pandas
    [], pa.schema([(name, pa.string() if name in _COLUMNS[:2] else pa.float64()) for name in _COLUMNS])
)


def rates_of(window: Sequence[Happened], now: float) -> dict[str, float]:
    """Return events/s of each kind: of the last batches but the first, over the time from that one to the last.

    ``window``: batches in their order; ``now``: seconds since 1970; where no batch came for a while nothing happens.
    """
    none = dict.fromkeys(SHOWN_KINDS, 0.0)
    if len(window) < 2:
        return none
    last = window[-1].wall_us
    some = [one for one in window if last - one.wall_us <= RATE_SECONDS * _MICRO]
    if len(some) < 2:
        some = list(window[-2:])
    seconds = (last - some[0].wall_us) / _MICRO
    if seconds <= 0.0 or now - last / _MICRO > max(_SILENT_SECONDS, _SILENT_GAPS * seconds / (len(some) - 1)):
        return none
    sums = (sum(one.kinds[i] for one in some[1:]) for i in range(len(SHOWN_KINDS)))
    return {kind: round(total / seconds, 3) for kind, total in zip(SHOWN_KINDS, sums, strict=True)}


def sampled_rows(kinds: NDArray[Any], most: int) -> NDArray[np.int64]:
    """Return which rows are shown, rising: all where they are few, else of each kind, the rare ones as a whole.

    Examples
    --------
    >>> sampled_rows(np.array([0, 0, 0, 0, 0, 0, 1, 0]), 4).tolist()
    [0, 2, 4, 6]
    """
    if len(kinds) <= most:
        return np.arange(len(kinds))
    known, sizes = np.unique(kinds, return_counts=True)
    share = np.zeros(len(known), np.int64)
    left = most
    for place, at in enumerate(np.argsort(sizes, kind="stable").tolist()):
        share[at] = min(int(sizes[at]), left // (len(known) - place))
        left -= int(share[at])
    rows = [
        np.flatnonzero(kinds == kind)[np.linspace(0, size, many, endpoint=False).astype(np.int64)]
        for kind, size, many in zip(known.tolist(), sizes.tolist(), share.tolist(), strict=True)
    ]
    return np.sort(np.concatenate(rows))
