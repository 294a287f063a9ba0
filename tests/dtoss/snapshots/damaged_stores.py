"""A store of an index that was built in process: what the rebuild writes, without Spark."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq

from dtoss.snapshots.manifest import make_manifest, write_borders, write_partition, write_tombstones
from dtoss.snapshots.manifest_fields import MOMENTS
from dtoss.snapshots.partition_file import checksum
from dtoss.snapshots.store import Store
from dtoss.snapshots.structure import time_type
from tests.dtoss.scenes import bounds_of


def stored(index, path, *, attributes=None, kinds=None, times=None, tombstones=None, rejected=None, change=None):
    """Write an index as the current snapshot of a store and return its path.

    ``attributes`` gives names to the attributes as they are in the files, whatever the rule for names says.
    ``times`` gives an Arrow array of the times of some objects of a partition from their ids, ``tombstones`` are (ids,
    times), ``rejected`` is a table of rows, and ``change`` gives another partition to write in place of each.
    """
    names = attributes or {}
    store = Store(str(path))
    snapshot = store.begin()
    entries = []
    for partition in index.parts.all():
        held = {names.get(name, name): column for name, column in partition.attributes.items()}
        held_times = None if times is None else times(partition.ids)
        partition = replace(partition, attributes=held, times=held_times)
        entries.append(write_partition(store, snapshot, change(partition) if change else partition, 0.0))
    borders = write_borders(store, snapshot, index.border)
    manifest = make_manifest(
        snapshot,
        "2024-01-01T00:00:00+00:00",
        index.space,
        index.partitioning,
        index.reach,
        bounds_of(index),
        entries,
        borders,
        id_type="string" if index.string_ids else "int64",
        columns={names.get(name, name): (kinds or {}).get(name, "string") for name in index.column_names},
        parameters={},
        counts={"read": len(index), "kept": len(index), "duplicates": 0, "quarantined": {}},
        timings={},
        time=None if held_times is None else _time(time_type(held_times.type)),
        tombstones=None if tombstones is None else write_tombstones(store, snapshot, *tombstones),
    )
    if rejected is not None:
        sink = pa.BufferOutputStream()
        pq.write_table(rejected, sink)
        data = sink.getvalue()
        store.folder.make("snapshots", snapshot, "quarantine")
        store.write(snapshot, "quarantine/part-0.parquet", data)
        entry = {"file": "quarantine/part-0.parquet", "rows": len(rejected), "bytes": data.size}
        manifest["quarantine"] = [entry | {"sha256": checksum(data)}]
    store.finish(snapshot, manifest)
    return str(path)


def _time(kind):
    return {"column": "t", "type": kind, "unit": None if kind in MOMENTS else "s"}
