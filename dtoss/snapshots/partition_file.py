"""The file of one partition, and that of the border table and of a partition's share of it.

It is Arrow IPC, uncompressed, one row whose columns are lists: every array of the partition is one contiguous buffer
that opens by memory mapping, with nothing parsed.

The file of tombstones: which objects were deleted, and when, so that a row that comes late does not bring one back.

It is an Arrow IPC file, uncompressed, one batch of the columns ``id`` and ``t``, in the order of the ids.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.errors import StoreError
from dtoss.id_filter import order_of_ids
from dtoss.names import free_names
from dtoss.partition import MOST_LEVELS, Blocks, Graph, Ids, Partition, values_of
from dtoss.partition import numbers as arrow_of

if TYPE_CHECKING:
    from dtoss.building.border import Border, BorderTable


def _arrays(partition: Partition) -> dict[str, Any]:
    arrays: dict[str, Any] = {
        "ids": partition.ids,
        "positions": partition.positions.ravel(),
        "sites": partition.sites.ravel(),
        "first_object": partition.first_object,
        "replica_home": partition.replica_home,
        "first": partition.graph.first,
        "neighbours": partition.graph.neighbours,
        "rim": partition.rim,
        "keys": partition.keys,
        "balls": partition.blocks.balls.ravel(),
        "block_first": partition.blocks.first,
        "block_neighbours": partition.blocks.neighbours,
        "uncertified": partition.uncertified,
        "id_order": partition.id_order,
        "id_filter": partition.id_filter,
    }
    if partition.times is not None:
        arrays["t"] = partition.times
    for level, graph in enumerate(partition.levels):
        arrays[f"first_{level + 1}"] = graph.first
        arrays[f"neighbours_{level + 1}"] = graph.neighbours
    for name, column in partition.attributes.items():
        arrays[f"attribute:{name}"] = column
    return arrays


def pack(arrays: dict[str, Any], facts: dict[str, Any]) -> pa.RecordBatch:
    """Return a batch of one row whose columns are lists, with facts in its metadata."""
    columns, names = [], []
    for name, values in arrays.items():
        array = values if isinstance(values, pa.Array) else arrow_of(values)
        columns.append(pa.LargeListArray.from_arrays(arrow_of(np.array([0, len(array)], np.int64)), array))
        names.append(name)
    schema = pa.schema(
        [pa.field(name, column.type) for name, column in zip(names, columns, strict=True)],
        metadata={"dtoss": json.dumps(facts, sort_keys=True)},
    )
    return pa.record_batch(columns, schema=schema)


def unpack(batch: pa.RecordBatch) -> tuple[dict[str, pa.Array], dict[str, Any]]:
    """Return the arrays and facts of a packed batch, without a copy."""
    arrays = {name: batch.column(i).values for i, name in enumerate(batch.schema.names)}
    return arrays, json.loads(batch.schema.metadata[b"dtoss"])


def to_bytes(batch: pa.RecordBatch) -> pa.Buffer:
    """Return a batch as an Arrow IPC file."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def checksum(data: pa.Buffer | bytes, breathe: Callable[[], None] | None = None) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal.

    ``data``: the bytes; ``breathe``: is called after each half megabyte, which takes a third of a millisecond.
    """
    if breathe is None:
        return hashlib.sha256(memoryview(data)).hexdigest()
    made, view = hashlib.sha256(), memoryview(data)
    for begin in range(0, len(view), SUMMED_AT_ONCE):
        made.update(view[begin : begin + SUMMED_AT_ONCE])
        breathe()
    return made.hexdigest()


SUMMED_AT_ONCE = 1 << 19
"""Bytes of a checksum after which others may have their turn."""


def encode(partition: Partition) -> pa.Buffer:
    """Return the bytes of a partition's file: the same partition, the same bytes."""
    facts = {
        "number": partition.number,
        "dimension": partition.sites.shape[1],
        "owned_sites": partition.owned_sites,
        "levels": len(partition.levels),
        "furthest": partition.furthest,
    }
    return to_bytes(pack(_arrays(partition), facts))


TYPES = {
    "positions": pa.float64(),
    "sites": pa.float64(),
    "first_object": pa.int32(),
    "replica_home": pa.int32(),
    "first": pa.int32(),
    "neighbours": pa.int32(),
    "rim": pa.int32(),
    "keys": pa.int64(),
    "balls": pa.float64(),
    "block_first": pa.int32(),
    "block_neighbours": pa.int32(),
    "uncertified": pa.int32(),
}
"""Of the arrays that every partition has; those of a level are int32."""


