"""The bounds of a planar index: given, or the box of its objects grown by a tenth."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dtoss.geometry.space import FURTHEST
from dtoss.plain_numbers import floats


def planar_bounds(vectors: NDArray[np.float64], bounds: ArrayLike | None) -> NDArray[np.float64]:
    """Return the rectangle that planar cells are clipped to, float64 (4,)."""
    low = vectors.min(axis=0) if len(vectors) else np.zeros(2)
    high = vectors.max(axis=0) if len(vectors) else np.zeros(2)
    return bounds_round(low, high, bounds)


def bounds_round(low: NDArray[np.float64], high: NDArray[np.float64], bounds: ArrayLike | None) -> NDArray[np.float64]:
    """Return bounds that hold the box ``low, high``: those given, or the box grown by a tenth of its longer side."""
    if bounds is None:
        side = float((high - low).max())
        margin = 0.1 * side if side > 0.0 else 1.0
        return np.concatenate([low - margin, high + margin])
    try:
        box = floats(bounds)
    except (TypeError, ValueError, OverflowError):
        box = np.zeros(0)
    if box.shape != (4,) or not np.isfinite(box).all() or not (box[0] < box[2] and box[1] < box[3]):
        raise ValueError(
            f"bounds are {np.asarray(bounds).tolist()}: xmin, ymin, xmax, ymax with xmin < xmax, ymin < ymax"
        )
    if np.abs(box).max() > FURTHEST:
        raise ValueError(f"bounds are {box.tolist()}: at most {FURTHEST:g} in size is legal")
    if (low < box[:2]).any() or (high > box[2:]).any():
        raise ValueError(
            f"bounds {box.tolist()} do not hold all objects, which reach from {low.tolist()} to {high.tolist()}"
        )
    return box
