"""One subscription as the page tells it: what it asks for, its events, its place.

How many events subscriptions had in all, as far as counting them is cheap beside what is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from time import thread_time
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from dtoss.serve.map.subscription_places import SubscriptionPlaces
from dtoss.serve.tiles.snapshot_facts import length_unit
from dtoss.tiles.map_frame import Frame
from dtoss.watch.events.event_counts import tally_of
from dtoss.watch.events.folded_list import contents_of
from dtoss.watch.events.watch_document import Document, head_of
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
