"""Lines of the log: JSON, of what went wrong or took long; nothing waits for them, and what is dropped is counted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter

import pytest

from dtoss.errors import InputError
from dtoss.serve.observability import log_lines
from dtoss.serve.observability.log_lines import LONGEST_LINE, WAITING, Log
from tests.clocks import clocked
from tests.ends import end_now

REQUEST = {"id": "a-1", "route": "/knn", "token": "map"}


def lines(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_slow_and_failed_requests_leave_a_line_each_and_others_none(tmp_path):
    file = tmp_path / "log"
    log = Log(str(file), slow=0.2, worker=3)
    log.request(**REQUEST, status=200, seconds=0.199, detail=None)
    log.request(**REQUEST, status=304, seconds=0.01, detail=None)
    log.request(**REQUEST, status=200, seconds=0.2, detail=None)
    log.request(id="b", route="/box", status=400, seconds=0.001, token="", detail="k is 0: 1 to 1,000\nare allowed")
    log.request(**REQUEST, status=0, seconds=0.01, detail=None)
    log.close()
    found = lines(file)
    assert all(line.pop("time").endswith("Z") for line in found)
    assert found == [
        {"event": "request", "worker": 3, **REQUEST, "status": 200, "seconds": 0.2},
        {
            "event": "request", "worker": 3, "id": "b", "route": "/box", "status": 400, "seconds": 0.001,
            "detail": "k is 0: 1 to 1,000\nare allowed",
        },
        {"event": "request", "worker": 3, **REQUEST, "status": 0, "seconds": 0.01},
    ]  # fmt: skip


def test_a_flood_of_errors_is_cut_off_and_counted(tmp_path, monkeypatch):
    """A hundred failures and twenty refusals in each second; what happens to the server is logged all the same."""
    now, dropped = [50.0], []
    clocked(monkeypatch, log_lines, lambda: now[0])
    log = Log(str(tmp_path / "log"), dropped=dropped.append)
    for number in range(300):
        now[0] += 0.006
        log.request(**REQUEST, status=503, seconds=0.0)
        log.request(**REQUEST, status=429, seconds=0.0)
        log.event("bundle failed")
        if number == 150:
            log.event("swapped")
    log.close()
    found = Counter((line["event"], line.get("status")) for line in lines(tmp_path / "log"))
    assert found == {("request", 503): 200, ("request", 429): 40, ("bundle failed", None): 200, ("swapped", None): 1}
    assert sum(dropped) == 3 * 300 - 440


def failing():
    raise ValueError("the roof fell in\nand the walls too")


def test_an_exception_is_one_line_with_its_trace(tmp_path):
    file = tmp_path / "log"
    log = Log(str(file))
    try:
        failing()
    except ValueError as error:
        log.event("failed", error=error, what="a fact may be called so", path=tmp_path, long="x" * 10_000)
    log.close()
    (line,) = lines(file)
    assert line["event"] == "failed"
    assert "in failing" in line["error"]
    assert line["error"].rstrip().endswith("and the walls too")
    assert line["path"] == str(tmp_path)
    assert len(line["long"]) < LONGEST_LINE + 10
    assert "worker" not in line


def test_a_file_that_was_renamed_is_followed_by_a_new_one(tmp_path):
    """As logrotate does it, without a signal."""
    file, old = tmp_path / "log", tmp_path / "log.1"
    log = Log(str(file))
    log.event("one")
    wait_for(file)
    file.rename(old)
    log.event("two")
    log.close()
    assert [line["event"] for line in lines(old)] == ["one"]
    assert [line["event"] for line in lines(file)] == ["two"]


def wait_for(file):
    ending = time.monotonic() + 60
    while not (file.exists() and file.stat().st_size):
        assert time.monotonic() < ending
        time.sleep(0.01)


def test_a_disk_that_is_full_costs_lines_that_are_counted():
    dropped = []
    log = Log("/dev/full", dropped=dropped.append)
    for _ in range(5):
        log.event("lost")
    log.close()
    assert sum(dropped) == 5


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(InputError, match=r"no/log cannot be written: No such file or directory"):
        Log(str(tmp_path / "no" / "log"))


FULL_PIPE = f"""
import time
from dtoss.serve.observability.log_lines import Log
dropped = []
log = Log(dropped=dropped.append)
began = time.monotonic()
slowest = 0.0
for number in range({WAITING} + 5000):
    before = time.monotonic()
    log.event(f"kind {{number % 200}}", number=number, text="x" * 50)
    slowest = max(slowest, time.monotonic() - before)
log.close()
print(len(dropped), slowest, time.monotonic() - began)
"""


def test_nobody_waits_for_a_pipe_that_is_full():
    """stderr is a pipe that is not read before all is over; no kind of event has more lines than a second may have."""
    run = subprocess.Popen([sys.executable, "-c", FULL_PIPE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with run:
        said, _, seconds = run.stdout.readline().split()
        rest = run.stderr.read().splitlines()
    assert int(said) > 1_000
    assert float(seconds) < 30.0
    numbers = [json.loads(line)["number"] for line in rest]
    assert 100 < len(numbers) <= WAITING + 5_000 - int(said)
    assert numbers[0] == 0
    assert numbers == sorted(set(numbers))


def test_a_forked_process_logs_on(tmp_path):
    """With a thread of its own: that of its parent did not come along."""
    file = tmp_path / "log"
    log = Log(str(file))
    log.event("parent")
    wait_for(file)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of threads
        with log._queue.mutex:  # as a thread of the parent may hold it
            child = os.fork()
            if not child:
                signal.alarm(20)
                log.event("child")
                log.close()
                end_now(0)
    assert os.waitpid(child, 0)[1] == 0
    log.event("parent again")
    log.close()
    log.close()
    assert [line["event"] for line in lines(file)] == ["parent", "child", "parent again"]
