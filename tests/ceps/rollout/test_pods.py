"""Manifests that start: what they say of pods is carried out on this machine, and its servers answer as one."""

from __future__ import annotations

import http.client
import json
import os
import signal
import time
from contextlib import ExitStack

import numpy as np
import pytest
from pyarrow import fs

import ceps
import dtoss
from ceps import Patterns, ServerType
from ceps.rollout.kubernetes import write_manifests
from dtoss.client.endpoint import read_peers
from dtoss.serve.auth.admission import Hosts, doors_of
from dtoss.serve.cluster.cluster import PeerGroup
from dtoss.serve.cluster.served_plans import read_placement
from dtoss.serve.core.server_settings import Settings
from dtoss.snapshots.store_location import filesystem_of
from pipelines.command.app import command_line
from tests.ceps.rollout.pods import NAMESPACE, Cluster, kubelet
from tests.dtoss.serve.served import Asker, looking, running, target
from tests.dtoss.snapshots.damaged_stores import stored
from tests.object_store import KEYS, object_store

OBJECTS, PARTITIONS = 4_000, 20


def objects_index():
    """Objects anywhere, in partitions that are asked at different hours."""
    places = np.random.default_rng(1).uniform([-170, -60], [170, 60], (OBJECTS, 2)).round(3)
    return dtoss.build(np.arange(OBJECTS), places, partitions=PARTITIONS, seed=0)


def plan_for(index, servers, copies, **options):
    """A plan of so many servers for an index."""
    hours = np.arange(24)
    loads = 30 * (1.2 + np.cos((hours - np.arange(PARTITIONS)[:, None]) / 24 * 2 * np.pi))
    patterns = Patterns(loads=loads, sizes=np.full(PARTITIONS, 1e6), pivots_hash=index.partitioning.digest)
    types = [ServerType("box.large", 100_000.0, 1e9, 0.1)]
    return ceps.plan(patterns, None, types, copies=copies, at_least=servers, **options)


def settings_of(pod):
    """What ``dtoss serve`` makes of what a pod tells it."""
    words = pod.arguments
    assert words[:2] == ["dtoss", "serve"]
    given = command_line().commands["serve"].make_context("serve", words[2:]).params
    given["allow_host"] = tuple(given["allow_host"])
    kept = ("store", "host", "port", "workers", "token_file", "allow_host", "plan", "server", "peers")
    return Settings(**{name: given[name] for name in kept})


@pytest.mark.parametrize("copies", [1, 2])
def test_what_manifests_tell_pods_makes_servers_that_answer_as_one(tmp_path, copies):
    """Each pod by the options, files and tokens that it is given; a spare, which holds nothing, is one of them."""
    index = objects_index()
    plan = plan_for(index, 3, copies, spare=True)
    write_manifests(plan, tmp_path / "k8s", name="city", store="claim/in/it")
    cluster = Cluster(tmp_path / "k8s", tmp_path / "pods", {"claim": tmp_path / "volume"})
    assert len(cluster.pods) == len(plan) == 4
    rng = np.random.default_rng(3)
    places = rng.uniform([-170, -60], [170, 60], (60, 2)).round(4)
    with ExitStack() as stack:
        servers = []
        for pod in cluster.pods:
            told = settings_of(pod)
            assert (told.store, told.host, told.port) == (str(tmp_path / "volume" / "in" / "it"), "127.0.0.1", pod.port)
            assert str(told.server) == pod.labels["dtoss.io/server"]
            peers = read_peers(told.peers)
            placement = read_placement(told.plan, index.partitioning.digest, PARTITIONS)
            assert {one.port for one in peers.addresses.values()} == {one.port for one in cluster.pods}

            def circle(heard, me=told.server, peers=peers, placement=placement):
                return PeerGroup(me, peers, placement, heard, heard.event)

            server = running(index, port=pod.port, circle=circle, doors=doors_of(told), token_file=told.token_file)
            servers.append(stack.enter_context(server))
        for server in servers:
            looking(server)
        for pod in cluster.pods:
            assert pod.probe("startupProbe")
            assert pod.probe("livenessProbe")
            assert pod.probe("readinessProbe")
        token = {"Authorization": f"Bearer {cluster.secret('city-tokens', 'reader')}"}
        askers = [stack.enter_context(Asker(server, **token)) for server in servers]
        strangers = [stack.enter_context(Asker(server)) for server in servers]
        assert [stranger.raw("/knn?lon=1&lat=1")[0] for stranger in strangers] == [401] * 4
        assert [asker.raw("/partial", "POST", b"")[0] for asker in askers] == [403] * 4
        assert sum(len(server.serving.now.share.held) for server in servers) == copies * PARTITIONS
        for at, (x, y) in enumerate(places.tolist()):
            wanted = index.knn([x, y], 5)
            said = askers[at % 4].get(target("/knn", lon=x, lat=y, k=5))["hits"]
            assert [(hit["id"], hit["distance"]) for hit in said] == list(
                zip(wanted.id.tolist(), wanted.distance.tolist(), strict=True)
            )


