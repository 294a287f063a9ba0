"""Spark and this process do the same with histories: every byte of what they append, and of a past moment's index.

The files of a history depend on how rows were shared among tasks: both engines read a small file as one. Of several
files the promise is less: the same rows, sums and rejected rows.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import dtoss
from dtoss.erasure.forgotten import forget_ids
from dtoss.errors import InputError
from dtoss.history.versions import Home
from dtoss.rows.input_columns import Columns
from pipelines.as_of import as_of, standing_at
from pipelines.history import append, append_files
from pipelines.rows.inputs import look
from pipelines.rows.read_files import positions_of_table
from pipelines.rows.row_sources import TableSource
from tests.dtoss.history.worlds import new_home, put_batch, schema_of, table_of
from tests.pipelines.history_tasks.engines import session_of
from tests.pipelines.stores import objects_of, snapshot_bytes

NOW = "2023-11-15T00:00:00Z"
SECOND = 1_700_000_000
ROOT = Path(__file__).parents[3]


def fleet(seed, many=300):
    """Rows of 40 objects with attributes of many types; some have no place, or a clock that is wrong."""
    rng = np.random.default_rng(seed)
    lon, micros = rng.uniform(-179, 179, many), SECOND * 10**6 + rng.integers(0, 10**9, many)
    lon[::37], micros[5::41] = np.nan, micros[5::41] + 10**12
    ids = rng.integers(0, 40, many)
    return pa.table(
        {
            "id": ids,
            "lon": lon,
            "lat": rng.uniform(-89, 89, many),
            "t": pa.array(micros, pa.timestamp("us", "UTC")),
            "gone": pa.array(rng.integers(0, 30, many) == 0),
            "speed": pa.array(np.where(rng.integers(0, 9, many) == 0, np.nan, rng.normal(size=many)), from_pandas=True),
            "name": [None if i % 7 == 0 else f"car, é {i}" for i in ids],
            "seats": pa.array(ids, pa.uint8()),
            "day": pa.array(ids, pa.int32()).cast(pa.date32()),
            "wheels": pa.array([None if i % 11 == 0 else [int(i), None] for i in ids], pa.list_(pa.int32())),
            "maker": pa.array([{"a": int(i), "b": "ü"} for i in ids]),
            "cost": pa.array([f"{i}.50" for i in ids]).cast(pa.decimal128(9, 2)),
            "empty": pa.nulls(many),
        }
    )


def nanoseconds(seed):
    rows = fleet(seed)
    return rows.set_column(3, "t", pc.add(rows["t"].cast(pa.timestamp("ns", "UTC")), pa.scalar(7, pa.duration("ns"))))


def without_zone(seed):
    rows = fleet(seed)
    return rows.set_column(3, "t", rows["t"].cast(pa.int64()).cast(pa.timestamp("us")))


def milliseconds(seed):
    """Whole numbers, of which one is beyond all years."""
    numbers = pc.divide(fleet(seed)["t"].cast(pa.int64()), 1000).to_numpy().copy()
    numbers[8] = 1 << 62
    return fleet(seed).set_column(3, "t", pa.array(numbers))


def seconds(seed):
    """Numbers with a fraction, some of which are none."""
    numbers = fleet(seed)["t"].cast(pa.int64()).to_numpy() / 1e6
    numbers[[8, 9, 10]] = np.inf, np.nan, -1e300
    return fleet(seed).set_column(3, "t", pa.array(numbers))


def own_numbers(seed):
    """Whole numbers in their own order, as text ids are in theirs."""
    rows = fleet(seed)
    ids = pa.array([f"é {id}" for id in rows["id"].to_pylist()])
    return rows.set_column(0, "id", ids).set_column(3, "t", pc.divide(rows["t"].cast(pa.int64()), 10**6))


def as_text(rows, path):
    """Delimited text, with rows that are none."""
    pa.csv.write_csv(rows.drop_columns(["wheels", "maker", "cost"]), path)
    text = path.read_text().splitlines()
    text[3], text[9:9] = text[3].replace('"', "", 1), ["1,2", "", "nobody,1,2,2023-11-14T22:13:20Z,false,3,b,1,,"]
    path.write_text("\n".join(text) + "\n")


KINDS = {
    "moments": (fleet, pq.write_table, {}),
    "nanoseconds": (nanoseconds, pq.write_table, {}),
    "without a zone": (without_zone, pq.write_table, {}),
    "milliseconds": (milliseconds, pq.write_table, {"time_format": "epoch_ms"}),
    "seconds": (seconds, pq.write_table, {"time_format": "epoch_s"}),
    "numbers": (seconds, pq.write_table, {}),
    "own numbers": (own_numbers, pq.write_table, {}),
    "text": (fleet, as_text, {}),
}


def bytes_of(history):
    """{file: bytes} of a history; its commits without their times."""
    home = Path(history)
    files = {str(file.relative_to(home)): file.read_bytes() for file in sorted(home.rglob("*")) if file.is_file()}
    for name in [name for name in files if name.startswith("commits/")]:
        files[name] = json.dumps(json.loads(files[name])["document"]).encode()
    return files


DEEP = pytest.mark.deep("other kinds of times and ids; moments, milliseconds and text are in make test")
QUICK = ("moments", "milliseconds", "text")


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=() if kind in QUICK else DEEP) for kind in KINDS])
def test_both_engines_append_the_same_bytes(spark, tmp_path, kind):
    """Two batches, the second with the columns of the first; deletions, and what was set aside."""
    make, write, said = KINDS[kind]
    columns = Columns(deleted="gone", **said)
    for seed in (1, 2):
        write(make(seed), tmp_path / f"{seed}.{'csv' if write is as_text else 'parquet'}")
    made = []
    for session in (spark, None):
        place = str(tmp_path / f"history of {session is None}")
        for file in sorted(tmp_path.glob("*.*")):
            now = SECOND + 3600 if kind.endswith("numbers") else NOW
            done = append_files(
                lambda session=session: session, look([str(file)]), place, columns, warn=pytest.fail, now=now,
                max_ahead=3600.0, max_bad=0.5,
            )  # fmt: skip
            assert done.rejected
        made.append(bytes_of(place))
    assert sorted(made[0]) == sorted(made[1])
    for file in made[0]:
        assert made[0][file] == made[1][file], file
    assert len([file for file in made[0] if file.startswith("quarantine/")]) == 2


def test_of_several_files_both_keep_the_same_rows(spark, tmp_path):
    """However they are shared among tasks; who is forgotten is dropped, and counted."""
    for seed in range(5):
        pq.write_table(fleet(seed), tmp_path / f"{seed}.parquet")
    found = []
    for session in (spark, None):
        place = str(tmp_path / f"history of {session is None}")
        append(fleet(9), place, batch="a", deleted="gone", max_bad=0.5)
        forget_ids(place, ["3", "7"])
        inputs = look([str(tmp_path / f"{seed}.parquet") for seed in range(5)])
        done = append_files(
            lambda session=session: session, inputs, place, Columns(deleted="gone"), warn=pytest.fail, now=NOW,
            max_bad=0.5,
        )  # fmt: skip
        aside = pa.concat_tables([pq.read_table(f"{place}/{file}") for file in done.files])
        version = Home(place).version()
        rejected = sorted(map(repr, aside.to_pylist()))
        found.append((done.rows, done.rejected, done.forgotten, rejected, version.rows, version.sum, version.schema))
    assert found[0] == found[1]
    assert found[0][2] > 0


def test_tasks_that_have_the_same_rows_write_a_file_each(tmp_path):
    """Else leaves of one could not be cut, nor its file be lost, without those of the other."""
    rows = fleet(1, 30).select(["id", "t", "lat"]).append_column("lon", pa.array(np.arange(30.0)))
    positions = positions_of_table(rows, Columns())
    twice = replace(positions.frame, source=TableSource([rows, rows]))
    done = append(replace(positions, frame=twice), str(tmp_path / "h"), batch="a")
    version = Home(str(tmp_path / "h")).version()
    assert (done.rows, version.rows, len(set(version.files.name))) == (60, 60, 2)


@pytest.mark.parametrize("ids", ["int64", pytest.param("string", marks=pytest.mark.deep("text ids, as whole ones"))])
def test_both_engines_build_the_same_index_of_a_past_moment(spark, tmp_path, ids):
    """Of a history of three batches, with attributes of types that only Arrow has."""
    schema = schema_of(id_type=ids, seats=pa.uint8(), names=pa.list_(pa.large_string()), half=pa.float16())
    home, rng = new_home(tmp_path / "h"), np.random.default_rng(3)
    for batch in range(3):
        n = 200
        who = rng.integers(0, 60, n)
        rows = table_of(
            schema, who if ids == "int64" else [f"é {i}" for i in who], rng.integers(0, 90, n),
            rng.uniform(-80, 80, (n, 2)).round(2), (rng.random(n) < 0.1).tolist(), seats=rng.integers(0, 255, n),
            names=[[str(i), None] for i in who], half=rng.normal(size=n).astype(np.float16),
        )  # fmt: skip
        put_batch(home, rows, schema, str(batch))
    made = []
    for session in (spark, None):
        for age in (None, 20.0):
            store = str(tmp_path / f"store of {session is None} {age}")
            as_of(session, home.path, "2020-01-01T00:01:00", store, max_age=age, partitions=3, seed=1)
            made.append(snapshot_bytes(store))
    assert made[0] == made[2]
    assert made[1] == made[3]
    assert made[0] != made[1]


def test_who_is_forgotten_in_a_store_does_not_stand_in_it(engine, tmp_path):
    """Though the history still has the rows."""
    append(
        engine.createDataFrame(fleet(1).drop_columns(["empty", "seats"])), str(tmp_path / "h"), batch="a", max_bad=0.5
    )
    forget_ids(str(tmp_path / "s"), ["3"])
    manifest = as_of(session_of(engine), str(tmp_path / "h"), "2024-01-01", str(tmp_path / "s"), partitions=1)
    assert manifest["counts"]["forgotten"] == 1
    assert 3 not in objects_of(tmp_path / "s")
    assert len(objects_of(tmp_path / "s")) > 30


def test_what_no_snapshot_has_is_one_line(tmp_path):
    """Before anything is read: other columns may be asked for."""
    rows = pa.table({"id": [1], "t": [1], "lon": [1.0], "lat": [1.0], "took": pa.array([5], pa.duration("s"))})
    dtoss.history.append(rows, str(tmp_path / "h"), batch="a")
    with pytest.raises(InputError, match=r"column 'took' is duration.*which no snapshot has: name others"):
        standing_at(None, str(tmp_path / "h"), 1)
    as_of(None, str(tmp_path / "h"), 1, str(tmp_path / "s"), columns="none", partitions=1)
    assert len(dtoss.open(str(tmp_path / "s"))) == 1


ALONE = """
import sys
from pipelines.command.main import main

for words in (["history", "append", "{0}/a.parquet", "--history", "{0}/h"],
              ["rebuild", "{0}/a.parquet", "--store", "{0}/s", "--history", "{0}/h", "--partitions", "1"],
              ["rebuild", "--history", "{0}/h", "--as-of", "2024-01-01", "--store", "{0}/p", "--partitions", "1"]):
    try:
        main(words)
    except SystemExit as end:
        assert not end.code, words
assert not [name for name in sys.modules if name.startswith(("pyspark", "py4j"))]
"""


def test_nothing_of_it_loads_spark(tmp_path):
    """Append, a rebuild that keeps a history, and one of a past moment, in a process of their own."""
    pq.write_table(fleet(1).filter(pc.is_finite(fleet(1)["lon"])), tmp_path / "a.parquet")
    subprocess.run([sys.executable, "-c", ALONE.replace("{0}", str(tmp_path))], cwd=ROOT, check=True, timeout=300)
    assert len(dtoss.open(str(tmp_path / "p"))) > 30
