"""``dtoss run``: one process through what may happen to it, and what it says of arguments that cannot be."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dtoss.snapshots.store import Store
from pipelines.command.main import main
from tests.pipelines.stores import objects_of

ROOT = Path(__file__).parents[3]
LOOP = """
import os, sys, time
import pipelines.beats.committing
from pipelines.command.main import main

real, long, begun = pipelines.beats.committing.cycle, sys.argv.pop(1), sys.argv.pop(1)

def slow(batches):
    open(begun, "w").close()
    time.sleep(60)
    yield from batches

def cycle(positions, store, **options):
    made = real(positions, store, **options)
    if os.path.exists(long):
        positions.frame.sparkSession.range(1).mapInArrow(slow, "id bigint").count()
    return made

pipelines.beats.committing.cycle = cycle
main(sys.argv[1:])
"""
"""The command; while there is a file ``long``, tasks of Spark's take a minute before a cycle has ended."""


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
        time.sleep(0.05)


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


@pytest.mark.slow
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
        out, err = process.communicate(timeout=60)
        seconds = time.monotonic() - began
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    assert seconds < 30.0  # its tasks would take sixty
    assert (process.returncode, out) == (1, "")
    lines = [line for line in err.splitlines() if not re.fullmatch(r"\w+: \d+\.\d s", line)]
    assert lines[-1] == "error: interrupted"
    assert "warning: Spark is started anew" in lines
    assert Store(str(store)).writes() is None
    assert Store(str(store)).current() > current  # its cycle had ended but for the saying
    found = dict(line.split(" ") for line in (tmp_path / "m.prom").read_text().splitlines() if line[0] != "#")
    assert found["dtoss_cycles_total"] == "3.0"
    assert found["dtoss_cycle_failures_total"] == "1.0"
    assert found["dtoss_updated_total"] == "60.0"
    assert found["dtoss_objects"] == "40.0"


@pytest.fixture
def command(capsys):
    """Run the command here; return its exit code, what it printed, and what it said on stderr."""

    def run(*arguments):
        with pytest.raises(SystemExit) as done:
            main([str(argument) for argument in arguments])
        return done.value.code, *capsys.readouterr()

    return run


def test_a_beat_without_updates_needs_no_spark(command, tmp_path, monkeypatch):
    monkeypatch.setattr("pipelines.command.cycles.start_spark", pytest.fail)
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
def test_arguments_that_cannot_be(command, tmp_path, monkeypatch, arguments, said):
    """One line, exit code 2, before Spark starts."""
    monkeypatch.setattr("pipelines.command.cycles.start_spark", pytest.fail)
    given = ["--updates", tmp_path, *arguments] if arguments[0] != "--updates" else arguments
    code, out, err = command("run", "--store", tmp_path / "store", "--cycles", 1, *given)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert said in err
    assert err.count("\n") == 1
    assert not (tmp_path / "store").exists()
