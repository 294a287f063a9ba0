"""Streams of a server with two workers: swaps, files that change, what both are asked, and the end."""

from __future__ import annotations

import json
import threading
import time
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

import ceps
import dtoss
from tests.ceps.instances import servers, waves
from tests.dtoss.serve.processes.started import answer, dialled, get, started
from tests.dtoss.serve.watched import commit

START = "from pipelines.command.main import main; main()"
READY = r"^serving \S+ \(400 objects\) of \S+ on https?://127\.0\.0\.1:(\d+)$"
STREAMS = 12
"""Of which each of two workers has some: the kernel spreads connections."""
SECONDS = 90
ASKING_SECONDS = 2.5


class Heard:
    """The events of one stream, read as they come; ``ended`` is how the answer did."""

    def __init__(self, port):
        self.sock = dialled(port, SECONDS)
        self.events, self.ended = [], None
        self.sock.sendall(get("/live"))
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        with self.sock.makefile("rb") as held:
            while held.readline() != b"\r\n":
                pass
            while (line := held.readline()) and (size := int(line, 16)):
                data = held.read(size)
                held.readline()
                parts = [part for part in data.split(b"\n\n") if part.startswith(b"data: ")]
                self.events += [json.loads(part[6:]) for part in parts]
            self.ended = line

    def all(self, kind):
        return [event for event in list(self.events) if event["type"] == kind]

    def until(self, kind, holds):
        ends = time.monotonic() + SECONDS
        while not (found := [event for event in self.all(kind) if holds(event)]):
            assert time.monotonic() < ends, self.events
            time.sleep(0.02)
        return found[0]


@contextmanager
def streams(port):
    """Some streams of a server."""
    heard = [Heard(port) for _ in range(STREAMS)]
    try:
        yield heard
    finally:
        for one in heard:
            one.sock.close()


def test_both_workers_tell_of_swaps_plans_and_what_both_are_asked(tmp_path):
    """A file that is damaged later is kept and said in the log; streams end at once when the server does."""
    store = Path(commit(tmp_path / "store"))
    index = dtoss.open(str(store))
    patterns = replace(waves(3, 900.0), pivots_hash=index.partitioning.digest)
    plan = tmp_path / "plan.json"
    ceps.plan(patterns, None, servers()).save(plan)
    run = ("-c", START, "serve", "--store", store, "--port", 0, "--workers", 2, "--plan", plan, "--access-log", "off")
    with started(*run, ready=READY) as server, streams(server.port) as heard, ExitStack() as held:
        for one in heard:
            one.until("load", lambda event: True)
            assert [event["type"] for event in one.events[:2]] == ["snapshot", "plan"]
            assert one.events[0]["snapshot"] == index.snapshot
            assert one.events[1]["stale"] is None
        # three of four requests at a place of one partition, over connections of both workers
        asking = [held.enter_context(dialled(server.port, SECONDS)) for _ in range(STREAMS)]
        at = [index.parts[number].positions[0].tolist() for number in (2, 2, 2, 0)]
        ends = time.monotonic() + ASKING_SECONDS
        while time.monotonic() < ends:
            time.sleep(0.03)
            for sock in asking:
                for lon, lat in at:
                    sock.sendall(get(f"/knn?lon={lon}&lat={lat}&k=1"))
                    assert answer(sock)[0] == 200
        for one in heard:
            load = one.until("load", lambda event: event["requests"] > 0 and event["partitions"][0] > 0)
        load = max(heard[0].all("load"), key=lambda event: event["requests"])
        assert load["partitions"][1] == 0
        assert load["partitions"][2] / sum(load["partitions"]) == pytest.approx(0.75, abs=0.05)
        assert sum(load["partitions"]) == pytest.approx(load["requests"], rel=0.1)
        assert sum(load["servers"]) == pytest.approx(sum(load["partitions"]), abs=0.1)
        # a swap: each worker's streams hear of it
        second = dtoss.open(commit(store, seed=1)).snapshot
        for one in heard:
            told = one.until("snapshot", lambda event: event["snapshot"] == second)
            assert told["commit"] == 2
        # the town of another seed has other pivots
        for one in heard:
            assert "other regions" in one.until("plan", lambda event: event["stale"] is not None)["stale"]
            assert one.until("load", lambda event: event["servers"] is None)
        said = json.loads(plan.read_text())
        plan.write_text(json.dumps(said | {"cost_per_day": 77.0}))
        for one in heard:
            one.until("plan", lambda event: event["cost"] == 77.0)
        plan.write_text("{")
        server.until('"event":"file not read"', 2)
        for one in heard:
            told = one.until("plan", lambda event: event["problem"] is not None)
            assert (told["cost"], told["problem"]) == (77.0, "--plan is kept as it was: it is not JSON")
        for one in heard:
            moments = [event for event in one.events if event["type"] == "snapshot"]
            assert [event["snapshot"] for event in moments] == [index.snapshot, second]
        for sock in asking:
            sock.close()
        code, _ = server.stop()
        for one in heard:
            one.thread.join(SECONDS)
        assert code == 0
        assert {one.ended for one in heard} == {b"0\r\n"}
        ends = [json.loads(line) for line in server.lines if '"worker ended"' in line]
        assert [told["cut_off"] for told in ends] == [0, 0]
        # how long a stream lasts is not how long its request took: that may be logged, of a busy machine
        assert all(json.loads(line)["seconds"] < ASKING_SECONDS for line in server.lines if '"/live"' in line)
