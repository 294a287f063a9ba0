"""Events over HTTP: each once and in order, as files have them, whoever connects and whatever happens to the files."""

from __future__ import annotations

import json
import shutil
import socket
import threading
from contextlib import ExitStack

import numpy as np
import pyarrow as pa
import pytest

from dtoss.serve.core.server_settings import PACES, Limits, Paces, Sizes
from dtoss.serve.events import event_reader, tail
from dtoss.serve.events.event_reader import pieces_of
from dtoss.watch.events.event_compaction import fold_events, retain
from dtoss.watch.events.event_lines import line_column
from dtoss.watch.events.event_log import events as told_tables
from dtoss.watch.events.readers import END_OF_BATCH, Cursor
from dtoss.watch.events.watch_document import head_of
from dtoss.watch.watch_folder import EVENTS
from tests.dtoss.serve import served
from tests.dtoss.serve.events.listening import WAIT, Watch, ids_of, order, stream, with_ids
from tests.dtoss.serve.served import Asker, Doors, town, until
from tests.dtoss.watch.streams import NOW, change, circle

HOUR = 3_600_000_000


@pytest.fixture(scope="module")
def index():
    return town(objects=300)


def running(index, *, paces=None, **given):
    """A worker whose looks are a twentieth of a second apart."""
    return served.running(index, paces=(paces or PACES)._replace(tail=0.05), **given)


def test_a_stream_begins_with_what_is_committed_from_now_on(index, tmp_path):
    """And says at once where it stands, so that whoever is cut off before the first event misses none."""
    watch = Watch(tmp_path).begin()
    watch.batch()
    with running(index, store=str(tmp_path)) as server, stream(server) as found:
        assert found.response.status == 200
        assert found.response.headers["content-type"] == "text/event-stream"
        assert found.response.headers["cache-control"] == "no-store"
        assert found.block() == {"retry": "2000", "id": "1-end"}
        watch.batch()
        watch.batch()
        wanted = with_ids(watch.told())
        new = [one for one in wanted if not one[0].startswith("1-")]
        assert found.events(len(new)) == new
        with stream(server, last="1-end") as again:
            assert again.events(len(new)) == new
    assert server.heard.open_streams == 0
    assert server.heard.events_sent == 2 * len(new)
    assert ("/events", 200) in server.heard.answers
    assert not [told for told in server.heard.requests if told["route"] == "/events"]


