"""Builds an index of subscriptions: a grid of those with a place, one of place and word, and lists of the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.conditions.parse import parse_condition
from dtoss.errors import InputError
from dtoss.geometry.polygon_tables import areas_of
from dtoss.geometry.polygons import Polygon
from dtoss.geometry.space import Space
from dtoss.watch.index.cell_frame import frame_of
from dtoss.watch.index.covers import (
    CIRCULAR,
    RECTANGULAR,
    Covers,
    box_rects,
    circle_rects,
    polygon_rects,
    squared_chords,
)
from dtoss.watch.index.place_grid import grid_arrays
from dtoss.watch.index.subscription_index import NO_TEXT, SubscriptionIndex, Unanswered
from dtoss.watch.subscription import AROUND, BOX, CIRCLE, ENTER, EVERYWHERE, LEAVE, POLYGON
from dtoss.watch.subscriptions.json_text import polygons_kept

_WORLD = (-180.0, -90.0, 180.0, 90.0)
_FAR = 1e300


def build(
    table: pa.Table,
    space: Space,
    schema: Mapping[str, pa.DataType],
    text: bool,
    time: bool = True,
    sample: NDArray[np.float64] | None = None,
    only_level: int | None = None,
) -> SubscriptionIndex:
    """Return the index of a table of subscriptions. Cost O(n) for n of them with a few cells each.

    ``time``: whether rows have a time: without one there is no enter and no leave; ``sample``: float64 (m, 2). Where
    rows are, about; None takes the subscriptions' own places.
    """
    if len(table) >= 1 << 31:
        raise InputError(f"{len(table)} subscriptions are more than an index can hold: 2147483647")
    table = table.combine_chunks()
    kind = _numpy(table, "kind")
    where, texts, unanswered = _conditions(table, schema)
    unanswered += _without(table, text, time)
    answered = np.ones(len(table), np.bool_)
    answered[[one.row for one in unanswered]] = False
    worded = table.column("words").is_valid().to_numpy(zero_copy_only=False).astype(np.bool_)
    arrays = _places(table, kind, space) | polygon_arrays(table, kind, space)
    arrays["events"] = np.where(answered, _numpy(table, "events"), 0).astype(np.uint8)
    arrays["where"] = where
    covers = _covers_in(arrays, kind, space)
    centred = ~np.isnan(arrays["radius"]) & ~np.isnan(arrays["vectors"][:, 0])
    known = np.where((kind == CIRCLE) | (kind == AROUND), centred, True) & answered
    placed = known & ~worded & (kind != EVERYWHERE)
    arrays |= grid_arrays(_some(covers, placed), frame_of(space, covers.rects), sample, only_level)
    arrays["everywhere"] = np.flatnonzero(known & ~worded & (kind == EVERYWHERE)).astype(np.int32)
    spoken = np.flatnonzero(known & worded)
    if len(spoken):
        said = table.column("words").take(pa.array(spoken))
        from dtoss.watch.index.word_index import build_worded

        made = build_worded(said.to_pylist(), _rects_of(covers, kind, spoken, space), space.metric, sample)
        arrays |= {f"words/{name}": array for name, array in made._asdict().items()}
        arrays["spoken"] = spoken.astype(np.int32)
    return SubscriptionIndex(table, space, dict(schema), arrays, texts, tuple(unanswered))


def _numpy(table: pa.Table, name: str) -> NDArray[Any]:
    return np.asarray(table.column(name).to_numpy())


def _conditions(
    table: pa.Table, schema: Mapping[str, pa.DataType]
) -> tuple[NDArray[np.int32], tuple[str, ...], list[Unanswered]]:
    """Return the number of each subscription's condition, the texts, and those that cannot be asked here."""
    coded = table.column("where").combine_chunks()
    coded = (coded.chunk(0) if isinstance(coded, pa.ChunkedArray) else coded).dictionary_encode()
    number = coded.indices.fill_null(NO_TEXT).to_numpy().astype(np.int32)
    texts = coded.dictionary.to_pylist()
    reasons: dict[int, str] = {}
    for at, text in enumerate(texts):
        try:
            parse_condition(text, schema)
        except ValueError as error:
            reasons[at] = str(error)
    unanswered = []
    if reasons:
        ids = table.column("id")
        rows = np.flatnonzero(np.isin(number, list(reasons)))
        unanswered = [Unanswered(row, ids[row].as_py(), reasons[int(number[row])]) for row in rows.tolist()]
        good = [text for at, text in enumerate(texts) if at not in reasons]
        back = {text: at for at, text in enumerate(good)}
        new = np.array([back.get(text, NO_TEXT) for text in texts] + [NO_TEXT], np.int32)
        number, texts = new[number], good
    return number, tuple(texts), unanswered


def _without(table: pa.Table, text: bool, time: bool) -> list[Unanswered]:
    """Return those that want what rows do not have: a text, or a time."""
    found = []
    ids = table.column("id")
    if not text:
        rows = np.flatnonzero(table.column("words").is_valid().to_numpy(zero_copy_only=False))
        found += [Unanswered(row, ids[row].as_py(), "it has words, and the rows have no text") for row in rows.tolist()]
    if not time:
        rows = np.flatnonzero(_numpy(table, "events") & (ENTER | LEAVE))
        found += [
            Unanswered(row, ids[row].as_py(), "enter and leave need a column of times, and the rows have none")
            for row in rows.tolist()
        ]
    return found


