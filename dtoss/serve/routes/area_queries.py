"""What requests about boxes and polygons have of their own: where a shape is, its sides, how its body is described."""

from __future__ import annotations

from typing import Any

import numpy as np
from litestar.params import QueryParameter
from numpy.typing import NDArray

from dtoss.geometry.distance import distance
from dtoss.geometry.space import Space
from dtoss.kinds.kind import About, Kind
from dtoss.queries.covered import Shape
from dtoss.serve.answers.json_out import JSON_TYPE
from dtoss.serve.routes.schemas import NUMBER, SHAPE, Schema, array, fields


def middles_of(space: Space, shapes: list[list[Shape]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return for each shape a place amid the discs that cover it, and how far from there the furthest of them reaches.

    That is what the access log has of a shape.
    """
    vectors, radii = [], []
    for whole in shapes:
        if not whole:
            continue
        centres = np.concatenate([shape.discs.centres for shape in whole])
        middle = centres.mean(axis=0)
        if space.dimension == 3:
            length = float(np.linalg.norm(middle))
            middle = middle / length if length > 1e-9 else centres[0]
        reach = distance(centres, np.broadcast_to(middle, centres.shape))
        radii.append(float((reach + np.concatenate([shape.discs.radii for shape in whole])).max()))
        vectors.append(middle)
    return space.positions(np.array(vectors).reshape(-1, space.dimension)), np.array(radii)


def sides(geographic: bool) -> dict[str, tuple[Any, Any]]:
    """Return the parameters of a box, named as the space's coordinates are."""
    x, y = ((-180, 180), (-90, 90)) if geographic else ((-1e90, 1e90), (-1e90, 1e90))
    names = ("west", "south", "east", "north") if geographic else ("xmin", "ymin", "xmax", "ymax")
    unit = "Degrees" if geographic else "Units of the CRS"
    return {
        side: (float, QueryParameter(name=name, ge=low, le=high, description=f"{unit}; the box is closed."))
        for side, name, (low, high) in zip(("west", "south", "east", "north"), names, (x, y, x, y), strict=True)
    }


def body_of_shapes(kind: Kind[Any]) -> dict[str, Any]:
    """Return how the OpenAPI text describes a body of boxes, or of polygons."""
    schema: Schema = SHAPE
    example: Schema = {"boxes": [[2.2, 48.8, 2.5, 48.9]]}
    if kind.about == About.BOXES:
        box = array(NUMBER, minItems=4, maxItems=4)
        schema = fields("Boxes", boxes=array(box)) | {"additionalProperties": False}
    else:
        ring = [[2.2, 48.8], [2.5, 48.8], [2.35, 48.9], [2.2, 48.8]]
        example = {"type": "Polygon", "coordinates": [ring]}
    said = {"required": True, "content": {JSON_TYPE.decode(): {"schema": schema, "example": example}}}
    # a choice of a shape and a list of them is no type in Java; a collection says the same
    more = {"description": "GeoJSON; a list of shapes is read as a FeatureCollection."}
    return said | more if kind.about == About.POLYGONS else said
