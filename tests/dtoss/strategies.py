"""Small awkward inputs: ties, duplicates, lines, circles, poles, the antimeridian, nothing at all."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

LONLAT_KINDS = ["grid", "any", "line", "poles", "antimeridian", "parallel", "tiny", "two towns"]
PLANE_KINDS = ["grid", "any", "line", "diagonal", "circle", "tiny", "far"]


@st.composite
def lonlat(draw, most=30):
    """Positions (n, 2) on the sphere, n from 0 to `most`."""
    n = draw(st.integers(0, most))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(LONLAT_KINDS))
    if kind == "grid":
        return np.stack([rng.integers(-3, 4, n) * 10.0, rng.integers(-3, 4, n) * 10.0], axis=1)
    if kind == "line":
        return np.stack([np.full(n, 30.0), rng.integers(-9, 10, n) * 10.0], axis=1)
    if kind == "parallel":
        return np.stack([rng.integers(-18, 19, n) * 10.0, np.full(n, 40.0)], axis=1)
    if kind == "poles":
        lat = rng.choice([-90.0, -89.9999, 89.9999, 90.0], n)
        return np.stack([rng.choice([-180.0, -90.0, 0.0, 45.0, 180.0], n), lat], axis=1)
    if kind == "antimeridian":
        return np.stack([rng.choice([-180.0, -179.9, 179.9, 180.0], n), rng.choice([-1.0, 0.0, 0.5], n)], axis=1)
    if kind == "tiny":
        return np.stack([-122.4 + rng.integers(0, 5, n) * 1e-5, 37.7 + rng.integers(0, 5, n) * 1e-5], axis=1)
    if kind == "two towns":
        towns = np.array([[2.35, 48.86], [-177.65, -48.86]])  # antipodes of each other
        return towns[rng.integers(0, 2, n)] + rng.integers(-2, 3, (n, 2)) * 1e-4
    return np.stack([rng.uniform(-180, 180, n), np.degrees(np.arcsin(rng.uniform(-1, 1, n)))], axis=1)


@st.composite
def planar(draw, most=30):
    """Positions (n, 2) in the plane, n from 0 to `most`."""
    n = draw(st.integers(0, most))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(PLANE_KINDS))
    if kind == "grid":
        return rng.integers(0, 6, (n, 2)).astype(float)
    if kind == "line":
        return np.stack([rng.integers(0, 20, n).astype(float), np.full(n, 7.0)], axis=1)
    if kind == "diagonal":
        return np.repeat(rng.integers(0, 20, n)[:, None] * 0.1, 2, axis=1)
    if kind == "circle":
        # lattice points at distance 65 from the origin: exactly cocircular
        ring = [(x, y) for x in range(-65, 66) for y in range(-65, 66) if x * x + y * y == 65 * 65]
        return np.array(ring, dtype=float)[rng.integers(0, len(ring), n)]
    if kind == "tiny":
        return 4.0e6 + rng.integers(0, 5, (n, 2)) * 1e-3
    if kind == "far":
        return rng.choice([0.0, 1.0, 1e9], (n, 2))
    return rng.uniform(-1000, 1000, (n, 2))


def lonlat_queries(rng, positions, n=12):
    """Places on objects, near them, and anywhere, the poles and the antimeridian among them."""
    anywhere = np.stack([rng.uniform(-180, 180, n), np.degrees(np.arcsin(rng.uniform(-1, 1, n)))], axis=1)
    fixed = np.array([[0.0, 90.0], [12.0, -90.0], [180.0, 0.0], [-180.0, 10.0], [0.0, 0.0]])
    if len(positions) == 0:
        return np.concatenate([anywhere, fixed])
    some = positions[rng.integers(0, len(positions), n)]
    near = some + rng.choice([0.0, 5e-6, 1e-3, 5.0], (n, 1)) * rng.choice([-1.0, 0.0, 1.0], (n, 2))
    opposite = np.stack([np.where(some[:, 0] > 0, some[:, 0] - 180, some[:, 0] + 180), -some[:, 1]], axis=1)
    near[:, 0] = np.clip(near[:, 0], -180, 180)
    near[:, 1] = np.clip(near[:, 1], -90, 90)
    return np.concatenate([some, near, opposite, anywhere, fixed])


def planar_queries(rng, positions, n=12):
    """Places on objects, between them, on the bounds, and far outside."""
    if len(positions) == 0:
        return rng.uniform(-10, 10, (n, 2))
    some = positions[rng.integers(0, len(positions), n)]
    middle = 0.5 * (some + positions[rng.integers(0, len(positions), n)])
    span = max(float(np.ptp(positions, axis=0).max()), 1.0)
    outside = positions.mean(axis=0) + rng.uniform(-5, 5, (n, 2)) * span
    return np.concatenate([some, middle, outside, [positions.min(axis=0) - 0.1 * span]])
