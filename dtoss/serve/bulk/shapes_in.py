"""Boxes and polygons in the bodies that a stranger sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from dtoss.geometry.polygons import arcs_meant
from dtoss.geometry.space import Space
from dtoss.queries.areas.covered import Shape, boxes_of, list_shapes, polygons_of
from dtoss.serve.bulk.json_in import lists_in
from dtoss.serve.core.limits import Limits
from dtoss.serve.core.pool import Stop
from dtoss.serve.core.problems import Problem

ARCS = 100
"""Great-circle arcs for each corner that is allowed: straight edges of thousands of kilometres are thousands each."""
LISTS = 3
"""Brackets for each corner that is allowed: a ring has at least three of them, and stands in two lists."""
SHAPES = 256
"""Boxes that are covered with discs before it is asked whether anybody still waits: that is work in Python."""


def read_shapes(
    kind: str, text: bytes | bytearray, space: Space, limits: Limits, stop: Stop, edges: str | None = None
) -> tuple[list[list[Shape]], int]:
    """Return the shapes of a question, and how many corners they have.

    ``edges``: of GeoJSON, whatever it says itself; None for what it means.
    """
    if kind == "box":
        return boxes_of(orjson.loads(text), space), 1
    if kind == "within":
        shape, corners = geojson_in(text, limits.corners)
        arcs = 0.0 if edges else sum(arcs_meant(one, space) for one in list_shapes(shape))
        if arcs > (most := ARCS * limits.corners):
            raise Problem(
                413,
                f"the straight edges of the shapes are {arcs:,.0f} arcs of great circles: at most {most:,} are "
                'searched within; ask for fewer long edges, or say "edges": "spherical"',
                limit="corners",
                value=int(arcs),
                bound=most,
            )
        return polygons_of(shape, space, edges), corners
    found, _ = lists_in(text, "boxes", 4, limits.bulk_queries, stop.check)
    shapes: list[list[Shape]] = []
    for at in range(0, len(found), SHAPES):
        stop.check()
        try:
            shapes += boxes_of(found[at : at + SHAPES], space)
        except ValueError as error:
            raise ValueError(f"of the boxes from {at} on: {error}" if at else str(error)) from None
    return shapes, 1


def geojson_in(body: bytes | bytearray, corners: int) -> tuple[Any, int]:
    """Return the shape of a body, or a list of shapes, and how many corners there are.

    ``corners``: of all of them, at the most.
    """
    if (lists := body.count(b"[")) > LISTS * corners:
        raise _too_many(lists // LISTS, corners)
    try:
        shape = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Problem(400, f"the body is not JSON: {str(error).splitlines()[0]}", limit="body") from None
    shapes = shape if isinstance(shape, list) else [shape]
    if not all(isinstance(one, Mapping) for one in shapes):
        raise Problem(
            400,
            "the body is no GeoJSON: Polygon, MultiPolygon, Feature, FeatureCollection or a list of them is wanted",
            limit="body",
        )
    found = sum(map(_corners, shapes))
    if found > corners:
        raise _too_many(found, corners)
    return shape, found


def _corners(shape: Any) -> int:
    """Return how many corners there are in a shape, as far as it is one."""
    found = 0
    waiting = [shape]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Mapping):
            waiting += [one.get("geometry"), one.get("coordinates"), one.get("features")]
        elif isinstance(one, list):
            if one and not isinstance(one[0], (list, Mapping)):
                found += 1
            else:
                waiting += one
    return found


def _too_many(found: int, most: int) -> Problem:
    return Problem(
        413,
        f"the shapes have {found:,} corners or more: at most {most:,} are searched within; simplify them",
        limit="corners",
        value=found,
        bound=most,
    )
