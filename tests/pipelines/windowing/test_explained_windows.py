"""What a job of windows would do is told before it runs, and is what Spark's plan does."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from dtoss.geometry.space import space_of
from dtoss.windows.measures import MEASURES
from dtoss.windows.spec import spec_of
from pipelines.windowing.explaining import explain
from tests.dtoss.windows.storage.kept import SITES

PLANE = space_of(None, "plane")


def wanted(measures):
    """A spec of some measures."""
    return spec_of("5min,1h", "1min", measures, "partition", PLANE, "")


@pytest.mark.parametrize("measures", ["rows", "rows,objects", "here", ",".join(MEASURES)])
def test_rows_are_shuffled_once_and_panes_are_combined_before_they_are_sent(measures):
    """Which operators run together: by file, by object, by key; moves and visits are there where measures need them."""
    found = explain(wanted(measures))
    assert found.fusion.proven
    assert ("moves" in found.operators) == (measures not in ("rows", "rows,objects"))
    assert ("visits" in found.operators) == ("objects" in measures)
    assert not found.fusion.together("read", "panes")
    assert found.fusion.together("distinct", "keys", "panes", "watermark")
    assert found.fusion.together("windows", "results")
    assert not found.fusion.together("panes", "windows")
    crossing = [pair for pair in found.rates if not found.fusion.together(*pair)]
    assert crossing == [("read", "distinct"), ("panes", "windows"), ("results", "commit"), ("watermark", "commit")]
    assert found.fusion.sent == sum(found.rates[pair] for pair in crossing) == 1_502


def test_a_user_is_told_and_nothing_is_run_or_written(tmp_path, command, monkeypatch):
    """No Spark, no store; a bad option is refused as ever."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shops.csv").write_text("id,x,y\n" + "".join(f"{i},{x},{y}\n" for i, (x, y) in enumerate(SITES)))
    asked = ["windows", "run", "in", "--store", "store", "--name", "w", "--explain", "--by", "sites:shops.csv"]

    said = command(*asked, "--metric", "plane", "--lengths", "1h", "--measures", "rows,flow", "--workers", "3")
    assert said.code == 0, said.err
    assert not (tmp_path / "store").exists()
    lines = [" ".join(line.split()) for line in said.out.splitlines()]
    assert "distinct object of rows of one object and time one counts, also of those of before" in lines
    assert "by object: distinct, keys, moves, panes, watermark" in lines
    assert (
        "read -> distinct: 1,000 rows, a shuffle: distinct, moves, watermark need all rows of an object in one task"
        in lines
    )
    assert lines[-1] == "groups of objects: 256, on 3 workers"
    said = command.fails(*asked, "--metric", "plane", "--lengths", "1h", "--rebalance", "soon")
    assert "--rebalance is 'soon'" in said


def test_the_plan_of_spark_has_the_one_shuffle_that_is_told_and_groups_move_in_it(spark, tmp_path):
    """One exchange of a batch; a task has the rows of its groups and no others, wherever these are."""
    from dtoss.buckets import BUCKETS, bucket_of
    from pipelines.engines.spark_rows import SparkRows, done_by_bucket

    ids = np.arange(500)
    rows = SparkRows(spark.createDataFrame(pa.table({"id": ids})))
    worker_of = np.random.default_rng(3).integers(0, 3, BUCKETS).tolist()
    plan = rows.exchange_by_bucket(3, "id", worker_of).frame._jdf.queryExecution().executedPlan().toString()
    assert plan.count("Exchange") == 1
    assert not explain(wanted("rows")).fusion.together("read", "panes")
    done = done_by_bucket(
        rows, "id", 3, lambda task, some: (task, sorted(some["id"].to_pylist()) if len(some) else []), worker_of
    )
    owner = np.array(worker_of)[bucket_of(pa.array(ids))]
    assert dict(done) == {task: ids[owner == task].tolist() for task in range(3)}
