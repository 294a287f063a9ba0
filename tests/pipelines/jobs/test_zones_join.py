"""The join of zones in Spark says what the index says in process, row for row."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
import shapely

import dtoss
from dtoss.errors import InputError, StoreError
from pipelines.zones_join import ROWS, ZoneAsk, answerer, within_join
from tests.dtoss.scenes import PARTITIONS
from tests.dtoss.snapshots.damaged_stores import stored

N = 3000
FIJI = shapely.Polygon([(177.0, -20.0), (-178.0, -20.0), (-178.0, -15.0), (177.0, -15.0)])
POLE = shapely.Polygon([(0, 70), (90, 70), (180, 70), (-90, 70)])
OUTER, INNER = shapely.box(0, 0, 30, 30), shapely.box(5, 5, 15, 15)
HOLED = OUTER.difference(INNER)
PARTS = shapely.MultiPolygon([shapely.box(-40, -40, -20, -20), shapely.box(-30, -30, -10, -10)])
NOWHERE = shapely.box(-0.0002, -0.0002, -0.0001, -0.0001)
ZONES = [FIJI, POLE, OUTER, INNER, HOLED, PARTS, OUTER, NOWHERE, None, shapely.Polygon()]
NAMES = ["fiji", "pole", "outer", "inner", "holed", "parts", "outer", "nowhere", None, "empty"]


def table_of(rng, plane):
    """Objects everywhere, many in the zones, some on their corners and edges."""
    wide = rng.uniform([-180.0, -90.0], [180.0, 90.0], (N, 2))
    wide[: N // 2] = rng.integers(-45, 46, (N // 2, 2))
    wide[N // 2 : N // 2 + 300] = np.stack(
        [rng.choice([178.0, -179.0, 180.0, -180.0], 300), rng.uniform(-21, -14, 300)], 1
    )
    wide[-2:] = [[12.0, 90.0], [-180.0, 89.0]]
    return wide


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """(plane, partitions): an index and its store; ids are texts in every other one."""
    made = {}
    for plane in (False, True):
        for number, partitions in enumerate(PARTITIONS):
            rng = np.random.default_rng(partitions)
            ids = rng.permutation(N)
            texts = number % 2 == 1
            index = dtoss.build(
                np.array([f"o{i}" for i in ids.tolist()], dtype=object) if texts else ids,
                table_of(rng, plane),
                crs="none" if plane else None,
                partitions=partitions,
                columns={"even": pa.array(ids % 2 == 0), "zone": ids % 7},
            )
            path = str(tmp_path_factory.mktemp("zones") / "store")
            stored(index, path, kinds={"even": "boolean", "zone": "bigint"})
            made[plane, partitions] = index, path
    return made


@pytest.fixture(scope="module")
def frames(spark):
    """Zones as WKB and as GeoJSON; a row each, in a few partitions."""
    wkb = [None if zone is None else zone.wkb for zone in ZONES]
    text = [None if zone is None else shapely.to_geojson(zone) for zone in ZONES]
    table = pa.table({"name": NAMES, "number": range(10), "geometry": pa.array(wkb, pa.binary()), "text": text})
    return spark.createDataFrame(table).repartition(3)


def rows_of(frame):
    return sorted((tuple(row.values()) for row in frame.toArrow().to_pylist()), key=repr)


def expected(index, by, columns=(), where=None, how="inner", edges="spherical"):
    hits = index.within([zone or shapely.Polygon() for zone in ZONES], columns=columns, where=where, edges=edges)
    values = [column.to_pylist() for column in hits.columns.values()]
    found = [(by[q], i, *rest) for q, i, *rest in zip(hits.query.tolist(), hits.id.tolist(), *values, strict=True)]
    if how == "left":
        found += [(by[q], None, *(None for _ in columns)) for q in range(10) if q not in hits.query]
    return sorted(found, key=repr)


def by_tasks(store, rows=ROWS, **asked):
    """The batches of the zones' hits as tasks give them, without Spark: zones two at a time."""
    wkb = pa.array([None if zone is None else zone.wkb for zone in ZONES], pa.binary())
    asked = {"how": "inner", "columns": (), "where": None, "edges": "spherical"} | asked
    ask = ZoneAsk(store, dtoss.open(store).snapshot, "touch", names=("zone", "id", *asked["columns"]), **asked)
    zones = pa.table({"zone": range(10), "shape": wkb}).to_batches(max_chunksize=2)
    return list(answerer(ask, rows)(iter(zones)))


@pytest.mark.parametrize("partitions", PARTITIONS)
@pytest.mark.parametrize("plane", [False, True], ids=["sphere", "plane"])
def test_tasks_say_what_the_index_says(stores, plane, partitions):
    """Across the antimeridian, round a pole, nested, overlapping, one twice, with holes and parts, missing."""
    index, store = stores[plane, partitions]
    wanted = expected(index, list(range(10)))
    assert len({zone for zone, _ in wanted}) == (6 if plane else 7)
    assert sorted((tuple(row.values()) for one in by_tasks(store) for row in one.to_pylist()), key=repr) == wanted


