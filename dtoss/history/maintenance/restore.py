"""Restoring: a damaged derived order is made again, a damaged file by time from an order that covers its period."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dtoss.errors import StoreError, Unreadable
from dtoss.history.history_commit import Change, commit, undone
from dtoss.history.layouts.compaction import keys_of, sizes_of
from dtoss.history.layouts.rows_in_parts import source_of
from dtoss.history.layouts.write_layout import MAKERS
from dtoss.history.maintenance.history_table import verify_history
from dtoss.history.row_blocks import BY_TIME, ORDER_NAMES
from dtoss.history.versions import Home, Version


@dataclass(frozen=True)
class Restored:
    """What restoring did."""

    version: Version  # Of the history now
    made: tuple[tuple[str, int], ...]  # Orders of periods that were made again, as (order, period)
    lost: tuple[str, ...]  # What cannot be restored, a line each


def restore(home: Home, say: Callable[[str], None] | None = None) -> Restored:
    """Make again what is damaged, where another order has the same rows, and return what was done.

    The rows and sums of what is made are compared with those of the period, as in every commit. Cost: all files are
    read once.
    """
    version = home.version()
    found = verify_history(home, version)
    if found.unread:
        raise Unreadable(f"{found.unread[0]}; nothing is made again before all can be read")
    files = [number for number, name in enumerate(version.files.name) if name in found.broken]
    leaves = version.leaves
    broken = {
        (int(leaves.period[leaf]), int(leaves.order[leaf])) for leaf in np.flatnonzero(np.isin(leaves.file, files))
    }
    made: list[tuple[str, int]] = []
    lost: list[str] = []
    # the truth first: derived orders are then made of it
    for period, order in sorted(broken, key=lambda one: (one[1] != BY_TIME, one)):
        has = int(version.periods.orders[version.periods.number == period][0])
        whole = [code for code in range(len(ORDER_NAMES)) if has >> code & 1 and (period, code) not in broken]
        if not whole:
            lost.append(f"the order by {ORDER_NAMES[order]} of period {period}: no other order of it is whole")
            continue
        version = _made_again(home, version, period, order, whole[0])
        broken = broken - {(period, order)}
        made.append((ORDER_NAMES[order], period))
        if say is not None:
            say(f"the order by {ORDER_NAMES[order]} of period {period} was made again from that by "
                f"{ORDER_NAMES[whole[0]]}")  # fmt: skip
    return Restored(version, tuple(made), tuple(lost))


def _made_again(home: Home, version: Version, period: int, order: int, source: int) -> Version:
    old = np.flatnonzero((version.leaves.order == order) & (version.leaves.period == period))
    for number in np.unique(version.leaves.file[old]):
        # a file is named by what it holds: what is made may have this name
        name = version.files.name[number]
        if _is_damaged(home, name, version.files.sha256[number]):
            home.folder.remove(*name.split("/"))
    rows = source_of(home, version, np.array([period], np.int32), source)
    try:
        with undone(home, version):
            change = Change(
                "restore",
                tuple((file, period) for file in MAKERS[order](rows, sizes_of(version, {}))),
                gone=keys_of(version, old),
                detail={"period": period, "order": ORDER_NAMES[order], "from": ORDER_NAMES[source]},
            )
            return commit(home, change, version)
    except StoreError as error:
        raise StoreError(f"the order by {ORDER_NAMES[order]} of period {period} is not restored: {error}") from None


def _is_damaged(home: Home, name: str, digest: str) -> bool:
    import hashlib

    data = home.folder.read(*name.split("/"))
    return data is None or hashlib.sha256(data).hexdigest() != digest
