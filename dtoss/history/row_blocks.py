"""Blocks: the units of reading. A block is a row group of a file, of at most 8,192 rows, with a box and a time span.

Tables of rows: their columns, and the two orders in which rows lie in files.

One row an object: the latest of each id, and the order of values by which equal times are settled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.column_rows import take_rows
from dtoss.errors import InputError
from dtoss.geometry.space import Space
from dtoss.history.schema import OWN, TIME_TYPES, Schema
from dtoss.history.sums import row_hashes
from dtoss.partition import Ids, numbers, values_of

BLOCK_ROWS = 8192
"""Rows of a block at the most."""
ORDER_NAMES = ("time", "place", "object")
BY_TIME, BY_PLACE, BY_OBJECT = 0, 1, 2
"""The orders by their codes."""


@dataclass(frozen=True)
class Blocks:
    """Blocks of one file, or of several, in the order of their files; all arrays have n rows."""

    row_group: NDArray[np.int32]  # int32. Its number in its file
    rows: NDArray[np.int32]  # rows, marks: int32. How many rows it has, and how many of them are deletions
    marks: NDArray[np.int32]
    offset: NDArray[np.int64]  # int64. Where its bytes begin in the file
    bytes: NDArray[np.int32]  # int32
    sum: NDArray[np.uint64]  # uint64. Of its rows: :mod:`dtoss.history.sums`
    t_from: NDArray[Any]  # t_from, t_to: int64 or float64. Its earliest and latest time, as times are stored
    t_to: NDArray[Any]
    id_from: NDArray[np.int64]  # id_from, id_to: int64. Between which its ids are, as :func:`id_words` numbers them
    id_to: NDArray[np.int64]
    # low, high: float64 (n, dimension). The closed box of its vectors (:meth:`dtoss.geometry.space.Space.vectors`); inf
    # and -inf where no row has a position
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.rows)

    take = take_rows


def id_words(ids: pa.Array | pa.ChunkedArray) -> NDArray[np.int64]:
    """Return whole numbers in the order of ids, int64 (n,): themselves, or the first eight bytes of text.

    Texts that begin alike have the same number.

    Examples
    --------
    >>> id_words(pa.array([3, -1])).tolist()
    [3, -1]
    >>> words = id_words(pa.array(["", "a", "ab", "b"], pa.large_string()))
    >>> bool((words[1:] > words[:-1]).all())
    True
    """
    column = ids.combine_chunks() if isinstance(ids, pa.ChunkedArray) else ids
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks)
    if pa.types.is_integer(column.type):
        return np.asarray(column.cast(pa.int64()).to_numpy())
    begins = column.cast(pa.large_binary()).dictionary_encode()
    words = [
        int.from_bytes(value[:_WORD].ljust(_WORD, b"\0"), "big") - _MIDDLE for value in begins.dictionary.to_pylist()
    ]
    return np.array(words, np.int64)[begins.indices.to_numpy()]


_WORD, _MIDDLE = 8, 1 << 63
"""Bytes of a number, and the middle of all its values."""


def places_among(ids: Ids | pa.ChunkedArray, ascending: pa.Array) -> NDArray[np.int64]:
    """Return where each id stands among others that ascend, int64 (n,), -1 where it does not.

    Cost O(n log m) of whole numbers, O(n + m) of strings.
    """
    if not isinstance(ids, np.ndarray) and not pa.types.is_integer(ids.type):
        return np.asarray(pc.index_in(ids, value_set=ascending).fill_null(-1).to_numpy(), np.int64)
    sought, known = values_of(ids) if isinstance(ids, pa.Array) else np.asarray(ids), values_of(ascending)
    if len(known) == 0:
        return np.full(len(sought), -1, np.int64)
    at = np.minimum(np.searchsorted(known, sought), len(known) - 1)
    return np.where(known[at] == sought, at, -1)


def starts_of(rows: int) -> NDArray[np.int64]:
    """Return where the blocks of so many rows begin: evenly, so that none is small."""
    count = -(-rows // BLOCK_ROWS)
    return np.arange(count, dtype=np.int64) * rows // max(count, 1)


def described(rows: pa.Table, starts: NDArray[np.int64], space: Space) -> dict[str, NDArray[Any]]:
    """Return what blocks say of rows, by name: all but where they are in a file. Cost O(rows).

    ``rows``: in the order of a file, at least one; ``starts``: int64. Where each block begins; the first at 0.
    """
    t = t_numbers(rows.column("t"))
    deleted = rows.column("deleted").to_numpy(zero_copy_only=False)
    _, vectors = places_in(rows, space)
    words = id_words(rows.column("id"))
    low, high = np.fmin.reduceat(vectors, starts, axis=0), np.fmax.reduceat(vectors, starts, axis=0)
    return {
        "rows": np.diff(np.append(starts, len(rows))).astype(np.int32),
        "marks": np.add.reduceat(deleted.astype(np.int32), starts),
        "sum": np.add.reduceat(row_hashes(rows), starts),
        "t_from": np.minimum.reduceat(t, starts),
        "t_to": np.maximum.reduceat(t, starts),
        "id_from": np.minimum.reduceat(words, starts),
        "id_to": np.maximum.reduceat(words, starts),
        "low": np.where(np.isnan(low), np.inf, low),
        "high": np.where(np.isnan(high), -np.inf, high),
    }


def places_in(rows: pa.Table, space: Space) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the positions of rows, (n, 2), and their vectors, (n, dimension): NaN of deletions, which are nowhere."""
    positions = np.stack([rows.column(name).to_numpy() for name in ("x", "y")], axis=1)
    there = np.isfinite(positions).all(axis=1) & ~rows.column("deleted").to_numpy(zero_copy_only=False)
    if there.all():
        return positions, space.vectors(np.ascontiguousarray(positions))
    vectors = np.full((len(rows), space.dimension), np.nan)
    if there.any():
        vectors[there] = space.vectors(np.ascontiguousarray(positions[there]))
    return positions, vectors


