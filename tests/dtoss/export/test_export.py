"""GeoParquet files, read back by GeoPandas: cells, regions and objects are what the index says of them."""

import json

import geopandas
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from hypothesis import example, given, settings
from hypothesis import strategies as st

import dtoss
from dtoss.errors import InputError
from dtoss.export_files import write
from dtoss.geometry.distance import EARTH_RADIUS
from dtoss.partitioning.region_polygons import left_of, region_shapes
from dtoss.partitioning.regions import Regions
from tests.dtoss.export.half_way import ends_half_way
from tests.dtoss.scenes import PARTITIONS, lowest_ids, random_sphere, taxis, whole
from tests.dtoss.strategies import lonlat, planar
from tests.examples import examples

SPHERICAL = "spherical edges"
BAY = np.array([5.4e5, 4.17e6])


def read(path, spherical=False, **options):
    if spherical:
        with pytest.warns(UserWarning, match=SPHERICAL):
            return geopandas.read_parquet(path, **options)
    return geopandas.read_parquet(path, **options)


def geo(path):
    return json.loads(pq.read_schema(path).metadata[b"geo"])


def units(lonlat):
    lon, lat = np.radians(np.asarray(lonlat, dtype=float).reshape(-1, 2)).T
    return np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=1)


def globe(rng, n):
    return np.stack([rng.uniform(-180, 180, n), np.degrees(np.arcsin(rng.uniform(-1, 1, n)))], axis=1)


def in_convex(ring, place, tolerance=1e-9):
    """Whether a place lies on the left of all arcs of a ring."""
    corners = units(ring)
    return bool((np.cross(corners[:-1], corners[1:]) @ place >= -tolerance).all())


# -- cells ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("partitions", PARTITIONS)
def test_planar_cells_tile_the_bounds(tmp_path, partitions):
    """Polygons have the areas, corners and neighbours of the index; together they are the bounds, each place once."""
    rng = np.random.default_rng(61)
    positions = rng.integers(0, 60, (1500, 2)) * 7.0 + 4.0e6
    ids = rng.permutation(1500)
    index = dtoss.build(ids, positions, crs="EPSG:32610", partitions=partitions)
    path = tmp_path / "cells.parquet"
    rows = write(index, "cells", str(path)).rows
    cells = read(path)
    assert rows == len(cells) == index.sites
    assert sorted(cells["id"]) == lowest_ids(index, ids.tolist(), positions)
    assert cells["objects"].sum() == 1500
    assert cells.crs.to_epsg() == 32610
    assert cells.geometry.is_valid.all()
    assert cells.geometry.area.to_numpy() == pytest.approx(cells["area"].to_numpy(), rel=1e-9)
    assert cells["area"].sum() == pytest.approx(whole(index), rel=1e-9)
    assert cells.union_all().symmetric_difference(shapely.box(*index.bounds)).area < 1e-6
    for row in cells.sample(150, random_state=1).itertuples():
        assert row.area == pytest.approx(index.area(row.id), rel=1e-12)
        assert row.neighbours == len(index.neighbours(row.id))
        assert row.geometry.exterior.is_ccw
        assert shapely.hausdorff_distance(row.geometry, shapely.Polygon(index.cell(row.id))) < 1e-6
        place = shapely.Point(index[row.id]["x"], index[row.id]["y"])
        assert row.geometry.covers(place)
        assert index.partitioning.nearest(np.array([[place.x, place.y]]))[0] == row.partition
    about = geo(path)["columns"]["geometry"]
    assert about["edges"] == "planar"
    assert about["orientation"] == "counterclockwise"
    assert about["bbox"] == pytest.approx(list(index.bounds))


