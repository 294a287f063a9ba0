"""A store of an index that was built in process: what the rebuild writes, without Spark."""

from __future__ import annotations

from dataclasses import replace

from dtoss.building.border import border_of
from dtoss.building.construct import Built
from dtoss.snapshots.manifest import make_manifest, write_borders, write_partition
from dtoss.snapshots.manifest_fields import MOMENTS
from dtoss.snapshots.store import Store
from dtoss.snapshots.structure import time_type


def stored(index, path, *, attributes=None, kinds=None, times=None):
    """Write an index as the current snapshot of a store and return its path.

    ``attributes`` gives names to the attributes as they are in the files, whatever the rule for names says.
    ``times`` gives an Arrow array of the times of some objects of a partition from their ids.
    """
    names = attributes or {}
    store = Store(str(path))
    snapshot = store.begin()
    entries = []
    for partition in index.parts.all():
        held = {names.get(name, name): column for name, column in partition.attributes.items()}
        held_times = None if times is None else times(partition.ids)
        built = Built(replace(partition, attributes=held, times=held_times), border_of(partition), 0.0)
        entries.append(write_partition(store, snapshot, built))
    borders = write_borders(store, snapshot, index.border)
    manifest = make_manifest(
        snapshot,
        "2024-01-01T00:00:00+00:00",
        index.space,
        index.regions,
        index.reach,
        index._bounds,
        entries,
        borders,
        id_type="string" if index.string_ids else "int64",
        columns={names.get(name, name): (kinds or {}).get(name, "string") for name in index.column_names},
        parameters={},
        counts={"read": len(index), "kept": len(index), "duplicates": 0, "quarantined": {}},
        timings={},
        time=None if held_times is None else _time(time_type(held_times.type)),
    )
    store.finish(snapshot, manifest)
    return str(path)


def _time(kind):
    return {"column": "t", "type": kind, "unit": None if kind in MOMENTS else "s"}
