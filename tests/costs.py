"""What each test costs: processor time of its whole tree of processes, and wall time, as a plugin writes them down.

A JVM that lives on is no ended child, so the usage of children does not know it: what is read is /proc, for this
process and all that descend from it, ended ones through whoever waited for them.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from pathlib import Path

import pytest

TICK = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
CHEAP_SECONDS = 0.1
"""Functions of tests that take less are kept as one sum of their module."""
FILE = Path(__file__).parent.parent / ".ci" / "durations.json"
"""Seconds by module and function of the last `make durations`; what is dearest is begun first."""


def descendants(pid):
    """Return the ids of the processes that descend from one, itself first."""
    if pid == os.getpid() and _childless():
        return [pid]
    found, look = [], [pid]
    while look:
        one = look.pop()
        found.append(one)
        try:
            for task in os.listdir(f"/proc/{one}/task"):  # noqa: PTH208 - for each test, of each thread
                with open(f"/proc/{one}/task/{task}/children", "rb", buffering=0) as file:  # noqa: PTH123
                    look.extend(map(int, file.read().split()))
        except OSError:  # ended meanwhile
            continue
    return found


def _childless():
    """Return whether this process has no children: as after most tests, and told at once."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def tree_seconds(pid=None):
    """Return the processor time in seconds that a process and all its descendants have used until now."""
    ticks = 0
    for one in descendants(pid or os.getpid()):
        try:
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += sum(map(int, fields[11:15]))  # user and system time, own and of children that were waited for
    return ticks / TICK


def kept_seconds():
    """Return {module: {function: [cases, processor seconds, wall seconds, Spark]}} as `make durations` wrote it."""
    return json.loads(FILE.read_text()) if FILE.exists() else {}


def seconds_by_test():
    """Return a function that gives the processor seconds of one case of a test, by its id; 0.0 of an unknown one."""
    kept = kept_seconds()

    def seconds(test):
        module, _, function = test.partition("::")
        cases, cpu, *_ = kept.get(module, {}).get(function.partition("[")[0], (1, 0.0))
        return cpu / cases

    return seconds


class Costs:
    """Keeps the seconds of each test; with xdist each process sends its own to the one that prints."""

    def __init__(self, config):
        self.config = config
        self.spent, self.begun, self.used = {}, {}, None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item, nextitem):
        before = tree_seconds() if self.used is None else self.used
        began, own = time.perf_counter(), time.process_time()
        self.begun.setdefault("own", before)
        result = yield
        self.used = tree_seconds()
        alone, tree = time.process_time() - own, self.used - before
        spark = "spark" in getattr(item, "fixturenames", ())
        self.spent[item.nodeid] = (alone, max(tree, alone), time.perf_counter() - began, spark)
        return result

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session):
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput |= {"costs": self.spent, "begun": self.begun.get("own", 0.0)}

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node, error):
        output = getattr(node, "workeroutput", {})
        self.spent.update({test: tuple(cost) for test, cost in output.get("costs", {}).items()})
        self.begun[node.gateway.id] = output.get("begun", 0.0)

    def pytest_terminal_summary(self, terminalreporter):
        if hasattr(self.config, "workerinput") or not self.spent:
            return
        if target := self.config.getoption("--durations-to"):
            Path(target).write_text(lines_of(self.spent))
        if target := self.config.getoption("--costs-to"):
            rows = ["\t".join(map(str, (test, *cost))) for test, cost in self.spent.items()]
            Path(target).write_text("\n".join(rows) + "\n")
        shares = defaultdict(float)
        for own, tree, _, spark in self.spent.values():
            shares["with Spark" if spark else "in processes of their own" if tree - own > 0.2 else "in process"] += tree
        # all that workers did before their first test; this process collects as well, and does little else
        shares["collecting and starting"] = sum(self.begun.values()) + (
            0.0 if "own" in self.begun else time.process_time()
        )
        total = sum(shares.values())
        said = ", ".join(f"{name} {seconds / 60:.1f}" for name, seconds in sorted(shares.items()))
        terminalreporter.write_line(f"{total / 60:.1f} core-minutes: {said}")


def lines_of(spent):
    """Return what `.ci/durations.json` holds of (test, cost) pairs: a line for each module, cheap functions as one."""
    modules = defaultdict(dict)
    for test, (_, cpu, wall, spark) in sorted(spent.items()):
        module, _, function = test.partition("::")
        row = modules[module].setdefault(function.partition("[")[0], [0, 0.0, 0.0, spark])
        row[:3] = row[0] + 1, row[1] + cpu, row[2] + wall
    lines = []
    for module, rows in modules.items():
        cheap = [rows.pop(name) for name, row in list(rows.items()) if max(row[1:3]) < CHEAP_SECONDS]
        if cheap:
            rows[""] = [*(sum(row[i] for row in cheap) for i in range(3)), any(row[3] for row in cheap)]
        rounded = {name: [row[0], round(row[1], 2), round(row[2], 2), row[3]] for name, row in rows.items()}
        lines.append(f"{json.dumps(module)}: {json.dumps(rounded)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"
