"""How often a worker looks for something new, how long it waits, how much it makes at a time: users set none of it."""

from __future__ import annotations

from typing import NamedTuple


class Paces(NamedTuple):
    """Seconds of a worker.

    Parameters
    ----------
    look
        Between two looks for a snapshot.
    live
        Between two events of a stream of ``/live``.
    tail
        Between two looks for a commit of the watch, while there are streams of its events.
    quiet
        After which a stream that has nothing to tell says so: what stands in between would close it.
    windows
        For which a commit of windows that was found is the newest one, without another look.
    behind
        For which the commit before answers, while what is asked of windows is made of a newer one.
    elsewhere
        Within which a snapshot has to be open here that another worker serves already, newer or rolled back to.
    slow
        For which a reader may let a piece wait before files that are open for it are let go.
    page
        For which a page of rare events is looked for, as a share of what the pool has: it has those found until then.
    """

    look: float = 1.0
    live: float = 1.0
    tail: float = 1.0
    quiet: float = 15.0
    windows: float = 0.5
    behind: float = 2.0
    elsewhere: float = 3.0
    slow: float = 0.5
    page: float = 0.25


PACES = Paces()


class Sizes(NamedTuple):
    """How much a worker makes at a time.

    Parameters
    ----------
    held
        Bytes up to which an answer is made at once, and its length told.
    sent
        Bytes of a longer one that are made at a time.
    tested
        Objects times corners that are compared before it is asked whether anybody still waits.
    event_part
        Bytes of events that are made at a time, about: one event may have more.
    events_page
        Bytes of a page of events, about: one with longer events has fewer of them.
    subscriptions_page
        Bytes of a page of subscriptions, about: one with large polygons has fewer of them.
    """

    held: int = 1 << 23
    sent: int = 1 << 20
    tested: int = 100_000_000
    event_part: int = 1 << 17
    events_page: int = 8 << 20
    subscriptions_page: int = 4 << 20


USUAL_SIZES = Sizes()
