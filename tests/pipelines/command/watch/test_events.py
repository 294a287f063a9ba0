"""``dtoss events``: what it prints, where a named reader goes on, and how one who follows ends."""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import dtoss
from dtoss.commits.lease import take
from dtoss.watch.events.event_compaction import fold_watch
from dtoss.watch.events.readers import cursor_of_reader
from dtoss.watch.watch_folder import Home
from tests.dtoss.watch.events.made import HOUR, START, batch_of, event, some_events

ROOT = Path(__file__).parents[4]


@pytest.fixture
def home(tmp_path):
    home, random = Home(str(tmp_path)), np.random.default_rng(0)
    for k in range(6):
        batch_of(home, [[], some_events(random, 3)], START + k * HOUR // 2)
    fold_watch(home, START + 2 * HOUR)
    return home


@pytest.fixture
def said(command, home):
    """The exit code, and the lines on stdout and stderr, of a command about the events of a store."""

    def ended(*words, name="events"):
        ran = command(name, "--store", home.store, *words)
        return ran.code, *ran.lines

    return ended


def ids(lines):
    return [json.loads(line)["id"] for line in lines]


def test_lines_of_all_events_and_of_some(said, home):
    every = [row["id"] for row in dtoss.events(home.store)]
    code, out, err = said()
    assert (code, err, ids(out)) == (0, [], every)
    assert len(every) == 18
    first = json.loads(out[0])
    assert list(first)[:8] == ["id", "subscription", "version", "kind", "object", "t", "lon", "lat"]
    assert ids(said("--after", every[7])[1]) == every[8:]
    some = [row["id"] for row in dtoss.events(home.store, subscription="s1", kinds=["enter", "leave"], after=every[2])]
    found = said("--subscription", "s1", "--kind", "enter", "--kind", "leave", "--after", every[2])
    assert ids(found[1]) == some
    assert 0 < len(some) < 15
    code, out, err = said("--files")
    assert (code, err) == (0, [])
    assert sum(pq.read_metadata(path).num_rows for path in out) == 18


def test_what_is_wrong_is_one_line(said):
    for arguments, why in (
        (["--after", "x"], "is no cursor"),
        (["--after", "99-3"], "99-3 is behind all events, there are 7 batches: the watch was begun anew, or restored"),
        (["--after", "8", "--files"], "8-end is behind all events"),
        (["--after", "99", "--follow"], "99-end is behind all events"),
        (["--kind", "entr"], "'entr' is none of events"),
        (["--watch", "other"], "is no watch yet"),
        (["--watch", "a/b"], "cannot be a name"),
        (["--as", "a/b"], "cannot be a name"),
        (["--files", "--follow"], "--files and --follow do not go together"),
        (["--files", "--retain", "7d"], "--files and --retain do not go together"),
        (["--retain", "7"], "is no duration"),
        (["--forget"], "--as NAME"),
        (["--files", "--watch", "other"], "is no watch yet"),
    ):
        code, out, err = said(*arguments)
        assert (code, out, len(err)) == (2, [], 1), arguments
        assert why in err[0]


def test_a_named_reader_goes_on_where_it_has_ended(said, home):
    every = [row["id"] for row in dtoss.events(home.store)]
    assert ids(said("--as", "me")[1]) == every
    assert said("--as", "me")[:2] == (0, [])
    batch_of(home, [[], [event("new", "enter", 1)]], START + 3 * HOUR)
    (line,) = said("--as", "me")[1]
    assert json.loads(line)["subscription"] == "new"
    assert ids(said("--as", "me", "--after", every[-1])[1]) == ids([line])
    assert said("--as", "me", "--forget")[0] == 0
    assert cursor_of_reader(home, "me") is None
    assert len(said("--as", "me")[1]) == 19


def test_retention_keeps_what_a_reader_needs(said, home):
    every = [row["id"] for row in dtoss.events(home.store)]
    said("--as", "slow", "--after", every[7])
    from dtoss.watch.events.readers import Cursor
    from tests.dtoss.watch.keep_cursor import keep_cursor

    keep_cursor(home, "slow", Cursor.of(every[7]))
    code, out, _ = said("--retain", "1h")
    assert code == 0
    assert "slow has yet to read others" in " ".join(out)
    left = [row["id"] for row in dtoss.events(home.store)]
    assert every[8:] == left[-10:]
    assert ids(said("--as", "slow")[1]) == every[8:]
    said("--retain", "1h")
    assert list(dtoss.events(home.store)) == []
    code, out, err = said("--after", every[0])
    assert (code, out) == (2, [])
    assert "were removed (--retain)" in err[0]
    with take(home.folder, home.path, print, lambda: None):
        code, out, err = said("--retain", "1h")
    assert (code, out) == (2, [])
    assert "is being written by" in err[0]


def test_verify_looks_at_a_watch(said, tmp_path):
    code, out, err = said("--watch", "default", name="verify")
    assert (code, err) == (0, [])
    assert "nothing" in " ".join(out)
    code, out, err = said("--watch", "default", "--json", name="verify")
    assert (code, json.loads(out[0])["events"], json.loads(out[0])["damaged"]) == (0, 18, [])
    (path,) = [path for path in (tmp_path / "watch/default/events").iterdir() if path.name.startswith("counts")]
    path.write_bytes(path.read_bytes()[:-1])
    code, out, err = said("--watch", "default", name="verify")
    assert (code, len(err)) == (2, 1)
    assert path.name in err[0]
    assert "1 things" in " ".join(out)
    code, out, err = said("--watch", "default", "--snapshot", "a", name="verify")
    assert (code, len(err)) == (2, 1)


def following(home, *arguments, **more):
    """A process that follows, whose output is a pipe."""
    command = [sys.executable, "-m", "dtoss", "events", "--store", home.store, "--follow", *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | more
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)


def test_one_who_follows_sees_what_comes_and_ends_at_a_signal(home):
    every = [row["id"] for row in dtoss.events(home.store)]
    process = following(home, "--as", "tail", "--at-most-once")
    try:
        found = [process.stdout.readline() for _ in every]
        assert ids(found) == every
        for step in range(3):
            batch_of(home, [[], [event(f"new {step}", "enter", 1)]], START + 3 * HOUR)
            assert json.loads(process.stdout.readline())["subscription"] == f"new {step}"
        fold_watch(home, START + 9 * HOUR)
        batch_of(home, [[], [event("last", "enter", 1)]], START + 9 * HOUR)
        assert json.loads(process.stdout.readline())["subscription"] == "last"
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, out, err) == (0, b"", b"")
    assert cursor_of_reader(home, "tail").batch == 12


