"""``dtoss run``: one process through what may happen to it, and what it says of arguments that cannot be."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from dtoss.errors import InputError
from dtoss.snapshots.store import Store
from pipelines.spark.session import renew_session
from tests.pipelines.stores import objects_of

ROOT = Path(__file__).parents[3]
LOOP = """
import os, sys, time
import pipelines.ticks.three_commits
from pipelines.command.main import main

real, long, begun = pipelines.ticks.three_commits.merge, sys.argv.pop(1), sys.argv.pop(1)

def slow(batches):
    open(begun, "w").close()
    time.sleep(600)
    yield from batches

def merge(positions, store, *wanted, **options):
    made = real(positions, store, *wanted, **options)
    if os.path.exists(long):
        positions.session.range(1).mapInArrow(slow, "id bigint").count()
    return made

pipelines.ticks.three_commits.merge = merge
main(sys.argv[1:])
"""
"""The command; while there is a file ``long``, tasks of Spark's take ten minutes before a cycle has ended."""
WITHOUT_JAVA = """
import sys, time
from pathlib import Path
import pipelines.ticks.three_commits, pipelines.spark.session
from pipelines.command.main import main
from tests.pipelines.jobs.test_run import Scene, fails

def long():
    begun.touch()
    time.sleep(600)

begun, scene = Path(sys.argv.pop(1)), Scene(None, None)
scene.before = [None, fails(OSError("Java has gone")), fails(OSError("Java has gone")), None, long]
pipelines.spark.session.spark_session = lambda *where, **options: None
pipelines.ticks.three_commits.merge = scene.merge
pipelines.ticks.three_commits.read_positions = scene.read_positions
main(sys.argv[1:])
"""
"""The command, whose cycles keep lines of files and need no Spark: the second fails twice, the third does not end."""


def put(folder, name, rows):
    """A file of rows (id, lon, lat, t), whole at once."""
    (folder / f".{name}").write_text(
        "".join(f"{','.join(map(str, row))}\n" for row in [("id", "lon", "lat", "t"), *rows])
    )
    moment = time.time() - 30.0
    os.utime(folder / f".{name}", (moment, moment))
    (folder / f".{name}").rename(folder / name)


def until(true, process, seconds=200):
    ends = time.monotonic() + seconds
    while not true():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < ends
        time.sleep(0.02)


