"""Questions about boxes and polygons: counted before they are listed, looked at in pieces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dtoss.index import Index
from dtoss.queries.areas.covered import Shape, search_within
from dtoss.queries.raw_hits import RawHits
from dtoss.serve.answers.open_snapshots import ServedSnapshot
from dtoss.serve.bulk.hit_rows import Form, Rows, parts_of, rows_of
from dtoss.serve.bulk.point_batches import check_hits, tell_reads
from dtoss.serve.core.paces import USUAL_SIZES
from dtoss.serve.core.pool import Stop
from dtoss.serve.core.problems import Problem
from dtoss.serve.observability.metrics import Metrics

COVER = 4
"""Times as many objects as an answer may have that discs which cover a shape may hold: so much larger they may be."""
SMALLER_SHAPES = "ask for smaller shapes, or for fewer at a time"
DISCS = 1_024
"""Discs whose objects are counted at a time."""


def found_within(
    index: Index,
    shapes: list[list[Shape]],
    corners: int,
    where: str | None,
    most: int,
    stop: Stop,
    metrics: Metrics,
    tested: int = USUAL_SIZES.tested,
) -> RawHits:
    """Return the objects within each shape, by id, each once; distances are 0."""
    discs = [shape.discs for whole in shapes for shape in whole]
    if discs:
        centres = np.concatenate([one.centres for one in discs])
        radii = np.concatenate([one.radii for one in discs])
        held = 0
        for at in range(0, len(radii), DISCS):
            stop.check()
            found = index.search_vectors(centres[at : at + DISCS], radii[at : at + DISCS], -1, where)
            tell_reads(metrics, found)
            held += int(found.count.sum())
            if held > COVER * most:
                raise Problem(
                    413,
                    f"discs that cover the shapes hold {held:,} objects or more: at most {COVER * most:,} are looked "
                    f"at; {SMALLER_SHAPES}",
                    limit="hits",
                    value=held,
                    bound=most,
                )
    stop.check()

    def search(centres: NDArray[np.float64], radii: NDArray[np.float64]) -> RawHits:
        return index.search_vectors(centres, radii, 0, where)

    checked = [[_asking(shape, max(tested // max(corners, 1), 1), stop) for shape in whole] for whole in shapes]
    return search_within(checked, search, index.parts, index.space, index.string_ids)


def _asking(shape: Shape, rows: int, stop: Stop) -> Shape:
    """Return a shape that looks at so many objects at a time."""

    def holds(positions: NDArray[np.float64], vectors: NDArray[np.float64]) -> NDArray[np.bool_]:
        inside = np.zeros(len(positions), np.bool_)
        for at in range(0, len(positions), rows):
            stop.check()
            inside[at : at + rows] = shape.holds(positions[at : at + rows], vectors[at : at + rows])
        return inside

    return replace(shape, holds=holds)


def list_hits(served: ServedSnapshot, found: RawHits, form: Form, most: int) -> Iterator[Rows]:
    """Return the hits of shapes, so many at a time."""
    check_hits(len(found.distance), most, SMALLER_SHAPES)
    return (rows_of(served, first, part, form) for first, part in parts_of(found))
