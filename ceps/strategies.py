"""Strategies by their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import partial

from ceps.balance.baselines import CurveCut, FixedLayout, Strategy, everything, kd_cut, tiles
from ceps.balance.ps2stream.kdt import space_leaves, words_by_frequency
from ceps.balance.ps2stream.ps2stream import PS2Stream
from ceps.balance.repair import Auto, Repair
from ceps.balance.swarm import Swarm, history_grid, uniform_grid

_MADE: Mapping[str, Callable[[int], Strategy]] = {
    "replicated": partial(FixedLayout, first=everything),
    "uniform": partial(FixedLayout, first=uniform_grid),
    "history": partial(FixedLayout, first=history_grid),
    "kd": partial(FixedLayout, first=kd_cut),
    "rtree": partial(FixedLayout, first=tiles),
    "space": partial(FixedLayout, first=space_leaves),
    "words": partial(FixedLayout, first=words_by_frequency),
    "swarm": Swarm,
    "swarm-work": partial(Swarm, cost="work"),
    "swarm-always": partial(Swarm, cost="work", decision="always", moves=8),
    "ps2stream": PS2Stream,
    "ps2stream-work": partial(PS2Stream, load="work"),
    "curve": CurveCut,
    "ours": Repair,
}
AUTO = "auto"
BY_WORDS = frozenset({"words", "ps2stream", "ps2stream-work"})
"""Those that split cells by words, where they know what rows say."""


def names() -> tuple[str, ...]:
    """Return the names of all strategies."""
    return (*_MADE, AUTO)


def strategy_of(name: str, workers: int, memory_bytes: float | None = None) -> Strategy:
    """Return a strategy with its usual parameters.

    ``memory_bytes``: of a worker; "auto" wants it.

    Examples
    --------
    >>> strategy_of("curve", 8)
    CurveCut(workers=8)
    """
    if name == AUTO:
        if memory_bytes is None:
            raise ValueError("strategy 'auto' wants the memory of a worker (--memory 4g): everything may have to fit")
        return Auto(workers, memory_bytes)
    if name not in _MADE:
        near = get_close_matches(name, names(), 1)
        way = f"did you mean {near[0]}?" if near else f"there are {', '.join(names())}"
        raise ValueError(f"there is no strategy {name!r}; {way}")
    return _MADE[name](workers)
