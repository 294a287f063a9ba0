"""Hits as tables: query, id, distance and columns ``c:NAME``; those of several shares of the objects are merged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.column_rows import one_chunk
from dtoss.hits import Hits
from dtoss.partition import numbers, values_of

if TYPE_CHECKING:
    from dtoss.hits import Origin

SATISFIED = "having"
"""The column that says which hits satisfy a condition on hits."""


def table_of_hits(hits: Hits) -> pa.Table:
    """Return the query, the id and the distance of hits."""
    return pa.table({"query": numbers(hits.query), "id": id_column(hits.id), "distance": numbers(hits.distance)})


def table_of_part(hits: Hits) -> pa.Table:
    """Return the same and where the objects are: x and y."""
    at = hits.positions
    return table_of_hits(hits).append_column("x", numbers(at[:, 0])).append_column("y", numbers(at[:, 1]))


def id_column(ids: NDArray[Any]) -> pa.Array:
    """Return ids as a column: int64, or large strings."""
    return pa.array(ids, pa.large_string()) if ids.dtype == object else numbers(ids)


def hits_of_table(table: pa.Table, columns: Any = (), origin: Origin | None = None) -> Hits:
    """Return the hits of a table, those that satisfy the condition on hits if there is one."""
    if SATISFIED in table.column_names:
        table = table.filter(table.column(SATISFIED))
    found = one_chunk(table.column("id"))
    strings = not pa.types.is_integer(found.type)
    ids = found.to_numpy(zero_copy_only=False).astype(object) if strings else values_of(found).copy()
    carried = {name: one_chunk(table.column(f"c:{name}")) for name in columns}
    return Hits(
        values_of(table.column("query")).copy(), ids, values_of(table.column("distance")).copy(), carried, origin
    )


def renumber(table: pa.Table, rows: NDArray[np.int64]) -> pa.Table:
    """Return hits of some places with the numbers that these have among all."""
    return table.set_column(0, "query", numbers(rows[values_of(table.column("query"))]))


def merge_hits(tables: list[pa.Table], k: int) -> pa.Table:
    """Return hits of several shares as one: by place, distance and id, each object once, the first k of each place.

    ``tables``: at least one, with the same columns.

    Cost O(n log n).
    """
    import pyarrow.compute as pc  # which questions in this process do without

    whole = pa.concat_tables(tables).combine_chunks()
    order = pc.sort_indices(whole, [("query", "ascending"), ("distance", "ascending"), ("id", "ascending")])
    whole = whole.take(order)
    if len(whole) < 2:
        return whole
    query = whole.column("query").to_numpy()
    code = one_chunk(pc.dictionary_encode(whole.column("id"))).indices.to_numpy()
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