def children(pid, name):
    """Processes of this name that a process has started, or those have."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[1]) == pid and fields[0] != "Z":
                found.append(int(path.parent.name))
        except (OSError, IndexError):
            continue
    below = [other for child in found for other in children(child, name)]
    return [pid for pid in found if name in Path(f"/proc/{pid}/cmdline").read_text()] + below


def numbers(path):
    """Of a file of metrics, by name."""
    return dict(line.split(" ") for line in path.read_text().splitlines() if line[0] != "#")


def test_a_loop_without_java_through_what_may_happen(tmp_path):
    """As the loop below: cycles, a Spark that fails twice and is started anew, metrics; then SIGTERM in mid-cycle."""
    pytest.importorskip("prometheus_client")
    updates, store, begun, metrics = (tmp_path / name for name in ("updates", "store", "begun", "m.prom"))
    updates.mkdir()
    put(updates, "a.csv", [(1, 2.5, 0.5, 1)])
    arguments = [
        sys.executable, "-c", WITHOUT_JAVA, begun, "run", "--updates", updates, "--store", store, "--every", "50ms",
        "--json", "--metrics-file", metrics, "--keep", "1", "--keep-for", "0s", "--done", f"move:{tmp_path / 'read'}",
        "--engine", "spark",
    ]  # fmt: skip
    process = subprocess.Popen(
        [*map(str, arguments)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        first = json.loads(process.stdout.readline())["snapshot"]
        put(updates, "b.csv", [(2, 2.5, 0.5, 1)])
        second = json.loads(process.stdout.readline())
        assert second["staleness"] >= 30.0
        until(lambda: sorted(path.name for path in (tmp_path / "read").glob("*")) == ["a.csv", "b.csv"], process)
        put(updates, "c.csv", [(3, 2.5, 0.5, 1)])
        until(begun.exists, process)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=300)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    assert (process.returncode, out) == (1, "")
    failed = ["warning: a cycle has failed: OSError: Java has gone", "warning: the cycle is tried again in 0.05 s"]
    assert err.splitlines() == [
        *failed, failed[0], "warning: Spark is started anew", failed[1], "error: interrupted",
    ]  # fmt: skip
    home = Store(str(store))
    assert home.writes() is None
    assert home.current() == second["snapshot"] > first
    assert len(home.unfinished()) == 0
    found = numbers(metrics)
    assert (found["dtoss_cycles_total"], found["dtoss_cycle_failures_total"]) == ("2.0", "2.0")
    assert found["dtoss_spark_sessions_total"] == "2.0"


def test_a_java_that_does_not_answer_is_let_go_of_at_once(monkeypatch):
    """At the first failure, whatever the error; one that answers only after a second failure that we do not know."""
    session_type = pytest.importorskip("pyspark.sql").SparkSession
    told, renewals = [], []

    def renewals_after(error, in_a_row, stopped):
        context = SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=stopped)))
        session = SimpleNamespace(sparkContext=context)
        monkeypatch.setattr(session_type, "getActiveSession", classmethod(lambda cls: session))
        del renewals[:]
        renew_session(lambda: renewals.append(1), error, in_a_row, told.append)
        return len(renewals)

    def gone():
        raise ConnectionRefusedError("Java has gone")

    assert renewals_after(InputError("a column is missing"), 1, gone) == 1
    assert renewals_after(OSError("no"), 1, lambda: True) == 1
    assert told == ["Spark is started anew"] * 2
    assert renewals_after(OSError("no"), 1, lambda: False) == 0
    assert renewals_after(OSError("no"), 2, lambda: False) == 1
    assert renewals_after(InputError("a column is missing"), 2, lambda: False) == 0


@pytest.mark.deep("starts Java twice; the loop without Java above takes the same way")
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked for in /proc")
def test_a_loop_through_what_may_happen(tmp_path):
    """Cycles, a Java that is killed, metrics; then SIGTERM in mid-cycle, which takes less than five seconds."""
    pytest.importorskip("prometheus_client")
    updates, store, long, begun = (tmp_path / name for name in ("updates", "store", "long", "begun"))
    updates.mkdir()
    rows = {i: (i, i % 7 - 3.5, i % 5 - 2.5, 1) for i in range(40)}
    put(updates, "a.csv", rows.values())
    arguments = [
        sys.executable, "-c", LOOP, long, begun, "run", "--updates", updates, "--store", store, "--every", "200ms",
        "--master", "local[2]", "--driver-memory", "1g", "--partitions", "2", "--max-ahead", "off", "--json",
        "--metrics", "0", "--metrics-file", tmp_path / "m.prom", "--done", f"move:{tmp_path / 'read'}", "--keep", "1",
        "--keep-for", "0s",
    ]  # fmt: skip
    process = subprocess.Popen(
        [*map(str, arguments)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        first = json.loads(process.stdout.readline())
        assert (first["objects"], first["cycle"]["updated"]) == (40, 40)
        rows |= {i: (i, i % 3 - 1.25, 0.5, 2) for i in range(10)}
        put(updates, "b.csv", list(rows.values())[:10])
        second = json.loads(process.stdout.readline())
        assert (second["objects"], second["cycle"]["updated"], second["cycle"]["late"]) == (40, 10, 0)
        assert second["staleness"] >= 30.0
        until(lambda: sorted(path.name for path in (tmp_path / "read").glob("*")) == ["a.csv", "b.csv"], process)
        [java] = children(process.pid, "java")
        os.kill(java, signal.SIGKILL)
        rows |= {i: (i, 2.5, i % 3 - 1.25, 3) for i in range(10, 20)}
        put(updates, "c.csv", list(rows.values())[10:20])
        third = json.loads(process.stdout.readline())
        assert third["cycle"]["updated"] == 10
        assert objects_of(store) == {i: (float(x), float(y), t) for i, x, y, t in rows.values()}
        until(lambda: "dtoss_spark_sessions_total 2.0" in (tmp_path / "m.prom").read_text(), process)
        current = Store(str(store)).current()
        long.touch()
        put(updates, "d.csv", list(rows.values())[:5])
        until(begun.exists, process)
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=300)
        seconds = time.monotonic() - began
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    assert seconds < 120.0  # its tasks would take six hundred
    assert (process.returncode, out) == (1, "")
    lines = err.splitlines()
    assert lines[-1] == "error: interrupted"
    assert "warning: Spark is started anew" in lines
    assert Store(str(store)).writes() is None
    assert Store(str(store)).current() > current  # its cycle had ended but for the saying
    found = numbers(tmp_path / "m.prom")
    assert found["dtoss_cycles_total"] == "3.0"
    assert found["dtoss_cycle_failures_total"] == "1.0"
    assert found["dtoss_updated_total"] == "60.0"
    assert found["dtoss_objects"] == "40.0"


def test_a_beat_without_updates_needs_no_spark(command, tmp_path, no_spark):
    done = command("run", "--updates", tmp_path, "--store", tmp_path / "store", "--cycles", 1)
    assert done == (0, "nothing has changed\n", "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--every", "60"], "'60' is no duration: a number and a unit are wanted, as in 500ms, 60s, 15min, 1h or 2d"),
        (["--every", "0s"], "every is 0.0: seconds above 0 are wanted"),
        (["--expire", "soon"], "'soon' is no duration"),
        (["--deleted-for", "off"], "'off' is no duration"),
        (["--done", "burn"], "done is 'burn': delete or move:DIR is wanted"),
        (["--updates", "/nowhere/at/all"], "nothing is at /nowhere/at/all: make the folder in which updates arrive"),
        (["--plan", "/nowhere.json"], "there is no plan at /nowhere.json"),
        (["--pivots", "spread"], "'spread' is not one of"),
        (["--metrics", "99999"], "metrics cannot be served on port 99999 of 127.0.0.1"),
        (["--in-place-until", "-1"], "in_place_until is -1.0"),
    ],
)
def test_arguments_that_cannot_be(command, tmp_path, no_spark, arguments, said):
    """One line, exit code 2, before Spark starts."""
    given = ["--updates", tmp_path, *arguments] if arguments[0] != "--updates" else arguments
    assert said in command.fails("run", "--store", tmp_path / "store", "--cycles", 1, *given)
    assert not (tmp_path / "store").exists()
