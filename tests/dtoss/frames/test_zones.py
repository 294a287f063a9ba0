"""Zones: frames of polygons give the answers of arrays, and those of brute force in rational numbers."""

from __future__ import annotations

from contextlib import suppress

import geopandas
import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st

import dtoss
from dtoss.frames.polygon_frames import polygons_of_wkb
from dtoss.geometry.polygon_tables import areas_of
from dtoss.geometry.polygons import as_polygons, polygons_in, rings_together
from dtoss.geometry.space import space_of
from tests import oracles
from tests.dtoss.scenes import PARTITIONS
from tests.dtoss.strategies import lonlat, planar
from tests.examples import examples

SPHERE, PLANE = space_of(), space_of("none")


def ring_of(rng, positions, plane):
    """Three to nine corners, some of them on objects; it may cross itself."""
    v = int(rng.integers(3, 10))
    if plane:
        ring = rng.choice([-1000.0, -3, 0, 2, 5, 9, 65, 1e6], (v, 2))
    else:
        lon0, lat0 = rng.choice([-180.0, 0, 30, 179]), rng.choice([-90.0, -40, 0, 37.7, 90])
        size = rng.choice([1e-4, 1.0, 30.0, 60.0])
        ring = np.stack([lon0 + rng.integers(-3, 4, v) * size / 3, lat0 + rng.integers(-3, 4, v) * size / 3], axis=1)
        ring[:, 1] = np.where(ring[:, 1] > 90, 180 - ring[:, 1], ring[:, 1])
        ring[:, 1] = np.where(ring[:, 1] < -90, -180 - ring[:, 1], ring[:, 1])
        ring[:, 0] = (ring[:, 0] + 180) % 360 - 180
    if len(positions) and rng.uniform() < 0.7:
        some = rng.integers(0, len(positions), v)
        ring = np.where(rng.uniform(size=(v, 1)) < 0.6, positions[some], ring)
    return ring


def polygon_of(rng, positions, plane, edges="spherical"):
    """Rings that both we and the oracle take."""
    space = PLANE if plane else SPHERE
    while True:
        rings = [ring_of(rng, positions, plane) for _ in range(int(rng.integers(1, 3)))]
        try:
            as_polygons({"type": "Polygon", "coordinates": rings}, space, edges)
        except ValueError:
            continue
        corners = np.concatenate([space.vectors(ring) for ring in rings])
        if (
            plane or edges == "planar" or (corners @ corners.mean(axis=0)).min() >= 1e-9
        ):  # the oracle wants the mean corner as the middle
            return rings


def shapely_of(polygons):
    """A MultiPolygon where there are several, a Polygon of one, None of none."""
    made = [shapely.Polygon(rings[0], rings[1:]) for rings in polygons]
    return None if not made else made[0] if len(made) == 1 else shapely.MultiPolygon(made)


def frames_of(shapes, crs):
    """The same zones in everything that holds zones."""
    series = geopandas.GeoSeries(shapes, crs=crs)
    wkb = [None if shape is None else shape.wkb for shape in shapes]
    yield "GeoDataFrame", geopandas.GeoDataFrame({"name": range(len(shapes))}, geometry=series)
    yield "GeoSeries", series
    yield "list", list(shapes)
    yield "array", np.array([*shapes, None], dtype=object)[:-1]
    yield "WKB", wkb
    yield "pandas", pandas.DataFrame({"name": range(len(shapes)), "geom": wkb})
    yield (
        "polars",
        polars.DataFrame({"name": range(len(shapes)), "geometry": wkb}, schema_overrides={"geometry": polars.Binary}),
    )
    yield "Arrow", pa.table({"name": range(len(shapes)), "shape": pa.array(wkb, pa.binary())})
    yield "GeoArrow", series.to_arrow(geometry_encoding="WKB")
    if {one.geom_type for one in shapes if one is not None} in ({"Polygon"}, {"MultiPolygon"}):
        yield (
            "GeoArrow polygons",
            pa.table(geopandas.GeoDataFrame(geometry=series).to_arrow(geometry_encoding="geoarrow")),
        )