def _polygons(table: pa.Table, kind: NDArray[Any], space: Space) -> tuple[list[Polygon], NDArray[np.int64]]:
    """Return all polygons, and where those of each subscription begin; nothing where there are none."""
    rows = np.flatnonzero(kind == POLYGON)
    shapes = polygons_kept(table.column("polygon").take(pa.array(rows)).to_pylist(), space)
    begin = np.zeros(len(table) + 1 if len(rows) else 0, np.int64)
    begin[rows + 1] = [len(shape) for shape in shapes]
    return [polygon for shape in shapes for polygon in shape], np.cumsum(begin)


def polygon_arrays(table: pa.Table, kind: NDArray[Any], space: Space) -> dict[str, NDArray[Any]]:
    """Return what tells of the polygons of subscriptions whether they hold a row. Cost O(v) for v corners."""
    polygons, parts = _polygons(table, kind, space)
    made = {
        "parts": parts,
        "polygon/rects": polygon_rects(polygons, space),
        "polygon/corners": np.array([len(polygon.corners) for polygon in polygons], np.int64),
    }
    if polygons:
        made |= {f"areas/{name}": array for name, array in areas_of(polygons)._asdict().items()}
    return made


def _places(table: pa.Table, kind: NDArray[Any], space: Space) -> dict[str, NDArray[Any]]:
    """Return what tells exactly whether a subscription's place holds a row."""
    x, y, radius = (_numpy(table, name).astype(np.float64) for name in ("x", "y", "radius"))
    round_ = ((kind == CIRCLE) | (kind == AROUND)) & ~np.isnan(x)
    vectors = np.full((len(table), space.dimension), np.nan)
    centres = np.stack([x, y], axis=1)
    if round_.any():
        vectors[round_] = space.vectors(np.ascontiguousarray(centres[round_]))
    boxes = np.stack([_numpy(table, name).astype(np.float64) for name in ("west", "south", "east", "north")], axis=1)
    return {
        "kind": kind.astype(np.uint8),
        "vectors": vectors,
        "radius": np.where(round_, radius, np.nan),
        "boxes": box_rects(boxes, space) if (kind == BOX).any() else boxes[:0],
    }


def covers_of(built: SubscriptionIndex) -> Covers:
    """Return the parts of the places of an index, by the rows of its table; none of what is everywhere. Cost O(n)."""
    return _covers_in(built.arrays, built.arrays["kind"], built.space)


def _covers_in(arrays: Mapping[str, NDArray[Any]], kind: NDArray[Any], space: Space) -> Covers:
    """Return the parts of the places of all subscriptions that have one, by their rows."""
    circles = np.flatnonzero(~np.isnan(arrays["radius"])).astype(np.int32)
    vectors, radius = arrays["vectors"][circles], arrays["radius"][circles]
    rects = circle_rects(vectors[:, :2], vectors, radius, space)
    facts = np.zeros((len(circles), 4))
    facts[:, : space.dimension] = vectors
    facts[:, 3] = squared_chords(radius, space)
    boxes = np.flatnonzero(kind == BOX).astype(np.int32)
    held = arrays["boxes"][boxes] if len(boxes) else np.zeros((0, 4))
    zones = arrays["polygon/rects"]
    parts = np.diff(arrays["parts"]) if len(zones) else 0
    owner = np.repeat(np.arange(len(kind)), parts).astype(np.int32)
    owners = np.concatenate([circles, boxes, owner])
    order = np.argsort(owners, kind="stable")
    shape = np.concatenate(
        [np.full(len(circles), CIRCULAR), np.full(len(boxes), RECTANGULAR), np.arange(len(zones))]
    ).astype(np.int32)
    return Covers(
        owners[order],
        np.concatenate([rects, held, zones])[order],
        np.concatenate([facts, held, zones])[order],
        shape[order],
    )


def _some(covers: Covers, rows: NDArray[np.bool_]) -> Covers:
    if rows[covers.owner].all():
        return covers
    kept = np.flatnonzero(rows[covers.owner])
    return Covers(covers.owner[kept], covers.rects[kept], covers.facts[kept], covers.shape[kept])


def _rects_of(covers: Covers, kind: NDArray[Any], rows: NDArray[np.int64], space: Space) -> NDArray[np.float64]:
    """Return a rectangle that holds the whole place of each subscription, float64 (k, 4)."""
    sphere = space.metric == "sphere"
    rects = np.empty((len(rows), 4))
    rects[:] = _WORLD if sphere else (-_FAR, -_FAR, _FAR, _FAR)
    begin, end = np.searchsorted(covers.owner, rows), np.searchsorted(covers.owner, rows, "right")
    one = end - begin == 1
    rects[one] = covers.rects[begin[one]]
    for i in np.flatnonzero(end - begin > 1).tolist():
        mine = covers.rects[begin[i] : end[i]]
        rects[i, [1, 3]] = mine[:, 1].min(), mine[:, 3].max()
        if not sphere:
            rects[i, [0, 2]] = mine[:, 0].min(), mine[:, 2].max()
    rects[kind[rows] == EVERYWHERE] = _WORLD if sphere else (-_FAR, -_FAR, _FAR, _FAR)
    return rects
