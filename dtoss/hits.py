"""Answers: which objects, how far, for which query."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, SupportsIndex, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.column_rows import take_rows
from dtoss.extras import need
from dtoss.names import free_names, position_names
from dtoss.partition import numbers

if TYPE_CHECKING:
    import geopandas
    import pandas
    import polars

_PAIRS = (position_names(True), position_names(False))


class Origin(Protocol):
    """What hits are asked of: it knows where objects are."""

    @property
    def crs(self) -> str:
        """The CRS of positions."""

    @property
    def names(self) -> tuple[str, str]:
        """How the two coordinates are called."""

    def positions_of(self, ids: NDArray[Any], /) -> NDArray[np.float64]:
        """Return the positions of objects, float64 (n, 2)."""


@dataclass(frozen=True, slots=True, eq=False, init=False)
class Hits:
    """Hits in the order (query, distance, id).

    ``len(hits)``, ``hits[0]`` and iteration are those of a list of (query, id, distance); ``hits[10:20]`` is Hits too.

    Parameters
    ----------
    query
        int64 (n,). The row of the query.
    id
        (n,) int64, or an object array of strings.
    distance
        float64 (n,). Metres on the sphere, CRS units in the plane.
    columns
        The attributes that were asked for, Arrow arrays of length n; lon and lat, or x and y, are positions.
    origin
        Knows where the objects are; None where nothing does. It is not part of a pickle.
    """

    query: NDArray[np.int64]
    id: NDArray[Any]
    distance: NDArray[np.float64]
    columns: dict[str, pa.Array]
    origin: Origin | None

    def __init__(
        self,
        query: NDArray[np.int64],
        id: NDArray[Any],
        distance: NDArray[np.float64],
        columns: dict[str, pa.Array],
        origin: Origin | None = None,
    ) -> None:
        # what dataclasses write themselves for frozen ones takes twice as long, which one query by itself feels
        _set_query(self, query)
        _set_id(self, id)
        _set_distance(self, distance)
        _set_columns(self, columns)
        _set_origin(self, origin)

    def __reduce__(self) -> tuple[Any, ...]:
        return Hits, (self.query, self.id, self.distance, self.columns)

    def __len__(self) -> int:
        return len(self.query)

    def __iter__(self) -> Iterator[tuple[int, Any, float]]:
        """Yield (query, id, distance) of each hit as Python values."""
        yield from zip(self.query.tolist(), self.id.tolist(), self.distance.tolist(), strict=True)

    @overload
    def __getitem__(self, row: SupportsIndex) -> tuple[int, Any, float]: ...
    @overload
    def __getitem__(self, row: slice) -> Hits: ...
    def __getitem__(self, row: Any) -> Any:
        """Return the hit of a number, from the end where it is negative, as (query, id, distance); of a slice, Hits."""
        if isinstance(row, slice):
            return take_rows(self, row)
        try:
            at = operator.index(row)
        except TypeError:
            raise TypeError(f"hits are numbered from 0, and {row!r} is no number and no slice") from None
        if not -len(self) <= at < len(self):
            raise IndexError(f"there is no hit {at}: there are {len(self)}")
        at %= len(self)
        return next(iter(self[at : at + 1]))

    def _repr_html_(self) -> str:
        from dtoss.html_table import ROWS_SHOWN, rows_html

        return rows_html("hit", self[:ROWS_SHOWN].to_arrow(), len(self))

    def __eq__(self, other: object) -> bool:
        """Return whether others are the same hits with the same attributes."""
        if not isinstance(other, Hits):
            return NotImplemented
        pairs = ((self.query, other.query), (self.id, other.id), (self.distance, other.distance))
        return all(np.array_equal(a, b) for a, b in pairs) and self.columns == other.columns

    def __hash__(self) -> int:
        raise TypeError("hits cannot be hashed, as their arrays can change: use tuple(hits)")

    def only(self, kept: NDArray[np.bool_]) -> Hits:
        """Return some of the hits, in the same order."""
        return take_rows(self, kept)

    def rank(self) -> NDArray[np.int64]:
        """Return each hit's place among its query's, int64 (n,), from 1."""
        n = len(self.query)
        starts = np.ones(n, np.bool_)
        starts[1:] = self.query[1:] != self.query[:-1]
        first = np.flatnonzero(starts)
        return np.arange(1, n + 1) - np.repeat(first, np.diff(np.append(first, n)))

    @property
    def crs(self) -> str | None:
        """The CRS of positions, as the index names it; None where nothing knows it."""
        return None if self.origin is None else self.origin.crs

    @property
    def positions(self) -> NDArray[np.float64]:
        """Where the objects are, float64 (n, 2): lon, lat in degrees or x, y in CRS units.

        Taken from the columns where ``columns=["lon", "lat"]`` asked for them; else the index looks each object up by
        its id, a microsecond or two for each.

        Raises
        ------
        ValueError
            If neither is there: of hits that were pickled, and of those of a server.
        """
        for names in _PAIRS:
            if all(name in self.columns for name in names):
                return np.stack([np.from_dlpack(self.columns[name]) for name in names], axis=1)
        if self.origin is None:
            raise ValueError("these hits do not know where their objects are: ask with columns=['lon', 'lat']")
        return self.origin.positions_of(self.id)

    def to_arrow(self) -> pa.Table:
        """Return a table with the columns query, id, distance, rank and the attributes.

        An attribute never has one of these names: :mod:`dtoss.names` says as what it comes then.
        """
        ids = pa.array(self.id, pa.large_string()) if self.id.dtype == object else numbers(self.id)
        query, distance, rank = map(numbers, (self.query, self.distance, self.rank()))
        table = {"query": query, "id": ids, "distance": distance, "rank": rank}
        names = free_names(self.columns)
        names |= {name: name for pair in _PAIRS for name in pair if name in names}
        return pa.table(table | {names[name]: column for name, column in self.columns.items()})

    def to_pandas(self) -> pandas.DataFrame:
        """Return the same as a pandas DataFrame; whole numbers, booleans and text with nulls are of a nullable type.

        Raises
        ------
        InputError
            If pandas is not installed.
        """
        need("pandas", "to_pandas", "frames")
        from dtoss.result_frames import pandas_frame

        return pandas_frame(self.to_arrow())

    def to_polars(self) -> polars.DataFrame:
        """Return the same as a polars DataFrame.

        Raises
        ------
        InputError
            If polars is not installed.
        """
        return need("polars", "to_polars", "frames").from_arrow(self.to_arrow())

    def to_geopandas(self, crs: str | None = None) -> geopandas.GeoDataFrame:
        """Return the same as a GeoDataFrame with the positions of the objects as points, lon before lat.

        Parameters
        ----------
        crs
            Of the positions, where the hits do not know it; None is the index's own, and "none" a frame without one.

        Raises
        ------
        InputError
            If GeoPandas is not installed.
        ValueError
            If a CRS is given and the index has another one, or nothing knows where the objects are.
        """
        from dtoss.geometry.space import NO_CRS, same_crs
        from dtoss.result_frames import geo_frame

        known = self.crs
        if crs is not None and known is not None and not same_crs(crs, known):
            raise ValueError(f"crs {crs!r} is not {known!r} of the hits: leave it out, and call to_crs of the frame")
        return geo_frame(self.to_arrow(), self.positions, known or crs or NO_CRS, "to_geopandas")


_set_query, _set_id, _set_distance, _set_columns, _set_origin = (
    Hits.__dict__[name].__set__ for name in ("query", "id", "distance", "columns", "origin")
)
