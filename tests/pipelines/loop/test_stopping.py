"""Being asked to end: in a process of its own, as signals are sent to the main thread."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipelines.loop.stopping import Stopping

ROOT = Path(__file__).parents[3]
LOOP = """
import signal, sys, time
from pipelines.loop.stopping import Stopping

def ended(number, frame):
    print("abandoned", flush=True)
    raise KeyboardInterrupt

for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, ended)
def say_and_wait():
    print("ready", flush=True)
    while not stopping.asked:
        time.sleep(0.01)

works, inside, lasts = "works" in sys.argv[1], sys.argv[1] != "works later", float(sys.argv[2])
stopping = Stopping(grace=float(sys.argv[3]))
with stopping.listening():
    signal.signal(signal.SIGINT, signal.default_int_handler)  # as a new Spark does
    stopping.listen_again()
    if works:
        if not inside:
            say_and_wait()
        with stopping.cycle():
            try:
                if sys.argv[1] == "works on":
                    say_and_wait()
                elif inside:
                    print("ready", flush=True)
                ends = time.monotonic() + lasts
                while time.monotonic() < ends:
                    time.sleep(0.01)
            except KeyboardInterrupt:
                sys.exit(3)
        print("finished", flush=True)
    else:
        print("ready", flush=True)
        stopping.wait(lasts)
print("asked" if stopping.asked else "not asked", flush=True)
assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)  # an alarm that was left set would end the process
"""


STARTS = """
import signal, sys, time
from pipelines.loop.stopping import Ending, Stopping

stopping = Stopping(grace=600)
with stopping.listening(), stopping.cycle():
    try:
        with stopping.starting():
            print("ready", flush=True)
            try:
                for _ in range(12_000):  # a signal just before the system's call does not wake it
                    time.sleep(0.05)
            except Ending:
                if sys.argv[1] == "raises":
                    raise
    except Ending:
        print("ended", flush=True)
print("asked" if stopping.asked else "not asked", flush=True)
try:
    with stopping.starting():
        print("started", flush=True)
except Ending:
    print("ended", flush=True)
"""


def looped(works, lasts, grace, signals=(), program=LOOP):
    """Run a loop, send it signals; return its exit code and what it printed, long before it would end by itself."""
    process = subprocess.Popen(
        [sys.executable, "-c", program, works, str(lasts), str(grace)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "ready\n"
        for turn, number in enumerate(signals):
            time.sleep(0.2 if turn else 0.0)  # so that both are seen
            process.send_signal(number)
        out, _ = process.communicate(timeout=300)
        return process.returncode, out.split()
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_who_waits_is_woken(number):
    assert looped("waits", 600, 600, [number]) == (0, ["asked"])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_cycle_may_end_by_itself(number):
    assert looped("works on", 0.1, 600, [number]) == (0, ["finished", "asked"])


def test_a_cycle_that_takes_longer_is_abandoned():
    assert looped("works", 600, 0.2, [signal.SIGTERM]) == (3, ["abandoned"])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("works", ["raises", "keeps it to itself"])
def test_what_only_starts_ends_at_once(works, number):
    """Whether or not what is being started lets the error through; and nothing starts afterwards."""
    assert looped(works, 0, 0, [number], STARTS) == (0, ["ended", "asked", "ended"])


def test_a_signal_just_before_a_cycle_begins():
    """It has looked before, and begins: its time runs from there."""
    assert looped("works later", 600, 0.2, [signal.SIGTERM]) == (3, ["abandoned"])


def test_a_second_signal_does_not_wait():
    assert looped("works", 600, 600, [signal.SIGTERM, signal.SIGTERM]) == (3, ["abandoned"])


def test_without_a_signal_nothing_happens():
    assert looped("works", 0.2, 0.1) == (0, ["finished", "not", "asked"])
    assert looped("waits", 0.2, 0.1) == (0, ["not", "asked"])


def test_handlers_are_as_they_were():
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
    before = [signal.getsignal(number) for number in numbers]
    with Stopping().listening():
        assert [signal.getsignal(number) for number in numbers] != before
    assert [signal.getsignal(number) for number in numbers] == before
