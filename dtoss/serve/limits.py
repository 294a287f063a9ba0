"""How much one request may ask for, and how long it may take."""

from __future__ import annotations

from dataclasses import dataclass


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
    """

    k: int = 1_000
    bulk_queries: int = 100_000
    body_bytes: int = 64_000_000
    hits: int = 1_000_000
    corners: int = 10_000
    line_bytes: int = 8_192
    condition_length: int = 1_000
    pool_seconds: float = 30.0
    pool_queue: int = 64
    connections: int = 10_000
    idle_seconds: float = 75.0
    header_seconds: float = 10.0
    evaluations: int = 2
