"""The nearest of another frame: as GeoPandas joins in the plane, as brute force on the sphere."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dtoss
from dtoss.geometry.space import space_of
from tests import oracles
from tests.dtoss.strategies import lonlat, lonlat_queries, planar, planar_queries
from tests.examples import examples

geopandas = pytest.importorskip("geopandas")
shapely = pytest.importorskip("shapely")
from geopandas.testing import assert_geodataframe_equal  # noqa: E402

UTM = "EPSG:32610"
INDEXES = ("range", "numbers", "text", "named", "several", "several named", "times")


def frame(at, crs=UTM, **columns):
    return geopandas.GeoDataFrame(columns, geometry=geopandas.points_from_xy(at[:, 0], at[:, 1]), crs=crs)


@st.composite
def frames(draw, side):
    """A frame of points with few coordinates, so many are as far; some geometries missing, columns of many kinds."""
    n = draw(st.integers(0, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    wide = draw(st.sampled_from([2, 5, 1000]))
    at = rng.integers(0, wide, (n, 2)).astype(float)
    if draw(st.booleans()):
        at[:, 1] = 3.0
    points = shapely.points(at)
    if draw(st.booleans()):
        points[rng.random(n) < 0.3] = None
        points[rng.random(n) < 0.2] = shapely.Point()
    columns = {
        f"row_{side}": np.arange(n),
        "number": rng.integers(0, 9, n),
        "text": rng.choice(["a", "b"], n).astype(object),
        f"real_{side}": rng.random(n),
        f"yes_{side}": rng.random(n) < 0.5,
        f"kind_{side}": pd.Categorical(rng.choice(["x", "y"], n)),
        f"small_{side}": rng.integers(0, 9, n).astype(np.int8),
        f"time_{side}": pd.to_datetime(rng.integers(0, 10**9, n), unit="s", utc=True),
        f"nullable_{side}": pd.array(rng.integers(0, 9, n), dtype="Int64"),
    }
    kept = [name for name in columns if name.startswith("row") or draw(st.booleans())]
    geometry = draw(st.sampled_from(["geometry", "where", "text"]))
    held = {name: columns[name] for name in kept if name != geometry} | {geometry: geopandas.GeoSeries(points, crs=UTM)}
    found = geopandas.GeoDataFrame(held, geometry=geometry)
    kind = draw(st.sampled_from(INDEXES))
    if kind == "numbers":
        found.index = rng.integers(-5, 5, n)
    elif kind == "text":
        found.index = pd.Index(rng.choice(["p", "q", "r"], n).tolist(), dtype=pd.Series(["p"]).dtype)
    elif kind == "named":
        found.index = pd.Index(rng.permutation(n), name=draw(st.sampled_from(["key", "number", f"key_{side}"])))
    elif kind.startswith("several"):
        names = [None, None] if kind == "several" else [f"a_{side}", None]
        found.index = pd.MultiIndex.from_arrays([rng.integers(0, 3, n), np.arange(n)], names=names)
    elif kind == "times":
        found.index = pd.to_datetime(rng.integers(0, 10**9, n), unit="s")
    return found


def theirs(left, right, how, **options):
    """What GeoPandas gives, or why it does not, with rows of a tie in their order."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.simplefilter("error", FutureWarning)  # names that stand twice: an error of ours
            found = geopandas.sjoin_nearest(left, right, how=how, **options)
    except (ValueError, FutureWarning) as error:
        return error
    by = ["row_right", "row_left"] if how == "right" else ["row_left", "row_right"]
    return found.iloc[np.lexsort([found[by[1]], found[by[0]]])]


@given(left=frames("left"), right=frames("right"), options=st.fixed_dictionaries({
    "how": st.sampled_from(["inner", "left", "right"]),
    "max_distance": st.sampled_from([None, 1.0, 2.0, 50.0]),
    "exclusive": st.booleans(),
    "distance_col": st.sampled_from([None, "far", "number"]),
    "lsuffix": st.sampled_from(["left", "a"]),
    "rsuffix": st.sampled_from(["right", "b"]),
}))  # fmt: skip
@settings(max_examples=examples(120), deadline=None)
def test_the_plane_is_as_in_geopandas(left, right, options):
    """Pairs, distances, columns, types, index: coordinates are whole, so that both know exactly what is as far."""
    expected = theirs(left, right, **options)
    if isinstance(expected, Exception):
        with pytest.raises(ValueError):
            dtoss.sjoin_nearest(left, right, ties="all", **options)
        return
    before = left.copy(), right.copy()
    found = dtoss.sjoin_nearest(left, right, ties="all", **options)
    assert_geodataframe_equal(found, expected, check_index_type=False)
    assert list(found.columns) == list(expected.columns)
    assert found.index.names == expected.index.names
    assert found.index.dtype == expected.index.dtype
    assert found.crs == left.crs
    for given_frame, old in zip((left, right), before, strict=True):
        assert_geodataframe_equal(given_frame, old)


