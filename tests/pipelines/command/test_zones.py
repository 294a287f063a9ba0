"""``dtoss within --polygons``: files of zones in every format give what the index says, and bad ones one line."""

from __future__ import annotations

import csv
import io
import json

import geopandas
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

import dtoss
from pipelines.command.query.query_options import Filter, Form, Zones
from pipelines.command.query.zone_files import print_zones
from pipelines.local_joins.zone_readers import read_zones
from tests.dtoss.answering import answering
from tests.dtoss.snapshots.damaged_stores import stored

HOLED = shapely.Polygon(
    [(9.5, 49.5), (10.5, 49.5), (10.5, 50.5), (9.5, 50.5)], [[(9.9, 49.9), (10.1, 49.9), (10.1, 50.1), (9.9, 50.1)]]
)
PARTS = shapely.MultiPolygon([shapely.box(9.8, 49.8, 10.0, 50.2), shapely.box(9.95, 49.8, 10.2, 50.0)])
FAR = shapely.box(-60.0, -40.0, -50.0, -30.0)
SHAPES = [HOLED, PARTS, FAR, None, HOLED]
NAMES = ["town", "old town", "sea", None, "town"]


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    """A store, and a server of it."""
    rng = np.random.default_rng(0)
    index = dtoss.build(
        np.arange(400), rng.normal([10.0, 50.0], 0.2, (400, 2)), partitions=3, columns={"speed": rng.permutation(400)}
    )
    path = str(tmp_path_factory.mktemp("zones") / "store")
    stored(index, path, kinds={"speed": "bigint"})
    opened = dtoss.open(path)
    with answering(opened, opened.snapshot) as served:
        served.store, served.opened = path, opened
        yield served


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The same zones in every format."""
    folder = tmp_path_factory.mktemp("zones")
    frame = geopandas.GeoDataFrame({"name": NAMES, "size": range(5)}, geometry=SHAPES, crs=4326)
    for suffix in ("geojson", "gpkg", "shp"):
        frame.to_file(folder / f"zones.{suffix}")
    frame.to_parquet(folder / "zones.parquet")
    frame.iloc[:3].to_parquet(folder / "native.parquet", geometry_encoding="geoarrow")
    frame[frame.geometry.notna()].to_file(folder / "zones.fgb", SPATIAL_INDEX="NO")
    return folder


def rows(text):
    return list(csv.reader(io.StringIO(text)))


@pytest.mark.parametrize("name", ["zones.geojson", "zones.gpkg", "zones.shp", "zones.parquet"])
def test_counts_of_every_format(town, files, command, name):
    """In the order of the file, zeros and zones of one name too; the missing one is said."""
    counts = town.opened.count_within(SHAPES).tolist()
    assert counts[0] > counts[1] > 100 > counts[2] == 0
    code, out, err = command("within", "--store", town.store, "--polygons", files / name, "--by", "name", "--count")
    assert (code, err) == (0, "warning: 1 of 5 zones has no geometry and holds nothing\n")
    assert rows(out) == [["zone", "count"], *([n or "", str(c)] for n, c in zip(NAMES, counts, strict=True))]
    _, out, _ = command("within", "--store", town.store, "--polygons", files / name, "--count", "--json")
    wanted = [{"zone": i, "count": count} for i, count in enumerate(counts)]
    assert json.loads(out) == {"snapshot": town.opened.snapshot, "counts": wanted}


@pytest.mark.parametrize(("name", "kept"), [("native.parquet", [0, 1, 2]), ("zones.fgb", [0, 1, 2, 4])])
def test_formats_without_missing_geometries(town, files, command, name, kept):
    """GeoArrow's own polygons in GeoParquet, FlatGeobuf."""
    code, out, err = command("within", "--store", town.store, "--polygons", files / name, "--by", "name", "--count")
    assert (code, err) == (0, "")
    counts = town.opened.count_within(SHAPES)
    assert rows(out)[1:] == [[NAMES[i], str(counts[i])] for i in kept]


