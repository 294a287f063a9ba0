"""The places of a request's body, JSON or Arrow, checked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoss.arguments import distances
from dtoss.geometry.space import Space, as_positions
from dtoss.serve.answers.json_out import ARROW_TYPE
from dtoss.serve.answers.responses import Asker
from dtoss.serve.bulk.arrow_in import columns_in
from dtoss.serve.bulk.json_in import lists_in
from dtoss.serve.core.pool import Stop
from dtoss.serve.core.problems import Problem


@dataclass(frozen=True, eq=False)
class Places:
    """Places that are asked about."""

    positions: NDArray[np.float64]  # float64 (m, 2), legal
    radius: NDArray[np.float64] | None  # float64 (m,), or None where the body has none

    def __len__(self) -> int:
        return len(self.positions)


AS_JSON = ("application/json", "application/x-www-form-urlencoded", "")
"""Types of bodies that are read as JSON: the second is what curl says of any body."""


def is_arrow(request: Asker) -> bool:
    """Return whether a body is an Arrow stream."""
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind == ARROW_TYPE.decode():
        return True
    if kind in AS_JSON or kind.endswith("+json"):
        return False
    raise Problem(
        415,
        f"the body is of type {kind[:100]!r}: application/json or {ARROW_TYPE.decode()} is read",
        limit="content-type",
        value=kind[:100],
        bound=["application/json", ARROW_TYPE.decode()],
    )


def places_in(
    body: bytes | bytearray, arrow: bool, space: Space, most: int, stop: Stop, radius: bool = False
) -> Places:
    """Return the places of a body.

    ``most``: places at the most.
    """
    names = ("lon", "lat") if space.geographic else ("x", "y")
    if arrow:
        columns = columns_in(body, names, ("radius",) if radius else (), most, stop.check)
        positions = np.stack([columns[name] for name in names], axis=1)
        radii = columns.get("radius")
    else:
        positions, radii = lists_in(body, "positions", 2, most, stop.check, radius)
    positions = as_positions(positions, space)
    if radii is not None:
        radii = distances("radius", radii, len(positions))
        if len(endless := np.flatnonzero(radii == np.inf)):
            raise ValueError(f"radius row {int(endless[0])} is inf: a finite number is wanted")
    return Places(positions, radii)
