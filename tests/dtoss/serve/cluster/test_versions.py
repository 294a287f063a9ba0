"""Messages between servers have a version: releases beside each other answer together, or say that they cannot."""

from __future__ import annotations

import json

import msgspec
import numpy as np
import orjson
import pyarrow as pa
import pytest

import dtoss
from dtoss.client.endpoint import Peers, address_of
from dtoss.geometry.space import space_of
from dtoss.kinds.kind import Shapes
from dtoss.kinds.shapes import question_of_shapes
from dtoss.queries.covered import polygons_of
from dtoss.serve.cluster.cluster import PeerGroup
from dtoss.serve.cluster.served_plans import read_placement
from dtoss.serve.cluster.wire_messages import (
    UNSAID,
    WIRE_SPOKEN,
    Link,
    Reply,
    Wire,
    in_older_words,
    pack_question,
    read_answer,
    unread,
)
from dtoss.serve.requests.bundles import packed_bundle
from dtoss.shards.merge_answers import PART_STEPS, ShareQuestion
from tests.dtoss.serve.cluster.several import answers_of, dealt, question, several
from tests.dtoss.serve.cluster.test_doors_of_servers import group_of
from tests.dtoss.serve.cluster.test_failures import places_of
from tests.dtoss.serve.cluster.test_together import world
from tests.dtoss.serve.served import Asker, running, served_of, until
from tests.examples import examples
from tests.left_behind import heard, unpack

WIDE = {"type": "Polygon", "coordinates": [[[-60, 38], [60, 38], [60, 44], [0, 50], [-60, 44], [-60, 38]]]}
"""Its arcs leave its straight edges by hundreds of kilometres."""
NEWER = b"2.0"
HELD_APART = Peers({0: address_of("http://127.0.0.1:1"), 1: address_of("http://127.0.0.1:2")}, None)


@pytest.fixture(scope="module")
def older(tmp_path_factory):
    """What an older release left behind, and what it said."""
    folder = unpack(tmp_path_factory.mktemp("older"))
    return folder, *heard(folder)


@pytest.fixture(scope="module")
def receiver(older):
    """A server of this release that holds what the one of the older release held."""
    folder, _, snapshot = older
    index = dtoss.open(str(folder / "store"))
    placement = read_placement(str(folder / "plan.json"), index.partitioning.digest, len(index.parts))
    with running(index, circle=lambda told: PeerGroup(0, HELD_APART, placement, told, told.event)) as server:
        served = served_of(index, snapshot, held=placement.held_by(0))
        server.loop.call_soon_threadsafe(setattr, server.serving, "now", served)
        until(lambda: server.serving.now.name == snapshot)
        with Asker(server) as asker:
            yield asker


def plain(name, data):
    """An answer as it was written, without the words of this release."""
    if name in ("not held", "gone", "no object"):
        return data
    if name == "object":
        body, x, y = msgspec.msgpack.decode(data)
        return json.loads(body), x, y
    if name == "turn":
        lengths, bodies = msgspec.msgpack.decode(data)
        return lengths, bodies
    if name == "homes":
        hits, far, alone = msgspec.msgpack.decode(data)
        return pa.ipc.open_stream(hits).read_all(), far, alone
    return (b"t", pa.ipc.open_stream(data[1:]).read_all()) if data[:1] == b"t" else data


KINDS = (
    "homes", "hits", "numbers", "nearest to", "box", "within", "within, counted", "object", "no object", "not held",
    "gone", "turn",
)  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_messages_of_an_older_release_are_answered_as_it_answered_them(older, receiver, name):
    """Byte for byte, or as the same table: what its servers read is what they wrote themselves."""
    _, said, _ = older
    assert set(said) == set(KINDS)
    one = said[name]
    status, _, answer = receiver.raw(one.route, "POST", one.asked)
    assert status == one.status
    assert plain(name, answer) == plain(name, one.answer)


@pytest.fixture(scope="module")
def index():
    """An index on the sphere."""
    return world("sphere")


class Older(Link):
    """A way to a server as if an older release were there: no version goes over it."""

    def request(self, path, body, asker=b"", given=None):
        """As a link, without the version."""
        lines = super().request(path, body, asker, given).split(b"\r\n")
        return b"\r\n".join(line for line in lines if not line.startswith(b"x-dtoss-wire"))

    async def ask(self, path, body, seconds, asker=b"", given=None):
        """As a link, with what an older server would say."""
        reply = await super().ask(path, body, seconds, asker, given)
        said = orjson.loads(reply.body) if path == "/readyz" else {}
        said.pop("wire", None)
        return Reply(reply.status, orjson.dumps(said) if said else reply.body)


