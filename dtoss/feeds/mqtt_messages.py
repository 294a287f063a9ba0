"""Messages of topics of MQTT, with QoS 1: a broker keeps for a reader with a name what it has not acknowledged."""

from __future__ import annotations

import queue
from typing import Any

from dtoss.brokers import LONGEST_TOPIC, close_mqtt, connect_mqtt, need_mqtt
from dtoss.client.endpoint import Access, Place, printable
from dtoss.client.http_connections import Later
from dtoss.errors import InputError
from dtoss.feeds.feed import MESSAGES_AT_ONCE, Batch

_LATER_SECONDS = 0.05
"""For which more messages are waited for, behind the first."""


class MqttMessages:
    """Topics that a filter names, read under the name of a client."""

    def __init__(self, place: Place, access: Access) -> None:
        filter_ = place.name
        if len(place.hosts) != 1 or not filter_ or "\0" in filter_ or len(filter_.encode()) > LONGEST_TOPIC:
            raise InputError(f"--from {place} is no topic: {place.scheme}://HOST/TOPIC is wanted, with %23 for #")
        need_mqtt(place)
        self._client_name = place.options("client").get("client", "dtoss")
        self._place, self._access, self._filter = place, access, filter_
        self._client: Any = None
        self._came: queue.Queue[Any] = queue.Queue()

    def __str__(self) -> str:
        return f"{self._place} ({self._filter})"

    def take(self, seconds: float) -> Batch | None:
        """Return the next messages; those that were not acknowledged come again after a new connection."""
        try:
            client = self._open()
            found: list[Any] = []
            while len(found) < MESSAGES_AT_ONCE:
                try:
                    found.append(self._came.get(timeout=_LATER_SECONDS if found else seconds))
                except queue.Empty:
                    break
        except Later as later:
            raise Later(f"{self} {later}") from None
        if not found and not client.is_connected():
            self.close()
            raise Later(f"{self} has broken off")
        if not found:
            return None
        mark = client, [one.mid for one in found if one.qos]
        return Batch(tuple(one.payload for one in found), mark, topics=tuple(one.topic for one in found))

    def acknowledge(self, batch: Batch) -> None:
        """Acknowledge messages; where another connection has begun they come again, which changes nothing."""
        client, numbers = batch.mark
        if client is self._client:
            for number in numbers:
                client.ack(number, 1)

    def close(self) -> None:
        """Close the connection; the broker keeps what comes meanwhile."""
        held, self._client = self._client, None
        if held is not None:
            close_mqtt(held)

    def _open(self) -> Any:
        if self._client is not None:
            return self._client
        came: queue.Queue[Any] = queue.Queue()
        granted: queue.Queue[Any] = queue.Queue()

        def prepare(client: Any) -> None:
            client.on_message = lambda _client, _data, message: came.put(message)
            client.on_subscribe = lambda _client, _data, _mid, codes, _more: granted.put(codes)

        client = connect_mqtt(
            self._place, self._client_name, self._access.secret, self._access.timeout, prepare, clean_session=False,
            manual_ack=True,
        )  # fmt: skip
        self._client, self._came = client, came
        client.subscribe(self._filter, 1)
        try:
            codes = granted.get(timeout=self._access.timeout)
        except queue.Empty:
            codes = None
        if codes is None or any(code.is_failure for code in codes):
            self.close()
            raise Later("has not answered" if codes is None else f"lets nobody read it ({printable(str(codes[0]))})")
        return client
