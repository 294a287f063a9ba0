"""Rows of tasks: the same ones whether Spark shuffles them or they come here."""

from __future__ import annotations

import numpy as np
import pytest

from dtoss.errors import InputError
from pipelines.engines.spark_rows import SparkRows, done_by_bucket
from pipelines.spark.session import MOST_TOLD

HERE = 1 << 40


def rows_of(task, table):
    """What a task says of its rows."""
    return task, sorted(map(str, table.to_pydict().get("id", [])))


@pytest.mark.parametrize("strings", [False, True])
def test_few_rows_here_are_those_of_a_shuffle(spark, strings):
    """Ids of which some are null, twice or alone; tasks by their number and by a table; more tasks than rows."""
    ids = [None, None, 7, 7, *range(-40, 40), 2**62]
    ids = [None if one is None else f"é{one}" for one in ids] if strings else ids
    frame = SparkRows(spark.createDataFrame([(one,) for one in ids], "id string" if strings else "id bigint"))
    by_table = (7, np.random.default_rng(0).integers(0, 7, 256).tolist())
    for tasks, task_of in (by_table,) if strings else ((1, None), (3, None)):
        there = done_by_bucket(frame, "id", tasks, rows_of, task_of)
        here = done_by_bucket(frame, "id", tasks, rows_of, task_of, HERE)
        assert [task for task, _ in here] == list(range(tasks))
        assert dict(here) == {task: [] for task in range(tasks)} | dict(there)
        assert sum(len(some) for _, some in here) == len(ids)


def test_the_table_of_256_workers_is_told_in_full(spark):
    """A worker for each bucket, in any order, the largest numbers among them."""
    order = np.random.default_rng(1).permutation(256).tolist()
    frame = SparkRows(spark.range(3000))
    here = done_by_bucket(frame, "id", 256, lambda task, table: len(table), order, HERE)
    plain = done_by_bucket(frame, "id", 256, lambda task, table: len(table), None, HERE)
    assert [here[order[bucket]] for bucket in range(256)] == plain


def test_errors_of_tasks_here_are_ours(spark):
    """As where Spark runs them."""

    def fails(task, table):
        raise InputError("no")

    for few in (-1, HERE):
        with pytest.raises(InputError, match=r"^no$"):
            done_by_bucket(SparkRows(spark.range(3)), "id", 1, fails, None, few)


def test_few_rows_are_worked_on_in_this_process_and_others_are_not(spark):
    """What this process remembers tells: all tasks, those without rows too, or none."""
    frame, seen = SparkRows(spark.range(20)), []
    done_by_bucket(frame, "id", 3, lambda task, table: seen.append(task), None, HERE)
    assert sorted(seen) == [0, 1, 2]
    done_by_bucket(frame, "id", 3, lambda task, table: seen.append(task))
    done_by_bucket(frame, "id", 3, lambda task, table: seen.append(task), None, 8)
    assert sorted(seen) == [0, 1, 2]


@pytest.fixture
def little_for_the_driver(spark):
    """Tasks may send 50,000 bytes to the driver."""
    conf = spark.sparkContext._jsc.sc().conf()
    conf.set(MOST_TOLD, "50k")
    yield
    conf.remove(MOST_TOLD)


def test_rows_that_turn_out_to_be_many_go_to_tasks(spark, little_for_the_driver):
    """Spark expects few bytes and finds more than a process may have: nothing fails, and nothing is lost."""
    rows = SparkRows(spark.range(0, 20_000, 1, 4))
    done = done_by_bucket(rows, "id", 2, lambda task, table: len(table), None, HERE)
    assert sum(done) == 20_000


def test_what_is_too_much_for_the_driver_is_an_error_that_names_the_option(spark, little_for_the_driver):
    """Not "Exception thrown in awaitResult:"."""
    with pytest.raises(InputError, match=rf"--conf {MOST_TOLD}=4g"):
        SparkRows(spark.range(0, 20_000, 1, 4)).table()
