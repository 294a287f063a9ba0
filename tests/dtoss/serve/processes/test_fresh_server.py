"""Rows that are told are found, whatever dies meanwhile, and a snapshot that has read them takes over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from dtoss.fresh.shared_folder import FOLDER_PREFIX, MEMORY
from tests.dtoss.serve.processes.fresh_server import fresh_server


def some_time_ago():
    """A moment of minutes ago, in seconds: a cycle takes no new object of hours ago, when the suite may have begun."""
    return int(time.time()) - 1000


def three_objects(now):
    """Rows of three objects of a moment."""
    return {"id": [1, 2, 3], "lon": [8.0, 9.0, 10.0], "lat": [50.0, 51.0, 52.0], "t": [now, now, now]}


def test_rows_are_found_through_deaths_of_builder_and_writer_a_cycle_and_a_rollback(tmp_path, command):
    """One connection sees no number go back; its worker answers all the time; nothing is left in memory.

    What expires is deleted by a row of the log.
    """
    now = some_time_ago()
    with fresh_server(tmp_path, three_objects(now), "--expire", "1h") as server:
        seq = server.put({"id": 1, "lon": 8.5, "lat": 50.5, "t": now + 20}, {"id": 2, "t": now + 20, "deleted": True})
        assert seq == 2
        places = {1: [8.5, 50.5], 3: [10.0, 52.0]}
        assert server.places(seq) == places
        server.kill_builder()
        assert server.ask("/objects/1")[0] == 200
        seq = server.put({"id": 7, "lon": 1.0, "lat": 2.0, "t": now + 30})
        places[7] = [1.0, 2.0]
        assert server.places(seq) == places
        assert len(server.events("builder died")) == 1
        server.kill_writer()
        seq = server.put({"id": 7, "lon": 2.0, "lat": 3.0, "t": now + 31})
        places[7] = [2.0, 3.0]
        assert server.places(seq) == places
        assert len(server.events("builder died")) == 2
        command.works("run", "--store", tmp_path / "store", "--updates", tmp_path / "in", "--cycles", "1")
        seq = server.put({"id": 3, "lon": 3.0, "lat": 4.0, "t": now + 30})
        places[3] = [3.0, 4.0]
        server.until(lambda: server.ask("/snapshot"), lambda said: said["fresh"]["commit"] == 2)
        assert server.places(seq) == places
        server.store.rollback()
        server.until(lambda: server.ask("/snapshot"), lambda said: said["fresh"]["commit"] == 3)
        assert server.places(seq) == places
        seq = server.put({"id": 9, "lon": 1.0, "lat": 1.0, "t": now - 7200})
        assert server.places(seq + 1) == places
        assert server.server.stop()[0] == 0
    left = [folder.name for folder in Path(MEMORY).iterdir()] if Path(MEMORY).is_dir() else []
    assert not [name for name in left if name.startswith(FOLDER_PREFIX) and f"-{server.server.process.pid:x}-" in name]


def key_of(row):
    """By which of two rows of an object one counts."""
    return row["t"], row.get("deleted", False), row.get("lon", 0.0), row.get("lat", 0.0)


@pytest.mark.deep("two hundred kills take ten minutes; the quick test has one")
def test_two_hundred_kills_lose_no_row(tmp_path):
    """Of who makes generations, who writes the log, cycles and workers; what stands is what brute force says."""
    rng = np.random.default_rng(7)
    ids = list(range(1, 41))
    now = some_time_ago()
    start = {"id": ids, "lon": [float(id) for id in ids], "lat": [50.0] * 40, "t": [now] * 40}
    best = {id: {"id": id, "lon": float(id), "lat": 50.0, "t": now} for id in ids}
    run = (sys.executable, "-m", "dtoss", "run", "--store", tmp_path / "store", "--updates", tmp_path / "in")
    kills, last_worker = 0, 0.0
    with fresh_server(tmp_path, start, workers=2, partitions=4) as server:
        for number in range(1, 1_000):
            rows = []
            for _ in range(rng.integers(1, 4)):
                row = {"id": int(rng.integers(1, 51)), "t": now + number + int(rng.choice([0, 0, 1, -1, -20]))}
                gone = rng.random() < 0.2
                lon, lat = rng.uniform(-180, 180, 2).round(1).tolist()
                rows.append(row | ({"deleted": True} if gone else {"lon": lon, "lat": lat / 2}))
            seq = server.put(*rows)
            for row in rows:
                best[row["id"]] = max(best.get(row["id"], row), row, key=key_of)
            way = rng.random()
            if way < 0.5:
                (server.kill_builder if way < 0.25 else server.kill_writer)()
                kills += 1
            elif way < 0.6:
                cycle = subprocess.Popen([*map(str, run), "--cycles", "1", "--done", "delete"])
                time.sleep(rng.uniform(0.5, 3.0))
                cycle.kill()
                kills += cycle.wait() != 0
            elif way < 0.65 and time.monotonic() - last_worker > 20.0:
                last_worker = time.monotonic()
                workers = [pid for pid in children_of(server.server.process.pid) if pid != server.writer]
                os.kill(int(rng.choice(workers)), signal.SIGKILL)
                kills += 1
            elif way < 0.7 and server.store.manifest()["parent"] in server.store.snapshots():
                server.store.rollback()
            assert server.places(seq) == {
                id: [row["lon"], row["lat"]] for id, row in best.items() if not row.get("deleted")
            }
            if kills >= 200:
                break
        assert kills >= 200
        assert server.server.stop()[0] == 0


def children_of(pid):
    """The processes that a process has begun."""
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
