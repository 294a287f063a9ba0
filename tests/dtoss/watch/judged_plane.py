"""Made places of a plane of any size, and rows at their borders, judged in fractions: nothing is rounded."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from tests.dtoss.watch.judged_sphere import Everywhere


class PlaneShape:
    """A circle, box or polygon of a plane, judged in fractions."""

    def __init__(self, kind, numbers):
        self.kind, self.numbers = kind, numbers
        shape = numbers
        if kind == "polygon":
            shape = {"type": "Polygon", "coordinates": [[*ring, ring[0]] for ring in numbers]}
        self.said = {kind: shape}

    def judge(self, positions):
        """Which rows are held, and which are sure."""
        held, sure, far = [], [], []
        for x, y in positions.tolist():
            one, good, distance = self._judge(Fraction(x), Fraction(y))
            held.append(one)
            sure.append(good)
            far.append(distance)
        return np.array(held, bool), np.array(sure, bool), np.array(far)

    def _judge(self, x, y):
        if self.kind == "circle":
            a, b, r = map(Fraction, self.numbers)
            square = (x - a) ** 2 + (y - b) ** 2
            sure = square in (0, r * r) or abs(square - r * r) > r * r / 10**14
            return square <= r * r, sure, float(np.sqrt(float(square)))
        if self.kind == "box":
            west, south, east, north = map(Fraction, self.numbers)
            return west <= x <= east and south <= y <= north, True, np.nan
        inside = False
        for number, ring in enumerate(self.numbers):
            on, within = in_flat([(Fraction(a), Fraction(b)) for a, b in ring], x, y)
            if on:
                return True, True, np.nan
            inside = within if number == 0 else inside and not within
        return inside, True, np.nan

    def borders(self, rng):
        """Corners, middles and places beside them."""
        if self.kind == "circle":
            a, b, r = self.numbers
            return np.array(
                [(a + r, b), (a, b - r), (a, b), (np.nextafter(a + r, np.inf), b), (a + r * 0.6, b + r * 0.8)]
            )
        if self.kind == "box":
            west, south, east, north = self.numbers
            return np.array(
                [(west, south), (east, north), (np.nextafter(east, np.inf), north), ((west + east) / 2, south)]
            )
        found = []
        for ring in self.numbers:
            for (a, b), (c, d) in zip(ring, ring[1:] + ring[:1], strict=True):
                found += [(a, b), ((a + c) / 2, (b + d) / 2), (np.nextafter((a + c) / 2, np.inf), (b + d) / 2)]
        return np.array(found)


def in_flat(ring, x, y):
    """Whether a place is on a ring of the plane, and within it."""
    within = False
    for (a, b), (c, d) in zip(ring, ring[1:] + ring[:1], strict=True):
        side = (c - a) * (y - b) - (d - b) * (x - a)
        if side == 0 and min(a, c) <= x <= max(a, c) and min(b, d) <= y <= max(b, d):
            return True, True
        if (b > y) != (d > y) and (side > 0) == (d > b):
            within = not within
    return False, within


def random_plane(seed, subscriptions=60, rows=150):
    """Subscriptions of a plane of any size, what judges them, and rows."""
    rng = np.random.default_rng(seed)
    scale = float(rng.choice([1e-12, 1.0, 3e5, 1e15, 1e60]))
    middle = rng.normal(0, 1, 2) * scale * float(rng.choice([0.0, 1.0, 1e6]))
    places = []
    for _ in range(subscriptions):
        a, b = (middle + rng.normal(0, 1, 2).round(2) * scale).tolist()
        size = scale * float(rng.choice([0.0, 1e-9, 1e-3, 0.1, 1.0, 1e6]))
        kind = rng.integers(5)
        if kind < 2:
            places.append(PlaneShape("circle", [a, b, size]))
        elif kind == 2:
            if a + size == a - size:
                size = max(abs(a), scale)
            places.append(PlaneShape("box", [a - size, b - size / 2, a + size, b + size / 2]))
        elif kind == 3:
            size = max(size, scale * 1e-3, abs(a) * 1e-3, abs(b) * 1e-3)
            turn = np.sort(rng.choice(48, int(rng.integers(4, 9)), replace=False)) * np.pi / 24
            if np.diff(turn, append=turn[0] + 2 * np.pi).max() > 3.0:
                turn = np.arange(5) * 2 * np.pi / 5
            far = size * rng.uniform(0.5, 1, len(turn))
            rings = [
                [(a + r * np.cos(t), b + r * np.sin(t)) for r, t in zip(far * s, turn, strict=True)] for s in (1, 0.25)
            ]
            places.append(
                PlaneShape("polygon", [[(float(x), float(y)) for x, y in ring] for ring in rings[: rng.integers(1, 3)]])
            )
        else:
            places.append(Everywhere())
    near = [middle + rng.normal(0, 2, (rows, 2)).round(2) * scale]
    near += [place.borders(rng) for place in places if not isinstance(place, Everywhere)]
    every = np.concatenate(near)
    every = every[rng.permutation(len(every))[:rows]]
    every = np.where(np.abs(every) < 1e-75, 0.0, every)
    return places, np.ascontiguousarray(every)
