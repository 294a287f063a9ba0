"""Files of places mean the same here as where Spark reads them: ids and coordinates, row by row."""

from __future__ import annotations

import bz2
import gzip
import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dtoss.errors import InputError
from dtoss.rows.input_columns import Columns
from pipelines.local_joins.file_join import KEPT_BYTES, read_places
from pipelines.rows.inputs import look
from pipelines.rows.read_files import read_positions

SOME = settings(
    max_examples=4, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip


def by_spark(spark, path, **names):
    """The type of ids, and how often each row stands there."""
    read = read_positions(spark, look([str(path)]), Columns(attributes="none", **names))
    try:
        rows = read.spark_frame.select("id", "x", "y").toArrow().to_pylist()
    finally:
        read.release()
    return read.string_ids, counted(rows)


def in_process(path, **names):
    """The same, without Spark: of a file that is kept from the first look, and of one that is too large for that."""
    found = []
    for most in (KEPT_BYTES, 0):
        read = read_places(str(path), kept_bytes=most, **names)
        for _ in range(2):
            rows = [row for batch in read.batches() for row in batch.rename_columns(["id", "x", "y"]).to_pylist()]
            found.append((read.id_type == pa.string(), counted(rows)))
    assert all(one == found[0] for one in found)
    return found[0]


def counted(rows):
    return Counter((row["id"], number(row["x"]), number(row["y"])) for row in rows)


def number(value):
    """NaN is equal to itself here, and no position either way."""
    return None if value is None or math.isnan(value) else value


TOLD = json.loads((Path(__file__).parent / "told_by_spark.json").read_text())
"""What Spark said of each of the files below: whether ids are text, and how often each row is there; null: it refused.

``python -m tests.pipelines.local_joins.told_by_spark`` writes it anew.
"""


def columns_of_log(found):
    """What was found, as the file has it."""
    texts, rows = found
    return [texts, sorted(([*row, many] for row, many in rows.items()), key=repr)]


def assert_told(name, path, **names):
    """In process a file holds what Spark said of it."""
    if TOLD[name] is None:
        with pytest.raises(InputError):
            in_process(path, **names)
    else:
        assert columns_of_log(in_process(path, **names)) == TOLD[name]


def same(spark, path, **names):
    """Both ways say the same, also when they refuse."""
    try:
        wanted = by_spark(spark, path, **names)
    except InputError as error:
        with pytest.raises(InputError):
            in_process(path, **names)
        return error
    assert in_process(path, **names) == wanted
    return wanted


HEAD = "id,lon,lat\n"
TEXTS = {
    "plain": HEAD + "1,2.5,3\n2,-1e1,.5\n3,+4,5.\n",
    "without its last line end": HEAD + "1,2,3\n2,3,4",
    "line ends of Windows": (HEAD + "1,2,3\n2,3,4\n").replace("\n", "\r\n"),
    "old line ends": (HEAD + "1,2,3\n2,3,4\n").replace("\n", "\r"),
    "a mark": "\ufeff" + HEAD + "1,2,3\n",
    "blanks": " id , lon,lat \n 1 , 2 ,3\n\n  \n2 ,nan, inf\n ,1,2\n",
    "codes": HEAD + "007,1,2\n8,1,2\n9,1,2\n",
    "mostly whole": HEAD + "".join(f"{i},1,2\n" for i in range(20)) + "x,3,4\n007,5,6\n,7,8\n",
    "too large": HEAD + "".join(f"{i},1,2\n" for i in range(20)) + "9223372036854775807,1,2\n9223372036854775808,1,2\n",
    "less than most": HEAD + "".join(f"{i},1,2\n" for i in range(8)) + "x,3,4\n",
    "words for numbers": HEAD + "1,east,2\n2,1.5f,2\n3,0x1p3,2\n4,1d,2\n5,NaN,2\n6,-Infinity,2\n7,1e400,2\n8,-nan,2\n",
    "no values": HEAD + ",,\n1,,2\n2,1,\n",
    "no rows": HEAD,
    "short and long rows": HEAD + "1,2\n2\n3,4,5,6\n4,5,6\n,\n",
    "quotes": HEAD + '"a, b",1,2\n"say ""x""",3,4\n"",5,6\nc,"7","8"\n',
    "blanks and quotes": HEAD + ' "a" ,1,2\n" b ",3,4\n',
    "quotes within": HEAD + 'a"b,1,2\n"c"d,3,4\nx""y,5,6\n"e" f,7,8\n',
    "a quote left open": HEAD + '1,2,3\n"4,5,6\n7,8,9\n',
    "line ends in quotes": HEAD + '"a\nb",1,2\nc,3,4\n',
    "a long open quote": HEAD + '0,1,2\n"1,2,3\n' + "".join(f"{i},2,3\n" for i in range(120)),
    "columns of one name": "id,lon,lat,lon,\n1,2,3,4,5\n",
    "columns behind": "note,lat,lon,id\nn,1,2,3\n,4,5,6\n",
    "a plane": "id,x,y\n1,2,3\n",
    "no id": "name,lon,lat\n1,2,3\n",
    "nothing": "",
}  # fmt: skip


def text(folder, name):
    """A file of a text, and what its columns are called."""
    path = folder / "q.csv"
    path.write_bytes(TEXTS[name].encode())
    return path, {}


def written(folder, name, data):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


ROWS = HEAD + "é,1,2\nb,3,4\n"
PARTS = {"a.csv": HEAD + "1,2,3\n", "deep/b.csv": HEAD + "x,2,3\n", "_SUCCESS": "", "c/c.csv": "id,lat,lon\n1,2,3\n"}
OTHERS = {
    "gzip": lambda at: (written(at, "q.csv.gz", gzip.compress(ROWS.encode())), {}),
    "bzip2": lambda at: (written(at, "q.csv.bz2", bz2.compress(ROWS.encode())), {}),
    "tabs": lambda at: (written(at, "q.tsv", ROWS.replace(",", "\t").encode()), {}),
    "UTF-16": lambda at: (written(at, "wide.csv", ROWS.encode("utf-16")), {}),
    "Latin-1": lambda at: (written(at, "latin.csv", ROWS.encode("latin-1")), {}),
    "folders": lambda at: ([written(at, name, PARTS[name].encode()) for name in list(PARTS)[:3]] and at, {}),
    "a glob": lambda at: ([written(at, name, PARTS[name].encode()) for name in list(PARTS)[:3]] and at / "*.csv", {}),
    "one column for all": lambda at: (
        written(at, "a.csv", PARTS["a.csv"].encode()), {"id": "lon", "x": "lat", "y": "lat"}
    ),
    "another order of columns": lambda at: ([written(at, name, PARTS[name].encode()) for name in PARTS] and at, {}),
}  # fmt: skip


VALUE = st.sampled_from(
    ["1", "2.5", "-3e2", "", " 4", "x", '"5"', '"a,b"', '" c"', 'd"e', '""', "007", "nan", "é", "+1"]
)


@SOME
@given(
    rows=st.lists(st.lists(VALUE, min_size=3, max_size=3), min_size=4, max_size=12), end=st.sampled_from(["\n", "\r\n"])
)
def test_made_text(spark, tmp_path, rows, end):
    """Any values in any column."""
    path = tmp_path / "q.csv"
    path.write_bytes(end.join(["id,lon,lat", *map(",".join, rows), ""]).encode())
    same(spark, path)


JSONS = {
    "plain": '{"id":1,"lon":2.5,"lat":3}\n{"lat":1,"id":2,"lon":-1e1}\n',
    "text ids": '{"id":"a","lon":2.5,"lat":3}\n{"id":null,"lon":1,"lat":1}\n',
    "mixed ids": '{"id":"a","lon":2.5,"lat":3}\n{"id":7,"lon":1,"lat":1}\n{"id":1.50,"lon":1,"lat":1}\n',
    "numbers in text": '{"id":1,"lon":"2.5","lat":" 3"}\n{"id":2,"lon":4,"lat":"east"}\n{"id":3,"lat":true}\n',
    "broken lines": '{"id":1,"lon":2,"lat":3}\n{"id":2,"lon\nnot json\n\n5\n{"id":3,"lon":4,"lat":5}\n',
    "a list": '[{"id":1,"lon":2,"lat":3},{"id":2,"lon":2,"lat":3}]\n',
    "missing values": '{"id":1,"lon":2}\n{"id":2,"lat":3,"lon":null}\n{}\n',
    "empty texts": '{"id":"","lon":"4","lat":4}\n{"id":10000000000000000000,"lon":5,"lat":""}\n',
    "more beside": '{"id":1,"lon":2,"lat":3,"x":"a","deep":{"lon":9}}\n{"id":2,"lon":2,"lat":3,"x":5}\n',
    "a plane": '{"id":1,"x":2,"y":3}\n',
    "fractions as ids": '{"id":1.5,"x":2,"y":3}\n',
    "switches as places": '{"id":1,"x":true,"y":3}\n',
    "large whole numbers": '{"id":9223372036854775807,"x":1,"y":3}\n{"id":9223372036854775808,"x":1,"y":3}\n',
    "no such column": '{"id":1,"lon":2}\n',
    "not a number": '{"id":1,"lon":NaN,"lat":Infinity}\n',
    "a mark": '\ufeff{"id":1,"lon":2,"lat":3}\n',
}  # fmt: skip


def lines(folder, name):
    """A file of JSON lines, and what its columns are called."""
    path = folder / "q.jsonl"
    path.write_bytes(JSONS[name].encode())
    return path, {}


FILES = {
    **{f"text: {name}": lambda at, name=name: text(at, name) for name in TEXTS},
    **{f"other text: {name}": make for name, make in OTHERS.items()},
    **{f"JSON: {name}": lambda at, name=name: lines(at, name) for name in JSONS},
}
"""Files of every shape that people's tools write: texts, packed ones, in folders, JSON lines."""
LIVE = (
    "text: mostly whole", "text: a long open quote", "other text: UTF-16", "other text: Latin-1", "JSON: mixed ids",
    "JSON: broken lines",
)  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_files_hold_what_spark_said(tmp_path, name):
    """Of every shape; the ids, the coordinates, how often each is there, and what is refused."""
    path, names = FILES[name](tmp_path)
    assert_told(name, path, **names)


DEEP = pytest.mark.deep("Spark reads each anew; what it said before is held to in test_files_hold_what_spark_said")


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in LIVE else DEEP) for name in FILES])
def test_spark_says_what_it_said(spark, tmp_path, name):
    """That is what is written down."""
    path, names = FILES[name](tmp_path)
    try:
        found = columns_of_log(by_spark(spark, path, **names))
    except InputError:
        found = None
    assert found == TOLD[name]


