"""One Spark session for all tests that need one, and how tests are shared by two processes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

HERE = Path(__file__).parent
WITHOUT_KERNELS = ("ceps", "bench", "datasets")
"""Folders of tests that need few kernels of the index or none."""

os.environ["DTOSS_QUIET"] = "1"  # tests compare stderr, and may be the first to compile
os.environ["SPARK_CONF_DIR"] = str(Path(__file__).parent / "spark")


@pytest.fixture(autouse=True)
def settings_stay():
    """No test leaves another setting of ours to those that follow: which do depends on the process."""
    before = {name: value for name, value in os.environ.items() if name.startswith("DTOSS_")}
    yield
    assert {name: value for name, value in os.environ.items() if name.startswith("DTOSS_")} == before


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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Share the tests for ``-n 2 --dist loadgroup``: one process has the Spark session, the other the rest by modules.

    The former begins with compiling all kernels, so the latter begins with modules that need few of them. Who is done
    first takes modules that are left.
    """
    if not config.pluginmanager.hasplugin("xdist"):
        return
    sparks = {item.path for item in items if "spark" in getattr(item, "fixturenames", ())}

    def turn(item):
        folder = item.path.relative_to(HERE).parts[0] if item.path.is_relative_to(HERE) else ""
        return item.path not in sparks, folder not in WITHOUT_KERNELS

    for item in items:
        item.add_marker(
            pytest.mark.xdist_group("spark" if item.path in sparks else str(item.path.relative_to(config.rootpath)))
        )
    if config.getoption("numprocesses", None) or hasattr(config, "workerinput"):
        items.sort(key=turn)