def test_one_who_follows_ends_when_nobody_reads(home):
    process = following(home)
    try:
        assert process.stdout.readline()
        process.stdout.close()
        assert process.wait(timeout=60) == 0
        assert process.stderr.read() == b""
    finally:
        process.kill()
        process.stderr.close()


def test_one_who_follows_what_has_not_begun(tmp_path):
    """It makes no watch of this name, and is a reader from the first batch on."""
    home = Home(str(tmp_path / "later"))
    process = following(home, "--as", "me")
    try:
        assert b"waiting for the first batch" in process.stderr.readline()
        assert not Path(home.path).exists()
        home.folder.make()
        batch_of(home, [[], [event("a", "enter", 1)]])
        assert json.loads(process.stdout.readline())["subscription"] == "a"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.communicate()
    assert cursor_of_reader(home, "me").batch == 1


def full(pipe):
    """Wait until a pipe has no room for another page."""
    room, ends = fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ) - mmap.PAGESIZE, time.monotonic() + 60
    while int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder) < room:
        assert time.monotonic() < ends
        time.sleep(0.01)


@pytest.mark.parametrize("unbuffered", ["", pytest.param("1", marks=pytest.mark.deep("a full pipe as with a buffer"))])
def test_a_pipe_that_is_full_does_not_hold_it(home, unbuffered):
    """Whoever reads no more, and keeps the pipe, is not waited for for ever."""
    for _ in range(3):
        batch_of(home, [[], some_events(np.random.default_rng(0), 2000)], START + 3 * HOUR)
    process = following(home, PYTHONUNBUFFERED=unbuffered)
    try:
        assert process.stdout.readline()
        full(process.stdout)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 1
        assert b"interrupted" in process.stderr.read()
    finally:
        process.kill()
        process.communicate()
