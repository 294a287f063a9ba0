"""From a file of a snapshot to what it holds, compared with the manifest, and what it has read of files and streams."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from dtoss.commits.ledger_runs import Run, decode_run, decode_whole, encode_run, fold_ledger, open_ledger
from dtoss.commits.offsets import Ledger
from dtoss.errors import StoreError
from dtoss.geometry.space import FURTHEST
from dtoss.names import columns_of_manifest
from dtoss.partition import Partition
from dtoss.snapshots.lineage import runs_of
from dtoss.snapshots.manifest import space_of_manifest, write_file
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
    from dtoss.snapshots.partition_file import decode_border

    entry, count = manifest["borders"], len(manifest["partitions"])
    table = decode_border(source.data, source.path)
    if not isinstance(table, BorderTable):
        raise StoreError(f"{source.path} is not a border table; rebuild")
    dimension = 3 if manifest["metric"] == "sphere" else 2
    check_border(table, entry["points"], entry["fixed"], dimension, count, source.path)
    return table


def ledger_of(store: Store, manifest: dict[str, Any] | None) -> Ledger:
    """Return what was read of the sources of a snapshot; nothing where there is none. Cost O(files)."""
    if manifest is None:
        return Ledger()
    return open_ledger(manifest.get("ledger"), lambda run: _read_run(store, manifest["snapshot"], run))


def write_ledger(store: Store, snapshot: str, ledger: Ledger, before: dict[str, Any] | None) -> dict[str, Any]:
    """Return what the manifest of a new snapshot says of a ledger; ``before``: the one that its runs are taken from."""

    def write(files: Ledger) -> Run:
        return {"rows": len(files.files), **write_file(store, snapshot, "ledger", encode_run(files), "json.zst").fields}

    if before is None:
        loose, runs = fold_ledger(ledger, (), decode_run, write)
    else:
        old = runs_of(before)
        loose, runs = fold_ledger(ledger, old, partial(_read_run, store, before["snapshot"]), write)
        link_runs(store, snapshot, before["snapshot"], [run for run in old if run in runs])
    return loose.as_json() | ({"runs": runs} if runs else {})


def link_runs(store: Store, snapshot: str, of: str, runs: list[Run]) -> None:
    """Give a snapshot runs of another one."""
    for run in runs:
        store.link(snapshot, run["file"], of)


def _read_run(store: Store, snapshot: str, run: Run) -> Ledger:

    source = store.source(snapshot, run["file"], run["bytes"])
    check_sum(source, run)
    return decode_whole(source.data, source.path, "roll back or rebuild")
