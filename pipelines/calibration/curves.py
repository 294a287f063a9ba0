"""What questions cost by how much they ask for: as curves that never fall."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ceps.model.costs import Curve

KS = (1, 8, 64, 512, 4096)
"""The k of which the cost of a question is measured, as far as there are so many objects."""
RADII = 8
"""Radii of which it is measured: from the nearest object to all of them, each so many times the one before."""


def weights_by_k(ks: Sequence[int], weights: Sequence[float], base: int) -> list[float]:
    """Return the weights of the first questions: the base counts as 1, a smaller k as no more, a larger as no less."""
    at = ks.index(base)
    smaller: NDArray[np.float64] = np.minimum(weights[:at], 1.0)
    larger: NDArray[np.float64] = np.maximum(weights[at + 1 : len(ks)], 1.0)
    return [*smaller.tolist(), 1.0, *larger.tolist()]


def curve(asked: Sequence[float], weights: Sequence[float]) -> Curve:
    """Return pairs that never fall: what asks for more does not cost less, whatever was measured."""
    rising = np.maximum.accumulate(np.array(weights, np.float64))
    pairs = [(float(at), float(f"{weight:.3g}")) for at, weight in zip(asked, rising, strict=True)]
    return tuple(pair for before, pair in zip([(0.0, 0.0), *pairs], pairs, strict=False) if pair[0] > before[0])
