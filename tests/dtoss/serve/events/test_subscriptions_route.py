"""Subscriptions over HTTP: the same checks and reasons as files, all or nothing, by tokens that may write."""

from __future__ import annotations

import json
import threading
from urllib.parse import quote

import pytest

from dtoss.commits import table as commits_table
from dtoss.serve.auth.admission import Doors as TokenDoors
from dtoss.serve.core.pool import WorkStopped
from dtoss.serve.core.server_settings import Limits, Sizes
from dtoss.serve.requests import served_watch
from dtoss.serve.routes import subscriptions
from dtoss.watch.subscriptions.changes import subscribe
from dtoss.watch.subscriptions.current import change_number, table_at
from dtoss.watch.subscriptions.subscription_files import read_files
from dtoss.watch.subscriptions.subscription_text import write_rows
from dtoss.watch.watch_folder import CHANGES, Home
from tests.dtoss.serve.events.listening import WAIT, Watch, stream
from tests.dtoss.serve.served import Asker, running, town

ROWS = [
    {"id": "a", "circle": [0, 0, 3000], "events": ["enter", "leave"], "meta": {"street": "Ä"}},
    {"id": 7, "box": [1, 2, 3, 4], "where": "occupied = 0"},
    {"id": "é/ü %", "polygon": {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [0, 1], [0, 0]]]}},
]


def lines(rows):
    return "\n".join(json.dumps(row) for row in rows).encode()


def collection(rows):
    feature = {"type": "Feature", "id": "f", "geometry": {"type": "Point", "coordinates": [1, 2]}}
    features = [{**feature, "properties": {"radius": 5}}]
    features += [{"type": "Feature", "geometry": None, "properties": row} for row in rows]
    return json.dumps({"type": "FeatureCollection", "features": features}).encode()


@pytest.fixture(scope="module")
def index():
    return town(objects=300)


@pytest.fixture
def server(index, tmp_path):
    with running(index, store=str(tmp_path / "store"), allow_subscribe=True) as found:
        yield found


def stands(server):
    home = server.state.home
    return write_rows(table_at(home, change_number(home)))


def post(asker, body, **headers):
    status, _, answer = asker.raw("/subscriptions", "POST", body, **headers)
    return status, json.loads(answer)


@pytest.mark.parametrize("form", [lines, lambda rows: json.dumps(rows, indent=1).encode(), collection])
def test_a_body_is_what_a_file_is(server, tmp_path, form):
    body = form(ROWS)
    file = tmp_path / "asked.json"
    file.write_bytes(body)
    other = Home(str(tmp_path / "other"))
    subscribe(other, read_files([str(file)]).table)
    wanted = write_rows(table_at(other, 1))
    with Asker(server) as asker:
        status, told = post(asker, body, content_type="text/plain")
        counts = {"added": len(wanted), "changed": 0, "removed": 0, "same": 0}
        assert (status, told) == (200, {"snapshot": told["snapshot"], "watch": "default", "change": 1, **counts})
        assert stands(server) == wanted
        # again: nothing changes, so that a body may be sent twice
        status, told = post(asker, body)
        assert (status, told["change"], told["added"], told["same"]) == (200, 1, 0, len(wanted))
        status, told = post(asker, lines([{"id": 7, "circle": [0, 0, 1]}, {"id": 8}]))
        assert (told["change"], told["added"], told["changed"]) == (2, 1, 1)
    assert server.heard.changes == {"added": len(wanted) + 1, "changed": 1, "removed": 0}
    assert [facts["change"] for what, facts in server.heard.events if what == "subscriptions changed"] == [1, 1, 2]


