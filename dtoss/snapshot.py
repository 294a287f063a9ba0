"""Snapshots to files and back: the manifest and the index that it describes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.errors import StoreError
from dtoss.index import Index
from dtoss.manifest import hash_of
from dtoss.names import columns_of_manifest
from dtoss.partition import Partition, checksum, decode, encode
from dtoss.parts import Facts, Parts
from dtoss.regions import Regions
from dtoss.space import FURTHEST, Space
from dtoss.store import FORMAT, Source, Store
from dtoss.structure import Claims, check_border, check_partition

Verify: TypeAlias = bool | Literal["touch"]
"""Which checksums are compared: none, each file's when it is first read (the fast one), all at once (SHA-256)."""

if TYPE_CHECKING:
    from dtoss.border import BorderTable
    from dtoss.construct import Built


@dataclass(frozen=True)
class Written:
    """A file of a snapshot as the manifest lists it; ``xxh64`` is its fast checksum (:mod:`dtoss.xxh64`)."""

    file: str
    bytes: int
    sha256: str
    xxh64: str


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
        **asdict(written),
    }


def write_borders(store: Store, snapshot: str, table: BorderTable) -> dict[str, Any]:
    """Write the border table and return its entry in the manifest."""
    from dtoss.border import encode_border

    written = _write(store, snapshot, "borders", encode_border(table))
    return {
        "points": len(table.sites),
        "fixed": int(table.open.sum()),
        "area": float(table.area.sum()),
        **asdict(written),
    }


