"""Two tiers of tests, one Spark session for all that need one, who runs what; see CONTRIBUTING.md."""

from __future__ import annotations

import gc
import os
import re
import signal
from collections import Counter
from functools import cache
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, settings

from pipelines.spark.garbage import LOOKS
from tests.command import Command
from tests.costs import Costs, kept_seconds
from tests.examples import ALL, examples
from tests.sources import trees

HERE = Path(__file__).parent
MANY_CASES = 4
"""Cases of one test from which on a fast run takes every fourth."""
FAST_SECONDS = 0.15
"""A fast run leaves out what has last taken longer, by the clock or of a processor, for each case."""
DEEP_SECONDS = 1800.0
"""After which a test of the deep tier hangs, that says no time of its own: some kill for four minutes by themselves."""
HANDLED = (signal.SIGINT, signal.SIGTERM)
"""Signals that commands take for an end; a command that ran in this process may have left its handler."""

os.environ["DTOSS_QUIET"] = "compiling"  # tests compare stderr, and may be the first to compile
os.environ["DTOSS_PROGRESS_AFTER"] = "600"  # nor does it matter how busy the machine is
os.environ["SPARK_CONF_DIR"] = str(HERE / "spark")
# made examples are the same in each run, and no time decides: how long one takes depends on what else the machine does
settings.register_profile("sure", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("sure")
# a failure is enough where nobody reads the example: tests.mutants
settings.register_profile("seen", settings.get_profile("sure"), phases=[Phase.explicit, Phase.generate])


def pytest_addoption(parser):
    """The tier that is run, and where it is written what tests cost."""
    parser.addoption("--deep", action="store_true", help="all tests, the deep tier too, with all made examples")
    parser.addoption("--fast", action="store_true", help="no Spark, nothing slow, fewer examples and cases")
    parser.addoption("--costs-to", help="write seconds of each test to this file: own, with processes, by the clock")
    parser.addoption("--durations-to", help="write seconds of each function to this file, as .ci/durations.json has it")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    """Say which tier this is to modules that are collected, and measure what each test costs."""
    ALL[0] = config.getoption("--deep")
    if ALL[0] and config.getoption("timeout", None) is None:
        config.option.timeout = DEEP_SECONDS
    settings.register_profile("sure", settings.get_profile("sure"), max_examples=examples(100))
    settings.load_profile("sure")
    config.pluginmanager.register(Costs(config), "costs")


def pytest_report_header(config):
    """Say which tier is run, where its result is read."""
    if config.getoption("--fast"):
        return "fast: no Spark, nothing slow, a tenth of made examples, a quarter of many cases; `make test` decides"
    if config.getoption("--deep"):
        return "deep: all tests"
    return None


@pytest.fixture(autouse=True)
def settings_stay():
    """No test leaves another setting of ours or handler of a signal to those that follow: which do is chance."""
    before = {name: value for name, value in os.environ.items() if name.startswith("DTOSS_")}
    handlers = [(number, signal.getsignal(number)) for number in HANDLED]
    yield
    for number, handler in handlers:
        if handler is not None and signal.getsignal(number) is not handler:
            signal.signal(number, handler)
    assert {name: value for name, value in os.environ.items() if name.startswith("DTOSS_")} == before


@pytest.fixture(scope="session")
def spark():
    """A Spark of two cores that tries a failed task once more, with what our jobs set on every session."""
    pytest.importorskip("pyspark", reason="pipelines need pyspark, of the extra spark")
    from dtoss.warm import warm

    warm()  # else each worker compiles, within stages whose lines and seconds tests look at
    from pipelines.spark.session import spark_session

    few = {"spark.sql.shuffle.partitions": "2", "spark.default.parallelism": "2"}
    # to compile each query for a few rows takes a tenth of the time; the deep tier does it, as users' Spark
    few |= {} if ALL[0] else {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    session = spark_session("local[2,2]", driver_memory="1g", name="tests", settings=few)
    yield session
    session.stop()


class Here:
    """In place of a Spark: jobs run in this process, and their frames are tables."""

    @staticmethod
    def createDataFrame(rows):
        """The rows of a table as they are, and those of pandas as a table."""
        return pa.Table.from_pandas(rows, preserve_index=False) if isinstance(rows, pd.DataFrame) else rows


@pytest.fixture(params=["local", pytest.param("spark", marks=pytest.mark.deep("the same jobs by the other engine"))])
def engine(request):
    """Either engine of jobs, by which all comes out the same: what makes frames of Arrow tables."""
    return Here() if request.param == "local" else request.getfixturevalue("spark")


@pytest.fixture
def session(engine):
    """The Spark that does a job, or None where this process does: either engine."""
    return None if isinstance(engine, Here) else engine


@pytest.fixture
def command(capfd, monkeypatch):
    """Runs ``dtoss`` commands in this process; see :mod:`tests.command`."""
    return Command(capfd, monkeypatch)


def with_fewer_examples(test, share):
    """Let hypothesis make that share of a test's examples, three at least; a test without any stays as it is."""
    if getattr(test, "is_hypothesis_test", False):
        usual = test._hypothesis_internal_use_settings or settings.default
        test._hypothesis_internal_use_settings = settings(usual, max_examples=max(3, int(usual.max_examples * share)))


def slow_in(config):
    """Return whether a test is left out of a fast run: it starts Spark, or took long when it was last measured."""
    kept = kept_seconds()

    def slow(item):
        module, _, function = item.nodeid.partition("::")
        cases, cpu, wall, _ = kept.get(module, {}).get(function.partition("[")[0], (1, 0.0, 0.0, False))
        return "spark" in item.fixturenames or max(cpu, wall) / cases > FAST_SECONDS

    return slow


def leave_out(config, items, left_out):
    """Take tests from those that are run."""
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = [item for item in items if item not in left_out]


def check_reasons(items):
    """Raise where a test is in the deep tier and nothing says why."""
    for item in items:
        for mark in item.iter_markers("deep"):
            if len(mark.args) != 1 or not isinstance(mark.args[0], str) or len(mark.args[0].split()) < 3:
                raise pytest.UsageError(
                    f"{item.nodeid}: deep has no reason; @pytest.mark.deep('why it is not in make test')"
                )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Leave out what is of another tier, and put modules in order: with Spark first, then the dearest."""
    check_reasons(items)
    if not config.getoption("--deep"):
        leave_out(config, items, {item for item in items if item.get_closest_marker("deep")})
    if config.getoption("--fast"):
        cases, slow = {}, slow_in(config)
        for item in items:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
        too_many = [
            item for alike in cases.values() if len(alike) >= MANY_CASES for item in set(alike) - set(alike[::4])
        ]
        leave_out(config, items, {item for item in items if slow(item)} | set(too_many))
        for test in {getattr(item, "obj", None) for item in items}:
            with_fewer_examples(test, 0.1)
    if config.getoption("numprocesses", None) or hasattr(config, "workerinput"):
        module_of = {item: item.nodeid.partition("::")[0] for item in items}
        kept, walls = kept_seconds(), Counter()
        # in the same order in each process, which must come to the same sums
        for test in dict.fromkeys(item.nodeid.partition("[")[0] for item in items):
            module, _, function = test.partition("::")
            walls[module] += kept.get(module, {}).get(function, (0, 0.0, 0.0))[2]
        items.sort(key=lambda item: (not takes("spark", module_of[item]), -walls[module_of[item]]))


@cache
def takes(fixture, module):
    """Return whether a test or fixture of a module takes a fixture."""
    return re.search(rf"def \w+\((?:[^)]*, )?{fixture}[,)]", (HERE.parent / module).read_text()) is not None


@cache
def reads_sources(path):
    """Return whether a module reads the syntax trees of our files."""
    return "from tests.sources import" in path.read_text(encoding="utf-8")


def pytest_runtest_teardown(item, nextitem):
    """Keep syntax trees until no module that reads them follows: to make them and to let go of them takes seconds."""
    if reads_sources(item.path) and not (nextitem and reads_sources(nextitem.path)):
        trees.cache_clear()


def pytest_collection_finish(session):
    """Leave what was collected, half a million objects, out of every later collection of garbage; look for it less."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)
    LOOKS[0] = 0  # what tests make is not left out where a task runs in this process: hypothesis looks who refers to it


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """A free process takes the next module; all with Spark are one, so that one session is started, all of a browser,
    and all that read our sources, so that they are parsed once."""
    from xdist.scheduler import LoadFileScheduling

    class OneSpark(LoadFileScheduling):
        def _split_scope(self, nodeid):
            module = nodeid.partition("::")[0]
            one = next((fixture for fixture in ("spark", "driver") if takes(fixture, module)), None)
            return one or ("sources" if reads_sources(HERE.parent / module) else module)

    return OneSpark(config, log)


def pytest_terminal_summary(terminalreporter):
    """Say what tests have measured: which lines of kernels were never run in checked mode."""
    for report in terminalreporter.getreports("passed"):
        for name, text in report.user_properties:
            terminalreporter.section(name)
            terminalreporter.write_line(str(text))
