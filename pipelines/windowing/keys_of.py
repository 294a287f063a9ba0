"""What ``--by`` means: partitions of a store, sites of a file, polygons; read once, and kept with the windows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.errors import DtossError, InputError
from dtoss.frames.crs_names import check_crs
from dtoss.geometry.polygons import Rings
from dtoss.geometry.space import LONLAT, NO_CRS, Space, same_crs, space_of
from dtoss.snapshots.manifest import regions_of_manifest, space_of_manifest
from dtoss.snapshots.store import Store
from dtoss.windows.keys import Keys
from dtoss.windows.spec import FINEST_RES, KEY_KINDS, is_resolution
from dtoss.windows.storage.keys_file import keys_from, of_h3, of_polygons, of_regions, of_sites
from pipelines.local_joins.place_batches_of_files import read_places
from pipelines.local_joins.zone_readers import check_zones, read_zones

_CALLED = ("name", "id")
"""Properties of polygons that say what they are called."""


@dataclass(frozen=True)
class Material:
    """What keys are made of."""

    space: Space
    tables: dict[str, pa.Table]  # As :mod:`dtoss.windows.storage.keys_file` has them
    keys: Keys

    @property
    def digest(self) -> str:
        """Of the keys."""
        return self.keys.digest

    def as_begun(self, digest: str) -> Material:
        """Return this, or the same polygons with the edges of before edges could be said, if those have the digest."""
        if digest == self.digest or "edges" not in self.tables:
            return self
        tables = {name: table for name, table in self.tables.items() if name != "edges"}
        before = Material(self.space, tables, keys_from(self.space, tables))
        return before if before.digest == digest else self


def material_of(store: str, by: str, space: Space | None) -> Material:
    """Return what keys are made of.

    ``by``: "partition", "sites:FILE", "polygons:FILE.geojson" or "h3:RES"; ``space``: that the user named; None takes
    the store's, or degrees where it has no snapshot.
    """
    kind, _, rest = by.partition(":")
    if kind == "partition":
        manifest = Store(store).manifest()
        held = space_of_manifest(manifest)
        if space is not None and not _same(space, held):
            raise InputError(
                f"--crs is {space.crs} ({space.metric}), the store's partitions are in {held.crs} ({held.metric}): "
                "leave it out"
            )
        tables, wanted = of_regions(regions_of_manifest(manifest)), held
    elif kind == "sites" and rest:
        wanted = space or _space_of(store) or space_of(LONLAT)
        tables = of_sites(*_sites(rest, wanted))
    elif kind == "polygons" and rest:
        wanted = space or _space_of(store) or space_of(LONLAT)
        tables = of_polygons(*_polygons(rest, wanted))
    elif kind == "h3" and is_resolution(rest):
        wanted = space or _space_of(store) or space_of(LONLAT)
        tables = of_h3(int(rest))
    else:
        raise InputError(f"--by {by}: there are {', '.join(KEY_KINDS)}; RES is a whole number from 0 to {FINEST_RES}")
    return Material(wanted, tables, keys_from(wanted, tables))


def _space_of(store: str) -> Space | None:
    try:
        return space_of_manifest(Store(store).manifest())
    except (DtossError, OSError):
        return None


def _same(one: Space, other: Space) -> bool:
    return one.metric == other.metric and same_crs(one.crs, other.crs)


def _sites(path: str, space: Space) -> tuple[NDArray[np.float64], pa.Array]:
    """Return the positions of sites in the order of their file, and their ids."""
    places = read_places(path, crs=NO_CRS if space.crs == NO_CRS else None)
    try:
        check_crs(places.crs, space, f"the sites of {path}", "the windows")
    except ValueError as error:
        raise InputError(str(error)) from None
    batches = list(places.batches())
    x, y = (
        np.concatenate([np.zeros(0), *(np.asarray(batch[name].to_numpy(zero_copy_only=False)) for batch in batches)])
        for name in ("x", "y")
    )
    positions = np.stack([x, y], axis=1).astype(np.float64)
    wrong = np.flatnonzero(~space.legal(positions))
    if len(wrong):
        lon, lat = positions[wrong[0]].tolist()
        raise InputError(f"{path}: site {wrong[0]} is at {lon:g}, {lat:g}: that is no legal position")
    return positions, pa.array([str(name) for batch in batches for name in batch["query_id"].to_pylist()], pa.string())


def _polygons(path: str, space: Space) -> tuple[Rings, pa.Array | None]:
    """Return the shapes of a file, in its order, and what they are called: by the first of some properties it has."""
    found = None
    for by in _CALLED:
        try:
            found = read_zones(path, by)
            break
        except InputError:
            continue  # it has no such property, or there is more to say of it
    named = None if found is None else pa.array([None if one is None else str(one) for one in found.names], pa.string())
    found = found or read_zones(path)
    try:
        check_zones(found, space, path)
    except ValueError as error:
        raise InputError(str(error)) from None
    return found.zones.rings, named
