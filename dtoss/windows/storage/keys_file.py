"""What the keys of windows are made of, in a file beside them: places keep their keys when snapshots go."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.commits.file_entry import FileEntry, map_entry, write_entry
from dtoss.errors import StoreError
from dtoss.geometry.polygons import Rings
from dtoss.geometry.space import Space
from dtoss.geometry.straight_edges import BY_VECTORS
from dtoss.partitioning.regions import Regions
from dtoss.windows.keys import Keys, h3_keys, region_keys, site_keys
from dtoss.windows.polygon_keys import polygon_keys
from dtoss.windows.storage.bundle import bundle_tables, unbundle_tables
from dtoss.windows.storage.window_folder import KEY_FILES, Home

_RESTORE = "restore it from a copy"
_FIRSTS = ("ring", "polygon", "shape")


def of_regions(regions: Regions) -> dict[str, pa.Table]:
    """Return what keys of partitions are made of, as tables."""
    columns = {f"pivot_{i}": np.ascontiguousarray(column) for i, column in enumerate(regions.pivots.T)}
    return {"regions": pa.table({**columns, "weight": regions.weights})}


def of_sites(positions: NDArray[np.float64], names: pa.Array | None = None) -> dict[str, pa.Table]:
    """Return what keys of sites (n, 2) are made of, as tables; what they are called changes no key."""
    x, y = (np.ascontiguousarray(column) for column in positions.T)
    return {"sites": pa.table({"x": x, "y": y}), **_named(names)}


def of_polygons(rings: Rings, names: pa.Array | None = None) -> dict[str, pa.Table]:
    """Return what keys of polygons are made of, as tables; what they are called changes no key."""
    x, y = (np.ascontiguousarray(column) for column in rings.corners.T)
    return {
        "corners": pa.table({"x": x, "y": y}),
        **{name: pa.table({"first": getattr(rings, name)}) for name in _FIRSTS},
        **({} if rings.edges == BY_VECTORS else {"edges": pa.table({"edges": [rings.edges]})}),
        **_named(names),
    }


def rings_from(tables: dict[str, pa.Table]) -> Rings:
    """Return the rings that tables of polygons are about; edges that they do not say are by vectors, as they were."""
    corners = np.stack([tables["corners"][name].to_numpy() for name in ("x", "y")], axis=1)
    edges = tables["edges"]["edges"][0].as_py() if "edges" in tables else BY_VECTORS
    ring, polygon, shape = (np.array(tables[name]["first"].to_numpy()) for name in _FIRSTS)
    return Rings(corners, ring, polygon, shape, edges)


def of_h3(resolution: int) -> dict[str, pa.Table]:
    """Return what keys of cells of H3 are made of, as tables."""
    return {"h3": pa.table({"resolution": [resolution]})}


def _named(names: pa.Array | None) -> dict[str, pa.Table]:
    return {} if names is None else {"names": pa.table({"name": names.cast(pa.string())})}


def keys_from(space: Space, tables: dict[str, pa.Table]) -> Keys:
    """Return the keys that tables are about."""
    if "regions" in tables:
        table = tables["regions"]
        pivots = [table[f"pivot_{i}"].to_numpy() for i in range(table.num_columns - 1)]
        regions = Regions(np.ascontiguousarray(np.stack(pivots, axis=1)), np.array(table["weight"].to_numpy()))
        return region_keys(space, regions)
    if "corners" in tables:
        return polygon_keys(space, rings_from(tables))
    if "h3" in tables:
        return h3_keys(space, tables["h3"]["resolution"][0].as_py())
    table = tables["sites"]
    return site_keys(space, np.stack([table["x"].to_numpy(), table["y"].to_numpy()], axis=1))


def write_keys(home: Home, tables: dict[str, pa.Table]) -> FileEntry:
    """Write what keys are made of to the folder of windows, and return the file."""
    return FileEntry.of(
        write_entry(home.folder, bundle_tables(tables), sum(map(len, tables.values())), "arrow", KEY_FILES)
    )


@lru_cache(maxsize=4)
def read_keys(home: Home, file: FileEntry, space: Space, digest: str) -> Keys:
    """Return the keys of windows; they stay open in this process."""
    found = keys_from(space, read_material(home, file))
    if found.digest != digest:
        path = home.folder.path(KEY_FILES, file.name)
        raise StoreError(f"{path} is damaged: its keys are not those of the spec; {_RESTORE}")
    return found


def read_material(home: Home, file: FileEntry) -> dict[str, pa.Table]:
    """Return what the keys of windows are made of, as tables."""
    return unbundle_tables(
        map_entry(home.folder, KEY_FILES, file.name, _RESTORE), home.folder.path(KEY_FILES, file.name)
    )


def keys_in(tables: dict[str, pa.Table]) -> tuple[int | None, pa.Array | None]:
    """Return how many keys there are, None where any number may be one, and what they are called, None by numbers."""
    names = tables["names"]["name"].combine_chunks() if "names" in tables else None
    if "h3" in tables:
        return None, None
    if "corners" in tables:
        return len(tables["shape"]) - 1, names
    return len(tables["regions" if "regions" in tables else "sites"]), names
