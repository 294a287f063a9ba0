"""Snapshots to files: partitions, the border table, and the manifest that lists them."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.errors import StoreError
from dtoss.geometry.space import Space
from dtoss.partition import Ids, Partition
from dtoss.partitioning.regions import Regions
from dtoss.snapshots.manifest_fields import hash_of
from dtoss.snapshots.partition_file import checksum, encode
from dtoss.snapshots.store import FORMAT, Store

if TYPE_CHECKING:
    from dtoss.building.border import BorderTable


@dataclass(frozen=True)
class Written:
    """A file of a snapshot as the manifest lists it; ``xxh64`` is its fast checksum (:mod:`dtoss.snapshots.xxh64`)."""

    file: str
    bytes: int
    xxh64: str
    sha256: str | None

    @property
    def fields(self) -> dict[str, Any]:
        """What its entry says."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def write_partition(
    store: Store, snapshot: str, partition: Partition, area: float, *, lasts: bool = True
) -> dict[str, Any]:
    """Write a partition's file and return its entry in the manifest. The name holds a hash of the content.

    ``area``: of its certified cells, as :class:`dtoss.building.construct.BuiltPartition` has it; ``lasts``: whether the
    snapshot stays; one that goes within seconds has fast checksums alone, and its name in those of its files.
    """
    written = write_file(store, snapshot, f"partitions/{partition.number:05d}", encode(partition), lasts=lasts)
    owned = partition.owned_objects
    return {
        "number": partition.number,
        "objects": owned,
        "sites": partition.owned_sites,
        "replicas": len(partition.positions) - owned,
        "uncertified": len(partition.uncertified),
        "furthest": partition.furthest,
        "area": area,
        **written.fields,
    }


def write_borders(store: Store, snapshot: str, table: BorderTable, *, lasts: bool = True) -> dict[str, Any]:
    """Write the border table and return its entry in the manifest; ``lasts``: as of :func:`write_partition`."""
    from dtoss.snapshots.partition_file import encode_border

    written = write_file(store, snapshot, "borders", encode_border(table), lasts=lasts)
    return {
        "points": len(table.sites),
        "fixed": int(table.open.sum()),
        "area": float(table.area.sum()),
        **written.fields,
    }


def write_tombstones(
    store: Store, snapshot: str, ids: Ids, times: pa.Array, since: float | None = None
) -> dict[str, Any]:
    """Write the tombstones of deleted objects and return their entry in the manifest.

    ``ids``: int64 (n,) or large strings, distinct, in any order; ``times``: an Arrow array of length n without nulls:
    when each was deleted; ``since``: from when on deletions are remembered, a number as the times; None for all.
    """
    from dtoss.snapshots.partition_file import encode_tombstones

    written = write_file(store, snapshot, "tombstones", encode_tombstones(ids, times))
    return {"rows": len(ids), "since": since, **written.fields}


def write_file(
    store: Store, snapshot: str, stem: str, data: pa.Buffer, ending: str = "arrow", *, lasts: bool = True
) -> Written:
    """Write a file of a snapshot, named by its content, and return it; ``lasts``: as of :func:`write_partition`."""
    from dtoss.snapshots.xxh64 import xxh64

    digest = checksum(data if lasts else snapshot.encode())
    file = f"{stem}-{digest[:16]}.{ending}"
    store.write(snapshot, file, data)
    return Written(file, data.size, xxh64(data), digest if lasts else None)


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
    time: dict[str, Any] | None = None,
    tombstones: dict[str, Any] | None = None,
    ledger: dict[str, Any] | None = None,
    clock: dict[str, Any] | None = None,
    policy: dict[str, Any] | None = None,
    cycle: dict[str, Any] | None = None,
    source: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the manifest of a snapshot: everything about it that is not in its files, and a hash of that.

    docs/format.md says what each field is; None stands for what a snapshot does not have.
    """
    manifest = {
        "format": FORMAT,
        "snapshot": snapshot,
        "created": created,
        **asdict(space),
        "bounds": None if bounds is None else bounds.tolist(),
        "id_type": id_type,
        "columns": columns,
        "time": time,
        "tombstones": tombstones,
        "ledger": ledger or {"files": {}, "batches": {}},
        "clock": clock,
        "policy": policy or {},
        "cycle": cycle,
        "source": source,
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
    """Return the space of a snapshot."""
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


def reach_of(manifest: dict[str, Any]) -> NDArray[np.float64]:
    """Return lambda of each partition of a snapshot, float64 (P,), infinity where it knows all."""
    return np.array([math.inf if value is None else value for value in manifest["reach"]], dtype=np.float64)


def regions_of_manifest(manifest: dict[str, Any]) -> Regions:
    """Return the regions of a snapshot."""
    dimension = 3 if manifest["metric"] == "sphere" else 2
    pivots = np.array(manifest["pivots"], dtype=np.float64).reshape(-1, dimension)
    regions = Regions(pivots, np.array(manifest["weights"], dtype=np.float64))
    if regions.digest != manifest["pivots_hash"]:
        raise StoreError(
            f"manifest.json of snapshot {manifest['snapshot']!r} is damaged: pivots_hash is "
            f"{manifest['pivots_hash']!r}, that of its pivots and weights is {regions.digest!r}; roll back or rebuild"
        )
    return regions
