"""The data source gives each object once, with all it has, of the snapshot that was there at load."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType

import dtoss
from dtoss.snapshots.store import Store
from pipelines.spark.session import cause_of
from pipelines.sql.data_source import DtossSource, Reader
from pipelines.sql.object_batches import batches_of
from pipelines.sql.store_scan import Scan, groups_of, scan_of
from tests.dtoss.snapshots.damaged_stores import stored
from tests.pipelines.sql.stores import KINDS, by_id, objects, rows_of, store_of


@pytest.fixture(scope="module")
def known(spark):
    """A session that knows the format."""
    spark.dataSource.register(DtossSource)
    return spark


def loaded(session, store, **options):
    return session.read.format("dtoss").options(**options).load(store)


def batches_of_ids(scan):
    """The ids in each batch of all tasks, read as a task of Spark's does."""
    reader = Reader(scan, StructType([StructField("id", LongType())]))
    return [batch["id"].to_pylist() for task in reader.partitions() for batch in reader.read(task)]


def read_of_ids(scan):
    return [one for batch in batches_of_ids(scan) for one in batch]


def rows(frame):
    return by_id(frame.toArrow().to_pylist())


@pytest.mark.parametrize(
    ("n", "partitions", "how"),
    [
        pytest.param(50, 1, {}, marks=pytest.mark.deep("one partition; others have more of all")),
        (200, 7, {"texts": True}),
        (60, 2, {"plane": True}),
        *(
            pytest.param(
                *one, {"texts": True}, marks=pytest.mark.deep("other counts; test_partitions_are_read_in_groups")
            )
            for one in ((300, 64), (1, 1))
        ),
    ],
)
def test_every_object_once_with_all_it_has(known, tmp_path, n, partitions, how):
    """Ids, positions to the bit, and attributes of all types with their nulls; in one task and in several."""
    index, store = store_of(tmp_path / "store", n, partitions, **how)
    frame = loaded(known, store)
    place = ("x", "y") if how.get("plane") else ("lon", "lat")
    ids = {"id": "string" if how.get("texts") else "bigint"}
    assert dict(frame.dtypes) == ids | dict.fromkeys(place, "double") | KINDS
    assert frame.columns == ["id", *place, *sorted(KINDS)]
    assert rows(frame) == rows_of(index)
    if n > 100:
        split = loaded(known, store, tasks=5)
        assert 1 < split.rdd.getNumPartitions() <= 5
        assert rows(split) == rows_of(index)


def test_an_empty_store_has_columns_and_no_rows(known, tmp_path):
    """With filters and without."""
    store = stored(dtoss.build([], [], columns={"name": []}), tmp_path / "store")
    frame = loaded(known, store)
    assert frame.dtypes == [("id", "bigint"), ("lon", "double"), ("lat", "double"), ("name", "string")]
    assert frame.count() == frame.where("lat > 3").count() == 0


def test_columns_are_chosen_by_option_or_schema(known, tmp_path):
    """In the order in which they are named; a type that is not theirs is refused."""
    index, store = store_of(tmp_path / "store", 20, 2)
    wanted = [{"name": row["name"], "id": row["id"]} for row in rows_of(index)]
    assert rows(loaded(known, store, columns=" name, id")) == wanted
    declared = known.read.format("dtoss").schema("name STRING, id BIGINT").load(store)
    assert rows(declared) == wanted
    with pytest.raises(Exception, match="'id' is declared int and is bigint in the snapshot"):
        known.read.format("dtoss").schema("id INT").load(store).count()


def test_views_and_tables_in_sql(known, tmp_path):
    """A temporary view has its options; Spark 4.3 reads a table of its catalog without them, which is said."""
    index, store = store_of(tmp_path / "store", 20, 2)
    ids = [{"id": row["id"]} for row in rows_of(index)]
    known.sql(f"CREATE TEMPORARY VIEW some_taxis USING dtoss OPTIONS (path '{store}', columns 'id')")
    assert rows(known.table("some_taxis")) == ids
    known.catalog.dropTempView("some_taxis")
    known.sql(f"CREATE TABLE no_taxis USING dtoss OPTIONS (path '{store}', columns 'id')")
    with pytest.raises(Exception, match="of CREATE TABLE Spark loses the options"):
        known.table("no_taxis").count()
    known.sql("DROP TABLE no_taxis")
    assert rows(loaded(known, f"file://{store}", columns="id")) == ids


PLANE = pytest.mark.deep("boxes in the plane are read in test_filters.py, without Spark")


@pytest.mark.parametrize("plane", [pytest.param(True, marks=PLANE), False])
def test_a_condition_and_a_box_choose_objects(known, tmp_path, plane):
    """As they do in questions; the condition may name positions; across the antimeridian, and with nothing found."""
    index, store = store_of(tmp_path / "store", 150, 7, plane=plane)
    x, y = ("x", "y") if plane else ("lon", "lat")
    box = "-5000, -4000, 6000, 7000" if plane else "150 -60 -100 90"
    where = f"(tiny > 0 or name = 'a') and {y} < {5000 if plane else 80}"
    inside = set(index.box([float(one) for one in box.replace(",", " ").split()]).id.tolist())
    wanted = [row for row in rows_of(index) if row["id"] in inside]
    assert 0 < len(wanted) < 150
    assert rows(loaded(known, store, box=box)) == wanted
    tiny = [row for row in wanted if row["name"] == "a" or (row["tiny"] or 0) > 0]
    both = [row for row in tiny if float(row[y]) < (5000 if plane else 80)]
    assert 0 < len(both) < len(wanted)
    assert rows(loaded(known, store, box=box, where=where)) == both
    assert loaded(known, store, where=f"{x} > 1e6").count() == 0
    if plane:
        return
    # of one table, many ways to choose
    assert loaded(known, store, where="tiny = 1").union(loaded(known, store, where="tiny = 2")).count() == len(
        [row for row in rows_of(index) if row["tiny"] in (1, 2)]
    )


