"""What the collections of a snapshot are: their extents in place and time, and how times are asked for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoss.conditions.matching_objects import Filter
from dtoss.index import Index
from dtoss.names import renamed_of_manifest
from dtoss.rows.store_clock import Scale
from dtoss.serve.answers.open_snapshots import ServedSnapshot
from dtoss.serve.ogc.cell_pages import has_shapely
from dtoss.serve.ogc.pages_by_id import Box
from dtoss.tiles.map_frame import Frame

CRS84 = "http://www.opengis.net/def/crs/OGC/1.3/CRS84"
GREGORIAN = "http://www.opengis.net/def/uom/ISO-8601/0/Gregorian"
CONFORMS = tuple(f"http://www.opengis.net/spec/ogcapi-features-1/1.0/conf/{name}" for name in ("core", "geojson"))
OPEN_END = ("", "..")
"""An end of an interval that is not one."""
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d([Tt ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?([Zz]|[+-]\d\d:\d\d)?)?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Collection(NamedTuple):
    """One of them."""

    name: str
    title: str
    said: str
    of_all: bool = True  # Whether it is made of all objects, and so not told to a token that may see some
    of_watch: bool = False  # Whether it is of what the watch of a server is asked and tells, whatever snapshot is read


OBJECT_POINTS = Collection("objects", "Objects", "Where each object is, and what it carries.", of_all=False)
CELL_SHAPES = Collection(
    "cells", "Cells", "Of each place what is nearer to it than to any other, by the lowest id there."
)
REGION_SHAPES = Collection("partitions", "Partitions", "What each partition of the index owns.")
ZONE_SHAPES = Collection("zones", "Zones", "Places of the subscriptions of the watch.", of_all=False, of_watch=True)
EVENT_POINTS = Collection("events", "Events", "What the watch has told, in its order.", of_all=False, of_watch=True)
COLLECTIONS = (OBJECT_POINTS, CELL_SHAPES, REGION_SHAPES, ZONE_SHAPES, EVENT_POINTS)


def collections_of(index: Index, narrowed: bool, watched: bool) -> list[Collection]:
    """Return the collections that there are; those of polygons need shapely, and of all a token that may see all."""
    drawn = has_shapely()
    there = drawn and len(index) > 0 and not narrowed
    return [one for one in COLLECTIONS if (there if one.of_all else not one.of_watch or (watched and drawn))]


@dataclass(frozen=True)
class Times:
    """The attribute that says of when an object is."""

    name: str
    scale: Scale

    def condition(self, begin: datetime | None, end: datetime | None) -> str | None:
        """Return the condition that a time lies between two, both included; None where neither is one."""
        name = '"' + self.name.replace('"', '""') + '"'
        sides = [f"{name} {sign} {self._instant(at)}" for sign, at in ((">=", begin), ("<=", end)) if at is not None]
        return " and ".join(sides) or None

    def _instant(self, at: datetime) -> str:
        if self.scale.kind.startswith("timestamp"):
            return f"timestamp '{at.astimezone(UTC).isoformat()}'"
        if self.scale.kind == "date":
            return f"date '{at.astimezone(UTC).date().isoformat()}'"
        number = (at - _EPOCH) / timedelta(microseconds=1) / 1e6 * self.scale.per_second
        return repr(int(number)) if number == int(number) else repr(number)


def times_of(served: ServedSnapshot, columns: Sequence[str]) -> Times | None:
    """Return the times of the objects of a snapshot, None where they carry none that is seen."""
    said = served.manifest.get("time")
    if said is None:
        return None
    name = renamed_of_manifest(served.manifest).get(said["column"], said["column"])
    return Times(name, Scale.of(dict(served.manifest))) if name in columns else None


def interval_of(text: str) -> tuple[datetime | None, datetime | None]:
    """Return the two ends of what a parameter ``datetime`` says, both included; None where it is open.

    A day by itself is all of it.

    Examples
    --------
    >>> begin, end = interval_of("2026-01-31T12:00:00Z/..")
    >>> begin.isoformat(), end
    ('2026-01-31T12:00:00+00:00', None)
    """
    parts = text.split("/")
    if len(parts) > 2 or all(part in OPEN_END for part in parts):
        raise ValueError(
            f"datetime is {text[:100]!r}: a time, or two with / between them, one of which may be .., is wanted"
        )
    begin, end = (_moment(part, text, last=bool(last)) for last, part in enumerate((parts[0], parts[-1])))
    if begin is not None and end is not None and begin > end:
        raise ValueError(f"datetime is {text[:100]!r}: the first time is after the last one")
    return begin, end


def _moment(part: str, text: str, *, last: bool) -> datetime | None:
    if part in OPEN_END:
        return None
    try:
        if not _MOMENT.fullmatch(part):
            raise ValueError
        found = datetime.fromisoformat(part.upper())
    except ValueError:
        raise ValueError(
            f"datetime is {text[:100]!r}: times such as 2026-01-31T12:00:00Z are wanted, two with / between them"
        ) from None
    found = found.replace(tzinfo=UTC) if found.tzinfo is None else found
    whole = last and len(part) == len("2026-01-31")
    return found + timedelta(days=1, microseconds=-1) if whole else found


def box_of(text: str) -> Box:
    """Return the box that a parameter ``bbox`` says; of six numbers heights are left out.

    Examples
    --------
    >>> box_of("170,-10,-170,10"), box_of("1,2,-5,3,4,100")
    ((170.0, -10.0, -170.0, 10.0), (1.0, 2.0, 3.0, 4.0))
    """
    wanted = "west,south,east,north in degrees, or six numbers with heights behind each place, are wanted"
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"bbox is {text[:100]!r}: {wanted}") from None
    if len(numbers) not in (4, 6) or not np.isfinite(numbers).all():
        raise ValueError(f"bbox is {text[:100]!r}: {wanted}")
    if len(numbers) == 6:
        if numbers[2] > numbers[5]:
            raise ValueError(f"bbox is {text[:100]!r}: the lower height is above the upper one")
        numbers = [*numbers[:2], *numbers[3:5]]
    west, south, east, north = numbers
    if not (max(abs(west), abs(east)) <= 180.0 and -90.0 <= south <= north <= 90.0):
        raise ValueError(f"bbox is {text[:100]!r}: {wanted}, with south <= north, within 180 and 90")
    return west, south, east, north


def extent_of(index: Index, frame: Frame, seen: Filter | None, times: Times | None) -> dict[str, Any]:
    """Return the box and the interval that hold all objects that are seen; nothing where there are none. Cost O(n)."""
    boxes, moments = [], []
    for partition in index.parts.all():
        rows = slice(0, partition.owned_objects) if seen is None else seen.rows(partition)
        positions = frame.lonlat_of(np.asarray(partition.positions[rows]))
        positions = positions[np.isfinite(positions).all(axis=1)]
        if len(positions):
            boxes.append(np.concatenate([positions.min(axis=0), -positions.max(axis=0)]))
        if times is not None and partition.times is not None:
            numbers = times.scale.numbers(partition.times)[rows]
            if len(numbers):
                moments.append((numbers.min(), numbers.max()))
    extent: dict[str, Any] = {}
    if boxes:
        extent["spatial"] = {"bbox": [_outward(np.min(boxes, axis=0))], "crs": CRS84}
    if moments and times is not None:
        begin, end = (pick(column) for pick, column in zip((min, max), zip(*moments, strict=True), strict=True))
        interval = [_instant_text(times.scale, begin), _instant_text(times.scale, end)]
        extent["temporal"] = {"interval": [interval], "trs": GREGORIAN}
    return extent


def _outward(low: NDArray[np.float64]) -> list[float]:
    return [*low[:2].tolist(), *(-low[2:]).tolist()]


def _instant_text(scale: Scale, moment: float) -> str | None:
    """Return a moment as ISO 8601; None, which is open, where Python has no such year."""
    try:
        return (_EPOCH + timedelta(seconds=moment / scale.per_second)).isoformat().replace("+00:00", "Z")
    except OverflowError:
        return None
