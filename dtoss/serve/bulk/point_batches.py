"""Questions about many places: in pieces between which it is asked whether anybody still waits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dtoss.queries.range_stream import COUNTED, pieces_of
from dtoss.queries.raw_hits import RawHits
from dtoss.serve.answers.arrow_out import BATCH_HITS
from dtoss.serve.answers.open_snapshots import ServedSnapshot
from dtoss.serve.bulk.hit_rows import Form, Rows, parts_of, rows_of, rows_of_hits
from dtoss.serve.core.pool import Stop
from dtoss.serve.core.problems import Problem
from dtoss.serve.observability.metrics import Metrics

SEARCHED = 1 << 18
"""Hits that are searched for at a time: the more places there are, the nearer the next one is along the curve."""
REVERSED = 64
"""Places that are asked about their reverse nearest at a time: that is work in Python."""


def nearest(
    served: ServedSnapshot,
    positions: NDArray[np.float64],
    radius: NDArray[np.float64],
    k: int,
    where: str | None,
    form: Form,
    stop: Stop,
    metrics: Metrics,
) -> tuple[Iterator[Rows], int | None]:
    """Return the k nearest of each place, and k if each has so many.

    ``positions``: (m, 2), legal; ``radius``: (m,). No hit is further.
    """
    index = served.index
    needed = places_needed(served, form)
    step = max(SEARCHED // k, 1)
    found: list[tuple[int, RawHits]] = []
    for at in range(0, len(positions), step):
        stop.check()
        rows = slice(at, at + step)
        found.append((at, index.search(positions[rows], radius[rows], k, where, places=needed)))
        tell_reads(metrics, found[-1][1])
    full = form.having is None and all(bool((piece.count == k).all()) for _, piece in found)
    parts = ((at + first, part) for at, piece in found for first, part in parts_of(piece))
    return (rows_of(served, first, part, form) for first, part in parts), k if full and found else None


def count_within(
    served: ServedSnapshot,
    positions: NDArray[np.float64],
    radius: NDArray[np.float64],
    where: str | None,
    stop: Stop,
    metrics: Metrics,
) -> NDArray[np.int64]:
    """Return how many objects lie within a radius of each place; parameters as :func:`nearest`."""
    counts = np.zeros(len(positions), np.int64)
    for at in range(0, len(positions), COUNTED):
        stop.check()
        rows = slice(at, at + COUNTED)
        found = served.index.search(positions[rows], radius[rows], -1, where)
        counts[rows] = found.count
        tell_reads(metrics, found)
    return counts


def within_radius(
    served: ServedSnapshot,
    positions: NDArray[np.float64],
    radius: NDArray[np.float64],
    counts: NDArray[np.int64],
    where: str | None,
    form: Form,
) -> Iterator[Rows]:
    """Yield all objects within a radius of each place, so many at a time, found when they are asked for."""
    needed = places_needed(served, form)

    def search(rows: slice) -> RawHits:
        return served.index.search(positions[rows], radius[rows], 0, where, places=needed)

    for first, found in pieces_of(len(positions), BATCH_HITS, counts.__getitem__, search):
        yield rows_of(served, first, found, form)


def reversed_nearest(served: ServedSnapshot, positions: NDArray[np.float64], stop: Stop) -> list[Rows]:
    """Return the objects that are nearer to each place than to any other; parameters as :func:`nearest`."""
    found = []
    for at in range(0, len(positions), REVERSED):
        stop.check()
        rows = rows_of_hits(served.index.reverse_nearest(positions[at : at + REVERSED]))
        found.append(Rows(rows.query + at, rows.ids, rows.distance, rows.columns))
    return found


def check_hits(hits: int, most: int, way_out: str) -> None:
    """Refuse an answer of too many hits."""
    if hits > most:
        raise Problem(
            413,
            f"there are {hits:,} hits: at most {most:,} go into an answer; {way_out}",
            limit="hits",
            value=hits,
            bound=most,
        )


def places_needed(served: ServedSnapshot, form: Form) -> bool:
    """Return whether it has to be known where hits are, and not only ids and distances."""
    return bool(form.columns) or form.having is not None or served.index.string_ids


def tell_reads(metrics: Metrics, found: RawHits) -> None:
    """Tell how many partitions were read."""
    metrics.read(int(found.reads.sum()), len(found.reads))
