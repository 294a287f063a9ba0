"""Sites, stores and answers that tests of several rooms share."""

from contextlib import contextmanager

import numpy as np
import pytest

from dtoss.engine import Engine
from dtoss.geometry.distance import EARTH_RADIUS
from dtoss.geometry.hilbert import curve_keys, radix_order, take_rows
from dtoss.queries.workspace import Workspace


def along(sites):
    return take_rows(sites, radix_order(curve_keys(sites)))


def neighbour_sets(diagram):
    return [set(diagram.neighbours[a:b].tolist()) for a, b in zip(diagram.first[:-1], diagram.first[1:], strict=True)]


def box_of(sites, margin=0.1):
    low, high = sites.min(axis=0), sites.max(axis=0)
    grow = margin * max(float((high - low).max()), 1.0)
    return np.concatenate([low - grow, high + grow])


def random_sphere(rng, n):
    v = rng.normal(size=(n, 3))
    return v / np.linalg.norm(v, axis=1)[:, None]


def taxis(rng, n):
    """Positions as GPS gives them: along streets, crowded at stands, rounded to 1e-5 degrees, with far outliers."""
    streets = rng.uniform(-0.05, 0.05, (60, 2))
    which = rng.integers(0, 60, n)
    step = rng.exponential(0.01, n) * rng.choice([-1, 1], n)
    place = streets[which] + np.where((which % 2 == 0)[:, None], [1.0, 0.2], [-0.2, 1.0]) * step[:, None]
    place += rng.normal(0, 2e-5, (n, 2))
    place[: n // 50] = rng.uniform(-3, 3, (n // 50, 2))
    return np.round(np.array([-122.4, 37.77]) + place, 5)


PARTITIONS = [1, 2, 7, 64]
OTHERS = pytest.mark.deep("other numbers of partitions; some shapes are in all of them in make test")


def in_partitions(shapes, *all_of_them):
    """(shape, partitions) for a test: each shape in 7, the named ones in all; the other pairs are of the deep tier."""
    assert {*all_of_them} <= {*shapes}
    return [
        pytest.param(shape, partitions, marks=() if partitions == 7 or shape in all_of_them else OTHERS)
        for shape in shapes
        for partitions in PARTITIONS
    ]


def spread_ids(rng, n, strings):
    """Ids in no order and with gaps, some below 0; or strings, some of them not ASCII."""
    ids = rng.permutation(n) * 3 - 20
    return np.array([f"é{i}" if i % 2 else f"z{i}" for i in ids.tolist()], dtype=object) if strings else ids


def rows(hits):
    return list(zip(hits.query.tolist(), hits.id.tolist(), hits.distance.tolist(), strict=True))


def whole(index):
    if index.space.metric == "sphere":
        return 4 * np.pi * EARTH_RADIUS**2
    xmin, ymin, xmax, ymax = index.bounds
    return (xmax - xmin) * (ymax - ymin)


def lowest_ids(index, ids, positions):
    """One id, the lowest, for each distinct place."""
    best = {}
    for i, v in zip(ids, index.space.vectors(np.asarray(positions)).tolist(), strict=True):
        best[tuple(v)] = min(i, best.get(tuple(v), i))
    return sorted(best.values())


def bounds_of(index):
    """The bounds of an index as what it is made of."""
    return None if index.bounds is None else np.array(index.bounds)


def engine_of(index):
    """What answers questions to an index, made anew."""
    return Engine(
        index.space, index.partitioning, index.reach, index.parts, bounds_of(index), index.string_ids, index.border
    )


@contextmanager
def room_for(**hits):
    """Let threads have memory for fewer hits meanwhile."""
    before = Workspace.sizes
    Workspace.sizes = before._replace(**hits)
    try:
        yield
    finally:
        Workspace.sizes = before
