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
    """Bounds of requests.

    Parameters
    ----------
    k
        Nearest objects of a question.
    bulk_queries
        Questions of one request.
    body_bytes
        Bytes of a request's body.
    hits
        Hits of one answer.
    answer_bytes
        Bytes of all answers of one worker that wait to be read.
    corners
        Corners of all polygons of one request.
    line_bytes
        Bytes of the line that holds a request's method and target.
    condition_length
        Characters of a condition.
    pool_seconds
        Seconds that a request may wait and be worked on in the pool.
    pool_queue
        Requests that may wait for a thread of the pool.
    connections
        Open connections of one worker.
    idle_seconds
        Seconds that a connection may be idle.
    header_seconds
        Seconds within which a request's header has to be complete.
    evaluations
        Conditions that are evaluated at a time.
    live
        Streams of ``/live`` that one worker sends.
    event_streams
        Streams of ``/events`` that one worker sends.
    subscribe_bytes
        Bytes of a body of subscriptions.
    """

    k: int = 1_000
    bulk_queries: int = 100_000
    body_bytes: int = 64_000_000
    hits: int = 1_000_000
    answer_bytes: int = 512_000_000
    corners: int = 10_000
    line_bytes: int = 8_192
    condition_length: int = 1_000
    pool_seconds: float = 30.0
    pool_queue: int = 64
    connections: int = 10_000
    idle_seconds: float = 75.0
    header_seconds: float = 10.0
    evaluations: int = 2
    live: int = 1_000
    event_streams: int = 1_000
    subscribe_bytes: int = 8_000_000


def limits_of(path: str) -> Limits:
    """Return the limits that a TOML file sets; what it leaves out is as usual.

    Parameters
    ----------
    path
        Of a file with lines such as ``k = 200``; its names are those of :class:`Limits`.

    Raises
    ------
    InputError
        If the file cannot be read, or names something else, or a number that is none of this kind.
    """
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
