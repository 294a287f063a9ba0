"""The two metrics and one way to see them: positions as vectors whose chords are compared.

Vectors of any CRS as longitude and latitude, for maps.

Positions in tables: which columns are the coordinates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import factorial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dtoss.compiled.kernel import kernel, operand
from dtoss.geometry.distance import SPHERE
from dtoss.plain_numbers import floats

if TYPE_CHECKING:
    import pyproj

LONLAT = "EPSG:4326"
NO_CRS = "none"
"""The name of a plane that has no CRS: its unit is whatever the coordinates are in."""
FURTHEST = 1e90
"""The largest planar coordinate: cubes of larger ones, and circles through them, could overflow."""
SMALLEST = 1e-80
"""The smallest planar coordinate of an object besides 0: so no two are so near that squares of it, and of what circles
are made of, have no digits left."""


@dataclass(frozen=True, slots=True)
class Space:
    """A CRS and the metric in which its positions are compared."""

    crs: str  # As the user named it, or "none"
    # "sphere" (positions are lon, lat in degrees, distances metres) or "plane" (x, y and distances in CRS units)
    metric: str
    to_lonlat: bool = False  # Positions are in a projected CRS and compared on the sphere

    @property
    def dimension(self) -> int:
        """Coordinates of a vector: 3 on the sphere, 2 in the plane."""
        return 3 if self.metric == "sphere" else 2

    @property
    def geographic(self) -> bool:
        """Whether positions are lon, lat in degrees."""
        return self.metric == "sphere" and not self.to_lonlat

    @property
    def unit(self) -> str:
        """Name of the unit of distances."""
        return "metres" if self.metric == "sphere" else "CRS units"

    def vectors(self, positions: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the vectors (n, dimension) of legal positions (n, 2); equal places are equal vectors.

        On the sphere lon -180 is 180, lon does not matter at the poles, and -0.0 is 0.0.
        """
        positions = operand(positions, dtype=np.float64)
        if self.to_lonlat:
            places, positions = positions, self._lonlat(positions)
            if not (good := np.isfinite(positions).all(axis=1)).all():
                row = int(good.argmin())
                x, y = places[row].tolist()
                raise ValueError(
                    f"positions row {row} is ({x:g}, {y:g}): that is no place of {self.crs}; is it in another CRS?"
                )
        if self.metric == "sphere":
            return _unit_vectors(operand(positions))
        return positions + 0.0

    def positions(self, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the positions (n, 2) of vectors (n, dimension): the inverse of :meth:`vectors` within rounding."""
        if self.metric == "plane":
            return np.array(vectors)
        x, y, z = vectors[:, 0], vectors[:, 1], vectors[:, 2]
        lonlat = np.stack([np.degrees(np.arctan2(y, x)), np.degrees(np.arctan2(z, np.hypot(x, y)))], axis=1)
        if self.to_lonlat:
            return np.stack(_transformer(self.crs).transform(lonlat[:, 0], lonlat[:, 1], direction="INVERSE"), axis=1)
        return lonlat

    def legal(self, positions: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which positions (n, 2) are legal: lon in [-180, 180], lat in [-90, 90]; in the plane up to 1e90.

        Those of a projected CRS that are compared on the sphere have to be a place there.
        """
        x, y = positions[:, 0], positions[:, 1]
        if self.geographic:
            return (np.abs(x) <= HALF_TURN) & (np.abs(y) <= QUARTER_TURN)
        good = (np.abs(x) <= FURTHEST) & (np.abs(y) <= FURTHEST)
        if self.to_lonlat:
            good &= np.isfinite(self._lonlat(np.where(good[:, None], positions, 0.0))).all(axis=1)
        return good

    def too_near(self, positions: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which positions (n, 2) no object may have, though one may ask there: planar ones under 1e-80."""
        if self.metric == "sphere":
            return np.zeros(len(positions), np.bool_)
        return ((positions != 0.0) & (np.abs(positions) < SMALLEST)).any(axis=1)

    def _lonlat(self, positions: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return positions of a projected CRS in degrees, not finite where they are no place."""
        return np.stack(_transformer(self.crs).transform(positions[:, 0], positions[:, 1]), axis=1)


def space_of(crs: str | pyproj.CRS | None = None, metric: str | None = None) -> Space:
    """Return the space of a CRS: geographic -> sphere, projected -> plane.

    ``crs``: anything pyproj reads; "none" is a plane without one. None is EPSG:4326, or "none" where metric is "plane";
    ``metric``: "sphere" for a projected CRS compares its positions on the sphere; None is what the CRS says.

    Examples
    --------
    >>> space_of().metric, space_of("EPSG:32610").metric, space_of(metric="plane").crs
    ('sphere', 'plane', 'none')
    """
    if metric not in (None, "sphere", "plane"):
        raise ValueError(f"metric {metric!r} is not known: sphere or plane")
    if crs is None:
        crs = NO_CRS if metric == "plane" else LONLAT
    if isinstance(crs, str) and crs.lower() == NO_CRS:
        if metric == "sphere":
            raise ValueError("crs 'none' is a plane: name a CRS to use metric 'sphere'")
        return Space(NO_CRS, "plane")
    if crs == LONLAT and metric in (None, "sphere"):
        return Space(LONLAT, "sphere")
    import pyproj  # half as long to load as numba, and degrees need none
    from pyproj.exceptions import CRSError

    try:
        read = pyproj.CRS.from_user_input(crs)
    except CRSError as error:
        raise ValueError(f"crs {crs!r} is not one that pyproj reads: {str(error).splitlines()[0]}") from None
    name = crs if isinstance(crs, str) else read.to_string()
    if read.is_projected:
        return Space(name, "sphere", to_lonlat=True) if metric == "sphere" else Space(name, "plane")
    if not read.is_geographic or any(axis.unit_name not in ("degree", "metre") for axis in read.axis_info):
        raise ValueError(f"crs {name!r} is neither geographic in degrees nor projected: transform the positions first")
    if metric == "plane":
        raise ValueError(f"crs {name!r} is in degrees, which are not a plane: name a projected CRS, or crs 'none'")
    return Space(name, "sphere")


def same_crs(a: str, b: str) -> bool:
    """Return whether two names mean the same CRS."""
    if a == b:
        return True
    if NO_CRS in (a.lower(), b.lower()):
        return a.lower() == b.lower()
    import pyproj

    return bool(pyproj.CRS.from_user_input(a).equals(pyproj.CRS.from_user_input(b), ignore_axis_order=True))


def _transformer(crs: str) -> pyproj.Transformer:
    import pyproj

    return pyproj.Transformer.from_crs(crs, LONLAT, always_xy=True)


def as_positions(positions: ArrayLike, space: Space, name: str = "positions") -> NDArray[np.float64]:
    """Return positions as float64 (n, 2), C-contiguous; the columns of a table go by their names."""
    if type(positions) is not np.ndarray or positions.dtype.kind == "V":
        positions = by_name(positions)
    try:
        if isinstance(positions, (list, tuple)) and any(isinstance(one, bool) for one in positions[:2]):
            raise ValueError("they are booleans")
        array = operand(floats(positions), dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} are not numbers ({error}): give an array of shape (n, 2)") from None
    if array.ndim == 1 and array.shape[0] == 2:
        array = array[None]
    if array.size == 0:
        return np.zeros((0, 2))
    if array.ndim != 2 or array.shape[1] != 2:
        raise ValueError(f"{name} have shape {array.shape}: (2,) or (n, 2) is wanted, lon before lat")
    furthest_x, furthest_y = (HALF_TURN, QUARTER_TURN) if space.geographic else (FURTHEST, FURTHEST)
    row = _first_beyond(array, furthest_x, furthest_y)
    if row < len(array):
        x, y = array[row].tolist()
        bound = f"finite and at most {FURTHEST:g} in size"
        if space.geographic:
            bound = "lon in [-180, 180] and lat in [-90, 90]"
        raise ValueError(f"{name} row {row} is ({x:g}, {y:g}): {bound} is legal{hint_of(x, y, space)}")
    return array


def hint_of(x: float, y: float, space: Space) -> str:
    """Return what may be meant by a position that is not legal, to stand behind an error; empty where nothing is."""
    if not space.geographic:
        return ""
    if abs(y) <= HALF_TURN and abs(x) <= QUARTER_TURN:
        return "; lon comes before lat, are they swapped?"
    return "; lon seems to run from 0 to 360, subtract 360 where it is above 180" if HALF_TURN < x <= 360.0 else ""


@kernel("int64(float64[:, ::1], float64, float64)")
def _first_beyond(positions, furthest_x, furthest_y):
    """Return the first row with a coordinate that is NaN or larger than it may be, or the number of rows."""
    n = positions.shape[0]
    for row in range(n):
        if not (abs(positions[row, 0]) <= furthest_x and abs(positions[row, 1]) <= furthest_y):
            return row
    return n


_BLOCK = 128
_DEGREE = 0.017453292519943295
QUARTER_TURN, HALF_TURN = 90.0, 180.0
"""In degrees: from the equator to a pole, and the furthest longitude."""
_SIN_3, _SIN_5, _SIN_7, _SIN_9, _SIN_11, _SIN_13, _SIN_15, _SIN_17 = (1.0 / factorial(k) for k in range(3, 18, 2))
"""Coefficients of Taylor's series of the sine, by the power of the angle; their signs alternate."""
_COS_4, _COS_6, _COS_8, _COS_10, _COS_12, _COS_14, _COS_16 = (1.0 / factorial(k) for k in range(4, 17, 2))
"""Those of the cosine."""


@kernel
def _sin_cos(degrees):
    """Return sine and cosine of an angle in [-180, 180] degrees: exact at multiples of 90, the same bits everywhere."""
    quarter = int(np.floor(degrees / QUARTER_TURN + 0.5))
    t = (degrees - QUARTER_TURN * quarter) * _DEGREE  # exact before the product: |t| <= pi / 4
    s = t * t
    sine = _SIN_13 - s * (_SIN_15 - s * _SIN_17)
    sine = _SIN_9 - s * (_SIN_11 - s * sine)
    sine = t - t * s * (_SIN_3 - s * (_SIN_5 - s * (_SIN_7 - s * sine)))
    cosine = _COS_12 - s * (_COS_14 - s * _COS_16)
    cosine = _COS_8 - s * (_COS_10 - s * cosine)
    cosine = 1.0 - s * (0.5 - s * (_COS_4 - s * (_COS_6 - s * cosine)))
    odd = quarter & 1
    a = cosine if odd else sine
    b = sine if odd else cosine
    return (-a if quarter & 2 else a), (-b if (quarter + 1) & 2 else b)


@kernel
def _plain(lon, lat):
    """Return the longitude that stands for all names of a place: 180 for -180, and 0 at the poles."""
    if lon == -HALF_TURN:
        lon = HALF_TURN
    if abs(lat) == QUARTER_TURN:
        lon = 0.0
    return lon


@kernel
def unit_vector(lon, lat):
    """Return x, y, z of a legal position in degrees: the same bits as :meth:`Space.vectors` gives it."""
    sin_lon, cos_lon = _sin_cos(_plain(lon, lat))
    sin_lat, cos_lat = _sin_cos(lat)
    return cos_lat * cos_lon + 0.0, cos_lat * sin_lon + 0.0, sin_lat + 0.0


@kernel("float64[:, ::1](float64[:, ::1])")
def _unit_vectors(lonlat):
    n = lonlat.shape[0]
    out = np.empty((n, SPHERE))
    # a block at a time, so that the loop of sines has no branch and no stride, and runs in vector registers
    angle, sine, cosine = np.zeros(2 * _BLOCK), np.zeros(2 * _BLOCK), np.zeros(2 * _BLOCK)
    for begin in range(0, n, _BLOCK):
        size = min(_BLOCK, n - begin)
        for i in range(size):
            lon, lat = lonlat[begin + i, 0], lonlat[begin + i, 1]
            angle[i], angle[_BLOCK + i] = _plain(lon, lat), lat
        for i in range(2 * _BLOCK):
            sine[i], cosine[i] = _sin_cos(angle[i])
        for i in range(size):
            sin_lon, cos_lon, cos_lat = sine[i], cosine[i], cosine[_BLOCK + i]
            # + 0.0 turns -0.0 into 0.0
            out[begin + i, 0] = cos_lat * cos_lon + 0.0
            out[begin + i, 1] = cos_lat * sin_lon + 0.0
            out[begin + i, 2] = sine[_BLOCK + i] + 0.0
    return out


def to_lonlat(space: Space, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return lon and lat of vectors, float64 (n, 2), whatever the CRS; coordinates as they are where there is none."""
    if space.metric == "sphere":
        return space_of().positions(vectors)
    if space.crs == NO_CRS:
        return np.array(vectors)
    return np.stack(_transformer(space.crs).transform(vectors[:, 0], vectors[:, 1]), axis=1)


AXES = (("lon", "lat"), ("lng", "lat"), ("long", "lat"), ("longitude", "latitude"), ("x", "y"))
"""Names of the two coordinates; case does not matter. The first pair wins over all, of the others there may be one."""


def axes_of(names: Iterable[Any], *, half: bool = False) -> tuple[Any, Any] | None:
    """Return which of the columns of a table are its coordinates, None where no two are called so.

    lon and lat win over all others. A name in lower case wins over one that differs in case only.

    ``half``: where only one of two is there, return it with the name that the other would have; else that is an error.

    Examples
    --------
    >>> axes_of(["t", "Latitude", "LONGITUDE"]), axes_of(["x", "lat", "y", "lon"]), axes_of(["a", "b"])
    (('LONGITUDE', 'Latitude'), ('lon', 'lat'), None)
    """
    names = list(names)
    spelled: dict[str, list[Any]] = {}
    for name in names:
        spelled.setdefault(str(name).casefold(), []).append(name)
    pairs = [pair for pair in AXES if pair[0] in spelled and pair[1] in spelled]
    if not pairs:
        lone = [(axis, pair) for pair in AXES for axis in pair if axis in spelled]
        if lone and half:
            first, second = (spelled.get(axis, [axis])[0] for axis in lone[0][1])
            return first, second
        if lone:
            raise ValueError(
                f"positions have a column {spelled[lone[0][0]][0]!r} and not the other coordinate: lon and lat, or x "
                f"and y, are wanted; the columns are {', '.join(map(str, names))}"
            )
        return None
    if len(pairs) > 1 and pairs[0] != AXES[0]:
        raise _unclear(", ".join(f"{spelled[x][0]} and {spelled[y][0]}" for x, y in pairs))
    first, second = (_one(spelled[axis], axis) for axis in pairs[0])
    return first, second


def _one(names: list[Any], axis: str) -> Any:
    if len(names) > 1 and axis not in names:
        raise _unclear(", ".join(map(str, names)))
    return axis if axis in names else names[0]


def _unclear(names: str) -> ValueError:
    return ValueError(f"columns {names} may all be the positions: name those that are, x= and y=")


def by_name(positions: Any) -> Any:
    """Return the two coordinates of a table as an array (n, 2), whatever the order of its columns.

    What is no table is returned as it is, and so is one none of whose columns is called as a coordinate: it is an array
    of what it holds. Tables are those of pandas, Polars and Arrow, dictionaries, and structured arrays of numpy.

    Examples
    --------
    >>> by_name({"lat": [50.0, 51.0], "lon": [8.0, 9.0]}).tolist()
    [[8.0, 50.0], [9.0, 51.0]]
    """
    if isinstance(positions, list | tuple):
        return positions
    names = _names(positions)
    if names is None:
        return positions
    if (pair := axes_of(names)) is not None:
        columns = [positions[axis] for axis in pair]
        return np.stack([np.asanyarray(column).reshape(-1) for column in columns], axis=1)
    return positions


def _names(table: Any) -> Sequence[Any] | None:
    if isinstance(table, np.ndarray):
        return table.dtype.names
    if isinstance(table, dict):
        return list(table)
    for kind in ("column_names", "columns"):  # of Arrow; of pandas and Polars
        if (names := getattr(table, kind, None)) is not None:
            return list(names)
    # a row of a table of pandas
    return list(table.keys()) if hasattr(table, "keys") and len(table) == 2 else None
