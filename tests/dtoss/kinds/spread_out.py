"""A kind of question that the product has not: the k nearest objects that lie at least so far from each other."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dtoss.kinds.hit_tables import renumber
from dtoss.kinds.kind import Kind, Parameter
from dtoss.names import position_names
from dtoss.partition import numbers, values_of

FIRST, MORE = 4, 4
"""Times k that are looked at first, and times as many in each step that follows."""


async def settled(searches, asked):
    """Return what is chosen greedily by distance and id; more are asked for where k are not among the nearest."""
    from dtoss.geometry.distance import distance

    k, among = asked.given["k"], asked.given["among"]
    names = [f"c:{name}" for name in position_names(searches.space.geographic)]
    left, size, found = np.arange(len(asked)), min(FIRST * k, among), []
    while True:
        told = await searches.hits(asked.around(None, size, position_names(searches.space.geographic)).take(left))
        query = values_of(told.column("query"))
        vectors = searches.space.vectors(np.stack([values_of(told.column(name)) for name in names], axis=1))
        kept, again = np.zeros(len(told), np.bool_), []
        for row, place in enumerate(left.tolist()):
            low, high = np.searchsorted(query, [row, row + 1])
            chosen = []
            for one in range(low, high):
                near = distance(vectors[chosen], np.broadcast_to(vectors[one], (len(chosen), vectors.shape[1])))
                if len(chosen) < k and (near >= asked.given["apart"][place]).all():
                    chosen.append(one)
            if len(chosen) == k or high - low < size:
                kept[chosen] = True
            elif size == among:
                raise ValueError(f"among is {among}: {k} objects so far from each other are not among the nearest")
            else:
                again.append(place)
        found.append(renumber(told.filter(numbers(kept)), left))
        if not again:
            break
        left, size = np.array(again), min(MORE * size, among)
    whole = pa.concat_tables(found)
    wanted = [name for name in whole.column_names if name not in names or name[2:] in asked.columns]
    return whole.select(wanted).sort_by([("query", "ascending"), ("distance", "ascending"), ("id", "ascending")])


SPREAD_OUT = Kind(
    "spread_out",
    "the k nearest objects that lie at least so far from each other",
    "the k nearest objects of each place that lie at least so far from each other",
    {"GET": "spreadOut", "POST": "spreadOutOfMany"},
    (
        Parameter("k", "How many objects", whole=True, default=8, limit="k"),
        Parameter("apart", "How far from each other", wanted=True),
        Parameter("among", "Of how many of the nearest objects at most", whole=True, default=1_000, limit="hits"),
    ),
    steps=settled,
    command="Print the k nearest objects of a place that lie at least so far from each other.",
)
