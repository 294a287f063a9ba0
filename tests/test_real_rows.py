"""Real rows that are part of the project: read by our readers, and asked everything in 1, 2, 7 and 64 partitions."""

from __future__ import annotations

import csv
import gzip
import io
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dtoss
from datasets.delimited import delimited
from datasets.earthquakes import SCHEMA, earthquakes
from datasets.tables.fields import Layout
from datasets.tables.format_source import Column, Source
from datasets.tables.standard_rows import collect
from dtoss.geometry.space import space_of
from tests import oracles
from tests.data import SAMPLES

QUAKES, PLACES = SAMPLES / "earthquakes.csv.gz", SAMPLES / "places.tsv"
SPACE = space_of()
PARTITIONS = (1, 2, 7, 64)
QUERIES = np.array(
    [[-117.0, 34.0], [179.99, -20.0], [-179.99, 52.0], [0.0, 90.0], [3.0, -90.0], [2.35, 48.86], [-150.0, 61.0]]
)
RING = [[-125.0, 32.0], [-114.0, 32.0], [-100.0, 50.0], [-124.0, 42.0]]


@dataclass(frozen=True)
class Rows:
    """A set as the csv module reads it: what the other readers are held against."""

    ids: list[Any]
    positions: Any
    columns: dict[str, list[Any]]
    condition: str
    satisfying: list[int]


def quakes() -> Rows:
    rows = list(csv.DictReader(io.StringIO(gzip.decompress(QUAKES.read_bytes()).decode())))
    magnitude = [float(row["mag"]) if row["mag"] else None for row in rows]
    return Rows(
        [row["id"] for row in rows],
        np.array([[float(row["longitude"]), float(row["latitude"])] for row in rows]),
        {
            "t": [datetime.fromisoformat(row["time"]) for row in rows],
            "depth_km": [float(row["depth"]) for row in rows],
            "mag": magnitude,
            "text": [row["place"] for row in rows],
        },
        "mag >= 4.5 and text like '%Islands%'",
        [
            i
            for i, row in enumerate(rows)
            if magnitude[i] is not None and magnitude[i] >= 4.5 and "Islands" in row["place"]
        ],
    )


def places() -> Rows:
    rows = list(csv.DictReader(io.StringIO(PLACES.read_text("utf-8")), delimiter="\t", quoting=csv.QUOTE_NONE))
    return Rows(
        [int(row["geonameid"]) for row in rows],
        np.array([[float(row["longitude"]), float(row["latitude"])] for row in rows]),
        {
            "name": [row["name"] for row in rows],
            "country": [row["countrycode"] for row in rows],
            "population": [int(row["population"]) for row in rows],
        },
        "country = 'FR' or population > 20000",
        [i for i, row in enumerate(rows) if row["countrycode"] == "FR" or int(row["population"]) > 20_000],
    )


SETS = {"earthquakes": quakes, "places": places}


@pytest.fixture(scope="module", params=SETS)
def rows(request):
    return SETS[request.param]()


@pytest.fixture(scope="module")
def inside(rows):
    """Which objects are in the ring, whose arcs leave the box of its corners by less than 10 degrees."""
    corners = np.array(RING)
    box = np.stack([corners.min(axis=0) - 10.0, corners.max(axis=0) + 10.0])
    near = ((rows.positions >= box[0]) & (rows.positions <= box[1])).all(axis=1)
    held = np.zeros(len(near), np.bool_)
    held[near] = oracles.in_polygon(SPACE, [RING], rows.positions[near])
    assert held.sum() < near.sum() < len(near)
    return held


@pytest.fixture(scope="module")
def reverse(rows):
    """Who would be nearest to the first queries."""
    return oracles.reverse_nearest(SPACE, rows.ids, rows.positions, QUERIES[:3])


ONE_OR_TWO = pytest.mark.deep("tests/dtoss/queries/test_worlds.py asks the same in one and two partitions")


@pytest.fixture(
    scope="module", params=[pytest.param(many, marks=ONE_OR_TWO if many < 7 else ()) for many in PARTITIONS]
)
def asked(request, rows):
    """A set, and its index in so many partitions."""
    index = dtoss.build(rows.ids, rows.positions, columns=rows.columns, partitions=request.param)
    assert len(index) == 2000
    assert len(index.partitioning) == request.param
    return rows, index


def test_the_samples_are_what_they_are_said_to_be():
    """2,000 rows each; on both sides of the antimeridian, with names in several scripts' letters."""
    for path in (QUAKES, PLACES):
        assert f"## {path.name}\n" in (SAMPLES / "README.md").read_text("utf-8")
    others = {"format-2.tar.gz", "geonames.txt", "base-bad772bcf642a5c9.arrow", "README.md"}
    others |= {"older_release.py", "older-release.tar.xz"}
    assert {path.name for path in SAMPLES.iterdir() if path.is_file()} == {QUAKES.name, PLACES.name} | others
    lon = quakes().positions[:, 0]
    assert (lon > 179).any()
    assert (lon < -179).any()
    assert any(not name.isascii() for name in places().columns["name"])
    for made in SETS.values():
        assert len(made().ids) == len(set(made().ids)) == 2000
        assert 5 < len(made().satisfying) < 500


