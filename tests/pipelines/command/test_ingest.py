"""Rows of streams of Redis and of URLs that are told to a server: none is lost, whatever is killed; bad ones count."""

from __future__ import annotations

import json
import random
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import tracemalloc
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

import dtoss
from dtoss.client.endpoint import Access, place_of
from dtoss.client.http_connections import Later
from dtoss.errors import InputError
from dtoss.feeds.feed import MESSAGES_AT_ONCE, Batch, feed_at
from dtoss.feeds.redis_entries import RedisEntries
from dtoss.log.read_upto import ReadUpto
from dtoss.serve.core.problems import Problem
from pipelines.command.ingest_command import MOST_REASONS, Told, take_all, tell_batch, tell_files
from tests.dtoss.feeds import test_brokers_as_sources as sources
from tests.dtoss.feeds.test_polled_url import document, serving
from tests.dtoss.serve.served import Intake, running, town, until
from tests.pipelines.command.test_put import ROW, TAKEN
from tests.pipelines.loop.test_metrics import values

kafka, mqtt = sources.kafka, sources.mqtt
REDIS = pytest.mark.skipif(shutil.which("redis-server") is None, reason="there is no Redis")


@pytest.fixture(scope="module")
def index():
    return town(objects=50)


@pytest.fixture
def server(index):
    with running(index, allow_positions=True, intake=Intake()) as found:
        found.url = "http://{}:{}".format(*found.at)
        yield found


@contextmanager
def redis_server(folder):
    """A Redis of one's own on a free port: its client."""
    import redis

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    line = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    with subprocess.Popen(line, stdout=subprocess.DEVNULL) as process:
        client = redis.Redis(port=port)
        try:

            def up():
                try:
                    return client.ping()
                except redis.ConnectionError:
                    return False

            until(up)
            client.url = f"redis://127.0.0.1:{port}/0?stream=rows"
            client.process = process
            yield client
        finally:
            client.close()
            process.kill()


@pytest.fixture(scope="module")
def redis(tmp_path_factory):
    with redis_server(tmp_path_factory.mktemp("redis")) as client:
        yield client


@pytest.fixture(autouse=True)
def _empty(request):
    if "redis" in request.fixturenames:
        request.getfixturevalue("redis").flushall()


def pending(redis):
    return redis.xpending("rows", "dtoss")["pending"]


@REDIS
def test_entries_of_a_stream_are_rows(server, command, redis):
    """All fields as text, or one that holds JSON; what is acknowledged is not read again."""
    for _ in range(3):
        redis.xadd("rows", {name: str(value).lower() if value is True else str(value) for name, value in ROW.items()})
    ran = command.works("ingest", "--from", redis.url, "--to", server.url, "--once", "--json")
    assert (ran.json["taken"], ran.json["bad"]) == (3, 0)
    assert server.state.intake.rows == [TAKEN] * 3
    redis.xadd("rows", {"row": json.dumps(ROW)})
    redis.xadd("rows", {"row": json.dumps([ROW, ROW | {"lat": 91}])})
    url = f"{redis.url}&field=row"
    ran = command.works("ingest", "--from", url, "--to", server.url, "--once")
    assert ran.out == "2 rows up to 5 (1 bad)\n"
    assert "bad: row 3: latitude out of range" in ran.err
    assert pending(redis) == 0
    assert command.works("ingest", "--from", url, "--to", server.url, "--once").out == "no rows\n"


def test_numbers_say_what_became_of_rows(server, command, tmp_path):
    """In a file of Prometheus; a row that cannot be used is one that came."""
    with serving(document(json.dumps([ROW, ROW | {"lat": 91}, ROW]).encode())) as (url, _):
        words = ("ingest", "--from", url, "--to", server.url, "--once", "--metrics-file", tmp_path / "numbers")
        command.works(*words)
    found = {name: value for (name,), value in values((tmp_path / "numbers").read_text()).items()}
    told = {"read_total": 3, "taken_total": 2, "late_total": 0, "unchanged_total": 0, "bad_total": 1, "seq": 2}
    assert found == {f"dtoss_ingest_{name}": value for name, value in told.items()}


