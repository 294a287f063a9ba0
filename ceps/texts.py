"""Numbers of things, as people write them."""

from __future__ import annotations

_PLURALS = {"copy": "copies", "leaf": "leaves", "trajectory": "trajectories"}


def how_many(count: float, noun: str) -> str:
    """Return a number and its noun, in the singular for 1.

    Examples
    --------
    >>> how_many(1, "server"), how_many(0, "day"), how_many(1234, "partition"), how_many(2, "copy")
    ('1 server', '0 days', '1,234 partitions', '2 copies')
    >>> how_many(1.0, "day"), how_many(2.5, "day")
    ('1 day', '2.5 days')
    """
    return f"{count:,g} {noun if count == 1 else _plural(noun)}" if count < 1e6 else f"{count:,.0f} {_plural(noun)}"


def _plural(noun: str) -> str:
    return _PLURALS.get(noun, noun + "s")
