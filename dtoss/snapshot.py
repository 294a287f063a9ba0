"""Snapshots to files and back: the manifest and the index that it describes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.border import BorderTable, decode_border, encode_border
from dtoss.construct import Built
from dtoss.errors import StoreError
from dtoss.index import Index
from dtoss.partition import Partition, checksum, decode, encode
from dtoss.parts import Facts, Parts
from dtoss.regions import Regions
from dtoss.space import Space
from dtoss.store import FORMAT, Store


@dataclass(frozen=True)
class Written:
    """A file of a snapshot as the manifest lists it."""

    file: str
    bytes: int
    sha256: str


def write_partition(store: Store, snapshot: str, built: Built) -> dict[str, Any]:
    """Write a partition's file and return its entry in the manifest. The name holds a hash of the content."""
    partition = built.partition
    written = _write(store, snapshot, f"partitions/{partition.number:05d}", encode(partition))
    owned = partition.owned_objects
    return {
        "number": partition.number,
        "objects": owned,
        "sites": partition.owned_sites,
        "replicas": len(partition.positions) - owned,
        "uncertified": len(partition.uncertified),
        "furthest": partition.furthest,
        "area": built.area,
        "file": written.file,
        "bytes": written.bytes,
        "sha256": written.sha256,
    }


def write_borders(store: Store, snapshot: str, table: BorderTable) -> dict[str, Any]:
    """Write the border table and return its entry in the manifest."""
    written = _write(store, snapshot, "borders", encode_border(table))
    return {
        "points": len(table.sites),
        "fixed": int(table.open.sum()),
        "area": float(table.area.sum()),
        "file": written.file,
        "bytes": written.bytes,
        "sha256": written.sha256,
    }


def _write(store: Store, snapshot: str, stem: str, data: pa.Buffer) -> Written:
    digest = checksum(data)
    file = f"{stem}-{digest[:16]}.arrow"
    store.write(snapshot, file, data)
    return Written(file, data.size, digest)


def make_manifest(
    snapshot: str,
    created: str,
    space: Space,
    regions: Regions,
    reach: NDArray[np.float64],
    bounds: NDArray[np.float64] | None,
    partitions: list[dict[str, Any]],
    borders: dict[str, Any],
    *,
    id_type: str,
    columns: dict[str, str],
    parameters: dict[str, Any],
    counts: dict[str, Any],
    timings: dict[str, float],
) -> dict[str, Any]:
    """Return the manifest of a snapshot: everything about it that is not in its files."""
    return {
        "format": FORMAT,
        "snapshot": snapshot,
        "created": created,
        "crs": space.crs,
        "metric": space.metric,
        "to_lonlat": space.to_lonlat,
        "bounds": None if bounds is None else bounds.tolist(),
        "id_type": id_type,
        "columns": columns,
        "parameters": parameters,
        "counts": counts,
        "timings": timings,
        "pivots": regions.pivots.tolist(),
        "weights": regions.weights.tolist(),
        "pivots_hash": regions.digest,
        "reach": [None if math.isinf(value) else value for value in reach.tolist()],
        "partitions": sorted(partitions, key=lambda entry: entry["number"]),
        "borders": borders,
        "objects": sum(entry["objects"] for entry in partitions),
        "sites": sum(entry["sites"] for entry in partitions),
        "replicas": sum(entry["replicas"] for entry in partitions),
        "bytes": sum(entry["bytes"] for entry in partitions) + borders["bytes"],
        "area": sum(entry["area"] for entry in sorted(partitions, key=lambda e: e["number"])) + borders["area"],
    }


def space_of_manifest(manifest: dict[str, Any]) -> Space:
    """Return the space of a snapshot."""
    return Space(manifest["crs"], manifest["metric"], manifest["to_lonlat"])


