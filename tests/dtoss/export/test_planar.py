"""Planar edges: valid polygons that cover the world once and share their corners, whatever the world is."""

import json

import duckdb
import geopandas
import numpy as np
import pyogrio
import pyproj
import pytest
import shapely
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.spatial import cKDTree

import dtoss
from dtoss.errors import InputError
from dtoss.export.geojson import polygons_in_degrees
from dtoss.export.planar import left_of_ring, on_grid, polygons_of
from dtoss.export_files import write
from dtoss.geometry.distance import EARTH_RADIUS
from tests.dtoss.export.half_way import ends_half_way
from tests.dtoss.export.test_export import globe
from tests.dtoss.scenes import lowest_ids, taxis, whole
from tests.dtoss.strategies import lonlat, planar
from tests.examples import examples

WINDS = np.array([
    [-30.0, 89.9999], [110.0, 90.0], [-50.0, 80.0], [-10.0, -90.0], [-50.0, 40.0], [100.0, 80.0], [-160.0, -89.9999],
    [20.0, -90.0], [-80.0, -10.0], [180.0, -89.9999], [-100.0, 90.0], [-40.0, 80.0], [-160.0, 80.0], [0.0, -90.0],
    [20.0, 40.0], [90.0, 0.0], [-20.0, 90.0],
])  # fmt: skip
"""Of seven regions one goes round a pole and crosses the antimeridian three times."""
KILOMETRE = 1e3 / EARTH_RADIUS
"""In radians."""
WORLD = 360.0 * 180.0


def least_gap(pivots):
    """How far the two nearest of some places are apart; infinite where there is one."""
    if len(pivots) < 2:
        return np.inf
    return cKDTree(pivots).query(pivots, k=2)[0][:, 1].min()


def areas(frame):
    return shapely.area(frame.geometry.to_numpy())


def sphere_areas(shapes):
    """Square metres of polygons of straight edges in lon, lat: the integral of sin(lat) along them, by segments."""
    found = []
    for shape in shapes:
        total = 0.0
        for part in shapely.get_parts(shape):
            for ring in (part.exterior, *part.interiors):
                lon, lat = np.radians(np.array(ring.coords)).T
                a, b = lat[:-1], lat[1:]
                step = np.where(np.abs(b - a) > 1e-6, b - a, 1.0)
                mean = np.where(np.abs(b - a) > 1e-6, (np.cos(a) - np.cos(b)) / step, np.sin((a + b) / 2))
                total -= float((np.diff(lon) * mean).sum())
        found.append(total * EARTH_RADIUS**2)
    return np.array(found)


@pytest.mark.parametrize("partitions", [1, 7])
def test_cells_cover_the_world_once(partitions):
    """All valid, corners shared with neighbours, no gap, no overlap; each holds its object and has its area."""
    positions = globe(np.random.default_rng(1), 800)
    index = dtoss.build(np.arange(800), positions, partitions=partitions)
    cells = index.cells().set_index("id").sort_index()
    assert cells.crs.to_epsg() == 4326
    assert cells.geometry.is_valid.all()
    assert shapely.coverage_is_valid(cells.geometry.to_numpy())
    assert areas(cells).sum() == pytest.approx(WORLD, rel=1e-12)
    assert cells.total_bounds.tolist() == [-180.0, -90.0, 180.0, 90.0]
    assert shapely.covers(cells.geometry.to_numpy(), shapely.points(positions)).all()
    assert sphere_areas(cells.geometry) == pytest.approx(cells["area"].to_numpy(), rel=1e-4)
    assert sphere_areas(cells.geometry).sum() == pytest.approx(4 * np.pi * EARTH_RADIUS**2, rel=1e-9)
    assert (cells.geometry.geom_type == "MultiPolygon").any()
    for id_ in range(0, 800, 40):
        for other in index.neighbours(id_).tolist():
            assert shapely.relate_pattern(cells.geometry[id_], cells.geometry[other], "F***1****") or (
                cells.geometry[id_].bounds[0] == -180.0 or cells.geometry[other].bounds[0] == -180.0
            )


