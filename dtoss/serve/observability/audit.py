"""The audit: a line of JSON for each request, of who asked what, written as the log is.

Handlers note in the scope of a request what its target does not tell: how many hits it had, and the places of a body.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.errors import InputError
from dtoss.serve.observability.log_lines import Log

NOTED_HITS, NOTED_PLACES = "dtoss.hits", "dtoss.places"
ASKER = b"x-dtoss-asker"
"""The header by which servers of a plan tell each other for whom they ask."""
MOST_ASKERS = 32
"""Names of a message; others are told as one."""
_HIT = b'"distance":'
"""In each hit of an answer without attributes; in texts a backslash stands before the second quotation mark."""


def note(scope: Any, *, hits: int | None = None, positions: NDArray[np.float64] | None = None) -> None:
    """Note how many hits a request had, and the places that its body asks about, (n, 2)."""
    if hits is not None:
        scope[NOTED_HITS] = hits
    if positions is not None:
        around = [*positions.min(axis=0).tolist(), *positions.max(axis=0).tolist()] if len(positions) else []
        scope[NOTED_PLACES] = len(positions), around


def counting(scope: Any, pieces: Iterable[Any]) -> Iterator[Any]:
    """Yield pieces of hits, and note how many have been sent; each has an array ``query``."""
    scope[NOTED_HITS] = 0
    for rows in pieces:
        scope[NOTED_HITS] += len(rows.query)
        yield rows


def hits_in(body: bytes) -> int:
    """Return how many hits the JSON of an answer without attributes has.

    Examples
    --------
    >>> hits_in(b'{"snapshot":"a","hits":[{"id":"x","distance":1.0},{"id":"y","distance":2.0}]}')
    2
    """
    return body.count(_HIT)


def askers(names: Iterable[str]) -> bytes:
    """Return for whom a message asks, each name with how many of its questions; empty where none is known.

    Examples
    --------
    >>> askers(["fleet", "map", "fleet", ""])
    b'fleet=2,map=1'
    """
    known = Counter(name for name in names if name)
    most = known.most_common(MOST_ASKERS)
    others = known.total() - sum(count for _, count in most)
    return ",".join(f"{name}={count}" for name, count in [*most, *([("*", others)] if others else [])]).encode()


class Audit:
    """The audit of one process."""

    def __init__(self, file: str, worker: int | None = None, dropped: Any = None) -> None:
        try:
            self._log = Log(file, worker=worker, dropped=dropped, most=None)
        except InputError as error:
            raise InputError(f"--audit: {error}") from None
        self.close = self._log.close

    def request(
        self,
        *,
        id: str,
        token: str,
        client: Any,
        method: str,
        route: str,
        target: bytes,
        status: int,
        hits: int | None = None,
        places: tuple[int, list[float]] | None = None,
        asker: bytes | None = None,
    ) -> None:
        """Write a line. ``hits``: how many there were; None where there is no such number."""
        facts: dict[str, Any] = {"id": id, "token": token, "client": client[0] if client else None}
        facts |= {"method": method, "route": route, "target": target.decode("latin-1"), "status": status}
        if hits is not None:
            facts["hits"] = hits
        if places is not None:
            facts["places"], facts["around"] = places
        if asker is not None:
            facts["for"] = asker.decode("latin-1")
        self._log.event("request", **facts)
