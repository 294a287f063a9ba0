"""Settings of librdkafka, as a URL and a secret say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dtoss.client.endpoint import Place
from dtoss.errors import InputError
from dtoss.extras import need


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
