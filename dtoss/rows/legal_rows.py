"""What is legal of screened rows: places in a space and within bounds, times by a clock. Reasons where they are not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from dtoss.geometry.space import FURTHEST, SMALLEST, Space
from dtoss.partition import values_of
from dtoss.rows.input_columns import AHEAD_OF_NOW, OUT_OF_BOUNDS
from dtoss.rows.row_plan import ZERO, Marks, where, with_reasons
from dtoss.rows.store_clock import Scale

Step = Callable[[pa.RecordBatch], pa.RecordBatch]
"""What completes the reasons of screened rows."""


def screen_space(space: Space, wrap: bool) -> Step:
    """Return the function that completes the reasons by what is legal in a space; it takes 360 off first to wrap."""

    def screen(rows: pa.RecordBatch) -> pa.RecordBatch:
        x, y = (rows.column(name) for name in ("x", "y"))
        if wrap:
            west = pc.and_(pc.greater(x, 180.0), pc.less_equal(x, 360.0))
            x = pc.if_else(pc.fill_null(west, False), pc.subtract(x, 360.0), x)
            rows = rows.set_column(rows.schema.get_field_index("x"), "x", x)
        places = np.stack([values_of(axis.fill_null(ZERO)) for axis in (x, y)], axis=1)
        there = where(pc.and_(x.is_valid(), y.is_valid()))
        return with_reasons(rows, [(why, bad & there) for why, bad in _out_of_range(places, space)])

    return screen


def _out_of_range(places: NDArray[np.float64], space: Space) -> Marks:
    far: NDArray[np.float64] = np.abs(places)
    near = np.asarray(((places != 0.0) & (far < SMALLEST)).any(axis=1))
    marks: Marks = [("position is infinite", np.asarray(np.isinf(far).any(axis=1)))]
    if space.geographic:
        marks.append(("longitude out of range", far[:, 0] > 180.0))
        marks.append(("latitude out of range", far[:, 1] > 90.0))
        if space.metric == "plane":
            marks.append(("latitude out of range", near))
        return marks
    outside = np.asarray((far > FURTHEST).any(axis=1))
    if space.to_lonlat:
        legal = places.copy()
        # what is larger than it may be has a reason of its own
        legal[~(far <= FURTHEST).all(axis=1)] = 0.0
        outside |= ~space.legal(legal)
    if space.metric == "plane":
        outside |= near
    marks.append(("position out of range", outside))
    return marks


def screen_bounds(bounds: ArrayLike) -> Step:
    """Return the function that completes the reasons by that of places outside xmin, ymin, xmax, ymax."""
    xmin, ymin, xmax, ymax = np.asarray(bounds, dtype=np.float64).tolist()

    def screen(rows: pa.RecordBatch) -> pa.RecordBatch:
        x, y = (rows.column(name) for name in ("x", "y"))
        beyond = [pc.less(x, xmin), pc.greater(x, xmax), pc.less(y, ymin), pc.greater(y, ymax)]
        return with_reasons(rows, [(OUT_OF_BOUNDS, where(one)) for one in beyond])

    return screen


def screen_clock(scale: Scale, ahead_after: float) -> Step:
    """Return the function that completes the reasons by that of times after a moment of a scale."""

    def screen(rows: pa.RecordBatch) -> pa.RecordBatch:
        return with_reasons(rows, [(AHEAD_OF_NOW, scale.numbers(rows.column("t")) > ahead_after)])

    return screen