def rows_of(table: pa.Table, schema: Schema) -> pa.Table:
    """Return a table as rows of a schema: its columns in order, nulls for attributes that the table lacks."""
    columns: dict[str, Any] = {}
    for column in schema.arrow:
        if column.name in table.column_names:
            columns[column.name] = _cast(table.column(column.name), column.type, column.name)
        elif column.name == "deleted":
            columns[column.name] = pa.chunked_array([pa.repeat(pa.scalar(False), len(table))])
        elif column.name in OWN:
            raise InputError(f"rows have no column {column.name}: {', '.join(OWN[:-1])} are wanted")
        else:
            columns[column.name] = pa.chunked_array([pa.nulls(len(table), column.type)])
    columns["deleted"] = columns["deleted"].fill_null(False)
    for name in ("id", "t"):
        if columns[name].null_count:
            raise InputError(f"{columns[name].null_count} rows have no {name}: every row needs one")
    if schema.t_type == "double" and not bool(pc.all(pc.is_finite(columns["t"])).as_py() in (True, None)):
        raise InputError("a time is not finite: every row needs one")
    if schema.t_type == "double":
        columns["t"] = pc.add(columns["t"], 0.0)  # -0.0 is the same time as 0.0
    for name in ("x", "y"):
        columns[name] = columns[name].fill_null(float("nan"))
    rows = pa.table(columns, schema=schema.arrow)
    x, y, deleted = (rows.column(name).to_numpy(zero_copy_only=False) for name in ("x", "y", "deleted"))
    nowhere = (~np.isfinite(x) | ~np.isfinite(y)) & ~deleted
    if nowhere.any():
        raise InputError(f"{int(nowhere.sum())} rows have no position: only a deletion may have none")
    return rows


