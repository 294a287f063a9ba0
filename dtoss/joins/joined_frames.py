"""Rows of two frames side by side, named and ordered as GeoPandas does in its joins."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import geopandas
    import pandas

    Rows = NDArray[np.int64] | None


EXACT = 2**53
"""Whole numbers up to it are float64 exactly."""


def joined_frames(
    left: pandas.DataFrame,
    right: pandas.DataFrame,
    left_rows: Rows,
    right_rows: Rows,
    *,
    how: str,
    lsuffix: str,
    rsuffix: str,
) -> geopandas.GeoDataFrame:
    """Return rows of two frames side by side: with the index and the geometry of the one that is kept.

    ``left``, ``right``: the one that is kept, the right one where ``how`` is "right", is a GeoDataFrame. Of the other
    one the active geometry is left out, and its index becomes columns; ``left_rows``, ``right_rows``: int64 (n,); None
    for all rows as they stand. -1 is no row, of the frame that is not kept; ``how``: "inner", "left" or "right";
    ``lsuffix``, ``rsuffix``: put behind names of both frames, and behind "index" of an index without a name.
    """
    import geopandas
    import pandas

    right_kept = how == "right"
    kept, kept_rows, other, other_rows = (
        (right, right_rows, left, left_rows) if right_kept else (left, left_rows, right, right_rows)
    )
    geometry = kept.geometry.name
    other = _without_geometry(other)
    sides = (other, kept) if right_kept else (kept, other)
    names = _names(*sides, suffixes=(lsuffix, rsuffix), geometry=geometry)
    kept_names, other_names = reversed(names) if right_kept else names
    taken = kept.copy() if kept_rows is None else kept.take(kept_rows)
    beside = _flat(other, other_rows)
    levels = taken.index.nlevels
    fresh = [new if old is not None else None for old, new in zip(taken.index.names, kept_names, strict=False)]
    taken.index = taken.index.set_names(fresh)
    beside.index = taken.index
    taken.columns, beside.columns = pandas.Index(kept_names[levels:]), pandas.Index(other_names)
    joined = pandas.concat([beside, taken] if right_kept else [taken, beside], axis=1)
    if getattr(joined, "active_geometry_name", None) == geometry:
        return joined
    return geopandas.GeoDataFrame(joined, geometry=geometry)


def _without_geometry(frame: pandas.DataFrame) -> pandas.DataFrame:
    name = getattr(frame, "active_geometry_name", None)
    return frame if name is None else frame.drop(columns=name)


def _flat(frame: pandas.DataFrame, rows: Rows) -> pandas.DataFrame:
    """Return rows of a frame, -1 for one of nulls, with its index as columns before the others."""
    if rows is not None and (rows < 0).any():
        # numbered from 0: no row has the label -1
        return _with_room_for_nulls(frame.reset_index(), rows[rows >= 0]).reindex(rows)
    return (frame if rows is None else frame.take(rows)).reset_index()


def _with_room_for_nulls(flat: pandas.DataFrame, rows: NDArray[np.int64]) -> pandas.DataFrame:
    """Return a frame whose whole numbers are nullable where pandas, which makes them float64, would lose digits."""
    for at, kind in enumerate(flat.dtypes):
        if kind in (np.int64, np.uint64) and len(rows):
            values = flat.iloc[:, at].to_numpy()[rows]
            if not -EXACT <= values.min() <= values.max() <= EXACT:
                flat.isetitem(at, flat.iloc[:, at].astype("Int64" if kind == np.int64 else "UInt64"))
    return flat


def _names(
    left: pandas.DataFrame, right: pandas.DataFrame, *, suffixes: tuple[str, str], geometry: str
) -> tuple[list[Any], list[Any]]:
    """Return the names of both frames' columns, those of their indexes first."""
    flat_left, flat_right = (list(frame.iloc[:0].reset_index().columns) for frame in (left, right))
    left_names = _index_named(flat_left, left, suffixes[0], right.columns)
    right_names = _index_named(flat_right, right, suffixes[1], flat_left)
    both = set(left_names) & set(right_names)
    if both and not any(suffixes):
        raise ValueError(f"both frames have {_said(both)}: name lsuffix or rsuffix, which is put behind")
    named = []
    for frame, names, suffix in ((left, left_names, suffixes[0]), (right, right_names, suffixes[1])):
        own = geometry if getattr(frame, "active_geometry_name", None) == geometry else None
        named.append([f"{n}_{suffix}" if n in both and n != own and suffix is not None else n for n in names])
    given = Counter(left_names) | Counter(right_names)
    if twice := {name for name, count in Counter(chain(*named)).items() if count > max(given[name], 1)}:
        raise ValueError(f"{_said(twice)} would stand twice in the result: choose another lsuffix or rsuffix")
    return named[0], named[1]


def _index_named(flat: list[Any], frame: pandas.DataFrame, suffix: str, others: Any) -> list[Any]:
    """Return the names of a frame's columns with its index: levels without a name are called after the suffix."""
    names = list(flat)
    for level, name in enumerate(frame.index.names):
        if name is None:
            # as GeoPandas: pandas calls it level_0 also where a column is called index
            number = str(flat[level]).split("_")[1] if "level" in str(flat[level]) else ""
            names[level] = f"index_{suffix}{number}"
            if names[level] in flat or names[level] in others:
                raise ValueError(
                    f"{names[level]!r} is a column already, and the index would be called so: rename the column, or "
                    "choose another lsuffix or rsuffix"
                )
    return names


def _said(names: set[Any]) -> str:
    return ", ".join(sorted(f"column {name!r}" for name in names))
