"""Which scheme of a URL means what: what takes events there, and what gives rows from there."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

from dtoss.client.endpoint import Access, place_of
from dtoss.errors import InputError


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