def t_numbers(column: pa.ChunkedArray | pa.Array) -> NDArray[Any]:
    """Return times as the numbers that they are stored as: int64 microseconds, int64 or float64, (n,)."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    return np.asarray(column.to_numpy())


def sorted_rows(rows: pa.Table, order: Literal["time", "object"]) -> pa.Table:
    """Return rows sorted by (t, id), or by (id, t), and then by (x, y, deleted, attributes), so that ties are settled.

    Cost O(n log n); the columns after the second are looked at only where both are equal.
    """
    by = time_order(rows) if order == "time" else object_order(rows)
    return rows if (by[1:] > by[:-1]).all() else rows.take(pa.array(by))


def time_order(rows: pa.Table) -> NDArray[np.int64]:
    """Return the numbers of the rows in the order of (t, id, all else), int64 (n,)."""
    return _order(rows, ("t", "id"))


def object_order(rows: pa.Table) -> NDArray[np.int64]:
    """Return the numbers of the rows in the order of (id, t, all else), int64 (n,)."""
    return _order(rows, ("id", "t"))


def _order(rows: pa.Table, first: tuple[str, str]) -> NDArray[np.int64]:
    major, minor = (_keys(rows.column(name)) for name in first)
    by, equal = _by_both(major, minor)
    if not equal.any():
        return by
    tied = np.flatnonzero(np.append(equal, False) | np.append(False, equal))
    group = np.cumsum(np.append(True, ~equal))[tied]
    some = rows.take(pa.array(by[tied]))
    rest = ("x", "y", "deleted", *rows.column_names[len(OWN) :])
    keys = [order_keys(some.column(name).combine_chunks()) for name in rest]
    by[tied] = by[tied[np.lexsort((*reversed(keys), group))]]
    return by


def _by_both(major: NDArray[np.int64], minor: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the order of rows by two keys, int64 (n,), and which are as the next one, bool (n - 1,); ties anyhow."""
    if len(major):
        low, least = int(major.min()), int(minor.min())
        span, wide = int(major.max()) - low + 1, int(minor.max()) - least + 1
        if span * wide < 1 << 63:
            # one number for both: sorted in vector registers, ten times as fast
            both = (major - low) * wide + (minor - least)
            by = np.argsort(both).astype(np.int64)
            ordered = both[by]
            return by, ordered[1:] == ordered[:-1]
    by = np.lexsort((minor, major)).astype(np.int64)
    return by, (major[by[1:]] == major[by[:-1]]) & (minor[by[1:]] == minor[by[:-1]])


def _keys(column: pa.ChunkedArray) -> NDArray[np.int64]:
    if column.num_chunks == 1:
        return order_keys(column.chunk(0))
    return order_keys(column.combine_chunks())


def _cast(column: pa.ChunkedArray, kind: pa.DataType, name: str) -> pa.ChunkedArray:
    if column.type == kind:
        return column
    try:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_timestamp(kind) and pa.types.is_timestamp(column.type) and column.type.tz is None:
            column = column.cast(pa.timestamp(column.type.unit, "UTC"))  # a time without zone is UTC
        if column.type == pa.timestamp("ns", "UTC") and kind == TIME_TYPES["timestamp"]:
            column = pc.floor_temporal(column, unit="microsecond")  # as Spark reads them
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise InputError(f"column {name!r} cannot be kept as {kind}: {str(error).splitlines()[0]}") from None


def latest(table: pa.Table, compared: Sequence[str]) -> pa.Table:
    """Return the rows with the greatest (t, x, y, attributes) of each id, in the order in which they stand.

    Nulls are below all values, -0.0 below 0.0, NaN above all numbers, and nested attributes are compared by their
    text: rows that are equal in everything compared are the same, so which one stays does not depend on their order.

    ``compared``: the columns that settle equal times, the first one first.

    Cost O(n) for times and coordinates, O(m log m) for attributes of the m rows that those leave equal.
    """
    if len(table) == 0:
        return table
    ids = table.column("id")
    if pa.types.is_integer(ids.type) and _distinct(values_of(ids)):
        return table
    group = values_of(ids.combine_chunks().dictionary_encode().indices)
    groups = int(group.max()) + 1
    alone = np.bincount(group, minlength=groups)[group] == 1
    settled, rows = [np.flatnonzero(alone)], np.flatnonzero(~alone)
    for name in ("t", *compared):
        if name not in table.column_names:
            continue
        key = order_keys(table.column(name).take(numbers(rows)).combine_chunks())
        greatest = np.full(groups, np.iinfo(np.int64).min)
        np.maximum.at(greatest, group[rows], key)
        rows = rows[key == greatest[group[rows]]]
        alone = np.bincount(group[rows], minlength=groups)[group[rows]] == 1
        settled.append(rows[alone])
        rows = rows[~alone]
        if len(rows) == 0:
            break
    settled.append(rows[np.unique(group[rows], return_index=True)[1]])
    return table.take(numbers(np.sort(np.concatenate(settled))))


