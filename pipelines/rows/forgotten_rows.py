"""Rows of those who are forgotten go before anything is made of them; they are counted, and no file says whose."""

from __future__ import annotations

from dataclasses import replace

from dtoss.erasure.forgotten import forgotten_in
from pipelines.rows.position_frame import Positions


def without_forgotten(positions: Positions, path: str) -> Positions:
    """Return positions without the rows of those who are forgotten in a store or a history.

    How many these are is ``forgotten`` of what is returned, once the rows were read. Nothing is done where nobody is
    forgotten, or rows have no ids.
    """
    known = forgotten_in(path)
    if known is None or (positions.source is not None and positions.source.id is None):
        return positions
    return replace(positions, frame=positions.frame.without(known))