@settings(max_examples=examples(60, 8), deadline=None)
@given(st.data())
def test_as_the_oracle_says(data):
    """Zones that overlap, lie in one another, repeat, have holes and parts, or are missing; corners on objects."""
    plane = data.draw(st.booleans())
    positions = data.draw(planar() if plane else lonlat())
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    ids = rng.permutation(len(positions)).tolist()
    if texts := data.draw(st.booleans()):
        ids = [f"é{i}" if i % 2 else f"z{i}" for i in ids]
    even = np.arange(len(ids)) % 2 == 0
    index = dtoss.build(
        np.array(ids, dtype=object if texts and ids else np.int64),
        positions,
        crs="none" if plane else None,
        partitions=data.draw(st.sampled_from(PARTITIONS)),
        columns={"even": pa.array(even)},
    )
    edges = data.draw(st.sampled_from(["spherical", "planar"]))
    parts = [int(rng.choice([0, 1, 1, 1, 2, 3])) for _ in range(4)]
    zones = [[polygon_of(rng, positions, plane, edges) for _ in range(count)] for count in parts]
    zones.append(zones[0])
    space = PLANE if plane else SPHERE
    held = [oracles.in_zone(space, polygons, positions, edges) for polygons in zones]
    expected = [
        (q, i) for q, inside in enumerate(held) for i in sorted(i for i, h in zip(ids, inside, strict=True) if h)
    ]
    shapes = [shapely_of(polygons) for polygons in zones]
    threads = int(rng.integers(1, 3))
    kinds = dict(frames_of(shapes, None if plane else "EPSG:4326"))
    if any(shape is not None for shape in shapes):
        name = data.draw(st.sampled_from(sorted(kinds)))
        hits = index.within(kinds[name], threads=threads, edges=edges)
        assert list(zip(hits.query.tolist(), hits.id.tolist(), strict=True)) == expected
        counts = index.count_within(kinds[name], threads=threads, edges=edges)
        assert counts.tolist() == [sum(inside) for inside in held]
    frame = kinds["GeoDataFrame"]
    assert index.count_within(frame, where="even", edges=edges).tolist() == [
        int((even & np.array(inside, bool)).sum()) for inside in held
    ]
    wanted = [(q, i) for q, i in expected if even[ids.index(i)]]
    hits = index.within(frame, where="even", columns=["even"], edges=edges)
    assert list(zip(hits.query.tolist(), hits.id.tolist(), strict=True)) == wanted
    assert hits.columns["even"].to_pylist() == [True] * len(wanted)
    assert index.within(frame, having="even", edges=edges).id.tolist() == [i for _, i in wanted]


@pytest.fixture(scope="module")
def globe():
    rng = np.random.default_rng(2)
    n = 30_000
    positions = np.stack([rng.uniform(-180, 180, n), np.degrees(np.arcsin(rng.uniform(-1, 1, n)))], axis=1)
    return dtoss.build(np.arange(n), positions, partitions=7), positions


def blob(rng, corners, size=20.0):
    """A ring of many corners round a place, at the antimeridian or a pole now and then."""
    lon, lat = rng.choice([0.0, 179.0, 77.0]), rng.choice([-89.0, 0.0, 40.0])
    turn = np.sort(rng.uniform(0, 2 * np.pi, corners))
    far = size * (1.0 + 0.3 * np.sin(7 * turn) + rng.uniform(-0.2, 0.2, corners))
    east, north = np.radians(far) * np.cos(turn), np.radians(far) * np.sin(turn)
    up = SPHERE.vectors(np.array([[lon, lat]]))[0]
    aside = np.cross([0.0, 0.0, 1.0], up)
    aside /= np.linalg.norm(aside)
    vectors = up + east[:, None] * aside + north[:, None] * np.cross(up, aside)
    return SPHERE.positions(vectors / np.linalg.norm(vectors, axis=1)[:, None])


