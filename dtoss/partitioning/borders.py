"""The borders between partitions as kernels pass them on: one argument in stead of six."""

from __future__ import annotations

from typing import Any, NamedTuple

from dtoss.compiled.kernel import kernel
from dtoss.compiled.pointers import pointer


class Fences(NamedTuple):
    """The pivots and borders of all partitions, made inside a kernel by :func:`fences_of`.

    Parameters
    ----------
    pivots, weights
        Pointers to float64, as in :class:`~dtoss.partitioning.regions.Regions`.
    order, border
        Pointers to int32 and float64, as ``order`` and ``distance`` of its borders.
    partitions
        How many there are.
    listed
        Borders that are listed for each.
    """

    pivots: Any
    weights: Any
    order: Any
    border: Any
    partitions: int
    listed: int


@kernel
def fences_of(pivots, weights, order, border):
    """Return the fences of the arrays of regions, in their order; the caller keeps them alive."""
    return Fences(pointer(pivots), pointer(weights), pointer(order), pointer(border), pivots.shape[0], order.shape[1])
