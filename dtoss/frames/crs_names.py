"""Coordinate reference systems of frames by short names."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from dtoss.geometry.space import LONLAT, NO_CRS, Space, same_crs

if TYPE_CHECKING:
    import pyproj

NO_CRS_SAID = "unknown"
"""In place of the name of a CRS: geometries, and nobody says in which they are."""


def crs_name(crs: Any) -> str | None:
    """Return the name of a CRS: "EPSG:32610" or another authority's where it is that one exactly, else its WKT.

    ``crs``: what pyproj reads (an object, text, PROJJSON), "none", or None, which is None. The axes are lon, lat or x,
    y whatever order it says, so OGC:CRS84 is EPSG:4326.

    Examples
    --------
    >>> crs_name("OGC:CRS84"), crs_name(32610), crs_name(None)
    ('EPSG:4326', 'EPSG:32610', None)
    """
    if crs is None or (isinstance(crs, str) and crs.lower() == NO_CRS):
        return None if crs is None else NO_CRS
    import pyproj
    from pyproj.exceptions import CRSError

    try:
        return _name(pyproj.CRS.from_user_input(crs))
    except CRSError as error:
        raise ValueError(f"crs {short(str(crs))} is not one that pyproj reads: {str(error).splitlines()[0]}") from None


@lru_cache(maxsize=64)
def _name(crs: pyproj.CRS) -> str:
    import pyproj

    authority = crs.to_authority()
    for named in (LONLAT, ":".join(authority) if authority else LONLAT):
        # the nearest entry of an authority may be another CRS
        if pyproj.CRS.from_user_input(named).equals(crs, ignore_axis_order=True):
            return named
    return str(crs.to_wkt())


def short(crs: str) -> str:
    """Return the name of a CRS for a message: one line, not the whole WKT."""
    line = " ".join(crs.split())
    return line if len(line) <= 60 else f"{line[:59]}…"


def agree_crs(crs: Any, found: str | None, whose: str, way_out: str) -> str | None:
    """Return the CRS that is named and the one that was found, which are the same; either may be None.

    ``whose``: what the second one belongs to, for the message.
    """
    if crs is None or found is None:
        return found if crs is None else crs
    if not same_crs(crs_name(crs) or NO_CRS, found):
        raise ValueError(f"crs {short(str(crs))} is not {short(found)} of {whose}: {way_out}")
    return crs if isinstance(crs, str) else found


def check_crs(crs: str | None, space: Space, what: str = "the zones", whose: str = "the index") -> None:
    """Check that the CRS of zones or places is that of a space; nothing is ever transformed in silence."""
    if crs is None:
        return
    if crs == NO_CRS_SAID:
        if space.crs == NO_CRS:
            return
        raise ValueError(
            f"{what} name no CRS and {whose} is in {short(space.crs)}: gdf.set_crs({short(space.crs)!r}) says that "
            "they are in it"
        )
    if not same_crs(crs, space.crs):
        way = "gdf.set_crs(None, allow_override=True) says that they are in its plane"
        if space.crs != NO_CRS:
            way = f"transform them first, gdf.to_crs({short(space.crs)!r})"
        raise ValueError(f"{what} are in {short(crs)} and {whose} in {short(space.crs)}: {way}")
