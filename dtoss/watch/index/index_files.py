"""An index of subscriptions as a file: Arrow IPC, whose buffers are the arrays, mapped and never read twice."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.commits.chain import check_format
from dtoss.commits.columnar_files import decoding, encode_arrow
from dtoss.commits.file_entry import map_entry, write_entry
from dtoss.commits.folder import Folder
from dtoss.geometry.space import Space
from dtoss.watch.index.build_index import polygon_arrays
from dtoss.watch.index.subscription_index import SubscriptionIndex, Unanswered
from dtoss.watch.subscription import COMPLEMENT, CROSS, PAIRS, STAYS, SUBSCRIPTION_SCHEMA
from dtoss.watch.watch_folder import BUILT

_FORMAT = 4
"""Of an index in which somebody asks how long an object stays, or which come near; others are written as before."""
_BEFORE_STAYS = 3
"""Of one in which somebody asks who crosses a place or is outside of it."""
_BEFORE_CROSSES = 2
_BEFORE = 1
"""Its polygons stood in arrays of their own, without what decides by the numbers that were written."""
_ABOUT, _TABLE = b"dtoss", "table"


def write_built(folder: Folder, built: SubscriptionIndex, prefix: str) -> dict[str, Any]:
    """Write an index to ``built/`` of the folder of subscriptions, and return what a commit says of it.

    ``prefix``: of the file's name, such as "base" or "delta".
    """
    return write_entry(folder, encoded(built), len(built), "arrow", BUILT, begin=f"{prefix}-")


def encoded(built: SubscriptionIndex) -> pa.Buffer:
    """Return the bytes of an index's file: a column of one value for each array, the table among them."""
    table = pa.BufferOutputStream()
    whole = built.table.select(SUBSCRIPTION_SCHEMA.names)
    # what no subscription has takes no room; of no subscriptions, all columns stay
    said = whole.select(
        [name for name in SUBSCRIPTION_SCHEMA.names if not len(whole) or whole.column(name).null_count < len(whole)]
    )
    with pa.ipc.new_stream(table, said.schema) as stream:
        stream.write_table(said)
    columns: dict[str, pa.Array] = {_TABLE: _one(table.getvalue())}
    shapes = {}
    for name, array in built.arrays.items():
        shapes[name] = [array.dtype.str, list(array.shape)]
        columns[name] = _one(pa.py_buffer(np.ascontiguousarray(array)))
    kept = pa.schema(list(built.schema.items())).serialize()
    about = {
        "format": _format_of(built),
        "arrays": shapes,
        **asdict(built.space),
        "schema": base64.b64encode(kept).decode(),
        "texts": list(built.texts),
        "unanswered": [[one.row, one.id, one.reason] for one in built.unanswered],
    }
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    batch = batch.replace_schema_metadata({_ABOUT: json.dumps(about, sort_keys=True)})
    return encode_arrow(batch)


def _format_of(built: SubscriptionIndex) -> int:
    events = np.bitwise_or.reduce(built.arrays["events"], initial=0)
    return _FORMAT if events & (STAYS | PAIRS) else _BEFORE_STAYS if events & (CROSS | COMPLEMENT) else _BEFORE_CROSSES


def _one(data: pa.Buffer) -> pa.Array:
    """Return a column whose single value is a buffer, without a copy."""
    offsets = pa.py_buffer(np.array([0, data.size], np.int64))
    return pa.Array.from_buffers(pa.large_binary(), 1, [None, offsets, data])


def _buffer(batch: pa.RecordBatch, name: str) -> pa.Buffer:
    """Return the bytes of the single value of a column as they lie in the file; the value itself would be a copy."""
    column = batch.column(name)
    if len(column) != 1 or column.offset or not pa.types.is_large_binary(column.type):
        raise ValueError(f"its column {name} is not one value")
    _, offsets, data = column.buffers()
    begin, end = np.frombuffer(offsets, np.int64, 2).tolist()
    if data is None or not 0 <= begin <= end <= data.size:
        raise ValueError(f"its column {name} has no bytes")
    return data.slice(begin, end - begin)


def _whole(said: pa.Table) -> pa.Table:
    """Return a table with all columns; those that nobody has share memory that is all zero, which nobody touches."""
    count = len(said)
    zeros = pa.py_buffer(np.zeros(count + 1, np.int64))
    columns = []
    for field in SUBSCRIPTION_SCHEMA:
        if field.name in said.column_names:
            columns.append(said.column(field.name).cast(field.type))
            continue
        buffers = [zeros, zeros, zeros] if pa.types.is_string(field.type) else [zeros, zeros]
        columns.append(pa.Array.from_buffers(field.type, count, buffers, null_count=count))
    return pa.table(columns, schema=SUBSCRIPTION_SCHEMA)


def open_built(folder: Folder, name: str) -> SubscriptionIndex:
    """Return the index of a file, mapped on a disk and read whole from elsewhere.

    All of its bytes are compared first.
    """
    data = map_entry(folder, BUILT, name, "restore it from a copy")
    with decoding(folder.path(BUILT, name)):
        return _decoded(pa.ipc.open_file(pa.BufferReader(data)).get_batch(0), folder.path(BUILT, name))


def _decoded(batch: pa.RecordBatch, path: str) -> SubscriptionIndex:
    about = json.loads((batch.schema.metadata or {})[_ABOUT])
    check_format(path, about["format"], (_BEFORE, _BEFORE_CROSSES, _BEFORE_STAYS, _FORMAT))
    arrays: dict[str, NDArray[Any]] = {}
    for name, (kind, shape) in about["arrays"].items():
        arrays[name] = np.frombuffer(_buffer(batch, name), np.dtype(kind)).reshape(shape)
    table = _whole(pa.ipc.open_stream(_buffer(batch, _TABLE)).read_all())
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(about["schema"])))
    space = Space(about["crs"], about["metric"], about["to_lonlat"])
    if about["format"] == _BEFORE:
        arrays |= polygon_arrays(table, arrays["kind"], space)
    return SubscriptionIndex(
        table,
        space,
        {column.name: column.type for column in schema},
        arrays,
        tuple(about["texts"]),
        tuple(Unanswered(*one) for one in about["unanswered"]),
    )