def test_bad_rows_are_named_and_nothing_changes(server):
    bad = [
        {"id": "nan", "circle": [0, 0, -1]},
        {"id": "box", "box": [1, 2, 1, 4]},
        {"id": "a", "circle": [0, 0, 1]},
        {"id": "a", "circle": [0, 0, 2]},
        {"circle": [0, 0, 1]},
        {"id": "where", "where": "occupied ="},
        {"id": "words", "words": "not x"},
        {"id": "name", "radios": 5},
        {"id": "long", "where": "occupied = 0 or " * 100 + "occupied = 1"},
        5,
    ]
    with Asker(server) as asker:
        status, told = post(asker, lines([*ROWS[1:], *bad]))
        assert (status, told["status"], told["limit"]) == (422, 422, "rows")
        assert told["bad"] == told["value"] == len(bad) - 1 == len(told["rows"])
        assert [one["row"] for one in told["rows"]] == [3, 4, 6, 7, 8, 9, 10, 11, 12]
        assert told["rows"][1]["id"] == "box"
        assert all(one["reason"] and "\n" not in one["reason"] for one in told["rows"])
        assert "stands twice" in told["rows"][2]["reason"]
        assert told["rows"][7]["reason"] == "where has 1,612 characters: at most 1,000 are allowed"
        assert "nothing has changed" in told["detail"]
        assert stands(server) == []
        status, told = post(asker, lines([{"id": i, "circle": 5} for i in range(1_000)]))
        assert (status, told["bad"], len(told["rows"])) == (422, 1_000, 20)
    assert server.heard.refusals == {"rows": 2}
    assert server.heard.failures == 0


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"   \n ", 400),
        (b"hello", 400),
        (b"PAR1" + b"x" * 100, 400),
        (b'{"type": "FeatureCollection"}', 400),
        (b'{"type": "FeatureCollection", "features": 5}', 400),
        (b"[" * 100_000, 422),
        (b'{"id": ' * 50_000, 422),
        (b'{"id": 1, "circle": [0, 0, NaN]}', 422),
        (b'{"id": 1, "circle": [0, 0, 1e999]}', 422),
        (b'{"id": "\\ud800"}', 422),
        (b'{"id": "\xff"}', 422),
        (b'[{"id": 1}, {"id": 1}]', 422),
        (b"[[1], null]", 422),
        (b"[]", 200),
        (b"\xef\xbb\xbf" + b'{"id": 1, "circle": [0, 0, 1]}', 200),
    ],
)
def test_bodies_that_are_none(server, body, status):
    with Asker(server) as asker:
        found, told = post(asker, body)
        assert found == status, told
        if status != 200:
            assert "Traceback" not in told["detail"]
            assert "\n" not in told["detail"]
            assert stands(server) == []


def test_bodies_are_bounded(index, tmp_path):
    """In bytes and in rows; a megabyte goes."""
    limits = Limits(subscribe_bytes=1_500_000, bulk_queries=9_000)
    with running(index, store=str(tmp_path), allow_subscribe=True, limits=limits) as server, Asker(server) as asker:
        many = [{"id": i, "circle": [i % 90, i % 80, 100], "meta": {"text": "x" * 60}} for i in range(8_800)]
        body = lines(many)
        assert 1_000_000 < len(body) < 1_500_000
        assert post(asker, body)[1]["added"] == 8_800
        status, told = post(asker, lines([{"id": i} for i in range(9_001)]))
        assert (status, "9,000" in told["detail"]) == (400, True)
        status, told = post(asker, body + b" " * 500_000)
        assert (status, told["limit"], told["bound"]) == (413, "subscribe_bytes", 1_500_000)
        large = {"id": "large", "circle": [0, 0, 1], "meta": "x" * 1_000_000}
        status, told = post(asker, lines([large]))
        assert (status, told["rows"][0]["reason"].startswith("meta has 1,000,002 characters")) == (422, True)
        # names that somebody made up take no memory: of ten thousand columns each would have a cell for each row
        made_up = [{"id": i, **{f"n{i}-{j}": 1 for j in range(10)}} for i in range(6_000)]
        status, told = post(asker, lines(made_up))
        assert (status, told["bad"]) == (422, 6_000)


