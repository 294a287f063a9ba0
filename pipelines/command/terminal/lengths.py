"""Distances as people write them in a shell: a number, with or without a unit. In Python they are numbers."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dtoss.plain_numbers import FINITE, is_number

if TYPE_CHECKING:
    from fractions import Fraction

    from dtoss.geometry.space import Space

UNITS = {"m": "1", "km": "1000", "ft": "0.3048", "mi": "1609.344", "nmi": "1852", "nm": "1852"}
"""Metres of each unit, exactly: foot and mile are the international ones, and nm is a nautical mile as nmi is."""
_SURVEY_FOOT = (1200, 3937)
"""Metres of a US survey foot, exactly; libraries round it."""
_FORM = re.compile(rf"({FINITE.pattern})\s*([^\W\d][^\d]*)", re.ASCII)
_KNOWN = "m, km, ft, mi, nmi"


@dataclass(frozen=True, slots=True)
class Length:
    """A distance as it was written: the text of its number, and a unit or none."""

    number: str
    unit: str | None = None

    def __str__(self) -> str:
        return f"{self.number}{self.unit or ''}"


def length_of(text: str) -> Length:
    """Return the length that a text such as ``300``, ``5km``, ``.5 mi`` or ``1e3ft`` means; case does not matter.

    Examples
    --------
    >>> length_of("5 KM")
    Length(number='5', unit='km')
    """
    said = text.strip()
    if is_number(said):
        return Length(said)
    found = _FORM.fullmatch(said)
    if found is None:
        raise ValueError(f"{text!r} is no distance: a number is wanted, with a unit or without, as in 300 or 5km")
    unit = found[2].strip().lower()
    if unit not in UNITS:
        from dtoss.names import did_you_mean

        raise ValueError(f"{text!r} has an unknown unit: {_KNOWN} are known{did_you_mean(unit, UNITS)}")
    if not math.isfinite(float(found[1]) * float(UNITS[unit])):
        raise ValueError(f"{text!r} is beyond 1.8e308 metres")
    return Length(found[1], unit)


def in_space(option: str, length: Length, space: Space) -> float:
    """Return a length as a number in the unit of a space: metres on the sphere, CRS units in the plane.

    What has a unit is converted exactly, and rounded once. A number without one stays as it is.

    ``length``: as it was written.
    """
    number = float(length.number)
    if length.unit is None or number == 0.0:
        return number
    from fractions import Fraction

    metres = Fraction(length.number) * Fraction(UNITS[length.unit])
    return float(metres if space.metric == "sphere" else metres / _metres_of_plane(option, length, space.crs))


def in_store(option: str, length: Length, store: str, snapshot: str | None) -> float:
    """Return a length as a number in the unit of a store; the store is read only where there is a unit."""
    if length.unit is None:
        return float(length.number)
    from dtoss.snapshots.manifest import space_of_manifest
    from dtoss.snapshots.store import Store

    place = Store(store)
    return in_space(option, length, space_of_manifest(place.manifest(snapshot or place.current())))


def _metres_of_plane(option: str, length: Length, crs: str) -> Fraction:
    """Return the metres of a plane's unit."""
    from fractions import Fraction

    from dtoss.geometry.space import NO_CRS

    if crs.lower() == NO_CRS:
        raise ValueError(
            f"{option} is {length}: the plane of this store has no CRS, so nothing says how long its unit is; "
            "leave the unit out, and give the number in units of the coordinates"
        )
    import pyproj

    units = {(axis.unit_name, axis.unit_conversion_factor) for axis in pyproj.CRS.from_user_input(crs).axis_info[:2]}
    (name, factor), *others = units
    if others or not factor > 0.0:
        raise ValueError(f"{option} is {length}: the axes of {crs} have no unit in common; leave the unit out")
    # of a foot or a metre the decimal digits are its definition; 17 digits of a binary number would be others
    return Fraction(*_SURVEY_FOOT) if name == "US survey foot" else Fraction(repr(factor))
