"""Answers: which objects, how far, for which query."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Hits:
    """Hits in the order (query, distance, id).

    Parameters
    ----------
    query : int64 (n,): the row of the query.
    id : (n,) int64, or an object array of strings.
    distance : float64 (n,): metres on the sphere, CRS units in the plane.
    columns : the attributes that were asked for, Arrow arrays of length n.
    """

    query: NDArray[np.int64]
    id: NDArray[Any]
    distance: NDArray[np.float64]
    columns: dict[str, pa.Array]

    def __len__(self) -> int:
        return len(self.query)

    def __iter__(self) -> Iterator[tuple[int, Any, float]]:
        """Yield (query, id, distance) of each hit as Python values."""
        yield from zip(self.query.tolist(), self.id.tolist(), self.distance.tolist(), strict=True)

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
        """Return a table with the columns query, id, distance, rank and the attributes."""
        ids = pa.array(self.id, pa.large_string()) if self.id.dtype == object else pa.array(self.id)
        table = {"query": self.query, "id": ids, "distance": self.distance, "rank": self.rank()}
        return pa.table(table | self.columns)

    def to_pandas(self) -> Any:
        """Return the same as a pandas DataFrame."""
        return self.to_arrow().to_pandas()
