"""A history without its derived orders: no answer changes, and they are wanted no more."""

from __future__ import annotations

import numpy as np

from dtoss.history.history_commit import Change, commit
from dtoss.history.layouts.compaction import keys_of, wanted_orders
from dtoss.history.row_blocks import ORDER_NAMES


def drop_orders(home, orders):
    """Drop derived orders of all periods and return the version; the one by time is the truth, and stays."""
    assert set(orders) <= set(ORDER_NAMES[1:])
    version = home.version()
    rows = np.flatnonzero(np.isin(version.leaves.order, [ORDER_NAMES.index(order) for order in orders]))
    stays = [name for name in wanted_orders(version, {}) if name not in orders]
    change = Change("drop", gone=keys_of(version, rows), options={"orders": stays}, detail={"orders": list(orders)})
    return commit(home, change, version)
