"""Keys of places: the partition, the nearest of the user's own sites, the polygons that hold one, the cell of H3.

The keys of rows: one of each, or several where polygons overlap.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dtoss.column_rows import begin_of, take_rows
from dtoss.errors import InputError
from dtoss.extras import need
from dtoss.geometry.space import Space, space_of
from dtoss.partitioning.regions import Regions

DIGEST_DIGITS = 16
"""Of a digest."""
MOST_SITES = 20_000


@dataclass(frozen=True)
class Keys:
    """What the keys of places are, and how they are found."""

    space: Space
    digest: str  # A hash of what they are made of, in hexadecimal: windows with another one are not the same
    count: int | None  # Keys are 0 to this less one; None where any number may be one
    single: bool  # Whether no place has several
    # Gives the labels of positions (n, 2), of which the vectors (n, dimension) are the second argument
    find: Callable[[NDArray[np.float64], NDArray[np.float64]], Labels]
    overlap: tuple[int, int] | None = None  # Two keys that some place has, None where no place has two

    def check(self, measures: Sequence[str]) -> None:
        """Check that measures are defined for these keys."""
        if "flow" in measures and not self.single:
            which = "" if self.overlap is None else f": polygons {self.overlap[0]} and {self.overlap[1]} overlap"
            raise ValueError(
                f"--measures has flow, and a place may have two keys{which}; leave out flow, or cut the polygons so "
                "that they share borders only"
            )

    def of(self, positions: NDArray[np.float64]) -> Labels:
        """Return the keys of legal positions (n, 2), lon, lat or x, y."""
        return self.find(positions, self.space.vectors(positions))


def region_keys(space: Space, regions: Regions) -> Keys:
    """Return the partitions of a store as keys: exactly one of each place. Cost O(1) a place, for rows by object."""
    return Keys(space, regions.digest, len(regions), True, lambda _, vectors: Labels(_regions(regions, vectors)))


def site_keys(space: Space, positions: NDArray[np.float64]) -> Keys:
    """Return the rows of a file of sites as keys: each place has that of the nearest one, of equal ones the first.

    ``positions``: float64 (n, 2). Legal ones.
    """
    if len(positions) == 0:
        raise InputError("there are no sites: one at least is wanted")
    vectors = space.vectors(positions)
    distinct, first = np.unique(vectors, axis=0, return_index=True)
    if len(distinct) > MOST_SITES:
        raise InputError(f"there are {len(distinct):,} different sites, and at most {MOST_SITES:,} are keys")
    order = np.argsort(first)  # ties go to the lowest number
    regions = Regions(np.ascontiguousarray(distinct[order]), np.zeros(len(distinct)))
    row = first[order].astype(np.int64)

    def find(_: NDArray[np.float64], asked: NDArray[np.float64]) -> Labels:
        return Labels(row[_regions(regions, asked)])

    return Keys(space, _hash(b"sites", vectors), len(positions), True, find)


def h3_keys(space: Space, resolution: int) -> Keys:
    """Return the cells of H3 as keys: each place has one, which is a number of 64 bits below 2^63.

    ``space``: of the rows: degrees, or a CRS that is carried over to them; ``resolution``: from 0, cells of 4,000,000
    square kilometres, to 15, of a square metre.
    """
    if not (space.geographic or space.to_lonlat):
        raise InputError(f"--by h3:{resolution} needs places in degrees, and these are in {space.crs}")
    need("h3ronpy", f"--by h3:{resolution}", "h3")
    library = need("h3ronpy.vector", f"--by h3:{resolution}", "h3")

    def find(positions: NDArray[np.float64], vectors: NDArray[np.float64]) -> Labels:
        lonlat = space_of().positions(vectors) if space.to_lonlat else positions
        lon, lat = (np.ascontiguousarray(column) for column in lonlat.T)
        return Labels(np.asarray(library.coordinates_to_cells(lat, lon, resolution)).astype(np.int64))

    return Keys(space, _hash(b"h3", np.array([resolution])), None, True, find)


def _regions(regions: Regions, vectors: NDArray[np.float64]) -> NDArray[np.int64]:
    return regions.nearest(vectors).astype(np.int64)


def _hash(kind: bytes, *arrays: NDArray[np.float64] | NDArray[np.int64]) -> str:
    found = hashlib.sha256(kind)
    for array in arrays:
        found.update(np.ascontiguousarray(array).astype("<f8" if array.dtype.kind == "f" else "<i8").tobytes())
    return found.hexdigest()[:DIGEST_DIGITS]


Numbers = NDArray[np.int64]
NONE = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Labels:
    """The keys of rows."""

    key: Numbers  # int64. Of single keys (n,), -1 where a row is in none
    # int64 (n + 1,). Row r has the keys ``key[first[r]:first[r + 1]]``, ascending; None of single keys
    first: Numbers | None = field(default=None, metadata=begin_of("key"))

    def __len__(self) -> int:
        return len(self.key) if self.first is None else len(self.first) - 1

    @property
    def most(self) -> int:
        """The most keys of a row."""
        return 1 if self.first is None else int(np.diff(self.first).max(initial=0))

    take = take_rows

    @classmethod
    def none(cls, single: bool) -> Labels:
        """Return the keys of no rows."""
        return cls(NONE, None if single else np.zeros(1, np.int64))
