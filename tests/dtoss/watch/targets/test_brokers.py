"""Redis, MQTT and Kafka: what arrives there, in which order, and what a broken connection doubles."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager

import pytest

from dtoss.client.endpoint import Access
from dtoss.client.http_connections import Later
from dtoss.errors import InputError
from dtoss.watch.events.readers import Cursor
from dtoss.watch.targets.target import Refused, target_at
from tests.dtoss.watch.targets.batches import batches, ids
from tests.dtoss.watch.targets.servers import cutting, free_port, program, redis_port

HERE = Access(timeout=60.0)


# -- Redis ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def redis():
    """A Redis, and its port."""
    client = pytest.importorskip("redis")
    with redis_port() as port:
        yield client.Redis("127.0.0.1", port, decode_responses=True), port


def test_a_stream_has_each_event_once_by_its_id(redis):
    """Whatever was sent again; `XREAD` goes on behind an event."""
    client, port = redis
    first, second, third = batches(3)
    target = target_at(f"redis://127.0.0.1:{port}/0?stream=fences", HERE)
    assert target.begin("mark") is None
    for batch in (first, second, first, second, third):
        target.take(batch)
    target.close()
    again = target_at(f"redis://127.0.0.1:{port}/0?stream=fences", HERE)
    assert again.begin("mark") == third.lines.last
    again.take(third)
    again.close()
    wanted = ids(first) + ids(second) + ids(third)
    entries = client.xrange("fences")
    assert [id for id, _ in entries] == wanted
    assert entries[0][1] == {"event": first.lines.pieces[0].splitlines()[0].decode()}
    assert [id for id, _ in client.xread({"fences": wanted[3]})[0][1]] == wanted[4:]
    with pytest.raises(InputError, match=r"another reader has added.*\{fences\}:reader"):
        target_at(f"redis://127.0.0.1:{port}/0?stream=fences", HERE).begin("other")


def test_an_answer_that_is_lost_doubles_no_entry(redis):
    client, port = redis
    with cutting(port) as (front, left):
        target = target_at(f"redis://127.0.0.1:{front}/0?stream=cut", HERE)
        target.begin("mark")
        made = batches(4, each=40)
        for batch in made:
            left.append(100)
            with pytest.raises(Later, match="says no"):
                target.take(batch)
            left.clear()
            target.take(batch)
        target.close()
    assert [id for id, _ in client.xrange("cut")] == [one for batch in made for one in ids(batch)]


def test_a_stream_may_be_bounded_and_what_is_none_is_refused(redis):
    client, port = redis
    target = target_at(f"redis://127.0.0.1:{port}/0?stream=few&maxlen=100", HERE)
    target.begin("mark")
    for batch in batches(3, each=500):
        target.take(batch)
    assert client.xlen("few") < 400
    target.close()
    client.set("text", "x")
    client.set("{text}:reader", "mark")
    with pytest.raises(Refused, match="WRONGTYPE"):
        target_at(f"redis://127.0.0.1:{port}/0?stream=text", HERE).begin("mark")
    for end in ("", "?stream=", "?stream=x&maxlen=0", "?stream=x&other=1", "x?stream=y"):
        with pytest.raises(InputError, match=r"stream|says nothing"):
            target_at(f"redis://127.0.0.1:{port}/{end}", HERE)
    with pytest.raises(Later, match="says no"):
        target_at(f"redis://127.0.0.1:{free_port()}/0?stream=x", HERE).begin("mark")


# -- MQTT -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mqtt(tmp_path_factory):
    """The port of a broker."""
    pytest.importorskip("paho.mqtt.client")
    port, config = free_port(), tmp_path_factory.mktemp("mqtt") / "config"
    config.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n")
    with program(["mosquitto", "-c", str(config)], port):
        yield port


@contextmanager
def subscribed(port, topic):
    """What arrives at a topic from now on."""
    import paho.mqtt.client as paho

    got, there = [], threading.Event()
    client = paho.Client(paho.CallbackAPIVersion.VERSION2)
    client.on_message = lambda _c, _u, message: got.append(message.payload)
    client.on_subscribe = lambda *_: there.set()
    client.connect("127.0.0.1", port)
    client.subscribe(topic, qos=1)
    client.loop_start()
    assert there.wait(60)
    try:
        yield got
    finally:
        client.disconnect()
        client.loop_stop()


def lines(made):
    return [line for batch in made for piece in batch.lines.pieces for line in piece.splitlines()]


def until(holds):
    ends = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_messages_of_a_topic_come_in_their_order(mqtt):
    made = batches(3, each=500)
    with subscribed(mqtt, "fleet/events") as got:
        target = target_at(f"mqtt://127.0.0.1:{mqtt}/fleet%2Fevents", HERE)
        target.begin("mark")
        for batch in made:
            target.take(batch)
        until(lambda: len(got) == 1500)
        target.close()
        target.take(made[0])
        until(lambda: len(got) == 2000)
        target.close()
    assert got == lines(made) + lines(made[:1])


def test_a_broker_that_breaks_off_is_sent_the_batch_again(mqtt):
    """What was on its way does not come behind it."""
    made = batches(4, each=300)
    with cutting(mqtt) as (front, left), subscribed(mqtt, "cut") as got:
        target = target_at(f"mqtt://127.0.0.1:{front}/cut", HERE)
        target.begin("mark")
        for batch in made:
            left.append(200)
            with pytest.raises(Later):
                target.take(batch)
            left.clear()
            target.take(batch)
        target.close()
        until(lambda: got[-1:] == lines(made)[-1:])
    assert list(dict.fromkeys(got)) == lines(made)
    place = {line: row // 300 for row, line in enumerate(lines(made))}
    assert [place[line] for line in got] == sorted(place[line] for line in got)


def test_what_is_no_topic_and_no_broker():
    pytest.importorskip("paho.mqtt.client")
    for end in ("", "a+", "%23", "a?x=1"):
        with pytest.raises(InputError, match=r"without \+ and #|says nothing"):
            target_at(f"mqtt://127.0.0.1/{end}", HERE)
    with pytest.raises(Later, match="cannot be reached"):
        target_at(f"mqtt://127.0.0.1:{free_port()}/x", HERE).take(batches(1)[0])


# -- Kafka ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kafka():
    """The brokers of a cluster that librdkafka makes believe, and what is read there of a topic so far."""
    confluent = pytest.importorskip("confluent_kafka")
    holder = confluent.Producer({"bootstrap.servers": "x", "test.mock.num.brokers": 2, "log_level": 0})
    brokers = [f"{one.host}:{one.port}" for one in holder.list_topics(timeout=60).brokers.values()]

    def read(topic, count):
        consumer = confluent.Consumer({
            "bootstrap.servers": ",".join(brokers), "group.id": topic, "auto.offset.reset": "earliest", "log_level": 0,
        })  # fmt: skip
        parts = holder.list_topics(topic, timeout=60).topics[topic].partitions
        consumer.assign([confluent.TopicPartition(topic, part, 0) for part in parts])
        got = []
        ends = time.monotonic() + 60
        while len(got) < count and time.monotonic() < ends:
            got += consumer.consume(1000, 0.2)
        consumer.close()
        return got

    return brokers, read, holder


def test_a_subscription_is_in_one_partition_in_its_order(kafka):
    brokers, read, _ = kafka
    made = batches(3, each=200)
    target = target_at(f"kafka://{','.join(brokers)}/fences", HERE)
    target.begin("mark")
    for batch in made:
        target.take(batch)
    target.close()
    got = read("fences", 600)
    assert sorted(one.value() for one in got) == sorted(lines(made))
    for key in (b"s0", b"s1"):
        mine = [one for one in got if one.key() == key]
        assert len({one.partition() for one in mine}) == 1
        told = [Cursor.of(dict(one.headers())["id"].decode()) for one in mine]
        assert told == sorted(told)
        assert len(told) == 300


def test_what_is_no_topic_no_setting_and_no_broker(kafka):
    for url in ("kafka://h", "kafka://h/", "kafka://h/a/b", "kafka://me@h/t", "kafka:///t", "kafka://h/t?x=1"):
        with pytest.raises(InputError, match=r"is no topic|says nothing"):
            target_at(url, HERE)
    for secret, why in (
        ("x", "line 1"),
        ("a=b\n\nenable.idempotence=false", "line 3 .*which is ours"),
        ("no.such=1", "does not know"),
    ):
        with pytest.raises(InputError, match=why):
            target_at("kafka://h/t", Access(secret)).begin("mark")
    target = target_at(f"kafka://127.0.0.1:{free_port()}/t", Access(timeout=0.5))
    with pytest.raises(Later):
        target.take(batches(1)[0])
    target.close()