@given(at=planar(), seed=st.integers(0, 2**32 - 1), threads=st.sampled_from([1, 2]))
@settings(max_examples=examples(60), deadline=None)
def test_distances_of_any_planar_places_are_those_of_geopandas(at, seed, threads):
    asked = planar_queries(np.random.default_rng(seed), at)
    left, right = frame(asked, n=range(len(asked))), frame(at, m=range(len(at)))
    found = dtoss.sjoin_nearest(left, right, how="left", distance_col="d", threads=threads)
    expected = geopandas.sjoin_nearest(left, right, how="left", distance_col="d")
    expected = expected[~expected.index.duplicated()]
    np.testing.assert_allclose(found.d, expected.d, rtol=1e-14)
    assert found.n.tolist() == left.n.tolist()


def pairs(found, left_rows, hits):
    """(query, row, distance) of a joined frame."""
    return list(zip(found[left_rows].tolist(), found[hits].tolist(), found["d"].tolist(), strict=True))


ASKED = st.fixed_dictionaries({
    "k": st.sampled_from([1, 2, 3, 50]),
    "max_distance": st.sampled_from([None, 1.0, 3.0e5]),
    "exclusive": st.booleans(),
    "ties": st.sampled_from(["lowest", "all"]),
})  # fmt: skip


def brute(crs, at, asked, k, max_distance, exclusive, ties):
    far = np.inf if max_distance is None else max_distance
    return oracles.nearest_pairs(space_of(crs), at, asked, k, far, exclusive, ties == "all")


@given(at=lonlat(), seed=st.integers(0, 2**32 - 1), options=ASKED)
@settings(max_examples=examples(80), deadline=None)
def test_the_sphere_is_as_by_brute_force(at, seed, options):
    asked = lonlat_queries(np.random.default_rng(seed), at, 6)
    left, right = frame(asked, None, n=range(len(asked))), frame(at, None, m=range(len(at)))
    found = dtoss.sjoin_nearest(
        left.set_crs("OGC:CRS84"), right.set_crs("EPSG:4326"), distance_col="d", rank_col="rank", **options
    )
    assert pairs(found, "n", "m") == brute("EPSG:4326", at, asked, **options)
    assert found["index_right"].tolist() == found["m"].tolist()
    assert found["rank"].tolist() == found.groupby("n").cumcount().add(1).tolist()


@given(at=planar(), seed=st.integers(0, 2**32 - 1), options=ASKED, right_kept=st.booleans())
@settings(max_examples=examples(80), deadline=None)
def test_the_plane_is_as_by_brute_force(at, seed, options, right_kept):
    """More than one, and ties of the last one; the side that is kept asks."""
    asked = planar_queries(np.random.default_rng(seed), at, 6)
    left, right = frame(asked, n=range(len(asked))), frame(at, m=range(len(at)))
    names = "n", "m"
    if right_kept:
        left, right, names = right, left, ("n", "m")
    found = dtoss.sjoin_nearest(left, right, how="right" if right_kept else "inner", distance_col="d", **options)
    if right_kept:
        found = found[found["m"].notna()]
    assert pairs(found, *names) == brute(UTM, at, asked, **options)


@pytest.mark.parametrize("ties", ["lowest", "all"])
def test_crowds_that_ask_who_else_is_near(ties):
    """Each of a crowd on one place passes over all the others there, and so do those beside it."""
    rng = np.random.default_rng(0)
    at = np.repeat([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0], [50.0, 50.0]], [40, 7, 7, 1], axis=0)
    at = at[rng.permutation(len(at))]
    both = frame(at, n=range(len(at)))
    found = dtoss.sjoin_nearest(
        both, both.rename(columns={"n": "m"}), k=3, exclusive=True, ties=ties, distance_col="d", max_distance=60.0
    )
    assert pairs(found, "n", "m") == brute(UTM, at, at, 3, 60.0, True, ties)


