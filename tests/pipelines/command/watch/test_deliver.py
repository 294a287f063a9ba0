"""`dtoss deliver`: what becomes of events that a target takes, refuses, or does not answer for."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import ClassVar

import pytest

import dtoss
from dtoss.client.http_connections import Later
from dtoss.errors import InputError, Undelivered
from dtoss.watch.events.consumer import Share, begin
from dtoss.watch.events.event_compaction import retain
from dtoss.watch.events.readers import END_OF_BATCH, Cursor, Filter, cursor_of_reader, reader_of
from dtoss.watch.targets.target import Refused
from dtoss.watch.watch_folder import Home
from pipelines.command.watch.deliver_events import How, hand_on
from pipelines.command.watch.hand_batches import Trying
from pipelines.loop.stopping import Stopping
from tests.dtoss.watch.events.made import HOUR, START, batch_of, event
from tests.dtoss.watch.targets.batches import ids as ids_of
from tests.dtoss.watch.targets.receiver import SECRET, answer, raw, receiving
from tests.pipelines.loop.test_metrics import values

ROOT = Path(__file__).parents[4]
AT_ONCE = (0.0, 0.0)


@pytest.fixture
def home(tmp_path):
    """Three batches of ten events, of five subscriptions."""
    home = Home(str(tmp_path / "store"))
    for batch in range(3):
        batch_of(home, [[], [event(f"s{row % 5}", "inside", row) for row in range(10)]], START + batch * HOUR)
    return home


@pytest.fixture
def every(home):
    return [row["id"] for row in dtoss.events(home.store)]


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "secret"
    path.write_text(SECRET + "\n")
    return path


class Scripted:
    """A target that says what it is told to, and keeps what it was handed."""

    def __init__(self, *script, reached=None):
        self.script, self.reached, self.got = list(script), reached, []

    def __str__(self):
        return "it"

    def begin(self, mark):
        self.mark = mark
        return self.reached

    def take(self, batch):
        self.got.append((batch.attempt, ids_of(batch)))
        error = self.script.pop(0) if self.script else None
        if error is not None:
            raise error

    def close(self):
        self.closed = True


def hand(home, target, batch=10, follow=False, stopping=None, **trying):
    how = How(target, batch=batch, trying=Trying(**{"pauses": AT_ONCE} | trying))
    hand_on(home, "me", None, Filter(), Share(), how, follow=follow, stopping=stopping)


def at(home):
    return cursor_of_reader(home, "me")


def test_events_go_to_a_server_of_webhooks(home, every, secret, command):
    """Again where it is busy, with the same id; another run sends nothing twice."""
    with receiving(answer(503, Retry_After="0"), answer(200)) as receiver:
        words = ("deliver", "--store", home.store, "--as", "me", "--once", "--batch", 12, "--to", receiver.url,
                 "--secret-file", secret, "--allow-host", "127.0.0.1")  # fmt: skip
        ran = command.works(*words, "--json")
        assert ran.json == {"events": 30, "batches": 3, "failed": 1, "dead": 0, "upto": every[-1]}
        assert ran.lines[1][0].startswith(f"warning: http://127.0.0.1:{receiver.port} answers 503: 12 events from ")
        assert "x=1" not in ran.err
        assert receiver.told == [every[:12], every[:12], every[12:24], every[24:]]
        names = [headers["webhook-id"] for headers, _ in receiver.got]
        assert names[0] == names[1]
        assert names[0].endswith(f"_{every[0]}_{every[11]}")
        assert len(set(names)) == 3
        assert command.works(*words) == (0, "", "")
        batch_of(home, [[], [event("new", "enter", 1)]])
        assert command.works(*words).lines[1] == [
            f"1 events in 1 batch, up to {list(dtoss.events(home.store))[-1]['id']}"
        ]
        receiver.answers[:] = [answer(410)]
        batch_of(home, [[], [event("new", "enter", 1)]])
        assert "wants no more events" in command.fails(*words)
    assert at(home).batch == 4


def test_what_is_said_wrongly_is_a_line(home, secret, tmp_path, command):
    words = ("deliver", "--store", home.store, "--as", "me", "--once")
    for more, why in (
        (("--to", "https://hooks.example.org/"), "--secret-file FILE has a line"),
        (("--to", "http://127.0.0.1:9/", "--secret-file", secret), "--allow-host 127.0.0.1"),
        (("--to", "https://127.0.0.1:9/", "--secret-file", secret), "its address 127.0.0.1 is private"),
        (("--to", "https://127.0.0.1:9/", "--secret-file", tmp_path / "none"), "cannot be read"),
        (("--to", "file:///x", "--timeout", "0s"), "--timeout: a time above 0"),
        (("--to", f"file://{tmp_path}/f", "--dead-letter", tmp_path), "cannot be written"),
        (("--to", f"file://{tmp_path}/none/f"), "cannot be written"),
        (("--to", f"file://{tmp_path}/f", "--after", "x"), "is no cursor"),
    ):
        assert why in command.fails(*words, *more), why


def test_a_batch_that_was_under_way_is_sent_again_as_it_was(home, every):
    """Whatever has come behind it, and however large a batch is by now; only a smaller one cuts it."""
    dead = Scripted(Later("is away"))
    stopping = Stopping()
    with pytest.raises(Undelivered, match=f"it has failed once for 7 events from {every[0]} to {every[6]}, .* is away"):
        hand(home, dead, 7, patience=0.0)
    assert reader_of(home, "me").under_way == Cursor.of(every[6])
    batch_of(home, [[], [event("new", "enter", 1)]])
    again = Scripted(None, Later("is away"))
    with pytest.raises(Undelivered):
        hand(home, again, 20, patience=0.0, stopping=stopping)
    assert [got for _, got in again.got] == [every[:7], every[7:27]]
    last = Scripted()
    hand(home, last, 11)
    assert [got for _, got in last.got] == [every[7:18], every[18:27], [*every[27:], str(Cursor.of("4-4294967296"))]]
    assert last.mark == again.mark == dead.mark
    assert reader_of(home, "me").under_way is None


@pytest.mark.parametrize(("longest", "tried"), [(0.0, [15, 20, 25]), (1e9, [])])
def test_a_target_that_refuses_is_asked_so_often_and_one_that_is_away_for_so_long(
    home, every, tmp_path, longest, tried
):
    """What is not taken is set aside, also without a try just after one; the time is that since it was not there."""
    now = [0.0]

    class Away(Scripted):
        def take(self, batch):
            now[0] += 40.0
            super().take(batch)
            now[0] += 1000.0  # an hour without events is no hour in which it was away

    target = Away(Refused("no"), Refused("no"), None, *[Later("is away") for _ in range(9)])
    dead = tmp_path / "dead"
    trying = {"retries": 1, "patience": 60.0, "dead_letter": str(dead), "clock": lambda: now[0]}
    hand(home, target, batch=5, pauses=(0.0, longest), **trying)
    wanted = [(1, 0), (2, 0), (1, 5), (1, 10), (2, 10), (3, 10), *[(1, row) for row in tried]]
    assert [(attempt, got[0]) for attempt, got in target.got] == [(attempt, every[row]) for attempt, row in wanted]
    assert lines_of(dead) == every[:5] + every[10:]
    assert at(home).batch == 3


def test_who_has_printed_events_since_is_told_none_of_them_again(home, every, command):
    """A batch that was under way is nobody's any more where the cursor is behind it."""
    with pytest.raises(Undelivered):
        hand(home, Scripted(Later("is away")), patience=0.0)
    command.works("events", "--store", home.store, "--as", "me", "--at-most-once")
    target = Scripted()
    hand(home, target)
    assert target.got == []


