"""What ``--by`` means: the partitions of a store, the rows of a file of sites; read once, and kept with the windows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.errors import DtossError, InputError
from dtoss.geometry.space import LONLAT, Space, same_crs, space_of
from dtoss.snapshots.manifest import regions_of_manifest, space_of_manifest
from dtoss.snapshots.store import Store
from dtoss.windows.stored.keys_file import keys_from, of_regions, of_sites
from pipelines.files.places import read_places


@dataclass(frozen=True)
class Material:
    """What keys are made of.

    Parameters
    ----------
    space
        Of the positions.
    tables
        As :mod:`dtoss.windows.stored.keys_file` has them.
    digest
        Of the keys.
    """

    space: Space
    tables: dict[str, pa.Table]
    digest: str


def material_of(store: str, by: str, space: Space | None) -> Material:
    """Return what keys are made of.

    Parameters
    ----------
    store
        Path or URI.
    by
        "partition", or "sites:FILE".
    space
        That the user named; None takes the store's, or degrees where it has no snapshot.

    Raises
    ------
    InputError
        If it is something else, the store has no snapshot whose partitions could be keys, or sites cannot be read or
        are no legal positions.
    StoreError
        If the store is damaged.
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
    elif kind == "sites":
        wanted = space or _space_of(store) or space_of(LONLAT)
        tables = of_sites(_sites(rest, wanted))
    else:
        raise InputError(f"--by {by}: partition and sites:FILE can be run")
    return Material(wanted, tables, keys_from(wanted, tables).digest)


def _space_of(store: str) -> Space | None:
    try:
        return space_of_manifest(Store(store).manifest())
    except (DtossError, OSError):
        return None


def _same(one: Space, other: Space) -> bool:
    return one.metric == other.metric and same_crs(one.crs, other.crs)


def _sites(path: str, space: Space) -> NDArray[np.float64]:
    """Return the positions of sites in the order of their file."""
    places = read_places(path)
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
    return positions
