"""What servers ask each other: places with the same question, and hits as tables that are merged."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.index import Index
from dtoss.queries.batch_answer import answer
from dtoss.queries.gather import take_columns
from dtoss.queries.raw_hits import RawHits

HAVING = "having"
"""The column that says which hits satisfy a condition on hits."""


@dataclass(frozen=True, eq=False)
class ShardQuery:
    """The same question of several places."""

    positions: NDArray[np.float64]  # float64 (m, 2). Legal ones
    radius: NDArray[np.float64]  # float64 (m,). Metres or CRS units; infinity for anywhere
    k: int  # The nearest so many; 0 for all within the radius
    where: str | None = None  # A condition on the objects; None for none
    columns: tuple[str, ...] = ()
    having: str | None = None  # A condition on hits: the column :data:`HAVING` says which satisfy it. None for none

    def __len__(self) -> int:
        return len(self.positions)

    def take(self, rows: NDArray[np.int64], radius: NDArray[np.float64] | None = None) -> ShardQuery:
        """Return the question of some places, with other radii if any are given."""
        return replace(self, positions=self.positions[rows], radius=self.radius[rows] if radius is None else radius)


def table_of(index: Index, asked: ShardQuery, replicas: bool = False) -> pa.Table:
    """Return the hits of an index: the number of the place, the id, the distance and columns, by distance and id."""
    if replicas and asked.where is not None:
        masked = index.filters.get(asked.where).masked
        found = answer(masked, index.space.vectors(asked.positions), asked.radius, asked.k, 1)
    else:
        found = index.search(asked.positions, asked.radius, asked.k, asked.where)
    return raw_table(index, found, asked.columns, asked.having)


def raw_table(index: Index, found: RawHits, columns: tuple[str, ...], having: str | None) -> pa.Table:
    """Return raw hits of an index as a table: the number of the place, the id, the distance and columns.

    ``having``: A condition on hits; None for none.
    """
    query = np.repeat(np.arange(len(found.count)), found.count)
    ids = pa.array(found.ids) if found.ids is not None else index.ids_of(found)
    taken = take_columns(index.parts, found, list(columns))
    told = {"query": query, "id": ids, "distance": found.distance}
    told |= {f"c:{name}": column for name, column in zip(columns, taken, strict=True)}
    if having is not None:
        told[HAVING] = index.satisfying(found, having)
    return pa.table(told)


def numbered(table: pa.Table, rows: NDArray[np.int64]) -> pa.Table:
    """Return hits of some places with the numbers that these have among all."""
    query = pa.array(rows[table.column("query").to_numpy()])
    return table.set_column(0, "query", query)


def merge_hits(tables: list[pa.Table], k: int) -> pa.Table:
    """Return hits of several servers as one: by place, distance and id, each object once, the first k of each place.

    ``tables``: at least one, with the same columns.

    Cost O(n log n).
    """
    whole = pa.concat_tables(tables).combine_chunks()
    order = pc.sort_indices(whole, [("query", "ascending"), ("distance", "ascending"), ("id", "ascending")])
    whole = whole.take(order)
    if len(whole) < 2:
        return whole
    query = whole.column("query").to_numpy()
    ids = pc.dictionary_encode(whole.column("id")).combine_chunks()
    code = (ids.chunk(0) if isinstance(ids, pa.ChunkedArray) else ids).indices.to_numpy()
    # who has an object as a replica says the same distance of it as its owner
    first = np.append(True, (query[1:] != query[:-1]) | (code[1:] != code[:-1]))
    whole = whole.filter(pa.array(first))
    if k == 0:
        return whole
    query = query[first]
    begin = np.searchsorted(query, query)
    return whole.filter(pa.array(np.arange(len(query)) - begin < k))


def last_distance(table: pa.Table, count: int, k: int) -> NDArray[np.float64]:
    """Return the distance of the k-th hit of each of so many places, float64 (count,), infinity beyond the last."""
    have = np.bincount(table.column("query").to_numpy(), minlength=count)
    return hits_reach(have, table.column("distance").to_numpy(), np.full(count, k), np.full(count, np.inf))


def hits_reach(
    have: NDArray[np.integer], distance: NDArray[np.float64], wanted: NDArray[np.integer], radius: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return how far the wanted hits of each place reach, float64 (m,): the radius where there are fewer.

    ``have``: int (m,). Hits of each place; ``wanted``: int (m,). At least 1; ``radius``: float64 (m,). No hit is
    further.
    """
    found, enough = radius.copy(), have >= wanted
    last = (np.cumsum(have) - have + wanted - 1)[enough]
    found[enough] = np.minimum(distance[last], radius[enough])
    return found