def test_all_that_is_left_then_what_comes(index, tmp_path):
    """Lines are those that dtoss events prints; a header comes before the parameter."""
    watch = Watch(tmp_path).begin()
    for _ in range(3):
        watch.batch()
    with running(index, store=str(tmp_path)) as server:
        wanted = with_ids(watch.told())
        with stream(server, "/events?after=beginning") as found:
            assert found.events(len(wanted)) == wanted
            watch.batch()
            more = with_ids(watch.told())[len(wanted) :]
            assert found.events(len(more)) == more
        middle = wanted[len(wanted) // 2][0]
        rest = [one for one in wanted + more if order([one[0]]) > order([middle])]
        for target, last in ((f"/events?after={middle}", None), ("/events?after=beginning", middle)):
            with stream(server, target, last) as found:
                assert found.events(len(rest)) == rest
        with stream(server, "/events?after=0") as found:
            assert found.events(3) == wanted[:3]


def test_filters(index, tmp_path):
    watch = Watch(tmp_path).begin()
    for _ in range(4):
        watch.batch()
    lines = [json.loads(line) for line in watch.told()]
    targets = {
        "subscription=a": lambda one: one["subscription"] == "a",
        "subscription=a&subscription=b%20%22%C3%BC%22": lambda one: True,
        "subscription=no&subscription=a&kind=leave": lambda one: one["subscription"] == "a" and one["kind"] == "leave",
        "kind=enter&kind=inside": lambda one: one["kind"] in ("enter", "inside"),
    }
    with running(index, store=str(tmp_path)) as server, Asker(server) as asker:
        for query, holds in targets.items():
            wanted = [one["id"] for one in lines if holds(one)]
            with (
                stream(server, f"/events?after=beginning&{query}") as found,
                stream(server, f"/events?{query}") as other,
            ):
                assert [one for one, _ in found.events(len(wanted))] == wanted
                other.block()
                for _ in range(2):
                    watch.batch()
                lines = [json.loads(line) for line in watch.told()]
                new = [one["id"] for one in lines if holds(one)][len(wanted) :]
                assert new
                assert [one for one, _ in found.events(len(new))] == new
                assert [one for one, _ in other.events(len(new))] == new
            status, _, body = asker.raw(f"/events?after=beginning&limit=10000&{query}")
            assert status == 200
            assert [one["id"] for one in json.loads(body)["events"]] == wanted + new
        assert asker.raw("/events?kind=came&limit=1")[0] == 400


def test_pages(index, tmp_path):
    """All pages together are all events; the last is empty and says where to go on."""
    watch = Watch(tmp_path).begin()
    for _ in range(4):
        watch.batch()
    lines = watch.told()
    with running(index, store=str(tmp_path)) as server, Asker(server) as asker:
        for limit in (1, 3, len(lines), 10_000):
            found, after = [], "beginning"
            while True:
                page = asker.get("/events", after=after, limit=limit)
                assert page["watch"] == "default"
                assert len(page["events"]) <= limit
                assert page["more"] or not page["events"] or limit > len(lines)
                after = page["next"]
                if not page["events"]:
                    break
                found += page["events"]
            assert found == [json.loads(line) for line in lines]
            assert after == "4-end"
        assert asker.get("/events", limit=5) == {**page, "events": [], "next": "4-end"}
        for limit in (0, 10_001, "x"):
            assert asker.raw(f"/events?limit={limit}")[0] == 400


def test_a_page_of_rare_events_ends_in_time(index, tmp_path):
    """With those that were found until then, or none, and where to go on: else nobody would ever have it."""
    watch = Watch(tmp_path).begin([circle("a", 0.0, 0.0, 3000.0), circle("rare", 0.007, 0.0, 50.0)])
    for rows in (6, 6, 9, 9):
        watch.batch(rows=rows)
    wanted = [json.loads(line) for line in watch.told(subscription="rare")]
    assert wanted
    with running(index, store=str(tmp_path), paces=Paces(page=0.0)) as server, Asker(server) as asker:
        found, after, pages = [], "beginning", []
        while not pages or pages[-1]["more"]:
            pages.append(asker.get("/events", after=after, limit=1_000, subscription="rare"))
            found, after = found + pages[-1]["events"], pages[-1]["next"]
        assert found == wanted
        assert after == "4-end"
        assert [] in [page["events"] for page in pages[:-1]]


def test_a_piece_has_no_more_of_a_dictionary_than_it_needs(index, tmp_path):
    """Text is made of all that a dictionary holds: of one of a whole file it would be made for each piece."""
    many = pa.array([f"s{i:04}" for i in range(3_000)])
    watch = Watch(tmp_path).begin()
    watch.batch(rows=9)
    (table,) = told_tables(watch.home)
    rows = table.take(pa.array(np.resize(np.arange(len(table)), 3_000)))
    at = rows.schema.get_field_index("subscription")
    codes = pa.DictionaryArray.from_arrays(pa.array(np.arange(3_000)[::-1], pa.int32()), many)
    rows = rows.set_column(at, "subscription", codes)
    settings = head_of(watch.home).settings
    made = list(pieces_of(rows, 20_000))
    assert len(made) > 10
    for piece in made:
        dictionaries = [c.dictionary for column in piece.columns for c in column.chunks if hasattr(c, "dictionary")]
        assert sum(map(len, dictionaries)) < 4 * len(piece)
    lines = [line for piece in made for line in line_column(piece, settings).to_pylist()]
    assert lines == line_column(rows, settings).to_pylist()


def test_pages_and_parts_are_bounded_by_bytes(index, tmp_path):
    watch = Watch(tmp_path).begin([circle("a", 0.0, 0.0, 3000.0, meta=json.dumps("x" * 9_000))])
    for _ in range(6):
        watch.batch(rows=20)
    lines = watch.told()
    sizes = Sizes(events_page=30_000)
    with running(index, store=str(tmp_path), sizes=sizes) as server, Asker(server) as asker:
        page = asker.get("/events", after="beginning", limit=10_000)
        assert 3 <= len(page["events"]) <= 40
        with stream(server, "/events?after=beginning") as found:
            assert found.events(len(lines)) == with_ids(lines)


def test_bad_cursors(index, tmp_path):
    watch = Watch(tmp_path).begin()
    watch.batch()
    with running(index, store=str(tmp_path)) as server, Asker(server) as asker:
        for text in ("x", "1-2-3", "-1", "1-99999999999999999999", "%00", "1" * 90, "2-0", "99"):
            for target, header in ((f"/events?after={text}", {}), ("/events", {"Last_Event_ID": text})):
                if "%" in text and header:
                    continue
                status, headers, body = asker.raw(target, **header)
                told = json.loads(body)
                assert status == told["status"] == 400, (text, body)
                assert headers["content-type"] == "application/problem+json"
                assert "after=beginning" in told["detail"] or "beginning" in told["detail"]
                assert told["limit"] == ("Last-Event-ID" if header else "after")
        assert asker.raw("/events?after=" + "1" * 101)[0] == 400
        assert server.heard.failures == 0


def test_a_store_on_which_no_watch_began(index, tmp_path):
    """Streams wait for its first batch; one that is told of no watch has no such route."""
    watch = Watch(tmp_path)
    with running(index, store=str(tmp_path)) as server, Asker(server) as asker:
        assert asker.get("/events", limit=1)["next"] == "0-end"
        assert asker.get("/subscriptions")["subscriptions"] == []
        with stream(server) as found, stream(server, "/events?after=beginning") as other:
            assert found.block()["id"] == other.block()["id"] == "0-end"
            watch.begin()
            watch.batch()
            wanted = with_ids(watch.told())
            assert found.events(len(wanted)) == other.events(len(wanted)) == wanted
    with running(index, store=str(tmp_path), watch=None) as server, Asker(server) as asker:
        for target in ("/events", "/subscriptions", "/subscriptions/a"):
            assert asker.raw(target)[0] == 404
    with running(index, store=str(tmp_path), watch="other") as server, Asker(server) as asker:
        assert asker.get("/events", limit=1)["watch"] == "other"


def test_a_watch_that_is_folded_and_cleared_while_it_is_streamed(index, tmp_path):
    """Each event once, whether it is read from the file of its batch or from a folded one."""
    watch = Watch(tmp_path).begin()
    with running(index, store=str(tmp_path)) as server, ExitStack() as held:
        found = [held.enter_context(stream(server, "/events?after=beginning")) for _ in range(3)]
        heard = [[] for _ in found]
        for turn in range(12):
            watch.batch()
            if turn % 3 == 2:
                fold_events(watch.home, NOW + 2 * HOUR)
                retain(watch.home, 10**17, NOW + 2 * HOUR, spare_seconds=0.0)
            if turn % 4 == 1:
                found.append(held.enter_context(stream(server, "/events?after=beginning")))
                heard.append([])
        wanted = with_ids(watch.told())
        assert len(wanted) > 60
        for one, events in zip(found, heard, strict=True):
            events += one.events(len(wanted))
            assert events == wanted


def test_a_reader_whom_retention_has_passed(index, tmp_path):
    """410, with the way out; one that is open ends, and hears the same when it connects again."""
    watch = Watch(tmp_path).begin()
    for _ in range(4):
        watch.batch()
    first = ids_of(watch.told())[0]
    fold_events(watch.home, NOW + 2 * HOUR)
    retain(watch.home, 0, NOW + 2 * HOUR)
    gone = str(event_reader.view_of(watch.home).contents.gone)
    with running(index, store=str(tmp_path)) as server, Asker(server) as asker:
        for target in (f"/events?after={first}", f"/events?after={first}&limit=5"):
            status, _, body = asker.raw(target)
            told = json.loads(body)
            assert status == told["status"] == 410
            assert f"after={gone}" in told["detail"]
            assert (told["value"], told["bound"]) == (first, gone)
        watch.batch()
        left = with_ids(watch.told())
        assert left
        for after in ("beginning", gone):
            with stream(server, f"/events?after={after}") as found:
                assert found.events(len(left)) == left


def damage(watch):
    """Change bytes of the events of the newest batch; return the name of their file."""
    name = head_of(watch.home).events[0].name
    with open(watch.home.folder.path(EVENTS, name), "r+b") as opened:  # noqa: PTH123
        opened.seek(30)
        opened.write(b"\xff\xff\xff")
    return name


def test_damage_is_told_and_not_skipped(index, tmp_path):
    """503 where it is met before the answer begins, else the stream ends; nothing behind it is told."""
    watch = Watch(tmp_path).begin()
    for _ in range(3):
        watch.batch()
    good = watch.told()
    watch.batch()
    name = damage(watch)
    watch.batch()
    with running(index, store=str(tmp_path)) as server, Asker(server) as asker:
        for target in ("/events?after=3-end&limit=10", "/events?after=3-end"):
            status, _, body = asker.raw(target)
            assert status == 503
            assert "the server's log says why" in json.loads(body)["detail"]
            assert name not in body.decode()
        assert server.heard.failures == 2
        assert [name in facts["detail"] for what, facts in server.heard.events if what == "watch not read"] == [
            True
        ] * 2
        with stream(server, "/events?after=beginning") as found:
            assert found.events(len(good)) == with_ids(good)
            blocks = list(iter(found.block, None))
            assert ["cannot be read" in block[""] for block in blocks] == [True]
    assert server.heard.open_streams == 0


def test_damage_that_all_streams_meet(index, tmp_path, monkeypatch):
    """The look that is for all of them fails; each tells its client."""
    found, looked = tail.Tail._found, threading.Event()

    def waits(self, seen):
        assert seen is None or looked.wait(WAIT)
        return found(self, seen)

    monkeypatch.setattr(tail.Tail, "_found", waits)
    watch = Watch(tmp_path).begin()
    watch.batch()
    with running(index, store=str(tmp_path)) as server, stream(server) as one, stream(server) as two:
        assert one.block()["id"] == two.block()["id"] == "1-end"
        until(lambda: server.state.tail.head is not None)
        watch.batch()
        name = damage(watch)
        looked.set()
        for each in (one, two):
            blocks = list(iter(each.block, None))
            assert ["cannot be read" in block[""] for block in blocks] == [True]
        assert server.heard.failures == 1
        assert all(name in facts["detail"] for _, facts in server.heard.events)


def test_streams_are_bounded_and_end_with_the_worker(index, tmp_path):
    Watch(tmp_path).begin()
    with running(index, store=str(tmp_path), limits=Limits(event_streams=2)) as server, Asker(server) as asker:
        with stream(server) as one, stream(server) as two:
            one.block()
            two.block()
            status, headers, body = asker.raw("/events")
            told = json.loads(body)
            assert (status, told["limit"], told["bound"]) == (503, "event_streams", 2)
            assert headers["retry-after"]
            assert asker.raw("/events?limit=1")[0] == 200
            server.loop.call_soon_threadsafe(server.state.tail.end)
            assert one.block() is None
            assert two.block() is None
        assert asker.raw("/events")[0] == 503
        until(lambda: server.heard.open_streams == 0)


def test_a_quiet_stream_says_that_it_is_there_and_where_it_stands(index, tmp_path):
    """One whose filter lets nothing through goes on too, so that retention does not pass it; what is newest is held."""
    watch = Watch(tmp_path).begin()
    watch.batch()
    with running(index, store=str(tmp_path), paces=Paces(quiet=0.1)) as server:
        with stream(server, "/events?subscription=no") as found:
            assert found.block()["id"] == "1-end"
            assert found.block() == {"": "nothing new"}
            until(lambda: server.state.tail.head is not None)
            watch.batch()
            while (block := found.block()) == {"": "nothing new"}:
                pass
            assert block == {"id": "2-end"}
            for _ in range(3):
                assert found.block() == {"": "nothing new"}
            assert server.state.tail.part_behind(Cursor(1, END_OF_BATCH)) is not None
        until(lambda: len(server.state.tail) == 0 and server.state.tail.head is None)


def left_files(monkeypatch):
    """Return a list that grows whenever a reader lets go of its files."""
    left, let_go = [], event_reader.Reading.let_go
    monkeypatch.setattr(event_reader.Reading, "let_go", lambda self: left.append(let_go(self)))
    return left


def test_a_slow_client_takes_no_memory_and_is_left(index, tmp_path, monkeypatch):
    """What it has not read is not made yet: of thousands of events a part or two."""
    made = []
    more = event_reader.Reading.more

    def counted(self, stop):
        found = more(self, stop)
        made.append(found[1])
        return found

    let_go = left_files(monkeypatch)
    monkeypatch.setattr(event_reader.Reading, "more", counted)
    watch = Watch(tmp_path).begin([circle("a", 0.0, 0.0, 3000.0, meta=json.dumps("x" * 8_000))])
    for _ in range(12):
        watch.batch(rows=100)
    count = len(watch.told())
    assert count > 1_500
    limits = Limits(idle_seconds=1.0)
    with running(index, store=str(tmp_path), limits=limits, paces=Paces(slow=0.05)) as server:
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            slow.connect(server.at)
            slow.sendall(b"GET /events?after=beginning HTTP/1.1\r\nhost: x\r\n\r\n")
            until(lambda: server.heard.all_streams == 1 and server.heard.open_streams == 0)
        assert sum(made) < count / 2
        assert let_go
        # another reads all meanwhile
        with stream(server, "/events?after=beginning") as found:
            assert len(found.events(count)) == count


@pytest.mark.parametrize("most", [0, 32])
def test_many_who_read_files_hold_nothing_of_them(index, tmp_path, monkeypatch, most):
    """A group of rows is some megabytes: of more readers than may hold one each reads it again, and none misses any."""
    let_go = left_files(monkeypatch)
    watch = Watch(tmp_path).begin()
    for _ in range(3):
        watch.batch(rows=20)
    wanted = with_ids(watch.told())
    with running(index, store=str(tmp_path), sizes=Sizes(event_part=2_000)) as server:
        server.state.tail.most_readers = most
        for _ in range(2):
            with stream(server, "/events?after=beginning") as found:
                assert found.events(len(wanted)) == wanted
        until(lambda: not server.state.tail.readers and server.heard.open_streams == 0)
    assert (len(let_go) > 4) == (most == 0)


def test_many_streams_are_one_look(index, tmp_path, monkeypatch):
    """Two hundred streams read each new batch once between them."""
    looks = []
    read = tail.Tail._read

    def counted(self, *given):
        looks.append(1)
        return read(self, *given)

    monkeypatch.setattr(tail.Tail, "_read", counted)
    monkeypatch.setattr(event_reader.Reading, "more", None)  # nobody reads files by itself
    watch = Watch(tmp_path).begin()
    watch.batch()
    with running(index, store=str(tmp_path)) as server, ExitStack() as held:
        found = [held.enter_context(stream(server)) for _ in range(100)]
        found += [held.enter_context(stream(server, "/events?subscription=a")) for _ in range(100)]
        for one in found:
            assert one.block()["id"] == "1-end"
        until(lambda: server.state.tail.head is not None)
        for _ in range(3):
            watch.batch()
        wanted = [line for line in watch.told() if json.loads(line)["batch"] > 1]
        some = [line for line in wanted if json.loads(line)["subscription"] == "a"]
        for one in found[:100]:
            assert one.events(len(wanted)) == with_ids(wanted)
        for one in found[100:]:
            assert one.events(len(some)) == with_ids(some)
        assert 1 <= len(looks) <= 3


def test_a_watch_that_was_begun_anew_ends_its_streams(index, tmp_path):
    """Their cursors mean nothing any more: who connects again is told so."""
    watch = Watch(tmp_path).begin()
    for _ in range(3):
        watch.batch()
    with running(index, store=str(tmp_path)) as server, Asker(server) as asker:
        with stream(server) as found:
            found.block()
            until(lambda: server.state.tail.head is not None)
            shutil.rmtree(watch.home.path)
            Watch(tmp_path).begin().batch()
            until(lambda: (block := found.block()) is None or "anew" in str(block))
        status, _, body = asker.raw("/events?after=3-end")
        assert status == 400
        assert "begun anew" in json.loads(body)["detail"]


def test_a_token_is_wanted_as_everywhere(index, tmp_path):
    Watch(tmp_path).begin()
    with running(index, store=str(tmp_path), doors=Doors("secret")) as server, Asker(server) as asker:
        assert asker.raw("/events")[0] == asker.raw("/subscriptions")[0] == 401
        with stream(server, authorization="Bearer secret") as found:
            assert found.block()["id"] == "0-end"


def test_subscriptions_that_change_are_told_of_as_events(index, tmp_path):
    """A reset stands in the stream as in files."""
    watch = Watch(tmp_path).begin()
    watch.batch()
    with running(index, store=str(tmp_path)) as server, stream(server, "/events?kind=reset") as found:
        found.block()
        change(watch.home, [circle("a", 0.0, 0.0, 10.0)])
        watch.batch()
        ((_, line),) = found.events(1)
        assert json.loads(line)["subscription"] == "a"
        assert line in watch.told()