@pytest.mark.parametrize("tolerance", [1.0, 5000.0])
def test_edges_stay_within_the_tolerance(tmp_path, tolerance):
    """Places between the corners of planar edges are as far from a border of true cells as the tolerance says."""
    index = dtoss.build(np.arange(60), globe(np.random.default_rng(2), 60))
    out = str(tmp_path / "cells.parquet")
    write(index, "cells", out, edges="planar", tolerance=tolerance)
    cells = geopandas.read_parquet(out)
    inner = cells[~shapely.intersects(shapely.box(-180, -90, 180, 90).exterior, cells.geometry.to_numpy())]
    furthest = 0.0
    for shape in inner.geometry:
        ring = np.array(shape.exterior.coords)
        for share in (0.3, 0.5, 0.7):
            places = ring[:-1] + share * np.diff(ring, axis=0)
            hits = index.knn(places, 2).distance.reshape(-1, 2)
            # the border of two sites at distance d and D apart is off by at most (D - d) and more where they are near
            furthest = max(furthest, float((hits[:, 1] - hits[:, 0]).max()))
    assert furthest < 2.1 * tolerance
    assert furthest > 0.05 * tolerance
    assert shapely.get_num_coordinates(cells.geometry.to_numpy()).sum() < 200_000 / np.sqrt(tolerance)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("size", [1e-3, 1e3, 1e9])
def test_regions_of_a_plane_have_the_same_corners(seed, size):
    """Not nearly the same: GEOS's union of such lost whole regions."""
    rng = np.random.default_rng(seed)
    index = dtoss.build(np.arange(60), rng.normal(0.0, size, (60, 2)), crs="none", partitions=7)
    held = index.regions().geometry
    assert shapely.coverage_is_valid(held[~held.isna()].to_numpy())
    assert held.union_all().area == pytest.approx(whole(index), rel=1e-9)


@settings(max_examples=examples(25), deadline=None)
@given(
    st.one_of(st.tuples(st.just("sphere"), lonlat()), st.tuples(st.just("plane"), planar())), st.sampled_from([1, 2, 7])
)
@example(("sphere", np.array([[10.0, 20.0]])), 1)
@example(("sphere", np.array([[0.0, 90.0], [0.0, -90.0]])), 1)
@example(("sphere", np.array([[180.0, 0.0], [0.0, 0.0]])), 1)
@example(("sphere", np.array([[180.0, 0.0], [0.0, 90.0], [77.0, -90.0]])), 1)
@example(("sphere", np.array([[0.0, 80.0], [90.0, 80.0], [180.0, 80.0], [-90.0, 80.0]])), 2)
@example(("sphere", np.array([[30.0, 0.0], [-150.0, 0.0], [120.0, 0.0]])), 1)
@example(("sphere", np.stack([np.arange(0.0, 360.0, 30.0) - 180.0, np.zeros(12)], axis=1)), 1)
@example(("sphere", np.stack([np.full(9, 180.0), np.linspace(-80.0, 80.0, 9)], axis=1)), 2)
@example(("sphere", WINDS), 7)
def test_awkward_worlds_are_covered_once(made, partitions):
    """Poles, the antimeridian, duplicates, lines, one site: valid polygons, together the world, each with its site."""
    metric, positions = made
    crs = "EPSG:4326" if metric == "sphere" else "none"
    ids = np.arange(len(positions))
    index = dtoss.build(ids, positions, crs=crs, partitions=partitions)
    cells, regions = index.cells(), index.regions()
    assert sorted(cells["id"]) == lowest_ids(index, ids.tolist(), positions)
    for frame in (cells, regions):
        held = frame.geometry[~frame.geometry.isna()]
        assert held.is_valid.all()
        if frame is regions and metric == "sphere" and least_gap(index.partitioning.pivots) < KILOMETRE:
            continue  # rounding decides where their borders meet, half a world away: docs/cells.md
        if len(positions):
            total = WORLD if metric == "sphere" else whole(index)
            assert shapely.area(held.to_numpy()).sum() == pytest.approx(total, rel=1e-5)
            # nothing is covered twice
            assert held.union_all().area == pytest.approx(total, rel=1e-5)
    assert not index.sites or not cells.geometry.isna().all()
    for row in cells[~cells.geometry.isna()].itertuples():
        place = shapely.Point(positions[row.id])
        west = shapely.Point(-180.0, positions[row.id][1])
        gap = row.geometry.distance(place)
        if metric == "sphere" and abs(positions[row.id][0]) == 180.0:
            gap = min(gap, row.geometry.distance(west), row.geometry.distance(shapely.Point(180.0, west.y)))
        if metric == "sphere" and abs(positions[row.id][1]) == 90.0:
            gap = min(gap, row.geometry.distance(shapely.LineString([(-180.0, place.y), (180.0, place.y)])))
        assert gap < 1e-5 * (1.0 if metric == "sphere" else np.sqrt(whole(index)))


