"""How many events subscriptions had in all, as far as counting them is cheap beside what is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import thread_time

import pyarrow as pa
import pyarrow.compute as pc

from dtoss.watch.events.event_counts import tally_of
from dtoss.watch.events.folded_list import contents_of
from dtoss.watch.events.watch_document import Document, head_of
from dtoss.watch.watch_folder import Home

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
        """Return the events of some subscriptions in all, without resets; None where these are not known.

        ``now``: seconds.
        """
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
