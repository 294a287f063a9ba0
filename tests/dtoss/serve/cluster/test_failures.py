"""Servers that do not answer, hold something else, have another snapshot or change their plan."""

from __future__ import annotations

import gc
import json
import time
import weakref
from dataclasses import replace

import numpy as np
import pytest

from dtoss.client.endpoint import read_peers
from dtoss.errors import InputError
from dtoss.kinds.kind import Search, Shapes
from dtoss.kinds.shapes import question_of_shapes
from dtoss.serve.cluster.cluster import FAILURES_IN_TEN_SECONDS, PROBE_SECONDS, Health, PeerGroup
from dtoss.serve.cluster.served_plans import Placement, read_placement
from dtoss.serve.cluster.wire_messages import pack_question
from dtoss.serve.requests.bundles import packed_bundle, packed_group, read_bodies
from dtoss.shards.merge_answers import AT_HOMES, BY_SHARES, COUNTED_BY_SHARES, PART_STEPS, ShareQuestion
from tests.dtoss.serve.cluster.several import dealt, several, write_plan
from tests.dtoss.serve.cluster.test_together import world
from tests.dtoss.serve.served import Asker, running, served_of, until


@pytest.fixture(scope="module")
def index():
    """An index on the sphere."""
    return world("sphere")


def stop(server):
    """End a worker's listening and all of its connections."""
    server.loop.call_soon_threadsafe(setattr, server.server, "should_exit", True)
    until(lambda: not server.server.started or not any(s.sockets for s in getattr(server.server, "servers", [])))