def test_a_cell_in_two_pieces_keeps_both_in_degrees():
    """Its edges are so long that they are drawn anew."""
    change = pyproj.Transformer.from_crs("EPSG:32610", "EPSG:4326", always_xy=True)
    pieces = shapely.box(4.0e5, [4.0e6, 4.5e6], 6.0e5, [4.3e6, 4.9e6])
    shapes = np.array([shapely.multipolygons(pieces), *pieces, None], object)
    both, *each, none = polygons_in_degrees(shapes, change, 1.0)
    assert none is None
    assert all(shapely.get_num_coordinates(one) > 20 for one in each)
    assert shapely.area(both) == pytest.approx(sum(shapely.area(each)))


@pytest.mark.parametrize("crs", ["EPSG:4326", "EPSG:32610"])
def test_cells_of_a_town_share_their_corners(crs):
    """Rounded positions with many on one circle, far outliers: no gap and no overlap, in degrees and in metres."""
    positions = taxis(np.random.default_rng(3), 4000)
    if crs != "EPSG:4326":
        positions = np.round(np.array([5.4e5, 4.17e6]) + (positions - positions.mean(axis=0)) * 1e4)
    cells = dtoss.build(np.arange(4000), positions, crs=crs, partitions=5).cells()
    shapes = cells.geometry[~cells.geometry.isna()]
    assert shapes.is_valid.all()
    assert len(cells) - len(shapes) < 5
    bad = shapely.coverage_invalid_edges(shapes.to_numpy())
    # corners of outliers half a world away from a crowd are known to some metres
    assert sum(not edge.is_empty for edge in bad if edge is not None) <= 20
    total = WORLD if crs == "EPSG:4326" else (cells.total_bounds[2:] - cells.total_bounds[:2]).prod()
    assert areas(cells).sum() == pytest.approx(total, rel=1e-9)


def test_what_is_within_a_tenth_of_a_millimetre_has_no_polygon(tmp_path):
    """It is a row all the same, and it is counted."""
    step = np.arange(-4, 5) * 1e-10
    crowd = np.stack(np.meshgrid(20.0 + step, 40.0 + step), axis=-1).reshape(-1, 2)
    index = dtoss.build(np.arange(len(crowd)), crowd)
    cells = index.cells()
    assert len(cells) == index.sites > 20
    missing = int(cells.geometry.isna().sum())
    assert 0 < missing < len(cells)
    for suffix in ("geojson", "parquet", "fgb"):
        path = str(tmp_path / f"cells.{suffix}")
        written = write(index, "cells", path, edges="planar")
        assert (written.rows, written.empty) == (index.sites, missing)
        found = geopandas.read_parquet(path) if suffix == "parquet" else geopandas.read_file(path)
        assert len(found) == index.sites
        assert int((found.geometry.isna() | found.geometry.is_empty).sum()) == missing


# -- single rings -----------------------------------------------------------------------------------------------------


