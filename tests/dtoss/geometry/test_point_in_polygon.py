"""Places an ulp beside an edge: on which side they are is told exactly."""

from fractions import Fraction

import numpy as np

from dtoss.geometry.point_in_polygon import inside
from dtoss.geometry.polygons import as_polygons
from dtoss.geometry.space import space_of


def beside(a, b, rng, n):
    """Places along the edge from a to b, each a few ulps beside it."""
    share = rng.uniform(0.05, 0.95, (n, 1))
    places = a + share * (b - a)
    return places + rng.integers(-2, 3, places.shape) * np.spacing(places)


def test_places_an_ulp_beside_an_edge_of_the_plane():
    """Fails without DETERMINANT: some signs would be those of rounding."""
    corners = np.array([[0.1, 0.7], [12.3, 5.9], [4.4, 11.1]])
    polygon = as_polygons(corners, space_of(metric="plane"))[0]
    places = beside(corners[0], corners[1], np.random.default_rng(3), 2000)
    (ax, ay), (bx, by) = ([Fraction(c) for c in corner.tolist()] for corner in corners[:2])
    turns = [(bx - ax) * (Fraction(y) - ay) - (by - ay) * (Fraction(x) - ax) for x, y in places.tolist()]
    assert inside(places, polygon).tolist() == [turn >= 0 for turn in turns]


def test_places_an_ulp_beside_a_great_circle():
    """Fails without DETERMINANT as well."""
    space = space_of()
    polygon = as_polygons([[0.1, 0.7], [12.3, 5.9], [4.4, 11.1]], space)[0]
    a, b = polygon.corners[:2]
    places = beside(a, b, np.random.default_rng(4), 2000)
    places /= np.linalg.norm(places, axis=1)[:, None]
    u, v = ([Fraction(c) for c in corner.tolist()] for corner in (a, b))
    normal = [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]]
    turns = [sum(n * Fraction(c) for n, c in zip(normal, place, strict=True)) for place in places.tolist()]
    assert inside(places, polygon).tolist() == [turn >= 0 for turn in turns]
