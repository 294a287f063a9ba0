import numpy as np
import pyarrow as pa
import pytest

from datasets.degenerate import CENTRE, SITES, degenerate
from datasets.tables.command import BadInput


def points(kind, rows, metric="plane", seed=0):
    table = pa.Table.from_batches(degenerate(kind, rows, seed, metric))
    return table[1].to_numpy(), table[2].to_numpy()


def vectors(lon, lat):
    lam, phi = np.radians(lon), np.radians(lat)
    return np.column_stack([np.cos(phi) * np.cos(lam), np.cos(phi) * np.sin(lam), np.sin(phi)])


def test_grid_is_made_of_exact_numbers_without_repeats():
    x, y = points("grid", 1_000)
    assert (x == np.round(x)).all()
    assert len(np.unique(np.column_stack([x, y]), axis=0)) == 1_000
    assert (x.max(), y.max()) == (31, 31)
    lon, lat = points("grid", 1_000, "sphere")
    assert ((lon * 1_024) % 1 == 0).all()
    lon, lat = points("grid", 300_000, "sphere")
    assert lat.max() <= 60


def test_lines_lie_on_their_line():
    x, y = points("line", 1_000)
    assert (7 * x - 3 * (y - 1) == 0).all()
    assert set(points("line", 100, "sphere")[1]) == {0.0}
    lon, lat = points("meridian", 181, "sphere")
    assert set(lon) == {CENTRE[0]}
    assert lat == pytest.approx(np.arange(-90, 91))
    lon, lat = points("parallel", 360, "sphere")
    assert set(lat) == {60.0}
    assert len(set(lon)) == 360
    v = vectors(*points("great-circle", 1_000, "sphere"))
    normal = np.cross(v[0], v[250])
    assert np.abs(v @ normal).max() < 1e-12
    assert np.linalg.matrix_rank(v, tol=1e-9) == 2


def test_ring_is_exactly_cocircular_in_the_plane_and_nearly_on_the_sphere():
    x, y = (values.astype(np.int64) for values in points("ring", 972))
    assert len(set(x * x + y * y)) == 1
    assert len(np.unique(np.column_stack([x, y]), axis=0)) == 972
    x, y = points("ring", 3_000)
    assert len(np.unique(np.column_stack([x, y]), axis=0)) == 3_000
    v = vectors(*points("ring", 500, "sphere"))
    away = np.arccos(v @ vectors(*np.array(CENTRE)[:, None])[0]) * 6_371_008.8
    assert away == pytest.approx(10_000, abs=0.2)


def test_point_and_duplicates_have_few_sites():
    assert len(set(zip(*points("point", 1_000), strict=True))) == 1
    for metric in ("plane", "sphere"):
        sites = set(zip(*points("duplicates", 5_000, metric), strict=True))
        assert len(sites) == SITES


def test_poles_and_antimeridian_have_both_sides_and_both_spellings():
    lon, lat = points("poles", 4_000, "sphere")
    assert (lat == 90).sum() == (lat == -90).sum() == 1_000
    assert (np.abs(lat) >= 89).all()
    assert len(set(lon[lat == 90])) == 1_000
    lon, lat = points("antimeridian", 4_000, "sphere")
    assert (lon == 180).sum() == (lon == -180).sum() == 500
    assert (np.abs(lon) >= 179).all()


def test_far_and_tiny():
    x, y = points("far", 1_000)
    assert (x < 1).sum() == (x >= 1e9).sum() == 500
    lon, lat = points("far", 1_000, "sphere")
    v = vectors(lon, lat)
    assert (v[::2] @ v[1]).max() < -0.999999
    x, y = points("tiny", 1_000)
    assert 0 < np.ptp(x) < 1e-9
    assert 0 < np.ptp(y) < 1e-9


def test_a_kind_of_the_sphere_is_refused_in_the_plane():
    with pytest.raises(BadInput, match="poles does not exist on the plane; there is grid"):
        list(degenerate("poles", 1))
