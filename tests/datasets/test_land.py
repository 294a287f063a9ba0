import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from datasets.cities.geonames import EARTH_RADIUS, cities, find_city, land, on_land, travel
from datasets.tables.command import BadInput
from datasets.uniform import uniform_sphere
from dtoss.export.land import land_outline


def test_the_land_is_29_percent_of_the_earth_and_has_no_streak_over_the_antimeridian():
    globe = pa.Table.from_batches(uniform_sphere(200_000))
    share = on_land(globe["lon"].to_numpy(), globe["lat"].to_numpy()).mean()
    assert share == pytest.approx(0.29, abs=0.005)
    assert land().is_valid
    assert land().bounds == pytest.approx((-180, -90, 180, 83.6), abs=0.1)
    widest = max(np.abs(np.diff(ring[:, 0])).max() for ring in land_outline() if ring[:, 1].min() > -89)
    assert widest < 20


def test_known_places():
    inside = {
        "Beijing": (116.4, 39.9),
        "Chukotka": (-175, 66.5),
        "pole": (0, -90 + 1e-9),
        "Paris": (2.35, 48.86),
    }
    outside = {"Atlantic": (-40, 30), "Caspian": (51, 42), "swapped Paris": (48.86, 2.35), "null": (0, 0)}
    assert on_land(*zip(*inside.values(), strict=True)).all()
    assert not on_land(*zip(*outside.values(), strict=True)).any()
    assert not on_land([np.nan, 500.0], [10.0, 10.0]).any()


def test_outline_rings_are_closed_lonlat_arrays_and_the_file_names_its_source():
    rings = land_outline()
    assert all(ring.shape[1] == 2 and (ring[0] == ring[-1]).all() for ring in rings)
    assert sum(map(len, rings)) > 5_000
    assert np.abs(np.vstack(rings)).max(axis=0) == pytest.approx((180, 90), abs=0.5)
    file = json.loads((Path(__file__).parents[2] / "dtoss" / "export" / "land_110m.geojson").read_text())
    assert "public domain" in file["properties"]["source"]


def test_cities_are_on_land_large_first_and_hardly_any_is_missing():
    world = cities()
    assert len(world) > 33_000
    assert on_land(world.lon, world.lat).all()
    assert (np.diff(world.population) <= 0).all()
    assert {"Istanbul", "Recife", "Mumbai", "Singapore"} <= set(world.name[:1_000])


def test_find_city_takes_the_largest_or_the_country_and_suggests_names():
    world = cities()
    assert world.country[find_city("paris")] == "FR"
    assert world.country[find_city("Paris, us")] == "US"
    with pytest.raises(BadInput, match="there is San Francisco"):
        find_city("Sn Franzisko")


def test_travel_keeps_its_distance_and_crosses_the_antimeridian_and_the_pole():
    rng = np.random.default_rng(0)
    lon, lat = rng.uniform(-180, 180, 1_000), np.degrees(np.arcsin(rng.uniform(-1, 1, 1_000)))
    metres = rng.uniform(0, 1e6, 1_000)
    there = travel(lon, lat, rng.uniform(0, 2 * np.pi, 1_000), metres)
    a, b = (unit_vectors(*at) for at in ((lon, lat), there))
    chord = np.linalg.norm(a - b, axis=1)
    assert EARTH_RADIUS * 2 * np.arcsin(chord / 2) == pytest.approx(metres, abs=1e-3)
    assert np.abs(there[0]).max() <= 180
    one = np.ones(1)
    east, _ = travel(179.99 * one, 0 * one, np.pi / 2 * one, 10_000 * one)
    assert -180 <= east[0] < -179
    _, over = travel(0 * one, 89.99 * one, 0 * one, 10_000 * one)
    assert over[0] < 90


def unit_vectors(lon, lat):
    lam, phi = np.radians(lon), np.radians(lat)
    return np.column_stack([np.cos(phi) * np.cos(lam), np.cos(phi) * np.sin(lam), np.sin(phi)])
