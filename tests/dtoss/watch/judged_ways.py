"""Straight ways between rows, and which places they meet: in fractions in the plane, in long double on the sphere."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np

from tests.dtoss.watch.judged_sphere import RADIUS, angle, in_ring, vector

SURE = 1e-9
"""Radians by which a way must enter a place of the sphere, or miss it, to be judged."""


def met_in_plane(said, begin, end):
    """Whether a segment has a place in common with a circle, a box or a polygon: (met, how far along first)."""
    (px, py), (qx, qy) = ((Fraction(x), Fraction(y)) for x, y in (begin, end))
    dx, dy = qx - px, qy - py
    if "circle" in said:
        x, y, r = map(Fraction, said["circle"])
        # |p + s d - c|^2 <= r^2 is a quadratic in s
        a, b, c = dx * dx + dy * dy, 2 * (dx * (px - x) + dy * (py - y)), (px - x) ** 2 + (py - y) ** 2 - r * r
        lowest = min(max(-b / (2 * a), Fraction(0)), Fraction(1)) if a else Fraction(0)
        if a * lowest * lowest + b * lowest + c > 0:
            return False, None
        return True, (float(-b) - float(b * b - 4 * a * c) ** 0.5) / float(2 * a)
    if "box" in said:
        west, south, east, north = map(Fraction, said["box"])
        low, high = Fraction(0), Fraction(1)
        for at, step, least, most in ((px, dx, west, east), (py, dy, south, north)):
            if step == 0:
                if not least <= at <= most:
                    return False, None
                continue
            one, other = sorted(((least - at) / step, (most - at) / step))
            low, high = max(low, one), min(high, other)
        return low <= high, float(low)
    first = None
    for ring in said["polygon"]["coordinates"]:
        corners = [(Fraction(x), Fraction(y)) for x, y in ring]
        for (ax, ay), (bx, by) in itertools.pairwise(corners):
            ux, uy = bx - ax, by - ay
            det = dx * uy - dy * ux
            if det:
                s, t = ((ax - px) * uy - (ay - py) * ux) / det, ((ax - px) * dy - (ay - py) * dx) / det
                hits = [s] if 0 <= s <= 1 and 0 <= t <= 1 else []
            elif (ax - px) * dy == (ay - py) * dx:
                along = [((x - px) * dx + (y - py) * dy) / (dx * dx + dy * dy) for x, y in ((ax, ay), (bx, by))]
                hits = [max(min(along), Fraction(0))] if min(along) <= 1 and max(along) >= 0 else []
            else:
                hits = []
            first = min([*hits, *([] if first is None else [first])], default=None)
    return first is not None, None if first is None else float(first)


def _depth(said, points):
    """How deep places lie in a place of the sphere, in radians about, less than 0 outside of it."""
    lon = np.degrees(np.arctan2(points[:, 1], points[:, 0]))
    lat = np.degrees(np.arctan2(points[:, 2], np.hypot(points[:, 0], points[:, 1])))
    if "circle" in said:
        x, y, r = said["circle"]
        return np.longdouble(r) / RADIUS - angle(points, vector(x, y))
    if "box" in said:
        west, south, east, north = map(np.longdouble, said["box"])
        half = ((east - west) % 360) / 2
        beside = half - np.abs((lon - west - half + 180) % 360 - 180)
        return np.radians(np.minimum(np.minimum(lat - south, north - lat), beside))
    ring = said["polygon"]["coordinates"][0]
    if said["polygon"].get("edges") == "spherical":
        middle = vector(*np.array(ring[:-1]).mean(axis=0))
        within, far = in_ring(ring, points, middle)
        return np.where(within, far, -far)
    return np.radians(_flat_depth(ring, lon, lat))


def _flat_depth(ring, lon, lat):
    odd, far = np.zeros(len(lon), bool), np.full(len(lon), np.inf)
    for (ax, ay), (bx, by) in itertools.pairwise(ring):
        ux, uy = bx - ax, by - ay
        s = np.clip(((lon - ax) * ux + (lat - ay) * uy) / (ux * ux + uy * uy), 0, 1)
        far = np.minimum(far, np.hypot(lon - ax - s * ux, lat - ay - s * uy))
        if ay != by:
            odd ^= ((lat < ay) != (lat < by)) & (lon < ax + (lat - ay) * ux / uy)
    return np.where(odd, far, -far)


def met_on_sphere(said, begin, end):
    """Whether the arc between two places enters a place: True, False, or None where that is not sure."""
    a, b = vector(*begin), vector(*end)
    whole = angle(a, b)
    share = np.linspace(0, 1, 257, dtype=np.longdouble)
    deepest = -np.inf
    for _ in range(6):
        points = (np.sin((1 - share) * whole)[:, None] * a + np.sin(share * whole)[:, None] * b) / np.sin(whole)
        depth = _depth(said, points)
        deepest = max(deepest, float(depth.max()))
        at, step = share[int(depth.argmax())], share[1] - share[0]
        share = np.clip(np.linspace(at - 2 * step, at + 2 * step, 257, dtype=np.longdouble), 0, 1)
    return None if abs(deepest) <= SURE else deepest > 0
