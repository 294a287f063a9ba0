"""Who waits long for a build is told how far it is; nobody else is told anything, and nothing is loaded for it."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import dtoss
from dtoss.building import in_memory

ROOT = Path(__file__).parents[3]
SLOW = """
import os, sys, time
import numpy as np
import dtoss
from dtoss.building import in_memory
construct, positions = in_memory.construct, np.random.default_rng(0).uniform(-5, 5, (400, 2))
def slowly(*given, **named):
    time.sleep(pause)
    return construct(*given, **named)
in_memory.construct = slowly
for in_memory.LONG_SECONDS, pause, options, os.environ["DTOSS_QUIET"] in {runs}:
    dtoss.build(np.arange(400), positions, partitions=4, **options)
print("rich" in sys.modules)
"""
SHOWN = [(0.2, 0.2, {}, "compiling"), (0.2, 0.2, {"threads": 2}, "compiling")]
HIDDEN = [
    (0.2, 0.1, {}, "1"),
    (0.2, 0.1, {"progress": False}, "compiling"),
    (60.0, 0.0, {}, "compiling"),
]
"""Seconds after which it is shown, those that a partition takes, options, and what is quiet."""


class Terminal(io.StringIO):
    """A stderr that somebody looks at."""

    looked_at = True

    def isatty(self):
        """Whether it is one."""
        return self.looked_at


@pytest.fixture
def terminal(monkeypatch):
    """A terminal for stderr, and nothing that forbids to write to it; what takes long does so at once."""
    screen = Terminal()
    monkeypatch.setattr(in_memory, "sys", SimpleNamespace(stderr=screen, modules=sys.modules))
    monkeypatch.setenv("DTOSS_QUIET", "compiling")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(in_memory, "LONG_SECONDS", 0.0)
    return screen


def wait_for(screen, text):
    """Wait until a text has been written."""
    end = time.monotonic() + 60.0
    while text not in screen.getvalue():
        assert time.monotonic() < end, screen.getvalue()
        time.sleep(0.01)


def watchers():
    """Threads that watch a build."""
    return [thread for thread in threading.enumerate() if "_watch" in thread.name]


@pytest.mark.parametrize("notebook", [False, True])
def test_steps_and_parts_are_shown(terminal, monkeypatch, notebook):
    """Those that several threads tell of are counted all; the watcher ends with the build."""
    if notebook:
        shell = SimpleNamespace(config={"IPKernelApp": {}})
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
        terminal.looked_at = False
    assert in_memory.in_notebook() == notebook
    with in_memory.show_progress(True) as told:
        told.begin("sorting objects")
        wait_for(terminal, "sorting objects")
        told.begin("building partitions", 4_000)
        several = [threading.Thread(target=lambda: [told.one_more() for _ in range(1_000)]) for _ in range(4)]
        for thread in several:
            thread.start()
        for thread in several:
            thread.join()
        wait_for(terminal, "4000 of 4000" if notebook else "4000/4000")
    assert terminal.getvalue().endswith("\r" if notebook else "\x1b[2K")
    assert not watchers()


@pytest.mark.parametrize("reason", ["quiet", "not wanted", "no terminal", "no stderr"])
def test_nothing_is_shown_where_nobody_looks_or_it_is_forbidden(terminal, monkeypatch, reason):
    """No thread is started for it."""
    if reason == "quiet":
        monkeypatch.setenv("DTOSS_QUIET", "1")
    elif reason == "no terminal":
        terminal.looked_at = False
    elif reason == "no stderr":
        monkeypatch.setattr(in_memory.sys, "stderr", None)
    monkeypatch.setattr(in_memory.threading, "Thread", None)
    with in_memory.show_progress(reason != "not wanted") as told:
        told.begin("building partitions", 2)
        told.one_more()
    assert terminal.getvalue() == ""


def test_an_error_ends_the_watcher(terminal):
    """So does an interruption."""
    for error in (ValueError, KeyboardInterrupt):
        with pytest.raises(error), in_memory.show_progress(True):
            raise error
    assert not watchers()


def test_the_index_is_the_same(terminal, monkeypatch):
    """For any number of threads; each partition is told of."""
    positions = np.random.default_rng(1).uniform(-5, 5, (500, 2))
    seen = []
    construct = in_memory.construct

    def slowly(*given, **named):
        wait_for(terminal, "building partitions")
        seen.append(given[0])
        return construct(*given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(in_memory, "construct", slowly)
        shown = [dtoss.build(np.arange(500), positions, partitions=5, threads=threads) for threads in (1, 3)]
    before = terminal.getvalue()
    hidden = dtoss.build(np.arange(500), positions, partitions=5, progress=False)
    assert terminal.getvalue() == before
    assert sorted(seen) == sorted([*range(5)] * 2)
    for index in shown:
        assert index.knn(positions, 3) == hidden.knn(positions, 3)


@pytest.mark.parametrize("runs", [SHOWN, HIDDEN], ids=["shown", "hidden"])
def test_in_a_terminal(runs):
    """A real one: a bar that goes away; the library that draws it is loaded for that alone."""
    ours, theirs = pty.openpty()
    env = os.environ | {"PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "80"}
    code = SLOW.format(runs=runs)
    run = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=theirs, env=env, text=True)
    os.close(theirs)
    said = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # how Linux says that the other end is closed
            break
        if not piece:
            break
        said += piece
    os.close(ours)
    out, _ = run.communicate(timeout=60)
    wanted = runs is SHOWN
    assert (run.returncode, out) == (0, f"{wanted}\n"), said.decode()
    # each bar is taken away by the same letters
    assert said.count(b"\x1b[?25h") == (len(runs) if wanted else 0)
    assert (b"building partitions" in said) == wanted
    assert wanted or said == b""