def test_a_target_says_when_to_come_again_and_others_wait_longer_and_longer(home):
    """Never for more than an hour; half of a pause at most is left out by chance."""

    class Waiting(Stopping):
        waited: ClassVar[list] = []

        def wait(self, seconds):
            self.waited.append(seconds)
            return False

    script = [Later("is away", 7.0), Later("is away", 9e9), *[Later("is away") for _ in range(6)]]
    hand(home, Scripted(*script), stopping=Waiting(), pauses=(1.0, 8.0))
    assert Waiting.waited[:2] == [7.0, 3600.0]
    for waited, most in zip(Waiting.waited[2:], (4.0, 8.0, 8.0, 8.0, 8.0, 8.0), strict=True):
        assert most / 2 <= waited <= most
    assert len(set(Waiting.waited[3:])) > 1


def test_without_a_file_for_them_the_reader_stays(home, every):
    with pytest.raises(Undelivered, match=r"3 times .* the last time it no: reader 'me' stays before them"):
        hand(home, Scripted(None, *[Refused("no")] * 3), retries=2)
    assert at(home) == (1, END_OF_BATCH)


def test_a_target_is_believed_up_to_where_it_has_events(home, every):
    """And not beyond what there is."""
    target = Scripted(reached=Cursor.of(every[14]))
    hand(home, target)
    assert [one for _, got in target.got for one in got] == every[15:]
    with pytest.raises(InputError, match="99-1 is behind all events"):
        hand(home, Scripted(reached=Cursor(99, 1)))