class Newer(Link):
    """A way to a server whose messages have another major version."""

    async def ask(self, path, body, seconds, asker=b"", given=None):
        """As a link, with what a newer server would say."""
        reply = await super().ask(path, body, seconds, asker, given)
        said = orjson.loads(reply.body) if path == "/readyz" else {}
        wire = {"wire": NEWER.decode()} if "wire" in said else {}
        return Reply(reply.status, orjson.dumps(said | wire) if said else reply.body, NEWER)


def spoken_to(asker, server, way):
    """Let a server speak to another one over a way of another kind from now on."""
    circle = asker.state.circle
    link = circle.links[server]
    circle.links[server] = way(link.address, link.token)


@pytest.mark.parametrize("placed", ["random", "copies"])
def test_servers_of_two_releases_answer_as_one(index, placed):
    """Whoever asks the newer one, whatever it is: shapes as well whose edges the older one takes for others."""
    rng = np.random.default_rng(3)
    placement = dealt(index, 3, placed, rng)
    with several(index, placement, 3) as servers, running(index) as alone, Asker(alone) as wanted:
        for server in (1, 2):
            spoken_to(servers[0], server, Older)
        asked = [question(index, rng, "size") for _ in range(examples(200))]
        asked += [("POST", "/within", json.dumps(shape)) for shape in (WIDE, WIDE | {"edges": "spherical"})]
        asked += [("POST", "/within?columns=size,lat&having=distance%20%3C%201", json.dumps(WIDE))]
        asked += [("POST", "/within?count=true&where=size%20%3E%203", json.dumps(WIDE))]
        with Asker(servers[0]) as asker:
            for one in asked:
                found, right = answers_of([asker, wanted], one)
                assert found == right, one
        assert servers[0].state.circle.wires == {1: UNSAID, 2: UNSAID}
        assert not servers[0].heard.not_read
        assert index.count_within(WIDE)[0] not in (0, index.count_within(WIDE, edges="spherical")[0])


def test_who_has_just_become_older_is_asked_again_in_its_words(index):
    """Its answer says its version: nothing that it took otherwise is told."""
    placement = dealt(index, 2, "contiguous", np.random.default_rng(3))
    with several(index, placement, 2) as (here, _), Asker(here) as asker:
        until(lambda: here.state.circle.wires == {1: WIRE_SPOKEN})
        spoken_to(here, 1, Older)
        status, _, body = asker.raw("/within?count=true", "POST", json.dumps(WIDE), Content_Type="application/json")
        assert (status, json.loads(body)["counts"]) == (200, index.count_within(WIDE).tolist())
        assert here.heard.forwards["moved"] >= 1


def test_servers_that_say_a_version_are_asked_in_it(index):
    """Nothing is asked twice, and shapes travel as they came."""
    placement = dealt(index, 2, "contiguous", np.random.default_rng(3))
    with several(index, placement, 2) as (here, _), Asker(here) as asker:
        until(lambda: here.state.circle.wires == {1: WIRE_SPOKEN})
        status, _, body = asker.raw("/within?count=true", "POST", json.dumps(WIDE), Content_Type="application/json")
        assert (status, json.loads(body)["counts"]) == (200, index.count_within(WIDE).tolist())
        assert here.heard.forwards["moved"] == 0
        assert here.state.circle.wires == {1: WIRE_SPOKEN}


def counted(text, partitions):
    """Asks how many objects of some partitions lie within shapes."""
    asked = question_of_shapes(Shapes("within", text), 10_000, True, None, None, ())
    return ShareQuestion(PART_STEPS["shapes"], asked, partitions)


def test_shapes_without_a_version_have_the_edges_that_they_had(index):
    """By the message's version: an older server gets what it would have found itself."""
    placement = dealt(index, 2, "one has none", np.random.default_rng(3))
    with several(index, placement, 2) as (here, _), Asker(here) as asker:
        mine = tuple(sorted(placement.held_by(0)))
        text = json.dumps(WIDE).encode()
        asked = counted(text, mine)
        body = pack_question(asked, here.serving.now.name, 10.0)
        owned = here.serving.now.share.owned(mine)
        assert owned.count_within(WIDE, edges="spherical") != owned.count_within(WIDE)
        for wire, edges in ((None, "spherical"), ("1.0", "spherical"), ("1.7", None)):
            header = {} if wire is None else {"x_dtoss_wire": wire}
            status, headers, said = asker.raw("/partial", "POST", body, **header)
            assert (status, headers["x-dtoss-wire"]) == (200, str(WIRE_SPOKEN))
            assert read_answer(asked, said).tolist() == owned.count_within(WIDE, edges=edges).tolist(), wire


