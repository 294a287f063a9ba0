"""Messages of MQTT and of Kafka: what was not acknowledged comes again, and what was does not."""

from __future__ import annotations

import time

import pytest

from dtoss.client.endpoint import Access
from dtoss.client.http_connections import Later
from dtoss.errors import InputError
from dtoss.feeds.feed import feed_at
from tests.dtoss.watch.targets.servers import free_port, mosquitto_words, program


@pytest.fixture(scope="module")
def mqtt(tmp_path_factory):
    """The port of a broker that keeps messages for who is away, and what sends some."""
    paho = pytest.importorskip("paho.mqtt.client")
    port = free_port()
    with program(mosquitto_words(port, tmp_path_factory.mktemp("mqtt")), port):
        client = paho.Client(paho.CallbackAPIVersion.VERSION2, "sender")
        client.connect("127.0.0.1", port)
        client.loop_start()

        def send(topic, texts):
            for one in [client.publish(topic, text, qos=1) for text in texts]:
                one.wait_for_publish(60)

        yield port, send
        client.disconnect()
        client.loop_stop()


@pytest.fixture(scope="module")
def kafka():
    """The brokers of a cluster that librdkafka makes believe, and what sends messages there."""
    confluent = pytest.importorskip("confluent_kafka")
    holder = confluent.Producer({"bootstrap.servers": "x", "test.mock.num.brokers": 2, "log_level": 0})
    brokers = ",".join(f"{one.host}:{one.port}" for one in holder.list_topics(timeout=60).brokers.values())

    def send(topic, texts):
        sender = confluent.Producer({"bootstrap.servers": brokers, "log_level": 0})
        for text in texts:
            sender.produce(topic, text, str(text))
        assert sender.flush(60) == 0

    yield brokers, send
    holder.flush(1)


def taken(feed, count, acknowledged=True):
    """The next messages of a source, sorted, as many as there are to be."""
    found, ends = [], time.monotonic() + 60
    while len(found) < count and time.monotonic() < ends:
        batch = feed.take(0.2)
        if batch is not None:
            found += batch.messages
            if acknowledged:
                feed.acknowledge(batch)
    return sorted(found)


def _texts(begin, end):
    return sorted(f'{{"id": {number:04}}}'.encode() for number in range(begin, end))


SOON = "session.timeout.ms=6000"
"""The cluster that is made believe waits for so long until a reader that has left has left."""


def _comes_again(url, send, topic, secret=None):
    first = feed_at(url, Access(secret))
    assert first.take(0.1) is None  # from now on all are kept for this reader
    send(topic, _texts(0, 10))
    assert taken(first, 10) == _texts(0, 10)
    send(topic, _texts(10, 17))
    assert taken(first, 7, acknowledged=False) == _texts(10, 17)
    first.close()
    send(topic, _texts(17, 20))
    second = feed_at(url, Access(secret))
    assert taken(second, 10) == _texts(10, 20)
    assert second.take(0.2) is None
    second.close()
    third = feed_at(url, Access(secret))
    assert third.take(0.2) is None
    third.close()


def test_messages_of_mqtt_that_nobody_acknowledged_come_again(mqtt):
    port, send = mqtt
    _comes_again(f"mqtt://127.0.0.1:{port}/fleet/%2B?client=one", send, "fleet/7")


def test_an_offset_is_committed_once_it_is_acknowledged(kafka):
    """And no sooner; a commit that is repeated harms nothing."""
    confluent = pytest.importorskip("confluent_kafka")
    brokers, send = kafka
    send("offsets", _texts(0, 9))
    feed = feed_at(f"kafka://{brokers}/offsets?group=two")

    def committed():
        look = confluent.Consumer({"bootstrap.servers": brokers, "group.id": "two", "log_level": 0})
        parts = look.list_topics("offsets", timeout=60).topics["offsets"].partitions
        found = look.committed([confluent.TopicPartition("offsets", part) for part in parts], timeout=60)
        look.close()
        return sum(max(one.offset, 0) for one in found)

    taken_first = feed.take(0.2)
    assert feed.take(0.2) is None or committed() == 0
    assert committed() == 0
    feed.acknowledge(taken_first)
    feed.acknowledge(taken_first)
    assert committed() == len(taken_first.messages)
    feed.close()


def test_a_topic_is_read_from_where_the_log_says(kafka):
    """Whatever the group of the broker knows; where the log cannot be asked, the source is away."""
    brokers, send = kafka
    url, asked, upto = f"kafka://{brokers}/logged?group=three", [], {}
    send("logged", _texts(0, 20))
    first = feed_at(url, Access(upto=lambda source: asked.append(source) or {}))
    while sum(upto.values()) < 20:
        if (batch := first.take(0.2)) is not None:
            upto |= batch.upto.offsets
            assert batch.upto.source == asked[0]
    first.close()
    assert asked[0].startswith("kafka:")
    assert asked[0].endswith("/logged?group=three")
    part = next(iter(upto))
    send("logged", _texts(20, 25))
    other = url.replace("three", "four")  # of which the broker knows nothing
    second = feed_at(other, Access(upto=lambda source: upto | {part: upto[part] - 1}))
    found = taken(second, 6)
    second.close()
    assert (len(found), found[-5:]) == (6, _texts(20, 25))

    def away(source):
        raise Later("busy")

    third = feed_at(other.replace("four", "five"), Access(upto=away))
    with pytest.raises(Later, match="busy"):
        taken(third, 1)
    third.close()


@pytest.mark.deep("the cluster takes seconds to let a reader go; what is committed is looked at in make test")
def test_messages_of_kafka_that_nobody_committed_come_again(kafka):
    brokers, send = kafka
    send("rows", _texts(900, 901))
    first = feed_at(f"kafka://{brokers}/rows?group=one", Access(SOON))
    assert taken(first, 1) == _texts(900, 901)
    first.close()
    _comes_again(f"kafka://{brokers}/rows?group=one", send, "rows", SOON)


def test_what_is_no_source_is_refused_and_what_is_away_is_tried_again():
    pytest.importorskip("paho.mqtt.client")
    pytest.importorskip("confluent_kafka")
    for url in ("mqtt://h", "mqtt://h/a?x=1", "kafka://h", "kafka://h/a/b", "kafka://h/t?x=1", "kafka://me@h/t"):
        with pytest.raises(InputError, match=r"is no topic|says nothing"):
            feed_at(url)
    for secret in ("enable.auto.commit=true", "no.such=1"):
        with pytest.raises(InputError, match=r"which is ours|does not know"):
            feed_at("kafka://127.0.0.1/t", Access(secret)).take(0.1)
    for scheme in ("mqtt", "kafka"):
        away = feed_at(f"{scheme}://127.0.0.1:{free_port()}/t", Access(timeout=1.0))
        with pytest.raises(Later):
            away.take(0.1)
        away.close()
