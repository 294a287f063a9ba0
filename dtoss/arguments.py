"""Checks of what callers give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dtoss.names import not_carried
from dtoss.plain_numbers import floats


def whole_number(name: str, value: Any, least: int) -> int:
    """Return a whole number of at least ``least``."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"{name} is {value!r}: a whole number of at least {least} is wanted")
    return int(value)


def distances(name: str, value: ArrayLike, count: int) -> NDArray[np.float64]:
    """Return distances, float64 (count,), from one or as many that are not negative."""
    try:
        array = floats(value)
    except (TypeError, ValueError, OverflowError):
        units = isinstance(value, str) and name in ("radius", "max_distance")
        way = ", of metres or CRS units: units such as km are for commands, 5km is 5000" if units else ""
        raise ValueError(f"{name} is {value!r}: a number that is not negative is wanted{way}") from None
    if array.ndim > 1 or (array.ndim == 1 and array.shape[0] != count):
        raise ValueError(f"{name} has shape {array.shape}: one number, or one for each of the {count} positions")
    bad = ~(array >= 0.0)
    if bad.any():
        first = float(array[bad][0]) if array.ndim else float(array)
        raise ValueError(f"{name} is {first:g}: a number that is not negative is wanted")
    return np.broadcast_to(array, (count,)).astype(np.float64)


def column_names(columns: Sequence[str], carried: Sequence[str]) -> Sequence[str]:
    """Return the names of columns that objects carry."""
    if isinstance(columns, str):
        raise ValueError(f"columns is the string {columns!r}: give a list of names")
    for name in columns:
        if name not in carried:
            raise ValueError(not_carried(name, carried))
    return columns


ORDERS = ("distance", "none")
"""The orders that hits of a query may be asked for: by distance and id, or any, the same on every run."""


def by_distance(order: Any) -> bool:
    """Return whether hits are asked for in the order (distance, id), and not in any."""
    if order not in ORDERS:
        raise ValueError(f"order is {order!r}: one of {', '.join(map(repr, ORDERS))} is wanted")
    return bool(order == ORDERS[0])
