"""Small stores that are made without Spark."""

from __future__ import annotations

import numpy as np

import dtoss
from dtoss.building.border import border_of
from dtoss.building.construct import Built
from dtoss.snapshots.manifest import make_manifest, write_borders, write_partition
from dtoss.snapshots.store import Store


def stored(tmp_path_factory, ids, positions, crs=None, columns=None, metric=None):
    """The path of a store of one snapshot."""
    place = Store(str(tmp_path_factory.mktemp("store")))
    index = dtoss.build(np.asarray(ids), positions, crs=crs, metric=metric, columns=columns, partitions=1)
    name = place.begin()
    (only,) = index.parts.all()
    parts = [write_partition(place, name, Built(only, border_of(only), 0.0))]
    kinds = {"int64": "bigint", "string": "string", "double": "double"}
    manifest = make_manifest(
        name, "2026-01-01T00:00:00Z", index.space, index.partitioning, index.reach, index._bounds, parts,
        write_borders(place, name, index.border), id_type="string" if index.string_ids else "int64",
        columns={column: kinds[str(values.type)] for column, values in only.attributes.items()}, parameters={},
        counts={"read": len(ids), "kept": len(ids), "duplicates": 0, "quarantined": {}}, timings={"all": 1.0},
    )  # fmt: skip
    place.finish(name, manifest)
    return place.path
