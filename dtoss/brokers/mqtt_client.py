"""A client of MQTT 3.1.1 that is connected, as a URL says."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from typing import Any

from dtoss.client.endpoint import Place, printable
from dtoss.client.http_connections import Later
from dtoss.extras import need

IN_FLIGHT = 1_000
"""Messages that are not acknowledged yet: the client looks through all of them at each that is."""
_KEEP_ALIVE = 60
LONGEST_TOPIC = 65_535


def need_mqtt(place: Place) -> Any:
    """Return the module of the client."""
    return need("paho.mqtt.client", f"{place.option} {place.scheme}:", "mqtt")


def connect_mqtt(
    place: Place,
    name: str,
    secret: str | None,
    timeout: float,
    prepare: Callable[[Any], None] = lambda client: None,
    **more: Any,
) -> Any:
    """Return a client whose thread runs, once the broker has let it in; ``Later`` where it does not.

    ``name``: by which the broker knows it; ``prepare``: is handed the client before it connects.
    """
    mqtt, ends, answers = need_mqtt(place), time.monotonic() + timeout, list[Any]()
    client = mqtt.Client(
        mqtt.CallbackAPIVersion.VERSION2, name, protocol=mqtt.MQTTv311, reconnect_on_failure=False, **more
    )
    client.connect_timeout = timeout
    client.max_inflight_messages_set(IN_FLIGHT)
    client.on_connect = lambda _client, _data, _flags, code, _more: answers.append(code)
    if place.user is not None or secret is not None:
        client.username_pw_set(place.user or "", secret)
    if place.scheme == "mqtts":
        client.tls_set_context(ssl.create_default_context())
    prepare(client)
    try:
        client.connect(place.host, place.port(8883 if place.scheme == "mqtts" else 1883), _KEEP_ALIVE)
    except (OSError, ValueError, RuntimeError) as error:
        raise Later(f"cannot be reached ({printable(str(error))})") from None
    client.loop_start()
    while not answers and time.monotonic() < ends:
        time.sleep(0.001)
    if not answers or answers[0].is_failure:
        close_mqtt(client)
        raise Later(f"does not let it in ({answers[0]})" if answers else "has not answered")
    return client


def close_mqtt(client: Any) -> None:
    """Close a connection and end its thread."""
    client.disconnect()
    client.loop_stop()
