"""A Spark session for all tests of a process that need one, how two processes share tests, what ``--fast`` omits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

HERE = Path(__file__).parent
WITHOUT_KERNELS = ("ceps", "bench", "datasets")
"""Folders of tests that need few kernels of the index or none."""

MANY_CASES = 4
"""Cases of one test from which on a quick run takes every fourth."""

os.environ["DTOSS_QUIET"] = "compiling"  # tests compare stderr, and may be the first to compile
os.environ["SPARK_CONF_DIR"] = str(Path(__file__).parent / "spark")
# made examples are the same in each run, and no time decides: how long one takes depends on what else the machine does
settings.register_profile("sure", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("sure")


def pytest_addoption(parser):
    """``--fast`` is what `make test-fast` runs: a look after each edit, not what decides whether a change is good."""
    parser.addoption("--fast", action="store_true", help="no Spark, none marked slow, fewer examples and cases")


def pytest_report_header(config):
    """Say what a quick run leaves out, where its result is read."""
    if config.getoption("--fast"):
        return "fast: no Spark, nothing slow, a tenth of made examples, a quarter of many cases; `make test` runs all"
    return None


@pytest.fixture(autouse=True)
def settings_stay():
    """No test leaves another setting of ours to those that follow: which do depends on the process."""
    before = {name: value for name, value in os.environ.items() if name.startswith("DTOSS_")}
    yield
    assert {name: value for name, value in os.environ.items() if name.startswith("DTOSS_")} == before


@pytest.fixture(scope="session")
def spark():
    """A Spark of two cores that tries a failed task once more, with what our jobs set on every session."""
    pytest.importorskip("pyspark", reason="pipelines need pyspark, of the extra spark")
    from dtoss.warm import warm

    warm()  # else each worker compiles, within stages whose lines and seconds tests look at
    from pipelines.spark.session import spark_session

    few = {"spark.sql.shuffle.partitions": "2", "spark.default.parallelism": "2"}
    session = spark_session("local[2,2]", driver_memory="1g", name="tests", settings=few)
    yield session
    session.stop()


def with_fewer_examples(test, share):
    """Let hypothesis make that share of a test's examples, three at least; a test without any stays as it is."""
    if getattr(test, "is_hypothesis_test", False):
        usual = test._hypothesis_internal_use_settings or settings.default
        test._hypothesis_internal_use_settings = settings(usual, max_examples=max(3, int(usual.max_examples * share)))


def leave_out_what_is_slow(config, items):
    """Take from ``items`` those that start Spark or are marked slow, and three of four cases of a test with many."""
    slow = {item for item in items if "spark" in getattr(item, "fixturenames", ()) or item.get_closest_marker("slow")}
    cases = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for alike in cases.values():
        if len(alike) >= MANY_CASES:
            slow |= set(alike) - set(alike[::4])
    config.hook.pytest_deselected(items=[item for item in items if item in slow])
    items[:] = [item for item in items if item not in slow]
    for test in {getattr(item, "obj", None) for item in items}:
        with_fewer_examples(test, 0.1)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Put the tests in order for ``-n 2 --dist loadfile``, where a process that is free takes the next module.

    Modules with Spark come first: they take longest, and whoever has none of them left goes on with the others.
    """
    if config.getoption("--fast"):
        leave_out_what_is_slow(config, items)
    if not config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        return
    sparks = {item.path for item in items if "spark" in getattr(item, "fixturenames", ())}

    def turn(item):
        folder = item.path.relative_to(HERE).parts[0] if item.path.is_relative_to(HERE) else ""
        return item.path not in sparks, folder not in WITHOUT_KERNELS

    items.sort(key=turn)


def pytest_terminal_summary(terminalreporter):
    """Say what tests have measured: which lines of kernels were never run in checked mode."""
    for report in terminalreporter.getreports("passed"):
        for name, text in report.user_properties:
            terminalreporter.section(name)
            terminalreporter.write_line(str(text))
