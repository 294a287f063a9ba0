"""The file of tombstones: which objects were deleted, and when, so that a row that comes late does not bring one back.

It is an Arrow IPC file, uncompressed, one batch of the columns ``id`` and ``t``, in the order of the ids.
"""

from __future__ import annotations

import pyarrow as pa

from dtoss.errors import StoreError
from dtoss.id_filter import order_of_ids
from dtoss.partition import Ids
from dtoss.snapshots.partition_file import UNREADABLE, to_bytes


def encode_tombstones(ids: Ids, times: pa.Array) -> pa.Buffer:
    """Return the bytes of a file of tombstones: the same ones, the same bytes, in whatever order they come.

    ``ids``: int64 (n,) or large strings, distinct; ``times``: an Arrow array of length n without nulls.
    """
    order = pa.array(order_of_ids(ids))
    held = ids if isinstance(ids, pa.Array) else pa.array(ids)
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