@pytest.mark.parametrize("corners", [3, 40, 3000])
def test_many_corners_and_many_objects(globe, corners):
    """As each polygon by itself, place by place: strips of many edges, blocks and runs that lie apart."""
    from dtoss.geometry.point_in_polygon import inside

    index, positions = globe
    rng = np.random.default_rng(corners)
    rings = [blob(rng, corners, size) for size in (20.0, 5.0, 0.5, 35.0)]
    zones = [{"type": "Polygon", "coordinates": [ring]} for ring in rings]
    zones.append({"type": "MultiPolygon", "coordinates": [[rings[0]], [rings[3]]]})
    vectors = SPHERE.vectors(positions)
    held = [np.any([inside(vectors, p) for p in as_polygons(zone, SPHERE, "spherical")], axis=0) for zone in zones]
    counts = index.count_within(zones, edges="spherical")
    assert counts.tolist() == [int(one.sum()) for one in held]
    assert counts[0] > 100
    hits = index.within(zones, threads=2, edges="spherical")
    for row, one in enumerate(held):
        assert hits.id[hits.query == row].tolist() == np.flatnonzero(one).tolist()


def test_objects_on_edges_and_corners_of_zones_that_tile_the_plane():
    """A lattice of objects, zones along its lines: each object on a border is in all zones that share it."""
    xs, ys = np.meshgrid(np.arange(41.0), np.arange(31.0))
    positions = np.stack([xs.ravel(), ys.ravel()], axis=1)
    index = dtoss.build(np.arange(len(positions)), positions, crs="none", partitions=7)
    boxes = [shapely.box(x, y, x + 10, y + 10) for x in range(0, 40, 10) for y in range(0, 30, 10)]
    assert index.count_within(boxes).tolist() == [121] * 12
    leaning = shapely.Polygon([(0, 0), (30, 30), (30, 0)])
    assert index.count_within([leaning]).tolist() == [31 * 32 // 2]
    assert len(np.unique(index.within(boxes).id)) == len(positions)


def test_a_place_an_ulp_beside_an_edge_of_a_zone():
    """Rational numbers decide, and once for a zone whose parts share the edge."""
    x = np.linspace(0.1, 0.9, 50)
    y = x / 3.0
    beside = np.stack([np.tile(x, 3), np.concatenate([y, np.nextafter(y, 9), np.nextafter(y, -9)])], axis=1)
    index = dtoss.build(np.arange(150), beside, crs="none", partitions=2)
    over = [(0, 0), (1, 1 / 3), (1, 1), (0, 1)]
    under = [(0, 0), (1, 1 / 3), (1, 0)]
    for ring in (over, under):
        held = oracles.in_polygon(PLANE, [ring], beside)
        assert 0 < sum(held) < 150
        assert index.within([shapely.Polygon(ring)]).id.tolist() == np.flatnonzero(held).tolist()
    both = shapely.MultiPolygon([shapely.Polygon(over), shapely.Polygon(under)])
    assert index.count_within([both]).tolist() == [150]
    assert index.within([both]).id.tolist() == list(range(150))


def test_one_of_a_frame_and_all_of_it_at_once_are_the_same(globe):
    """Tables of many polygons are cut where they grow large; rows keep their numbers."""
    from dtoss.queries import polygon_queries as module

    index, _ = globe
    rng = np.random.default_rng(1)
    frame = geopandas.GeoSeries([shapely.Polygon(blob(rng, 12, 8.0)) for _ in range(40)], crs="EPSG:4326")
    frame[3] = None
    frame[17] = shapely.Polygon()
    whole = index.within(frame, edges="spherical")
    before, module.CORNERS = module.CORNERS, 30
    try:
        assert index.within(frame, edges="spherical") == whole
        assert index.count_within(frame, edges="spherical").tolist() == np.bincount(whole.query, minlength=40).tolist()
    finally:
        module.CORNERS = before
    single = [index.within(frame.iloc[i : i + 1], edges="spherical").id.tolist() for i in range(40)]
    assert [whole.id[whole.query == i].tolist() for i in range(40)] == single
    assert single[3] == single[17] == []


def test_no_zones_and_none_that_hold_anything(globe):
    """An empty frame, all missing, nothing inside; an empty index."""
    index, _ = globe
    empty = geopandas.GeoSeries([], crs="EPSG:4326")
    assert index.count_within(empty).tolist() == []
    assert len(index.within(empty)) == 0
    missing = geopandas.GeoSeries([None, shapely.Polygon(), shapely.MultiPolygon()], crs="EPSG:4326")
    assert index.count_within(missing).tolist() == [0, 0, 0]
    assert index.within(missing, columns=[]).id.tolist() == []
    nothing = dtoss.build(np.zeros(0, np.int64), np.zeros((0, 2)))
    assert nothing.count_within([shapely.box(0, 0, 1, 1)]).tolist() == [0]
    assert nothing.within([shapely.box(0, 0, 1, 1)]).id.tolist() == []


def test_zones_in_another_crs_are_never_transformed(globe):
    """They are refused with the way out; names of the same CRS are the same."""
    index, _ = globe
    box = shapely.box(0, 0, 20, 20)
    count = index.count_within([box]).tolist()
    assert index.count_within(geopandas.GeoSeries([box], crs="OGC:CRS84")).tolist() == count
    says = r"the zones are in EPSG:3857 and the index in EPSG:4326: .*to_crs\('EPSG:4326'\)"
    with pytest.raises(ValueError, match=says):
        index.within(geopandas.GeoSeries([box], crs=3857))
    with pytest.raises(ValueError, match=r"the zones name no CRS .*\.set_crs\('EPSG:4326'\)"):
        index.count_within(geopandas.GeoDataFrame(geometry=[box]))
    plane = dtoss.build([1, 2], [[0.0, 0.0], [5.0, 5.0]], crs="none")
    assert plane.count_within(geopandas.GeoSeries([shapely.box(0, 0, 1, 1)])).tolist() == [1]
    with pytest.raises(ValueError, match="says that they are in its plane"):
        plane.count_within(geopandas.GeoSeries([box], crs=4326))


@pytest.mark.parametrize(
    ("zones", "says"),
    [
        (
            geopandas.GeoSeries([shapely.box(0, 0, 1, 1), shapely.Point(0, 0)], crs=4326),
            "zone 1: a shape of type 'Point'",
        ),
        ([shapely.box(0, 0, 1, 1), shapely.LineString([(0, 0), (1, 1)])], "zone 1: a shape of type 'LineString'"),
        ([shapely.GeometryCollection([shapely.box(0, 0, 1, 1)])], "zone 0: a shape of type 'GeometryCollection'"),
        ([shapely.Point(0, 0).wkb], "zone 0: a shape of type 'Point'"),
        ([b"abc"], "zone 0: 3 bytes are not well-known binary"),
        (
            [shapely.box(0, 0, 1, 1), shapely.Polygon([(0, 0), (1, 1), (0, 0)])],
            "zone 1: a ring of a polygon has 2 dist",
        ),
        ([shapely.box(0, 0, 1, 1), shapely.box(0, 0, 1, 91)], "zone 1: corners of a polygon row .* is"),
        (
            [{"type": "Polygon", "edges": "spherical", "coordinates": [[(0, 0), (120, 0), (180, 0), (-120, 0)]]}],
            "fit in",
        ),
        (
            [{"type": "Polygon", "edges": "vincenty", "coordinates": [[(0, 0), (120, 0), (120, 9)]]}],
            "edges is 'vincenty'",
        ),
        (pandas.DataFrame({"a": [1], "b": [2]}), "no column of polygons: .* its columns are a, b"),
        (pa.table({"a": [1]}), "no column of polygons"),
        (geopandas.GeoDataFrame({"a": [1]}), "no active geometry"),
    ],
    ids=range(12),
)
def test_what_is_no_zone_is_said(globe, zones, says):
    """In one line, with the number of the row."""
    for ask in (globe[0].within, globe[0].count_within):
        with pytest.raises(ValueError, match=says) as error:
            ask(zones)
        assert "\n" not in str(error.value)


def test_rings_that_cross_themselves_hold_what_lies_inside_of_an_odd_number():
    """A bow tie holds both lobes, a pentagram not its middle, rings that overlap not what they share."""
    index = dtoss.build([1, 2, 3], [[1.0, 2.0], [3.0, 2.0], [2.0, 2.0]], crs="none")
    bow = shapely.Polygon([(0, 0), (4, 4), (4, 0), (0, 4)])
    assert index.within([bow]).id.tolist() == [1, 2, 3]  # the third on the crossing
    turn = np.radians(90 + 144 * np.arange(5))
    star = shapely.Polygon(np.stack([2 + 4 * np.cos(turn), 2 + 4 * np.sin(turn)], axis=1))
    assert index.within([star]).id.tolist() == []
    sharing = shapely.Polygon([(0, 0), (4, 0), (4, 4), (0, 4)], [[(1.5, 1), (5, 1), (5, 3), (1.5, 3)]])
    assert index.within([sharing]).id.tolist() == [1]


@settings(max_examples=examples(200), deadline=None)
@given(st.data())
def test_wkb_as_shapely_writes_and_reads_it(data):
    """Byte orders, heights, measures, SRIDs; damaged bytes are one line or the same polygon."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    polygons = [
        [rng.integers(-9, 9, (int(rng.integers(3, 6)), 2)).astype(float) for _ in range(int(rng.integers(1, 3)))]
        for _ in range(int(rng.integers(0, 4)))
    ]
    shape = shapely.MultiPolygon([shapely.Polygon(rings[0], rings[1:]) for rings in polygons])
    if len(polygons) == 1 and rng.uniform() < 0.5:
        shape = shape.geoms[0]
    if rng.uniform() < 0.5:
        shape = shapely.force_3d(shape, 7.0)
    shape = shapely.set_srid(shape, 4326)
    how = {"byte_order": int(rng.integers(0, 2)), "include_srid": bool(rng.integers(0, 2)), "flavor": "extended"}
    if not how["include_srid"] and rng.uniform() < 0.5:
        how["flavor"] = "iso"
    found = polygons_of_wkb(shapely.to_wkb(shape, **how))
    parts = [part for part in shapely.get_parts(shape) if not part.is_empty]
    wanted = [[shapely.get_coordinates(ring).tolist() for ring in shapely.get_rings(part)] for part in parts]
    assert [[ring.tolist() for ring in rings] for rings in found] == wanted
    damaged = bytearray(shapely.to_wkb(shape, **how))
    for _ in range(2):
        damaged[int(rng.integers(0, len(damaged)))] = int(rng.integers(0, 256))
    with suppress(ValueError):
        polygons_of_wkb(bytes(damaged[: int(rng.integers(0, len(damaged) + 1))]))


@settings(max_examples=examples(100), deadline=None)
@given(st.data())
def test_polygons_at_once_are_those_one_by_one(data):
    """Corners repeated, rings closed or not, both names of the antimeridian."""
    plane = data.draw(st.booleans())
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    space = PLANE if plane else SPHERE
    shapes = []
    for _ in range(int(rng.integers(1, 4))):
        polygons = [polygon_of(rng, np.zeros((0, 2)), plane) for _ in range(int(rng.integers(0, 3)))]
        for rings in polygons:
            for i, ring in enumerate(rings):
                doubled = np.repeat(ring, rng.integers(1, 3, len(ring)), axis=0)
                rings[i] = np.concatenate([doubled, doubled[:1]]) if rng.uniform() < 0.5 else doubled
        shapes.append(polygons)
    edges = data.draw(st.sampled_from(["spherical", "planar", "vectors"]))
    found = polygons_in(rings_together(shapes, edges), space)
    for polygons, made in zip(shapes, found, strict=True):
        single = as_polygons({"type": "MultiPolygon", "coordinates": polygons}, space, edges)
        assert [p.corners.tolist() for p in made] == [p.corners.tolist() for p in single]
        assert [p.first.tolist() for p in made] == [p.first.tolist() for p in single]
        np.testing.assert_allclose([p.middle for p in made], [p.middle for p in single], rtol=1e-9, atol=1e-15)


def test_strips_list_each_edge_where_it_comes_into_them():
    """And not many more edges in all than there are."""
    rng = np.random.default_rng(5)
    polygons = [as_polygons(blob(rng, corners), SPHERE)[0] for corners in (5, 300, 4000)]
    areas = areas_of(polygons)
    assert len(areas.edges) < 12 * len(areas.begins)
    assert np.diff(areas.listed).min() >= 1
    assert sorted(set(areas.edges.tolist())) == list(range(len(areas.begins)))


def test_planar_edges_are_straight_in_longitude_and_latitude(globe):
    """As GeoPandas decides, each place: wide boxes, leaning edges, parts up to the antimeridian."""
    index, positions = globe
    rng = np.random.default_rng(4)
    shapes = [shapely.box(-60, 50, 60, 60), shapely.box(-80, -70, 80, 80), shapely.box(100, -89, 180, -60)]
    shapes += [shapely.Polygon(rng.uniform([-70, -60], [70, 75], (3, 2))) for _ in range(20)]
    shapes.append(shapely.MultiPolygon([shapely.box(170, -20, 180, 10), shapely.box(-180, -20, -170, 10)]))
    points = shapely.points(positions)
    counts = index.count_within(shapes, edges="planar")
    hits = index.within(geopandas.GeoSeries(shapes, crs=4326), edges="planar")
    for row, shape in enumerate(shapes):
        held = np.flatnonzero(shapely.intersects(shape, points))
        found = hits.id[hits.query == row]
        assert found.tolist() == held.tolist()
        assert counts[row] == len(found)
    assert index.count_within(shapes).tolist() == counts.tolist()  # what geometries of a frame mean
    spherical = index.count_within(shapes[:2], edges="spherical")
    assert (spherical != counts[:2]).all()
    assert sum(len(hits) for hits in index.within_batches(shapes, edges="planar", batch_size=100)) == counts.sum()
    array = np.array([[-60.0, 50.0], [60.0, 50.0], [60.0, 60.0], [-60.0, 60.0]])
    assert index.count_within(array, edges="planar").tolist() == counts[:1].tolist()
    with pytest.raises(ValueError, match="edges is 'flat': one of 'spherical', 'planar' is wanted"):
        index.count_within(shapes, edges="flat")
    plane = dtoss.build([1, 2], [[0.0, 500.0], [5.0, 5.0]], crs="none")
    assert plane.count_within([shapely.box(0, 0, 1, 1000)], edges="planar").tolist() == [1]


def test_a_chain_of_arcs_stays_within_a_tenth_of_a_metre_of_its_edge():
    """Measured between its corners, where it is furthest: on edges of all lengths and directions."""
    from dtoss.geometry.distance import EARTH_RADIUS
    from dtoss.geometry.polygons import STRAIGHT_TOLERANCE, chains

    rng = np.random.default_rng(8)
    worst = 0.0
    for size in (1e-4, 0.01, 1.0, 10.0, 60.0):
        for _ in range(30):
            a = rng.uniform([-100, -89], [100, 89])
            b = np.clip(a + rng.uniform(-size, size, 2), [-170, -89.9], [170, 89.9])
            near, _, left = chains(np.array([a, b, [170.0, 0.0]]), np.array([0, 3]))
            corners = near[: int(np.flatnonzero((near == b).all(axis=1))[0]) + 1]
            u, v = SPHERE.vectors(corners[:-1]), SPHERE.vectors(corners[1:])
            normal = np.cross(u, v)
            normal /= np.linalg.norm(normal, axis=1)[:, None]
            between = SPHERE.vectors((corners[:-1] + corners[1:]) / 2)
            far = float(np.abs((normal * between).sum(axis=1)).max())
            rounding = 1e-15 / np.linalg.norm(u - v, axis=1).min()
            assert far <= 1.001 * left[0] + rounding
            worst = max(worst, far * EARTH_RADIUS)
    assert 0.02 < worst <= STRAIGHT_TOLERANCE


def test_batches_are_the_hits_piece_by_piece(globe):
    """In order, of any size, a zone over several of them; what is wrong is said at once."""
    index, _ = globe
    rng = np.random.default_rng(6)
    frame = geopandas.GeoSeries([None, *(shapely.Polygon(blob(rng, 9, 15.0)) for _ in range(9))], crs=4326)
    whole = index.within(frame, edges="spherical")
    for size in (1, 7, 100, 1 << 20):
        pieces = list(index.within_batches(frame, batch_size=size, edges="spherical"))
        assert max(map(len, pieces)) <= size
        assert [row for piece in pieces for row in piece] == list(whole)
    with pytest.raises(ValueError, match="batch_size is 0"):
        index.within_batches(frame, edges="spherical", batch_size=0)
    for wrong in ({"columns": ["no"]}, {"where": "no = 1"}, {"having": "no = 1"}):
        with pytest.raises(ValueError, match="no"):
            index.within_batches(frame, edges="spherical", **wrong)