def test_a_signal_ends_it_where_it_waits(home):
    """Before the target was there, and between two tries."""

    class Asked(Stopping):
        asked = property(lambda self: True)

        def listening(self):
            return nullcontext()  # whoever was asked leaves its handlers to a process that ends

    for target in (Scripted(Later("is away")), Scripted()):
        hand(home, target, stopping=Asked())
    assert at(home).batch in (0, 1)


def test_retention_waits_for_what_is_under_way(home, every):
    with pytest.raises(Undelivered):
        hand(home, Scripted(None, Later("is away")), patience=0.0)
    from dtoss.watch.events.event_compaction import fold_watch

    fold_watch(home, START + 9 * HOUR)
    retain(home, 0, START + 9 * HOUR)
    target = Scripted()
    hand(home, target)
    assert [one for _, got in target.got for one in got] == every[10:]


def test_a_mark_is_made_once_and_anew_with_the_reader(home):
    first, second, other = Scripted(), Scripted(), Scripted()
    hand(home, first)
    hand(home, second)
    with begin(home, "me", Filter(), Share(), None, print, reset=True):
        pass
    hand(home, other)
    assert first.mark == second.mark != other.mark
    assert len(other.got) == 3


def newest(home):
    return list(dtoss.events(home.store))[-1]["id"]


def lines_of(path):
    return [json.loads(line)["id"] for line in path.read_text().splitlines()]


def test_numbers_say_how_far_a_reader_is_behind(home, every, tmp_path, command):
    """Those of a file of Prometheus, while nobody listens and afterwards."""
    words = ("deliver", "--store", home.store, "--as", "me", "--once", "--metrics-file", tmp_path / "numbers", "--to")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        away = f"redis://127.0.0.1:{free.getsockname()[1]}/0?stream=s"
    assert command(*words, away, "--patience", "1ms").code == 1
    found = values((tmp_path / "numbers").read_text())
    assert found.pop(("dtoss_deliver_failed_total",)) > 0
    assert found == {(f"dtoss_deliver_{name}",): 0 for name in ("events_total", "batches_total", "dead_total")} | {
        ("dtoss_deliver_behind",): 3
    }
    command.works(*words, f"file://{tmp_path}/events", "--batch", "10")
    found = values((tmp_path / "numbers").read_text())
    assert (found["dtoss_deliver_events_total",], found["dtoss_deliver_batches_total",]) == (len(every), 3)
    assert found["dtoss_deliver_behind",] == 0


def test_a_subscription_names_where_its_events_go(tmp_path, command):
    """By the meta of each event; who names none, or has a meta of another form, names the default."""
    home = Home(str(tmp_path / "store"))
    metas = [None, '{"deliver":{"to":"a"}}', '{"deliver":{"to":"b"}}', '{"deliver":{}}', '{"deliver":"a"}', "[1]"]
    metas += ['{"deliver":{"to":"a"},"x":1}', '{"deliver":{"to":["a"]}}', '"a"']
    batch_of(home, [[], [event(f"s{row}", "inside", row, meta=meta) for row, meta in enumerate(metas)]])
    batch_of(home, [[], [event("s1", "enter", 20), event("s0", "enter", 21, meta=metas[1])]], START + HOUR)
    whole = {row["id"]: row["object"] for row in dtoss.events(home.store)}

    def sent(*words):
        path = tmp_path / "-".join(("me", *words))
        command.works("deliver", "--store", home.store, "--as", path.name, "--once", "--to", f"file://{path}", *words)
        return [whole[one] for one in lines_of(path)] if path.exists() else []

    assert sent("--for", "a") == [1, 6, 21]
    assert sent("--for", "b") == [2]
    assert sent("--for", "default") == [0, 3, 4, 5, 8, 20]
    assert sent("--for", "c") == []
    assert sent("--for", "a", "--kind", "enter") == [21]
    assert len(sent("--kind", "inside")) == len(metas)
    printed = command.works("events", "--store", home.store, "--for", "b").out
    assert [json.loads(line)["object"] for line in printed.splitlines()] == [2]
    other = (
        "deliver",
        "--store",
        home.store,
        "--as",
        "me---for-a",
        "--once",
        "--to",
        f"file://{tmp_path}/x",
        "--for",
        "b",
    )
    assert "reads --for a and its cursor has passed over all else" in command.fails(*other)


