"""Arguments as callers give them: whole numbers and numbers in their bounds, or an error that says what is wanted."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ceps.model.number_text import how_many


def whole(name: str, value: Any, least: int, most: int, way_out: str = "") -> int:
    """`value` as an int."""
    good = isinstance(value, (Integral, Real, np.generic)) and not isinstance(value, (bool, np.bool_))
    if not good or value != value or not least <= value <= most or value != int(value):
        raise ValueError(f"{name} = {value!r}; it must be a whole number from {least} to {most}{way_out}")
    return int(value)


def number(name: str, value: Any, wanted: str, *, above: float | None = None, least: float | None = None,
           below: float = np.inf, most: float | None = None) -> float:  # fmt: skip
    """`value` as a float, once it is known to be a number within its bounds."""
    good = isinstance(value, (Real, np.generic)) and not isinstance(value, (bool, np.bool_, str))
    if (
        not good
        or not value < below
        or (above is not None and not value > above)
        or (least is not None and not value >= least)
        or (most is not None and not value <= most)
    ):
        raise ValueError(f"{name} = {value!r}; it must be {wanted}")
    return float(value)


def server_numbers(pinned: ArrayLike, count: int) -> NDArray[np.int64]:
    """int64 (count,), the numbers of the servers that partitions are pinned to, -1 where to none."""
    given = np.asarray(pinned)
    if given.shape != (count,):
        raise ValueError(
            f"pinned has shape {given.shape} but {how_many(count, 'partition')} must have a number each; "
            "-1 means not pinned"
        )
    bad = np.ones(count, np.bool_)
    if given.dtype.kind in "iuf":
        values = given.astype(np.float64)
        bad = ~((values >= -1) & (values <= 2.0**53) & (values == np.floor(values)))
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"pinned[{at}] = {given[at]!s}; it must be the number of a server, a whole number of 0 or more, "
            "or -1 where the partition may stand on any"
        )
    return given.astype(np.int64)
