"""Brokers by the scheme of a URL: what takes events there, what gives rows from there, and their clients."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

from dtoss.client.endpoint import Access, Place, place_of, printable
from dtoss.client.http_connections import Later
from dtoss.errors import InputError
from dtoss.extras import need
from dtoss.plain_numbers import is_whole


class Endpoints(NamedTuple):
    """The class of each way, by its module; None where there is no such way. One is loaded when it is wanted."""

    target: str | None  # Takes events
    source: str | None  # Gives rows


_WEB = Endpoints("dtoss.watch.targets.webhook.Webhook", "dtoss.feeds.polled_url.PolledUrl")
_REDIS = Endpoints("dtoss.watch.targets.redis_stream.RedisStream", "dtoss.feeds.redis_entries.RedisEntries")
_MQTT = Endpoints("dtoss.watch.targets.mqtt_topic.MqttTopic", "dtoss.feeds.mqtt_messages.MqttMessages")
SCHEMES = {
    "https": _WEB,
    "http": _WEB,
    "file": Endpoints("dtoss.watch.targets.file_target.FileTarget", None),
    "redis": _REDIS,
    "rediss": _REDIS,
    "mqtt": _MQTT,
    "mqtts": _MQTT,
    "kafka": Endpoints("dtoss.watch.targets.kafka_topic.KafkaTopic", "dtoss.feeds.kafka_messages.KafkaMessages"),
}


def endpoint_at(url: str, way: str, access: Access, option: str) -> Any:
    """Return what a URL means one way, ``target`` or ``source``; ``option``: that names the URL."""
    place = place_of(url, option, parted=way == "source" and url[:4].lower() == "http")
    path = getattr(SCHEMES[place.scheme], way) if place.scheme in SCHEMES else None
    if path is None:
        known = ", ".join(name for name, means in SCHEMES.items() if getattr(means, way) is not None)
        raise InputError(f"{option} {place.scheme or url[:20]}:... is no {way}: {known} are")
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)(place, access)


def need_kafka(place: Place) -> Any:
    """Return the module of the client; ``place`` has to name a topic."""
    if not place.hosts or not place.name or "/" in place.name or place.user is not None:
        raise InputError(
            f"{place.option} {place} is no topic: kafka://HOST:9092,HOST:9092/TOPIC is wanted, without a user"
        )
    return need("confluent_kafka", f"{place.option} kafka:", "kafka")


def kafka_settings(
    place: Place, secret: str | None, usual: Mapping[str, Any], ours: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the settings of a client; ``usual``: those that lines of the secret may change; ``ours``: and may not."""
    servers = ",".join(f"{host}:{port or 9092}" for host, port in place.hosts)
    return {"bootstrap.servers": servers, "log_level": "0", **usual, **_settings_of(secret, ours), **ours}


def _settings_of(secret: str | None, ours: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings that lines say; no message shows one's value."""
    found = {}
    for number, line in enumerate((secret or "").splitlines(), 1):
        name, mark, value = line.partition("=")
        if not line.strip() or line.startswith("#"):
            continue
        if not mark or not name.strip():
            raise InputError(f"line {number} of the secret is not NAME=VALUE: a setting of librdkafka is wanted")
        if name.strip() in ours:
            raise InputError(f"line {number} of the secret sets {name.strip()}, which is ours")
        found[name.strip()] = value.strip()
    return found


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


WRONG = ("WRONGTYPE", "NOPERM")
"""How errors begin that do not end by themselves."""


class RedisClient:
    """A client; ``said``: what the URL says behind its ``?``, of which ``stream`` is one."""

    def __init__(self, place: Place, said: dict[str, str], secret: str | None, timeout: float, **more: Any) -> None:
        base = place.name or "0"
        if len(place.hosts) != 1 or not said.get("stream") or not is_whole(base):
            raise InputError(f"{place.option} {place} is no stream: {place.scheme}://HOST:6379/0?stream=NAME is wanted")
        redis = need("redis", f"{place.option} {place.scheme}:", "redis")
        self.error, self.stream = redis.RedisError, said["stream"]
        self.client: Any = redis.Redis(
            place.host, place.port(6379), int(base), secret, username=place.user, ssl=place.scheme == "rediss",
            socket_timeout=timeout, socket_connect_timeout=timeout, retry=None, **more,
        )  # fmt: skip


def why_of(error: BaseException) -> str:
    """Return what an error of the client says, without the entry that it was about."""
    return printable(str(error).rpartition("caused error: ")[2]) or type(error).__name__
