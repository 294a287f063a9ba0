"""The borders between partitions as kernels pass them on: one argument in stead of six."""

from __future__ import annotations

from typing import Any, NamedTuple

from dtoss.compiled.kernel import kernel
from dtoss.compiled.pointers import pointer


class Fences(NamedTuple):
    """The pivots and borders of all partitions, made inside a kernel by :func:`fences_of`."""

    pivots: Any  # pivots, weights: pointers to float64, as in :class:`~dtoss.partitioning.regions.Regions`
    weights: Any
    order: Any  # order, border: pointers to int32 and float64, as ``order`` and ``distance`` of its borders
    border: Any
    partitions: int  # How many there are
    listed: int  # Borders that are listed for each


@kernel
def fences_of(pivots, weights, order, border):
    """Return the fences of the arrays of regions, in their order; the caller keeps them alive."""
    return Fences(pointer(pivots), pointer(weights), pointer(order), pointer(border), pivots.shape[0], order.shape[1])
