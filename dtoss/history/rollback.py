"""What a change that fails has written goes again, so that a disk that was full is no fuller, and it can be tried."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from dtoss.errors import StoreError
from dtoss.history.segments import WRITTEN, Fresh
from dtoss.history.versions import Home, Version, files_of


@contextmanager
def undone(home: Home, after: Version | None) -> Iterator[None]:
    """Remove what is written within where it fails, whatever the reason; a version that stands by then keeps its own.

    ``after``: the version that the change is made of; None where there is none.

    A file that another writer has found there and touched stays. On object stores nothing tells that it was touched:
    there, as after a kill, files wait for :func:`dtoss.history.maintenance.vacuum.clear`.
    """
    written: list[Fresh] = []
    token = WRITTEN.set(written)
    try:
        yield
    except BaseException:
        # where nobody can say what is needed, all stays
        with suppress(OSError, StoreError):
            _remove(home, 0 if after is None else after.number, written)
        raise
    finally:
        WRITTEN.reset(token)


def _remove(home: Home, number: int, written: list[Fresh]) -> None:
    # a commit of which the last sync failed stands
    head = home.head() if written else None
    newest = 0 if head is None else head.number
    needed = {name for later in range(number + 1, newest + 1) for name in files_of(home.version(later))}
    for fresh in written:
        if f"{fresh.room}/{fresh.name}" not in needed:
            home.folder.remove_unchanged(fresh.mark, fresh.room, fresh.name)
