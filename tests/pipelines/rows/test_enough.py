"""An input that is empty, or lost most of its objects, does not become current unnoticed; a dry run writes nothing."""

from __future__ import annotations

import pyarrow as pa
import pytest

import dtoss
from dtoss.errors import InputError
from pipelines.options.snapshot_options import Guards
from pipelines.rebuild import rebuild, summary
from tests.pipelines.stores import listing, made, rebuilt


def table_of(n, **columns):
    places = {"lon": pa.array([i / 7 for i in range(n)], pa.float64()), "lat": pa.array([1.0] * n, pa.float64())}
    return pa.table({"id": pa.array(range(n), pa.int64())} | places | columns)


@pytest.mark.parametrize(
    ("objects", "before", "fewest", "shrink", "empty", "words"),
    [
        (0, None, 0, None, False, "there is no object.*--allow-empty"),
        (0, None, 0, None, True, None),
        (0, 9, 1, None, True, "0 objects are fewer than --min-objects 1"),
        (4, None, 5, None, False, "4 objects are fewer than --min-objects 5"),
        (5, None, 5, 0.0, False, None),
        (9, 10, 0, 0.0, False, "10.0% fewer, more than --max-shrink 0% allows"),
        (10, 10, 0, 0.0, False, None),
        (5, 10, 0, 0.5, False, None),
        (4, 10, 0, 0.5, False, "60.0% fewer, more than --max-shrink 50% allows"),
        (5, 10, 0, None, False, None),
        (0, 0, 0, 0.1, True, None),
    ],
)
def test_what_is_enough(objects, before, fewest, shrink, empty, words):
    """Each bound holds exactly, and the message names both numbers."""
    said = []
    if words is None:
        Guards(fewest, shrink, empty).check(objects, before, said.append)
    else:
        with pytest.raises(InputError, match=words) as error:
            Guards(fewest, shrink, empty).check(objects, before, said.append)
        assert "the current snapshot stays" in str(error.value)
    assert said == []


def test_less_than_half_is_told():
    """Where nobody said how much may be missing; nothing is refused."""
    said = []
    Guards().check(4, 10, said.append)
    assert said == ["4 objects, the current snapshot has 10: 60.0% fewer; --max-shrink 50% would have refused that"]


def test_an_input_that_lost_its_rows_leaves_the_store_as_it_was(engine, tmp_path):
    """Also where rows are many and objects few, which only the finished build knows."""
    store = tmp_path / "store"
    made(table_of(10), store, partitions=2)
    before = listing(store)
    same = table_of(8, id=[1, 2] * 4, t=range(8))
    for table, options, words in (
        (table_of(0), {}, "there is no object"),
        (table_of(4), {"max_shrink": 0.5}, "4 objects, the current snapshot has 10"),
        (same, {"max_shrink": 0.5}, "2 objects, the current snapshot has 10"),
        (same, {"min_objects": 3}, "2 objects are fewer than --min-objects 3"),
    ):
        with pytest.raises(InputError, match=words):
            rebuilt(engine, table, store, **options)
        assert listing(store) == before
    assert len(rebuilt(engine, table_of(0), store, allow_empty=True)) == 0


def test_a_dry_run_says_what_a_rebuild_would_and_writes_nothing(engine, tmp_path):
    """The same counts, box and times; the same errors."""
    store = tmp_path / "store"
    table = table_of(9, id=[1, 1, 2, 3, 4, 5, 6, 7, 8], lat=[0.0] * 8 + [99.0], t=range(9))
    frame = engine.createDataFrame(table)
    options = {"max_bad": 0.2, "partitions": 2}
    dry = rebuild(frame, str(store), dry_run=True, **options)
    assert not store.exists()
    made = rebuild(frame, str(store), **options)
    assert dry == {name: made[name] for name in ("counts", "input")}
    assert dry["counts"] == {"read": 9, "kept": 7, "duplicates": 1, "quarantined": {"latitude out of range": 1}}
    taken = dry["input"].pop("taken")
    assert dry["input"] == {"box": [0.0, 0.0, 1.0, 0.0], "times": [0, 7]}
    assert (taken["id"], taken["position"]) == ("id, whole numbers", "lon, lat")
    assert dict(summary(dry))["snapshot"] == "none: a dry run writes nothing"
    assert dict(summary(made))["times"] == "0 to 7"
    for of_the_input, options, words in (
        (table.drop_columns("t"), {"max_bad": 0.2}, "1 ids stand more than once, 1 among them"),
        (table, {"max_bad": 0.0}, "1 of 9 rows are bad"),
        (table, {"max_bad": 0.2, "min_objects": 8}, "7 objects are fewer"),
    ):
        with pytest.raises(InputError, match=words):
            rebuild(engine.createDataFrame(of_the_input), str(store), dry_run=True, **options)