def test_a_file_has_each_event_once(home, every, tmp_path, command):
    """Also where the cursor is behind it, and where a line was torn; it may be moved away."""
    path = tmp_path / "events of a day.jsonl"
    words = (
        "deliver",
        "--store",
        home.store,
        "--as",
        "me",
        "--once",
        "--to",
        f"file://{tmp_path}/events%20of%20a%20day.jsonl",
    )
    command.works(*words)
    assert lines_of(path) == every
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    for left in (b"".join(lines[:14]) + lines[14][:9], b"".join(lines[:14]) + b"\0" * 50, b"".join(lines[:14]), whole):
        path.write_bytes(left)
        with begin(home, "me", Filter(), Share(), Cursor.of(every[9]), print):
            pass
        command.works(*words)
        assert path.read_bytes() == whole
    path.rename(tmp_path / "yesterday")
    batch_of(home, [[], [event("new", "enter", 1)]])
    command.works(*words)
    assert lines_of(path) == [newest(home)]
    other = ("deliver", "--store", home.store, "--as", "you", "--once", "--to")
    assert "another reader has written" in command.fails(*other, words[-1])
    assert "another reader has written" in command.fails(*other, f"file://{tmp_path}/yesterday")
    path.write_text("x\n")
    assert "does not end with an event" in command.fails(*words)


def test_it_goes_on_until_a_signal_comes(home, every, tmp_path):
    path = tmp_path / "out"
    command = [sys.executable, "-m", "dtoss", "deliver", "--store", home.store, "--as", "me", "--to", f"file://{path}"]
    running = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE)
    ends = time.monotonic() + 60
    for more in (every, None):
        while not (path.exists() and len(path.read_text().splitlines()) == (30 if more else 31)):
            assert time.monotonic() < ends
            time.sleep(0.01)
        if more:
            batch_of(home, [[], [event("new", "enter", 1)]])
    running.send_signal(signal.SIGTERM)
    _, err = running.communicate(timeout=60)
    assert (running.returncode, err.decode().count("\n")) == (0, 1)
    assert at(home).batch == 4


def test_the_receiver_of_the_page_runs(home, secret, tmp_path, command):
    """It takes what is signed, each batch once."""
    page = (ROOT / "docs" / "deliver.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(# receive\.py.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "receive.py").write_text(code)
    secret.rename(tmp_path / "billing.secret")
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    words = [sys.executable, "receive.py", str(port)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(words, cwd=tmp_path, **pipes) as running:
        for more in ((), ("--after", "2")):
            command.works("deliver", "--store", home.store, "--as", "me", "--once", "--to", f"http://localhost:{port}/",
                          "--secret-file", tmp_path / "billing.secret", "--allow-host", "localhost", *more)  # fmt: skip
        running.terminate()
        assert running.stdout.read() == b"30 events\n10 events\n"


def test_a_server_that_ends_in_the_middle_loses_nothing(home, every, secret):
    from dtoss.client.endpoint import Access
    from dtoss.watch.targets.target import target_at

    script = [raw(b""), raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"), answer(500), answer(302, Location="/"),
              raw(b"\x16\x03\x01"), answer(200)]  # fmt: skip
    with receiving(*script) as receiver:
        hand(home, target_at(receiver.url, Access(SECRET, frozenset(["127.0.0.1"]), 20.0)))
    first = list(dict.fromkeys(map(tuple, receiver.told)))
    assert [one for batch in first for one in batch] == every