@REDIS
def test_fields_are_named_by_their_paths(server, command, redis):
    row = {"vehicle": {"id": 7, "at": {"e": 10.5, "n": 50.0}}, "when": ROW["t"], **{n: ROW[n] for n in [*ROW][4:]}}
    redis.xadd("rows", {"row": json.dumps(row)})
    names = ("--id", "vehicle.id", "--x", "vehicle.at.e", "--y", "vehicle.at.n", "--time", "when")
    names += ("--columns", ",".join([*ROW][4:]))
    command.works("ingest", "--from", f"{redis.url}&field=row", "--to", server.url, "--once", *names)
    assert server.state.intake.rows == [TAKEN]


@REDIS
def test_nothing_is_acknowledged_before_its_rows_are_on_disk(server, command, redis):
    """Who was told nothing keeps them, and they come again: to the same reader at once."""
    redis.xadd("rows", {"row": json.dumps(ROW)})
    server.state.intake.refuses.append(Problem(503, "away", retry_after=1))
    url = f"{redis.url}&field=row"
    ran = command("ingest", "--from", url, "--to", server.url, "--once", "--patience", "1ms")
    assert (ran.code, "away" in ran.err) == (2, True)
    assert (server.state.intake.rows, pending(redis)) == ([], 1)
    redis.xadd("rows", {"row": json.dumps(ROW | {"id": 8})})
    command.works("ingest", "--from", url, "--to", server.url, "--once")
    assert server.state.intake.rows == [TAKEN, TAKEN | {"id": 8}]
    assert pending(redis) == 0


@REDIS
def test_entries_that_were_deleted_and_a_stream_that_was_are_no_rows(redis):
    """And a group that is gone with them is made anew."""
    feed = feed_at(f"{redis.url}&field=row")
    first = redis.xadd("rows", {"row": "{}"})
    assert len(feed.take(0.001).messages) == 1
    redis.xdel("rows", first)
    again = feed_at(f"{redis.url}&field=row")
    batch = again.take(0.001)
    assert (batch.messages, batch.mark) == ((), [first])
    again.acknowledge(batch)
    assert again.take(0.001) is None
    redis.delete("rows")
    with pytest.raises(Later, match="cannot be read"):
        again.take(0.001)
    redis.xadd("rows", {"row": "{}"})
    assert len(again.take(0.001).messages) == 1
    redis.set("text", "x")
    with pytest.raises(InputError, match="WRONGTYPE"):
        feed_at(redis.url.replace("=rows", "=text")).take(0.001)


@REDIS
def test_what_another_reader_does_not_acknowledge_is_taken_over(redis):
    """After a time, by who has nothing else to do; two that go on share what comes."""
    first, second = (RedisEntries(place_of(f"{redis.url}&field=row&consumer={me}"), Access(), idle=1) for me in "ab")
    for number in range(3):
        redis.xadd("rows", {"row": str(number)})
    assert len(first.take(0.001).messages) == 3
    time.sleep(0.01)
    batch = second.take(0.001)
    assert batch.messages == (b"0", b"1", b"2")
    second.acknowledge(batch)
    assert pending(redis) == 0
    assert first.take(0.001) is None


def test_a_document_is_looked_at(server, command):
    with serving(document(json.dumps({"data": [ROW, ROW]}).encode())) as (url, _):
        ran = command.works("ingest", "--from", f"{url}/a#data", "--to", server.url, "--once")
        assert ran.out == "2 rows up to 2\n"
    with serving((200, {"content-type": "text/csv"}, ",".join(ROW).encode() + b"\n" + b"7,x\n" * 3)) as (url, _):
        ran = command.works("ingest", "--from", url, "--to", server.url, "--once", "--json")
        assert (ran.json["taken"], ran.json["bad"] > 0) == (0, True)
    assert "is no source" in command.fails("ingest", "--from", "ftp://a/b", "--to", server.url)


