"""Which target a URL means."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from dtoss.client.endpoint import Access, Place, place_of
from dtoss.errors import InputError
from dtoss.watch.targets.target import Target

SCHEMES = {
    "https": "webhook.Webhook",
    "http": "webhook.Webhook",
    "file": "file_target.FileTarget",
    "redis": "redis_stream.RedisStream",
    "rediss": "redis_stream.RedisStream",
    "mqtt": "mqtt_topic.MqttTopic",
    "mqtts": "mqtt_topic.MqttTopic",
    "kafka": "kafka_topic.KafkaTopic",
}
"""The module of this room and the class of what each scheme means; one is loaded when it is wanted."""


def target_at(url: str, access: Access) -> Target:
    """Return the target that a URL means."""
    place = place_of(url)
    if place.scheme not in SCHEMES:
        raise InputError(f"--to {place.scheme or url[:20]}:... is no target: {', '.join(SCHEMES)} are")
    module, _, name = SCHEMES[place.scheme].partition(".")
    made: Callable[[Place, Access], Target] = getattr(import_module(f"dtoss.watch.targets.{module}"), name)
    return made(place, access)
