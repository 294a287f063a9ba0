"""``dtoss serve --server N --plan --peers``: real servers, from what they are told to how they change and end."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import time

import numpy as np
import pytest

import dtoss
from dtoss.client.endpoint import address_of
from dtoss.client.http_connections import Connections
from dtoss.serve.auth.admission import Doors
from dtoss.serve.cluster.served_plans import Placement
from dtoss.snapshots.store import Store
from tests.dtoss.serve.cluster.several import dealt, free_ports, several, write_peers, write_plan
from tests.dtoss.serve.processes.started import asked, started
from tests.dtoss.snapshots.damaged_stores import stored

COMMAND = ("-c", "from pipelines.command.main import main; main()", "serve")
OBJECTS, PARTITIONS = 4_000, 16
TOKEN = "abcdefghijklmnop1234"


def objects_index(seed=0):
    """The same places with ids that are dealt by a seed."""
    places = np.random.default_rng(1).uniform([-170, -60], [170, 60], (OBJECTS, 2)).round(3)
    ids = np.random.default_rng(seed).permutation(OBJECTS)
    return dtoss.build(ids, places, partitions=PARTITIONS, seed=0)


def until(holds, seconds=90):
    """Wait until something holds."""
    ends = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.05)


def held(port):
    """What a server says that it holds."""
    return set(json.loads(asked_body(port, "/readyz"))["held"])


def asked_body(port, path):
    """The body of a good answer."""
    status, _, body = asked(port, path, f"authorization: Bearer {TOKEN}")
    assert status == 200, body
    return body


def asked_all(ports, indexes, count, seed):
    """Ask each server for the nearest of some places, and compare with the index of the snapshot that has answered."""
    places = np.random.default_rng(seed).uniform([-170, -60], [170, 60], (count, 2)).round(4)
    found = {name: index.knn(places, 5) for name, index in indexes.items()}
    for at, (x, y) in enumerate(places.tolist()):
        said = json.loads(asked_body(ports[at % len(ports)], f"/knn?lon={x}&lat={y}&k=5"))
        hits = [(hit["id"], hit["distance"]) for hit in said["hits"]]
        wanted = found[said["snapshot"]]
        rows = slice(5 * at, 5 * at + 5)
        assert hits == list(zip(wanted.id[rows].tolist(), wanted.distance[rows].tolist(), strict=True))


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store, its index, a plan and where its servers are."""
    path = tmp_path_factory.mktemp("plan")
    index = objects_index()
    where = stored(index, path / "store")
    placement = dealt(index, 2, "random", np.random.default_rng(0))
    write_plan(path / "plan.json", placement)
    ports = free_ports(2)
    write_peers(path / "peers.toml", [f"http://127.0.0.1:{port}" for port in ports], TOKEN)
    (path / "tokens").write_text(f"peers {TOKEN} peer\nreader only-reads\n")
    return str(where), index, placement, path, ports