class Given:
    """A source of batches, which says what was acknowledged; an error in its place is raised."""

    def __init__(self, *batches):
        self.left, self.acknowledged = list(batches), []

    def take(self, seconds):
        if self.left and isinstance(self.left[0], Exception):
            raise self.left.pop(0)
        return self.left.pop(0) if self.left else None

    def acknowledge(self, batch):
        self.acknowledged.append(batch.mark)

    def close(self):
        pass


class Asked:
    """Whether somebody has asked to end; nobody waits for a clock."""

    asked = False
    cycle = nullcontext

    def wait(self, seconds):
        pass


def test_a_server_and_a_source_that_are_away_are_waited_for():
    """A batch that could not be told is told again, and the next one after it."""
    stopping, told, seen = Asked(), Told(), []
    feed = Given(Later("away"), Batch((b"{}",), 1), Later("away"), Batch((b"[]",), 2), Batch((b"{ }",), 3))
    fails = [Later("busy"), None, None]

    def tell(rows, kind, upto):
        if (error := fails.pop(0)) is not None:
            raise error
        seen.append(rows)
        if not feed.left:
            stopping.asked = True

    take_all(feed, tell, told, stopping)
    assert (seen, feed.acknowledged) == ([[b"{}"], [b"{ }"]], [1, 2, 3])


class Counting(Intake):
    """Keeps no rows: a mutated time may be beyond what Python knows."""

    async def put(self, rows, upto=None):
        self.rows = [None] * (len(self.rows) + len(rows))
        said = await super().put(rows.slice(0, 0), upto)
        return replace(said, taken=len(rows))


def mutated(rng, text):
    """A message that something has happened to."""
    made = bytearray(text)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(made) + 1)
        kind = rng.randrange(4)
        if kind == 0:
            made[at:at] = bytes([rng.randrange(256)])
        elif kind == 1:
            del made[at : at + rng.randrange(9)]
        elif kind == 2:
            made[at : at + 1] = rng.choice([b"{", b"]", b'"', b"null", b"1e999", b"\\u0000", b"-"])
        else:
            made[at:at] = made[rng.randrange(len(made) + 1) :][:20]
    return bytes(made)


@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.deep("more messages of the kind"))])
def test_mutated_messages_are_refused_and_counted_and_nothing_grows(index, tmp_path, count):
    """Each row is taken or refused with a reason; good ones beside them are all taken; reasons have a bound."""
    rng, text, told, rows = random.Random(0), json.dumps(ROW).encode(), Told(), 0
    path, grown = tmp_path / "rows.jsonl", []

    with running(index, allow_positions=True, intake=Counting()) as server:
        remote = dtoss.connect("http://{}:{}".format(*server.at))

        def tell(lines, kind, upto):
            path.write_bytes(b"\n".join(lines) + b"\n")
            return tell_files([str(path)], remote, {}, 9.0, told, upto=upto)

        for at in range(0, count, 500):
            batch = Batch((text, *(mutated(rng, text) for _ in range(499))), at)
            rows += len(batch.rows())
            tell_batch(batch, tell, told)
            if at == 500:
                tracemalloc.start()
            elif at > 500:
                grown.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert told.read == told.taken + told.bad == rows
    assert told.bad > count / 4
    assert told.taken >= count // 500
    assert len(told.reasons) <= MOST_REASONS + 1
    assert not grown or max(grown) < 30_000_000


