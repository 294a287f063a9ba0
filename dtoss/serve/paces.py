"""How often a worker looks for something new, and how long it waits: users set none of it."""

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
    """

    look: float = 1.0
    live: float = 1.0
    tail: float = 1.0
    quiet: float = 15.0
    windows: float = 0.5
    behind: float = 2.0
    elsewhere: float = 3.0
    slow: float = 0.5


PACES = Paces()