def regions_of_manifest(manifest: dict[str, Any]) -> Regions:
    """Return the regions of a snapshot."""
    dimension = 3 if manifest["metric"] == "sphere" else 2
    pivots = np.array(manifest["pivots"], dtype=np.float64).reshape(-1, dimension)
    return Regions(pivots, np.array(manifest["weights"], dtype=np.float64))


def open_index(
    store: str | Store, snapshot: str | None = None, *, verify: bool = False, lazy: bool | None = None
) -> Index:
    """Return the index of a snapshot; what :func:`dtoss.open` does.

    Parameters
    ----------
    store : a path, a URI, or a :class:`~dtoss.store.Store`.
    snapshot : its name; the current one when None.
    verify : read every file and compare its checksum.
    lazy : open a partition only when a question first concerns it. None does so on remote file systems, where a
        partition is read whole; on local ones all are memory-mapped at once, so that the index stays whole when its
        snapshot is removed.

    Raises
    ------
    StoreError
        If there is no such store or snapshot, or a file is missing, damaged or of another format; where partitions are
        opened later, it is raised then.

    Notes
    -----
    Nothing is parsed: cost O(partitions).
    """
    if not isinstance(store, Store):
        store = Store(str(store))
    if lazy is None:
        lazy = not store.local
    if snapshot is not None:
        return _open(store, store.manifest(snapshot), verify, lazy)
    for _ in range(3):
        manifest = store.manifest()
        try:
            return _open(store, manifest, verify, lazy)
        except StoreError:
            if store.current() == manifest["snapshot"]:
                raise
    raise StoreError(f"{store.path} is replaced faster than it can be opened: keep more snapshots (--keep)")


def _open(store: Store, manifest: dict[str, Any], verify: bool, lazy: bool) -> Index:
    name = manifest["snapshot"]
    entries = manifest["partitions"]
    opener = partial(_open_partition, store, name, entries)
    if verify:
        for entry in [*entries, manifest["borders"]]:
            check(store.source(name, entry["file"], entry["bytes"]), entry, store, name)
    parts = Parts(
        [None if lazy else opener(number) for number in range(len(entries))],
        [Facts(entry["objects"], entry["sites"], entry["furthest"]) for entry in entries],
        opener,
    )
    return Index(
        space_of_manifest(manifest),
        regions_of_manifest(manifest),
        np.array([np.inf if value is None else value for value in manifest["reach"]], dtype=np.float64),
        parts,
        bounds=None if manifest["bounds"] is None else np.array(manifest["bounds"]),
        snapshot=name,
        string_ids=manifest["id_type"] == "string",
        border=partial(read_borders, store.path, name),
        origin=(open_index, (store.path, name)),
    )


def _open_partition(store: Store, snapshot: str, entries: list[dict[str, Any]], number: int) -> Partition:
    entry = entries[number]
    return decode(
        store.source(snapshot, entry["file"], entry["bytes"]), store.file("snapshots", snapshot, entry["file"])
    )


def check(source: pa.NativeFile | pa.Buffer, entry: dict[str, Any], store: Store, snapshot: str) -> None:
    """Compare a file's checksum with the manifest.

    Raises
    ------
    StoreError
        If they differ; the message names the file.
    """
    data = source if isinstance(source, pa.Buffer) else source.read_buffer()
    if checksum(data) != entry["sha256"]:
        path = store.file("snapshots", snapshot, entry["file"])
        raise StoreError(
            f"{path} does not have the checksum that the manifest states: it is damaged; roll back or rebuild"
        )


def read_borders(store_path: str, snapshot: str) -> BorderTable:
    """Return the border table of a snapshot.

    Raises
    ------
    StoreError
        If its file is missing or damaged.
    """
    store = Store(store_path)
    entry = store.manifest(snapshot)["borders"]
    path = store.file("snapshots", snapshot, entry["file"])
    table = decode_border(store.source(snapshot, entry["file"], entry["bytes"]), path)
    if not isinstance(table, BorderTable):
        raise StoreError(f"{path} is not a border table; rebuild")
    return table
