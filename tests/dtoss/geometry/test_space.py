"""Positions to vectors: equal places are equal vectors, bad ones are named."""

import numpy as np
import pytest

import dtoss
from dtoss.geometry.space import as_positions, same_crs, space_of


def test_vectors_are_right_to_the_last_place_and_exact_at_quarters():
    """Against long double everywhere; multiples of 90 degrees give zeros and ones."""
    rng = np.random.default_rng(1)
    lonlat = np.stack([rng.uniform(-180, 180, 20_000), rng.uniform(-90, 90, 20_000)], axis=1)
    lon, lat = np.radians(lonlat.astype(np.longdouble)).T
    true = np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=1)
    assert np.abs(space_of().vectors(lonlat) - true).max() < 3e-16
    quarters = np.array([[0, 0], [90, 0], [180, 0], [-90, 0], [33, 90], [7, -90]], dtype=float)
    expected = [[1, 0, 0], [0, 1, 0], [-1, 0, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]]
    assert space_of().vectors(quarters).tolist() == expected


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([-180.0, 12.0], [180.0, 12.0]),  # the antimeridian has two names
        ([17.0, 90.0], [-40.0, 90.0]),  # lon means nothing at a pole
        ([-0.0, 5.0], [0.0, 5.0]),
        ([9.0, -0.0], [9.0, 0.0]),
    ],
)
def test_equal_places_are_equal_vectors(a, b):
    """Bit for bit, signs of zero included."""
    u, v = space_of().vectors(np.array([a, b]))
    assert u.tobytes() == v.tobytes()


def test_positions_come_back():
    """positions() undoes vectors() within rounding, also through a projected CRS compared on the sphere."""
    rng = np.random.default_rng(2)
    lonlat = np.stack([rng.uniform(-180, 180, 100), rng.uniform(-89, 89, 100)], axis=1)
    space = space_of()
    assert np.abs(space.positions(space.vectors(lonlat)) - lonlat).max() < 1e-12
    utm = space_of("EPSG:32610", "sphere")
    metres = np.array([[550_000.0, 4_180_000.0], [560_000.0, 4_190_000.0]])
    assert np.abs(utm.positions(utm.vectors(metres)) - metres).max() < 1e-5
    assert utm.vectors(metres).shape == (2, 3)


@pytest.mark.parametrize(
    ("crs", "metric", "expected"),
    [
        (None, None, ("EPSG:4326", "sphere")),
        ("EPSG:4326", "sphere", ("EPSG:4326", "sphere")),
        ("OGC:CRS84", None, ("OGC:CRS84", "sphere")),
        ("EPSG:32610", None, ("EPSG:32610", "plane")),
        ("EPSG:32610", "sphere", ("EPSG:32610", "sphere")),
        (None, "plane", ("none", "plane")),
        ("none", None, ("none", "plane")),
    ],
)
def test_the_crs_says_which_metric(crs, metric, expected):
    """Geographic is the sphere, projected the plane; metric= overrides."""
    space = space_of(crs, metric)
    assert (space.crs, space.metric) == expected


@pytest.mark.parametrize(
    ("crs", "metric", "words"),
    [
        ("EPSG:4326", "plane", "degrees"),
        ("none", "sphere", "none"),
        ("EPSG:999999", None, "EPSG:999999"),
        ("EPSG:4978", None, "neither geographic"),  # geocentric
        (None, "torus", "torus"),
    ],
)
def test_a_crs_that_does_not_fit_is_named(crs, metric, words):
    """One line that names the value."""
    with pytest.raises(ValueError, match=words) as error:
        space_of(crs, metric)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("positions", "words"),
    [
        ([[200.0, 0.0]], "0 to 360"),
        ([[0.0, 0.0], [37.7, -122.4]], "row 1 .* swapped"),
        ([[np.nan, 0.0]], "nan"),
        ([[0.0, np.inf]], "inf"),
        ([[1.0, 2.0, 3.0]], r"\(1, 3\)"),
        (["a", "b"], "not numbers"),
        ([10**400, 0], "not numbers"),
    ],
)
def test_illegal_positions_are_named(positions, words):
    """The message has the row and the value, and says what is legal."""
    with pytest.raises(ValueError, match=words):
        as_positions(positions, space_of())