def test_the_reader_of_earthquakes():
    """Every row and value, without blanks round them, and nothing set aside."""
    table, counts = collect(earthquakes([QUAKES]), SCHEMA)
    held = quakes()
    assert (counts.read, counts.kept, counts.dropped, counts.flawed) == (2000, 2000, {}, {})
    assert table["id"].to_pylist() == held.ids
    assert list(zip(table["lon"].to_pylist(), table["lat"].to_pylist(), strict=True)) == list(
        map(tuple, held.positions.tolist())
    )
    stripped = held.columns | {"text": [text.strip() for text in held.columns["text"]]}
    for name, values in stripped.items():
        assert table[name].to_pylist() == values, name
    assert stripped["text"] != held.columns["text"]


def test_the_reader_of_described_files():
    """Every row and value of the places, names in UTF-8 among them."""
    source = Source(
        layout=Layout(delimiter="\t", quote=None),
        position=("longitude", "latitude"),
        id="geonameid",
        columns={
            "name": Column("name"),
            "country": Column("countrycode"),
            "population": Column("population", pa.int64()),
        },
    )
    schema, parts = delimited([PLACES], source)
    table, counts = collect(parts, schema)
    held = places()
    assert (counts.read, counts.kept, counts.dropped, counts.flawed) == (2000, 2000, {}, {})
    assert table["id"].to_pylist() == held.ids
    assert np.array_equal(np.stack([table["lon"].to_numpy(), table["lat"].to_numpy()], axis=1), held.positions)
    for name, values in held.columns.items():
        assert table[name].to_pylist() == values, name


@pytest.mark.parametrize("k", [1, 8, 2005])
def test_the_nearest(asked, k):
    """From far and near, over the antimeridian, at the poles, and all of them."""
    held, index = asked
    assert list(index.knn(QUERIES, k)) == oracles.knn(SPACE, held.ids, held.positions, QUERIES, k)


@pytest.mark.parametrize("radius", [0.0, 50_000.0, 1_500_000.0])
def test_those_within_a_radius(asked, radius):
    """From objects and from other places; counted as well."""
    held, index = asked
    queries = np.concatenate([QUERIES, held.positions[::400]])
    wanted = oracles.within(SPACE, held.ids, held.positions, queries, radius)
    assert list(index.range(queries, radius)) == wanted
    assert index.count(queries, radius).tolist() == np.bincount([q for q, _, _ in wanted], minlength=12).tolist()


def test_under_a_condition(asked):
    """The nearest and those within a radius of the objects that satisfy it, text and numbers and nulls."""
    held, index = asked
    ids, positions = [held.ids[i] for i in held.satisfying], held.positions[held.satisfying]
    assert list(index.knn(QUERIES, 8, where=held.condition)) == oracles.knn(SPACE, ids, positions, QUERIES, 8)
    wanted = oracles.within(SPACE, ids, positions, QUERIES, 3e6)
    assert list(index.range(QUERIES, 3e6, where=held.condition)) == wanted


def test_inside_a_polygon(asked, inside):
    """By exact arithmetic, edge by edge."""
    held, index = asked
    wanted = [one for one, within in zip(held.ids, inside, strict=True) if within]
    assert 0 < len(wanted) < 2000
    assert sorted(index.within(RING).id.tolist()) == sorted(wanted)


def test_who_would_be_nearest(asked, reverse):
    """The objects nearer to a place than to any other object."""
    _, index = asked
    assert sorted(index.reverse_nearest(QUERIES[:3])) == sorted(reverse)


@pytest.mark.parametrize("name", SETS)
def test_a_rebuild_from_the_file(session, tmp_path, name):
    """Read as it lies there, with its columns by their own names; nothing is set aside."""
    from dtoss.rows.input_columns import Columns
    from pipelines.rebuild import rebuild
    from pipelines.rows.read_files import read_positions

    held = SETS[name]()
    path, key, delimiter = (QUAKES, "id", ",") if name == "earthquakes" else (PLACES, "geonameid", "tab")
    columns = Columns(id=key, x="longitude", y="latitude", delimiter=delimiter)
    manifest = rebuild(read_positions(session, [str(path)], columns), str(tmp_path / "store"), partitions=7)
    assert manifest["counts"] == {"read": 2000, "kept": 2000, "duplicates": 0, "quarantined": {}}
    index = dtoss.open(str(tmp_path / "store"))
    assert list(index.knn(QUERIES, 8)) == oracles.knn(SPACE, held.ids, held.positions, QUERIES, 8)
    carried, kept = ("place", "text") if name == "earthquakes" else ("name", "name")
    hits = index.knn(QUERIES, 1, columns=[carried])
    texts = dict(zip(held.ids, held.columns[kept], strict=True))
    assert hits.columns[carried].to_pylist() == [texts[one] for one in hits.id.tolist()]