def test_listed_page_by_page_and_one_by_one(server):
    rows = [{"id": f"é{i:03}" if i % 2 else f"b/{i:03}", "circle": [i, 0, 100.0]} for i in range(25)]
    with Asker(server) as asker:
        post(asker, lines(rows))
        watch = Watch(server.state.settings.store)
        watch.batch()
        found, after = [], None
        while True:
            page = asker.get("/subscriptions", limit=10, after=after)
            assert (page["change"], page["adopted"], page["count"]) == (1, 1, 25)
            found += page["subscriptions"]
            if "next" not in page:
                break
            after = page["next"]
        assert [row["id"] for row in found] == sorted((row["id"] for row in rows), key=str.encode)
        events = [json.loads(line)["kind"] for line in watch.told(subscription="b/000")]
        assert events
        for row in found:
            status, _, body = asker.raw("/subscriptions/" + quote(row["id"], safe=""))
            one = json.loads(body)
            assert one.pop("snapshot") == page["snapshot"]
            assert (status, one) == (200, row)
        assert found[0]["counts"] == {kind: events.count(kind) for kind in set(events)}
        assert found[0]["circle"] == [0.0, 0.0, 100.0]
        assert asker.raw("/subscriptions/no")[0] == 404
        for limit in (0, 10_001):
            assert asker.raw(f"/subscriptions?limit={limit}")[0] == 400
        assert asker.get("/subscriptions", after="zzzz é")["subscriptions"] == found[13:]


def test_pages_of_large_polygons_are_short(index, tmp_path):
    ring = [[x / 100, 0.0] for x in range(200)] + [[1.0, 1.0], [0.0, 0.0]]
    rows = [{"id": i, "polygon": {"type": "Polygon", "coordinates": [ring]}} for i in range(12)]
    sizes = Sizes(subscriptions_page=10_000)
    with running(index, store=str(tmp_path), allow_subscribe=True, sizes=sizes) as server, Asker(server) as asker:
        assert post(asker, lines(rows))[0] == 200
        found, after, pages = [], None, 0
        while pages == 0 or after:
            page = asker.get("/subscriptions", after=after)
            found, after, pages = found + page["subscriptions"], page.get("next"), pages + 1
        assert sorted(int(row["id"]) for row in found) == list(range(12))
        assert pages >= 2


def test_removed(server):
    with Asker(server) as asker:
        slashes = ("/x", "x/", "a//b", "..", "a/../b", "?", "%2F", "+")
        post(asker, lines([*ROWS, *({"id": name, "circle": [0, 0, 1]} for name in slashes)]))
        for name in ("7", "é/ü %", *slashes):
            target = "/subscriptions/" + quote(name, safe="")
            status, _, body = asker.raw(target)
            assert (status, json.loads(body)["id"]) == (200, name)
            status, _, body = asker.raw(target, "DELETE")
            assert (status, json.loads(body)["removed"]) == (200, 1)
            status, _, body = asker.raw(target, "DELETE")
            assert status == 404
            assert asker.raw(target)[0] == 404
        assert [row["id"] for row in stands(server)] == ["a"]
        status, headers, _ = asker.raw("/subscriptions", "PUT")
        assert (status, headers["allow"]) == (405, "GET, OPTIONS, POST")
        assert asker.raw("/subscriptions", "DELETE")[0] == 405
    assert server.heard.changes["removed"] == 2 + len(slashes)


def test_who_may_write(index, tmp_path):
    """The server has to allow it and the token has to be marked; else 403 says which of them is missing."""
    file = tmp_path / "tokens"
    file.write_text("reader read-me\nwriter write-me write\n")
    body = lines(ROWS)
    for allowed in (False, True):
        doors = TokenDoors(str(file), rate=1_000.0)
        store = str(tmp_path / "store")
        with running(index, store=store, doors=doors, allow_subscribe=allowed) as server, Asker(server) as asker:
            for method, target in (("POST", "/subscriptions"), ("DELETE", "/subscriptions/a")):
                assert asker.raw(target, method, body)[0] == 401
                for token in ("read-me", "write-me"):
                    good = allowed and token == "write-me"
                    status, _, answer = asker.raw(target, method, body, authorization=f"Bearer {token}")
                    told = json.loads(answer)
                    assert status == (200 if good else 403), told
                    if not good:
                        assert told["limit"] == "write"
                        assert ("--allow-subscribe" in told["detail"]) == (not allowed)
                        assert ("the token may only read" in told["detail"]) == allowed
                        assert token not in told["detail"]
            assert asker.raw("/subscriptions", authorization="Bearer read-me")[0] == 200
        assert server.heard.refusals == {"rights": 2 if allowed else 4}
    changed = [facts for what, facts in server.heard.events if what == "subscriptions changed"]
    assert [facts["token"] for facts in changed] == ["writer", "writer"]


