"""Events as messages of a topic of Kafka: those of a subscription are in one partition, in their order."""

from __future__ import annotations

import time
from typing import Any

from dtoss.brokers import kafka_settings, need_kafka
from dtoss.client.endpoint import Access, Place
from dtoss.client.http_connections import Later
from dtoss.errors import InputError
from dtoss.watch.targets.target import Batch, Refused

FIXED_SETTINGS = {
    "enable.idempotence": "true", "enable.gapless.guarantee": "true", "delivery.report.only.error": True,
}  # fmt: skip
"""Settings of librdkafka that no file changes: no message comes twice or before another within a batch."""
_FOR_GOOD = ("MSG_SIZE_TOO_LARGE", "INVALID_MSG", "TOPIC_AUTHORIZATION_FAILED", "_UNKNOWN_TOPIC")
"""Errors that do not end by themselves."""


class KafkaTopic:
    """A topic, which has to be there or is made by its brokers."""

    batch = 10_000  # brokers take a while to say that they have a batch, whatever is in it

    def __init__(self, place: Place, access: Access) -> None:
        self._kafka = need_kafka(place)
        place.options()
        self._place, self._topic, self._timeout = place, place.name, access.timeout
        until = {"message.timeout.ms": str(max(int(access.timeout * 1000), 1))}
        self._settings = kafka_settings(place, access.secret, {"linger.ms": "5"}, FIXED_SETTINGS) | until
        self._producer: Any = None

    def __str__(self) -> str:
        return f"{self._place} ({self._topic})"

    def begin(self, _mark: str) -> None:
        """Say nothing of what it has; what a file says is tried."""
        try:
            self._open()
        except self._kafka.KafkaException as error:
            raise InputError(f"--secret-file: Kafka does not know its settings ({error.args[0].str()})") from None

    def take(self, batch: Batch) -> None:
        """Send the events of a batch, and wait until the brokers have all."""
        failed: list[Any] = []

        def note_error(error: Any, _message: Any) -> None:
            if error is not None:
                failed.append(error)

        producer, ends = self._open(), time.monotonic() + self._timeout
        try:
            for (cursor, line), whose in zip(batch.lines.each, batch.subscriptions, strict=True):
                while not failed:
                    try:
                        producer.produce(
                            self._topic, line[:-1], whose, headers=[("id", str(cursor))], on_delivery=note_error
                        )
                        break
                    except BufferError:
                        if time.monotonic() > ends:
                            raise Later("has not acknowledged all messages") from None
                        producer.poll(0.01)
            left = 0 if failed else producer.flush(max(ends - time.monotonic(), 0.001))
        except self._kafka.KafkaException as error:
            failed, left = [error.args[0]], 0
        except BaseException:
            self.close()
            raise
        if failed:
            self.close()  # what is on its way must not come behind what is sent next
            why = f"says no ({failed[0].str()})"
            raise (Refused if failed[0].name() in _FOR_GOOD else Later)(why)
        if left:
            self.close()
            raise Later("has not acknowledged all messages")

    def close(self) -> None:
        """Forget what is on its way, and close the connections."""
        held, self._producer = self._producer, None
        if held is not None:
            held.purge()
            held.flush(0.1)

    def _open(self) -> Any:
        if self._producer is None:
            self._producer = self._kafka.Producer(self._settings)
        return self._producer
