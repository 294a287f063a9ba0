"""The collections of a snapshot, their extents in place and time, and their rows as features of GeoJSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from dtoss.conditions.matching_objects import Filter
from dtoss.export.export_layers import Columns
from dtoss.index import Index
from dtoss.names import renamed_of_manifest
from dtoss.queries.find_by_id import Place
from dtoss.queries.gather import take_columns, take_positions
from dtoss.rows.store_clock import Scale
from dtoss.serve.answers.json_out import HITS_A_PIECE, json_values
from dtoss.serve.answers.open_snapshots import ServedSnapshot
from dtoss.serve.core.pool import Stop
from dtoss.serve.ogc.pages_by_id import (
    Box,
    Choice,
    Items,
    as_array,
    as_json,
    cells_of,
    cells_page,
    has_shapely,
    page_of,
    regions_of,
    regions_page,
)
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


GEOJSON = b"application/geo+json"
"""Content type of features."""


class Page(NamedTuple):
    """Features in the order of their ids."""

    features: list[dict[str, Any]]
    matched: int | None  # How many there are on all pages; None where nobody knows without a search
    last: Any  # The id behind which there are more; None where there are none


def features_of(
    one: Collection, choice: Choice, columns: Sequence[str], after: Any, limit: int, text_ids: bool, stop: Stop
) -> Page:
    """Return a page of a collection, behind an id or from the first one on; objects with attributes of these names."""
    if one is REGION_SHAPES:
        regions = regions_of(choice.index)
        numbers = regions_page(regions[1], choice.box)
        rows = numbers[numbers > (-1 if after is None else after)]
        return Page(region_features(regions, rows[:limit]), len(numbers), _last(rows, limit))
    page = cells_page if one is CELL_SHAPES else page_of
    items, matched = page(choice, after, limit + 1, stop)
    shown = items.take(slice(0, limit))
    if one is CELL_SHAPES:
        return Page(cell_features(choice.index, shown, text_ids), matched, _last(items.ids, limit))
    features = object_features(choice.index, choice.frame, shown, columns, text_ids)
    return Page(features, matched, _last(items.ids, limit))


def feature_at(
    one: Collection, index: Index, frame: Frame, place: Place, columns: Sequence[str], text_ids: bool
) -> dict[str, Any] | None:
    """Return the feature of an object's place; None where its cell is called after another one."""
    partition, item, site = place
    ids = partition.ids[item : item + 1]
    items = Items(np.array([partition.number]), np.array([item]), as_array(ids))
    if one is CELL_SHAPES and partition.first_object[site] != item:
        return None
    if one is CELL_SHAPES:
        return cell_features(index, items, text_ids)[0]
    return object_features(index, frame, items, columns, text_ids)[0]


def _last(ids: NDArray[Any], limit: int) -> int | str | None:
    last: int | str | None = ids[limit - 1 : limit].tolist()[0] if len(ids) > limit else None
    return last


def object_features(
    index: Index, frame: Frame, items: Items, columns: Sequence[str], text_ids: bool
) -> list[dict[str, Any]]:
    """Return objects as features with their attributes of these names."""
    lonlat = frame.lonlat_of(take_positions(index.parts, items.part, items.item))
    values = [json_values(column) for column in take_columns(index.parts, items.hits, columns)]
    rows: Any = zip(*values, strict=True) if values else ((),) * len(items)
    points = [{"type": "Point", "coordinates": [x, y]} if x == x and y == y else None for x, y in lonlat.tolist()]
    return [
        feature(id_, point, dict(zip(columns, row, strict=True)))
        for id_, point, row in zip(_ids(items, text_ids), points, rows, strict=True)
    ]


def cell_features(index: Index, items: Items, text_ids: bool) -> list[dict[str, Any]]:
    """Return the cells of objects as features."""
    told, shapes = cells_of(index, items)
    return _polygons(_ids(items, text_ids), told, shapes)


def region_features(regions: tuple[Columns, NDArray[Any]], rows: NDArray[np.int64]) -> list[dict[str, Any]]:
    """Return regions of these numbers as features."""
    columns, shapes = regions
    told = {name: [column[row].as_py() for row in rows.tolist()] for name, column in columns.items()}
    return _polygons(told.pop("partition"), told, shapes[rows])


def feature(id_: Any, geometry: Any, properties: Any) -> dict[str, Any]:
    """Return a feature."""
    return {"type": "Feature", "id": id_, "geometry": geometry, "properties": properties}


def pieces_of(features: Sequence[dict[str, Any]], about: dict[str, Any]) -> Iterator[bytes]:
    """Yield the JSON of features with what is told about them, so many at a time that others wait for a moment only."""
    yield b'{"type":"FeatureCollection","features":['
    for at in range(0, len(features), HITS_A_PIECE):
        text = orjson.dumps(features[at : at + HITS_A_PIECE])[1:-1]
        yield b"," + text if at else text
    yield b"]," + orjson.dumps(about)[1:]


def _polygons(ids: Sequence[Any], told: dict[str, list[Any]], shapes: NDArray[Any]) -> list[dict[str, Any]]:
    rows = zip(*told.values(), strict=True)
    return [
        feature(id_, shape, dict(zip(told, row, strict=True)))
        for id_, shape, row in zip(ids, as_json(shapes), rows, strict=True)
    ]


def _ids(items: Items, text_ids: bool) -> list[Any]:
    ids: list[Any] = items.ids.tolist()
    return list(map(str, ids)) if text_ids else ids
