"""Positions in tables: which columns are the coordinates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

AXES = (("lon", "lat"), ("lng", "lat"), ("long", "lat"), ("longitude", "latitude"), ("x", "y"))
"""Names of the two coordinates; case does not matter. The first pair wins over all, of the others there may be one."""


def axes_of(names: Iterable[Any], *, half: bool = False) -> tuple[Any, Any] | None:
    """Return which of the columns of a table are its coordinates, None where no two are called so.

    lon and lat win over all others. A name in lower case wins over one that differs in case only.

    ``half``: where only one of two is there, return it with the name that the other would have; else that is an error.

    Examples
    --------
    >>> axes_of(["t", "Latitude", "LONGITUDE"]), axes_of(["x", "lat", "y", "lon"]), axes_of(["a", "b"])
    (('LONGITUDE', 'Latitude'), ('lon', 'lat'), None)
    """
    names = list(names)
    spelled: dict[str, list[Any]] = {}
    for name in names:
        spelled.setdefault(str(name).casefold(), []).append(name)
    pairs = [pair for pair in AXES if pair[0] in spelled and pair[1] in spelled]
    if not pairs:
        lone = [(axis, pair) for pair in AXES for axis in pair if axis in spelled]
        if lone and half:
            first, second = (spelled.get(axis, [axis])[0] for axis in lone[0][1])
            return first, second
        if lone:
            raise ValueError(
                f"positions have a column {spelled[lone[0][0]][0]!r} and not the other coordinate: lon and lat, or x "
                f"and y, are wanted; the columns are {', '.join(map(str, names))}"
            )
        return None
    if len(pairs) > 1 and pairs[0] != AXES[0]:
        raise _unclear(", ".join(f"{spelled[x][0]} and {spelled[y][0]}" for x, y in pairs))
    first, second = (_one(spelled[axis], axis) for axis in pairs[0])
    return first, second


def _one(names: list[Any], axis: str) -> Any:
    if len(names) > 1 and axis not in names:
        raise _unclear(", ".join(map(str, names)))
    return axis if axis in names else names[0]


def _unclear(names: str) -> ValueError:
    return ValueError(f"columns {names} may all be the positions: name those that are, x= and y=")


def by_name(positions: Any) -> Any:
    """Return the two coordinates of a table as an array (n, 2), whatever the order of its columns.

    What is no table is returned as it is, and so is one none of whose columns is called as a coordinate: it is an array
    of what it holds. Tables are those of pandas, Polars and Arrow, dictionaries, and structured arrays of numpy.

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
    if (pair := axes_of(names)) is not None:
        columns = [positions[axis] for axis in pair]
        return np.stack([np.asanyarray(column).reshape(-1) for column in columns], axis=1)
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