@pytest.mark.parametrize("more", [(), ("--where", "speed < 200"), ("--columns", "speed,lon")])
def test_hits_on_stdout_and_in_files(town, files, command, capfd, tmp_path, more):
    """CSV, JSON and three kinds of files say the same; zones are answered some at a time."""
    columns = ["speed", "lon"] if "--columns" in more else []
    where = "speed < 200" if "--where" in more else None
    hits = town.opened.within(SHAPES, where=where, columns=columns)
    table = {"zone": [NAMES[q] for q in hits.query.tolist()], "id": hits.id.tolist()}
    table |= {name: column.to_pylist() for name, column in hits.columns.items()}
    wanted = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    ask = ("within", "--polygons", files / "zones.geojson", "--by", "name", *more)

    def asked(as_json=False, out=None):
        more = [] if out is None else ["--out", out]
        ran = command(*ask, "--store", town.store, *more, *(["--json"] if as_json else []))
        assert ran.code == 0
        return ran.out, ran.err

    def seven_at_a_time(as_json=False, out=None):
        zones = Zones(polygons=str(files / "zones.geojson"), by="name", edges="spherical", out=out)
        print_zones(town.opened, zones, Filter(tuple(columns), where), Form(as_json), hits_at_a_time=7)
        return capfd.readouterr()

    for printed in (asked, seven_at_a_time):
        assert json.loads(printed(as_json=True)[0])["hits"] == wanted
        assert rows(printed()[0]) == [list(table), *([str(value) for value in one.values()] for one in wanted)]
        for suffix in ("parquet", "csv", "jsonl"):
            target = str(tmp_path / f"out.{suffix}")
            out, err = printed(out=target)
            assert out == ""
            assert err.startswith(f"{len(wanted)} rows in {target}\n")
        assert pq.read_table(tmp_path / "out.parquet").to_pylist() == wanted
        assert [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()] == wanted
        assert len(rows((tmp_path / "out.csv").read_text())) == len(wanted) + 1
    assert command(*ask, "--url", town.url)[1] == command(*ask, "--store", town.store)[1]
    counted = [
        command(*ask[:5], "--count", "--url", town.url)[1],
        command(*ask[:5], "--count", "--store", town.store)[1],
    ]
    assert counted[0] == counted[1]


def test_the_first_rows_and_an_attribute_that_is_called_zone(files, command, capfd, tmp_path):
    """Over the ends of batches, too; the note says of how many."""
    index = dtoss.build(
        np.arange(9), np.full((9, 2), [9.97, 49.85]), columns={"zone": np.arange(9) * 7, "zone_": np.ones(9, int)}
    )
    path = str(tmp_path / "store")
    stored(index, path, kinds={"zone": "bigint", "zone_": "bigint"})
    ask = ("within", "--store", path, "--polygons", files / "zones.geojson", "--columns", "zone")
    code, *printed = command(*ask, "--limit", 11)
    assert code == 0
    zones = Zones(polygons=str(files / "zones.geojson"), edges="spherical")
    print_zones(dtoss.open(path), zones, Filter(("zone",)), Form(limit=11), hits_at_a_time=4)
    for out, err in (printed, capfd.readouterr()):
        assert rows(out)[:2] == [["zone", "id", "zone_"], ["0", "0", "0"]]
        assert [row[:2] for row in rows(out)[9:]] == [["0", "8"], ["1", "0"], ["1", "1"]]
        assert "the first 11 of 27 hits: --limit 11" in err


def test_edges(town, files, command, tmp_path):
    """Straight ones where they are asked for, of a server too; those of a box are what they are."""
    wide = {"type": "Polygon", "coordinates": [[[-40, 50], [60, 50], [60, 51], [-40, 51], [-40, 50]]]}
    (tmp_path / "wide.geojson").write_text(json.dumps(wide))
    counts = []
    for edges in ("spherical", "planar"):
        ask = ("within", "--polygons", tmp_path / "wide.geojson", "--count", "--edges", edges)
        out = command(*ask, "--store", town.store)[1]
        assert out == command(*ask, "--url", town.url)[1]
        one = command(
            "within", "--polygon", tmp_path / "wide.geojson", "--count", "--edges", edges, "--store", town.store
        )[1]
        assert rows(out)[1] == ["0", one.strip()]
        counts.append(int(one))
    assert counts == [0, int(town.opened.count_box([-40, 50, 60, 51])[0])]
    assert counts[1] > 100
    meant = command("within", "--polygon", tmp_path / "wide.geojson", "--count", "--store", town.store)
    assert (int(meant[1]), meant[2]) == (counts[1], "")
    far = {"type": "Polygon", "coordinates": [[[-100, -40], [100, -40], [100, 70], [-100, 70]]]}
    (tmp_path / "far.geojson").write_text(json.dumps(far))
    code, out, err = command("within", "--polygon", tmp_path / "far.geojson", "--count", "--store", town.store)
    assert (code, int(out)) == (0, 400)
    assert err == (
        "warning: an edge from longitude -100 to 100 spans 200 degrees: it goes through longitude 0, as GeoJSON says; "
        "edges='spherical' goes the short way, over the antimeridian\n"
    )
    code, _, err = command("within", "--box", 1, 2, 3, 4, "--edges", "planar", "--store", town.store)
    assert code == 2
    assert "--edges is for --polygon and --polygons" in err


