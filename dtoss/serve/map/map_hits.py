"""Hits, circles, polygons and objects as the map draws them: in its longitudes and latitudes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np
import orjson

from dtoss.geometry.distance import distance
from dtoss.geometry.space import HALF_TURN, QUARTER_TURN
from dtoss.index import Index
from dtoss.queries.cell_of import outline_at
from dtoss.queries.covered import Shape, polygons_of
from dtoss.queries.find_by_id import Place
from dtoss.serve.answers.json_out import id_of, json_value, seen_at, seen_of
from dtoss.serve.answers.open_snapshots import ServedSnapshot
from dtoss.serve.bulk.query_pieces import found_within
from dtoss.serve.core.pool import Stop
from dtoss.serve.core.problems import Problem
from dtoss.serve.observability.metrics import Metrics
from dtoss.tiles.drawings import circle, counter_clockwise, outlines
from dtoss.tiles.map_frame import Frame

MOST_EXACT = 2**53
"""Up to it JavaScript knows whole numbers exactly."""
LISTED_WITHIN = 100
"""Objects of a circle or polygon that are listed; all are counted."""


def positions_in(served: ServedSnapshot, lonlat: Sequence[Sequence[float]]) -> list[tuple[float, float]]:
    """Return the positions, as the index takes them, of places on the map; longitudes may go on past 180."""
    index, frame = served.whole, served.tiles.frame
    given = np.array(lonlat, np.float64).reshape(-1, 2)
    beyond = np.abs(given[:, 0]) > HALF_TURN  # all others keep each digit
    given[beyond, 0] = (given[beyond, 0] + HALF_TURN) % (2.0 * HALF_TURN) - HALF_TURN
    given[np.abs(given[:, 1]) > QUARTER_TURN] = np.nan
    positions = frame.positions_of(given)
    good = index.space.legal(np.nan_to_num(positions, nan=np.inf)) & np.isfinite(positions).all(axis=1)
    if not good.all():
        lon, lat = lonlat[int(good.argmin())]
        raise Problem(
            400, f"({lon:g}, {lat:g}) is no place of this map: lat in [-90, 90] and where {index.crs} reaches is",
            limit="lon, lat",
        )  # fmt: skip
    found: list[tuple[float, float]] = list(map(tuple, positions.tolist()))
    return found


def nearest_drawn(
    served: ServedSnapshot, at: tuple[float, float], k: int, where: str | None, cells: bool
) -> dict[str, Any]:
    """Return the k nearest objects of a position, with where they are on the map and, if wanted, their cells."""
    index, frame = served.whole, served.tiles.frame
    found = index.knn(at, k, where=where)
    places = [index.place_of(object_id) for object_id in found.id.tolist()]
    hits: list[dict[str, Any]] = [
        {"id": str(object_id), "distance": far, "at": lonlat}
        for object_id, far, lonlat in zip(
            found.id.tolist(), found.distance.tolist(), _on_map(frame, places), strict=True
        )
    ]
    if cells:
        for hit, cell in zip(hits, _cells(index, frame, places), strict=True):
            hit["cell"] = cell
    place = {"at": frame.lonlat_of(np.array([at])).tolist()[0], "x": at[0], "y": at[1]}
    return {"snapshot": served.name, "place": place, "hits": hits}


def object_drawn(
    served: ServedSnapshot, text: str, where: str | None = None, columns: Sequence[str] | None = None
) -> tuple[dict[str, Any], tuple[float, float]]:
    """Return an object with its cell and neighbours as the map draws them, and its position."""
    index, frame = served.whole, served.tiles.frame
    object_id = id_of(index, text)
    place = index.place_of(object_id) if where is None else seen_at(served, text, where)
    x, y = place.partition.positions[place.item].tolist()
    told = {
        "snapshot": served.name,
        "id": str(object_id),
        "at": _on_map(frame, [place])[0],
        "x": x,
        "y": y,
        "partition": place.partition.number,
        "attributes": {
            name: _shown(json_value(column, place.item)) for name, column in seen_of(place.partition, columns)
        },
    }
    if where is None:
        told["neighbours"] = list(map(str, index.neighbours(object_id).tolist()))
        told["cell"], told["area"] = _cells(index, frame, [place])[0], index.area(object_id)
    return told, (x, y)


def _shown(value: object) -> object:
    """Return a value of JSON as a page shows it: text, where JavaScript would lose digits or does not write it."""
    if isinstance(value, orjson.Fragment):  # of a list or a struct
        return orjson.dumps(value).decode()
    return str(value) if type(value) is int and abs(value) > MOST_EXACT else value


def circle_drawn(
    served: ServedSnapshot, at: tuple[float, float], rim: tuple[float, float] | float, where: str | None
) -> tuple[dict[str, Any], float]:
    """Return what a circle holds, the nearest objects first, and its radius in metres or CRS units."""
    index, frame = served.whole, served.tiles.frame
    centre = index.space.vectors(np.array([at]))
    radius = rim if isinstance(rim, float) else float(distance(centre, index.space.vectors(np.array([rim])))[0])
    count = int(index.count(at, radius, where=where)[0])
    found = index.knn(at, LISTED_WITHIN, max_distance=radius, where=where)
    ids = found.id.tolist()
    places = _on_map(frame, [index.place_of(object_id) for object_id in ids])
    listed = [
        {"id": str(object_id), "distance": far, "at": lonlat}
        for object_id, far, lonlat in zip(ids, found.distance.tolist(), places, strict=True)
    ]
    shape = circle(frame, index.space, centre[0], radius)
    return {"snapshot": served.name, "count": count, "radius": radius, **_lines(shape), "objects": listed}, radius


def polygon_drawn(
    served: ServedSnapshot,
    corners: list[tuple[float, float]],
    where: str | None,
    most: int,
    stop: Stop,
    metrics: Metrics,
) -> tuple[dict[str, Any], list[list[Shape]]]:
    """Return what a polygon holds, the lowest ids first, and the polygon as the index searches within it."""
    index, frame = served.whole, served.tiles.frame
    shapes = polygons_of(np.array(corners, np.float64).reshape(-1, 2), index.space)
    found = found_within(index, shapes, len(corners), where, most, stop, metrics)
    part, item = found.part[:LISTED_WITHIN].tolist(), found.item[:LISTED_WITHIN].tolist()
    places = np.array([index.parts[p].positions[i] for p, i in zip(part, item, strict=True)]).reshape(-1, 2)
    ids = [str(index.parts[p].ids[i]) for p, i in zip(part, item, strict=True)]
    at = frame.lonlat_of(places).tolist()
    listed = [{"id": object_id, "at": lonlat} for object_id, lonlat in zip(ids, at, strict=True)]
    ring = counter_clockwise(index.space.vectors(np.array(corners)))
    shape = outlines(frame, [np.concatenate([ring, ring[:1]])])[0]
    told = {"snapshot": served.name, "count": int(found.count[0]), **_lines(shape), "objects": listed}
    return told, shapes


def asked_within(body: bytes | bytearray, corners: int) -> dict[str, Any]:
    """Return the body of a question about a circle or a polygon, its numbers being numbers.

    ``body``: ``{"circle": [lon, lat, lon2, lat2]}``, ``{"circle": [lon, lat], "radius": 500}`` or ``{"polygon": [[lon,
    lat], ...]}``, and ``"where"``; ``corners``: of a polygon, at the most.
    """
    try:
        asked = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Problem(400, f"the body is not JSON: {str(error).splitlines()[0]}", limit="body") from None
    wanted = "circle (lon, lat and a place on the rim or a radius) or polygon (corners), and where, are wanted"
    if not isinstance(asked, Mapping) or set(asked) - {"circle", "radius", "polygon", "where"}:
        raise Problem(400, f"the body is no object of these members: {wanted}", limit="body")
    where = asked.get("where")
    if where is not None and not isinstance(where, str):
        raise Problem(400, "where is no text: give a condition", limit="where")
    if ("circle" in asked) == ("polygon" in asked):
        raise Problem(400, f"the body names neither circle nor polygon, or both: {wanted}", limit="body")
    if "circle" in asked:
        numbers = asked["circle"]
        radius = asked.get("radius")
        if not _numbers(numbers, 4 if radius is None else 2):
            raise Problem(400, "circle is no list of lon, lat and a place on the rim, or lon, lat beside a radius",
                          limit="circle")  # fmt: skip
        if radius is not None and not (_numbers([radius], 1) and radius >= 0):
            raise Problem(400, f"radius is {radius!r}: a number of at least 0 is wanted", limit="radius", value=radius)
        return {"circle": numbers, "radius": None if radius is None else float(radius), "where": where or None}
    ring = asked["polygon"]
    if not isinstance(ring, list) or "radius" in asked or not all(_numbers(corner, 2) for corner in ring):
        raise Problem(400, "polygon is no list of corners: [[lon, lat], ...] is wanted", limit="polygon")
    if len(ring) > corners:
        raise Problem(
            413, f"the polygon has {len(ring):,} corners: at most {corners:,} are searched within; simplify it",
            limit="corners", value=len(ring), bound=corners,
        )  # fmt: skip
    return {"polygon": ring, "where": where or None}


def _numbers(given: Any, many: int) -> bool:
    return (
        isinstance(given, list)
        and len(given) == many
        and all(isinstance(n, int | float) and not isinstance(n, bool) and isfinite(n) for n in given)
    )


def _on_map(frame: Frame, places: list[Place]) -> list[list[float]]:
    positions = np.array([place.partition.positions[place.item] for place in places]).reshape(-1, 2)
    lonlat: list[list[float]] = frame.lonlat_of(positions).tolist()
    return lonlat


def _cells(index: Index, frame: Frame, places: list[Place]) -> list[Any]:
    """Return the cells of objects, the coordinates of a Polygon each: a ring, or the map and a hole in it."""
    curves = []
    for place in places:
        vertices, _ = outline_at(index.engine.view, place)
        curves.append(np.concatenate([vertices, vertices[:1]]))
    return [shape[0] for shape in outlines(frame, curves, [len(curve) == 0 for curve in curves])]


def _lines(shape: Any) -> dict[str, Any]:
    """Return a shape, and the ring that is its border."""
    return {"ring": shape[-1][-1] if shape else [], "shape": shape}