@settings(max_examples=examples(60), deadline=None)
@given(
    st.one_of(st.tuples(st.just("sphere"), lonlat()), st.tuples(st.just("plane"), planar())),
    st.sampled_from(PARTITIONS),
    st.sampled_from([None, 0.0]),
)
def test_awkward_cells_are_the_indexs(tmp_path_factory, made, partitions, reach):
    """Ties, lines, poles, the antimeridian, one object or none: rows, areas and neighbours of every site."""
    metric, positions = made
    crs = "EPSG:4326" if metric == "sphere" else "none"
    ids = [f"o{i:02}" for i in range(len(positions))]
    index = dtoss.build(pa.array(ids, pa.string()), positions, crs=crs, partitions=partitions, reach=reach)
    path = tmp_path_factory.mktemp("export") / "cells.parquet"
    assert write(index, "cells", str(path)).rows == index.sites
    table = pq.read_table(path)
    assert sorted(table["id"].to_pylist()) == lowest_ids(index, ids, positions)
    for row in table.to_pylist():
        assert row["area"] == pytest.approx(index.area(row["id"]), rel=1e-9, abs=1e-15 * whole(index))
        if metric == "sphere" or max(abs(bound) for bound in index.bounds) < 1e6:
            assert row["neighbours"] == len(index.neighbours(row["id"]))
    if len(table):
        assert sum(table["area"].to_pylist()) == pytest.approx(whole(index), rel=1e-9)
        assert sum(table["objects"].to_pylist()) == len(ids)


@pytest.mark.parametrize("partitions", PARTITIONS)
def test_spherical_cells_own_the_sphere(tmp_path, partitions):
    """Any place lies in the polygon, and in the box, of the object that owns it: also on poles and the antimeridian."""
    rng = np.random.default_rng(62)
    positions = globe(rng, 400)
    ids = rng.permutation(400)
    index = dtoss.build(ids, positions, partitions=partitions)
    path = tmp_path / "cells.parquet"
    write(index, "cells", str(path))
    cells = read(path, spherical=True).set_index("id")
    boxes = {row["id"]: row["bbox"] for row in pq.read_table(path, columns=["id", "bbox"]).to_pylist()}
    assert cells["area"].sum() == pytest.approx(4 * np.pi * EARTH_RADIUS**2, rel=1e-12)
    edge = np.stack([np.full(200, 180.0), rng.uniform(-90, 90, 200)], axis=1)
    places = np.concatenate([globe(rng, 3000), edge, edge * [-1, 1], [[0, 90], [77, -90]]])
    for place, owner in zip(places, index.locate(places).tolist(), strict=True):
        assert in_convex(shapely.get_coordinates(cells.geometry[owner]), units(place)[0])
        box = boxes[owner]
        assert box["ymin"] - 1e-9 <= place[1] <= box["ymax"] + 1e-9
        assert box["xmin"] - 1e-9 <= place[0] <= box["xmax"] + 1e-9 or abs(place[1]) == 90
    for owner in cells.index[:80].tolist():
        ring = units(shapely.get_coordinates(cells.geometry[owner])[:-1])
        expected = units(index.cell(owner))
        assert np.abs(ring[:, None] - expected[None]).max(axis=2).min(axis=1).max() < 1e-9
    spans = np.array([box["xmax"] - box["xmin"] for box in boxes.values()])
    # two cells hold a pole, and the cells along half a great circle are about a root of their number
    assert 2 < (spans == 360).sum() < 60
    about = geo(path)
    assert about["version"] == "1.1.0"
    assert about["columns"]["geometry"]["edges"] == "spherical"
    assert about["columns"]["geometry"]["geometry_types"] == ["Polygon"]


@settings(max_examples=examples(60), deadline=None)
@given(lonlat(), st.integers(0, 2**32 - 1))
@example(np.array([[130.0, 40.0], [50.0, 40.0]]), 0)
@example(np.array([[130.0, 0.0], [50.0, 0.0]]), 0)
@example(np.array([[150.0, 40.0], [-80.0, 40.0]]), 0)
def test_boxes_hold_their_cells(tmp_path_factory, positions, seed):
    """Bulging arcs, corners on poles and on the antimeridian: the box of its owner holds each place."""
    if len(positions) == 0:
        return
    rng = np.random.default_rng(seed)
    index = dtoss.build(np.arange(len(positions)), positions)
    path = tmp_path_factory.mktemp("export") / "cells.parquet"
    write(index, "cells", str(path))
    boxes = {row["id"]: row["bbox"] for row in pq.read_table(path).to_pylist()}
    places = globe(rng, 60)
    for (lon, lat), owner in zip(places.tolist(), index.locate(places).tolist(), strict=True):
        box = boxes[owner]
        assert box["xmin"] - 1e-6 <= lon <= box["xmax"] + 1e-6
        assert box["ymin"] - 1e-6 <= lat <= box["ymax"] + 1e-6


