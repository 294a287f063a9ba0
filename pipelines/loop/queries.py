"""Streaming queries of this process, and the threads that hold their leases: one that has ended makes way at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

_held: dict[str, tuple[StreamingQuery, threading.Thread]] = {}
"""The last query of each path in this process, and the thread that holds its lease."""


def hold(path: str, query: StreamingQuery, until_it_ends: Callable[[], None]) -> None:
    """Run what holds the lease of a query, and lets go of it once that has ended, in a thread.

    Parameters
    ----------
    path
        Of what the query commits to.
    query
        The query.
    until_it_ends
        What runs.
    """
    thread = threading.Thread(target=until_it_ends, name="dtoss-query", daemon=True)
    _held[path] = query, thread
    thread.start()


def make_way(path: str) -> None:
    """Wait until a query of this process that has ended has let go of the lease of a path."""
    query, thread = _held.get(path, (None, None))
    if query is not None and thread is not None and not query.isActive:
        thread.join()
