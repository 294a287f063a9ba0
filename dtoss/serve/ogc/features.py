"""Objects, cells and regions as features of GeoJSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from dtoss.export.export_layers import Columns
from dtoss.index import Index
from dtoss.queries.find_by_id import Place
from dtoss.queries.gather import take_columns, take_positions
from dtoss.serve.answers.json_out import HITS_A_PIECE, json_values
from dtoss.serve.core.pool import Stop
from dtoss.serve.ogc.cell_pages import as_json, cells_of, cells_page, regions_of, regions_page
from dtoss.serve.ogc.collections import CELL_SHAPES, REGION_SHAPES, Collection
from dtoss.serve.ogc.pages_by_id import Choice, Items, as_array, page_of
from dtoss.tiles.map_frame import Frame

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