def test_one_position_and_none():
    """(2,) is one position; empty is none."""
    assert as_positions([1.0, 2.0], space_of()).shape == (1, 2)
    assert as_positions([], space_of()).shape == (0, 2)


@pytest.mark.parametrize("exponent", [-260, 0, 296])
@pytest.mark.parametrize("partitions", [1, 5])
def test_the_plane_at_its_bounds(exponent, partitions):
    """Coordinates times a power of two, 1e-79 or 1e89, have the answers of the plain ones to the last bit."""
    rng = np.random.default_rng(1)
    scale = 2.0**exponent
    positions, queries = rng.uniform(-1, 1, (200, 2)), rng.uniform(-1.5, 1.5, (30, 2))
    positions = np.sign(positions) * np.maximum(np.abs(positions), 0.05)
    plain = dtoss.build(np.arange(200), positions, metric="plane", partitions=partitions)
    scaled = dtoss.build(np.arange(200), positions * scale, metric="plane", partitions=partitions)
    for ask in (lambda index, by: index.knn(queries * by, 5), lambda index, by: index.range(queries * by, 0.3 * by)):
        expected, found = ask(plain, 1.0), ask(scaled, scale)
        assert found.id.tolist() == expected.id.tolist()
        assert (found.distance / scale).tolist() == expected.distance.tolist()
    for i in range(0, 200, 9):
        assert scaled.neighbours(i).tolist() == plain.neighbours(i).tolist()
        assert scaled.area(i) / scale / scale == pytest.approx(plain.area(i), rel=1e-12)


def test_a_plane_beyond_its_bounds_is_refused():
    """Squares of spacings of 1e-140 are 0, cubes of extents of 1e99 overflow: refused with the bound."""
    far = [[0.0, 0.0], [1e99, 0.0]]
    with pytest.raises(ValueError, match=r"positions row 1 is \(1e\+99, 0\): finite and at most 1e\+90 in size"):
        dtoss.build([1, 2], far, metric="plane")
    with pytest.raises(ValueError, match=r"positions row 1 is \(1e-140, 0\): .* not 0 is at least 1e-80 in size"):
        dtoss.build([1, 2], [[0.0, 0.0], [1e-140, 0.0]], metric="plane")
    with pytest.raises(ValueError, match=r"bounds are .*: at most 1e\+90 in size is legal"):
        dtoss.build([1, 2], [[0.0, 0.0], [1.0, 0.0]], metric="plane", bounds=[-1e99, -1.0, 1.0, 1.0])
    index = dtoss.build([1, 2], [[0.0, 0.0], [1.0, 0.0]], metric="plane")
    assert index.knn([1e-140, 0.0], 2).distance.tolist() == [1e-140, 1.0]
    assert len(dtoss.build([1], [[0.0, 1e-140]])) == 1  # degrees are no plane


def test_names_of_one_crs():
    """The same CRS under other names, and not another one."""
    assert same_crs("EPSG:4326", "OGC:CRS84")
    assert not same_crs("EPSG:4326", "EPSG:32610")
    assert not same_crs("none", "EPSG:4326")
    assert same_crs("none", "NONE")


@pytest.mark.parametrize("bad", [[1e9, 1e9], [1e30, 0.0]])
def test_what_a_projection_cannot_place_is_an_error(bad):
    """Compared on the sphere, it would have no vector; in the plane it is as good as any."""
    sphere, plane = space_of("EPSG:32610", "sphere"), space_of("EPSG:32610")
    places = np.array([[5e5, 4e6], bad, [np.nan, 0.0]])
    assert sphere.legal(places).tolist() == [True, False, False]
    assert plane.legal(places).tolist() == [True, True, False]
    assert plane.vectors(places[:2]).tolist() == places[:2].tolist()
    with pytest.raises(ValueError, match=r"positions row 1 is \(.*\): that is no place of EPSG:32610"):
        sphere.vectors(places[:2])
    index = dtoss.build([1, 2], [[5e5, 4e6], [5.01e5, 4e6]], crs="EPSG:32610", metric="sphere")
    with pytest.raises(ValueError, match="positions row 0 is"):
        index.knn(bad, 1)
    with pytest.raises(ValueError, match="positions row 1 is"):
        dtoss.build([1, 2], places[:2], crs="EPSG:32610", metric="sphere")
