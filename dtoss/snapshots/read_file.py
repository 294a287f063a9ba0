"""From a file of a snapshot to what it holds: its checksum, its arrays, and these compared with the manifest."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from dtoss.errors import StoreError
from dtoss.geometry.space import FURTHEST
from dtoss.names import columns_of_manifest
from dtoss.partition import Partition
from dtoss.snapshots.manifest import space_of_manifest
from dtoss.snapshots.mapped_file import Source
from dtoss.snapshots.partition_file import checksum, decode, decode_tombstones
from dtoss.snapshots.store import Store
from dtoss.snapshots.structure import Claims, check_border, check_partition

if TYPE_CHECKING:
    from dtoss.building.border import BorderTable


def check_sum(
    source: Source,
    entry: dict[str, Any],
    kind: Literal["sha256", "xxh64"] = "sha256",
    breathe: Callable[[], None] | None = None,
) -> None:
    """Compare a file's checksum with its entry in the manifest: the fast one where it has no other."""
    if kind == "xxh64" or "sha256" not in entry:
        from dtoss.snapshots.xxh64 import xxh64

        made = xxh64(source.data)
    else:
        made = checksum(source.data, breathe)
    if made != entry[kind if kind in entry else "xxh64"]:
        raise StoreError(
            f"{source.path} does not have the checksum that the manifest states: it is damaged; roll back or rebuild"
        )


def partition_in(source: Source, manifest: dict[str, Any], number: int) -> Partition:
    """Return the partition in a file, after a look at its structure."""
    partition = decode(source.data, source.path)
    check_partition(partition, _claims(manifest, number), source.path)
    return partition


def tombstones_of(store: Store, manifest: dict[str, Any]) -> pa.Table | None:
    """Return the deletions that a snapshot remembers, id and t, sorted by id; None where there were never any."""
    if (entry := manifest.get("tombstones")) is None:
        return None
    file = store.source(manifest["snapshot"], entry["file"], entry["bytes"])
    check_sum(file, entry)
    return pa.Table.from_batches([decode_tombstones(file.data, file.path)])


def _claims(manifest: dict[str, Any], number: int) -> Claims:
    entry, space = manifest["partitions"][number], space_of_manifest(manifest)
    box = (-180.0, -90.0, 180.0, 90.0) if space.geographic else (-FURTHEST, -FURTHEST, FURTHEST, FURTHEST)
    xmin, ymin, xmax, ymax = manifest["bounds"] or box
    return Claims(
        number=number,
        objects=entry["objects"],
        sites=entry["sites"],
        replicas=entry["replicas"],
        uncertified=entry["uncertified"],
        furthest=entry["furthest"],
        dimension=space.dimension,
        partitions=len(manifest["partitions"]),
        box=(xmin, ymin, xmax, ymax),
        string_ids=manifest["id_type"] == "string",
        columns=frozenset(columns_of_manifest(manifest)),
        time=manifest["time"]["type"] if manifest.get("time") else None,
    )


def borders_in(source: Source, manifest: dict[str, Any]) -> BorderTable:
    """Return the border table in a file, after a look at its structure."""
    from dtoss.building.border import BorderTable
    from dtoss.snapshots.border_file import decode_border

    entry, count = manifest["borders"], len(manifest["partitions"])
    table = decode_border(source.data, source.path)
    if not isinstance(table, BorderTable):
        raise StoreError(f"{source.path} is not a border table; rebuild")
    dimension = 3 if manifest["metric"] == "sphere" else 2
    check_border(table, entry["points"], entry["fixed"], dimension, count, source.path)
    return table
