"""The nearest points of another frame or an index, row by row: GeoPandas' join, exact and many times as fast.

Rows of two frames side by side, named and ordered as GeoPandas does in its joins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.arguments import column_names, distances, whole_number
from dtoss.conditions.parse import parse_condition
from dtoss.extras import need
from dtoss.frames.arrow_tables import read_column, table_of
from dtoss.frames.coordinates import points_of
from dtoss.frames.geo_columns import agree_crs, crs_name, short
from dtoss.geometry.space import NO_CRS, Space, as_positions, same_crs, space_of
from dtoss.in_process import build
from dtoss.index import Index
from dtoss.joins.nearest_pairs import TIES, Nearest, nearest_pairs
from dtoss.names import position_names
from dtoss.queries.gather import take_columns
from dtoss.queries.raw_hits import RawHits
from dtoss.result_frames import pandas_frame

if TYPE_CHECKING:
    import geopandas
    import pandas

    Rows = NDArray[np.int64] | None

HOWS = ("inner", "left", "right")
"""Whose rows are in the result: those with a pair, or all of one frame."""


def sjoin_nearest(
    left: geopandas.GeoDataFrame,
    right: geopandas.GeoDataFrame | Index,
    *,
    k: int = 1,
    how: str = "inner",
    max_distance: float | None = None,
    lsuffix: str = "left",
    rsuffix: str = "right",
    distance_col: str | None = None,
    rank_col: str | None = None,
    exclusive: bool = False,
    ties: str = "lowest",
    where: str | None = None,
    columns: Sequence[str] | None = None,
    crs: str | None = None,
    threads: int = 1,
) -> geopandas.GeoDataFrame:
    """Return each row of one GeoDataFrame of points beside the nearest of another: ``geopandas.sjoin_nearest``.

    Columns, their types, the index and the order of rows are those of GeoPandas. In a geographic CRS distances are
    metres on the sphere, where GeoPandas measures in degrees.

    Parameters
    ----------
    left
        A GeoDataFrame of points.
    right
        Another one in the same CRS, or an open index of it: then ids are ``index_right``, and attributes the columns.
    k
        How many nearest; GeoPandas knows only 1.
    how
        "inner": rows of ``left`` with a pair. "left": all of ``left``, nulls where there is none. "right": all of
        ``right``, each with the nearest of ``left``, with the geometry and index of ``right``.
    max_distance
        Metres in a geographic CRS, else CRS units; a pair at exactly this distance counts.
    lsuffix, rsuffix
        Put behind names that both have, and behind ``index_`` where an index has no name.
    distance_col
        Column for the distance of each pair; a column of this name is replaced.
    rank_col
        Column for which of the nearest it is, from 1.
    exclusive
        Whether points at the same place are no pair.
    ties
        Of points as far as the last one "lowest" takes those whose rows (of an index whose ids) come first, "all" every
        one, as GeoPandas. Rows of a tie stand in that order.
    where
        A condition on the rows of ``right``: as if it held no others. :func:`dtoss.conditions.parse.parse_condition`
        says what it may hold.
    columns
        Attributes of an index to return, or lon and lat (x and y); all attributes when None.
    crs
        Of frames that have none; "none" is a plane without one.
    threads
        Partitions built, and pieces answered, at a time; the result is the same.

    Raises
    ------
    ValueError
        If an argument is out of its bounds, a geometry is no point or not legal, CRS are missing or differ, names would
        clash, or a condition does not fit.
    TypeError
        If ``left`` or ``right`` is no GeoDataFrame and no index.
    InputError
        If GeoPandas is not installed.

    Notes
    -----
    Rows whose geometry is missing or empty have no pair. Cost that of :func:`dtoss.build` for a frame, and O(k) a row.

    Examples
    --------
    >>> import geopandas
    >>> points = geopandas.points_from_xy
    >>> places = geopandas.GeoDataFrame({"place": ["inn"]}, geometry=points([8.0], [50.0]), crs="EPSG:4326")
    >>> taxis = geopandas.GeoDataFrame({"taxi": [7, 9]}, geometry=points([8.2, 8.1], [50.0, 50.0]), crs="EPSG:4326")
    >>> joined = sjoin_nearest(places, taxis, distance_col="metres")
    >>> joined[["place", "index_right", "taxi", "metres"]].round(1).values.tolist()
    [['inn', 1, 9, 7147.5]]
    """
    geopandas = need("geopandas", "sjoin_nearest", "geo")
    _check_option("how", how, HOWS)
    _check_option("ties", ties, TIES)
    _check_frame("left", left, geopandas)
    ask = Nearest(
        k=whole_number("k", k, 1),
        max_distance=np.inf if max_distance is None else float(distances("max_distance", max_distance, 1)[0]),
        exclusive=exclusive,
        ties=ties,
        threads=whole_number("threads", threads, 1),
    )
    pairs: tuple[Any, Any]
    if isinstance(right, Index):
        if how == "right":
            raise ValueError("how is 'right' and right an index: give its objects as a frame, right.objects()")
        carried = [*position_names(right.space.geographic), *right.column_names]
        names = right.column_names if columns is None else column_names(columns, carried)
        _same_crs(left, right.crs, crs)
        ask = replace(ask, where=where, places=bool(names))
        found = _found(right, _places("left", left, right.space, ask.threads), ask)
        rows, hit = _paired(found.count, how == "left")
        beside, pairs = _frame_of(right, found.hits, names), (rows, hit)
    else:
        _check_frame("right", right, geopandas)
        if columns is not None:
            raise ValueError("columns are those of an index: take those of a frame with right[[..., 'geometry']]")
        if where is not None:
            right = right[_satisfying(right, where)]
        space = space_of(_same_crs(left, crs_name(right.crs), crs))
        places = {
            "left": _places("left", left, space, ask.threads),
            "right": _places("right", right, space, ask.threads),
        }
        asked, searched = ("right", "left") if how == "right" else ("left", "right")
        found = _searched(places[asked], places[searched], space, ask)
        rows, hit = _paired(found.count, how != "inner")
        other = _of_hits(found.hits.ids, hit, -1)
        beside, pairs = right, (other, rows) if how == "right" else (rows, other)
    joined = joined_frames(left, beside, *pairs, how=how, lsuffix=lsuffix, rsuffix=rsuffix)
    if distance_col is not None:
        joined[distance_col] = _of_hits(found.hits.distance, hit, np.nan)
    if rank_col is not None:
        begin = np.cumsum(found.count) - found.count
        joined[rank_col] = _of_hits(
            np.arange(1, len(found.hits.distance) + 1) - np.repeat(begin, found.count), hit, np.nan
        )
    return joined


@dataclass(frozen=True)
class _Places:
    """Where rows of a frame are, float64 (m, 2), which rows these are, int64 (m,), and how many the frame has."""

    at: NDArray[np.float64]
    rows: NDArray[np.int64]
    of: int


@dataclass(frozen=True)
class _Found:
    """Hits, one row of a frame after another, and how many there are of each row, int64 (n,)."""

    count: NDArray[np.int64]
    hits: RawHits


def _check_option(name: str, value: Any, known: Sequence[str]) -> None:
    if value not in known:
        raise ValueError(f"{name} is {value!r}: one of {', '.join(map(repr, known))} is wanted")


def _check_frame(name: str, frame: Any, geopandas: Any) -> None:
    if not isinstance(frame, geopandas.GeoDataFrame):
        kinds = "a GeoDataFrame" if name == "left" else "a GeoDataFrame or an open index"
        raise TypeError(
            f"{name} is of type {type(frame).__name__}: {kinds} is wanted, such as geopandas.GeoDataFrame(df, "
            "geometry=geopandas.points_from_xy(df.lon, df.lat), crs='EPSG:4326')"
        )
    if frame.active_geometry_name is None:
        raise ValueError(f"{name} has no active geometry: {name}.set_geometry(...) names the column")


def _same_crs(left: Any, right: str | None, crs: str | None) -> str:
    """Return the one CRS of both sides."""
    named, sides = crs_name(crs), {"left": crs_name(left.crs), "right": right}
    for side, found in sides.items():
        agree_crs(named, found, side, "leave it out, it is for frames that have none")
    known = {side: found for side, found in sides.items() if found is not None}
    if len(known) == 2 and not same_crs(known["left"], known["right"]):
        raise ValueError(
            f"left is in {short(known['left'])} and right in {short(known['right'])}: transform one, such as "
            "left.to_crs(right.crs)"
        )
    if named is None and not known:
        raise ValueError("left and right have no CRS: name it, crs='EPSG:4326', or crs='none' for a plane without one")
    if named is None and len(known) == 1 and known.get("right") != NO_CRS:
        (side,) = sides.keys() - known.keys()
        (there,) = known
        raise ValueError(f"{side} has no CRS and {there} has: {side}.set_crs({there}.crs), where it is the same")
    return named or next(iter(known.values()))


def _places(name: str, frame: Any, space: Space, threads: int) -> _Places:
    try:
        at, _ = points_of(frame.geometry, missing=True, threads=threads)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    missing = np.isnan(at[:, 0]) | np.isnan(at[:, 1])
    if not missing.any():
        return _Places(as_positions(at, space, name), np.arange(len(at)), len(at))
    # so that a row that is not legal is told by its number in the frame
    at = as_positions(np.where(missing[:, None], 0.0, at), space, name)
    rows = np.flatnonzero(~missing)
    return _Places(at[rows], rows, len(at))


def _satisfying(frame: Any, where: str) -> NDArray[np.bool_]:
    """Return which rows of a frame satisfy a condition on its columns."""
    table = table_of(frame)
    assert table is not None
    # none that the text cannot name is read
    read = {str(n): read_column(table, n) for n in table.names if n not in table.geometries and str(n) in where}
    schema = {str(n): read[str(n)].type if str(n) in read else pa.null() for n in table.names}
    return parse_condition(where, schema).matches(read.__getitem__, len(frame))


def _searched(asked: _Places, searched: _Places, space: Space, ask: Nearest) -> _Found:
    """Return the nearest rows of one frame to each of another."""
    if len(searched.rows) == 0 or len(asked.rows) == 0:
        none, rows = np.zeros(0, np.int32), np.zeros(asked.of, np.int64)
        return _Found(rows, RawHits(rows, none, none, np.zeros(0), np.zeros(0, np.int64), none))
    return _found(build(searched.rows, searched.at, crs=space.crs, threads=ask.threads), asked, ask)


def _found(index: Index, asked: _Places, ask: Nearest) -> _Found:
    hits = nearest_pairs(index, asked.at, ask)
    count = hits.count
    if len(count) < asked.of:
        count = np.zeros(asked.of, np.int64)
        count[asked.rows] = hits.count
    return _Found(count, hits)


def _paired(count: NDArray[np.int64], every: bool) -> tuple[NDArray[np.int64] | None, NDArray[np.int64] | None]:
    """Return the row and the hit, -1 for none, of each row of the result; None for all in order.

    ``every`` row is in the result, hits or not.
    """
    if (count == 1).all():
        return None, None
    if not every or count.all():
        return np.repeat(np.arange(len(count)), count), None
    size = np.maximum(count, 1)
    hit = np.full(int(size.sum()), -1)
    hit[np.repeat(count > 0, size)] = np.arange(int(count.sum()))
    return np.repeat(np.arange(len(count)), size), hit


def _of_hits(values: Any, hit: NDArray[np.int64] | None, nothing: float) -> Any:
    """Return a value of each row of the result, where hits have one each."""
    return values if hit is None else np.append(values, nothing).astype(np.result_type(values, nothing))[hit]


def _frame_of(index: Index, hits: RawHits, names: Sequence[str]) -> pandas.DataFrame:
    """Return the attributes of hits as a frame, whose index is their ids; of types as ``index.objects()`` has them."""
    import pandas

    table = pa.table(take_columns(index.parts, hits, names), list(names))
    ids: Any = hits.ids
    if ids is None:
        kind = pandas.Series([""]).dtype  # object, or from pandas 3 on text
        ids = pandas.Index(index.ids_of(hits).to_numpy(zero_copy_only=False), dtype=kind)
    if not names:
        return pandas.DataFrame(index=ids)
    return pandas_frame(table, [name for name in names if index.parts.has_nulls(name)]).set_axis(ids)


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
        raise ValueError(f"both frames have {_describe(both)}: name lsuffix or rsuffix, which is put behind")
    named = []
    for frame, names, suffix in ((left, left_names, suffixes[0]), (right, right_names, suffixes[1])):
        own = geometry if getattr(frame, "active_geometry_name", None) == geometry else None
        named.append([f"{n}_{suffix}" if n in both and n != own and suffix is not None else n for n in names])
    given = Counter(left_names) | Counter(right_names)
    if twice := {name for name, count in Counter(chain(*named)).items() if count > max(given[name], 1)}:
        raise ValueError(f"{_describe(twice)} would stand twice in the result: choose another lsuffix or rsuffix")
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


def _describe(names: set[Any]) -> str:
    return ", ".join(sorted(f"column {name!r}" for name in names))
