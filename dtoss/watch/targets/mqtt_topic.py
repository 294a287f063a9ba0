"""Events as messages of an MQTT topic, with QoS 1: a batch is taken when its messages are acknowledged."""

from __future__ import annotations

import time
from itertools import islice
from typing import Any

from dtoss.brokers import IN_FLIGHT, LONGEST_TOPIC, close_mqtt, connect_mqtt, need_mqtt
from dtoss.client.endpoint import Access, Place, printable
from dtoss.client.http_connections import Later
from dtoss.errors import InputError
from dtoss.watch.targets.target import USUAL_BATCH, Batch


class MqttTopic:
    """A topic of a broker, over MQTT 3.1.1."""

    batch = USUAL_BATCH

    def __init__(self, place: Place, access: Access) -> None:
        topic, port = place.name, 8883 if place.scheme == "mqtts" else 1883
        odd = not topic or any(one in topic for one in "+#\0") or len(topic.encode()) > LONGEST_TOPIC
        if len(place.hosts) != 1 or odd:
            raise InputError(f"--to {place} is no topic: {place.scheme}://HOST:{port}/TOPIC is wanted, without + and #")
        place.options()
        need_mqtt(place)
        self._place, self._topic = place, topic
        self._secret, self._timeout = access.secret, access.timeout
        self._mark = ""
        self._client: Any = None

    def __str__(self) -> str:
        return f"{self._place} ({self._topic})"

    def begin(self, mark: str) -> None:
        """Say nothing of what it has; a broker knows a reader by one name, and lets go of an older connection."""
        self._mark = mark

    def take(self, batch: Batch) -> None:
        """Send the events of a batch in their order, and wait until the broker has all."""
        ends = time.monotonic() + self._timeout
        try:
            client = self._connect()
            lines = batch.lines.each
            while some := list(islice(lines, IN_FLIGHT)):
                for one in [client.publish(self._topic, line[:-1], qos=1) for _, line in some]:
                    while not one.is_published():
                        if not client.is_connected() or time.monotonic() > ends:
                            raise Later("has not acknowledged all messages")
                        one.wait_for_publish(min(0.1, self._timeout))
        except (OSError, ValueError, RuntimeError) as error:
            self.close()
            raise Later(f"cannot be reached ({printable(str(error))})") from None
        except BaseException:
            self.close()  # what is on its way must not come behind what is sent next
            raise

    def close(self) -> None:
        """Close the connection, and forget what was on its way."""
        held, self._client = self._client, None
        if held is not None:
            close_mqtt(held)

    def _connect(self) -> Any:
        if self._client is not None:
            if self._client.is_connected():
                return self._client
            self.close()
        self._client = connect_mqtt(self._place, f"dtoss-{self._mark}", self._secret, self._timeout)
        return self._client
