"""The objects that are nearer to a place than to any other object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dtoss.kinds.kind import Kind, Part, Question, Search, Shares

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from dtoss.engine import Engine
    from dtoss.hits import Hits


def nearest_to(engine: Engine, positions: NDArray[np.float64]) -> Hits:
    """Return the objects of an index that are nearer to each place than to any other of its objects."""
    from dtoss.hits import Hits
    from dtoss.queries.reverse_nearest import reverse_nearest

    found = reverse_nearest(engine.view, positions)
    return Hits(found.query, found.id, found.distance, {}, engine.whereabouts)


async def merge_nearest(shares: Shares, asked: Question[Any]) -> pa.Table:
    """Return the objects that are nearer to each place than to any other object.

    Whoever is nearer to the place than to all others is nearer to it than to those of its own share: each says who that
    is, and of all of them the second nearest at their own place tells.
    """
    import numpy as np

    from dtoss.kinds.hit_tables import last_distance, merge_hits
    from dtoss.partition import numbers, values_of

    told = merge_hits(await shares.parts(asked), 0)
    places = np.column_stack([values_of(told.column("x")), values_of(told.column("y"))])
    second = await shares.hits(Search(places, np.full(len(places), np.inf), 2))
    other = last_distance(second, len(places), 2)
    nearer = values_of(told.column("distance")) < other
    return told.select(["query", "id", "distance"]).filter(numbers(nearer))


REVERSE_NEAREST: Kind[Hits] = Kind(
    "reverse_nearest",
    "the objects that are nearer to a place than to any other object",
    "the objects that are nearer to each place than to any other object",
    {"GET": "reverseNearest", "POST": "reverseNearestOfMany"},
    takes=(),
    part=Part("reverse_nearest", 3, nearest_to, merge_nearest),
    of_all=True,
    command="Print the objects that are nearer to a place than to any other object.",
)