UNREADABLE = (pa.ArrowException, OSError, LookupError, TypeError, ValueError, ArithmeticError, MemoryError)
"""What reading a damaged file may raise."""


def read_packed(source: pa.Buffer, types: dict[str, pa.DataType]) -> tuple[dict[str, pa.Array], dict[str, Any]]:
    """Return the arrays and facts in a file, without a copy, ids among them and those of ``types`` as these say."""
    batch = pa.ipc.open_file(source).get_batch(0)
    if batch.num_rows != 1:
        raise ValueError(f"{batch.num_rows} rows where 1 is wanted")
    # offsets of lists and strings, UTF-8, bitmaps, dictionaries
    batch.validate(full=True)
    arrays, facts = unpack(batch)
    kinds = types | {"ids": pa.large_string() if pa.types.is_large_string(arrays["ids"].type) else pa.int64()}
    for name, kind in kinds.items():
        if arrays[name].type != kind or arrays[name].null_count:
            raise ValueError(f"{name} is {arrays[name].type} with {arrays[name].null_count} nulls, not {kind}")
    return arrays, facts


def whole(facts: dict[str, Any], name: str, most: int) -> int:
    """Return a whole number from the facts of a file."""
    value = facts[name]
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise ValueError(f"{name} is {value!r}, a whole number from 0 to {most} is wanted")
    return value


def decode(source: pa.Buffer, name: str) -> Partition:
    """Return the partition in a file; its arrays are views of the source.

    What they hold is not looked at: :func:`dtoss.snapshots.structure.check_partition` does that.
    """
    try:
        arrays, facts = read_packed(source, TYPES)
        levels = whole(facts, "levels", MOST_LEVELS)
        pairs = [(f"first_{level + 1}", f"neighbours_{level + 1}") for level in range(levels)]
        if any(arrays[key].type != pa.int32() for pair in pairs for key in pair):
            raise ValueError("a level is not of type int32")
        plain = {key: values_of(arrays[key]) for key in [*TYPES, *(k for pair in pairs for k in pair)]}
        ids = arrays["ids"]
        attributes = {
            key.removeprefix("attribute:"): value for key, value in arrays.items() if key.startswith("attribute:")
        }
        # files that were written before names were reserved hold them as they were
        names = free_names(attributes)
        times = arrays.get("t")
        if times is not None and times.null_count:
            raise ValueError(f"t has {times.null_count} nulls")
        owned_sites = whole(facts, "owned_sites", 2**31 - 1)
        id_order, id_filter = _found_by(arrays, int(plain["first_object"][owned_sites]))
        return Partition(
            number=whole(facts, "number", 2**31 - 1),
            ids=ids if pa.types.is_large_string(ids.type) else values_of(ids),
            positions=plain["positions"].reshape(-1, 2),
            sites=plain["sites"].reshape(-1, whole(facts, "dimension", 3)),
            first_object=plain["first_object"],
            owned_sites=owned_sites,
            replica_home=plain["replica_home"],
            graph=Graph(plain["first"], plain["neighbours"]),
            rim=plain["rim"],
            levels=tuple(Graph(plain[first], plain[neighbours]) for first, neighbours in pairs),
            keys=plain["keys"],
            blocks=Blocks(plain["balls"].reshape(-1, 4), plain["block_first"], plain["block_neighbours"]),
            uncertified=plain["uncertified"],
            furthest=float(facts["furthest"]),
            id_order=id_order,
            id_filter=id_filter,
            times=times,
            attributes={names[name]: value for name, value in attributes.items()},
        )
    except UNREADABLE as error:
        reason = " ".join(str(error).split())
        raise StoreError(f"{name} is not a partition file or is damaged ({reason}); roll back or rebuild") from None


def _found_by(arrays: dict[str, pa.Array], owned: int) -> tuple[NDArray[np.int32], NDArray[np.uint64]]:
    """Return the order and the filter of the owned objects' ids; made here for a file of format 2, which has none."""
    if "id_order" not in arrays:
        from dtoss.id_filter import filter_of_ids, order_of_ids

        ids = arrays["ids"][: max(owned, 0)]
        held = ids if pa.types.is_large_string(ids.type) else values_of(ids)
        return order_of_ids(held), filter_of_ids(held)
    for name, kind in (("id_order", pa.int32()), ("id_filter", pa.uint64())):
        if arrays[name].type != kind or arrays[name].null_count:
            raise ValueError(f"{name} is {arrays[name].type}, not {kind} without nulls")
    return values_of(arrays["id_order"]), values_of(arrays["id_filter"])


