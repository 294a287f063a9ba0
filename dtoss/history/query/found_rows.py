"""Rows that answer, and how they become hits: in the order (query, distance, id, t), the same from every layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.column_rows import take_rows
from dtoss.conditions.parse import Condition
from dtoss.history.query.scan_blocks import satisfying, stored_name
from dtoss.history.row_blocks import order_keys, t_numbers
from dtoss.history.schema import OWN, Schema
from dtoss.hits import Hits


@dataclass(frozen=True)
class FoundRows:
    """Rows that answer questions; (n,)."""

    question: NDArray[np.int64]  # int64
    distance: NDArray[np.float64]  # float64
    rows: pa.Table  # id, t, x, y, and the columns that were read

    def __len__(self) -> int:
        return len(self.question)

    take = take_rows


@dataclass(frozen=True)
class PastOrigin:
    """What hits of a history know of where they come from: the CRS; positions are among their columns."""

    crs: str
    names: tuple[str, str]

    def positions_of(self, ids: NDArray[Any], /) -> NDArray[np.float64]:
        """Refuse: an object of a history has many positions."""
        raise ValueError(f"{len(ids)} ids of a history have many positions: {' and '.join(self.names)} are columns")


def joined_found(parts: Sequence[FoundRows], names: Sequence[str], schema: Schema) -> FoundRows:
    """Return what was found in several pieces as one."""
    wanted = pa.schema([schema.arrow.field(name) for name in names])
    tables = [part.rows.select(list(names)) for part in parts]
    return FoundRows(
        np.concatenate([np.zeros(0, np.int64), *(part.question for part in parts)]),
        np.concatenate([np.zeros(0), *(part.distance for part in parts)]),
        pa.concat_tables([wanted.empty_table(), *tables]).combine_chunks(),
    )


def in_order(found: FoundRows, *, by_id: bool = False) -> FoundRows:
    """Return it in the order (question, distance, id, t), or (question, id, t); ties by position and then by values.

    So answers do not depend on where rows lie. Cost O(n log n).
    """
    if len(found) < 2:
        return found
    keys = [_keys(found.rows, "id"), t_numbers(found.rows.column("t"))]
    first = [found.question] if by_id else [found.question, found.distance]
    order = np.lexsort((*reversed(keys), *reversed(first)))
    major = [key[order] for key in (*first, *keys)]
    equal = np.logical_and.reduce([key[1:] == key[:-1] for key in major])
    if equal.any():
        order = _settled(found, order, equal)
    return found.take(order)


def _settled(found: FoundRows, order: NDArray[np.int64], equal: NDArray[np.bool_]) -> NDArray[np.int64]:
    tied = np.flatnonzero(np.append(equal, [False]) | np.append([False], equal))
    group = np.cumsum(np.append([True], ~equal))[tied]
    some = found.rows.take(pa.array(order[tied]))
    rest = ["x", "y", *(name for name in some.column_names if name not in OWN)]
    keys = [_keys(some, name) for name in rest]
    order = order.copy()
    order[tied] = order[tied[np.lexsort((*reversed(keys), group))]]
    return order


def _keys(rows: pa.Table, name: str) -> NDArray[np.int64]:
    column = rows.column(name).combine_chunks()
    return order_keys(pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column)


def as_hits(found: FoundRows, schema: Schema, columns: Sequence[str], having: Condition | None = None) -> Hits:
    """Return hits with t, the positions and the columns that were asked for; of those that satisfy a condition."""
    if having is not None:
        found = found.take(np.flatnonzero(satisfying(having, found.rows, schema)))
    ids = found.rows.column("id")
    held: NDArray[Any] = ids.to_numpy().astype(object) if schema.id_type == "string" else np.array(ids.to_numpy())
    names = dict.fromkeys(["t", *schema.position_names, *columns])
    taken: dict[str, pa.Array] = {}
    for name in names:
        column = found.rows.column(stored_name(name, schema)).combine_chunks()
        taken[name] = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
    return Hits(found.question, held, found.distance, taken, PastOrigin(schema.space.crs, schema.position_names))
