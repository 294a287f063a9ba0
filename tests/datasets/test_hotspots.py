import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import kstest

from datasets.cities.geonames import EARTH_RADIUS, cities, on_land
from datasets.hotspots import choose_hotspots, hotspots
from datasets.tables.command import BadInput


def drawn(rows=60_000, **options):
    table = pa.Table.from_batches(hotspots(rows, **options))
    return [table[name].to_numpy() for name in ("lon", "lat", "hotspot")]


def distance(lon_a, lat_a, lon_b, lat_b):
    lam, phi = np.radians(lon_b - lon_a), np.radians([lat_a, lat_b])
    h = np.sin((phi[1] - phi[0]) / 2) ** 2 + np.cos(phi[0]) * np.cos(phi[1]) * np.sin(lam / 2) ** 2
    return 2 * EARTH_RADIUS * np.arcsin(np.sqrt(h))


def test_every_object_is_on_land():
    lon, lat, _ = drawn(count=1_000, spread=100_000)
    assert on_land(lon, lat).all()


def test_distances_from_an_inland_hotspot_are_gaussian_and_bearings_even():
    spots = choose_hotspots(100, seed=0)
    around = np.linspace(0, 2 * np.pi, 32)
    inland = [
        i
        for i, (lon, lat) in enumerate(zip(spots.lon, spots.lat, strict=True))
        if abs(lat) < 50 and on_land(lon + 2 * np.cos(around), lat + np.sin(around)).all()
    ]
    lon, lat, which = drawn(count=100, spread=20_000.0)
    mine = np.isin(which, inland)
    assert mine.sum() > 5_000
    at = which[mine]
    metres = distance(lon[mine], lat[mine], spots.lon[at], spots.lat[at])
    assert kstest(metres, "halfnorm", args=(0, 20_000)).pvalue > 1e-4
    assert (lon[mine] > spots.lon[at]).mean() == pytest.approx(0.5, abs=0.02)
    assert (lat[mine] > spots.lat[at]).mean() == pytest.approx(0.5, abs=0.02)


def test_sizes_go_from_1_to_100_by_population_or_are_equal():
    spots = choose_hotspots(50, seed=1)
    assert (spots.size.min(), spots.size.max()) == (1, 100)
    _, _, which = drawn(count=50, seed=1)
    share = np.bincount(which, minlength=50) / len(which)
    assert share == pytest.approx(spots.size / spots.size.sum(), abs=0.01)
    _, _, which = drawn(count=50, seed=1, sizes="equal")
    assert np.bincount(which, minlength=50) / len(which) == pytest.approx(0.02, abs=0.003)


def test_large_cities_are_drawn_more_often_and_never_twice():
    spots = choose_hotspots(1_000, seed=2)
    places = np.column_stack([spots.lon, spots.lat])
    assert len(np.unique(places, axis=0)) == 1_000
    large = set(cities().name[:1_000])
    assert sum(name in large for name in spots.name) > 200  # 30 if all were as likely


def test_ten_hotspots_are_more_skewed_than_a_thousand():
    def densest(count):
        lon, lat, _ = drawn(count=count)
        _, cells = np.unique(np.floor(np.column_stack([lon, lat])), axis=0, return_counts=True)
        return np.sort(cells)[-10:].sum() / cells.sum()

    assert densest(10) > 0.7
    assert densest(1_000) < 0.3


@pytest.mark.parametrize(("options", "says"), [({"count": 0}, "1 to 33"), ({"spread": 0.0}, "spread is 0")])
def test_bad_parameters_are_named(options, says):
    with pytest.raises(BadInput, match=says):
        drawn(**options)