def test_rings_at_poles_and_the_antimeridian():
    """A cap round a pole, one beside it, a ring that touches it, one over the antimeridian, a hole."""
    around = np.array([[0.0, 60.0], [90.0, 60.0], [180.0, 60.0], [-90.0, 60.0]])
    first = np.array([0, 4])
    cap = polygons_of(first, on_grid(around))[0]
    assert cap.is_valid
    assert cap.contains(shapely.Point(45.0, 89.0))
    assert cap.bounds == (-180.0, pytest.approx(60.0), 180.0, 90.0)
    outside = left_of_ring(on_grid(around[::-1]))
    assert outside.is_valid
    assert outside.area + cap.area == pytest.approx(WORLD)
    touching = polygons_of(np.array([0, 3]), on_grid(np.array([[10.0, 0.0], [50.0, 0.0], [0.0, 90.0]])))[0]
    assert touching.equals(shapely.box(10.0, 0.0, 50.0, 90.0))
    over = polygons_of(first, on_grid(np.array([[170.0, -5.0], [-170.0, -5.0], [-170.0, 5.0], [170.0, 5.0]])))[0]
    assert over.geom_type == "MultiPolygon"
    assert over.bounds[::2] == (-180.0, 180.0)
    assert over.area == pytest.approx(202.0, rel=0.01)
    hole = left_of_ring(on_grid(np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.0, 0.0]])[::-1]))
    assert hole.area == pytest.approx(WORLD - 1.0, abs=1e-3)


# -- formats ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def index():
    rng = np.random.default_rng(5)
    columns = {"speed": np.append(rng.uniform(0, 9, 299), np.nan), "said": [f'"é\n{i}' for i in range(300)]}
    return dtoss.build([f"a{i}" for i in range(300)], globe(rng, 300), partitions=4, columns=columns)


@pytest.mark.parametrize("what", ["objects", "cells", "regions"])
def test_each_format_holds_the_same(tmp_path, index, what):
    """Rows, attributes and geometries of GeoJSON and FlatGeobuf are those of GeoParquet with planar edges."""
    frames = {}
    for suffix in ("parquet", "geojson", "fgb"):
        path = str(tmp_path / f"x.{suffix}")
        rows = write(index, what, path, edges="planar").rows
        found = geopandas.read_parquet(path) if suffix == "parquet" else pyogrio.read_dataframe(path)
        assert len(found) == rows
        assert found.crs.to_epsg() == 4326
        key = "partition" if what == "regions" else "id"
        frames[suffix] = found.set_index(key).sort_index()
    for suffix in ("geojson", "fgb"):
        found, known = frames[suffix], frames["parquet"]
        assert found.index.tolist() == known.index.tolist()
        assert shapely.equals(found.geometry.to_numpy(), known.geometry.to_numpy()).all()
        for name in known.columns.drop("geometry"):
            if known[name].dtype == float:
                assert found[name].to_numpy() == pytest.approx(known[name].to_numpy(), nan_ok=True)
            else:
                assert found[name].tolist() == known[name].tolist()
    assert len(list(tmp_path.iterdir())) == 3


