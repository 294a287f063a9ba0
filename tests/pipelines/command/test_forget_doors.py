"""Nobody rises again from a late file, whichever command reads it; where nobody is forgotten no plan changes."""

from __future__ import annotations

import json
import os

import dtoss
from dtoss.rows.input_columns import Columns
from dtoss.snapshots.store import Store
from pipelines.rows.position_frame import from_frame, without_forgotten
from tests.dtoss.erasure.decoding import found_in
from tests.pipelines.stores import objects_of

WHO = "anna-luise"
FENCE = {"id": "all", "box": [-10, -10, 40, 40], "events": ["inside"]}


def put(path, t, bad=True):
    """A file of rows of a time: of somebody, one of them bad, and of others."""
    rows = [f"car-{i},{0.1 * i},1.0,{t}" for i in range(12)]
    rows += [f"{WHO},3.0,2.0,{t}", *([f"{WHO},3.0,95.0,{t}"] if bad else [])]
    path.write_text("\n".join(["id,lon,lat,t", *rows]) + "\n")
    os.utime(path, (1, 1))
    return path


def counted(works, store):
    """The rows of an end of windows."""
    said = works("windows", "show", "--store", store, "--name", "w", "--at", "2001-09-09T01:48:00", "--json").lines[0]
    return sum(json.loads(line)["rows"] for line in said)


def test_no_command_takes_rows_of_somebody_who_is_forgotten(tmp_path, works):
    store, past, first, late = (tmp_path / name for name in ("store", "past", "first", "late"))
    first.mkdir()
    late.mkdir()
    begin = put(tmp_path / "all.csv", 1_000_000_000)
    works("rebuild", begin, "--store", store, "--partitions", 2)
    put(first / "a.csv", 1_000_000_060)
    replay = ("--clock", "data", "--max-bad", "50%")
    works("run", "--updates", first, "--store", store, "--history", past, "--cycles", 1, *replay)
    (tmp_path / "fence.jsonl").write_text(json.dumps(FENCE) + "\n")
    works("subscribe", tmp_path / "fence.jsonl", "--store", store)
    works("watch", first, "--store", store, "--once", "--max-bad", "50%")
    asked = ("--store", store, "--name", "w", "--lengths", "5min", "--measures", "rows,objects", "--max-bad", "50%")
    works("windows", "run", first, *asked, "--once")
    assert found_in(store, [WHO])
    assert found_in(past, [WHO])
    works("forget", "--store", store, "--history", past, "--id", WHO)
    assert found_in(tmp_path / "store", [WHO]) == found_in(past, [WHO]) == []

    put(late / "b.csv", 1_000_000_120)
    cycle = works("run", "--updates", late, "--store", store, "--cycles", 1, *replay, "--json").json
    assert cycle["counts"]["forgotten"] == 2
    assert cycle["counts"]["quarantined"] == {}
    assert sorted(objects_of(store)) == sorted(f"car-{i}" for i in range(12))
    done = works("history", "append", late / "b.csv", "--history", past, "--max-bad", "50%", "--json").json
    assert (done["rows"], done["forgotten"], done["quarantined"]) == (12, 2, {})
    said = works("watch", late, "--store", store, "--once").err
    assert "2 forgotten" in said
    assert {one["object"] for one in dtoss.events(str(store), after=1)} == {f"car-{i}" for i in range(12)}
    assert "2 forgotten" in works("windows", "run", late, *asked, "--once").err
    assert counted(works, store) == 13, "what was counted stays"
    works("windows", "run", first, late, *asked, "--rebuild", "2001-09-09T01:46:00", "2001-09-09T01:49:00")
    assert counted(works, store) == 12, "and is no more where it is counted anew"
    rebuilt = works("rebuild", late / "b.csv", "--store", store, "--json").json
    assert rebuilt["counts"]["forgotten"] == 2
    assert rebuilt["counts"]["kept"] == 12
    works("rebuild", "--history", past, "--as-of", "2001-09-09T01:48:00", "--store", store)
    assert found_in(tmp_path / "store", [WHO]) == found_in(past, [WHO]) == []

    works("forget", "--store", store, "--id", WHO, "--allow-again")
    rebuilt = works("rebuild", late / "b.csv", "--store", store, "--max-bad", "50%", "--json").json
    assert (rebuilt["counts"].get("forgotten"), rebuilt["counts"]["kept"]) == (None, 13)


def test_a_store_without_times_forgets_too_and_whole_numbers_are_ids(tmp_path, works):
    (tmp_path / "all.csv").write_text("id,lon,lat\n" + "".join(f"{i},{0.1 * i},1.0\n" for i in range(30)))
    store = tmp_path / "store"
    works("rebuild", tmp_path / "all.csv", "--store", store, "--partitions", 2)
    before = objects_of(store)
    works("forget", "--store", store, "--id", 7, "--id", "anna")
    assert objects_of(store) == {one: row for one, row in before.items() if one != 7}
    assert works("log", "--store", store, "--json").json[0]["what"] == "forget"
    done = works("rebuild", tmp_path / "all.csv", "--store", store, "--partitions", 2, "--json").json
    assert (done["counts"]["forgotten"], done["counts"]["kept"]) == (1, 29)
    assert len(Store(str(store)).snapshots()) >= 1


def test_where_nobody_is_forgotten_the_plan_of_spark_stays(spark, tmp_path):
    positions = from_frame(spark.createDataFrame([(1, 2.0, 3.0)], ["id", "lon", "lat"]), Columns())
    assert without_forgotten(positions, str(tmp_path)) is positions
