"""Whether an edge counts, as floating point numbers tell: never another thing than exact ones say."""

from __future__ import annotations

import numpy as np
import pytest

from dtoss.cells.edge_doubt import edge_length
from dtoss.geometry.space import space_of
from dtoss.queries.one_edge import counts

SHORTEST = 1e-9


def on_globe(rng, n, kind):
    """Vectors of sites on a lattice of degrees, rounded or not, or anywhere, of any size between ulps and degrees."""
    step = {"rounded": 1e-5, "streets": 1e-4}.get(kind, 10.0 ** rng.uniform(-12, 0.5))
    away = rng.uniform(-1.0, 1.0, (n, 2)) if kind == "anywhere" else rng.integers(-3, 4, (n, 2)).astype(float)
    at = rng.uniform([-170.0, -80.0], [170.0, 80.0]) + away * step
    at = np.round(at, 5) if kind in ("rounded", "streets") else at
    return np.unique(space_of().vectors(np.clip(at, [-180.0, -90.0], [180.0, 90.0])), axis=0)


def in_plane(rng, n, kind):
    """Sites on a lattice, or anywhere, near the origin and far from it."""
    at = rng.uniform(0.0, 10.0, (n, 2)) if kind == "anywhere" else rng.integers(-3, 4, (n, 2)) * rng.choice([1.0, 0.1])
    return np.unique(at + rng.choice([0.0, 1e3, 1e7]), axis=0)


@pytest.mark.parametrize("kind", ["rounded", "streets", "lattice", "anywhere"])
@pytest.mark.parametrize("surface", ["sphere", "plane"])
def test_it_says_what_exact_numbers_say(surface, kind):
    """All pairs of some sites, most of them no neighbours; and it says something about nearly all of them."""
    asked = known = 0
    for seed in range(25):
        rng = np.random.default_rng([seed, len(kind)])
        n = int(rng.integers(3, 14))
        sites = on_globe(rng, n, kind) if surface == "sphere" else in_plane(rng, n, kind)
        box, bounds, shortest = np.zeros(4), None, SHORTEST
        if surface == "plane":
            low, high = sites.min(axis=0), sites.max(axis=0)
            box = bounds = np.concatenate([low - np.array((1.0, 1.5)), high + np.array((1.2, 1.0))])
            shortest = SHORTEST * float(np.hypot(*(box[2:] - box[:2])))
        for i in range(min(len(sites), 5)):
            for j in range(i):
                said = counts(sites[i], sites[j], sites, box, shortest)
                asked += 1
                known += said is not None
                if said is not None:
                    assert said == (edge_length(sites[i], sites[j], sites, bounds) > shortest)
    assert known > 0.6 * asked


def test_an_edge_about_as_long_as_counts():
    """No number with an error tells then, and none is given."""
    sites = np.array([[0.0, 0.0], [2.0, 0.0], [1.0, 4.0]])
    box = np.array([-1.0, -1.0, 5.0, 5.0])
    exact = edge_length(sites[0], sites[1], sites, box)
    assert counts(sites[0], sites[1], sites, box, exact) is None
    assert counts(sites[0], sites[1], sites, box, exact * (1.0 - 1e-9)) is True
    assert counts(sites[0], sites[1], sites, box, exact * (1.0 + 1e-9)) is False


def test_sites_of_one_direction():
    """Two vectors an ulp apart in length only have no edge, and nothing is divided by 0."""
    one = np.array([1.0, 0.0, 0.0])
    two = np.array([np.nextafter(1.0, 0.0), 0.0, 0.0])
    assert counts(one, two, np.array([[0.0, 1.0, 0.0]]), np.zeros(4), SHORTEST) in (None, False)