def test_counts_in_a_file_and_names_of_several_kinds(town, command, tmp_path):
    """Numbers beside texts are texts, lists JSON; names that are all missing are so."""
    shape = json.loads(shapely.to_geojson(HOLED))
    names = [7, "seven", [1, 2], None]
    features = [{"type": "Feature", "geometry": shape, "properties": {"a": name, "b": None}} for name in names]
    path = tmp_path / "mixed.json"
    path.write_text("\ufeff" + json.dumps({"type": "FeatureCollection", "features": features}), encoding="utf-8")
    ask = ("within", "--store", town.store, "--polygons", path, "--count", "--out", tmp_path / "out.parquet")
    assert command(*ask, "--by", "a")[0] == 0
    found = pq.read_table(tmp_path / "out.parquet")
    assert found["zone"].to_pylist() == ["7", "seven", "[1, 2]", None]
    assert found.schema.types == [pa.large_string(), pa.int64()]
    assert command(*ask, "--by", "b")[0] == 0
    assert pq.read_table(tmp_path / "out.parquet")["zone"].to_pylist() == [None] * 4


def test_one_shape_and_no_features_and_heights(town, command, tmp_path):
    """A geometry or a feature by itself is one zone; an empty collection none."""
    shape = json.loads(shapely.to_geojson(shapely.force_3d(PARTS, 5.0)))
    (count,) = town.opened.count_within([PARTS]).tolist()
    for held, wanted in (
        (shape, [["0", str(count)]]),
        ({"type": "Feature", "properties": None, "geometry": shape}, [["0", str(count)]]),
        ({"type": "FeatureCollection", "features": []}, []),
    ):
        (tmp_path / "one.geojson").write_text(json.dumps(held))
        asked = ("within", "--store", town.store, "--polygons", tmp_path / "one.geojson")
        assert rows(command(*asked, "--count")[1]) == [["zone", "count"], *wanted]
        code, out, _ = command(*asked)
        assert code == 0
        assert rows(out)[0] == ["zone", "id"]
        assert len(rows(out)) == 1 + (count if wanted else 0)


def feature(geometry, **properties):
    return {"type": "Feature", "geometry": geometry, "properties": properties}


def collection(*features, **more):
    return json.dumps({"type": "FeatureCollection", "features": list(features), **more})


RING = [[9, 49], [11, 49], [11, 51], [9, 49]]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", ": it is not JSON: "),
        ("[" * 100_000, "nests too deep"),
        ("7", "feature 1: it is of type int, and an object of GeoJSON is wanted"),
        ('{"type": "FeatureCollection"}', "without a list of features"),
        ('{"type": "FeatureCollection", "features": [5]}', "feature 1: it is of type int"),
        (
            collection(feature({"type": "Point", "coordinates": [1, 2]})),
            "zone 0: a shape of type 'Point' is not searched",
        ),
        (
            collection(feature(None), feature({"type": "LineString", "coordinates": [[1, 2], [3, 4]]})),
            "zone 1: a shape",
        ),
        (
            collection(feature({"type": "Polygon", "coordinates": [RING[:2]]})),
            "zone 0: a ring of a polygon has 2 distinct",
        ),
        (collection(feature({"type": "Polygon", "coordinates": [[1, 2]]})), "zone 0: "),
        (
            collection(feature({"type": "Polygon", "coordinates": [[["a", 2]]]})),
            "zone 0: the corners of a polygon are not",
        ),
        (collection(feature({"type": "Polygon", "coordinates": 5})), "zone 0: coordinates of a shape are of type int"),
        (
            collection(feature({"type": "Polygon", "coordinates": [[[9, 49], [11, 95], [11, 51]]]})),
            "zone 0: corners of a",
        ),
        (collection(feature(None), crs="EPSG:4326"), 'its "crs" has no name'),
        (collection(feature(None), crs={"properties": {"name": 7.5}}), "7.5"),
        (
            collection(feature(None), crs={"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::3857"}}),
            "are in EPSG:3857 and the index in EPSG:4326: transform them first",
        ),
    ],
    ids=range(15),
)
def test_a_file_that_is_none_is_one_line(town, command, tmp_path, text, says):
    """With exit code 2, nothing on stdout."""
    path = tmp_path / "bad.geojson"
    path.write_text(text)
    assert says in command.fails("within", "--store", town.store, "--polygons", path, "--count")


