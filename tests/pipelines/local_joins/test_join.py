"""Files of places joined in process: against an oracle that shares no code, in order, with bounded memory, whole."""

from __future__ import annotations

import itertools
import json
import re
import resource
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dtoss
from dtoss.answer_rows import Ask
from dtoss.errors import InputError
from pipelines.local_joins.file_join import (
    AT_A_TIME,
    HITS,
    in_order,
    join_file,
    join_with_server,
    read_places,
    rows_at_a_time,
)
from pipelines.rows.write_file import open_writer
from tests import join_worlds, worlds
from tests.dtoss.answering import answering
from tests.dtoss.snapshots.damaged_stores import stored
from tests.examples import ALL
from tests.join_worlds import KINDS, Question, objects_as_queries, queries_of, wrong

WORLDS = ("antimeridian", "poles", "town 1e-7", "one place", "flat lattice", "flat crowds", "few places", "ulps")
ASKED = [
    Question(k=1),
    Question(k=8, how="left", where="v < 3"),
    Question(k=1000, max_distance=1e5, having="distance_ >= 5 and rank_ <> 2"),
    Question(radius=2e4, how="left"),
    Question(radius=1e7, where="rank_ = 7"),
    Question(k=3, exclude_self=True),
]


def options_of(asked):
    names = ("how", "where", "having", "max_distance", "exclude_self", "k", "radius")
    return {name: getattr(asked, name) for name in names} | {"columns": [*KINDS], "id": "query_id"}


@pytest.mark.parametrize("kind", [kind for kind in WORLDS if kind in worlds.KINDS])
def test_small_worlds(tmp_path, kind):
    """The rows that an oracle finds, in the order of the file and by rank, however many places a batch holds."""
    seeds = (seed for seed in itertools.count(5) if len(worlds.world(kind, seed).ids) <= 60)
    for seed, partitions in zip(seeds, (1, 2, 7) if ALL[0] else (7,), strict=False):
        w = worlds.world(kind, seed)
        index = dtoss.build(
            w.ids.tolist() if w.ids.dtype == object else w.ids, w.positions, partitions=partitions, pivots=w.pivots,
            crs=None if w.metric == "sphere" else "none", columns=join_worlds.attributes(w),
        )  # fmt: skip
        store = str(stored(index, tmp_path / f"{seed}", kinds=KINDS))
        for number, asked in enumerate(ASKED):
            queries = objects_as_queries(w) if asked.exclude_self else queries_of(w)
            pq.write_table(queries, tmp_path / "q.parquet")
            done = join_file(
                str(tmp_path / "q.parquet"), store, str(tmp_path / "o.parquet"), **options_of(asked),
                at_a_time=(1, 3, 1 << 16)[(seed + number) % 3],
            )  # fmt: skip
            rows = pq.read_table(tmp_path / "o.parquet").to_pylist()
            assert wrong(w, asked, queries, rows) == []
            order = {name: at for at, name in enumerate(queries["query_id"].to_pylist())}
            keys = [(order[row["query_id"]], row["rank"] or 0) for row in rows]
            assert keys == sorted(keys)
            lost = 0 if asked.exclude_self else 3
            assert (done.rows, done.queries) == (len(rows), len(queries))
            assert done.no_position + done.not_legal == lost


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    """A store of text ids, and a file of places around it."""
    rng = np.random.default_rng(4)
    path = tmp_path_factory.mktemp("town")
    at = rng.normal([10.0, 50.0], 0.2, (400, 2))
    index = dtoss.build([f"t{i}" for i in range(400)], at, partitions=4, columns={"speed": rng.permutation(400)})
    stored(index, path / "store", kinds={"speed": "bigint"})
    places = np.concatenate([rng.normal([10.0, 50.0], 0.3, (97, 2)), [[np.nan, 1.0], [200.0, 1.0], [10.0, 95.0]]])
    table = pa.table({"id": np.arange(100), "lon": places[:, 0], "lat": places[:, 1]})
    pq.write_table(table, path / "q.parquet", row_group_size=30)
    return path