def test_geojson_is_as_its_standard_says(tmp_path, index):
    """Ids of features, outer rings to the left, longitudes from -180 to 180, no NaN; DuckDB's JSON reads it."""
    path = tmp_path / "x.geojson"
    write(index, "cells", str(path))
    told = json.loads(path.read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert told["type"] == "FeatureCollection"
    assert "crs" not in told
    assert {feature["id"] for feature in told["features"]} == {f"a{i}" for i in range(300)}
    for feature in told["features"]:
        shape = shapely.geometry.shape(feature["geometry"])
        for part in shapely.get_parts(shape):
            assert part.exterior.is_ccw
            assert not any(ring.is_ccw for ring in part.interiors)
        assert feature["properties"]["area"] > 0.0
    write(index, "objects", str(path))
    told = json.loads(path.read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert [feature["properties"]["speed"] for feature in told["features"]].count(None) == 1
    query = f"select count(speed), count(distinct said) from read_json('{path}')"
    assert duckdb.sql(query).fetchall() == [(299, 300)]


def test_projected_stores_are_geojson_in_degrees(tmp_path):
    """Edges of UTM are followed, over the antimeridian too; a plane without a CRS is one line."""
    rng = np.random.default_rng(6)
    metres = np.array([5.4e5, 4.17e6]) + rng.uniform(0, 9e5, (200, 2))
    index = dtoss.build(np.arange(200), metres, crs="EPSG:32660", partitions=3)
    for what in ("objects", "cells", "regions"):
        path = str(tmp_path / "x.geojson")
        write(index, what, path)
        found = pyogrio.read_dataframe(path)
        assert found.crs.to_epsg() == 4326
        assert found.geometry.is_valid.all()
        assert found.total_bounds[0] == pytest.approx(-180.0, abs=1.0)
        assert found.total_bounds[2] == pytest.approx(180.0, abs=1.0)
        if what == "objects":
            back = found.set_index("id").sort_index().to_crs("EPSG:32660")
            assert shapely.get_coordinates(back.geometry) == pytest.approx(metres, abs=1e-3)
        else:
            # square degrees of the parts, as metres in the plane that they came from
            east, west = (
                found.clip(box).to_crs("EPSG:32660").area.sum() for box in ((0, -90, 180, 90), (-180, -90, 0, 90))
            )
            assert east + west == pytest.approx(whole(index), rel=1e-5)
    plane = dtoss.build([1, 2], [[0.0, 0.0], [1.0, 1.0]], crs="none")
    with pytest.raises(ValueError, match="no CRS"):
        write(plane, "cells", str(tmp_path / "y.geojson"))
    assert not (tmp_path / "y.geojson").exists()


def test_defaults_and_wrong_edges(tmp_path, index):
    """GeoParquet is spherical unless told otherwise, all else planar; what cannot be is one line."""
    path = str(tmp_path / "x.parquet")
    write(index, "cells", path)
    with pytest.warns(UserWarning, match="spherical edges"):
        geopandas.read_parquet(path)
    for words, options in {
        "'round'": {"edges": "round"},
        "tolerance is 0": {"tolerance": 0.0},
    }.items():
        with pytest.raises(ValueError, match=words):
            write(index, "cells", path, **options)
    with pytest.raises(ValueError, match="GeoJSON are straight"):
        write(index, "cells", str(tmp_path / "x.geojson"), edges="spherical")
    plane = dtoss.build([1], [[0.0, 0.0]], crs="EPSG:32610")
    with pytest.raises(ValueError, match="straight"):
        write(plane, "cells", path, edges="spherical")
    with pytest.raises(InputError, match=r"ends in \.shp"):
        write(index, "cells", str(tmp_path / "x.shp"))
    for suffix in ("geojson", "fgb"):
        with pytest.raises(InputError, match="cannot be written"):
            write(index, "cells", str(tmp_path / "none" / f"x.{suffix}"))


@pytest.mark.parametrize("suffix", ["geojson", "fgb"])
def test_a_file_appears_whole_or_not_at_all(tmp_path, monkeypatch, index, suffix):
    """A failure half way leaves what was there before, and no debris."""
    ends_half_way(monkeypatch, 2)
    out = tmp_path / f"x.{suffix}"
    out.write_bytes(b"before")
    with pytest.raises(RuntimeError, match="half way"):
        write(index, "cells", str(out))
    assert out.read_bytes() == b"before"
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


def test_geojson_has_null_for_what_is_no_finite_number(tmp_path):
    """JSON has neither NaN nor Infinity; numbers of any size are told as they are."""
    values = [np.nan, np.inf, -np.inf, 2.0**100, -(2.0**100), 0.0]
    columns = {"double": values, "single": np.array(values, np.float32)}
    index = dtoss.build(np.arange(6), globe(np.random.default_rng(7), 6), columns=columns)
    path = tmp_path / "x.geojson"
    write(index, "objects", str(path))
    told = json.loads(path.read_text(encoding="utf-8"), parse_constant=pytest.fail)
    rows = sorted((feature["properties"] for feature in told["features"]), key=lambda row: row["id"])
    for name in columns:
        assert [row[name] for row in rows] == [None, None, None, 2.0**100, -(2.0**100), 0.0]