def test_few_sites_own_the_sphere(tmp_path):
    """None: an empty file. One: two halves of the sphere. Two: a hemisphere each."""
    path = tmp_path / "cells.parquet"
    assert write(dtoss.build([], np.zeros((0, 2))), "cells", str(path)).rows == 0
    assert len(read(path, spherical=True)) == 0
    assert geo(path)["columns"]["geometry"]["geometry_types"] == []
    one = dtoss.build([5, 4], [[10.0, 20.0]] * 2)
    write(one, "cells", str(path))
    row = read(path, spherical=True).iloc[0]
    assert (row["id"], row["objects"], row["neighbours"]) == (4, 2, 0)
    assert row.geometry.geom_type == "MultiPolygon"
    for lon, lat in globe(np.random.default_rng(60), 50).tolist():
        inside = [in_convex(shapely.get_coordinates(half), units([lon, lat])[0]) for half in row.geometry.geoms]
        assert inside == [lon > 0, lon < 0]
    write(dtoss.build([1, 2], [[10.0, 20.0], [-50.0, 0.0]]), "cells", str(path))
    two = read(path, spherical=True)
    assert two["area"].tolist() == pytest.approx([2 * np.pi * EARTH_RADIUS**2] * 2)
    assert two["neighbours"].tolist() == [1, 1]


def test_a_box_filter_finds_what_lies_there(tmp_path):
    """The covering serves GeoPandas' own filter, many row groups in a file."""
    rng = np.random.default_rng(63)
    index = dtoss.build(np.arange(20_000), taxis(rng, 20_000), partitions=9)
    path = tmp_path / "cells.parquet"
    write(index, "cells", str(path))
    assert pq.ParquetFile(path).num_row_groups == 9
    some = read(path, spherical=True, bbox=(-122.41, 37.76, -122.39, 37.78))
    every = read(path, spherical=True)
    expected = every[every.intersects(shapely.box(-122.41, 37.76, -122.39, 37.78))]
    assert 0 < len(expected) < len(every) / 2
    assert set(expected["id"]) <= set(some["id"])


def test_a_projected_crs_on_the_sphere_is_exported_in_degrees(tmp_path):
    """Cells in lon, lat; objects where they were read."""
    rng = np.random.default_rng(64)
    metres = BAY + rng.uniform(0, 20_000, (300, 2))
    index = dtoss.build(np.arange(300), metres, crs="EPSG:32610", metric="sphere")
    path = tmp_path / "out.parquet"
    write(index, "cells", str(path))
    assert read(path, spherical=True).crs.to_epsg() == 4326
    write(index, "objects", str(path))
    objects = read(path).set_index("id").sort_index()
    assert objects.crs.to_epsg() == 32610
    assert shapely.get_coordinates(objects.geometry) == pytest.approx(metres)


# -- objects ----------------------------------------------------------------------------------------------------------


def test_objects_carry_their_attributes(tmp_path):
    """Each owned object once; names of attributes that are ours get an underscore."""
    rng = np.random.default_rng(65)
    positions = taxis(rng, 3000)
    columns = {
        "speed": rng.uniform(0, 9, 3000),
        "bbox": pa.array([f"b{i}" for i in range(3000)]),
        "partition": range(3000),
    }
    index = dtoss.build(np.arange(3000), positions, partitions=7, columns=columns)
    path = tmp_path / "objects.parquet"
    assert write(index, "objects", str(path)).rows == 3000
    found = read(path).set_index("id").sort_index()
    assert shapely.get_coordinates(found.geometry).tolist() == positions.tolist()
    assert found["speed"].tolist() == columns["speed"].tolist()
    assert found["bbox_"].tolist() == columns["bbox"].to_pylist()
    assert found["partition_"].tolist() == list(range(3000))
    home = index.partitioning.nearest(index.space.vectors(positions))
    assert found["partition"].tolist() == home.tolist()
    assert found.crs.to_epsg() == 4326
    assert geo(path)["columns"]["geometry"]["geometry_types"] == ["Point"]


