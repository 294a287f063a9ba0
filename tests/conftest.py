"""One Spark session for all tests that need one."""

from __future__ import annotations

import os

import pytest

os.environ["DTOSS_QUIET"] = "1"  # tests compare stderr, and may be the first to compile


@pytest.fixture(scope="session")
def spark():
    """A Spark of two cores that tries a failed task once more, with what our jobs set on every session."""
    pytest.importorskip("pyspark")
    from dtoss.warm import warm

    warm()  # else each worker compiles, within stages whose lines and seconds tests look at
    from pipelines.session import spark_session

    few = {"spark.sql.shuffle.partitions": "2", "spark.default.parallelism": "2"}
    session = spark_session("local[2,2]", driver_memory="1g", name="tests", settings=few)
    yield session
    session.stop()