@pytest.mark.parametrize(("crs", "ids"), [(UTM, "numbers"), ("EPSG:4326", "text"), ("none", "numbers")])
@pytest.mark.parametrize("options", [
    {}, {"ties": "all"}, {"exclusive": True, "k": 2}, {"how": "left", "max_distance": 1.0}, {"where": "kind = 'a'"},
    {"where": "kind = 'a'", "ties": "all", "exclusive": True, "max_distance": 2.0}, {"k": 3, "rank_col": "rank"},
])  # fmt: skip
def test_an_index_is_as_the_frame_of_its_objects(crs, ids, options):
    """Its ids are the index, its attributes the columns."""
    rng = np.random.default_rng(1)
    at, asked = rng.integers(0, 6, (40, 2)).astype(float), rng.integers(0, 7, (30, 2)).astype(float)
    keys = np.sort(rng.choice(1000, 40, replace=False))
    keys = keys.astype(object) if ids == "numbers" else np.array([f"{key:04}" for key in keys], dtype=object)
    kind, size = rng.choice(["a", "b"], 40), rng.integers(0, 9, 40)
    index = dtoss.build(keys.tolist(), at, crs=crs, columns={"kind": kind, "size": size}, partitions=3)
    known = None if crs == "none" else crs
    right = frame(at, known, kind=kind.astype(object), size=size).set_axis(keys.tolist())
    left = frame(asked, known, n=range(30))
    found = dtoss.sjoin_nearest(left, index, distance_col="d", **options)
    expected = dtoss.sjoin_nearest(left, right, distance_col="d", crs="none" if crs == "none" else None, **options)
    assert_geodataframe_equal(found, expected, check_index_type=False)
    some = dtoss.sjoin_nearest(left, index, columns=["size"], **options)
    assert list(some.columns)[:4] == ["n", "geometry", "index_right", "size"]
    assert "kind" not in some.columns


def test_conditions_read_columns_of_the_right_frame():
    left = frame(np.zeros((1, 2)))
    right = frame(np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]]), id=[4, 5, 6], mixed=[1, "a", None])
    for how in ("inner", "right"):
        found = dtoss.sjoin_nearest(left, right, where="id >= 5", how=how)
        assert found["id"].tolist() == ([5] if how == "inner" else [5, 6])
        assert dtoss.sjoin_nearest(left, right[right["id"] >= 5], how=how).equals(found)
    with pytest.raises(ValueError, match=r"column 'speed' is not carried .* id, mixed"):
        dtoss.sjoin_nearest(left, right, where="speed > 3")


@pytest.mark.parametrize("how", ["inner", "left", "right"])
def test_places_that_are_not_numbers_have_no_pair(how):
    """As a missing geometry, and as in GeoPandas."""
    at = np.array([[1.0, 1.0], [np.nan, np.nan], [5.0, np.nan], [2.0, 2.0]])
    left, right = frame(at, n=range(4)), frame(at + 0.25, m=range(4))
    found = dtoss.sjoin_nearest(left, right, how=how, distance_col="d").drop(columns="geometry")
    expected = geopandas.sjoin_nearest(left, right, how=how, distance_col="d").drop(columns="geometry")
    pd.testing.assert_frame_equal(pd.DataFrame(found), pd.DataFrame(expected), check_index_type=False)


def test_the_result_shares_nothing_with_the_frames():
    left, right = frame(np.zeros((2, 2)), n=[1, 2]), frame(np.zeros((2, 2)), m=[3, 4])
    for how in ("inner", "left", "right"):
        found = dtoss.sjoin_nearest(left, right, how=how)
        for name in ("n", "m"):
            values = found[name].to_numpy()
            if values.flags.writeable:  # from pandas 3 on it is not
                values[:] = 9
        assert (left.n.tolist(), right.m.tolist()) == ([1, 2], [3, 4])


def test_without_a_crs_a_plane_is_named():
    left, right = frame(np.zeros((1, 2)), None), frame(np.array([[3.0, 4.0]]), None)
    assert dtoss.sjoin_nearest(left, right, crs="none", distance_col="d").d.tolist() == [5.0]
    metres = dtoss.sjoin_nearest(left, right, crs="EPSG:4326", distance_col="d")
    assert 555_000 < metres.d[0] < 556_000
    assert metres.crs is None