@REDIS
@pytest.mark.deep("ten thousand messages to each broker; how they are judged is looked at in make test")
@pytest.mark.parametrize("way", ["redis", "mqtt", "kafka", "url"])
def test_mutated_messages_come_through_each_source(index, command, redis, mqtt, kafka, way):
    """Each is taken or refused and counted, and none comes again."""
    rng, text = random.Random(1), json.dumps(ROW).encode()
    texts = [mutated(rng, text) if at % 10 else text for at in range(10_000)]
    body = 200, {"content-type": "application/x-ndjson"}, b"\n".join(texts)
    with running(index, allow_positions=True, intake=Counting()) as server, serving(body) as (url, _):
        there = {
            "redis": f"{redis.url}&field=row", "mqtt": f"mqtt://127.0.0.1:{mqtt[0]}/odd?client=odd",
            "kafka": f"kafka://{kafka[0]}/odd?group=odd", "url": url,
        }  # fmt: skip
        words = ("ingest", "--from", there[way], "--to", "http://{}:{}".format(*server.at), "--once", "--json")
        if way == "redis":
            for one in texts:
                redis.xadd("rows", {"row": one})
        elif way == "mqtt":
            command.works(*words)  # from now on messages are kept
            mqtt[1]("odd", texts)
        elif way == "kafka":
            kafka[1]("odd", texts)
        said = command.works(*words).json
        assert said["read"] == said["taken"] + said["bad"] >= 9_000
        assert said["taken"] >= 1_000
        assert said["bad"] > 2_500
        assert len(said["reasons"]) <= MOST_REASONS + 1
        if way != "kafka":  # whose made cluster takes long to let a reader go
            assert command.works(*words).json["read"] == 0


@contextmanager
def ingesting(url, server, *words):
    """A process that takes rows of a source, which is killed where it has not ended by then."""
    line = [sys.executable, "-m", "dtoss", "ingest", "--from", url, "--to", server.url, *words]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@REDIS
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kills", [1, pytest.param(100, marks=pytest.mark.deep("kills at more moments"))])
def test_kills_lose_no_row(server, redis, kills):
    """Whatever moment it is killed at: each row is told, those that were not acknowledged again; then it ends well."""
    rng, sent, seen = random.Random(kills), 0, server.state.intake.rows

    def is_done():
        return redis.xinfo_groups("rows")[0]["lag"] == pending(redis) == 0

    for turn in range(kills + 1):
        with redis.pipeline() as pipe:
            for _ in range(2_500):
                pipe.xadd("rows", {"row": json.dumps(ROW | {"id": sent})})
                sent += 1
            pipe.execute()
        with ingesting(f"{redis.url}&field=row", server) as process:
            if turn < kills:
                enough = len(seen) + rng.randrange(1, 2_500)
                until(lambda enough=enough: len(seen) >= enough)
                time.sleep(rng.random() / 20)
                process.kill()
            else:
                until(is_done)
                process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=60)
    assert (process.returncode, " rows up to " in out) == (0, True), err
    assert {row["id"] for row in seen} == set(range(sent))


def test_offsets_are_put_behind_the_rows_of_a_batch():
    """And before the source is told; where they cannot be put the batch is told again."""
    stopping, told, seen, upto = Asked(), Told(), [], ReadUpto("s", {0: 1})
    feed = Given(Batch((b"{}",), 1, upto=upto), Batch((b"[1]",), 2), Batch((b"{ }",), 3, upto=upto))
    fails = [Later("busy"), None, None]

    def put(source, offsets):
        seen.append((source, offsets, *feed.acknowledged))
        if (error := fails.pop(0)) is not None:
            raise error
        stopping.asked = not feed.left

    take_all(feed, lambda rows, *_: seen.append(rows), told, stopping, put)
    assert seen == [[b"{}"], ("s", {0: 1}), [b"{}"], ("s", {0: 1}), [b"1"], [b"{ }"], ("s", {0: 1}, 1, 2)]
    assert feed.acknowledged == [1, 2, 3]


class Sharing(Intake):
    """Notes how many rows and which offsets came together."""

    def __init__(self):
        super().__init__()
        self.shared = []

    async def put(self, rows, upto=None):
        self.shared.append((len(rows), upto and upto.text()))
        return await super().put(rows, upto)


