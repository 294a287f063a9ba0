"""Section 3.3.2 of the dissertation: how wide a search for the k nearest begins, and what that costs.

*ed(k)* estimates how far the k-th object is by how many objects there are, in a square as large as their bounding box.
*As written* discs of ed(k) / k, twice that and so on are asked for until one holds k; each is a message to all nodes
that it meets. Ours begins with how dense the block of the place is; *in a batch* also with what that was wrong by for
the place before. *ed(k)* alone is our own search with another first disc. Objects are uniform, taxis of a made city, or
on made streets; places are near objects, or anywhere in the bounding box.

![How wide first discs are beside the distance of the k-th object](images/first_discs.png)
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

import dtoss
from bench.experiments.dtoss_3_15 import Floats, objects_of
from bench.experiments.results import Results, Row, grid, point
from bench.measuring.points import streets
from bench.measuring.race import Work, in_turns
from bench.peers.first_discs import ALONE, BY_COUNT, IN_A_BATCH, discs_asked, expected_distance, first_radii
from dtoss.queries.open_snapshot import keys_of

SIZES = {"smoke": (3_000, 100, 1), "here": (1_000_000, 10_000, 3), "full": (10_000_000, 100_000, 3)}
"""Objects, places, turns of which the least counts."""
WORLDS = ("uniform", "taxi", "streets")
KS = (8, 32)
WAYS = {"ours, alone": ALONE, "ours, in a batch": IN_A_BATCH, "ed(k)": BY_COUNT}
WRITTEN = "as written"
SMALL, TOO_SMALL, TOO_LARGE, OFF = (
    "% too small",
    "times too small, median",
    "times too large, median",
    "times off, median",
)
COST, DISCS = "processor us a search", "discs a search"


def world_of(kind: str, count: int) -> Floats:
    """Return objects in the plane."""
    return streets(np.random.default_rng(0), count) if kind == "streets" else objects_of(kind, count)


def asked_of(index: dtoss.Index, objects: Floats, count: int) -> Iterator[tuple[str, Floats]]:
    """Yield places near objects, and anywhere in their bounding box, in the order in which a batch is answered."""
    rng, low, high = np.random.default_rng(1), objects.min(axis=0), objects.max(axis=0)
    near = objects[rng.integers(0, len(objects), count)] + rng.normal(0, 1e-4 * (high - low), (count, 2))
    for where, at in {"near": np.clip(near, low, high), "anywhere": rng.uniform(low, high, near.shape)}.items():
        keys = keys_of(index.engine.opened, index.space.vectors(at))
        yield where, np.ascontiguousarray(at[np.argsort(keys, kind="stable")])


def searches(index: dtoss.Index, at: Floats, k: int, far: float) -> dict[str, Work]:
    """Return searches of each way, whose results are the radii that places begin with; ``far`` is ed(k)."""
    return {name: partial(first_radii, index, at, k, way, far) for name, way in WAYS.items()}


def run(size: str) -> Iterator[Row]:
    """Yield how wide first discs are beside the k-th object, and what searches cost; x is objects, places and k."""
    count, places, turns = SIZES[size]
    for kind in WORLDS:
        objects = world_of(kind, count)
        index = dtoss.build(np.arange(count), objects, crs="none", partitions=1)
        for where, at in asked_of(index, objects, places):
            for k in KS:
                x, far = f"{kind}, {where}, k = {k}", expected_distance(objects, k)
                works = searches(index, at, k, far)
                works[WRITTEN] = partial(discs_asked, index, at, k, far / k)
                for work in works.values():
                    work()  # kernels are loaded, and there is room
                spent, found = in_turns(works, turns)
                true = index.knn(at, k).distance.reshape(places, k)[:, -1]
                discs = found[WRITTEN]
                assert (discs * (far / k) >= true).all()
                assert ((discs - 1) * (far / k) < true).all()
                yield point(WRITTEN, x, discs.mean(), DISCS, data=f"{count:,} made objects, {places:,} places")
                for name, seconds in spent.items():
                    yield point(name, x, 1e6 * min(seconds) / places, COST)
                for name in WAYS:
                    yield from _beside(name, x, found[name] / true)


def _beside(name: str, x: str, wide: Floats) -> Iterator[Row]:
    """Yield how often discs are too small, and how far off, of how wide they are."""
    small = wide < 1
    yield point(name, x, 100 * small.mean(), SMALL)
    for unit, some in ((TOO_SMALL, 1 / wide[small]), (TOO_LARGE, wide[~small]), (OFF, np.maximum(wide, 1 / wide))):
        if len(some):
            yield point(name, x, np.median(some), unit)


def draw(results: Results) -> str:
    """Return a table of each unit."""
    forms = {SMALL: "{:.0f}", TOO_SMALL: "{:.2f}", TOO_LARGE: "{:.2f}", OFF: "{:.2f}", COST: "{:.2f}", DISCS: "{:,.1f}"}
    return "\n\n".join(grid(results, unit, f"objects, places, k: {unit}", form) for unit, form in forms.items())