def encode_tombstones(ids: Ids, times: pa.Array) -> pa.Buffer:
    """Return the bytes of a file of tombstones: the same ones, the same bytes, in whatever order they come.

    ``ids``: int64 (n,) or large strings, distinct; ``times``: an Arrow array of length n without nulls.
    """
    order = arrow_of(order_of_ids(ids))
    held = ids if isinstance(ids, pa.Array) else arrow_of(ids)
    return to_bytes(pa.record_batch([held.take(order), times.take(order)], names=["id", "t"]))


def decode_tombstones(source: pa.Buffer, name: str) -> pa.RecordBatch:
    """Return the columns id (int64 or large_string) and t of a file of tombstones, ids ascending, without a copy."""
    try:
        batch = pa.ipc.open_file(source).get_batch(0)
        batch.validate(full=True)
        if batch.schema.names != ["id", "t"]:
            raise ValueError(f"its columns are {', '.join(batch.schema.names)}, id and t are wanted")
        ids, times = batch.columns
        if ids.type not in (pa.int64(), pa.large_string()) or ids.null_count or times.null_count:
            raise ValueError(f"ids are {ids.type}; {ids.null_count} ids and {times.null_count} times are missing")
        if not _ascend(ids):
            raise ValueError("ids do not ascend")
    except UNREADABLE as error:
        reason = " ".join(str(error).split())
        raise StoreError(f"{name} is no file of tombstones or is damaged ({reason}); roll back or rebuild") from None
    return batch


def _ascend(ids: pa.Array) -> bool:
    if len(ids) < 2:
        return True
    if pa.types.is_large_string(ids.type):
        import pyarrow.compute as pc

        return bool(pc.all(pc.less(ids.slice(0, len(ids) - 1), ids.slice(1))).as_py())
    values = ids.to_numpy()
    return bool((values[1:] > values[:-1]).all())


def encode_border(border: Border | BorderTable) -> pa.Buffer:
    """Return a share of the border set, or the border table, as an Arrow IPC file."""
    from dtoss.building.border import BorderTable

    arrays: dict[str, Any] = {
        "sites": border.sites.ravel(),
        "home": border.home,
        "ids": border.ids,
        "open": border.open.view(np.uint8),
    }
    if isinstance(border, BorderTable):
        arrays |= {"first": border.first, "neighbours": border.neighbours, "area": border.area}
    else:
        arrays["edges"] = border.edges.ravel()
    return to_bytes(pack(arrays, {"dimension": border.sites.shape[1]}))


_TYPES = {"sites": pa.float64(), "home": pa.int32(), "open": pa.uint8()}
_TABLE = {"first": pa.int32(), "neighbours": pa.int32(), "area": pa.float64()}


def decode_border(source: pa.Buffer, name: str) -> Border | BorderTable:
    """Return the share or table in a file.

    What its arrays hold is not looked at: :func:`dtoss.snapshots.structure.check_border` does that.
    """
    from dtoss.building.border import Border, BorderTable

    try:
        arrays, facts = read_packed(source, _TYPES)
        ids = arrays["ids"] if pa.types.is_large_string(arrays["ids"].type) else values_of(arrays["ids"])
        sites = values_of(arrays["sites"]).reshape(-1, whole(facts, "dimension", 3))
        home, is_open = values_of(arrays["home"]), values_of(arrays["open"]).view(np.bool_)
        if "edges" in arrays:
            return Border(sites, home, ids, is_open, values_of(arrays["edges"]).reshape(-1, 2))
        if wrong := [key for key, kind in _TABLE.items() if arrays[key].type != kind or arrays[key].null_count]:
            raise ValueError(f"{wrong[0]} is {arrays[wrong[0]].type}, not {_TABLE[wrong[0]]} without nulls")
        first, neighbours, area = (values_of(arrays[key]) for key in _TABLE)
    except UNREADABLE as error:
        reason = " ".join(str(error).split())
        raise StoreError(f"{name} is not a border file or is damaged ({reason}); roll back or rebuild") from None
    return BorderTable(sites, home, ids, is_open, first, neighbours, area)