def test_ids_of_64_bits_without_a_sign(spark, tmp_path):
    """Those below 2^63 are taken; one of 2^63 is refused, as dtoss.build does."""
    import pyarrow.parquet as pq

    for last, fits in ((2**63 - 1, True), (2**63, False)):
        ids = pa.array([7, last], pa.uint64())
        table = table_of(2).set_column(0, "id", ids)
        pq.write_table(table, tmp_path / "ids.parquet")
        frame = spark.read.parquet(str(tmp_path / "ids.parquet"))
        if fits:
            rebuild(frame, str(tmp_path / "store"), max_bad=1.0)
            assert dtoss.open(str(tmp_path / "store"))[last]["id"] == last
            assert dtoss.build(ids, [[0.0, 0.0], [1.0, 1.0]])[last]["id"] == last
        else:
            with pytest.raises(InputError, match=r"1 of 2 ids are uint64 of 2\^63 or more"):
                rebuild(frame, str(tmp_path / "store"), max_bad=1.0)
            with pytest.raises(ValueError, match="does not fit"):
                dtoss.build(ids, [[0.0, 0.0], [1.0, 1.0]])


def test_longitudes_to_360_are_wrapped(engine, tmp_path):
    """As many as there are; in the plane it is an error."""
    table = table_of(5, lon=[0.0, 180.0, 180.5, 359.75, 360.0])
    index = rebuilt(engine, table, tmp_path / "store", wrap=True)
    assert [index[i]["lon"] for i in range(5)] == [0.0, 180.0, -179.5, -0.25, 0.0]
    with pytest.raises(ValueError, match="wrap takes 360 degrees"):
        rebuilt(engine, table, tmp_path / "store", wrap=True, crs="EPSG:32610", x="lon", y="lat")


def test_exchanged_axes_on_land_are_told(engine, tmp_path):
    """New York's longitude for latitude is legal, and in Antarctica."""
    said = []
    table = pa.table({"id": range(30), "lon": [40.7 + i / 100 for i in range(30)], "lat": [-74.0] * 30})
    rebuild(engine.createDataFrame(table), str(tmp_path / "store"), warn=said.append, dry_run=True)
    assert said == [
        "lon and lat look swapped: 0% of 30 positions lie on land as read, 100% with the axes exchanged: "
        "lon comes before lat; --x and --y name their columns"
    ]


def test_the_command_has_these_options(engine, tmp_path, command):
    """A dry run prints what it read, in a table or as JSON; a bad share is one line."""
    (tmp_path / "a.csv").write_text("id,lon,lat\n1,2,3\n2,350,3\n")
    asked = ("rebuild", tmp_path / "a.csv", "--store", tmp_path / "store")
    dry = command(*asked, "--dry-run", "--wrap", "--json")
    assert (dry.code, dry.err) == (0, "")
    assert dry.json["input"]["box"] == [-10.0, 3.0, 2.0, 3.0]
    assert command.fails(*asked, "--max-shrink", "half") == "max_shrink is 'half': a share such as 50% or 0.5 is wanted"
    assert "wrap takes 360 degrees" in command.fails(*asked, "--wrap", "--crs", "none")
    said = command.fails(*asked, "--wrap", "--min-objects", "3")
    assert said == "2 objects are fewer than --min-objects 3: the current snapshot stays"
    assert not (tmp_path / "store").exists()