# -- regions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("partitions", PARTITIONS)
def test_planar_regions_are_where_objects_belong(tmp_path, partitions):
    """They tile the bounds, and each object lies in the region of its partition."""
    rng = np.random.default_rng(66)
    positions = np.abs(rng.normal(size=(5000, 2))) ** 3 * 100
    index = dtoss.build(np.arange(5000), positions, crs="none", partitions=partitions)
    path = tmp_path / "regions.parquet"
    assert write(index, "regions", str(path)).rows == partitions
    regions = read(path)
    assert regions["objects"].tolist() == [facts.objects for facts in index.parts.facts]
    assert regions["sites"].sum() == index.sites
    assert regions.geometry.area.to_numpy() == pytest.approx(regions["area"].to_numpy(), rel=1e-9)
    assert regions["area"].sum() == pytest.approx(whole(index), rel=1e-12)
    home = index.partitioning.nearest(index.space.vectors(positions))
    spots = shapely.points(positions)
    assert (shapely.distance(regions.geometry.to_numpy()[home], spots) < 1e-9).all()
    touching = shapely.STRtree(regions.geometry.to_numpy()).query(regions.geometry, "dwithin", distance=1e-7)
    assert regions["neighbours"].sum() <= touching.shape[1] - partitions
    if partitions == 2:
        assert regions["neighbours"].tolist() == [1, 1]


OTHERS = pytest.mark.deep("every other pair of a count and weights; each of both is in make test")


@pytest.mark.parametrize(
    ("count", "spread"),
    [
        pytest.param(count, spread, marks=() if (i + j) % 2 else OTHERS)
        for i, count in enumerate((2, 3, 7, 50))
        for j, spread in enumerate((0.0, 0.05, 0.5, 3.0))
    ],
)
def test_spherical_regions_are_where_objects_belong(count, spread):
    """With any weights: areas sum to the sphere; a place lies on the left of all rings of one piece of its region."""
    rng = np.random.default_rng(67)
    regions = Regions(random_sphere(rng, count), rng.uniform(-1, 0, count) * spread)
    shapes = region_shapes(regions, None)
    assert sum(shape.area for shape in shapes) == pytest.approx(4 * np.pi * EARTH_RADIUS**2, rel=1e-12)
    check_regions(regions, shapes, random_sphere(rng, 60))
    for i, shape in enumerate(shapes):
        assert all(i in shapes[j].neighbours for j in shape.neighbours.tolist())


def check_regions(regions, shapes, places):
    for place, home in zip(places, regions.nearest(places).tolist(), strict=True):
        past = regions.past(place[None], home)
        if past.max() > -1e-6:
            continue
        for i, shape in enumerate(shapes):
            inside = [all(left_of(ring, place) for ring in rings) for rings in shape.polygons]
            lone = not shape.polygons and shape.area > 0
            assert (sum(inside) + lone) == (i == home)


def test_regions_with_holes_and_in_pieces():
    """Light pivots cut caps out of a heavy one's region; a belt of them cuts it in two."""
    rng = np.random.default_rng(68)
    heavy = np.array([[0.0, 0.0, 1.0]])
    light = np.array([[1.0, 0.0, 0.1], [-1.0, 0.2, 0.0], [0.0, -1.0, -0.3]])
    light /= np.linalg.norm(light, axis=1)[:, None]
    holes = Regions(np.concatenate([heavy, light]), np.array([0.0, -2.4, -2.5, -3.0]))
    shapes = region_shapes(holes, None)
    assert [len(rings) for rings in shapes[0].polygons] == [3]
    check_regions(holes, shapes, random_sphere(rng, examples(300)))
    around = np.radians(np.arange(0, 360, 20))
    belt = np.stack([np.cos(around), np.sin(around), np.zeros(18)], axis=1)
    both = Regions(np.concatenate([heavy, belt]), np.append(0.0, np.full(18, -2.449)))
    split = region_shapes(both, None)
    assert [len(rings) for rings in split[0].polygons] == [1, 1]
    assert sum(shape.area for shape in split) == pytest.approx(4 * np.pi * EARTH_RADIUS**2, rel=1e-12)
    check_regions(both, split, random_sphere(rng, examples(500)))
    alone = Regions(np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]), np.array([0.0, -9.0]))
    assert [shape.area for shape in region_shapes(alone, None)] == pytest.approx([4 * np.pi * EARTH_RADIUS**2, 0.0])