def test_other_files_that_are_none_are_one_line(town, files, command, tmp_path):
    """Nothing there, noise in each format, several layers, a table without polygons, points."""
    pq.write_table(pa.table({"a": [1]}), tmp_path / "plain.parquet")
    for suffix in ("parquet", "gpkg", "shp", "fgb", "txt"):
        (tmp_path / f"noise.{suffix}").write_bytes(b"\x00\x01noise" * 50)
    two = geopandas.GeoDataFrame({"name": ["a"]}, geometry=[HOLED], crs=4326)
    for layer in ("first", "second"):
        two.to_file(tmp_path / "two.gpkg", layer=layer)
    geopandas.GeoDataFrame(geometry=[shapely.Point(1, 2)], crs=4326).to_file(tmp_path / "points.gpkg")
    with pytest.warns(UserWarning, match="'crs' was not provided"):
        geopandas.GeoDataFrame(geometry=[HOLED]).to_file(tmp_path / "bare.gpkg")
    for name, says in (
        ("nothing.geojson", "No such file"),
        ("nothing.gpkg", "there is no such file"),
        ("nothing.parquet", ""),
        ("plain.parquet", "no column of polygons"),
        ("noise.parquet", ""),
        ("noise.gpkg", "nothing that GDAL reads"),
        ("noise.shp", "nothing that GDAL reads"),
        ("noise.fgb", ""),
        ("noise.txt", "nothing that GDAL reads"),
        ("two.gpkg", "2 layers of geometries (first, second)"),
        ("points.gpkg", "zone 0: a shape of type 'Point'"),
        ("bare.gpkg", "name no CRS"),
    ):
        assert says in command.fails("within", "--store", town.store, "--polygons", tmp_path / name, "--count"), name


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--by", "nmae"), "zones have no property 'nmae'; they have name, size; did you mean name?"),
        (("--by", "NAME"), "did you mean name?"),
        (("--by", "qqq"), "zones have no property 'qqq'; they have name, size\n"),
        (("--box", "1", "2", "3", "4"), "one of --box W S E N, --polygon FILE and --polygons FILE is wanted"),
        (("--count", "--columns", "speed"), "--count has no objects whose --columns"),
        (("--columns", "sped"), "column 'sped' is not carried"),
        (("--where", "sped < 3", "--count"), "sped"),
        (("--out", "x.xls"), "--out x.xls ends in .xls: .parquet, .csv or .jsonl is wanted"),
        (("--geojson",), "--geojson is for one --box or --polygon"),
        (("--limit", "3", "--out", "x.csv"), "--limit is for rows on stdout, and --out prints none"),
        (("--out", "x.csv", "--json"), "--json is for stdout"),
    ],
    ids=lambda one: " ".join(one)[:30] if isinstance(one, tuple) else "",
)
def test_what_does_not_fit_is_one_line(town, files, command, more, says):
    """With exit code 2."""
    code, out, err = command("within", "--store", town.store, "--polygons", files / "zones.geojson", *more)
    assert (code, out) == (2, "")
    assert says in err
    for option in (("--by", "name"), ("--out", "x.csv")):
        code, out, err = command("within", "--store", town.store, "--box", 1, 2, 3, 4, *option)
        assert (code, out) == (2, "")
        assert f"{option[0]} is for --polygons FILE" in err


def test_a_projected_store_takes_the_numbers_of_a_file_as_its_own(command, tmp_path):
    """As --polygon does; a file that looks like degrees and names no CRS is refused."""
    rng = np.random.default_rng(3)
    index = dtoss.build(np.arange(100), rng.uniform(4e5, 5e5, (100, 2)), crs="EPSG:32632")
    path = str(tmp_path / "store")
    stored(index, path)
    box = shapely.box(4e5, 4e5, 4.5e5, 5e5)
    (tmp_path / "metres.geojson").write_text(shapely.to_geojson(box))
    found = [
        command("within", "--store", path, option, tmp_path / "metres.geojson", "--count")[1]
        for option in ("--polygon", "--polygons")
    ]
    count = int(index.count_within([box])[0])
    assert found == [f"{count}\n", f"zone,count\n0,{count}\n"]
    (tmp_path / "degrees.geojson").write_text(shapely.to_geojson(HOLED))
    code, _, err = command("within", "--store", path, "--polygons", tmp_path / "degrees.geojson", "--count")
    assert code == 2
    assert "names no CRS, so its numbers are taken in EPSG:32632 of the store, and they look like degrees" in err
    stated = json.loads(shapely.to_geojson(HOLED)) | {"crs": {"type": "name", "properties": {"name": "EPSG:32632"}}}
    (tmp_path / "near.geojson").write_text(json.dumps(stated))
    assert command("within", "--store", path, "--polygons", tmp_path / "near.geojson", "--count")[1].endswith("0,0\n")


def test_files_are_read_without_libraries_of_geometries(files):
    """GeoJSON and GeoParquet: neither GeoPandas nor shapely nor GDAL is loaded."""
    import subprocess
    import sys

    code = (
        "import sys\nfrom pipelines.local_joins.zone_readers import read_zones\n"
        "found = [read_zones(sys.argv[1] + name, 'name') for name in ('/zones.geojson', '/zones.parquet')]\n"
        "assert found[0].names == found[1].names and len(found[0].zones) == 5\n"
        "print({'geopandas', 'shapely', 'pyogrio'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(files)], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
    one, other = read_zones(str(files / "zones.geojson")), read_zones(str(files / "zones.gpkg"))
    assert np.array_equal(one.zones.rings.corners, other.zones.rings.corners)