def test_threads_and_batches_change_nothing(town, tmp_path):
    """The same file to the byte."""
    files = set()
    for threads, most in ((1, 1 << 16), (3, 7), (2, 1), (5, 64)):
        out = tmp_path / f"{threads}.csv"
        done = join_file(
            str(town / "q.parquet"), str(town / "store"), str(out), k=4, how="left", columns=["speed", "lon"],
            threads=threads, at_a_time=most,
        )  # fmt: skip
        assert done.unanswered == {"queries": 100, "no_position": 1, "not_legal": 2}
        assert done.rows == 97 * 4 + 3
        files.add(out.read_bytes())
    assert len(files) == 1


def test_no_more_is_read_than_is_held(town):
    """A few batches for each thread, whatever comes behind them."""
    taken, answered = [], threading.Semaphore(0)

    def batches():
        for number in range(200):
            taken.append(number)
            yield number

    answers = in_order(lambda batch: answered.release() or batch, batches(), 3)
    for number, answer in enumerate(answers):
        assert answer == number
        assert len(taken) <= number + 3 + 3


def test_large_answers_are_made_of_few_places(town):
    """By k, or by what a radius holds where the places are."""
    index = dtoss.open(str(town / "store"))
    (batch,) = (batch.slice(0, 64) for batch in itertools.islice(read_places(str(town / "q.parquet")).batches(), 1))
    assert rows_at_a_time(index, 8, None, None, batch) == HITS // 8
    assert rows_at_a_time(index, 10 * HITS, None, None, batch) == 1
    assert rows_at_a_time(index, None, 1e7, None, batch) == HITS // 400
    assert rows_at_a_time(index, None, 0.0, None, batch) == AT_A_TIME


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
@pytest.mark.parametrize("asked", [{"k": 3}, {"k": 2, "max_distance": 5e3, "how": "left"}, {"radius": 2e4}], ids=str)
def test_a_server_answers_the_same(town, tmp_path, asked, suffix):
    """To the byte."""
    opened = dtoss.open(str(town / "store"))
    outs = [str(tmp_path / f"{name}{suffix}") for name in ("store", "server")]
    asked = asked | {"where": "speed > 20", "columns": ("speed",)}
    done = join_file(str(town / "q.parquet"), str(town / "store"), outs[0], **asked)
    with answering(opened, opened.snapshot) as served:
        ask = Ask(served.url, opened.snapshot, **asked)
        places = read_places(str(town / "q.parquet"))
        assert join_with_server(str(town / "q.parquet"), places, ask, outs[1]) == done
    rows = [pq.read_table(out).to_pylist() if suffix == ".parquet" else Path(out).read_text() for out in outs]
    assert rows[0] == rows[1]
    assert len(rows[0]) > 10


def test_json_lines_hold_every_value(tmp_path):
    """Texts with quotes, large whole numbers beside nulls, what JSON has no number for, times, lists."""
    when = pa.array([None, 1_700_000_000_123_456], pa.timestamp("us", "UTC"))
    table = pa.table(
        {
            'na"me': ['say "x"\n\u00e9\u2028', None], "whole": pa.array([None, 2**62 + 1]), "part": [np.nan, 0.1],
            "large": pa.array([1e300, -np.inf]), "when": when, "yes": [True, None], "list": [[1.5, 2.0], None],
            "wide": pa.array(["a", ""], pa.large_string()), "one": pa.array([0.1, None], pa.float32()),
        }
    )  # fmt: skip
    with open_writer(str(tmp_path / "o.jsonl"), table.schema) as write:
        for batch in (table.slice(0, 0), table.slice(1), table.slice(0, 1)):
            for one in batch.to_batches():
                write(one)
    rows = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().split("\n")[:-1]]
    assert [list(row) for row in rows] == [table.column_names] * 2
    assert rows[1] == dict(zip(table.column_names,
        ['say "x"\n\u00e9\u2028', None, None, 1e300, None, True, [1.5, 2.0], "a", pytest.approx(0.1)], strict=True,
    ))  # fmt: skip
    assert rows[0] == dict(zip(table.column_names,
        [None, 2**62 + 1, 0.1, None, "2023-11-14T22:13:20.123456Z", None, None, "", None], strict=True,
    ))  # fmt: skip


