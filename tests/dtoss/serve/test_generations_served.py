"""A worker of generations: sequence numbers on answers, questions that wait for one, pages of what has passed."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import dtoss
from dtoss.fresh.generations import publish
from dtoss.fresh.standing import merge_rows, standing_of
from dtoss.log.log_reader import log_schema
from dtoss.serve.answers.open_snapshots import OPEN_GENERATIONS
from dtoss.serve.auth.route_table import CALLS, READER
from dtoss.serve.core.server_settings import Paces
from dtoss.snapshots.store import Store
from tests.dtoss.scenes import rows
from tests.dtoss.serve.calling import ask, request_of
from tests.dtoss.serve.cluster.several import dealt, several
from tests.dtoss.serve.served import Asker, running, served_of, talk, town, turn
from tests.dtoss.serve.watched import watched

QUICK = Paces(fresh_wait=0.05)
NAMES = [f"20260101T0000{number:02}.000000Z" for number in range(20)]


def generation(index, seq, number=None):
    """An index as the generation of a sequence number."""
    served = served_of(index, NAMES[seq if number is None else number])
    served.facts["fresh"] = {"base": "b", "commit": 1, "seq": seq, "generation": seq}
    return served


@pytest.fixture(scope="module")
def index():
    return town()


@pytest.fixture
def server(index):
    with running(index, updates="in", paces=QUICK) as server:
        become(server, generation(index, 3))
        yield server


def become(server, served):
    server.loop.call_soon_threadsafe(server.serving.replace, served)
    turn(server)


@pytest.mark.parametrize("hot", [True, False])
def test_each_answer_says_its_sequence_number(server, hot):
    """On both ways the same, and errors too; also in parts that are not modified."""
    with Asker(server, **({} if hot else {"origin": "http://other"})) as asker:
        for path in ("/knn?lon=10&lat=50", "/objects/7", "/count?lon=10&lat=50&radius=9"):
            status, headers, _ = asker.raw(path)
            assert (status, headers["dtoss-seq"]) == (200, "3")
        status, headers, _ = asker.raw("/objects/999999")
        assert (status, headers["dtoss-seq"]) == (404, "3")
        _, headers, _ = asker.raw("/count?lon=10&lat=50&radius=9")
        status, again, _ = asker.raw("/count?lon=10&lat=50&radius=9", if_none_match=headers["etag"])
        assert (status, again["dtoss-seq"]) == (304, "3")


def test_without_a_log_there_is_no_number(index):
    with running(index) as server, Asker(server) as asker:
        status, headers, _ = asker.raw("/knn?lon=10&lat=50")
        assert (status, "dtoss-seq" in headers) == (200, False)
        status, headers, body = asker.raw("/knn?lon=10&lat=50&min_seq=1")
        assert (status, json.loads(body)["limit"]) == (400, "min_seq")
    answers = [talk_of(index, **given) for given in ({}, {"updates": "in"})]
    assert answers[0] == answers[1]


def talk_of(index, **given):
    """The bytes of an answer on the short way, without what each has of its own."""
    with running(index, **given) as server:
        data = talk(server, b"GET /knn?lon=10&lat=50 HTTP/1.1\r\nhost: localhost\r\nx-request-id: a\r\n\r\n", 1)
        return [line for line in data.split(b"\r\n") if not line.startswith(b"date")]


def test_a_question_waits_for_the_row_that_it_names(index):
    """It is answered by the generation that has it; what comes too late is 503 with the number that there is."""
    with running(index, updates="in") as server, Asker(server) as asker:
        become(server, generation(index, 3))
        assert asker.raw("/objects/7?min_seq=3")[1]["dtoss-seq"] == "3"
        following = [threading.Timer(seq / 50, become, (server, generation(index, seq))) for seq in (4, 6)]
        for one in following:
            one.start()
        status, headers, _ = asker.raw("/knn?lon=10&lat=50&min_seq=5")
        assert (status, headers["dtoss-seq"]) == (200, "6")
        for one in following:
            one.join()


DOORS = [call for call in CALLS if call.who == READER and "{snapshot}" not in call.path]


@pytest.mark.parametrize("servers", [1, 2])
def test_every_door_waits(index, servers):
    """Of one place, of many, of zones, features and pages of the map, on one server and on one of a plan."""
    placement = dealt(index, 2, "contiguous", np.random.default_rng(0))
    given = {"updates": "in", "paces": Paces(fresh_wait=0.001)}
    with running(index, **given) if servers == 1 else several(index, placement, 2, **given) as found:
        for server in (asked := [found] if servers == 1 else found):
            served = server.serving.now
            become(server, replace(served, name=NAMES[3], facts={**served.facts, "fresh": {"commit": 1, "seq": 3}}))
        for call in DOORS:
            path, body = request_of(asked[-1], call)
            sign = "&" if "?" in path else "?"
            status = ask(asked[-1], call.method, path, body)[0]
            assert ask(asked[-1], call.method, f"{path}{sign}min_seq=3", body)[0] == status, call
            status, said = ask(asked[-1], call.method, f"{path}{sign}min_seq=4", body)
            assert (status, said["limit"], said["bound"]) == (503, "min_seq", 3), call


@pytest.mark.parametrize(
    ("query", "status", "said"),
    [
        ("min_seq=4", 503, "rows up to 3, and min_seq is 4"),
        ("min_seq=", 400, "one sequence number is wanted"),
        ("min_seq=-1", 400, "one sequence number is wanted"),
        ("min_seq=1&min_seq=2", 400, "one sequence number is wanted"),
        (f"min_seq=1&snapshot={NAMES[3]}", 400, "leave it out beside a snapshot"),
        ("max_seq=1", 400, "has no parameter 'max_seq'"),
    ],
)
def test_numbers_that_cannot_be_waited_for_are_refused(server, query, status, said):
    with Asker(server) as asker:
        found, headers, body = asker.raw(f"/knn?lon=10&lat=50&{query}")
        assert (found, said in json.loads(body)["detail"]) == (status, True), body
        assert ("Retry-After" in headers or "retry-after" in headers) == (status == 503)


def test_ages_are_those_of_the_generation(index):
    """Of who asks whether the server is ready, of the facts, and of what pages are told while they are open."""
    with running(index, updates="in", max_age=60.0) as server, Asker(server) as asker:
        for seq, old, status in ((3, 100.0, 503), (4, 0.0, 200)):
            become(server, replace(generation(index, seq), made=time.time() - old))
            found, _, body = asker.raw("/readyz")
            assert found == status
            assert json.loads(body)["value" if status == 503 else "age_seconds"] == pytest.approx(old, abs=30.0)
            facts, page = asker.get("/snapshot"), server.state.showing.snapshot()
            assert facts["fresh"] == {"base": "b", "commit": 1, "seq": seq, "generation": seq}
            assert facts["age_seconds"] == pytest.approx(old, abs=30.0)
            assert (page["snapshot"], page["made"]) == (NAMES[seq], server.serving.now.made)


def test_generations_stay_open_for_who_goes_on_asking(server, index):
    """Of the others the latest stay."""
    with Asker(server) as asker:
        page = asker.get("/range", lon=10, lat=50, radius=1e5, limit=3)
        assert page["snapshot"] == NAMES[3]
        for seq in range(4, 4 + OPEN_GENERATIONS + 4):
            become(server, generation(index, seq))
            page = asker.get("/range", lon=10, lat=50, radius=1e5, limit=3, cursor=page["next"])
            assert page["snapshot"] == NAMES[3]
        assert asker.raw(f"/objects/7?snapshot={NAMES[4]}")[0] == 410
        assert asker.raw(f"/objects/7?snapshot={NAMES[4 + OPEN_GENERATIONS]}")[0] == 200


def test_the_description_has_the_parameter(server, index):
    with Asker(server) as asker:
        knn = asker.get("/openapi.json")["paths"]["/knn"]["get"]
        assert "min_seq" in {one["name"] for one in knn["parameters"]}
    with running(index) as plain, Asker(plain) as asker:
        knn = asker.get("/openapi.json")["paths"]["/knn"]["get"]
        assert "min_seq" not in {one["name"] for one in knn["parameters"]}


@pytest.fixture
def published(tmp_path):
    """Where generations are, and what publishes one: of rows up to a sequence number, some of which move an object."""
    town(partitions=6).save(tmp_path / "store", time="seen")
    store, home = Store(str(tmp_path / "store")), Store(str(tmp_path / "home"))
    schema, held = log_schema(store.manifest()), [standing_of(store), None]

    def next_one(seq, moved=()):
        rows = [
            {"id": id, "lon": 10.0, "lat": 50.0, "seen": datetime(2030, 1, seq), "speed": 1, "deleted": False}
            for id in moved
        ]
        held[0] = replace(held[0], seq=0)
        standing, _ = merge_rows(held[0], pa.Table.from_pylist(rows, schema), seq)
        held[:] = standing, publish(standing, home, held[1])
        return standing.index

    next_one(5)
    return SimpleNamespace(store=store, home=home, next_one=next_one)


def watched_generations(published):
    return watched(published.store.path, generations=published.home.path, updates="in", verify=False)


def test_a_generation_of_fewer_rows_does_not_answer(published):
    """A builder that has lost rows takes none from answers."""
    with watched_generations(published) as worker:
        published.next_one(4)
        assert not worker.watcher.look()
        assert worker.serving.now.seq == 5
        published.next_one(6)
        assert worker.watcher.look()
        assert worker.serving.now.seq == 6


def test_a_swap_takes_over_partitions_in_the_same_files(published):
    """They are the same objects; what answers is what an index of all files would."""
    with watched_generations(published) as worker:
        before = worker.serving.now.index
        moved = before.knn([[10.0, 50.0]], 1).id.tolist()
        published.next_one(7, moved)
        assert worker.watcher.look()
        now = worker.serving.now.index
        same = [one is other for one, other in zip(before.parts.all(), now.parts.all(), strict=True)]
        assert 0 < sum(same) < len(same)
        opened = dtoss.open(published.home)
        places = np.random.default_rng(0).normal([10.0, 50.0], 0.1, (200, 2))
        assert rows(now.knn(places, 5)) == rows(opened.knn(places, 5))
        assert rows(now.range(places, 5e3)) == rows(opened.range(places, 5e3))
        assert now[moved[0]] == opened[moved[0]]
        assert worker.told.events == []


def resident(path):
    """Return how many bytes of a file's maps are in the memory of this process."""
    found, sizes = False, 0
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split()[0]:
            found = line.removesuffix(" (deleted)").endswith(str(path))
        elif found and line.startswith("Rss:"):
            sizes += int(line.split()[1]) * 1024
    return sizes


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="only Linux says what is in memory of a map")
def test_what_is_let_go_leaves_memory_and_who_still_reads_it_finds_it(published):
    """A file that what answers has, too, stays."""
    home = published.home

    def files():
        name = worker.serving.now.name
        return [home.file("snapshots", name, one["file"]) for one in home.manifest(name)["partitions"]]

    with watched_generations(published) as worker:
        first, before = worker.serving.now.index, files()
        moved = first.knn([[10.0, 50.0]], 1).id.tolist()
        published.next_one(7, moved)
        assert worker.watcher.look()
        same = [Path(one).name == Path(other).name for one, other in zip(before, files(), strict=True)]
        expected = rows(first.range([[10.0, 50.0]], 1e4))
        assert all(map(resident, before))
        for seq in range(8, 8 + OPEN_GENERATIONS + 1):
            published.next_one(seq, moved)
            assert worker.watcher.look()
        assert 0 < sum(same) < len(same)
        assert [resident(one) > 0 for one in before] == same
        assert rows(first.range([[10.0, 50.0]], 1e4)) == expected
