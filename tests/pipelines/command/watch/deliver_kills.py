"""Deliverers and receivers that are killed, while batches are committed: no event is skipped, and a batch stays itself.

``python -m tests.pipelines.command.watch.deliver_kills 200`` kills so often. The receiver notes the name of each batch
and the ids of its events, and may die, say no, or say nothing behind that. However often who is killed: all events are
noted, in their order; a batch of one name has the same events each time; no event is in two batches; and what comes
again is the last batch that came. A file and a stream of Redis have each event once: a Redis that is killed, too, which
syncs what it acknowledges. A topic of MQTT has some of the last batch again; a mosquitto that is killed loses what it
has acknowledged, so it is asked to end.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import groupby
from pathlib import Path

import dtoss
from dtoss.client.endpoint import Access
from dtoss.errors import DtossError
from dtoss.feeds.feed import feed_at
from dtoss.snapshots.deferred_signals import set_handlers
from dtoss.watch.events.consumer import Share
from dtoss.watch.events.readers import Cursor, Filter, cursor_of_reader
from dtoss.watch.targets.target import target_at
from dtoss.watch.watch_folder import Home
from pipelines.command.watch.deliver_events import How, hand_on
from pipelines.command.watch.hand_batches import Trying
from tests.dtoss.watch.events.made import batch_of, event
from tests.dtoss.watch.targets.receiver import SECRET
from tests.dtoss.watch.targets.servers import free_port, mosquitto_words, program, redis_words
from tests.ends import end_now

WAYS = ("webhook", "file", "redis", "mqtt")
WHO = ("deliverer", "receiver", "both", "deliverer asked")
"""Who is killed; one that is asked to end gets SIGTERM."""
EACH, WINDOW = 11, 5
"""Events of a batch of the watch, and of a batch that is delivered."""
LONGEST_SECONDS = 0.1
"""From one kill to the next."""
ODD = 0.2
"""The share of batches that are noted and not answered well."""


def forked(work):
    """Run a function in a process of its own; its number."""
    # a handler of this process would keep a signal that comes before it listens itself
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    pid = os.fork()
    if pid:
        set_handlers({signal.SIGTERM: before})
    else:
        code = 2
        try:
            sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115
            work()
            code = 0
        except (DtossError, KeyboardInterrupt):
            code = 1
        except BaseException:
            sys.stderr = sys.__stderr__
            traceback.print_exc()
        finally:
            end_now(code)
    return pid


def receive(listening: socket.socket, notes: Path, seed: int) -> None:
    """Note batches one after the other, for ever; a connection that was closed has been read to its end before."""
    rng = random.Random(seed)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 5.0

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if rng.random() < ODD:
                self.answer(503)
                return
            ids = [one["id"] for one in json.loads(body)["data"]]
            with notes.open("ab", buffering=0) as file:
                file.write(json.dumps([self.headers["webhook-id"], ids]).encode() + b"\n")
            time.sleep(rng.uniform(0.0, 0.01))
            if rng.random() < ODD:
                self.close_connection = True
                return
            self.answer(500 if rng.random() < ODD else 204)

        def answer(self, status):
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(listening.getsockname(), Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = listening
    server.serve_forever()


class Broker:
    """A program of others that takes events, and is killed."""

    def __init__(self, words: list[str], port: int) -> None:
        self.words, self.port, self._held = words, port, ExitStack()
        self._process = self._held.enter_context(program(words, port))

    def restart(self) -> None:
        """Kill it, and start it anew; a mosquitto, which writes its disk when it is asked to end, is asked."""
        if self.words[0] == "mosquitto":
            self._process.terminate()
            self._process.wait(60)
        self._held.close()
        self._process = self._held.enter_context(program(self.words, self.port))

    def close(self) -> None:
        """End it."""
        self._held.close()


def broker_of(way: str, folder: Path) -> Broker | None:
    """A broker that takes events; None where none does."""
    words = {"redis": redis_words, "mqtt": mosquitto_words}.get(way)
    port = free_port()
    return None if words is None else Broker(words(port, folder), port)


def address_of(way: str, broker: Broker) -> str:
    """Return where events go."""
    return (
        f"redis://127.0.0.1:{broker.port}/0?stream=fences"
        if way == "redis"
        else f"mqtt://127.0.0.1:{broker.port}/fences"
    )


def messages(way: str, broker: Broker) -> Iterator[str]:
    """Yield the lines of events that a broker has, in the order in which they came."""
    if way == "redis":
        from redis import Redis

        with Redis("127.0.0.1", broker.port, decode_responses=True) as client:
            yield from (entry["event"] + "\n" for _, entry in client.xrange("fences"))
        return
    feed = feed_at(address_of(way, broker), Access())
    while (batch := feed.take(1.0)) is not None:
        yield from (one.decode().strip() + "\n" for one in batch.messages)
        feed.acknowledge(batch)
    feed.close()


def killed(home: Home, way: str, notes: Path, kills: int, rng: random.Random, broker: Broker | None) -> Counter[str]:
    """Kill so many times, then deliver to the end; return who was killed how often."""
    count: Counter[str] = Counter()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        to = {"webhook": f"http://127.0.0.1:{port}/", "file": f"file://{notes}"}.get(way, "")
        if broker is not None:
            to = address_of(way, broker)
        access = Access(SECRET if way == "webhook" else None, frozenset(["127.0.0.1"]), 5.0)

        def deliver(follow):
            how = How(target_at(to, access), batch=WINDOW, trying=Trying(pauses=(0.01, 0.02)))
            hand_on(home, "reader", None, Filter(), Share(), how, follow=follow)

        running: dict[str, int] = {}

        def start():
            running.setdefault("deliverer", forked(lambda: deliver(True)) if "deliverer" not in running else 0)
            if way == "webhook" and "receiver" not in running:
                running["receiver"] = forked(lambda: receive(listening, notes, rng.randrange(1 << 30)))

        def end(who, number):
            pid = running.pop(who)
            os.kill(pid, number)
            _, status = os.waitpid(pid, 0)
            assert status in (0, 256, signal.SIGKILL, signal.SIGTERM), (who, status)

        def told():
            if broker is None:
                return len(notes.read_bytes().splitlines()) * (WINDOW if way == "webhook" else 1)
            read = cursor_of_reader(home, "reader")
            return 0 if read is None else sum(Cursor.of(row["id"]) <= read for row in dtoss.events(home.store))

        before = 0
        while count.total() < kills:
            start()
            ends = time.monotonic() + 60.0
            while count.total() % 2 and told() == before:  # on a busy machine each would else be killed as it begins
                assert time.monotonic() < ends, "nothing is delivered"
                time.sleep(0.005)
            before = told()
            if before + EACH > len(list(dtoss.events(home.store))):  # there is always something under way
                batch_of(home, [[], [event(f"s{row % 3}", "enter", row) for row in range(EACH)]])
            time.sleep(rng.uniform(0.0, LONGEST_SECONDS))
            who = rng.choice((WHO[0], WHO[3]) if way == "file" else WHO)
            if who in ("receiver", "both"):
                end("receiver", signal.SIGKILL) if broker is None else broker.restart()
            if who != "receiver":
                end("deliverer", signal.SIGTERM if who == WHO[3] else signal.SIGKILL)
            count[who] += 1
        start()
        end("deliverer", signal.SIGTERM)
        pid = forked(lambda: deliver(False))
        assert os.waitpid(pid, 0)[1] == 0
        if way == "webhook":
            end("receiver", signal.SIGKILL)
    return count


def check(home: Home, way: str, notes: Path) -> int:
    """Hold what was noted to all events; return how many batches were noted more than once."""
    every = [row["id"] for row in dtoss.events(home.store)]
    lines = [json.loads(line) for line in notes.read_text().splitlines()]
    if way == "mqtt":
        ids, last = [line["id"] for line in lines], 0
        assert list(dict.fromkeys(ids)) == every, "not in order, or not all"
        for at in map(every.index, ids):
            assert at > last - WINDOW, "more than the last batch came again"
            last = max(last, at)
        return len(ids) - len(every)
    if way != "webhook":
        assert [line["id"] for line in lines] == every, "not in order, not all, or some twice"
        return 0
    batches = {}
    for name, ids in lines:
        assert batches.setdefault(name, ids) == ids, f"{name} has other events than before"
    assert [id for ids in batches.values() for id in ids] == every, "not in order, not all, or in two batches"
    assert len([name for name, _ in groupby(lines, lambda line: line[0])]) == len(batches), "an older batch came again"
    return len(lines) - len(batches)


def round_of(folder: Path, way: str, kills: int, seed: int) -> tuple[Counter[str], int, int]:
    """Deliver a watch of its own; return who was killed, how many events there are, and how many batches came again."""
    home, notes = Home(str(folder / "store")), folder / "notes"
    notes.touch()
    batch_of(home, [[], [event("s", "enter", row) for row in range(EACH)]])
    broker = broker_of(way, folder)
    try:
        if way == "mqtt":
            list(messages(way, broker))  # from now on it keeps them
        count = killed(home, way, notes, kills, random.Random(seed), broker)
        if broker is not None:
            notes.write_text("".join(messages(way, broker)))
    finally:
        if broker is not None:
            broker.close()
    again = check(home, way, notes)
    return count, len(list(dtoss.events(home.store))), again


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    for number, way in enumerate(WAYS):
        with tempfile.TemporaryDirectory() as folder:
            count, events, again = round_of(Path(folder), way, wanted // len(WAYS), number)
            print(f"{way}: {dict(count)} killed, {events:,} events, none lost, {again:,} batches told again")
