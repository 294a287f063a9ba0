"""Which source a URL means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from dtoss.client.endpoint import Place, place_of
from dtoss.errors import InputError
from dtoss.feeds.feed import Feed

SOURCES = {
    "http": "polled_url.PolledUrl",
    "https": "polled_url.PolledUrl",
    "redis": "redis_entries.RedisEntries",
    "rediss": "redis_entries.RedisEntries",
    "mqtt": "mqtt_messages.MqttMessages",
    "mqtts": "mqtt_messages.MqttMessages",
    "kafka": "kafka_messages.KafkaMessages",
}
"""The module of this room and the class of what each scheme means; one is loaded when it is wanted."""


@dataclass(frozen=True)
class Origin:
    """Where a source is, and what is said of it beside its URL."""

    place: Place
    secret: str | None = None  # What opens it: a password, or a token
    every: float = 10.0  # Seconds between two looks, of what is looked at
    timeout: float = 30.0  # Seconds that an answer may take


def feed_at(url: str, secret: str | None = None, every: float = 10.0, timeout: float = 30.0) -> Feed:
    """Return the source that a URL means."""
    place = place_of(url, "--from", parted=url[:4].lower() == "http")
    if place.scheme not in SOURCES:
        raise InputError(f"--from {place.scheme or url[:20]}:... is no source: {', '.join(SOURCES)} are")
    module, _, name = SOURCES[place.scheme].partition(".")
    made: Callable[[Origin], Feed] = getattr(import_module(f"dtoss.feeds.{module}"), name)
    return made(Origin(place, secret, every, timeout))
