"""The kinds of questions that one search answers: whatever makes searches quick makes these quick."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dtoss.kinds.kind import Disc, Kind, Parameter, Tells

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dtoss.hits import Hits

DEFAULT_K = 8
"""How many nearest objects a question gets over HTTP that does not say."""
K_NEAREST = Parameter("k", "How many of the nearest objects", whole=True, default=DEFAULT_K, limit="k")
FURTHEST_HIT = Parameter("max_distance", "At most so far away")
EACH_RADIUS = Parameter("radius", "How far", wanted=True, each=True)

KNN: Kind[Hits] = Kind(
    "knn",
    "the k nearest objects, ordered by (distance, id)",
    "the k nearest objects of each place, ordered by (query, distance, id)",
    {"GET": "knn", "POST": "knnOfMany"},
    (K_NEAREST, FURTHEST_HIT),
    search=Disc("k", "max_distance"),
    gathered=True,
)
RANGE: Kind[Hits] = Kind(
    "range",
    "all objects within a radius, ordered by (distance, id); with a limit, page by page",
    "all objects within a radius of each place, ordered by (query, distance, id)",
    {"GET": "inRange", "POST": "inRangeOfMany"},
    (EACH_RADIUS,),
    search=Disc(0, "radius"),
    gathered=True,
    paged=True,
)
COUNT: Kind[NDArray[np.int64]] = Kind(
    "count",
    "how many objects lie within a radius",
    "how many objects lie within a radius of each place",
    {"GET": "count", "POST": "countOfMany"},
    (EACH_RADIUS,),
    Tells.COUNT,
    ("where",),
    search=Disc(0, "radius"),
)
LOCATE: Kind[NDArray[Any]] = Kind(
    "locate",
    "the object whose cell holds a place: the nearest one, of several the one of the lowest id",
    "the object whose cell holds each place: the nearest one, of several the one of the lowest id",
    {"GET": "locate", "POST": "locateMany"},
    tells=Tells.ID,
    takes=(),
    search=Disc(1),
)
