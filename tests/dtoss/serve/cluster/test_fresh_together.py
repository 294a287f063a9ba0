"""Servers of a plan that take generations at different moments, and rows that come to one which does not write."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import dtoss
from dtoss.fresh.generations import publish
from dtoss.fresh.intake import Away, Busy
from dtoss.fresh.standing import merge_rows, standing_of
from dtoss.log.log_reader import log_schema
from dtoss.serve.core.server_settings import Paces
from dtoss.serve.reload.prepare import head_of, prepare
from dtoss.snapshots.store import Store
from tests.dtoss.serve.cluster.several import dealt, several
from tests.dtoss.serve.served import Asker, Doors, Intake, town, turn
from tests.examples import examples

OBJECTS, PARTITIONS = 300, 8
QUICK = Paces(fresh_wait=0.05)
WRITER = 1


@pytest.fixture
def published(tmp_path):
    """A store of generations, and what makes the next one: of ten rows, which move objects anywhere."""
    rng = np.random.default_rng(0)
    rows = {"id": np.arange(OBJECTS), "t": np.zeros(OBJECTS, np.int64)}
    rows |= dict(zip(("lon", "lat"), rng.uniform([-10, 40], [10, 60], (OBJECTS, 2)).round(4).T, strict=True))
    dtoss.build(pa.table(rows), partitions=PARTITIONS).save(tmp_path / "store", time="t")
    store, home = Store(str(tmp_path / "store")), Store(str(tmp_path / "home"))
    schema, held, indexes = log_schema(store.manifest()), [standing_of(store), None], {}

    def step():
        seq = held[0].seq + 10
        ids, places = rng.permutation(OBJECTS)[:10], rng.uniform([-10, 40], [10, 60], (10, 2)).round(4)
        moved = {"id": ids, "lon": places[:, 0], "lat": places[:, 1], "t": np.full(10, seq), "deleted": [False] * 10}
        standing, _ = merge_rows(held[0], pa.table(moved).select(schema.names).cast(schema), seq)
        held[:] = standing, publish(standing, home, held[1], server=WRITER)
        indexes[seq] = standing.index
        return head_of(home)

    step()
    return SimpleNamespace(
        home=home, step=step, indexes=indexes, placed=lambda n, kind: dealt(held[0].index, n, kind, rng)
    )


def take(server, published, head):
    """Let a server answer from a generation."""
    now = server.serving.now
    held = server.state.circle.placement.held_by(server.state.circle.me)
    served, _ = prepare(
        published.home, head, now.conditions.on, verify=False, held=lambda manifest: held, before=now.generation
    )
    server.loop.call_soon_threadsafe(server.serving.replace, served)
    turn(server)


def plan_of(published, servers, kind, **given):
    placement = published.placed(servers, kind)
    given = {"updates": "in", "generations": published.home.path, "verify": False, "paces": QUICK} | given
    return several(published.indexes[10], placement, servers, **given)


@pytest.mark.parametrize(
    ("count", "kind"),
    [
        (2, "random"),
        (5, "copies"),
        (3, "one has none"),
        pytest.param(5, "one has none", marks=pytest.mark.deep("more servers; three of them are always asked")),
    ],
)
def test_an_answer_is_of_the_generation_that_it_names_whoever_has_taken_which(published, count, kind):
    """That of brute force at its number, which goes back on no connection, and is no less than is asked for."""
    rng = np.random.default_rng(count)
    with plan_of(published, count, kind) as servers:
        for server in servers:
            take(server, published, head_of(published.home))
        askers, seen, passed_by, apart = [Asker(server) for server in servers], [10] * count, 0, 0
        for _ in range(examples(120, 30)):
            if rng.random() < 0.4:
                published.step()
            if rng.random() < 0.6:
                take(servers[rng.integers(count)], published, head_of(published.home))
            apart += len({server.serving.now.name for server in servers}) > 1
            at = int(rng.integers(count))
            x, y = rng.uniform([-10, 40], [10, 60]).round(3)
            path = str(rng.choice([f"/knn?lon={x}&lat={y}&k=9", f"/knn?lon={x}&lat={y}&k=9&columns=t"]))
            status, headers, body = askers[at].raw(f"{path}&min_seq={seen[at]}")
            if status == 409:  # one of the two has nothing that the other has
                passed_by += 1
                continue
            assert status == 200, body
            seq = int(headers["dtoss-seq"])
            assert seq >= seen[at]
            seen[at] = seq
            found = published.indexes[seq].knn([x, y], 9)
            said = [(hit["id"], hit["distance"]) for hit in json.loads(body)["hits"]]
            assert said == list(zip(found.id.tolist(), found.distance.tolist(), strict=True))
        for asker in askers:
            asker.connection.close()
        assert apart > 5
        assert passed_by < 20


def test_an_answer_is_of_one_generation_while_all_servers_swap(published):
    """In the same instants as it is asked and answered: that of brute force at the number that it names, or none."""
    rng, ended = np.random.default_rng(7), threading.Event()
    with plan_of(published, 3, "contiguous") as servers:
        for server in servers:
            take(server, published, head_of(published.home))

        def swap():
            while not ended.is_set():
                head = published.step()
                for server in servers:
                    take(server, published, head)

        swapping = threading.Thread(target=swap)
        swapping.start()
        try:
            with Asker(servers[0]) as asker:
                seen, answered = [10], 0
                while answered < examples(400, 60) or len({*seen}) < 6:
                    x, y = rng.uniform([-10, 40], [10, 60]).round(3)
                    status, headers, body = asker.raw(f"/knn?lon={x}&lat={y}&k=9&columns=t")
                    assert status in (200, 409), body
                    if status == 200:
                        answered += 1
                        seen.append(int(headers["dtoss-seq"]))
                        found = published.indexes[seen[-1]].knn([x, y], 9)
                        said = [(hit["id"], hit["distance"]) for hit in json.loads(body)["hits"]]
                        assert said == list(zip(found.id.tolist(), found.distance.tolist(), strict=True))
        finally:
            ended.set()
            swapping.join()
        assert seen == sorted(seen)


def generation(server, name, seq):
    """What a server has, as the generation of a sequence number that is in no store."""
    served = replace(server.serving.now, name=f"20270101T00000{name}.000000Z")
    return replace(served, facts={**served.facts, "fresh": {"commit": 1, "seq": seq, "server": WRITER}})


def become(server, *served):
    for one in served:
        server.loop.call_soon_threadsafe(server.serving.replace, one)
    turn(server)


@pytest.mark.parametrize(("before", "status"), [(5, 200), (4, 409)])
def test_no_answer_is_of_a_generation_before_that_of_the_server_that_was_asked(published, before, status):
    """Where another server has only one before, of fewer rows, it is not told; one of as many rows is as good."""
    with plan_of(published, 2, "contiguous") as (first, second), Asker(first) as asker:
        old, new = generation(first, 1, before), generation(first, 2, 5)
        become(first, old, new)
        become(second, generation(second, 1, before))
        x, y = published.indexes[10].parts[PARTITIONS - 1].positions[0].tolist()
        found, headers, _ = asker.raw(f"/knn?lon={x}&lat={y}&k=2&columns=t")
        assert found == status
        if status == 200:
            assert (headers["x-dtoss-snapshot"], headers["dtoss-seq"]) == (old.name, "5")


def test_a_server_that_is_behind_answers_once_it_has_what_the_other_has(published):
    with plan_of(published, 2, "contiguous") as (first, second), Asker(first) as asker:
        become(first, generation(first, 1, 4))
        become(second, generation(second, 3, 6))
        later = threading.Timer(0.1, become, (first, generation(first, 3, 6)))
        later.start()
        x, y = published.indexes[10].parts[PARTITIONS - 1].positions[0].tolist()
        status, headers, _ = asker.raw(f"/knn?lon={x}&lat={y}&k=2&columns=t")
        assert (status, headers["dtoss-seq"]) == (200, "6")
        later.join()


# -- rows -----------------------------------------------------------------------------------------------------------

ROW = {"id": 7, "lon": 10.5, "lat": 50, "t": "2026-01-01T12:00:00Z", "seen": "2026-01-01T11:00:00Z"}
ROW |= {"speed": 3, "share": 0.5, "name": "é", "free": True}
LINES = "application/x-ndjson"


@pytest.fixture(scope="module")
def index():
    return town(objects=50)


@pytest.fixture
def writing(index):
    """Two servers of which the second writes, and an asker of the first; a token is wanted."""
    placement = dealt(index, 2, "contiguous", np.random.default_rng(0))
    given = {"doors": Doors("secret"), "token": "secret", "allow_positions": True, "updates": "in"}
    with several(index, placement, 2, intake=Intake(), **given) as servers:
        for server in servers:
            object.__setattr__(server.state, "intake", Intake())
            become(server, generation(server, 1, 4))
        with Asker(servers[0], authorization="Bearer secret", content_type=LINES) as asker:
            yield *servers, asker


def tell(asker, rows=(ROW,), **headers):
    status, said, body = asker.raw("/positions", "POST", "\n".join(map(json.dumps, rows)), **headers)
    return status, said, json.loads(body)


def test_rows_are_passed_on_to_the_server_that_writes(writing):
    """Whose answer it is, of good rows and bad; rows that were passed on once are not passed on again.

    Who asks too often is counted where rows are taken, and not where they are passed on.
    """
    first, second, asker = writing
    bad = {**ROW, "lon": 500}
    status, headers, said = tell(asker, [ROW, bad], x_request_id="mine")
    assert (status, said["taken"], said["seq"], said["bad"]) == (200, 1, 1, 1)
    assert (headers["dtoss-seq"], headers["x-request-id"]) == ("4", "mine")
    with Asker(second, authorization="Bearer secret", content_type=LINES) as other:
        for rows, kind in (([bad], LINES), ([ROW], "text/html"), ([], LINES)):
            answers = [tell(one, rows, content_type=kind, x_request_id="a") for one in (asker, other)]
            assert answers[0][::2] == answers[1][::2]
            assert answers[0][0] >= 400
    assert tell(asker, x_dtoss_passed="1")[2]["seq"] == 1
    assert [len(server.state.intake.rows) for server in (first, second)] == [1, 1]
    assert first.state.doors.given_back == 3  # what is not even read is counted there


@pytest.mark.parametrize(("refusal", "status"), [(Busy("too many"), 429), (Away("begun anew"), 503)])
def test_rows_that_the_writer_does_not_take_are_to_be_sent_again(writing, refusal, status):
    _, second, asker = writing
    second.state.intake.refuses.append(refusal)
    found, headers, said = tell(asker)
    assert (found, headers["retry-after"], said["detail"]) == (status, "1", str(refusal))
    assert tell(asker)[0] == 200


def test_while_the_writer_is_away_rows_are_to_be_sent_again(writing):
    """No server takes them in its place but the one that the next generation names."""
    first, second, asker = writing
    link = first.state.circle.links[WRITER]
    first.loop.call_soon_threadsafe(link.close)
    first.loop.call_soon_threadsafe(setattr, link, "address", replace(link.address, port=1))
    status, headers, said = tell(asker)
    assert (status, headers["retry-after"]) == (503, "1")
    assert "server 1, which writes the log, does not answer" in said["detail"]
    later = generation(first, 2, 4)
    later.facts["fresh"]["server"] = 0
    become(first, later)
    assert tell(asker)[2]["seq"] == 1
    assert [len(server.state.intake.rows) for server in (first, second)] == [1, 0]


def test_a_token_that_tells_nothing_is_refused_where_it_comes(writing):
    first, second, asker = writing
    first.state.doors.writes = False
    assert tell(asker)[0] == 403
    first.state.doors.writes, second.state.doors.writes = True, False
    assert tell(asker)[0] == 403
    assert asker.raw("/positions", "POST", json.dumps(ROW), authorization="Bearer other")[0] == 401
