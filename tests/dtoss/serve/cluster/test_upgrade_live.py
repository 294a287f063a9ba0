"""A plan of three servers of an older release under load, one after the other replaced by this release.

``DTOSS_OLDER`` names the Python of an environment that has the older one: ``python -m venv``, and its wheel in there.
"""

from __future__ import annotations

import json
import os
import threading
import time
from contextlib import ExitStack
from http.client import HTTPConnection

import numpy as np
import pytest

from dtoss.snapshots.store import Store
from tests.dtoss.serve.cluster.several import dealt, free_ports, write_peers, write_plan
from tests.dtoss.serve.cluster.test_servers_of_a_plan import COMMAND, until
from tests.dtoss.serve.cluster.test_together import world
from tests.dtoss.serve.cluster.test_versions import WIDE
from tests.dtoss.serve.processes.started import started
from tests.dtoss.snapshots.damaged_stores import stored

OLDER = os.environ.get("DTOSS_OLDER")
READS, SAYS = "reads-the-store", "says-to-servers"
READY = r"^serving .* on http://127.0.0.1:(\d+)$"
SETTLED_SECONDS = 4.0
"""In which servers have read a list of the others that has changed, and asked nobody else any more."""
CLIENTS = 4


class Load:
    """Clients that ask all servers of a plan in turn, all kinds of questions, and count what is wrong."""

    def __init__(self, index, at):
        self.index, self.at, self.ended = index, dict(at), threading.Event()
        self.answers, self.failed, self.wrong = 0, [], []
        self.threads = [threading.Thread(target=self.run, args=(seed,)) for seed in range(CLIENTS)]

    def __enter__(self):
        for one in self.threads:
            one.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        for one in self.threads:
            one.join()

    def questions(self, rng, older):
        """Method, path, body, and what is answered right, of which the key is the answer's."""
        x, y = self.index.parts[int(rng.integers(128))].positions[0].tolist()
        x, y = round(min(max(x + 0.003, -179.0), 179.0), 5), round(min(max(y, -85.0), 85.0), 5)
        k, radius = int(rng.integers(1, 20)), float(rng.choice([2e3, 3e5]))
        at = f"lon={x}&lat={y}"
        nearest = self.index.knn([x, y], k).id.tolist()
        yield "GET", f"/knn?{at}&k={k}", None, "hits", nearest
        yield "GET", f"/knn?{at}&k={k}&columns=size&ids=number", None, "hits", nearest
        yield "GET", f"/range?{at}&radius={radius}", None, "hits", self.index.range([x, y], radius).id.tolist()
        many = int(self.index.count([x, y], 2e6, where="size > 3")[0])
        yield "GET", f"/count?{at}&radius=2e6&where=size%20%3E%203", None, "count", many
        box = [round(x - 1, 4), round(y - 1, 4), round(x + 1, 4), round(y + 1, 4)]
        found = sorted(self.index.box(box).id.tolist())
        sides = "&".join(f"{name}={one}" for name, one in zip(("west", "south", "east", "north"), box, strict=True))
        yield "GET", f"/box?{sides}", None, "hits", found
        yield "GET", f"/locate?{at}", None, "id", nearest[0]
        yield "GET", f"/reverse_nearest?{at}", None, "hits", self.index.reverse_nearest([x, y]).id.tolist()
        # by what the one who is asked takes edges for
        held = int(self.index.count_within(WIDE, edges="spherical" if older else "planar")[0])
        yield "POST", "/within?count=true", json.dumps(WIDE), "counts", [held]

    def run(self, seed):
        """Ask until it is over, on connections that stay open."""
        rng, open_ones = np.random.default_rng(seed), {}
        while not self.ended.is_set():
            server = int(rng.integers(3))
            port, older = self.at[server]
            for method, path, body, key, right in self.questions(rng, older):
                connection = open_ones.setdefault(port, HTTPConnection("127.0.0.1", port, timeout=60))
                try:
                    headers = {"Authorization": f"Bearer {READS}", "Content-Type": "application/json"}
                    connection.request(method, path, body, headers)
                    reply = connection.getresponse()
                    said = reply.read()
                except OSError as error:
                    self.failed.append((server, older, path, repr(error)))
                    open_ones.pop(port).close()
                    continue
                if reply.status != 200:
                    self.failed.append((server, older, path, said))
                    continue
                found = json.loads(said)[key]
                found = [hit["id"] for hit in found] if key == "hits" else found
                self.answers += 1
                if found != right:
                    self.wrong.append((server, older, path, found, right))
        for one in open_ones.values():
            one.close()


@pytest.mark.deep("six servers as processes, and an environment of an older release; quick: messages that are recorded")
@pytest.mark.skipif(OLDER is None, reason="DTOSS_OLDER names no Python of an older release")
def test_no_request_fails_and_none_is_wrong_while_a_plan_is_upgraded(tmp_path):
    """Without copies, with tokens: a new server starts at a port of its own, then the list of servers is changed."""
    index = world("sphere")
    where = stored(index, tmp_path / "store")
    assert Store(where).current()
    placement = dealt(index, 3, "random", np.random.default_rng(0))
    write_plan(tmp_path / "plan.json", placement)
    (tmp_path / "older-tokens").write_text(f"fleet {READS}\nservers {SAYS}\n")
    (tmp_path / "tokens").write_text(f"fleet {READS}\nservers {SAYS} peer\n")
    ports = free_ports(6)

    def peers(at):
        write_peers(tmp_path / "fresh.toml", [f"http://127.0.0.1:{at[server][0]}" for server in range(3)], SAYS)
        (tmp_path / "fresh.toml").rename(tmp_path / "peers.toml")

    def options(server, port, tokens):
        of = {"store": where, "plan": "plan.json", "peers": "peers.toml", "token-file": tokens}
        paths = [word for name, path in of.items() for word in (f"--{name}", tmp_path / path)]
        return [*paths, "--server", server, "--port", port]

    at = {server: (ports[server], True) for server in range(3)}
    peers(at)
    with ExitStack() as stack:
        old = [
            stack.enter_context(
                started("-I", "-m", "dtoss", "serve", *options(server, ports[server], "older-tokens"), ready=READY,
                        python=OLDER, seconds=300)
            )
            for server in range(3)
        ]  # fmt: skip
        time.sleep(SETTLED_SECONDS)
        with Load(index, at) as load:
            until(lambda: load.answers > 200)
            for server in (1, 0, 2):
                fresh = ports[3 + server]
                stack.enter_context(started(*COMMAND, *options(server, fresh, "tokens"), ready=READY, seconds=300))
                at[server] = (fresh, False)
                peers(at)
                load.at = dict(at)
                time.sleep(SETTLED_SECONDS)
                assert old[server].stop()[0] == 0
                before = load.answers
                until(lambda before=before: load.answers > before + 300)
        print(f"{load.answers} answers, {len(load.failed)} failed, {len(load.wrong)} wrong")
        assert load.failed == []
        assert load.wrong == []
        assert load.answers > 1_000