def test_pods_answer_to_the_names_that_they_have(tmp_path):
    """Also where somebody takes the tokens away: by pods' and services' names, and by the address that probes use."""
    write_manifests(plan_for(objects_index(), 2, 1), tmp_path, name="city")
    cluster = Cluster(tmp_path, tmp_path / "pods", {"dtoss-store": tmp_path})
    for pod in cluster.pods:
        hosts = Hosts(settings_of(pod).allow_host)
        local = f".{NAMESPACE}.svc.cluster.local"
        for name in ("city", f"city.{NAMESPACE}", f"city.{NAMESPACE}.svc", f"city{local}", f"{pod.name}.city-pods",
                     f"{pod.name}.city-pods{local}", "10.1.2.3"):  # fmt: skip
            assert hosts.takes(f"{name}:8080".encode()), name
        assert not hosts.takes(b"evil.example:8080")


@pytest.mark.deep("five servers as processes, 10,000 requests, a pod killed; in process above, of two such processes "
                  "in tests/dtoss/serve/cluster")  # fmt: skip
def test_five_servers_from_the_manifests_answer_as_one(tmp_path, command):
    """The command writes them; one pod is killed, others stay ready, and it is back in the pool by its probe."""
    index = objects_index()
    stored(index, tmp_path / "volume" / "city")
    plan_patterns = Patterns(
        loads=np.full((PARTITIONS, 24), 10.0), sizes=np.full(PARTITIONS, 1e6), pivots_hash=index.partitioning.digest
    )
    ceps.write_patterns(tmp_path / "patterns.parquet", (plan_patterns,))
    (tmp_path / "servers.toml").write_text(
        '[[server]]\nname = "box"\nrequests_per_second = 2000\nbytes = 1e9\ndollars_per_hour = 0.1\n'
    )
    command.works(
        "plan", tmp_path / "patterns.parquet", "--servers", tmp_path / "servers.toml", "--out", tmp_path / "plan.json",
        "--copies", 2, "--at-least-servers", 5, "--kubernetes", tmp_path / "k8s", "--pod-store", "claim/city",
    )  # fmt: skip
    cluster = Cluster(tmp_path / "k8s", tmp_path / "pods", {"claim": tmp_path / "volume"})
    assert len(cluster.pods) == 5
    token = {"Authorization": f"Bearer {cluster.secret('dtoss-tokens', 'reader')}"}
    places = np.random.default_rng(3).uniform([-170, -60], [170, 60], (10_000, 2)).round(4)
    wanted = index.knn(places, 5)
    rows = list(zip(wanted.id.reshape(-1, 5).tolist(), wanted.distance.reshape(-1, 5).tolist(), strict=True))
    connections = {}

    def ask(at):
        ready = cluster.endpoints("dtoss")
        pod = ready[at % len(ready)]
        connection = connections.setdefault(pod.name, http.client.HTTPConnection("127.0.0.1", pod.port, timeout=60))
        x, y = places[at].tolist()
        try:
            connection.request("GET", f"/knn?lon={x}&lat={y}&k=5", headers=token)
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException):  # of the pod that is killed, as every client of a service does
            connections.pop(pod.name).close()
            lost.append(at)
            return ask(at + 1) if len(lost) < 50 else None
        assert answer.status == 200, body
        hits = json.loads(body)["hits"]
        assert ([hit["id"] for hit in hits], [hit["distance"] for hit in hits]) == (rows[at][0], rows[at][1])
        return pod

    lost = []
    with kubelet(cluster) as keeper:
        _until(lambda: len(cluster.endpoints("dtoss")) == 5, 300)
        asked = [ask(at).name for at in range(5_000)]
        assert len(set(asked)) == 5
        assert not lost
        victim = cluster.pods[2]
        keeper.kill(victim)
        for at in range(5_000, 8_000):
            ask(at)
        _until(lambda: victim.ready and victim.starts == 2, 300)
        asked = [ask(at).name for at in range(8_000, 10_000)]
        assert victim.name in asked
        assert len(lost) <= 10
        assert [pod.failed_readiness for pod in cluster.pods if pod is not victim] == [0] * 4
        assert [pod.starts for pod in cluster.pods if pod is not victim] == [1] * 4
    for connection in connections.values():
        connection.close()