def test_two_servers_answer_together_swap_and_follow_another_plan(store):
    """A snapshot of other ids, and a plan that gives what the first held to the second."""
    where, index, placement, path, ports = store
    shared = [*COMMAND, "--store", where, "--plan", path / "plan.json", "--peers", path / "peers.toml"]
    shared += ["--token-file", path / "tokens"]
    ready = r"^serving .* on http://127.0.0.1:(\d+)$"
    one = started(*shared, "--server", 0, "--port", ports[0], "--workers", 2, ready=ready)
    with one as first, started(*shared, "--server", 1, "--port", ports[1], ready=ready) as second:
        assert "server 0 with" in first.until("^serving ")[0]
        assert [held(port) for port in ports] == [placement.held_by(0), placement.held_by(1)]
        assert [asked(port, "/knn?lon=1&lat=1&k=1")[0] for port in ports] == [401, 401]
        both = {Store(where).current(): index}
        asked_all(ports, both, 12, 2)
        other = objects_index(7)
        assert other.partitioning.digest == index.partitioning.digest
        stored(other, where)
        name = Store(where).current()
        both[name] = other
        until(lambda: all(json.loads(asked_body(port, "/snapshot"))["snapshot"] == name for port in ports))
        asked_all(ports, both, 12, 3)
        moved = Placement(placement.pivots_hash, ((1,),) * (PARTITIONS - 1) + ((0,),))
        write_plan(path / "plan.json", moved)
        until(lambda: [held(port) for port in ports] == [{PARTITIONS - 1}, set(range(PARTITIONS - 1))])
        asked_all(ports, both, 12, 4)
        assert json.loads(asked_body(ports[0], "/snapshot"))["objects"] == OBJECTS
        metrics = asked_body(ports[0], "/metrics").decode()
        assert 'dtoss_forwards_total{what="gathered"}' in metrics
        (path / "plan.json").write_text("{}")
        second.until("plan kept")
        first.until("plan kept")
        children = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(first.process.pid)], capture_output=True, text=True, check=True
        )  # fmt: skip
        os.kill(int(children.stdout.split()[0]), signal.SIGKILL)
        first.until("worker died")
        first.until("plan kept", times=3)  # by the worker in its place, too
        asked_all(ports, both, 12, 5)
        assert first.stop()[0] == 0
        x, y = other.parts[PARTITIONS - 1].positions[0].tolist()
        status, _, body = asked(ports[1], f"/knn?lon={x}&lat={y}&k=1", f"authorization: Bearer {TOKEN}")
        assert status == 503
        assert json.loads(body)["servers"] == [0]
        assert json.loads(body)["partitions"] == [PARTITIONS - 1]


def test_what_servers_say_to_each_other_needs_the_token(store, tmp_path):
    """Without one a question of a server is 401; the peers' file has it."""
    _, index, placement, path, _ = store
    peers, only = tmp_path / "peers.toml", tmp_path / "one.toml"
    doors = Doors(str(path / "tokens"), None, ())
    with several(index, placement, 2, token=TOKEN, cold=(0,), doors=doors) as servers:
        urls = [f"http://127.0.0.1:{server.at[1]}" for server in servers]
        write_peers(peers, urls, TOKEN)
        for route in ("/partial", "/forward"):
            with pytest.raises(dtoss.DtossError, match="no token came"):
                Connections(address_of(urls[1]), None, 10).ask("POST", route, b"x")
        remote = dtoss.connect(peers=str(peers))
        with pytest.raises(ValueError, match="a URL or peers="):
            dtoss.connect()
        write_peers(only, [f"http://127.0.0.1:{free_ports(1)[0]}", urls[1]])
        second = dtoss.connect(peers=str(only), token=TOKEN)
        assert second.url == urls[1]
        assert len(pickle.loads(pickle.dumps(second))) == OBJECTS
        places = np.random.default_rng(8).uniform([-170, -60], [170, 60], (30, 2)).round(4)
        for place in places[:10]:
            assert remote.knn(place, 4).id.tolist() == index.knn(place, 4).id.tolist()
        assert remote.knn(places, 4).id.tolist() == index.knn(places, 4).id.tolist()
        assert remote.count(places, 3e5).tolist() == index.count(places, 3e5).tolist()


def test_what_does_not_go_together_is_said(store, tmp_path, command):
    """In one line, with exit code 2."""
    where, _, placement, path, _ = store
    plan, peers = str(path / "plan.json"), str(path / "peers.toml")
    write_plan(path / "plan.json", placement)
    other = tmp_path / "other.json"
    write_plan(other, Placement("0123456789abcdef", placement.holders))
    for options, said in (
        (["--peers", peers], "--peers needs --server"),
        (["--server", "0", "--peers", peers], "--server 0 needs --plan"),
        (["--server", "0", "--plan", plan], "--server 0 needs --peers"),
        (["--server", "5", "--plan", plan, "--peers", peers], "does not name server 5"),
        (["--server", "0", "--plan", str(other), "--peers", peers], f"the snapshot has {placement.pivots_hash}"),
    ):
        assert said in command.fails("serve", "--store", where, "--port", 0, *options)
