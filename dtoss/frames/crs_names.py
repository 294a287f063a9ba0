"""Coordinate reference systems of frames by short names."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from dtoss.geometry.space import LONLAT, NO_CRS, same_crs

if TYPE_CHECKING:
    import pyproj


def crs_name(crs: Any) -> str | None:
    """Return the name of a CRS: "EPSG:32610" or another authority's where it is that one exactly, else its WKT.

    Parameters
    ----------
    crs
        What pyproj reads (an object, text, PROJJSON), "none", or None, which is None. The axes are lon, lat or x, y
        whatever order it says, so OGC:CRS84 is EPSG:4326.

    Raises
    ------
    ValueError
        If pyproj cannot read it.

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


def agreed(crs: Any, found: str | None, whose: str, way_out: str) -> str | None:
    """Return the CRS that is named and the one that was found, which are the same; either may be None.

    Parameters
    ----------
    crs
        As the caller names it.
    found
        As :func:`crs_name`.
    whose
        What the second one belongs to, for the message.
    way_out
        What to do where they differ.

    Raises
    ------
    ValueError
        If they differ.
    """
    if crs is None or found is None:
        return found if crs is None else crs
    if not same_crs(crs_name(crs) or NO_CRS, found):
        raise ValueError(f"crs {short(str(crs))} is not {short(found)} of {whose}: {way_out}")
    return crs if isinstance(crs, str) else found