MORE = pytest.mark.deep("all numbers of partitions in Spark; tasks are run for each without it")


@pytest.mark.parametrize(
    ("plane", "partitions"),
    [
        pytest.param(plane, partitions, marks=() if (plane, partitions) in ((False, 7), (True, 64)) else MORE)
        for plane in (False, True)
        for partitions in PARTITIONS
    ],
)
def test_as_the_index_says(stores, frames, plane, partitions):
    """What tasks say comes from all of them, once."""
    index, store = stores[plane, partitions]
    joined = within_join(frames, store, by="number", edges="spherical")
    assert [field.name for field in joined.schema.fields] == ["zone", "id"]
    assert rows_of(joined) == expected(index, list(range(10)))


def test_names_columns_conditions_and_zones_without_hits(stores, frames):
    """GeoJSON says the same as WKB; rows of one name are apart; an attribute called zone has another name here."""
    for plane, how, where in ((False, "inner", "even and zone < 5"), (False, "left", None), (True, "left", "even")):
        index, store = stores[plane, 7]
        names = ["x", "y"] if plane else ["lon", "lat"]
        columns = ["zone", "even", *names]
        joined = within_join(
            frames,
            store,
            by="name",
            geometry="text",
            columns=columns,
            where=where,
            how=how,
            crs=index.crs,
            edges="spherical",
        )
        assert joined.columns == ["zone", "id", "zone_", "even", *names]
        assert rows_of(joined) == expected(index, NAMES, columns, where, how)


def test_hits_come_in_pieces_and_of_a_named_snapshot(stores, frames):
    """Also where a zone has more than a piece; the plan runs when it is asked for, of the snapshot that was current."""
    index, store = stores[False, 2]
    found = by_tasks(store, 50, how="left", columns=("even",))
    assert max(map(len, found)) == 50
    rows = sorted((tuple(row.values()) for one in found for row in one.to_pylist()), key=repr)
    assert rows == expected(index, list(range(10)), ["even"], how="left")
    snapshot = dtoss.open(store).snapshot
    straight = index.within([zone or shapely.Polygon() for zone in ZONES], edges="planar")
    pairs = sorted(zip(straight.query.tolist(), straight.id.tolist(), strict=True), key=repr)
    joined = within_join(frames, store, by="number", snapshot=snapshot)  # straight, as WKB means it
    assert rows_of(joined) == pairs != expected(index, list(range(10)))
    assert rows_of(within_join(frames.limit(0), store, by="number")) == []


def test_what_does_not_fit_is_said_at_once(stores, frames):
    """In one line, before anything runs."""
    _, store = stores[False, 1]
    for wrong, error, says in (
        ({"by": "nmae"}, InputError, "the zones have no column 'nmae'; their columns are name, number, geometry, text"),
        ({"by": "name", "geometry": "number"}, InputError, "column 'number' of the zones is bigint: WKB as binary"),
        ({"by": "name", "how": "outer"}, ValueError, "how is 'outer'"),
        ({"by": "name", "columns": ["odd"]}, ValueError, "column 'odd' is not carried"),
        ({"by": "name", "where": "odd"}, ValueError, "odd"),
        ({"by": "name", "crs": "EPSG:3857"}, ValueError, "transform the zones first"),
        ({"by": "name", "snapshot": "no"}, StoreError, "no"),
    ):
        with pytest.raises(error, match=says):
            within_join(frames, store, **wrong)
    with pytest.raises(StoreError):
        within_join(frames, store + "x", by="name")


@pytest.mark.parametrize(
    ("shape", "says"),
    [
        (shapely.Point(1, 2).wkb, "zone 'bad': a shape of type 'Point' is not searched within"),
        (shapely.box(0, 0, 1, 95).wkb, "zone 'bad': corners of a polygon row"),
        (
            json.dumps({"type": "LineString", "coordinates": [[1, 2], [3, 4]]}),
            "zone 'bad': a shape of type 'LineString'",
        ),
    ],
    ids=range(3),
)
def test_what_is_no_zone_fails_the_job_by_name(spark, stores, shape, says):
    """The line is what a user reads of Spark's pages."""
    from pipelines.spark.session import cause_of

    _, store = stores[False, 1]
    kind = pa.binary() if isinstance(shape, bytes) else pa.string()
    good = OUTER.wkb if isinstance(shape, bytes) else shapely.to_geojson(OUTER)
    frame = spark.createDataFrame(pa.table({"name": ["good", "bad"], "geometry": pa.array([good, shape], kind)}))
    with pytest.raises(Exception, match="zone 'bad'") as error:
        within_join(frame, store, by="name").count()
    assert (cause_of(error.value) or "").startswith(says)
