"""Events as messages of an MQTT topic, with QoS 1: a batch is taken when its messages are acknowledged."""

from __future__ import annotations

import ssl
import time
from itertools import islice
from typing import Any

from dtoss.client.endpoint import Access, Place, printable
from dtoss.client.http_connections import Later
from dtoss.errors import InputError
from dtoss.extras import need
from dtoss.watch.targets.target import USUAL_BATCH, Batch

_KEEP_ALIVE = 60
_LONGEST_TOPIC = 65_535
_IN_FLIGHT = 1_000
"""Messages that are not acknowledged yet: the client looks through all of them at each that is."""


class MqttTopic:
    """A topic of a broker, over MQTT 3.1.1."""

    batch = USUAL_BATCH

    def __init__(self, place: Place, access: Access) -> None:
        topic, port = place.name, 8883 if place.scheme == "mqtts" else 1883
        odd = not topic or any(one in topic for one in "+#\0") or len(topic.encode()) > _LONGEST_TOPIC
        if len(place.hosts) != 1 or odd:
            raise InputError(f"--to {place} is no topic: {place.scheme}://HOST:{port}/TOPIC is wanted, without + and #")
        place.options()
        self._mqtt = need("paho.mqtt.client", f"--to {place.scheme}:", "mqtt")
        self._place, self._topic, self._port = place, topic, place.port(port)
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
            client = self._connect(ends)
            lines = batch.lines.each
            while some := list(islice(lines, _IN_FLIGHT)):
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
            held.disconnect()
            held.loop_stop()

    def _connect(self, ends: float) -> Any:
        if self._client is not None:
            if self._client.is_connected():
                return self._client
            self.close()
        mqtt = self._mqtt
        answers: list[Any] = []
        client = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2, f"dtoss-{self._mark}", protocol=mqtt.MQTTv311, reconnect_on_failure=False
        )
        client.connect_timeout = self._timeout
        client.max_inflight_messages_set(_IN_FLIGHT)
        client.on_connect = lambda _client, _data, _flags, code, _more: answers.append(code)
        if self._place.user is not None or self._secret is not None:
            client.username_pw_set(self._place.user or "", self._secret)
        if self._place.scheme == "mqtts":
            client.tls_set_context(ssl.create_default_context())
        client.connect(self._place.host, self._port, _KEEP_ALIVE)
        self._client = client
        client.loop_start()
        while not answers:
            if time.monotonic() > ends:
                raise Later("has not answered")
            time.sleep(0.001)
        if answers[0].is_failure:
            raise Later(f"does not let it in ({answers[0]})")
        return client
