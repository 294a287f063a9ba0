"""An index of the files of a snapshot: mapped, or found when they are first read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from dtoss.errors import StoreError
from dtoss.index import Index
from dtoss.partition import Partition
from dtoss.queries.open_partitions import OpenPartitions, PartitionFacts
from dtoss.save_index import SnapshotRecord
from dtoss.snapshots.lineage import entries_of
from dtoss.snapshots.manifest import reach_of, regions_of_manifest, space_of_manifest
from dtoss.snapshots.mapped_file import Source
from dtoss.snapshots.read_file import borders_in, check_sum, partition_in
from dtoss.snapshots.store import Store

if TYPE_CHECKING:
    from dtoss.building.border import BorderTable

Verify: TypeAlias = bool | Literal["touch"]
"""Which checksums are compared: none, each file's when it is first read (the fast one), all at once (SHA-256)."""


@dataclass(frozen=True)
class MappedFiles:
    """The files of a snapshot that an index reads, held until it goes: they outlive the snapshot."""

    # In the order of their numbers; None for those that are found when they are first read
    partitions: tuple[Source | None, ...]
    borders: Source

    def by_name(self, manifest: dict[str, Any]) -> dict[str, Source]:
        """Return the files by their names in a manifest."""
        pairs = zip(manifest["partitions"], self.partitions, strict=True)
        held = {entry["file"]: source for entry, source in pairs if source is not None}
        return held | {manifest["borders"]["file"]: self.borders}


def map_files(
    store: Store,
    manifest: dict[str, Any],
    held: Iterable[int] | None = None,
    known: Mapping[str, Source] = MappingProxyType({}),
) -> MappedFiles:
    """Return the files of a snapshot, mapped where they are local and read whole elsewhere.

    ``held``: numbers of the partitions that are wanted; None for all; ``known``: files that are mapped already, by
    their names, which tell their bytes.
    """
    name = manifest["snapshot"]
    entries = manifest["partitions"]
    mine = set(range(len(entries)) if held is None else held)
    borders = store.source(name, manifest["borders"]["file"], manifest["borders"]["bytes"])
    mapped = [
        known.get(entry["file"]) or store.source(name, entry["file"], entry["bytes"]) if number in mine else None
        for number, entry in enumerate(entries)
    ]
    return MappedFiles(tuple(mapped), borders)


def verify_files(
    store: Store,
    manifest: dict[str, Any],
    files: MappedFiles | None = None,
    breathe: Callable[[], None] | None = None,
    numbers: Iterable[int] | None = None,
) -> None:
    """Compare the SHA-256 of all files of a snapshot: of those that were mapped, and of the others as they are now.

    ``breathe``: is called after each half megabyte; ``numbers``: of the partitions whose files are compared; None for
    all.
    """
    held = {} if files is None else files.by_name(manifest)
    partitions = manifest["partitions"]
    left_out = set() if numbers is None else set(range(len(partitions))).difference(numbers)
    skipped = {partitions[number]["file"] for number in left_out}
    for entry in entries_of(manifest):
        if entry["file"] in skipped:
            continue
        source = held.get(entry["file"]) or store.source(manifest["snapshot"], entry["file"], entry["bytes"])
        check_sum(source, entry, breathe=breathe)


def open_manifest(store: Store, manifest: dict[str, Any], verify: Verify, lazy: bool) -> Index:
    """Return the index of a snapshot, its files mapped now or found later; what :func:`dtoss.open` does."""
    store = store.absolute
    files = None if lazy else map_files(store, manifest)
    if verify and verify != "touch":
        verify_files(store, manifest, files)
    return index_of_files(store, manifest, files, verify=verify)


def index_of_files(
    store: Store,
    manifest: dict[str, Any],
    files: MappedFiles | None,
    *,
    verify: Verify = False,
    before: Index | None = None,
) -> Index:
    """Return the index of a snapshot whose files were mapped, or are found when first read; none is decoded yet.

    ``files``: its files; None to find each when it is first read; ``verify``: "touch" compares the fast checksum of
    each then; ``before``: an index of which it takes the partitions that are in the same files, and open.
    """
    store = store.absolute
    name = manifest["snapshot"]
    entries = manifest["partitions"]
    if files is None and (wrong := store.misses(name, manifest)) is not None:
        raise StoreError(f"{wrong}: it is damaged; roll back or rebuild")
    parts = OpenPartitions(
        [None] * len(entries),
        [PartitionFacts(entry["objects"], entry["sites"], entry["furthest"]) for entry in entries],
        partial(_open_partition, store, manifest, verify, files),
    )
    regions = regions_of_manifest(manifest)
    if before is not None and before.partitioning.digest == regions.digest:
        regions = before.partitioning
        parts.take(before.parts, _in_same_files(before, entries))
    return Index(
        space_of_manifest(manifest),
        regions,
        reach_of(manifest),
        parts,
        bounds=None if manifest["bounds"] is None else np.array(manifest["bounds"], dtype=np.float64),
        snapshot=name,
        string_ids=manifest["id_type"] == "string",
        border=partial(_read_borders, store, manifest, verify, files),
        origin=partial(_origin, store, name, verify, files is None),
        record=SnapshotRecord(store, manifest, {} if files is None else files.by_name(manifest)),
    )


def _in_same_files(before: Index, entries: list[dict[str, Any]]) -> list[bool]:
    """Return of each partition whether another index has it in the same file: names of files tell their bytes."""
    known = before._record.manifest["partitions"] if isinstance(before._record, SnapshotRecord) else []
    if len(known) != len(entries):
        return [False] * len(entries)
    return [one["file"] == entry["file"] for one, entry in zip(known, entries, strict=True)]


def _origin(
    store: Store, snapshot: str, verify: Verify, lazy: bool
) -> tuple[Callable[..., Index], tuple[Any, ...]] | None:
    """Return how a snapshot is opened again in another process, or None where it is gone from a local disk."""
    if store.local and not Path(store.file("snapshots", snapshot, "manifest.json")).exists():
        return None
    return _reopened, (store.path, snapshot, verify, lazy)


def _reopened(path: str, snapshot: str, verify: Verify, lazy: bool) -> Index:
    try:
        store = Store(path)
        return open_manifest(store, store.manifest(snapshot), verify, lazy)
    except StoreError as error:
        raise type(error)(f"an index that was pickled by its path cannot be opened: {error}") from None


def _open_partition(
    store: Store, manifest: dict[str, Any], verify: Verify, files: MappedFiles | None, number: int
) -> Partition:
    entry = manifest["partitions"][number]
    source = None if files is None else files.partitions[number]
    source = source or store.source(manifest["snapshot"], entry["file"], entry["bytes"])
    _touch(source, entry, verify)
    return partition_in(source, manifest, number)


def _touch(source: Source, entry: dict[str, Any], verify: Verify) -> None:
    """Check what has to be checked of a file's bytes before they are first read."""
    source.check_size()
    if verify == "touch":
        check_sum(source, entry, "xxh64" if "xxh64" in entry else "sha256")


def _read_borders(store: Store, manifest: dict[str, Any], verify: Verify, files: MappedFiles | None) -> BorderTable:
    entry = manifest["borders"]
    source = files.borders if files else store.source(manifest["snapshot"], entry["file"], entry["bytes"])
    _touch(source, entry, verify)
    return borders_in(source, manifest)
