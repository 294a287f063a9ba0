"""Everything that can be said of a store's health: the chain of commits, all checksums, and whether the content agrees.

What is found is listed by file, so that whoever reads it knows what to restore, or what to roll back from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dtoss.commits.verify_chain import verify_chain
from dtoss.commits.verify_report import note, noting
from dtoss.errors import StoreError
from dtoss.partition import Partition
from dtoss.snapshots.consistency import (
    faults_of_borders,
    faults_of_partition,
    faults_of_replicas,
    owned_of,
    repeated_ids,
    standing,
)
from dtoss.snapshots.manifest import reach_of, regions_of_manifest, space_of_manifest
from dtoss.snapshots.read_file import borders_in, check_sum, entries_of, partition_in
from dtoss.snapshots.store import Store
from dtoss.snapshots.structure import time_type
from dtoss.snapshots.tombstones import decode_tombstones

if TYPE_CHECKING:
    from dtoss.snapshots.mapped_file import Source


@dataclass
class Verified:
    """What was looked at, and what is wrong."""

    snapshots: list[str] = field(default_factory=list)  # Names of those that were looked at, oldest first
    commits: int = 0  # How many there are
    files: int = 0  # files, bytes, objects: of these snapshots, each counted as often as a snapshot has it
    bytes: int = 0
    objects: int = 0
    damaged: list[str] = field(default_factory=list)  # A line for each thing that is wrong; it names the file
    # A line for each thing that could not be read, which may be whole; it names the file and the reason
    unread: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return dict(vars(self))


def verify_store(store: Store, snapshot: str | None = None) -> Verified:
    """Return what is wrong with a store, and what could not be read; nothing of what is found is an error.

    ``snapshot``: the only one to look at; all finished ones when None.

    Looked at are the chain of commits; of each snapshot the manifest against its commit, and the size and SHA-256 of
    each file; and what the files hold: counts, each id in one partition only, each object in its region, replicas as
    their owners have them and none missing, the order and filter of ids, times, tombstones, and that graphs name each
    edge from both ends. A snapshot that is removed meanwhile is left out. Cost O(bytes), and half a second of
    processor time a million objects, one where ids are strings.
    """
    found = Verified()
    with noting(found):
        _look(store, snapshot, found)
    return found


def _look(store: Store, snapshot: str | None, found: Verified) -> None:
    if store.chain.listed() != ([], []):
        for what in verify_chain(store.chain):
            note(found, what)
        # what is listed need not be warned of as well
        store.told(found.damaged)
        last = store.last()
        found.commits = 0 if last is None else last.number
        try:
            store.current()
        except StoreError as error:
            note(found, error)
    finished = store.snapshots()
    if not finished:
        store.current()  # which says what is missing
    if snapshot is not None and snapshot not in finished:
        raise StoreError(f"{store.shown} has no snapshot {snapshot!r}; it has {', '.join(finished)}")
    for name in finished if snapshot is None else [snapshot]:
        one = _verified(store, name)
        if one.damaged and name not in store.snapshots():
            continue
        found.snapshots.append(name)
        found.files, found.bytes, found.objects = (
            found.files + one.files, found.bytes + one.bytes, found.objects + one.objects
        )  # fmt: skip
        found.damaged = list(dict.fromkeys(found.damaged + one.damaged))
        found.unread = list(dict.fromkeys(found.unread + one.unread))


def _verified(store: Store, snapshot: str) -> Verified:
    found = Verified([snapshot])
    path = store.file("snapshots", snapshot, "manifest.json")
    try:
        manifest = store.manifest(snapshot)
        space_of_manifest(manifest)
        regions_of_manifest(manifest)
    except StoreError as error:
        note(found, error if path in str(error) else type(error)(f"{path}: {error}"))
        return found
    found.objects = manifest["objects"]
    sources: dict[str, Source] = {}
    for entry in entries_of(manifest):
        found.files += 1
        found.bytes += entry["bytes"]
        try:
            source = store.source(snapshot, entry["file"], entry["bytes"])
            check_sum(source, entry)
        except StoreError as error:
            note(found, error)
        else:
            sources[entry["file"]] = source
    for file, what in _content(manifest, sources):
        found.damaged.append(what if file is None else f"{store.file('snapshots', snapshot, file)} is damaged: {what}")
    return found


def _content(manifest: dict[str, Any], sources: dict[str, Source]) -> Iterator[tuple[str | None, str]]:
    """Yield (file, what is wrong) for the files whose checksums hold; no file where the text names it."""
    space, regions = space_of_manifest(manifest), regions_of_manifest(manifest)
    partitions: dict[int, Partition] = {}
    files = [entry["file"] for entry in manifest["partitions"]]
    for number, file in enumerate(files):
        if file not in sources:
            continue
        try:
            partition = partition_in(sources[file], manifest, number)
        except StoreError as error:
            yield None, str(error)
            continue
        partitions[number] = partition
        for what in faults_of_partition(partition, space, regions):
            yield file, what
    owned = owned_of(partitions)
    for number, what in repeated_ids(owned):
        yield files[number], what
    if len(partitions) == len(files):
        for number, what in faults_of_replicas(partitions, regions, reach_of(manifest)):
            yield files[number], what
    borders, tombstones = manifest["borders"]["file"], manifest.get("tombstones")
    if borders in sources:
        try:
            table = borders_in(sources[borders], manifest)
        except StoreError as error:
            yield None, str(error)
        else:
            for what in faults_of_borders(table, partitions, regions):
                yield borders, what
    if tombstones and tombstones["file"] in sources:
        source = sources[tombstones["file"]]
        try:
            batch = decode_tombstones(source.data, source.path)
        except StoreError as error:
            yield None, str(error)
            return
        kind = manifest["time"] and manifest["time"]["type"]
        if (rows := len(batch)) != tombstones["rows"]:
            yield tombstones["file"], f"it has {rows} rows, the manifest says {tombstones['rows']}"
        if time_type(batch.column("t").type) != kind:
            yield tombstones["file"], f"its times are {time_type(batch.column('t').type)}, those of objects are {kind}"
        if ("string" in str(batch.column("id").type)) != (manifest["id_type"] == "string"):
            yield tombstones["file"], f"its ids are {batch.column('id').type}, those of objects {manifest['id_type']}"
        elif (risen := standing(batch, owned)) is not None:
            yield tombstones["file"], risen
