"""Questions that are more than a server answers at a time: asked in pieces that one snapshot answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from dtoss.client.http_connections import Answer, Gone, TooMuch
from dtoss.errors import StoreError

T = TypeVar("T")
PLACES_AT_A_TIME = 100_000
"""Queries that are asked at a time, at the most."""
BEGINNINGS = 3
"""How often it is begun again where snapshots go while they are asked."""
SPLIT_AT = ("hits", "bulk_queries", "rows", "body_bytes", "corners")
"""Limits that a smaller piece keeps."""


def answered_whole(
    queries: int,
    most: int,
    ask: Callable[[slice, str | None], tuple[Answer, T]],
    pinned: str | None,
    where: str,
) -> tuple[list[T], str]:
    """Return what was found for all queries, in order of the pieces, and the snapshot that answered all of them.

    ``queries``: how many there are; without any, an empty piece is asked all the same; ``most``: queries of a piece, at
    the most; ``pinned``: the snapshot that has to answer; where it is None, what answers the first piece answers the
    others.
    """
    for _ in range(BEGINNINGS):
        found: list[T] = []
        snapshot = pinned
        waiting = [slice(at, min(at + most, queries)) for at in range(0, max(queries, 1), most)][::-1]
        try:
            while waiting:
                rows = waiting.pop()
                try:
                    answer, piece = ask(rows, snapshot)
                except TooMuch as error:
                    waiting += smaller_pieces(rows, error)[::-1]
                    continue
                found.append(piece)
                snapshot = snapshot or answer.snapshot
        except Gone:
            if pinned is not None:
                raise
            continue
        return found, snapshot or ""
    raise StoreError(
        f"snapshots at {where} went {BEGINNINGS} times while {queries:,} queries were asked: ask for fewer at a time"
    )


def smaller_pieces(rows: slice, error: TooMuch) -> list[slice]:
    """Return pieces of a piece that was too much."""
    size = rows.stop - rows.start
    if size < 2 or error.limit not in SPLIT_AT:
        raise error from None
    parts = 2
    if isinstance(error.value, (int, float)) and isinstance(error.bound, (int, float)) and error.bound > 0:
        parts = int(min(max(1.25 * error.value / error.bound + 1, 2), size))
    step = -(-size // parts)
    return [slice(at, min(at + step, rows.stop)) for at in range(rows.start, rows.stop, step)]
