"""How often a worker looks for something new, how long it waits, how much it makes at a time: users set none of it."""

from __future__ import annotations

from typing import NamedTuple


class Paces(NamedTuple):
    """Seconds of a worker."""

    look: float = 1.0  # Between two looks for a snapshot
    live: float = 1.0  # Between two events of a stream of ``/live``
    tail: float = 1.0  # Between two looks for a commit of the watch, while there are streams of its events
    quiet: float = 15.0  # After which a stream that has nothing to tell says so: what stands in between would close it
    windows: float = 0.5  # For which a commit of windows that was found is the newest one, without another look
    behind: float = 2.0  # For which the commit before answers, while what is asked of windows is made of a newer one
    # Within which a snapshot has to be open here that another worker serves already, newer or rolled back to
    elsewhere: float = 3.0
    slow: float = 0.5  # For which a reader may let a piece wait before files that are open for it are let go
    # For which a page of rare events is looked for, as a share of what the pool has: it has those found until then
    page: float = 0.25


PACES = Paces()


class Sizes(NamedTuple):
    """How much a worker makes at a time."""

    held: int = 1 << 23  # Bytes up to which an answer is made at once, and its length told
    sent: int = 1 << 20  # Bytes of a longer one that are made at a time
    tested: int = 100_000_000  # Objects times corners that are compared before it is asked whether anybody still waits
    event_part: int = 1 << 17  # Bytes of events that are made at a time, about: one event may have more
    events_page: int = 8 << 20  # Bytes of a page of events, about: one with longer events has fewer of them
    # Bytes of a page of subscriptions, about: one with large polygons has fewer of them
    subscriptions_page: int = 4 << 20


USUAL_SIZES = Sizes()