def test_spherical_regions_in_a_file(tmp_path):
    """One row a partition, boxes that hold their objects, polygons near enough for great-circle arcs."""
    rng = np.random.default_rng(69)
    positions = globe(rng, 4000)
    index = dtoss.build(np.arange(4000), positions, partitions=12)
    path = tmp_path / "regions.parquet"
    assert write(index, "regions", str(path)).rows == 12
    regions = read(path, spherical=True)
    assert regions["area"].sum() == pytest.approx(4 * np.pi * EARTH_RADIUS**2, rel=1e-12)
    boxes = pq.read_table(path)["bbox"].to_pylist()
    home = index.partitioning.nearest(index.space.vectors(positions))
    for (lon, lat), i in zip(positions.tolist(), home.tolist(), strict=True):
        assert boxes[i]["xmin"] <= lon <= boxes[i]["xmax"]
        assert boxes[i]["ymin"] <= lat <= boxes[i]["ymax"]
    for polygon, i in zip(regions.geometry, regions["partition"], strict=True):
        ring = units(shapely.get_coordinates(polygon))
        between = ring[:-1] + ring[1:]
        between /= np.linalg.norm(between, axis=1)[:, None]
        past = np.array([index.partitioning.past(p[None], i).max() for p in between])
        assert np.abs(past).max() < 1e-7
    one = dtoss.build([1, 2], [[0.0, 0.0], [1.0, 1.0]], partitions=1)
    write(one, "regions", str(path))
    assert read(path, spherical=True).geometry.iloc[0].geom_type == "MultiPolygon"


# -- a boundary -------------------------------------------------------------------------------------------------------


def write_boundary(tmp_path, shape, crs=None):
    path = tmp_path / "boundary.geojson"
    feature = {"type": "Feature", "properties": {}, "geometry": json.loads(shapely.to_geojson(shape))}
    collection = {"type": "FeatureCollection", "features": [feature]}
    path.write_text(json.dumps(collection | ({"crs": {"type": "name", "properties": {"name": crs}}} if crs else {})))
    return str(path)


@pytest.mark.parametrize("what", ["cells", "regions"])
def test_a_boundary_cuts_planar_shapes(tmp_path, what):
    """What is kept tiles the boundary; shapes inside stay whole."""
    rng = np.random.default_rng(70)
    index = dtoss.build(np.arange(2000), rng.uniform(0, 100, (2000, 2)), crs="none", partitions=7)
    star = shapely.Polygon([(10, 10), (50, 30), (90, 10), (70, 50), (90, 90), (50, 70), (10, 90), (30, 50)])
    star = star.difference(shapely.Point(50, 50).buffer(5))
    path = tmp_path / "out.parquet"
    rows = write(index, what, str(path), clip=write_boundary(tmp_path, star)).rows
    kept = read(path)
    assert rows == len(kept) < (2000 if what == "cells" else 8)
    assert kept.geometry.area.sum() == pytest.approx(star.area, rel=1e-9)
    assert kept.union_all().symmetric_difference(star).area < 1e-6
    if what == "cells":
        inner = kept[np.isclose(kept.geometry.area, kept["area"], rtol=1e-9)]
        assert len(inner) > 500
        assert all(i in set(kept["id"]) for i in index.locate(shapely.get_coordinates(star)).tolist())


def test_a_boundary_in_degrees_cuts_metres(tmp_path):
    """GeoJSON is in lon, lat: it is carried over into the CRS of the snapshot."""
    rng = np.random.default_rng(71)
    index = dtoss.build(np.arange(3000), BAY + rng.uniform(0, 20_000, (3000, 2)), crs="EPSG:32610")
    town = shapely.box(-122.5, 37.7, -122.4, 37.8)
    path = tmp_path / "out.parquet"
    write(index, "objects", str(path), clip=write_boundary(tmp_path, town))
    objects = read(path)
    write(index, "objects", str(path))
    degrees = read(path).to_crs("EPSG:4326").set_index("id")
    assert set(objects["id"]) == set(degrees.index[degrees.within(town)])
    assert 100 < len(objects) < 2900


