"""Places that are asked about, whatever holds them, as positions of an index."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.frames.arrow_tables import table_of
from dtoss.frames.coordinates import Located, locate_rows
from dtoss.frames.crs_names import crs_name, short
from dtoss.frames.point_coordinates import as_geometries, points_of
from dtoss.geometry.space import NO_CRS, Space, as_positions, same_crs

NO_POINTS = (bool, int, float, str, list, tuple, np.ndarray, np.generic)
"""What the first item of a list is where it holds no points: looked at, so that lists of numbers cost nothing more."""


def as_places(positions: Any, space: Space, crs: str | None = None) -> NDArray[np.float64]:
    """Return places as float64 (n, 2), C-contiguous: those of frames and geometries, and all that numpy reads."""
    if crs is not None and crs != space.crs and not same_crs(named := crs_name(crs) or NO_CRS, space.crs):
        raise ValueError(
            f"crs {short(named)!r} of the query is not {short(space.crs)!r} of the snapshot: transform the query first"
        )
    found = positions if isinstance(positions, Located) else places_of(positions)
    if found is None:
        return as_positions(positions, space)
    _check_crs(found, space, crs)
    return as_positions(found.positions, space)


def places_of(positions: Any) -> Located | None:
    """Return places of frames and geometries, None of anything else, which numpy may read."""
    if type(positions) is np.ndarray and positions.dtype.kind not in "OV":
        return None
    if type(positions) in (list, tuple) and positions and isinstance(positions[0], NO_POINTS):
        return None
    if (geometries := as_geometries(positions)) is not None:
        points, crs = points_of(positions)
        # points of shapely could not name a CRS
        bare = isinstance(geometries[0], np.ndarray) and not hasattr(positions, "crs")
        return Located(points, crs, "plain" if bare else "geometry", ())
    table = table_of(positions)
    return None if table is None else locate_rows(table)


def _check_crs(found: Located, space: Space, crs: str | None) -> None:
    """Refuse places that are in another CRS than the index, or may be."""
    if found.meaning == "degrees" and not space.geographic and space.crs != NO_CRS:
        names = " and ".join(map(str, found.columns))
        raise ValueError(
            f"columns {names} are degrees and the index is in {short(space.crs)}: transform them first, and call them "
            "x and y"
        )
    if found.meaning != "geometry" or (found.crs is None and (crs is not None or space.crs == NO_CRS)):
        return
    if found.crs is None:
        raise ValueError(
            f"the places name no CRS and the index is in {short(space.crs)}: gdf.set_crs({short(space.crs)!r}) or "
            "crs= says that they are in it"
        )
    if not same_crs(found.crs, space.crs):
        raise ValueError(
            f"the places are in {short(found.crs)} and the index in {short(space.crs)}: transform them first, "
            f"gdf.to_crs({short(space.crs)!r})"
        )
