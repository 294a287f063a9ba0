"""The watch that a server tells of, and what is said where there is none, or it cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dtoss.errors import InputError, StoreError
from dtoss.serve.core.problems import Problem
from dtoss.serve.state.worker_state import WorkerState
from dtoss.watch.subscriptions.paging import Pages
from dtoss.watch.watch_folder import Home


def no_watch() -> Problem:
    """Return what is said where a server has no watch."""
    return Problem(404, "the server tells of no watch: --watch names one", limit="watch")


def home_of(state: WorkerState) -> Home:
    """Return where the watch is."""
    if state.home is None:
        raise no_watch()
    return state.home


def asked_of(state: WorkerState) -> Pages:
    """Return what the watch is asked."""
    home_of(state)
    assert state.asked is not None
    return state.asked


@contextmanager
def of_watch(state: WorkerState) -> Iterator[None]:
    """Make problems of what goes wrong with the files of the watch; the log is told why."""
    try:
        yield
    except InputError as error:
        raise Problem(400, str(error)) from None
    except (StoreError, OSError) as error:
        state.watch_not_read(str(error))
        raise Problem(
            503,
            "the files of the watch cannot be read or written now: the server's log says why; ask again",
            limit="watch",
            retry_after=5,
        ) from None
