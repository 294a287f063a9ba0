"""Routing cells: where a subscription holds a position, it touches the position's cell, wherever on the globe."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from dtoss.errors import InputError
from dtoss.geometry.space import space_of
from dtoss.watch.processing.in_memory_watch import subscriptions
from dtoss.watch.sharding.layout_files import asked_cells, grid_of_standing
from dtoss.watch.sharding.routing_grid import RoutingGrid, cells_of, grid_of, rects_in
from tests.examples import examples

SPHERE = space_of()


def places(rng, around, spread, count):
    """Positions about a longitude, with poles and the antimeridian among them."""
    lon = (around + rng.uniform(-spread, spread, count) + 180.0) % 360.0 - 180.0
    lat = np.where(rng.random(count) < 0.3, rng.uniform(-90, 90, count), rng.uniform(-40, 40, count))
    lon = np.where(rng.random(count) < 0.1, rng.choice([-180.0, 180.0, 0.0], count), lon)
    return np.stack([lon, np.where(rng.random(count) < 0.1, rng.choice([-90.0, 90.0], count), lat)], axis=1)


def drawn(rng, number, around, spread):
    """A subscription of any kind; one that cannot be asked is None."""
    (lon, lat), (other, top) = places(rng, around, spread, 2).tolist()
    low, high = sorted([lat, top])
    middle = max(min(lat, 80.0), -80.0)
    side = 2.0 if lon < 177.0 else -2.0
    corners = [[lon, middle], [lon + side, middle], [lon, middle + 3.0], [lon, middle]]
    kinds = [
        {"circle": [lon, lat, float(rng.choice([0.0, 10.0, 1e4, 1e6, 1.5e7]))]},
        {"box": [lon, low, other, high]},
        {"polygon": {"type": "Polygon", "coordinates": [corners]}},
        {},
    ]
    made = {"id": str(number)} | kinds[rng.integers(4)]
    try:
        subscriptions([made])
    except InputError:
        return None
    return made


@pytest.mark.parametrize("seed", range(examples(40, 15)))
def test_a_subscription_touches_the_cells_of_all_that_it_holds(seed):
    """Circles, boxes and polygons over the cut, the antimeridian and poles; grids that are fitted or drawn."""
    rng = np.random.default_rng(seed)
    around, spread = rng.uniform(-180, 180), rng.choice([0.1, 5.0, 60.0, 180.0])
    records = [one for one in (drawn(rng, number, around, spread) for number in range(20)) if one is not None]
    watch = subscriptions(records)
    standing = watch.built({})
    grid = grid_of_standing(standing, SPHERE)
    if seed % 4 == 0:
        grid = RoutingGrid(7, 9, rng.uniform(-180, 180), rng.uniform(0, 50), -30.0, rng.uniform(1, 360), 50.0)
    asked = asked_cells(standing.parts[0][1], grid)
    positions = places(rng, around, spread, 300)
    cell = cells_of(grid, SPHERE, positions)
    row, column = cell // grid.columns, cell % grid.columns
    found = watch.match({"lon": positions[:, 0], "lat": positions[:, 1]})
    assert len(found) > 0
    for at, number in zip(found.row.tolist(), found.subscription.tolist(), strict=True):
        west, south, east, north = asked.rects[asked.owner == number].T
        inside = (west <= column[at]) & (column[at] <= east) & (south <= row[at]) & (row[at] <= north)
        assert inside.any(), (positions[at], records[number])


def test_most_cells_of_a_fitted_grid_are_where_places_are():
    """A city, and one place on the other side of the world: the grid is that of the city, about 180 as well."""
    rng = np.random.default_rng(1)
    for lon in (-122.4, 179.99, 0.0):
        middle = np.stack([lon + rng.normal(0, 0.05, 2000), 37.0 + rng.normal(0, 0.05, 2000)], axis=1)
        middle[0] = (lon + 180.0, -37.0)
        middle[:, 0] = (middle[:, 0] + 180.0) % 360.0 - 180.0
        grid = grid_of(SPHERE, np.concatenate([middle, middle], axis=1))
        assert 0.2 < grid.width < 1.0
        assert len(np.unique(cells_of(grid, SPHERE, middle))) > 1000


def test_of_no_places_the_grid_is_the_globe_or_a_square():
    """And of one place, or of places on a line, it still has an extent."""
    assert grid_of(SPHERE, np.zeros((0, 4))).width == 360.0
    plane = space_of("EPSG:25832")
    assert grid_of(plane, np.zeros((0, 4))).width == 1.0
    one = grid_of(plane, np.array([[5e5, 5e6, 5e5, 5e6]]))
    assert cells_of(one, plane, np.array([[5e5, 5e6], [-1e9, 1e9]])).shape == (2,)
    whole = grid_of(SPHERE, np.array([[-180.0, -90.0, 180.0, 90.0]]))
    assert rects_in(whole, SPHERE, np.array([[-180.0, -90.0, 180.0, 90.0]])).rects.tolist() == [[0, 0, 127, 127]]


def test_words_under_which_subscriptions_stand():
    """Any of an or, one of an and, none of a not: by their numbers in the vocabulary of all."""
    watch = subscriptions(
        [
            {"id": "a", "words": "Tea or coffee", "events": ["inside"]},
            {"id": "b", "box": [0.0, 0.0, 1.0, 1.0], "words": "not tea", "events": ["inside"]},
            {"id": "c", "circle": [0.0, 0.0, 5.0]},
            {"id": "d", "words": "cake and tea", "events": ["inside"]},
        ],
        text="said",
    )
    built = watch.built({}).parts[0][1]
    asked = asked_cells(built, grid_of_standing(watch.built({}), SPHERE))
    letters, offsets = asked.vocabulary.letters, asked.vocabulary.offsets
    words = [bytes(letters[a:b]).decode() for a, b in pairwise(offsets)]
    covers = [
        {words[number] for number in asked.cover[asked.cover_begin[row] : asked.cover_begin[row + 1]]}
        for row in range(4)
    ]
    assert covers[0] == {"tea", "coffee"}
    assert covers[1] == covers[2] == set()
    assert covers[3] in ({"cake"}, {"tea"})
    assert asked.bytes.sum() == pytest.approx(built.bytes)
