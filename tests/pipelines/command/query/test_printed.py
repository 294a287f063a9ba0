"""How one answer is printed: GeoJSON, its first rows, and what is told beside it."""

from __future__ import annotations

import json

import numpy as np
import pyproj
import pytest

import dtoss
from tests.pipelines.command.query.without_spark import stored

RNG = np.random.default_rng(17)
FAR = [[180.0, 0.0], [-180.0, 0.0], [7.0, 90.0]]
LONLAT = np.concatenate([RNG.uniform(-0.01, 0.01, (60, 2)), np.zeros((4, 2)), FAR])
N = len(LONLAT)
SPEED = np.where(np.arange(N) % 5 == 0, np.nan, np.arange(N) / 2)
COLUMNS = {"speed": SPEED, "kind": ["bus", "taxi, free"] * 33 + [None]}
STORES = ("EPSG:4326", "EPSG:32631", "EPSG:4269", "none", "sphere of EPSG:32631")


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """Stores of the same objects in several CRS, with texts as ids in one of them."""
    turn = pyproj.Transformer.from_crs("EPSG:4326", "EPSG:32631", always_xy=True)
    near = LONLAT + np.array([3.0, 45.0])
    near[60:] = near[:7] + 0.001
    projected = np.stack(turn.transform(near[:, 0], near[:, 1]), axis=1)
    names = [f"t{number}" for number in range(N)]
    return {
        "EPSG:4326": stored(tmp_path_factory, np.arange(N), LONLAT, columns=COLUMNS),
        "EPSG:4269": stored(tmp_path_factory, names, near, crs="EPSG:4269", columns=COLUMNS),
        "EPSG:32631": stored(tmp_path_factory, np.arange(N), projected, crs="EPSG:32631", columns=COLUMNS),
        "sphere of EPSG:32631": stored(
            tmp_path_factory, np.arange(N), projected, crs="EPSG:32631", metric="sphere", columns=COLUMNS
        ),
        "none": stored(tmp_path_factory, np.arange(N), LONLAT, crs="none"),
    }


def plainly(hits):
    """The rows of hits, in the slow way."""
    rows = []
    for number, (query, key, distance) in enumerate(hits):
        values = {name: column[number].as_py() for name, column in hits.columns.items() if name in COLUMNS}
        rank = sum(one == query for one, _, _ in list(hits)[: number + 1])
        rows.append({"query_id": query, "id": key, "distance": distance, "rank": rank} | values)
    return rows


@pytest.mark.parametrize("way", [[], ["--verify", "no"]])
@pytest.mark.parametrize("kind", STORES[:3] + STORES[4:])
def test_geojson_is_a_point_a_hit(stores, command, kind, way):
    """In degrees of WGS 84, lon first, with the columns that were asked for, and null for what JSON cannot say."""
    index = dtoss.open(stores[kind])
    place = index.parts[0].positions[0]
    at = ["--at", *map(repr, place.tolist())]
    asked = [
        (["knn", "-k", 5], index.knn(place, 5, columns=list(COLUMNS))),
        (["range", "--radius", 700], index.range(place, 700.0, columns=list(COLUMNS))),
    ]
    for words, hits in asked:
        code, out, err = command(*words, *at, "--store", stores[kind], "--columns", "speed,kind", "--geojson", *way)
        assert (code, err) == (0, "")
        document = json.loads(out, parse_constant=lambda word: pytest.fail(word))
        assert (document["type"], document["snapshot"]) == ("FeatureCollection", index.snapshot)
        assert len(document["features"]) == len(hits) > 0
        where = hits.positions
        if kind != "EPSG:4326":
            turn = pyproj.Transformer.from_crs(index.crs, "EPSG:4326", always_xy=True)
            where = np.stack(turn.transform(where[:, 0], where[:, 1]), axis=1)
        for feature, row, lonlat in zip(document["features"], plainly(hits), where.tolist(), strict=True):
            assert feature["geometry"] == {"type": "Point", "coordinates": lonlat}
            row["speed"] = None if np.isnan(row["speed"]) else row["speed"]
            assert feature == {"type": "Feature", "geometry": feature["geometry"], "properties": row}