@pytest.mark.parametrize("hot", [True, False])
def test_messages_of_another_major_version_are_refused(index, hot):
    """In a line that names both versions, on both ways; one that is no version as well."""
    placement = dealt(index, 2, "contiguous", np.random.default_rng(3))
    with several(index, placement, 2, cold=() if hot else (0,)) as (here, _), Asker(here) as asker:
        body = packed_bundle(here.serving.now.name, [group_of(np.array([[1.0, 2.0]]))])
        for route in ("/forward", "/partial"):
            for said, why in (("2.0", "upgrade this one"), ("0.9", "upgrade that server")):
                status, _, told = asker.raw(route, "POST", body, x_dtoss_wire=said)
                told = json.loads(told)
                assert (status, told["limit"], told["wire"]) == (501, "wire", str(WIRE_SPOKEN))
                assert f"version {said}, this server reads 1.x and says {WIRE_SPOKEN}: {why}" in told["detail"]
            status, _, told = asker.raw(route, "POST", body, x_dtoss_wire="new")
            assert (status, json.loads(told)["detail"]) == (400, "'new' is no version of messages: 1.1 is one")
        assert asker.raw("/forward", "POST", body, x_dtoss_wire="1.9")[0] == 200


def test_a_server_that_is_not_understood_counts_as_away_where_there_are_copies(index):
    """Nothing fails; the log, the metrics and /readyz say so, until it is understood again."""
    placement = dealt(index, 3, "copies", np.random.default_rng(1))
    places = places_of(index, range(len(index.parts)), 30)
    wanted = index.knn(places, 3)
    with several(index, placement, 3) as servers, Asker(servers[0]) as asker:
        spoken_to(servers[0], 1, Newer)
        for at, (x, y) in enumerate(places):
            for more in ({}, {"columns": "size"}):
                hits = asker.get("/knn", lon=x, lat=y, k=3, **more)["hits"]
                assert [hit["id"] for hit in hits] == wanted.id[3 * at : 3 * at + 3].tolist()
        why = f"its messages have version 2.0, this server reads 1.x and says {WIRE_SPOKEN}: upgrade this one"
        assert asker.get("/readyz")["unread"] == {"1": why}
        assert ("server not read", {"server": 1, "detail": why}) in servers[0].heard.events
        assert servers[0].heard.not_read == 1
        assert 1 not in servers[0].state.circle.server_of(servers[0].serving.now.share)
        assert not servers[0].heard.forwards["failed"]
        spoken_to(servers[0], 1, Link)
        until(lambda: "unread" not in asker.get("/readyz"))
        assert servers[0].heard.not_read == 0
        assert asker.get("/readyz")["wire"] == str(WIRE_SPOKEN)


def test_without_a_copy_the_answer_says_both_versions(index):
    """503, or what the others have."""
    placement = dealt(index, 2, "contiguous", np.random.default_rng(0))
    with several(index, placement, 2) as (here, _), Asker(here) as asker:
        spoken_to(here, 1, Newer)
        x, y = places_of(index, placement.held_by(1), 1)[0]
        status, _, body = asker.raw(f"/knn?lon={x}&lat={y}&k=3&columns=size")
        assert status == 503
        assert "its messages have version 2.0, this server reads 1.x" in json.loads(body)["detail"]
        assert asker.get("/knn", lon=x, lat=y, k=3, partial="ok", columns="size")["missing"]


def test_versions_are_told_apart():
    """By the major part alone."""
    assert unread(WIRE_SPOKEN) is unread(UNSAID) is unread(Wire(1, 99)) is None
    assert unread(Wire(2, 0)) is not None


@pytest.mark.parametrize("ring", [
    [[170, 60], [-170, 60], [-170, 85], [170, 85]], [[0, 80], [120, 80], [-120, 80]], [[5, 5], [6, 5], [5, 6]],
    [[-180, -90], [180, -90], [180, -60], [-180, -60]],
])  # fmt: skip
@pytest.mark.parametrize("edges", ["planar", "spherical"])
def test_boxes_for_an_older_server_hold_the_whole_shape(ring, edges):
    """Over the antimeridian, round a pole, small ones."""
    space = space_of()
    shape = {"type": "Polygon", "coordinates": [ring], "edges": edges}
    try:
        shapes = polygons_of(shape, space)
    except ValueError:
        assert edges == "spherical"
        return
    asked, meant = in_older_words(counted(b"", ()), space, shapes, 1_000_000)
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(20_000, 3))
    at = space.positions(vectors / np.linalg.norm(vectors, axis=1)[:, None])
    index = dtoss.build(np.arange(len(at)), at, partitions=1)
    found = index.box(orjson.loads(asked.asked.shapes.text)["boxes"])
    table = pa.table({
        "query": found.query, "id": found.id, "distance": found.distance,
        "c:lon": at[found.id, 0], "c:lat": at[found.id, 1],
    })  # fmt: skip
    assert meant(table).tolist() == index.count_within(shape, edges=edges).tolist()