def test_a_file_is_whole_or_not_there(town, tmp_path):
    """What was there stays when something is wrong further behind, and nothing is left beside it."""
    out = tmp_path / "o.csv"
    out.write_text("before")
    places = tmp_path / "q.parquet"
    at = np.random.default_rng(0).uniform(10, 11, (2, 300_000))
    table = pa.table({"id": np.arange(300_000), "lon": at[0], "lat": at[1]})
    pq.write_table(table, places, row_group_size=100_000, compression="zstd", use_dictionary=False)
    data = bytearray(places.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 4000] = bytes(4000)
    places.write_bytes(data)
    with pytest.raises(InputError, match=r"q\.parquet cannot be read as parquet"):
        join_file(str(places), str(town / "store"), str(out), k=1)
    assert out.read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["o.csv", "q.parquet"]


@pytest.fixture
def small_disk():
    """No file of this process can grow beyond 20 kB."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
def test_a_disk_that_is_full_is_one_line(town, tmp_path, command, small_disk, suffix):
    """And no file is left."""
    out = tmp_path / f"o{suffix}"
    asked = ("knn", "--store", town / "store", "--queries", town / "q.parquet", "--out", out, "-k", 100)
    assert command.fails(*asked) == f"{out} cannot be written: File too large"
    assert not list(tmp_path.iterdir())


def geo_file(path, crs, encoding="WKB"):
    """A GeoParquet file of one place, and what it states."""
    shapely = pytest.importorskip("shapely")
    points = pa.array(shapely.to_wkb(shapely.points([[10.0, 50.0]])).tolist())
    about = {"encoding": encoding, "geometry_types": ["Point"]} | ({} if crs is None else {"crs": crs})
    geo = {"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": about}}
    table = pa.table({"id": ["a"], "geometry": points})
    pq.write_table(table.replace_schema_metadata({"geo": json.dumps(geo)}), path)


def test_places_in_another_crs_are_refused(town, tmp_path):
    """With the way out; longitude and latitude are those of the store, whatever they are called."""
    import pyproj

    out = str(tmp_path / "o.csv")
    for stated in (None, pyproj.CRS("OGC:CRS84").to_json_dict(), pyproj.CRS("EPSG:4326").to_json_dict()):
        geo_file(tmp_path / "q.parquet", stated)
        assert join_file(str(tmp_path / "q.parquet"), str(town / "store"), out, k=1).rows == 1
    geo_file(tmp_path / "q.parquet", pyproj.CRS("EPSG:25832").to_json_dict())
    said = "q.parquet is in EPSG:25832 and the store in EPSG:4326: transform the places first, as GeoPandas does with"
    with pytest.raises(ValueError, match=re.escape(said)):
        join_file(str(tmp_path / "q.parquet"), str(town / "store"), out, k=1)


@pytest.mark.parametrize("shape", ["pairs", "struct", "wkb"])
def test_points_of_geoarrow(town, tmp_path, shape):
    """Without the metadata of GeoParquet: the column says what it is."""
    shapely = pytest.importorskip("shapely")
    at = np.array([[10.0, 50.0], [10.1, 50.1]])
    if shape == "pairs":
        points = pa.FixedSizeListArray.from_arrays(pa.array(at.ravel()), 2)
    elif shape == "struct":
        points = pa.StructArray.from_arrays([pa.array(at[:, 0]), pa.array(at[:, 1])], ["x", "y"])
    else:
        points = pa.array(shapely.to_wkb(shapely.points(at)).tolist())
    name = "geoarrow.wkb" if shape == "wkb" else "geoarrow.point"
    told = {"ARROW:extension:name": name, "ARROW:extension:metadata": json.dumps({"crs": "OGC:CRS84"})}
    field = pa.field("where", points.type, metadata=told)
    schema = pa.schema([pa.field("id", pa.int64()), field])
    pq.write_table(pa.Table.from_arrays([pa.array([1, 2]), points], schema=schema), tmp_path / "q.parquet")
    read = read_places(str(tmp_path / "q.parquet"))
    assert read.crs == "OGC:CRS84"
    assert [row for batch in read.batches() for row in batch.to_pylist()] == [
        {"query_id": 1, "x": 10.0, "y": 50.0}, {"query_id": 2, "x": 10.1, "y": 50.1},
    ]  # fmt: skip
