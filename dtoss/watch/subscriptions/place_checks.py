"""Whether the places of subscriptions are some, by the functions that questions about places are checked with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.geometry.polygons import as_polygons, edges_meant, polygons_in, rings_of, rings_together
from dtoss.geometry.space import HALF_TURN, Space, as_positions
from dtoss.geometry.straight_edges import BY_VECTORS, PLANAR, SPHERICAL
from dtoss.geometry.wkb import polygons_of_wkb
from dtoss.queries.areas.covered import as_boxes
from dtoss.watch.subscription import AROUND, BOX, CIRCLE, POLYGON
from dtoss.watch.subscriptions.forms import BOX_SIDES, Draft, said
from dtoss.watch.subscriptions.json_text import read_json
from dtoss.watch.subscriptions.polygon_text import polygon_text


def check_places(draft: Draft, space: Space) -> pa.Array:
    """Return the polygons of drafted subscriptions as GeoJSON; the bad ones of all places are named in the draft.

    ``draft``: of which rows that are bad already are not looked at.

    Cost O(n) for circles and boxes, O(v) for v corners of polygons.
    """
    good = np.ones(len(draft.kind), np.bool_)
    good[list(draft.reasons)] = False
    _check_circles(draft, np.flatnonzero(good & (draft.kind == CIRCLE)), space)
    _check_radii(draft, np.flatnonzero(good & ((draft.kind == CIRCLE) | (draft.kind == AROUND))))
    _check_boxes(draft, np.flatnonzero(good & (draft.kind == BOX)), space)
    return _polygons(draft, np.flatnonzero(good & (draft.kind == POLYGON)), space)


def _check_circles(draft: Draft, rows: NDArray[np.int64], space: Space) -> None:
    centres = np.stack([draft.numbers["x"][rows], draft.numbers["y"][rows]], axis=1)
    if not len(rows) or (legal := space.legal(centres)).all():
        return
    for at in np.flatnonzero(~legal).tolist():
        why = f"the centre ({centres[at, 0]:g}, {centres[at, 1]:g}) is no place of {space.crs}"
        try:
            space.vectors(as_positions(centres[at : at + 1], space, "centre"))
        except ValueError as error:
            why = str(error).replace("centre row 0 is", "the centre is").replace("positions row 0 is", "the centre is")
        draft.reasons.setdefault(int(rows[at]), why)


def _check_radii(draft: Draft, rows: NDArray[np.int64]) -> None:
    radius = draft.numbers["radius"][rows]
    for at in np.flatnonzero(~((radius >= 0.0) & np.isfinite(radius))).tolist():
        draft.reasons.setdefault(
            int(rows[at]), f"radius is {radius[at]:g}: a finite number that is not negative is wanted"
        )


def _check_boxes(draft: Draft, rows: NDArray[np.int64], space: Space) -> None:
    if not len(rows):
        return
    boxes = np.stack([draft.numbers[name][rows] for name in BOX_SIDES], axis=1)
    try:
        as_boxes(boxes, space)
    except ValueError:
        for at, row in enumerate(rows.tolist()):
            try:
                as_boxes(boxes[at], space)
            except ValueError as error:
                draft.reasons.setdefault(row, str(error).replace("box 0 is", "box is"))
    flat = boxes[:, 0] == boxes[:, 2]
    if space.geographic:
        flat |= (boxes[:, 0] == HALF_TURN) & (boxes[:, 2] == -HALF_TURN)
    whole = "; -180 to 180 is all longitudes" if space.geographic else ""
    for at in np.flatnonzero(flat).tolist():
        side = f"{boxes[at, 0]:g} and {boxes[at, 2]:g}"
        draft.reasons.setdefault(
            int(rows[at]), f"box has no width: its west and east are {side}, the west has to be another{whole}"
        )


def _polygons(draft: Draft, rows: NDArray[np.int64], space: Space) -> pa.Array:
    found: list[str | None] = [None] * len(draft.kind)
    told = draft.texts["edges"]
    for row in np.flatnonzero(told.is_valid().to_numpy(zero_copy_only=False) & (draft.kind != POLYGON)).tolist():
        draft.reasons.setdefault(row, f"edges is {told[row].as_py()!r}, and there is no polygon: leave it out")
    if draft.shapes is None or not len(rows):
        return pa.array(found, pa.string())
    shapes: dict[int, tuple[list[list[Any]], str]] = {}
    for row in rows.tolist():
        try:
            shapes[row] = _rings(draft.shapes[row], told[row].as_py())
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            draft.reasons.setdefault(row, _why(error))
    for edges in (PLANAR, SPHERICAL, BY_VECTORS):
        mine = [row for row, (_, kind) in shapes.items() if kind == edges]
        for at in _wrong([shapes[row][0] for row in mine], edges, space):
            try:
                if not as_polygons({"type": "MultiPolygon", "coordinates": shapes[mine[at]][0]}, space, edges):
                    raise ValueError("it has no polygons: at least one is wanted")
            except (ValueError, TypeError, OverflowError) as error:
                draft.reasons.setdefault(mine[at], _why(error))
    for row, (polygons, edges) in shapes.items():
        if row not in draft.reasons:
            found[row] = polygon_text(polygons, edges)
    return pa.array(found, pa.string())


def _wrong(shapes: list[list[list[Any]]], edges: str, space: Space) -> list[int]:
    """Return which shapes may be none: all of them, where one is none for sure."""
    try:
        made = polygons_in(replace(rings_together(shapes), edges=edges), space)
    except (ValueError, TypeError, OverflowError):
        return list(range(len(shapes)))
    return [at for at, parts in enumerate(made) if not parts]


def _rings(shape: Any, edges: str | None) -> tuple[list[list[Any]], str]:
    """Return the rings of each polygon of GeoJSON, as text or not, or of well-known binary, and what its edges are."""
    if edges not in (None, PLANAR, SPHERICAL, BY_VECTORS):
        raise ValueError(f"its edges are {said(edges)}: {PLANAR!r} or {SPHERICAL!r} is wanted")
    if isinstance(shape, bytes | bytearray | memoryview):
        return [list(rings) for rings in polygons_of_wkb(bytes(shape))], edges or PLANAR
    if isinstance(shape, str):
        try:
            shape = read_json(shape)
        except ValueError:
            raise ValueError(f"{said(shape)} is not GeoJSON") from None
    if isinstance(shape, dict) or hasattr(shape, "__geo_interface__"):
        kept = edges is None and isinstance(shape, Mapping) and shape.get("edges") == BY_VECTORS
        return rings_of(shape), BY_VECTORS if kept else edges or edges_meant(shape)
    raise ValueError(f"{said(shape)} is not GeoJSON")


def _why(error: Exception) -> str:
    text = " ".join(str(error).split()).replace("corners of a polygon row", "corner")
    return f"polygon: {text}"