@pytest.mark.deep("pods as processes on an object store; in process above, of an object store in tests/pipelines/jobs")
def test_pods_find_a_store_on_an_object_store_by_the_keys_of_a_secret(tmp_path):
    """Two servers, one partition's objects from the other, and a log of what was asked in the store."""
    pytest.importorskip("moto", reason="the extra dev brings moto")
    index = objects_index()
    stored(index, tmp_path / "store")
    with object_store() as bucket:
        uri = bucket.uri("city")
        filesystem, path = filesystem_of(uri)
        fs.copy_files(str(tmp_path / "store"), path, destination_filesystem=filesystem)
        write_manifests(plan_for(index, 2, 1), tmp_path / "k8s", store=uri)
        cluster = Cluster(tmp_path / "k8s", tmp_path / "pods", secrets={"dtoss-store": KEYS})
        token = {"Authorization": f"Bearer {cluster.secret('dtoss-tokens', 'reader')}"}
        places = np.random.default_rng(3).uniform([-170, -60], [170, 60], (50, 2)).round(4).tolist()
        with kubelet(cluster):
            _until(lambda: len(cluster.endpoints("dtoss")) == 2, 300)
            for at, (x, y) in enumerate(places):
                asker = http.client.HTTPConnection("127.0.0.1", cluster.pods[at % 2].port, timeout=60)
                asker.request("GET", f"/knn?lon={x}&lat={y}&k=5", headers=token)
                hits = json.loads(asker.getresponse().read())["hits"]
                assert [hit["id"] for hit in hits] == index.knn([x, y], 5).id.tolist()
                asker.close()
        log = filesystem.get_file_info(fs.FileSelector(f"{path}/accesses", recursive=True))
        assert sum(file.is_file for file in log) == 2


@pytest.mark.deep("a pod that is frozen for a minute; that its liveness is told is in process above")
def test_a_frozen_pod_is_begun_anew_by_its_liveness(tmp_path):
    """It leaves the service first, within seconds, and is back once its new process is ready."""
    index = objects_index()
    stored(index, tmp_path / "store")
    write_manifests(plan_for(index, 1, 1), tmp_path / "k8s", store="claim")
    cluster = Cluster(tmp_path / "k8s", tmp_path / "pods", {"claim": tmp_path / "store"})
    (pod,) = cluster.pods
    with kubelet(cluster, hurry=20):
        _until(lambda: pod.ready, 300)
        os.killpg(pod.process.pid, signal.SIGSTOP)
        _until(lambda: not cluster.endpoints("dtoss"), 60)
        assert pod.starts == 1
        _until(lambda: pod.starts == 2 and pod.ready, 300)
        assert cluster.endpoints("dtoss") == [pod]


def _until(holds, seconds):
    ends = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.1)