@pytest.mark.parametrize("what", ["cells", "regions"])
@pytest.mark.parametrize(
    "box",
    [(170.0, -30.0, 180.0, 40.0), (-180.0, 60.0, 180.0, 90.0), (-180.0, -90.0, 180.0, 90.0), (3.0, 40.0, 9.0, 44.0)],
)
def test_a_boundary_cuts_spherical_shapes(tmp_path, what, box):
    """Any place in the boundary lies in one shape, that of its owner: also at a pole and on the antimeridian."""
    rng = np.random.default_rng(72)
    positions = globe(rng, 500)
    index = dtoss.build(np.arange(500), positions, partitions=7)
    path = tmp_path / "out.parquet"
    write(index, what, str(path), clip=write_boundary(tmp_path, shapely.box(*box)))
    kept = read(path).set_index("id" if what == "cells" else "partition")
    assert geo(path)["columns"]["geometry"]["edges"] == "planar"
    assert kept.geometry.is_valid.all()
    area = (box[2] - box[0]) * (box[3] - box[1])
    assert shapely.area(kept.geometry.to_numpy()).sum() == pytest.approx(area, rel=1e-4)
    places = np.stack([rng.uniform(box[0], box[2], 300), rng.uniform(box[1], box[3], 300)], axis=1)
    owners = index.locate(places) if what == "cells" else index.partitioning.nearest(index.space.vectors(places))
    # arcs near a pole and near the antimeridian are drawn to 0.1 m
    apart = [
        kept.geometry[owner].distance(shapely.Point(*place))
        for owner, place in zip(owners.tolist(), places, strict=True)
    ]
    assert max(apart) < 1e-3


def test_boundaries_that_cannot_be_used_are_named(tmp_path):
    """A missing file, no JSON, no polygon: one line that says so."""
    index = dtoss.build([1], [[0.0, 0.0]])
    out = str(tmp_path / "out.parquet")
    with pytest.raises(InputError, match=r"missing\.geojson"):
        write(index, "cells", out, clip=str(tmp_path / "missing.geojson"))
    bad = tmp_path / "bad.geojson"
    bad.write_text("{not json")
    with pytest.raises(InputError, match=r"bad\.geojson"):
        write(index, "cells", out, clip=str(bad))
    for opening, closing in (
        ('{"type": "Polygon", "coordinates": ' + "[" * 5000, "]" * 5000 + "}"),
        ("[" * 5000, "]" * 5000),
    ):
        bad.write_text(opening + closing)
        with pytest.raises(InputError, match=r"bad\.geojson nests too deep"):
            write(index, "cells", out, clip=str(bad))
    with pytest.raises(InputError, match="no polygon"):
        write(index, "cells", out, clip=write_boundary(tmp_path, shapely.Point(0, 0)))
    assert not (tmp_path / "out.parquet").exists()


def test_a_boundary_far_away_keeps_nothing(tmp_path):
    """An empty file that can be read."""
    index = dtoss.build([1, 2, 3], [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], crs="none")
    out = tmp_path / "out.parquet"
    for what in ("objects", "cells", "regions"):
        assert write(index, what, str(out), clip=write_boundary(tmp_path, shapely.box(50, 50, 60, 60))).rows == 0
        assert pq.read_table(out).num_rows == 0


# -- the file ---------------------------------------------------------------------------------------------------------


def test_the_file_appears_whole_or_not_at_all(tmp_path, monkeypatch):
    """A failure half way leaves what was there before, and no debris."""
    index = dtoss.build(np.arange(500), taxis(np.random.default_rng(73), 500), partitions=5)
    out = tmp_path / "cells.parquet"
    out.write_bytes(b"before")
    seen = ends_half_way(monkeypatch, 3)
    with pytest.raises(RuntimeError, match="half way"):
        write(index, "cells", str(out))
    assert seen == [0, 1, 2, 3]
    assert out.read_bytes() == b"before"
    assert [p.name for p in tmp_path.iterdir()] == ["cells.parquet"]


def test_wrong_arguments_are_named(tmp_path):
    """ValueError with the value; a directory that does not exist."""
    index = dtoss.build([1], [[0.0, 0.0]])
    with pytest.raises(ValueError, match="'roads'"):
        write(index, "roads", str(tmp_path / "x.parquet"))
    with pytest.raises(InputError, match="cannot be written"):
        write(index, "cells", str(tmp_path / "none" / "x.parquet"))
