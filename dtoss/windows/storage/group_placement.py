"""Which worker has which groups of objects: said in each commit, so that groups move between two batches.

A group is a bucket of objects, what :mod:`dtoss.buckets` says. All rows of an object and all that is known of it are in
one group, so any worker makes the same of it. A worker is a task of a batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.buckets import BUCKETS
from dtoss.errors import StoreError

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Placement:
    """Groups on workers."""

    worker_of: tuple[int, ...]  # (256,). The worker of each group, from 0
    workers: int  # How many there are; some may have no group
    why: str = "stays"  # In a few words
    # The watermark at which loads were looked at last, in microseconds since 1970; None before the first time
    looked: int | None = None
    # (256,). Rows of each group since then, in commits before the batch; none at all where nothing was counted
    since: tuple[int, ...] = ()

    def groups(self, worker: int) -> Numbers:
        """Return the groups of a worker, int64, rising."""
        return np.flatnonzero(np.array(self.worker_of) == worker)


@dataclass(frozen=True)
class Load:
    """What a task had."""

    worker: int
    rows: Numbers  # int64 (256,). Of each group
    bytes: Numbers  # int64 (256,). State of each group after the batch
    seconds: float


def even(workers: int) -> Placement:
    """Return the placement of groups by number, where nothing was counted yet: group b is on worker b modulo all.

    Examples
    --------
    >>> even(3).groups(1)[:4].tolist(), even(3).why
    ([1, 4, 7, 10], 'first, by number')
    """
    return Placement(tuple((np.arange(BUCKETS) % workers).tolist()), workers, "first, by number")


def placement_of(document: Mapping[str, Any]) -> Placement | None:
    """Return the placement that a commit says; None where it has none, as before the first batch."""
    said = document.get("placement")
    if said is None:
        return None
    try:
        worker_of, since = _numbers(said["worker_of"]), _numbers(said["since"])
        workers = len(said["workers"])
        if worker_of.min() < 0 or worker_of.max() >= workers:
            raise ValueError(
                f"a group is on a worker of {worker_of.min()} to {worker_of.max()}, and {workers} are there"
            )
        return Placement(tuple(worker_of.tolist()), workers, "stays", said["looked"], tuple(since.tolist()))
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"the placement of a commit is damaged: {error!r:.200}; restore it from a copy") from None


def bytes_of(document: Mapping[str, Any]) -> Numbers:
    """Return the bytes of state of each group, int64 (256,), that a commit says; zeros where it says none."""
    return _counted(document, "bytes")


def rows_of(document: Mapping[str, Any]) -> Numbers:
    """Return the rows of each group, int64 (256,), that a commit has counted; zeros where it says none."""
    return _counted(document, "rows")


def _counted(document: Mapping[str, Any], name: str) -> Numbers:
    return _numbers(document.get("placement", {}).get(name, [0] * BUCKETS))


def _numbers(said: Sequence[int]) -> Numbers:
    found = np.asarray(said)
    if found.shape != (BUCKETS,) or found.dtype.kind not in "iu":
        raise ValueError(f"{BUCKETS} whole numbers are wanted")
    return found.astype(np.int64)


def as_json(placement: Placement, before: Mapping[str, Any], loads: Sequence[Load]) -> dict[str, Any]:
    """Return what a commit says of its batch's placement: workers and their loads, groups, and what has moved.

    ``before``: the document of the commit before; an empty one where there is none.
    """
    worker_of = np.array(placement.worker_of)
    held, rows, seconds = bytes_of(before), np.zeros(BUCKETS, np.int64), np.zeros(placement.workers)
    moved = moves_of(before, placement)
    moving = {"groups": len(moved), "bytes": int(held[moved].sum())}
    for load in loads:
        mine = worker_of == load.worker
        held[mine], rows[mine] = load.bytes[mine], load.rows[mine]
        seconds[load.worker] = load.seconds
    total = before.get("placement", {}).get("moved_total", {})
    since = rows + (np.array(placement.since, np.int64) if placement.since else 0)
    return {
        "workers": [
            {
                "groups": int((worker_of == worker).sum()),
                "rows": int(rows[worker_of == worker].sum()),
                "bytes": int(held[worker_of == worker].sum()),
                "seconds": round(float(seconds[worker]), 4),
            }
            for worker in range(placement.workers)
        ],
        "why": placement.why,
        "moved": moving,
        "moved_total": {name: total.get(name, 0) + value for name, value in moving.items()},
        "looked": placement.looked,
        "worker_of": list(placement.worker_of),
        "rows": rows.tolist(),
        "bytes": held.tolist(),
        "since": since.tolist(),
    }


def moves_of(before: Mapping[str, Any], placement: Placement) -> Numbers:
    """Return the groups, int64, rising, that have another worker than a commit says; none where it says none."""
    stood = placement_of(before)
    if stood is None:
        return np.zeros(0, np.int64)
    return np.flatnonzero(np.array(stood.worker_of) != np.array(placement.worker_of))


def in_words(document: Mapping[str, Any]) -> str | None:
    """Return workers, their load and what has moved, in a line; None where a commit says nothing of it.

    Examples
    --------
    >>> in_words({"placement": {"workers": [{"rows": 30}, {"rows": 10}], "moved_total": {"groups": 3, "bytes": 9000}}})
    '2 workers, the busiest with 1.50 times its share of rows; 3 groups moved so far, 9,000 bytes'
    """
    said = document.get("placement")
    if said is None:
        return None
    rows = [one["rows"] for one in said["workers"]]
    told = f"{len(rows)} worker{'s' if len(rows) > 1 else ''}"
    if len(rows) > 1 and sum(rows):
        told += f", the busiest with {max(rows) * len(rows) / sum(rows):.2f} times its share of rows"
    moved = said["moved_total"]
    if moved["groups"]:
        told += f"; {moved['groups']:,} groups moved so far, {moved['bytes']:,} bytes"
    return told
