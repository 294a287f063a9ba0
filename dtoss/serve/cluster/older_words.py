"""Questions in the words of a server of an older release, and its answers as those of this one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.geometry.distance import EARTH_RADIUS
from dtoss.geometry.space import Space
from dtoss.queries.areas.covered import Shape
from dtoss.serve.cluster.wire_messages import ShapesQuestion
from dtoss.serve.cluster.wire_versions import SAYS_EDGES
from dtoss.shards.shard_queries import merge_hits

BOX_SLACK = 1e-9
"""Radians by which a box round a disc is larger than rounding may make it."""


def least_minor(question: Any, space: Space) -> int:
    """Return the minor version of messages from which a server answers a question as this one does."""
    edges = isinstance(question, ShapesQuestion) and question.kind == "within" and space.geographic
    return SAYS_EDGES if edges else 0


def in_older_words(
    question: ShapesQuestion, space: Space, shapes: list[list[Shape]], most: int
) -> tuple[ShapesQuestion, Callable[[pa.Table], Any]]:
    """Return a question about boxes that cover shapes, and what makes of its answer that to the shapes.

    ``space``: what positions mean: degrees.
    """
    parts = [(number, part) for number, whole in enumerate(shapes) for part in whole]
    boxes = np.concatenate([np.zeros((0, 4)), *(_boxes_round(part, space) for _, part in parts)])
    # the number of a box tells the part, of several that may hold an object
    part_of = np.repeat(np.arange(len(parts)), [len(part.discs.radii) for _, part in parts])
    asked = msgspec.structs.replace(
        question, kind="boxes", text=orjson.dumps({"boxes": boxes.tolist()}), count=False, most=most,
        columns=tuple(dict.fromkeys((*question.columns, "lon", "lat"))),
    )  # fmt: skip

    def within(found: pa.Table) -> Any:
        at = np.column_stack([found.column("c:lon").to_numpy(), found.column("c:lat").to_numpy()]).reshape(-1, 2)
        vectors, of = space.vectors(at), part_of[found.column("query").to_numpy()]
        query, held = np.zeros(len(at), np.int64), np.zeros(len(at), np.bool_)
        for number, (shape, part) in enumerate(parts):
            rows = np.flatnonzero(of == number)
            query[rows], held[rows] = shape, part.holds(at[rows], vectors[rows])
        kept = [name for name in found.column_names if name[:2] != "c:" or name[2:] in question.columns]
        told = merge_hits([found.select(kept).set_column(0, "query", pa.array(query)).filter(pa.array(held))], 0)
        if question.count:
            return np.bincount(told.column("query").to_numpy(), minlength=len(shapes)).astype(np.int64)
        return told

    return asked, within


def _boxes_round(shape: Shape, space: Space) -> NDArray[np.float64]:
    """Return boxes west, south, east, north in degrees that hold the discs of a shape, float64 (d, 4)."""
    lon, lat = np.radians(space.positions(shape.discs.centres)).T
    angle = shape.discs.radii / EARTH_RADIUS + BOX_SLACK
    south, north = lat - angle, lat + angle
    pole = (south <= -np.pi / 2) | (north >= np.pi / 2)
    half = np.arcsin(np.where(pole, 0.0, np.sin(angle) / np.cos(lat))) + BOX_SLACK
    whole = pole | (half >= np.pi / 2)
    turned = (np.degrees(np.stack([lon - half, lon + half])) + 180.0) % 360.0 - 180.0
    west, east = np.where(whole, [[-180.0], [180.0]], turned)
    return np.stack(
        [west, np.degrees(np.maximum(south, -np.pi / 2)), east, np.degrees(np.minimum(north, np.pi / 2))], 1
    )