ONE = st.sampled_from([1, 2.5, -3, "x", "4", None, True, ""])


@SOME
@given(rows=st.lists(st.dictionaries(st.sampled_from(["id", "lon", "lat"]), ONE), max_size=6))
def test_made_json(spark, tmp_path, rows):
    """Any values in any column."""
    path = tmp_path / "q.json"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    same(spark, path)


KINDS = [pa.int8(), pa.int64(), pa.uint32(), pa.uint64(), pa.float32(), pa.float64(), pa.string(), pa.large_string(),
         pa.bool_(), pa.decimal128(9, 3), pa.dictionary(pa.int32(), pa.string()), pa.date32()]  # fmt: skip


@settings(SOME, max_examples=10)
@given(kinds=st.tuples(*[st.sampled_from(KINDS)] * 3), holes=st.integers(0, 7))
def test_made_parquet(spark, tmp_path, kinds, holes):
    """Of every type that is of use, and those that are not."""
    columns = {}
    for place, (name, kind) in enumerate(zip(("id", "lon", "lat"), kinds, strict=True)):
        values = pa.array([1, 2, 3, 4], pa.int8())
        values = values.cast(pa.int32()) if pa.types.is_date(kind) else values
        text = pa.types.is_dictionary(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)
        values = pa.array(["1", "x", " 2.5", "4"]).cast(kind) if text else values.cast(kind)
        if holes >> place & 1:
            values = pa.concat_arrays([values.slice(0, 3), pa.nulls(1, kind)])
        columns[name] = values
    path = tmp_path / "q.parquet"
    pq.write_table(pa.table(columns), path)
    same(spark, path)


