"""How much one request may ask for, and how long it may take."""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from dtoss.errors import InputError


@dataclass(frozen=True)
class Limits:
    """Bounds of requests."""

    k: int = 1_000  # Nearest objects of a question
    bulk_queries: int = 100_000  # Questions of one request
    body_bytes: int = 64_000_000  # Bytes of a request's body
    hits: int = 1_000_000  # Hits of one answer
    answer_bytes: int = 512_000_000  # Bytes of all answers of one worker that wait to be read
    corners: int = 10_000  # Corners of all polygons of one request
    line_bytes: int = 8_192  # Bytes of the line that holds a request's method and target
    condition_length: int = 1_000  # Characters of a condition
    pool_seconds: float = 30.0  # Seconds that a request may wait and be worked on in the pool
    pool_queue: int = 64  # Requests that may wait for a thread of the pool
    connections: int = 10_000  # Open connections of one worker
    idle_seconds: float = 75.0  # Seconds that a connection may be idle
    header_seconds: float = 10.0  # Seconds within which a request's header has to be complete
    evaluations: int = 2  # Conditions that are evaluated at a time
    live: int = 1_000  # Streams of ``/live`` that one worker sends
    event_streams: int = 1_000  # Streams of ``/events`` that one worker sends
    subscribe_bytes: int = 8_000_000  # Bytes of a body of subscriptions


def limits_of(path: str) -> Limits:
    """Return the limits that a TOML file sets; what it leaves out is as usual."""
    try:
        told = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"--limits {path}: {getattr(error, 'strerror', None) or error}") from None
    kinds = {field.name: type(field.default) for field in fields(Limits)}
    for name in told:
        if name not in kinds:
            raise InputError(f"--limits {path}: there is no limit {name!r}; there are {', '.join(sorted(kinds))}")
    return Limits(**{name: _number(path, name, value, kinds[name]) for name, value in told.items()})


def _number(path: str, name: str, value: Any, kind: type) -> Any:
    """Return a limit's number, of the kind of its default."""
    plain = isinstance(value, kind | int) and not isinstance(value, bool)
    if not plain or not math.isfinite(value) or value <= 0:
        wanted = "a whole number" if kind is int else "a number"
        raise InputError(f"--limits {path}: {name} is {value!r}: {wanted} above 0 is wanted")
    return kind(value)