def test_offsets_share_the_sync_of_the_last_rows(index, command):
    """And go alone only where no row is sent; a document that stands there already is not told again."""
    odd = [ROW, [1], ROW | {"lat": 91}, "word", ROW | {"id": 10**30}]  # the last one spoils all, which are halved
    with running(index, allow_positions=True, intake=Sharing()) as server:
        to = ("--to", "http://{}:{}".format(*server.at), "--once")
        shared, rows = server.state.intake.shared, server.state.intake.rows
        with serving(document(json.dumps([*odd, ROW, ROW]).encode())) as (url, _):
            command.works("ingest", "--from", url, *to)
            assert (shared[0], len(rows)) == ((0, ""), 3)
            assert [bool(text) for _, text in shared] == [False] * (len(shared) - 1) + [True]
            assert shared[-1][0] > 0
            del shared[:]
            assert command.works("ingest", "--from", url, *to).out == "no rows\n"
            assert len(shared) == 1
            command.works("ingest", "--from", url, *to, "--columns", ",".join([*ROW][4:]))  # it is read otherwise
            assert len(rows) == 6
            command.works("ingest", "--from", f"{url}#other", *to)  # another part is another document
            assert shared[-1][0] == 0
            assert shared[-1][1]
        with serving(document(json.dumps([ROW | {"lat": 91}]).encode())) as (url, _):
            command.works("ingest", "--from", url, *to)
            assert command.works("ingest", "--from", url, *to, "--json").json["read"] == 0
    assert len(rows) == 6


@pytest.mark.deep("a cluster takes seconds to let a reader go; the log is killed at each step in make test")
def test_kills_double_one_batch_of_a_topic_at_the_most(server, kafka, tmp_path):
    """The offsets of the log say where it goes on, whatever was committed; in the end they are those of the topic."""
    brokers, send = kafka
    (tmp_path / "lines").write_text(sources.SOON)
    words, rng, sent, seen = ("--secret-file", tmp_path / "lines"), random.Random(5), 0, server.state.intake.rows
    for turn in range(6):
        send("rows", [json.dumps(ROW | {"id": sent + at}) for at in range(4_000)])
        sent += 4_000
        with ingesting(f"kafka://{brokers}/rows?group=killed", server, *words) as process:
            enough = len(seen) + rng.randrange(1, 4_000)

            def is_enough(turn=turn, enough=enough, sent=sent):
                return upto(server) == sent if turn == 5 else len(seen) >= enough

            until(is_enough)
            process.kill()
            process.communicate(timeout=60)
    assert {row["id"] for row in seen} == set(range(sent))
    assert len(seen) <= sent + 5 * MESSAGES_AT_ONCE


def upto(server):
    return sum(sum(one.offsets.values()) for one in server.state.intake.upto.values())


@REDIS
def test_the_examples_of_the_page(server, command, redis):
    """The commands of docs/ingest.md, of a stream and of a document; of a city that has rows of ours."""
    page = (Path(__file__).parents[3] / "docs" / "ingest.md").read_text(encoding="utf-8")
    block = re.search(r"^```\n(.*?)^```", page, re.DOTALL | re.MULTILINE)[1]
    examples = [line for line in re.sub(r"\\\n\s*", "", block).splitlines() if line.startswith("dtoss ingest")]
    redis.xadd("positions", {"row": json.dumps(ROW)})
    row = {"bike_id": 7, "lon": 10.5, "lat": 50.0, "last_reported": ROW["t"], **{n: ROW[n] for n in [*ROW][4:]}}
    with serving(document(json.dumps({"data": {"bikes": [row]}}).encode())) as (url, _):
        there = {"redis://127.0.0.1:6379": redis.url.partition("/0?")[0], "https://city.example": url}
        for line in examples:
            words = shlex.split(line.replace("http://127.0.0.1:8080", server.url))[1:]
            words = [next((w.replace(a, b) for a, b in there.items() if a in w), w) for w in words]
            command.works(*words, "--once")
    assert server.state.intake.rows == [TAKEN, TAKEN]
