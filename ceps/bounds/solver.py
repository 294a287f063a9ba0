"""The one place where integer programs go to HiGHS, with what experience with it taught."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

SMALLEST = 1e-6
"""Coefficients below this are dropped. With tiny ones (4e-8) and presolve, HiGHS in scipy 1.17 called solutions
optimal that brute force beats; without them no case of that is known. Rows are to be scaled to about 1, and dropping
must only ever relax the program, so that its bound stays valid."""


@dataclass(frozen=True, eq=False)
class Answer:
    """What the solver said."""

    # float64 (n,), the best solution found, or None. Integers up to 1e-6; judge it on the original data
    x: NDArray[np.float64] | None
    bound: float  # No solution costs less; -inf if the solver gave none
    finished: bool  # Whether it ended by itself: `x` is then optimal, or None because there is no solution


def minimise(
    cost: NDArray[np.float64],
    matrix: object,
    least: ArrayLike,
    most: ArrayLike,
    *,
    upper: ArrayLike = 1.0,
    seconds: float = 60.0,
    gap: float = 0.0,
    integral: ArrayLike = 1.0,
) -> Answer:
    """Minimise cost @ x over integers 0 <= x <= upper with least <= matrix @ x <= most.

    Where `integral` is 0, x may be any number. `matrix` is dense or sparse.

    Runs without presolve, in silence: HiGHS prints to the process's standard output.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    rows = csr_array(matrix)
    rows.data[np.abs(rows.data) < SMALLEST] = 0.0
    rows.eliminate_zeros()
    with _silence():
        found = milp(
            cost,
            constraints=LinearConstraint(rows, least, most),
            integrality=np.broadcast_to(np.asarray(integral, dtype=np.float64), cost.shape),
            bounds=Bounds(0, np.broadcast_to(np.asarray(upper, dtype=np.float64), cost.shape)),
            options={"time_limit": max(seconds, 0.1), "mip_rel_gap": gap, "presolve": False},
        )
    bound = -np.inf if found.mip_dual_bound is None else float(found.mip_dual_bound)
    if not np.any(integral):  # the solver keeps no such bound of a linear program, whose optimum it is
        bound = float(found.fun) if found.status == 0 else -np.inf
    return Answer(found.x, bound, found.status in (0, 2))


@contextmanager
def _silence() -> Iterator[None]:
    """Send file descriptor 1 to nowhere for a while; what Python prints is flushed before."""
    sys.stdout.flush()
    try:
        saved = os.dup(1)
    except OSError:  # closed: nothing to silence
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)
        os.close(nowhere)