def _write(store: Store, snapshot: str, stem: str, data: pa.Buffer) -> Written:
    from dtoss.xxh64 import xxh64

    digest = checksum(data)
    file = f"{stem}-{digest[:16]}.arrow"
    store.write(snapshot, file, data)
    return Written(file, data.size, digest, xxh64(data))


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
    """Return the manifest of a snapshot: everything about it that is not in its files, and a hash of that."""
    manifest = {
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
    return manifest | {"sha256": hash_of(manifest)}


def space_of_manifest(manifest: dict[str, Any]) -> Space:
    """Return the space of a snapshot.

    Raises
    ------
    StoreError
        If positions are to be transformed to degrees, and the CRS that the manifest names is not projected, or unknown.
    """
    space = Space(manifest["crs"], manifest["metric"], manifest["to_lonlat"])
    if space.to_lonlat:
        from pyproj import CRS
        from pyproj.exceptions import CRSError

        try:
            space.vectors(np.zeros((0, 2)))
            if not CRS.from_user_input(space.crs).is_projected:
                raise CRSError("to_lonlat is true, and it is not a projected one")
        except CRSError as error:
            raise StoreError(
                f"manifest.json of snapshot {manifest['snapshot']!r} is damaged: crs is {space.crs!r} ({error}); "
                "roll back or rebuild"
            ) from None
    return space


def regions_of_manifest(manifest: dict[str, Any]) -> Regions:
    """Return the regions of a snapshot.

    Raises
    ------
    StoreError
        If the manifest's hash of them is another one.
    """
    dimension = 3 if manifest["metric"] == "sphere" else 2
    pivots = np.array(manifest["pivots"], dtype=np.float64).reshape(-1, dimension)
    regions = Regions(pivots, np.array(manifest["weights"], dtype=np.float64))
    if regions.digest != manifest["pivots_hash"]:
        raise StoreError(
            f"manifest.json of snapshot {manifest['snapshot']!r} is damaged: pivots_hash is "
            f"{manifest['pivots_hash']!r}, that of its pivots and weights is {regions.digest!r}; roll back or rebuild"
        )
    return regions


def open_index(
    store: str | Store, snapshot: str | None = None, *, verify: Verify = False, lazy: bool | None = None
) -> Index:
    """Return the index of a snapshot; what :func:`dtoss.open` does.

    Parameters
    ----------
    store : a path, a URI, or a :class:`~dtoss.store.Store`.
    snapshot : its name; the current one when None.
    verify : "touch" compares a fast checksum of each file when something in it is first read; True reads all files at
        once and compares their SHA-256. False leaves it at what is checked in any case: the manifest's fields and
        hash, the size of each file, and its structure before a query first reads it (:mod:`dtoss.structure`), so that
        damage may make an answer wrong, but never a crash.
    lazy : find a file, of a partition or of the border table, only when a question first concerns it. None does so on
        remote file systems, where a file is read whole; on local ones all are memory-mapped at once, so that the index
        stays whole when its snapshot is removed.

    Raises
    ------
    StoreError
        If there is no such store or snapshot, or a file is missing, damaged or of another format; what is found when a
        partition is first read is raised then.
    ValueError
        If ``verify`` is none of these.

    Notes
    -----
    Nothing is parsed: cost O(partitions), and O(bytes) with ``verify=True``. A file that is changed or cut short by
    somebody else after its partition was first read is not noticed: the process may end by SIGBUS then.
    """
    if verify not in (False, True, "touch"):
        raise ValueError(f"verify is {verify!r}: False, 'touch' or True is wanted")
    if not isinstance(store, Store):
        store = Store(str(store))
    if lazy is None:
        lazy = not store.local
    place, later = store, lazy

    def of(name: str) -> Index:
        return _open(place, place.manifest(name), verify, later)

    return store.of_current(of) if snapshot is None else of(snapshot)


def _open(store: Store, manifest: dict[str, Any], verify: Verify, lazy: bool) -> Index:
    store = store.absolute
    name = manifest["snapshot"]
    entries, borders = manifest["partitions"], manifest["borders"]
    if verify and verify != "touch":
        for entry in [*entries, borders]:
            check(store.source(name, entry["file"], entry["bytes"]), entry, "sha256")
    # mapped here, they outlive the snapshot
    sources = None if lazy else [store.source(name, entry["file"], entry["bytes"]) for entry in entries]
    border_source = None if lazy else store.source(name, borders["file"], borders["bytes"])
    parts = Parts(
        [None] * len(entries),
        [Facts(entry["objects"], entry["sites"], entry["furthest"]) for entry in entries],
        partial(_open_partition, store, manifest, verify, sources),
    )
    return Index(
        space_of_manifest(manifest),
        regions_of_manifest(manifest),
        np.array([np.inf if value is None else value for value in manifest["reach"]], dtype=np.float64),
        parts,
        bounds=None if manifest["bounds"] is None else np.array(manifest["bounds"], dtype=np.float64),
        snapshot=name,
        string_ids=manifest["id_type"] == "string",
        border=partial(_read_borders, store, manifest, verify, border_source),
        origin=partial(_origin, store, name, verify, lazy),
    )


def _origin(
    store: Store, snapshot: str, verify: Verify, lazy: bool
) -> tuple[Callable[..., Index], tuple[Any, ...]] | None:
    """Return how a snapshot is opened again in another process, or None where it is gone from a local disk."""
    if store.local and not Path(store.file("snapshots", snapshot, "manifest.json")).exists():
        return None
    return _reopened, (store.path, snapshot, verify, lazy)


def _reopened(path: str, snapshot: str, verify: Verify, lazy: bool) -> Index:
    try:
        return open_index(path, snapshot, verify=verify, lazy=lazy)
    except StoreError as error:
        raise StoreError(f"an index that was pickled by its path cannot be opened: {error}") from None


def _open_partition(
    store: Store, manifest: dict[str, Any], verify: Verify, sources: list[Source] | None, number: int
) -> Partition:
    entry = manifest["partitions"][number]
    source = sources[number] if sources else store.source(manifest["snapshot"], entry["file"], entry["bytes"])
    _touch(source, entry, verify)
    partition = decode(source.data, source.path)
    space = space_of_manifest(manifest)
    box = (-180.0, -90.0, 180.0, 90.0) if space.geographic else (-FURTHEST, -FURTHEST, FURTHEST, FURTHEST)
    xmin, ymin, xmax, ymax = manifest["bounds"] or box
    claims = Claims(
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
    )
    check_partition(partition, claims, source.path)
    return partition


def _touch(source: Source, entry: dict[str, Any], verify: Verify) -> None:
    """Check what has to be checked of a file's bytes before they are first read."""
    source.check_size()
    if verify == "touch":
        check(source, entry, "xxh64" if "xxh64" in entry else "sha256")


def check(source: Source, entry: dict[str, Any], kind: str) -> None:
    """Compare a file's checksum, "sha256" or "xxh64", with the manifest.

    Raises
    ------
    StoreError
        If they differ; the message names the file.
    """
    if kind == "xxh64":
        from dtoss.xxh64 import xxh64

        made = xxh64(source.data)
    else:
        made = checksum(source.data)
    if made != entry[kind]:
        raise StoreError(
            f"{source.path} does not have the checksum that the manifest states: it is damaged; roll back or rebuild"
        )


def _read_borders(store: Store, manifest: dict[str, Any], verify: Verify, source: Source | None) -> BorderTable:
    from dtoss.border import BorderTable, decode_border

    entry = manifest["borders"]
    source = source or store.source(manifest["snapshot"], entry["file"], entry["bytes"])
    _touch(source, entry, verify)
    table = decode_border(source.data, source.path)
    if not isinstance(table, BorderTable):
        raise StoreError(f"{source.path} is not a border table; rebuild")
    dimension = space_of_manifest(manifest).dimension
    check_border(table, entry["points"], entry["fixed"], dimension, len(manifest["partitions"]), source.path)
    return table
