"""Which positions are legal, and the classic mistakes in those that are not."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import shapely  # type: ignore[import-untyped, unused-ignore]
from numpy.typing import NDArray

from dtoss.geometry import land_squares

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

MISSING = pa.array(["", "nan", "na", "n/a", "null", "none", "nil", "\\n", "-", "?"])
"""Spellings of "nothing here", in lower case."""

NUMBER = r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d{1,3})?$"

NO_POSITION = "no position"
UNREADABLE = "position is not a number"
NOT_AVAILABLE = "AIS 'position not available' (lon 181 or lat 91)"
SWAPPED = "axes look swapped (|lat| > 90 and |lon| <= 90)"
LATITUDE = "latitude out of range"
FROM_GREENWICH = "longitude in (180, 360]"
LONGITUDE = "longitude out of range"


@dataclass(frozen=True)
class Numbers:
    """Numbers read from text, NaN where there is none."""

    value: Floats  # float64 (n,)
    missing: Bools  # missing, unreadable: why there is none, bool (n,): the field is empty, or holds something else
    unreadable: Bools


def is_missing(texts: pa.Array) -> pa.Array:
    """Return, as an Arrow bool array, where a trimmed text is null or a spelling of "nothing"."""
    return pc.or_(pc.is_null(texts), pc.is_in(pc.utf8_lower(texts), value_set=MISSING))


def numbers(texts: pa.Array, decimal: str = ".") -> Numbers:
    """Read numbers in any notation that a CSV uses. ``texts``: strings, (n,); blanks round a number do not matter."""
    trimmed = pc.utf8_trim_whitespace(texts)
    if decimal != ".":
        trimmed = pc.replace_substring(trimmed, decimal, ".")
    missing = is_missing(trimmed)
    present = pc.if_else(missing, pa.scalar(None, pa.string()), trimmed)
    try:
        found = pc.cast(present, pa.float64())
    except pa.ArrowInvalid:
        fits = pc.match_substring_regex(present, NUMBER)
        found = pc.cast(pc.if_else(fits, present, pa.scalar(None, pa.string())), pa.float64())
    value = np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.float64)
    gone = missing.to_numpy(zero_copy_only=False)
    return Numbers(value=value, missing=gone, unreadable=~gone & ~np.isfinite(value))


def pair(texts: pa.Array) -> tuple[Numbers, Numbers]:
    """Read two numbers from one field, as in ``"38.74 -90.37"``, apart by blanks, a comma or a semicolon."""
    pattern = r"^[\s(\[]*(?P<first>[-+.\deE]+)[\s,;]+(?P<second>[-+.\deE]+)[\s)\]]*$"
    return _both(texts, pc.extract_regex(texts, pattern))


def wkt(texts: pa.Array) -> tuple[Numbers, Numbers]:
    """Read x and y of ``POINT (x y)``; anything else, an empty point included, is unreadable."""
    trimmed = pc.utf8_trim_whitespace(texts)
    missing = is_missing(trimmed).to_numpy(zero_copy_only=False)
    present = np.where(missing, None, trimmed.to_numpy(zero_copy_only=False))
    shapes = shapely.from_wkt(present, on_invalid="ignore")
    points = np.where(shapely.is_empty(shapes), None, shapes)
    coordinates = (shapely.get_x(points), shapely.get_y(points))  # NaN for what is not a point
    x, y = (Numbers(value, missing, ~missing & ~np.isfinite(value)) for value in coordinates)
    return x, y


def _both(texts: pa.Array, found: pa.StructArray) -> tuple[Numbers, Numbers]:
    missing = is_missing(pc.utf8_trim_whitespace(texts)).to_numpy(zero_copy_only=False)
    values = (numbers(pc.struct_field(found, name)).value for name in ("first", "second"))
    first, second = (Numbers(value, missing, ~missing & ~np.isfinite(value)) for value in values)
    return first, second


def judge(lon: Numbers, lat: Numbers) -> Mapping[str, Bools]:
    """Return the rows to drop by reason, bool (n,) each; each row has one reason at most.

    Legal is -180 <= lon <= 180 and -90 <= lat <= 90, both finite; (0, 0) is legal.
    """
    x, y = lon.value, lat.value
    with np.errstate(invalid="ignore"):
        tests = {
            NO_POSITION: lon.missing | lat.missing,
            UNREADABLE: lon.unreadable | lat.unreadable,
            NOT_AVAILABLE: (x == 181) | (y == 91),
            SWAPPED: (np.abs(y) > 90) & (np.abs(y) <= 180) & (np.abs(x) <= 90),
            LATITUDE: np.abs(y) > 90,
            FROM_GREENWICH: (x > 180) & (x <= 360),
            LONGITUDE: np.abs(x) > 180,
        }
    left = np.ones(len(x), dtype=np.bool_)
    reasons = {}
    for reason, bad in tests.items():
        reasons[reason] = bad & left
        left = left & ~bad
    return reasons


def look_swapped(lon: Floats, lat: Floats) -> str | None:
    """Return a note when positions would lie on land only with their axes exchanged.

    It is that of :func:`dtoss.geometry.land_squares.look_swapped`, with the option that helps.

    ``lon``, ``lat``: degrees, float64 (n,), legal ones; some hundreds are enough, fewer than 20 say nothing.
    """
    note = land_squares.look_swapped(lon, lat)
    return note and f"{note}; --swap exchanges them"