def places_of(index, held, count):
    """Places of objects of some partitions."""
    near = np.concatenate([index.parts[one].positions[: index.parts[one].owned_objects] for one in sorted(held)])
    return near[:: max(len(near) // count, 1)][:count].tolist()


def test_without_a_copy_it_is_said_who_is_away_and_what_lacks_is_told_where_that_is_asked_for(index):
    """503 names the server and the partitions; `partial=ok` answers with the rest, and says so."""
    rng = np.random.default_rng(0)
    placement = dealt(index, 2, "contiguous", rng)
    with several(index, placement, 2) as (here, away), Asker(here) as asker:
        x, y = places_of(index, placement.held_by(1), 1)[0]
        path = f"/knn?lon={x}&lat={y}&k=3&columns=size"
        assert asker.raw(path)[0] == 200
        here.loop.call_soon_threadsafe(here.state.circle.links[1].close)
        here.loop.call_soon_threadsafe(setattr, here.state.circle.links[1], "address", replace_port(here))
        status, _, body = asker.raw(path)
        said = json.loads(body)
        assert status == 503
        assert said["servers"] == [1]
        assert set(said["partitions"]) <= placement.held_by(1)
        assert "server 1 at http://127.0.0.1" in said["detail"]
        status, headers, body = asker.raw(path + "&partial=ok")
        said = json.loads(body)
        assert status == 200
        assert said["missing"]
        assert set(said["missing"]) <= placement.held_by(1)
        assert headers["x-dtoss-missing"] == ",".join(map(str, said["missing"]))
        assert "etag" not in headers
        x, y = places_of(index, placement.held_by(0), 1)[0]
        assert "missing" not in asker.get("/knn", lon=x, lat=y, k=1, partial="ok", columns="size")
        until(lambda: [what for what, _ in here.heard.events].count("server not asked any more") == 1)
        assert away.heard.events == []


def replace_port(server):
    """An address where nobody listens."""
    return replace(server.state.circle.links[1].address, port=1)


def test_a_copy_answers_where_a_server_is_away_and_it_is_asked_again_once_it_answers(index):
    """No request fails; the server comes back by a probe."""
    rng = np.random.default_rng(1)
    placement = dealt(index, 3, "copies", rng)
    places = places_of(index, range(len(index.parts)), 60)
    wanted = index.knn(places, 3)
    with several(index, placement, 3) as servers, Asker(servers[0]) as asker:
        link = servers[0].state.circle.links[1]
        address = link.address
        servers[0].loop.call_soon_threadsafe(link.close)
        servers[0].loop.call_soon_threadsafe(setattr, link, "address", replace(address, port=1))
        for at, (x, y) in enumerate(places):
            hits = asker.get("/knn", lon=x, lat=y, k=3)["hits"]
            assert [hit["id"] for hit in hits] == wanted.id[3 * at : 3 * at + 3].tolist()
        health = servers[0].state.circle.health[1]
        until(lambda: health.open)
        servers[0].loop.call_soon_threadsafe(setattr, link, "address", address)
        until(lambda: not health.open)
        assert "server asked again" in [what for what, _ in servers[0].heard.events]


def test_what_has_moved_is_asked_of_who_holds_it_now(index):
    """A server that is taken to hold something says that it does not, and the next one is asked."""
    rng = np.random.default_rng(2)
    placement = dealt(index, 3, "copies", rng)
    with several(index, placement, 3) as servers, Asker(servers[0]) as asker:
        gone = servers[1].serving.now
        less = sorted(gone.share.held)[::2]
        servers[1].loop.call_soon_threadsafe(
            setattr, servers[1].serving, "now", replace(served_of(index, held=less), name=gone.name)
        )
        until(lambda: servers[1].serving.now is not gone)
        lost = set(gone.share.held) - set(less) - set(placement.held_by(0))
        places = places_of(index, lost, 30)
        wanted = index.knn(places, 2)
        for at, (x, y) in enumerate(places):
            hits = asker.get("/knn", lon=x, lat=y, k=2, columns="size")["hits"]
            assert [hit["id"] for hit in hits] == wanted.id[2 * at : 2 * at + 2].tolist()
        assert servers[0].state.circle.held_of[1] == frozenset(less)


def test_another_snapshot_answers_where_one_is_gone(index):
    """All is asked once more of the newest that both have; with a snapshot named it is 409."""
    rng = np.random.default_rng(3)
    placement = dealt(index, 2, "contiguous", rng)
    with several(index, placement, 2) as (first, second), Asker(first) as asker:
        old = first.serving.now
        fresh = replace(old, name="20270101T000000.000000Z")
        first.loop.call_soon_threadsafe(first.serving.replace, fresh)
        until(lambda: first.serving.now is fresh)
        x, y = places_of(index, placement.held_by(1), 1)[0]
        said = asker.get("/knn", lon=x, lat=y, k=2)
        assert said["snapshot"] == old.name
        assert [hit["id"] for hit in said["hits"]] == index.knn([x, y], 2).id.tolist()
        body = json.dumps({"positions": [[x, y]] * 40})
        status, headers, _ = asker.raw("/knn?k=2", "POST", body, Content_Type="application/json")
        assert (status, headers["x-dtoss-snapshot"]) == (200, old.name)
        status, _, body = asker.raw(f"/knn?lon={x}&lat={y}&k=2&snapshot={fresh.name}")
        assert status == 409
        assert second.serving.now.name in json.loads(body)["detail"]


def test_a_question_that_is_wrong_is_wrong_on_all_servers(index):
    """The message is that of one server."""
    placement = dealt(index, 2, "random", np.random.default_rng(4))
    with several(index, placement, 2) as (first, _), Asker(first) as asker:
        for path in ("/knn?lon=1&lat=2&k=3&columns=no", "/range?lon=1&lat=2&radius=5&where=no%20%3E%201"):
            status, _, body = asker.raw(path)
            assert status == 400
            assert "no" in json.loads(body)["detail"]
        status, _, body = asker.raw("/objects/99999999")
        assert status == 404
        for path in ("/partial", "/forward"):
            status, _, body = asker.raw(path, "POST", b"not a question")
            assert status == 400, body


SIDES = b"[0,0,1,1]"
HOSTILE = [
    ShareQuestion(BY_SHARES, Search(np.array([[np.nan, 1.0]]), np.array([1.0]), 3), ()),
    ShareQuestion(BY_SHARES, Search(np.array([[1e9, 1.0]]), np.array([1.0]), 3), ()),
    ShareQuestion(AT_HOMES, Search(np.array([[1.0, 1.0]]), np.array([np.nan]), 3), ()),
    ShareQuestion(AT_HOMES, Search(np.array([[1.0, 1.0]]), np.array([1.0]), -1), ()),
    ShareQuestion(BY_SHARES, Search(np.array([[1.0, 1.0]]), np.array([1.0]), 10**9), ()),
    ShareQuestion(BY_SHARES, Search(np.array([[1.0, 1.0]]), np.array([1.0]), 3, "size > 1" + " " * 10**5), ()),
    ShareQuestion(COUNTED_BY_SHARES, Search(np.array([[1.0, -91.0]]), np.array([1.0]), 0), ()),
    ShareQuestion(PART_STEPS["reverse_nearest"], Search(np.array([[np.inf, 1.0]]), np.zeros(0), 0), ()),
    ShareQuestion(PART_STEPS["shapes"], question_of_shapes(Shapes("stars", SIDES), 10, False, None, None, ()), ()),
    ShareQuestion(PART_STEPS["shapes"], question_of_shapes(Shapes("box", SIDES), 10**12, False, None, None, ()), ()),
]


@pytest.mark.parametrize("question", HOSTILE, ids=range(len(HOSTILE)))
def test_questions_of_strangers_are_bounded_as_those_of_clients(index, lone, question):
    """Whoever may ask may send what servers say to each other: kernels never see what is not legal."""
    server, asker = lone
    body = pack_question(question, server.serving.now.name, 10.0)
    status, _, said = asker.raw("/partial", "POST", body)
    assert status in (400, 413), said
    assert json.loads(said)["detail"]
    assert asker.get("/knn", lon=1, lat=2, k=1)["hits"]


@pytest.mark.parametrize("numbers", [(-1,), (10**6,), (0, 1, 127)])
def test_partitions_that_are_not_held_are_said_to_be_held_by_others(index, lone, numbers):
    """Whatever number is asked for; what is held is named."""
    server, asker = lone
    asked = ShareQuestion(BY_SHARES, Search(np.array([[1.0, 1.0]]), np.array([1.0]), 3), numbers)
    status, _, said = asker.raw("/partial", "POST", pack_question(asked, server.serving.now.name, 10.0))
    assert status == 421
    assert json.loads(said)["held"] == list(server.serving.now.share.held)


@pytest.mark.parametrize(
    ("size", "k", "place", "radius"),
    [(64, 65, (1.0, 2.0), 9.0), (10**6, 8, (1.0, 2.0), 9.0), (8, 8, (np.nan, 2.0), 9.0), (8, 0, (1.0, 2.0), 9.0),
     (8, 8, (1.0, 2.0), -1.0), (-1, 8, (1.0, 2.0), 9.0)],
)  # fmt: skip
def test_messages_of_a_turn_are_bounded_too(index, lone, size, k, place, radius):
    """What is not legal has no answer; too many questions have none either."""
    server, asker = lone
    group = packed_group(True, size, None, np.array([place]), np.array([radius]), [k])
    status, _, said = asker.raw("/forward", "POST", packed_bundle(server.serving.now.name, [group]))
    assert status == 200
    assert read_bodies(said) == [None]
    some = rng_places(index, 5_000)  # a long body, which comes in pieces
    group = packed_group(True, 8, None, some, np.full(len(some), np.inf), [8] * len(some))
    status, _, said = asker.raw("/forward", "POST", packed_bundle(server.serving.now.name, [group]))
    assert status == 200
    assert sum(body is not None for body in read_bodies(said)) > 1_000
    many = packed_group(True, 8, None, np.ones((10_001, 2)), np.ones(10_001), [8] * 10_001)
    assert asker.raw("/forward", "POST", packed_bundle(server.serving.now.name, [many]))[0] == 413


def rng_places(index, count):
    """Places near objects of all partitions."""
    near = np.concatenate([part.positions[: part.owned_objects] for part in index.parts.all()])
    return near[np.random.default_rng(1).integers(0, len(near), count)]


@pytest.fixture(scope="module")
def lone(index):
    """One of two servers, and a connection to it."""
    placement = dealt(index, 2, "contiguous", np.random.default_rng(9))
    with several(index, placement, 2) as (first, _), Asker(first) as asker:
        yield first, asker


def test_who_holds_what_is_forgotten_with_the_snapshot(index):
    """Nothing of an old snapshot is kept: shares of other snapshots that hold the same are asked alike."""
    circle = PeerGroup(
        9, read_peers_of(3), Placement(index.partitioning.digest, ((0,),) * len(index.parts)), None, print
    )
    shares = [served_of(index, held=[1, 2]).share for _ in range(3)]
    found = [circle.server_of(share) for share in shares]
    assert found[0] is found[2]
    known = weakref.ref(shares[0])
    del shares, found
    gc.collect()
    assert known() is None


def test_health_opens_after_failures_and_probes_once_a_second():
    """Five within ten seconds; answers close it."""
    now = [100.0]
    health = Health(lambda: now[0])
    for _ in range(FAILURES_IN_TEN_SECONDS - 1):
        assert not health.failed()
        now[0] += 3.0
    assert not health.failed()  # they are too far apart
    assert health.may_be_asked()
    for number in range(FAILURES_IN_TEN_SECONDS):
        opened = health.failed()
        assert opened == (number == FAILURES_IN_TEN_SECONDS - 2) or health.open
        now[0] += 0.1
    assert not health.may_be_asked()
    now[0] += PROBE_SECONDS
    assert health.probes()
    assert not health.probes()
    health.answered(0.01)
    assert health.may_be_asked()


def test_plans_and_peers_that_do_not_fit_are_refused(tmp_path, index):
    """Both hashes are named, and what is missing."""
    placement = Placement("0123456789abcdef", ((0,), (1,)))
    path = tmp_path / "plan.json"
    write_plan(path, placement)
    with pytest.raises(InputError, match=r"0123456789abcdef.*fedcba9876543210"):
        read_placement(str(path), "fedcba9876543210", 2)
    with pytest.raises(InputError, match="partition 2 to no server"):
        read_placement(str(path), placement.pivots_hash, 3)
    assert read_placement(str(path), placement.pivots_hash, 2) == placement
    path.write_text("[]")
    with pytest.raises(InputError, match="no plan"):
        read_placement(str(path), placement.pivots_hash, 2)
    peers = tmp_path / "peers.toml"
    for text, said in (
        ("", "names no server"), ("a = 1", "'a' is no number"), ('0 = "ftp://x"', "server 0"), ("0 = ", "Invalid"),
        ('token = ""\n0 = "http://x"', "token"),
    ):  # fmt: skip
        peers.write_text(text)
        with pytest.raises(InputError, match=said):
            read_peers(str(peers))
    with pytest.raises(InputError, match="No such file"):
        read_peers(str(tmp_path / "none"))
    peers.write_text('token = "secret"\n0 = "http://10.0.0.1:8080"\n7 = "https://seven"')
    found = read_peers(str(peers))
    assert found.token == "secret"
    assert str(found.addresses[7]) == "https://seven"


def test_the_token_of_servers_may_stand_in_a_file_of_its_own(tmp_path):
    """Such as a secret that is mounted; a path is of the folder of the peers' file."""
    peers = tmp_path / "peers.toml"
    url = '0 = "http://10.0.0.1:8080"\n'
    (tmp_path / "peer").write_text("secret\n")
    for path in ("peer", tmp_path / "peer"):
        peers.write_text(f'token_file = "{path}"\n{url}')
        assert read_peers(str(peers)).token == "secret"
    for text, said in (
        ('token_file = "none"\n', "token_file none: No such file"), ("token_file = 1\n", "path of a file is wanted"),
        ('token_file = "peer"\ntoken = "a"\n', "no token beside it"),
    ):  # fmt: skip
        peers.write_text(text + url)
        with pytest.raises(InputError, match=said):
            read_peers(str(peers))
    (tmp_path / "peer").write_text("\n")
    peers.write_text(f'token_file = "peer"\n{url}')
    with pytest.raises(InputError, match="the token is no line"):
        read_peers(str(peers))


def test_partitions_fall_to_many_where_a_server_is_away(index):
    """By rendezvous: all servers know the same order."""
    placement = Placement(index.partitioning.digest, ((0, 1, 2, 3, 4),) * len(index.parts))
    peers = read_peers_of(5)
    share = served_of(index, held=[]).share
    circle = PeerGroup(9, peers, placement, None, lambda *_, **__: None)
    before = circle.server_of(share)
    after = circle.server_of(share, frozenset((2,)))
    assert np.array_equal(before[before != 2], after[before != 2])
    assert len(set(after[before == 2].tolist())) == 4
    assert min(np.bincount(before, minlength=5)) > len(before) // 10


def read_peers_of(count):
    """Peers on ports where nobody listens."""
    from dtoss.client.endpoint import Peers, address_of

    return Peers({number: address_of(f"http://127.0.0.1:{number + 1}") for number in range(count)})


def test_a_click_on_the_map_of_a_share_is_answered_from_all(index):
    """As one server does; with a condition it is said that it is not."""
    placement = dealt(index, 2, "random", np.random.default_rng(8))
    with (
        running(index) as alone,
        several(index, placement, 2) as (first, _),
        Asker(alone) as whole,
        Asker(first) as one,
    ):
        for x, y in places_of(index, range(len(index.parts)), 12):
            path = f"/map/nearest?lon={x}&lat={y}&k=5"
            assert one.raw(path)[2] == whole.raw(path)[2]
            body = json.dumps({"circle": [x, y], "radius": 50_000})
            wanted = whole.raw("/map/within", "POST", body, Content_Type="application/json")[2]
            assert one.raw("/map/within", "POST", body, Content_Type="application/json")[2] == wanted
        for number in (3, 77, 1_999):
            assert one.raw(f"/map/object/{number}")[2] == whole.raw(f"/map/object/{number}")[2]
        status, _, body = one.raw("/map/nearest?lon=1&lat=2&where=size%20%3E%203")
        assert status == 501
        assert "holds" in json.loads(body)["detail"]


def test_held_is_told_by_readyz(index):
    """Also the time that it takes for another server to hear of it."""
    placement = dealt(index, 2, "contiguous", np.random.default_rng(6))
    with several(index, placement, 2) as (first, second), Asker(first) as asker:
        assert asker.get("/readyz")["held"] == sorted(placement.held_by(0))
        began = time.monotonic()
        until(lambda: first.state.circle.said == {1})
        assert time.monotonic() - began < 5
        assert first.state.circle.held_of[1] == second.state.circle.placement.held_by(1)
