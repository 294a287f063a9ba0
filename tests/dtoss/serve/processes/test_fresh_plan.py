"""Rows that are told to any server of a plan are found on all of them, whichever server dies meanwhile."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tests.dtoss.serve.processes.fresh_plan import fresh_plan, in_memory
from tests.dtoss.serve.processes.test_fresh_server import children_of, key_of, some_time_ago, three_objects


def test_rows_are_found_on_all_servers_through_the_death_of_the_one_that_writes(tmp_path):
    """Another one goes on, at no lower number; one that comes again answers as they do, and nothing is left.

    So they do where a builder dies, or the worker that is asked.
    """
    now = some_time_ago()
    with fresh_plan(tmp_path, three_objects(now), 2) as plan:
        here, other = plan.servers[plan.writer], plan.servers[1 - plan.writer]
        seq = other.put({"id": 1, "lon": 8.5, "lat": 50.5, "t": now + 20}, {"id": 2, "t": now + 20, "deleted": True})
        places = {1: [8.5, 50.5], 3: [10.0, 52.0]}
        assert seq == 2
        assert here.places(seq) == other.places(seq) == places
        here.kill_builder()
        for pid in children_of(other.server.process.pid):
            os.kill(pid, signal.SIGKILL)
        seq = here.put({"id": 7, "lon": 0.5, "lat": 2.0, "t": now + 20})
        places[7] = [0.5, 2.0]
        assert here.places(seq) == other.places(seq) == places
        writer = plan.writer  # which of them took over
        other = plan.servers[1 - writer]
        place = in_memory(tmp_path)
        assert place.is_dir()
        plan.kill(writer)
        assert other.ask("/readyz")[0] == 200
        before, seq = seq, other.put({"id": 7, "lon": 1.0, "lat": 2.0, "t": now + 30})
        places[7] = [1.0, 2.0]
        assert seq == before + 1
        assert other.places(seq) == places
        assert plan.writer == 1 - writer
        plan.start(writer)
        assert plan.servers[writer].places(seq) == places
        for server in plan.servers.values():
            assert server.server.stop()[0] == 0
    assert not place.exists()
    # what is left are the log, and the file that servers lock
    assert sorted(file.name[-5:] for file in (tmp_path / "in" / ".log").iterdir()) == [".open", "RVERS"]


@pytest.mark.deep("more than a hundred kills of servers and builders take ten minutes; the quick test has three")
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("servers", "deaths"), [(2, 40), (3, 100), (5, 20)])
def test_kills_lose_no_row_on_any_server(tmp_path, servers, deaths):
    """Of whole servers, parents, builders, workers and cycles, with servers that are frozen; judged by brute force."""
    rng = np.random.default_rng(11)
    ids = list(range(1, 41))
    now = some_time_ago()
    start = {"id": ids, "lon": [float(id) for id in ids], "lat": [50.0] * 40, "t": [now] * 40}
    best = {id: {"id": id, "lon": float(id), "lat": 50.0, "t": now} for id in ids}
    run = (sys.executable, "-m", "dtoss", "run", "--store", tmp_path / "store", "--updates", tmp_path / "in")
    run += ("--pivots", "keep", "--cycles", "1", "--done", "delete")
    kills, seen = 0, dict.fromkeys(range(servers), 0)
    with fresh_plan(tmp_path, start, servers) as plan:
        while kills < deaths:
            rows = []
            for _ in range(rng.integers(1, 4)):
                row = {"id": int(rng.integers(1, 51)), "t": now + kills + int(rng.choice([0, 0, 1, -1, -20]))}
                lon, lat = rng.uniform(-180, 180, 2).round(1).tolist()
                gone = rng.random() < 0.2
                rows.append(row | ({"deleted": True} if gone else {"lon": lon, "lat": lat / 2}))
            number, way = int(rng.integers(servers)), rng.random()
            seq = plan.servers[number].put(*rows)
            for row in rows:
                best[row["id"]] = max(best.get(row["id"], row), row, key=key_of)
            server = plan.servers[number]
            if way < 0.03:
                for one in range(servers):
                    plan.kill(one)
                plan.start(*range(servers))
                kills += servers
            elif way < 0.15:
                plan.kill(number)
                plan.start(number)
                kills += 1
            elif way < 0.4:
                (server.kill_builder if way < 0.27 else server.kill_writer)()  # wherever it is
                kills += 1
            elif way < 0.5:
                os.kill(int(rng.choice(children_of(server.server.process.pid))), signal.SIGKILL)
                kills += 1
            elif way < 0.6:
                cycle = subprocess.Popen([*map(str, run)])
                time.sleep(rng.uniform(0.5, 3.0))
                cycle.kill()
                kills += cycle.wait() != 0
            elif way < 0.65 and server.store.manifest()["parent"] in server.store.snapshots():
                server.store.rollback()
            elif way < 0.75:
                os.killpg(server.server.process.pid, signal.SIGSTOP)
                time.sleep(rng.uniform(0.1, 2.0))
                os.killpg(server.server.process.pid, signal.SIGCONT)
            wanted = {id: [row["lon"], row["lat"]] for id, row in best.items() if not row.get("deleted")}
            for at, one in plan.servers.items():
                assert one.places(seq) == wanted
                assert one.seq >= seen[at]
                seen[at] = one.seq
        for server in plan.servers.values():
            assert server.server.stop()[0] == 0
        lines = map(json.loads, (tmp_path / "log").read_text().splitlines())
        assert {line["event"] for line in lines} >= {"builder started", "builder stands by", "builder died"}
