"""What the page is told of a snapshot that never changes: where its objects are, its regions, columns and layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyproj
from numpy.typing import NDArray

from dtoss.geometry.space import NO_CRS, Space
from dtoss.index import Index
from dtoss.locks import Lock
from dtoss.serve.tiles.tiling import Tiles
from dtoss.tiles.classes import kind_of
from dtoss.tiles.map_frame import unmercator
from dtoss.tiles.sample import KEY_BITS, at_once, gather_bits

WHOLE_MAP = (-180.0, -85.0, 180.0, 85.0)
"""What is seen where there are no objects."""
NARROWEST_VIEW = 1e-3
"""Degrees that a view is wide and high at least."""


def length_unit(space: Space) -> str:
    """Return "m" where distances are metres, the CRS's name of its unit, or "units" where it has none.

    Examples
    --------
    >>> from dtoss.geometry.space import space_of
    >>> [length_unit(space_of(crs)) for crs in ("EPSG:4326", "EPSG:32633", "EPSG:2263", "none")]
    ['m', 'm', 'US survey foot', 'units']
    """
    if space.metric == "sphere":
        return "m"
    unit = "units" if space.crs == NO_CRS else str(pyproj.CRS(space.crs).axis_info[0].unit_name)
    return "m" if unit == "metre" else unit


class MapFacts:
    """The facts of one snapshot; thread-safe.

    ``sizes``: bytes of the file of each partition; empty where there are no files.
    """

    def __init__(self, index: Index, tiles: Tiles, sizes: Sequence[int] = ()) -> None:
        self._index = index
        self._tiles = tiles
        self._sizes = sizes
        self._making = Lock()
        self._told: dict[str, Any] | None = None

    def told(self, breathe: Callable[[], None] = at_once) -> dict[str, Any]:
        """Return what the page is told; the first who asks makes it, and others wait for it.

        Cost O(n log n) for the n objects of the sample, for each column.
        """
        if self._told is None:
            with self._making:
                if self._told is None:
                    self._told = self._made(breathe)
        return self._told

    def _made(self, breathe: Callable[[], None]) -> dict[str, Any]:
        index, tiles = self._index, self._tiles
        plane, sample = tiles.frame.plane, tiles.sampled(breathe)
        columns = []
        for name in index.column_names:
            columns.append(self._column(name))
            breathe()
        return {
            "sites": index.sites,
            "partitions": len(index.parts),
            "crs": index.crs,
            "metric": index.space.metric,
            "unit": length_unit(index.space),
            "id_type": "string" if index.string_ids else "int64",
            "plane": None if plane is None else dict(zip(("x0", "y1", "side"), plane, strict=True)),
            "view": view_of(sample.keys, round_world=plane is None),
            "sample": sample.one_of,
            "nowhere": sample.nowhere,
            "columns": columns,
            "regions": self._regions(),
        }

    def _column(self, name: str) -> dict[str, Any]:
        kind = self._index.parts[0].attributes[name].type
        found = {"name": name, "type": str(kind), "kind": kind_of(kind), "classes": []}
        if found["kind"] != "other":
            found["classes"] = list(self._tiles.classes(name).labels)
        return found

    def _regions(self) -> dict[str, list[Any]]:
        facts = self._index.parts.facts
        place = self._tiles.frame.lonlat_of_vectors(self._index.partitioning.pivots)
        return {
            "objects": [one.objects for one in facts],
            "sites": [one.sites for one in facts],
            "bytes": list(self._sizes) or [0] * len(facts),
            "place": place.round(6).tolist(),
        }


def view_of(keys: NDArray[np.uint64], *, round_world: bool) -> list[float]:
    """Return west, south, east and north of the objects of a sample, degrees on the map.

    An east above 180 is beyond the antimeridian: what is seen is as narrow as it can be.
    """
    if not len(keys):
        return [*WHOLE_MAP]
    world = np.stack([gather_bits.py_func(keys), gather_bits.py_func(keys >> np.uint64(1))], axis=1) / 2.0**KEY_BITS
    (_, north), (_, south) = unmercator(np.array([[0.0, world[:, 1].min()], [0.0, world[:, 1].max()]])).tolist()
    lon = unmercator(world)[:, 0]
    lon.sort()
    widest = int(np.diff(lon, append=lon[0] + 360.0).argmax()) if round_world else len(lon) - 1
    # the east is where the widest gap begins; what comes after it is further west
    west, east = float(lon[(widest + 1) % len(lon)]), float(lon[widest])
    if east < west:
        east += 360.0
    width, height = max(NARROWEST_VIEW - (east - west), 0.0) / 2, max(NARROWEST_VIEW - (north - south), 0.0) / 2
    return [west - width, max(south - height, -90.0), east + width, min(north + height, 90.0)]