def _distinct(ids: NDArray[np.int64]) -> bool:
    """Return whether whole numbers are all different: sorting them takes a tenth of the time of grouping them."""
    ids = np.sort(ids)
    return bool((ids[1:] != ids[:-1]).all())


def order_between(one: pa.Array | pa.ChunkedArray, other: pa.Array) -> NDArray[np.int8]:
    """Return 1 where a value is after the other one, 0 where they are the same, -1 else, in the order of `latest`."""
    one = one.combine_chunks() if isinstance(one, pa.ChunkedArray) else one
    keys = order_keys(pa.concat_arrays([one, other.cast(one.type)]))
    first, second = keys[: len(one)], keys[len(one) :]
    return (first > second).astype(np.int8) - (first < second).astype(np.int8)


def order_of_updates(
    times: pa.Array | pa.ChunkedArray,
    deletes: NDArray[np.bool_],
    stands: pa.Array,
    compared: Callable[[NDArray[np.int64]], Iterable[tuple[pa.Array | pa.ChunkedArray, pa.Array]]],
) -> NDArray[np.int8]:
    """Return which updates are newer than the row of their id that stands (1), say the same (0) or are late (-1).

    ``times``, ``stands``: of both; ``deletes``: whether an update deletes, which wins at equal times; ``compared``:
    returns pairs of columns of those that are still tied, by their numbers, as :func:`order_of_rows` has them.
    """
    order = order_between(times, stands)
    ties = order == 0
    order[ties & deletes] = 1
    tied = np.flatnonzero(ties & ~deletes)
    if len(tied):
        order[tied] = order_of_rows(compared(tied))
    return order


def order_after_deletions(
    times: pa.Array | pa.ChunkedArray, deletes: NDArray[np.bool_], deleted: pa.Array
) -> NDArray[np.int8]:
    """Return the same of updates against the deletions of their ids, and when these were: at equal times one stays."""
    since = order_between(times, deleted)
    return np.where(since > 0, 1, np.where((since == 0) & deletes, 0, -1)).astype(np.int8)


def order_of_rows(columns: Iterable[tuple[pa.Array | pa.ChunkedArray, pa.Array]]) -> NDArray[np.int8]:
    """Return the order of rows against others by pairs of columns, at least one: where one ties the next decides."""
    pairs = iter(columns)
    order = order_between(*next(pairs))
    for one, other in pairs:
        tied = np.flatnonzero(order == 0)
        if len(tied) == 0:
            break
        order[tied] = order_between(one.take(numbers(tied)), other.take(numbers(tied)))
    return order


def order_keys(column: pa.Array) -> NDArray[np.int64]:
    """Return whole numbers in the order of a column's values, int64 (n,), for values of one column only."""
    if column.null_count:
        key = np.full(len(column), -1)
        present = values_of(column.is_valid())
        if not present.any():
            return key
        key[present] = np.unique(order_keys(column.drop_null()), return_inverse=True)[1]
        return key
    kind = column.type
    if pa.types.is_floating(kind):
        bits = values_of(column.cast(pa.float64())).view(np.int64)
        # IEEE 754's total order: negative numbers run backwards
        return bits ^ ((bits >> 63) & np.iinfo(np.int64).max)
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        column = column.cast(pa.int32())
    if pa.types.is_temporal(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return values_of(column.cast(pa.int64())).astype(np.int64)
    if pa.types.is_nested(kind):
        column = pa.array([repr(value) for value in column.to_pylist()], pa.large_string())
    return values_of(pc.rank(column, "ascending", tiebreaker="dense")).astype(np.int64)
