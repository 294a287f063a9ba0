"""The objects in boxes and within polygons: each share says which of its own are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dtoss.kinds.kind import About, Kind, Parameter, Part, Question, Shapes, Shares

if TYPE_CHECKING:
    import pyarrow as pa

    from dtoss.hits import Hits


async def merge_owned(shares: Shares, asked: Question[Any]) -> pa.Table:
    """Return the objects in each shape by id: no two shares own the same."""
    from dtoss.kinds.hit_tables import merge_hits

    return merge_hits(await shares.parts(asked), 0)


SHAPES_PART = Part("shapes", 4, None, merge_owned)
IN_BOXES: Kind[Hits] = Kind(
    "box",
    "all objects in a box, ordered by id; one whose west is greater crosses the antimeridian",
    "all objects in each box, ordered by (query, id)",
    {"GET": "box", "POST": "boxes"},
    part=SHAPES_PART,
    about=About.BOXES,
)
IN_POLYGONS: Kind[Hits] = Kind(
    "within",
    "all objects within a polygon or on its edges, ordered by id",
    "all objects within polygons or on their edges, ordered by (query, id)",
    {"POST": "within"},
    (Parameter("edges", "What edges are on the sphere: planar or spherical", in_body=True),),
    part=SHAPES_PART,
    about=About.POLYGONS,
)


def question_of_shapes(
    shapes: Shapes, most: int, count: bool, where: str | None, having: str | None, columns: Sequence[str]
) -> Question[Hits]:
    """Return a question about shapes that are written; ``most``: hits of an answer; ``count``: only how many."""
    import numpy as np

    kind, given = IN_POLYGONS if shapes.form == IN_POLYGONS.name else IN_BOXES, {"most": most, "count": count}
    return Question(kind, np.zeros((0, 2)), given, where, having, columns, shapes=shapes)
