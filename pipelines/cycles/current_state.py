"""What stands before a cycle: the state that a snapshot keeps for the next one, or nothing yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.errors import StoreError
from dtoss.geometry.space import Space
from dtoss.names import renamed_of_manifest
from dtoss.partitioning.regions import Regions, bounds_round, grow_bounds
from dtoss.rows.store_clock import Scale
from dtoss.snapshots.manifest import reach_of, regions_of_manifest, space_of_manifest
from dtoss.snapshots.manifest_fields import Wishes
from dtoss.snapshots.partition_file import decode
from dtoss.snapshots.read_file import tombstones_of
from dtoss.snapshots.store import FORMAT, Store
from pipelines.rows.position_frame import Positions, time_of


@dataclass(frozen=True)
class Deletions:
    """The deletions that a snapshot remembers, where they are."""

    store: Store
    snapshot: str
    entry: dict[str, Any]  # Of the manifest

    def read(self) -> pa.Table:
        """Return id and t of each, sorted by id, their checksum compared."""
        found = tombstones_of(self.store, {"snapshot": self.snapshot, "tombstones": self.entry})
        assert found is not None
        return found


@dataclass(frozen=True)
class Stands:
    """What stands before a cycle."""

    manifest: dict[str, Any] | None  # Of the snapshot; None where nothing stands
    space: Space  # space, regions, reach, bounds: of its partitions; regions of one partition where nothing stands
    regions: Regions
    reach: NDArray[np.float64]
    bounds: NDArray[np.float64] | None
    scale: Scale
    order: tuple[str, ...]  # The attributes, in the order in which they are stored
    deletions: Deletions | None  # Those that are remembered; None where there were never any
    wishes: Wishes  # What the user has said of partitions and bounds when the store was made
    string_ids: bool  # Whether ids are strings

    @property
    def entries(self) -> list[dict[str, Any]]:
        """Of the partitions, none where nothing stands."""
        found: list[dict[str, Any]] = [] if self.manifest is None else self.manifest["partitions"]
        return found

    @property
    def time(self) -> dict[str, Any] | None:
        """What the manifest says of the times."""
        return None if self.manifest is None else self.manifest["time"]

    @property
    def source(self) -> dict[str, Any] | None:
        """Which columns of the input mean what."""
        return None if self.manifest is None else self.manifest["source"]

    @property
    def renamed(self) -> dict[str, str]:
        """Attributes of the input that are called otherwise."""
        return {} if self.manifest is None else renamed_of_manifest(self.manifest)

    @property
    def objects(self) -> int:
        """How many stand."""
        return sum(entry["objects"] for entry in self.entries)


def stands_of(home: Store, manifest: dict[str, Any], *, timed: bool = True) -> Stands:
    """Return the state of a snapshot."""
    name = manifest["snapshot"]
    if manifest["format"] != FORMAT:
        raise StoreError(
            f"snapshot {name!r} has format {manifest['format']}, which cannot be updated: rebuild once from all rows"
        )
    scale = Scale.of(manifest) if timed or manifest["time"] is not None else Scale("bigint", "s")
    source = home.source(name, manifest["partitions"][0]["file"])
    return Stands(
        manifest=manifest,
        space=space_of_manifest(manifest),
        regions=regions_of_manifest(manifest),
        reach=reach_of(manifest),
        bounds=None if manifest["bounds"] is None else np.array(manifest["bounds"], dtype=np.float64),
        scale=scale,
        order=tuple(decode(source.data, source.path).attributes),
        deletions=None if manifest["tombstones"] is None else Deletions(home, name, manifest["tombstones"]),
        wishes=Wishes.of(manifest["parameters"]),
        string_ids=manifest["id_type"] == "string",
    )


def nothing_stands(positions: Positions, space: Space, wishes: Wishes) -> Stands:
    """Return the state before the first cycle: one region that knows all, until there are places to choose others."""
    said = time_of(positions)
    scale = Scale("bigint", "s") if said is None else Scale(said["type"], said["unit"])
    return Stands(None, space, *everybody(space), None, scale, (), None, wishes, positions.string_ids)


def everybody(space: Space) -> tuple[Regions, NDArray[np.float64]]:
    """Return one region that holds everything, and its lambda."""
    pivot = np.zeros((1, space.dimension))
    pivot[0, 0] = 1.0
    return Regions(pivot, np.zeros(1)), np.full(1, np.inf)


def bounds_of_cycle(stands: Stands, low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return the bounds that hold what stands and the box ``low, high`` of what arrived; None on the sphere.

    Those that nobody has given grow: :func:`dtoss.partitioning.regions.grow_bounds`.
    """
    if stands.space.dimension != 2:
        return None
    if stands.manifest is None:
        known = not np.isnan(low).any()
        given = stands.wishes.bounds
        return bounds_round(low if known else np.zeros(2), high if known else np.zeros(2), given)
    assert stands.bounds is not None
    if stands.wishes.bounds is not None or np.isnan(low).any():
        return stands.bounds
    base = np.array((stands.manifest.get("policy") or {}).get("bounds") or stands.bounds)
    return grow_bounds(stands.bounds, base, low, high)
