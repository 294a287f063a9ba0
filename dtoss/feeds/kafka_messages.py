"""Messages of a topic of Kafka, read as one of a group, which goes on where the log says.

An offset stands in the log, and is committed, once the rows before it are on disk.
"""

from __future__ import annotations

import time
from typing import Any

from dtoss.brokers import kafka_settings, need_kafka
from dtoss.client.endpoint import Access, Place
from dtoss.client.http_connections import Later
from dtoss.errors import DtossError, InputError
from dtoss.feeds.feed import MESSAGES_AT_ONCE, Batch
from dtoss.log.read_upto import ReadUpto

FIXED_BY_US = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "partition.assignment.strategy": "range,roundrobin",
}
"""Settings of librdkafka that no file changes: nothing is committed that is not on disk; a share is given out whole."""


class KafkaMessages:
    """A topic and a group of its readers."""

    def __init__(self, place: Place, access: Access) -> None:
        self._kafka = need_kafka(place)
        said = place.options("group")
        usual = {"group.id": said.get("group", "dtoss"), "auto.offset.reset": "earliest"}
        self._settings = kafka_settings(place, access.secret, usual, FIXED_BY_US)
        self._place, self._topic, self._timeout = place, place.name, access.timeout
        self._upto, self._source = access.upto, ""
        self._consumer: Any = None
        self._behind: set[int] = set()  # Partitions of which there may be more now
        self._assigned = False

    def __str__(self) -> str:
        return f"{self._place} ({self._topic})"

    def take(self, seconds: float) -> Batch | None:
        """Return the next messages; those that were not committed come again after a start."""
        try:
            return self._take_messages(seconds)
        except self._kafka.KafkaException as error:
            self.close()
            raise Later(f"{self} cannot be read ({error.args[0].str()})") from None
        except DtossError:
            self.close()  # who knows where to go on did not say it
            raise

    def acknowledge(self, batch: Batch) -> None:
        """Commit the offsets behind messages; those of a partition that another reader has now are its own."""
        parts = [self._kafka.TopicPartition(self._topic, part, offset) for part, offset in batch.mark.items()]
        try:
            if self._consumer is not None:
                self._consumer.commit(offsets=parts, asynchronous=False)
        except self._kafka.KafkaException as error:
            name = error.args[0].name()
            self.close()
            # the group has given the partitions to others, and these messages come again there
            if name not in ("ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS", "_ASSIGNMENT_LOST"):
                raise Later(f"{self} has not taken what was read ({error.args[0].str()})") from None

    def close(self) -> None:
        """Leave the group."""
        held, self._consumer, self._assigned = self._consumer, None, False
        if held is not None:
            held.close()

    def _take_messages(self, seconds: float) -> Batch | None:
        consumer = self._open()
        ends = time.monotonic() + seconds
        latest = time.monotonic() + max(self._timeout, seconds)
        while True:
            messages, upto = [], dict[int, int]()
            for one in consumer.consume(MESSAGES_AT_ONCE, max(min(0.2, ends - time.monotonic()), 0.01)):
                error = one.error()
                if error is None:
                    messages.append(one.value() or b"")
                    upto[one.partition()] = one.offset() + 1
                    self._behind.add(one.partition())
                elif error.code() == self._kafka.KafkaError._PARTITION_EOF:
                    self._behind.discard(one.partition())
                else:
                    raise self._kafka.KafkaException(error)
            if messages:
                return Batch(tuple(messages), upto, upto=ReadUpto(self._source, upto))
            known = self._assigned and not self._behind
            if time.monotonic() > ends and known:
                return None
            if time.monotonic() > latest:
                self.close()
                raise Later(f"{self} has not answered")

    def _open(self) -> Any:
        if self._consumer is None:
            try:
                made = self._kafka.Consumer(self._settings)
            except self._kafka.KafkaException as error:
                raise InputError(f"--secret-file: Kafka does not know its settings ({error.args[0].str()})") from None
            self._consumer = made
            # another cluster counts anew, and one at another address does not
            cluster = made.list_topics(self._topic, self._timeout).cluster_id
            self._source = f"kafka:{cluster}/{self._topic}?group={self._settings['group.id']}"
            made.subscribe([self._topic], on_assign=self._begin)
        return self._consumer

    def _begin(self, consumer: Any, parts: list[Any]) -> None:
        """Go on where the log says; where it says nothing, where the group does, and else at the beginning."""
        known = self._upto(self._source)
        for one in parts:
            one.offset = known.get(one.partition, one.offset)
        consumer.assign(parts)
        self._assigned, self._behind = True, {one.partition for one in parts}