POINTS = frame(np.array([[1.0, 2.0], [3.0, 4.0]]), n=[1, 2])
AREAS = POINTS.set_geometry(POINTS.buffer(1.0))
DEGREES = POINTS.to_crs("EPSG:4326")


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: dtoss.sjoin_nearest(AREAS, POINTS), ValueError, r"left: 2 of 2 geometries .* Polygon: points are wanted"),
    (lambda: dtoss.sjoin_nearest(POINTS, AREAS), ValueError, r"right: 2 of 2 geometries .* Polygon"),
    (lambda: dtoss.sjoin_nearest(POINTS, pd.concat([POINTS, AREAS])), ValueError, r"right: 2 of 4 .* \(row 2 the firs"),
    (lambda: dtoss.sjoin_nearest(POINTS, DEGREES), ValueError, r"left is in EPSG:32610 and right in EPSG:4326: .*to_c"),
    (lambda: dtoss.sjoin_nearest(POINTS, POINTS.set_crs(None, allow_override=True)), ValueError,
     r"right has no CRS and left has: right\.set_crs\(left\.crs\)"),
    (lambda: dtoss.sjoin_nearest(frame(np.zeros((1, 2)), None), frame(np.zeros((1, 2)), None)), ValueError,
     r"left and right have no CRS: .* crs='none'"),
    (lambda: dtoss.sjoin_nearest(POINTS, POINTS, crs="EPSG:4326"), ValueError, r"EPSG:4326 is not EPSG:32610 of left"),
    (lambda: dtoss.sjoin_nearest(pd.DataFrame({"lon": [1]}), POINTS), TypeError, r"left is of type DataFrame: a GeoDa"),
    (lambda: dtoss.sjoin_nearest(POINTS, [1]), TypeError, r"right is of type list: .* or an open index"),
    (lambda: dtoss.sjoin_nearest(geopandas.GeoDataFrame({"a": [1]}), POINTS), ValueError, r"no active geometry"),
    (lambda: dtoss.sjoin_nearest(POINTS, POINTS, how="outer"), ValueError, r"how is 'outer': one of 'inner', 'left'"),
    (lambda: dtoss.sjoin_nearest(POINTS, POINTS, ties="any"), ValueError, r"ties is 'any': one of 'lowest', 'all'"),
    (lambda: dtoss.sjoin_nearest(POINTS, POINTS, k=0), ValueError, r"k is 0: a whole number of at least 1"),
    (lambda: dtoss.sjoin_nearest(POINTS, POINTS, max_distance=-1.0), ValueError, r"max_distance is -1: a number"),
    (lambda: dtoss.sjoin_nearest(POINTS, POINTS[:0], max_distance=-1.0), ValueError, r"max_distance is -1: a number"),
    (lambda: dtoss.sjoin_nearest(POINTS, POINTS, threads=0), ValueError, r"threads is 0"),
    (lambda: dtoss.sjoin_nearest(POINTS, POINTS, lsuffix="", rsuffix=""), ValueError, r"both frames have .*column 'n'"),
    (lambda: dtoss.sjoin_nearest(POINTS, POINTS, lsuffix="a", rsuffix="a"), ValueError, r"'n_a' would stand twice"),
    (lambda: dtoss.sjoin_nearest(POINTS.assign(n_right=1), POINTS), ValueError, r"column 'n_right' would stand twice"),
    (lambda: dtoss.sjoin_nearest(POINTS.assign(index_right=1), POINTS), ValueError, r"'index_right' is a column alre"),
    (lambda: dtoss.sjoin_nearest(POINTS, POINTS, columns=["n"]), ValueError, r"columns are those of an index"),
    (lambda: dtoss.sjoin_nearest(
        frame(np.array([[0.0, 0.0], [200.0, 0.0]]), "EPSG:4326"), DEGREES), ValueError, r"left row 1 is \(200, 0\)"),
    (lambda: dtoss.sjoin_nearest(DEGREES, dtoss.build([1], [[0.0, 0.0]]), how="right"), ValueError, r"objects\(\)"),
    (lambda: dtoss.sjoin_nearest(POINTS, dtoss.build([1], [[0.0, 0.0]])), ValueError, r"right in EPSG:4326"),
    (lambda: dtoss.sjoin_nearest(DEGREES, dtoss.build([1], [[0.0, 0.0]]), columns=["a"]), ValueError, r"carry lon, "),
])  # fmt: skip
def test_what_cannot_be_joined_is_said_in_one_line(call, error, message):
    with pytest.raises(error, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