def test_geojson_of_a_box_and_a_polygon(stores, command, tmp_path):
    """Positions that are asked for are properties, too; an empty answer is a collection without features."""
    index = dtoss.open(stores["EPSG:4326"])
    corners = [[-0.005, -0.005], [0.005, -0.005], [0.005, 0.005], [-0.005, 0.005], [-0.005, -0.005]]
    shape = tmp_path / "shape.geojson"
    shape.write_text(json.dumps({"type": "Polygon", "coordinates": [corners]}))
    for given, hits in (
        (["--box", -0.005, -0.005, 0.005, 0.005], index.box([-0.005, -0.005, 0.005, 0.005], columns=["lat"])),
        (["--polygon", shape], index.within(np.array(corners), columns=["lat"])),
    ):
        code, out, _ = command("within", *given, "--store", stores["EPSG:4326"], "--geojson", "--columns", "lat")
        features = json.loads(out)["features"]
        assert (code, [feature["properties"]["id"] for feature in features]) == (0, hits.id.tolist())
        assert all(one["properties"]["lat"] == one["geometry"]["coordinates"][1] for one in features)
        assert list(features[0]["properties"]) == ["query_id", "id", "distance", "rank", "lat"]
    _, out, _ = command("within", "--box", 50, 50, 51, 51, "--store", stores["EPSG:4326"], "--geojson")
    assert json.loads(out)["features"] == []
    _, out, _ = command(
        "within", "--box", 50, 50, 51, 51, "--store", stores["EPSG:4326"], "--geojson", "--where", "id<0"
    )
    assert json.loads(out)["features"] == []


def test_a_plane_without_a_crs_is_no_place_on_earth(stores, command):
    """The way out is said."""
    said = command.fails("knn", "--at", 0, 0, "--store", stores["none"], "--geojson")
    assert said.startswith("--geojson wants degrees, and this plane has no CRS")


@pytest.mark.parametrize("form", ["csv", "--json", "--geojson"])
@pytest.mark.parametrize("way", [[], ["--verify", "no"]])
def test_a_limit_prints_the_first_rows(stores, command, monkeypatch, form, way):
    """Those that all rows begin with, in each form, and says how many there are, unless it is to be quiet."""
    options = ["--store", stores["EPSG:4326"], "--columns", "kind", *([form] if form != "csv" else []), *way]
    commands = [
        ["knn", "-k", 9, "--at", 0, 0],
        ["range", "--radius", "1km", "--at", 0, 0],
        ["range", "--radius", "1km", "--at", 0, 0, "--where", "kind = 'bus'"],
        ["range", "--radius", "1km", "--at", 0, 0, "--having", "kind = 'bus'"],
        ["range", "--radius", 0, "--at", 0, 0],
        ["within", "--box", -0.01, -0.01, 0.01, 0.01],
    ]

    def rows(out):
        if form == "csv":
            return out.splitlines()[1:]
        document = json.loads(out)
        return document["hits" if form == "--json" else "features"]

    for words in commands:
        _, out, err = command(*words, *options)
        everything = rows(out)
        assert (len(everything) > 3, err) == (True, "")
        for limit in (1, len(everything), len(everything) + 1):
            code, out, err = command(*words, *options, "--limit", limit)
            assert (code, rows(out)) == (0, everything[:limit])
            assert err == (
                f"the first {limit} of {len(everything)} hits: --limit {limit}\n" if limit < len(everything) else ""
            )
            limited = [*words, *options, "--limit", limit]
            for said in ([*limited, "--quiet"], ["-q", *limited]):
                assert command(*said) == (0, out, "")
            monkeypatch.setenv("DTOSS_QUIET", "compiling")  # --quiet says it to what this process starts


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--json", "--geojson"], "--json and --geojson are both given: one of them is wanted"),
        (["--count", "--geojson"], "--geojson is for rows on stdout, and --count prints none: leave one of them out"),
        (["--count", "--limit", "2"], "--limit is for rows on stdout, and --count prints none: leave one of them out"),
        (["--limit", "0"], "--limit is 0: a whole number of at least 1 is wanted"),
        (["--limit", "-2"], "--limit is -2: a whole number of at least 1 is wanted"),
        (["--limit", "two"], "Invalid value for '--limit'"),
    ],
)
def test_what_does_not_go_together(stores, command, options, said):
    """One line each, by both ways."""
    for way in ([], ["--verify", "no"]):
        asked = ("range", "--radius", "1km", "--at", 0, 0, "--store", stores["EPSG:4326"], *options, *way)
        assert command.fails(*asked).startswith(said)


def test_joins_take_neither(stores, command, tmp_path):
    """Their rows go to a file."""
    places = tmp_path / "places.csv"
    places.write_text("id,lon,lat\n1,0,0\n")
    out = tmp_path / "out.csv"
    for option in (["--geojson"], ["--limit", "2"]):
        said = command.fails("knn", "--queries", places, "--out", out, "--store", stores["EPSG:4326"], *option)
        assert said == f"{option[0]} is for rows on stdout, and --queries prints none: leave one of them out"
    joined = ["knn", "--queries", places, "--out", out, "--store", stores["EPSG:4326"], "--max-distance"]
    assert command(*joined, "1km") == (0, "", f"1 rows in {out}\n")
    assert command(*joined, "1km", "--quiet") == (0, "", "")
    assert out.read_text().count("\n") == 2
    assert command(*joined, "5kms")[2].endswith("did you mean km?\n")