def test_the_snapshot_is_fixed_at_load(known, tmp_path):
    """A newer one is not seen by a frame that stands; an older one can be named; one that is gone is said so."""
    index, store = store_of(tmp_path / "store", 20, 2)
    first = Store(store).current()
    frame = loaded(known, store)
    stored(dtoss.build([7], [[1.0, 2.0]]), store)
    assert len(rows(frame)) == 20
    assert [row["id"] for row in rows(loaded(known, store))] == [7]
    assert rows(loaded(known, store, snapshot=first)) == rows_of(index)
    late = loaded(known, store, snapshot=first, verify="no")
    shutil.rmtree(Path(store) / "snapshots" / first)
    with pytest.raises(Exception, match="has no snapshot") as raised:
        late.count()
    assert cause_of(raised.value).startswith(f"{store} has no snapshot {first!r}; it has ")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"snapshots": "x"},
            "option 'snapshots' is not known: path, snapshot, columns, where, box, verify, tasks, filters are",
        ),
        ({"snapshot": "x"}, "has no snapshot 'x'"),
        ({"columns": "id,nix"}, "column 'nix' is not carried by the objects; they carry id, lon, lat, day"),
        ({"columns": "id,id"}, "column 'id' is named twice"),
        ({"verify": "maybe"}, "option verify is 'maybe': no, touch, all are known"),
        ({"filters": "on"}, "option filters is 'on': spark, once are known"),
        ({"where": "nix = 1"}, "option where 'nix = 1': column 'nix' is not carried"),
        ({"where": "flag ="}, "option where 'flag ='"),
        ({"box": "1 2 3"}, "option box is '1 2 3': boxes have shape"),
        ({"box": "a"}, "option box is 'a': "),
        ({"tasks": "0"}, "option tasks is '0': a whole number of at least 1 is wanted"),
    ],
)
def test_what_is_wrong_with_options_is_one_line(tmp_path, options, said):
    """Names, values and the way out."""
    _, store = store_of(tmp_path / "store", 5)
    with pytest.raises(dtoss.DtossError, match=said.replace("'", ".")):
        scan_of({"path": store, **options})


def test_no_store_is_one_line(known, tmp_path):
    """Without a path, and where nothing is; said by Spark in an error of its own."""
    for load in (lambda: loaded(known, None), lambda: loaded(known, str(tmp_path / "nix"))):
        with pytest.raises(Exception, match="PYTHON") as raised:
            load()
        assert "\n" not in cause_of(raised.value)
    assert "is not a store" in cause_of(raised.value)


def test_a_flipped_bit_is_found(tmp_path):
    """By the checksum, where checksums are compared; the message names the file."""
    index, store = store_of(tmp_path / "store", 30, 2)
    current = Store(store).current()
    entry = Store(store).manifest()["partitions"][1]
    path = Path(store) / "snapshots" / current / entry["file"]
    data = bytearray(path.read_bytes())
    data[data.find(index.parts[1].positions[:1].tobytes())] ^= 1
    path.write_bytes(data)
    assert len(read_of_ids(Scan(store, current, verify=False))) == 30
    for verify in ("touch", True):
        with pytest.raises(dtoss.StoreError) as raised:
            read_of_ids(Scan(store, current, verify=verify))
        assert str(raised.value) == (
            f"{path} does not have the checksum that the manifest states: it is damaged; roll back or rebuild"
        )


def test_a_missing_file_is_named(known, tmp_path):
    """Where the manifest is there and a partition is not."""
    _, store = store_of(tmp_path / "store", 30, 2)
    frame = loaded(known, store)
    entry = Store(store).manifest()["partitions"][0]
    path = Path(store) / "snapshots" / Store(store).current() / entry["file"]
    path.unlink()
    with pytest.raises(Exception, match="partitions/") as raised:
        frame.count()
    assert str(path) in cause_of(raised.value)


def test_partitions_are_read_in_groups():
    """Each once, in order, about as many as are asked for, and never more than there are."""
    objects = {number: 10 + number % 3 for number in range(64)}
    for tasks in (1, 2, 7, 64, 200):
        groups = groups_of(objects, tasks)
        assert [number for group in groups for number in group] == list(objects)
        assert min(tasks, 64) * 0.8 <= len(groups) <= min(tasks, 64)
    assert len(groups_of({0: 10_000_000, 1: 10_000_000}, 1)) == 2


def test_long_rows_come_in_smaller_batches(tmp_path):
    """And short ones of small partitions together, so that Java holds neither much nor many."""
    index, store = store_of(tmp_path / "store", 200, 7)
    scan = Scan(store, Store(store).current())
    assert [len(batch) for batch in batches_of_ids(scan)] == [200]
    ids = pa.schema([("id", pa.int64())])
    found = [batch["id"].to_pylist() for batch in batches_of(scan, range(7), ids, (), most_bytes=80, small=1)]
    assert {len(batch) for batch in found} <= set(range(1, 11))
    assert sorted(one for batch in found for one in batch) == list(index)


def test_objects_are_as_they_should_be():
    """The worlds of these tests hold what is hard: shared places, a pole, nulls, NaN and both zeros."""
    _, positions, columns = objects(50)
    assert (positions[0] == positions[1]).all()
    assert all(column.null_count for column in columns.values())
    assert {"nan", "0.0", "-0.0"} <= {repr(value) for value in columns["number"].to_pylist()}