def test_two_servers_and_a_command_change_at_once(index, tmp_path, monkeypatch):
    """Each change is one; nothing is lost, and a stream tells what they ask for."""
    monkeypatch.setattr(commits_table, "COMMIT_TRIES", 4 * 8)  # however often the others are faster
    watch = Watch(tmp_path).begin()
    watch.batch()
    failed = []

    def ask(server, who):
        with Asker(server) as asker:
            for i in range(8):
                status, told = post(asker, lines([{"id": f"{who}-{i}", "circle": [0, 0, 2000], "events": ["inside"]}]))
                if status != 200 or told["added"] != 1:
                    failed.append(told)

    def command():
        for i in range(8):
            subscribe(Home(str(tmp_path)), read_files([str(file)]).table if i == 0 else watched(i))

    def watched(i):
        other = tmp_path / f"c{i}.jsonl"
        other.write_bytes(lines([{"id": f"c-{i}", "circle": [0, 0, 2000]}]))
        return read_files([str(other)]).table

    file = tmp_path / "c0.jsonl"
    file.write_bytes(lines([{"id": "c-0", "circle": [0, 0, 2000]}]))
    with (
        running(index, store=str(tmp_path), allow_subscribe=True) as one,
        running(index, store=str(tmp_path), allow_subscribe=True) as two,
    ):
        threads = [threading.Thread(target=ask, args=(s, w)) for s, w in ((one, "x"), (two, "y"), (one, "z"))]
        threads.append(threading.Thread(target=command))
        with stream(two, "/events?subscription=x-3&subscription=c-5&kind=inside") as heard:
            heard.block()
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            assert failed == []
            names = {row["id"] for row in stands(one)}
            assert names >= {f"{who}-{i}" for who in "xyzc" for i in range(8)}
            watch.batch()
            watch.batch()
            found = {json.loads(line)["subscription"] for _, line in heard.events(12)}
            assert found == {"x-3", "c-5"}
        assert change_number(one.state.home) == 1 + 4 * 8


def test_one_that_took_too_long_changes_nothing(index, tmp_path, monkeypatch):
    """Whoever is told 503 has not subscribed."""
    done, ended = threading.Event(), []
    known, added = served_watch.known_of, subscriptions.add_subscriptions

    def slow(home):
        assert done.wait(WAIT)
        return known(home)

    def noted(*given):
        try:
            return added(*given)
        except WorkStopped as stopped:
            ended.append(stopped)
            raise

    monkeypatch.setattr(served_watch, "known_of", slow)
    monkeypatch.setattr(subscriptions, "add_subscriptions", noted)
    limits = Limits(pool_seconds=0.2)
    with running(index, store=str(tmp_path), allow_subscribe=True, limits=limits) as server, Asker(server) as asker:
        status, told = post(asker, lines(ROWS))
        assert (status, told["limit"]) == (503, "pool_seconds")
        assert ended == []
        done.set()
        server.state.pool._executor.shutdown()  # once the thread has ended
        assert len(ended) == 1
        assert change_number(server.state.home) == 0


def test_damage_is_told_to_the_log(server):
    """503 that names no file, a line of the log that does, and a count."""
    with Asker(server) as asker:
        assert post(asker, lines(ROWS))[0] == 200
        home = server.state.home
        name = home.changes.read(1).document["file"]
        with open(home.asked.path(CHANGES, name), "r+b") as opened:  # noqa: PTH123
            opened.seek(20)
            opened.write(b"\xff\xff\xff")
        for target, method in (("/subscriptions", "GET"), ("/subscriptions/a", "GET"), ("/subscriptions/a", "DELETE")):
            status, _, body = asker.raw(target, method)
            assert (status, name in body.decode()) == (503, False)
        assert post(asker, lines([{"id": "a"}]))[0] == 503
        assert server.heard.failures == 4
        assert all(name in facts["detail"] for what, facts in server.heard.events if what == "watch not read")
