"""Cells, regions and objects of an index as GeoDataFrames: columns, rows, few of them, and what a boundary keeps."""

import geopandas
import numpy as np
import pytest
import shapely

import dtoss
from tests.dtoss.export.test_export import globe


@pytest.fixture(scope="module")
def index():
    rng = np.random.default_rng(11)
    positions = globe(rng, 600)
    positions[:50] = positions[50:100]
    return dtoss.build(np.arange(600), positions, partitions=5, columns={"v": rng.uniform(0, 1, 600), "k": range(600)})


def test_columns_and_rows(index):
    """As exported; areas and neighbours are the index's."""
    cells = index.cells()
    assert list(cells) == ["id", "objects", "area", "neighbours", "partition", "geometry"]
    assert isinstance(cells, geopandas.GeoDataFrame)
    assert len(cells) == index.sites == 550
    assert cells["objects"].sum() == 600
    for row in cells.iloc[::60].itertuples():
        assert row.area == pytest.approx(index.area(row.id), rel=1e-12)
        assert row.neighbours == len(index.neighbours(row.id))
    regions = index.regions()
    assert list(regions) == ["partition", "objects", "sites", "area", "neighbours", "geometry"]
    assert regions["objects"].sum() == 600
    assert shapely.area(regions.geometry.to_numpy()).sum() == pytest.approx(360.0 * 180.0)
    assert shapely.coverage_is_valid(regions.geometry.to_numpy())
    homes = regions.set_index("partition").geometry
    objects = index.objects()
    assert list(objects) == ["id", "partition", "v", "k", "geometry"]
    assert (objects["id"] == objects["k"]).all()
    apart = shapely.distance(homes[objects["partition"]].to_numpy(), objects.geometry.to_numpy())
    assert apart.max() < 1e-3


def test_few_cells_are_those_of_all(index):
    """A row for each id in their order, an object that shares its place too."""
    ids = [177, 3, 53, 177]
    every = index.cells().set_index("id").geometry
    some = index.cells(ids)
    assert some["id"].tolist() == ids
    assert some["area"].tolist() == pytest.approx([index.area(i) for i in ids], rel=1e-12)
    assert some["neighbours"].tolist() == [len(index.neighbours(i)) for i in ids]
    for id_, shape in zip(ids, some.geometry, strict=True):
        assert shape.equals_exact(every[3 if id_ == 53 else id_], 0.0)
    assert len(index.cells([])) == 0
    with pytest.raises(KeyError, match="no object has the id 1000"):
        index.cells([1, 1000])
    text = dtoss.build(["a", "b"], [[0.0, 0.0], [1.0, 1.0]])
    assert text.cells(["b"])["id"].tolist() == ["b"]


def test_objects_by_condition_and_columns(index):
    """Those that satisfy it; attributes that are named, and coordinates."""
    found = index.objects("v < 0.25", ["lat", "k"])
    assert list(found) == ["id", "partition", "lat", "k", "geometry"]
    assert found["lat"].tolist() == found.geometry.y.tolist()
    assert sorted(found["id"]) == [i for i in range(600) if index[i]["v"] < 0.25]
    assert len(index.objects("v > 2")) == 0
    with pytest.raises(ValueError, match="'w' is not carried"):
        index.objects(columns=["w"])


def test_a_boundary_keeps_what_lies_inside(index):
    """A box, one over the antimeridian, a polygon, a frame of another CRS, with ids: the same as cut by shapely."""
    every = index.cells()
    for clip, shape in (
        ((0.0, 0.0, 40.0, 30.0), shapely.box(0.0, 0.0, 40.0, 30.0)),
        (
            (170.0, -10.0, -170.0, 10.0),
            shapely.union(shapely.box(170, -10, 180, 10), shapely.box(-180, -10, -170, 10)),
        ),
        (shapely.Point(10, 10).buffer(9), shapely.Point(10, 10).buffer(9)),
        (geopandas.GeoDataFrame(geometry=[shapely.box(1, 1, 9, 9)], crs="EPSG:4326"), shapely.box(1, 1, 9, 9)),
    ):
        kept = index.cells(clip=clip)
        cut = shapely.intersection(every.geometry.to_numpy(), shape)
        held = shapely.area(cut) > 0.0
        assert kept["id"].tolist() == every["id"][held].tolist()
        assert shapely.area(kept.geometry.to_numpy()) == pytest.approx(shapely.area(cut[held]), rel=1e-9)
        assert kept.geometry.is_valid.all()
        assert shapely.area(index.regions(clip=clip).geometry.to_numpy()).sum() == pytest.approx(shape.area, rel=1e-6)
        inside = index.objects(clip=clip)
        assert len(inside) == shapely.intersects(index.objects().geometry.to_numpy(), shape).sum()
        ids = every["id"].tolist()[::7]
        assert index.cells(ids, clip=clip)["id"].tolist() == [i for i in ids if i in set(kept["id"])]
    metres = geopandas.GeoDataFrame(geometry=[shapely.box(0, 0, 4e6, 4e6)], crs="EPSG:3857")
    assert index.cells(clip=metres).total_bounds[2] == pytest.approx(metres.to_crs(4326).total_bounds[2])


def test_wrong_boundaries_are_one_line(index):
    """No polygon, three numbers, a word."""
    for clip, words in ((shapely.Point(0, 0), "no polygon"), ((1.0, 2.0, 3.0), "a box is"), ("town", "str")):
        with pytest.raises(ValueError, match=words):
            index.cells(clip=clip)


def test_planes_and_no_objects():
    """The CRS of the plane; none where there is none; empty frames with all columns."""
    plane = dtoss.build([1, 2], [[0.0, 0.0], [1.0, 1.0]], crs="EPSG:32610").cells()
    assert plane.crs.to_epsg() == 32610
    bare = dtoss.build([1, 2], [[0.0, 0.0], [1.0, 1.0]], crs="none")
    assert bare.cells().crs is None
    assert bare.cells().geometry.area.sum() == pytest.approx(bare.cells()["area"].sum())
    empty = dtoss.build([], np.zeros((0, 2)))
    assert list(empty.cells()) == ["id", "objects", "area", "neighbours", "partition", "geometry"]
    assert len(empty.cells()) == len(empty.objects()) == 0
    sphere = dtoss.build([1, 2], np.array([[5e5, 4e6], [6e5, 4e6]]), crs="EPSG:32610", metric="sphere")
    assert sphere.cells().crs.to_epsg() == 4326
    assert sphere.objects().crs.to_epsg() == 32610
