"""Answers: which objects, how far, for which query."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.names import free_names


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
        The attributes that were asked for, Arrow arrays of length n.
    """

    query: NDArray[np.int64]
    id: NDArray[Any]
    distance: NDArray[np.float64]
    columns: dict[str, pa.Array]

    def __init__(
        self, query: NDArray[np.int64], id: NDArray[Any], distance: NDArray[np.float64], columns: dict[str, pa.Array]
    ) -> None:
        # what dataclasses write themselves for frozen ones takes twice as long, which one query by itself feels
        _set_query(self, query)
        _set_id(self, id)
        _set_distance(self, distance)
        _set_columns(self, columns)

    def __len__(self) -> int:
        return len(self.query)

    def __iter__(self) -> Iterator[tuple[int, Any, float]]:
        """Yield (query, id, distance) of each hit as Python values."""
        yield from zip(self.query.tolist(), self.id.tolist(), self.distance.tolist(), strict=True)

    def __getitem__(self, row: Any) -> Any:
        """Return the hit of a number, from the end where it is negative, as (query, id, distance); of a slice, Hits.

        Raises
        ------
        IndexError
            If there are fewer hits.
        TypeError
            If it is neither a whole number nor a slice.
        """
        if isinstance(row, slice):
            begin, end, step = row.indices(len(self))
            if step == 1:  # nothing of a column is copied
                columns = {name: column.slice(begin, max(end - begin, 0)) for name, column in self.columns.items()}
            else:
                rows = pa.array(np.arange(begin, end, step))
                columns = {name: column.take(rows) for name, column in self.columns.items()}
            return Hits(self.query[row], self.id[row], self.distance[row], columns)
        try:
            at = operator.index(row)
        except TypeError:
            raise TypeError(f"hits are numbered from 0, and {row!r} is no number and no slice") from None
        if not -len(self) <= at < len(self):
            raise IndexError(f"there is no hit {at}: there are {len(self)}")
        at %= len(self)
        return next(iter(self[at : at + 1]))

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
        columns = {name: column.filter(pa.array(kept)) for name, column in self.columns.items()}
        return Hits(self.query[kept], self.id[kept], self.distance[kept], columns)

    def rank(self) -> NDArray[np.int64]:
        """Return each hit's place among its query's, int64 (n,), from 1."""
        n = len(self.query)
        starts = np.ones(n, np.bool_)
        starts[1:] = self.query[1:] != self.query[:-1]
        first = np.flatnonzero(starts)
        return np.arange(1, n + 1) - np.repeat(first, np.diff(np.append(first, n)))

    def to_arrow(self) -> pa.Table:
        """Return a table with the columns query, id, distance, rank and the attributes.

        An attribute never has one of these names: :mod:`dtoss.names` says as what it comes then.
        """
        ids = pa.array(self.id, pa.large_string()) if self.id.dtype == object else pa.array(self.id)
        table = {"query": self.query, "id": ids, "distance": self.distance, "rank": self.rank()}
        names = free_names(self.columns)
        return pa.table(table | {names[name]: column for name, column in self.columns.items()})

    def to_pandas(self) -> Any:
        """Return the same as a pandas DataFrame."""
        return self.to_arrow().to_pandas()


_set_query, _set_id, _set_distance, _set_columns = (
    Hits.__dict__[name].__set__ for name in ("query", "id", "distance", "columns")
)
