import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import kstest

from datasets.tables.command import BadInput
from datasets.uniform import uniform_plane, uniform_sphere


def columns(batches):
    table = pa.Table.from_batches(batches)
    return [table[name].to_numpy() for name in table.column_names]


def test_ud_is_uniform_over_its_box():
    _, x, y = columns(uniform_plane(50_000, seed=1))
    for values in (x, y):
        assert kstest(values / 1e9, "uniform").pvalue > 1e-4
    assert abs(np.corrcoef(x, y)[0, 1]) < 0.02
    _, x, y = columns(uniform_plane(10_000, box=(-5.0, 10.0, 5.0, 1_000.0)))
    assert (x.min(), x.max(), y.min(), y.max()) == pytest.approx((-5, 5, 10, 1_000), abs=1)


def test_a_cycle_moves_the_chosen_share_by_100_to_250_units_and_stays_inside():
    ids, *before = columns(uniform_plane(50_000, seed=5))
    same, *after = columns(uniform_plane(50_000, seed=5, cycle=1, moving=0.06))
    assert (ids == same).all()
    step = np.abs(np.subtract(after, before))
    moved = (step > 0).any(axis=0)
    assert moved.mean() == pytest.approx(0.06, abs=0.005)
    assert step[:, moved].min() >= 100 - 1e-6
    assert step[:, moved].max() <= 250 + 1e-6
    box = (0.0, 0.0, 1_000.0, 300.0)
    _, x, y = columns(uniform_plane(10_000, seed=5, box=box, cycle=20))
    assert 0 <= x.min() < x.max() <= 1_000
    assert 0 <= y.min() < y.max() <= 300


@pytest.mark.parametrize("box", [(-180, -90, 180, 90), (-75, 40, -73, 41), (0, 60, 90, 90)])
def test_a_lonlat_box_has_the_same_density_everywhere(box):
    _, lon, lat = columns(uniform_sphere(50_000, seed=2, box=box))
    west, south, east, north = box
    assert west <= lon.min() < lon.max() <= east
    assert south <= lat.min() < lat.max() <= north
    assert kstest((lon - west) / (east - west), "uniform").pvalue > 1e-4
    z, bottom, top = (np.sin(np.radians(degrees)) for degrees in (lat, south, north))
    assert kstest((z - bottom) / (top - bottom), "uniform").pvalue > 1e-4


def test_a_box_over_the_antimeridian_has_both_sides_and_legal_longitudes():
    _, lon, _ = columns(uniform_sphere(20_000, box=(170, -10, -160, 10)))
    assert ((lon >= 170) | (lon <= -160)).all()
    assert np.abs(lon).max() <= 180
    assert (lon > 0).mean() == pytest.approx(1 / 3, abs=0.02)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: uniform_plane(1, box=(0, 0, 0, 1)), "west < east"),
        (lambda: uniform_plane(1, box=(0, 0, float("inf"), 1)), "west < east"),
        (lambda: uniform_plane(1, cycle=-1), "cycle is 0 or more"),
        (lambda: uniform_plane(1, moving=2), "moving lies in 0..1"),
        (lambda: uniform_plane(1, box=(0, 0, 100, 1e9), cycle=1), "shorter than a step"),
        (lambda: uniform_sphere(1, box=(5, 0, 5, 1)), "degrees"),
        (lambda: uniform_sphere(1, box=(0, 100, 10, 120)), "latitude before longitude"),
        (lambda: uniform_sphere(-1), "rows is -1"),
    ],
)
def test_bad_parameters_are_named(call, says):
    with pytest.raises(BadInput, match=says):
        list(call())