def test_parquet_of_several_files(spark, tmp_path):
    """Columns that some lack, in another order, in another case; ids that do not fit; folders that are values."""
    folder = tmp_path / "folder"
    folder.mkdir()
    pq.write_table(pa.table({"id": [1], "lon": [2.0], "lat": [3.0]}), folder / "a.parquet")
    pq.write_table(pa.table({"LAT": [4.0], "ID": [2], "lon": [5.0]}), folder / "b.parquet")
    pq.write_table(pa.table({"lon": [6.0], "id": [3]}), folder / "c.parquet")
    same(spark, folder)
    pq.write_table(pa.table({"id": pa.array([2**63], pa.uint64()), "lon": [2], "lat": [3]}), tmp_path / "u.parquet")
    same(spark, tmp_path / "u.parquet")
    inner = tmp_path / "days" / "id=5"
    inner.mkdir(parents=True)
    pq.write_table(pa.table({"lon": [2.0], "lat": [3.0], "name": ["a"]}), inner / "a.parquet")
    same(spark, tmp_path / "days")
    same(spark, tmp_path / "days", id="name")


@pytest.mark.parametrize("encoding", ["WKB", "point"])
def test_geoparquet(spark, tmp_path, encoding):
    """Points of either encoding, with places that have none."""
    shapely = pytest.importorskip("shapely")
    places = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    if encoding == "WKB":
        points = pa.array([*shapely.to_wkb(shapely.points(places)).tolist(), None])
    else:
        coordinates = [pa.array([*places[:, i], None]) for i in (0, 1)]
        points = pa.StructArray.from_arrays(coordinates, ["x", "y"], mask=pa.array([False] * 3 + [True]))
    about = {"encoding": encoding, "geometry_types": ["Point"]}
    geo = {"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": about}}
    table = pa.table({"id": ["a", "b", "c", "d"], "geometry": points})
    path = tmp_path / "q.parquet"
    pq.write_table(table.replace_schema_metadata({"geo": json.dumps(geo)}), path)
    _, found = same(spark, path)
    assert found == Counter({("a", 1.0, 2.0): 1, ("b", 3.0, 4.0): 1, ("c", 5.0, 6.0): 1, ("d", None, None): 1})
    assert read_places(str(path)).crs == "OGC:CRS84"
