"""A client of Redis, as a URL says, and what its errors say."""

from __future__ import annotations

from typing import Any

from dtoss.client.endpoint import Place, printable
from dtoss.errors import InputError
from dtoss.extras import need
from dtoss.plain_numbers import is_whole

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
