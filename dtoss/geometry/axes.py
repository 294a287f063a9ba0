"""Positions in tables: which columns are the coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

AXES = (("lon", "lat"), ("lng", "lat"), ("long", "lat"), ("longitude", "latitude"), ("x", "y"))
"""Names of the two coordinates, in the order in which they are looked for; case does not matter."""


def by_name(positions: Any) -> Any:
    """Return the two coordinates of a table as an array (n, 2), whatever the order of its columns.

    What is no table is returned as it is, and so is one none of whose columns is called as a coordinate: it is an array
    of what it holds. Tables are those of pandas, Polars and Arrow, dictionaries, and structured arrays of numpy.

    Raises
    ------
    ValueError
        If only one of two coordinates is there.

    Examples
    --------
    >>> by_name({"lat": [50.0, 51.0], "lon": [8.0, 9.0]}).tolist()
    [[8.0, 50.0], [9.0, 51.0]]
    """
    if isinstance(positions, list | tuple):
        return positions
    names = _names(positions)
    if names is None:
        return positions
    folded = {str(name).casefold(): name for name in reversed(names)}
    for first, second in AXES:
        if first in folded and second in folded:
            columns = [positions[folded[axis]] for axis in (first, second)]
            return np.stack([np.asanyarray(column).reshape(-1) for column in columns], axis=1)
    half = [axis for pair in AXES for axis in pair if axis in folded]
    if half:
        raise ValueError(
            f"positions have a column {folded[half[0]]!r} and not the other coordinate: lon and lat, or x and y, are "
            f"wanted; the columns are {', '.join(map(str, names))}"
        )
    return positions


def _names(table: Any) -> Sequence[Any] | None:
    if isinstance(table, np.ndarray):
        return table.dtype.names
    if isinstance(table, dict):
        return list(table)
    for kind in ("column_names", "columns"):  # of Arrow; of pandas and Polars
        if (names := getattr(table, kind, None)) is not None:
            return list(names)
    # a row of a table of pandas
    return list(table.keys()) if hasattr(table, "keys") and len(table) == 2 else None
