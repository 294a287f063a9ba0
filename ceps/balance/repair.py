"""Ours: a layout that stands is repaired by the cheapest moves, and a cell that is too much for a worker is shared.

Each worker above the mean gives cells away, those with the fewest bytes of subscriptions for their work first, to
whoever has least to do. Where a whole cell is more than anybody has room for, part of it goes: its rows are spread by
their hash, and its subscriptions are stored twice. When such a place cools down, its parts are merged, which moves
nothing.

What the next round is expected to cost by cell: a few guesses, of which the one is taken that has lately been best.

Places that stay are guessed best by the last rounds, noise by more of them, and a hot spot that wanders by cells around
it. Which of these a stream is shows in how well each guess has told what workers had to do.

Everything everywhere as long as it fits a worker's memory, and repair once it does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ceps.balance.baselines import FixedLayout, everything, kd_cut
from ceps.balance.cell_layout import MOST_WORKERS, Floats, Layout
from ceps.balance.cell_moves import Parts
from ceps.balance.round_costs import Loads
from ceps.balance.strategy import Decision, Memory
from ceps.balance.subscription_load import SubscriptionLoad
from ceps.model.argument_checks import number, whole


@dataclass(frozen=True)
class Guess:
    """A way to guess."""

    keep: float  # Weight of what earlier rounds have cost; the last round has the rest
    blur: float = 0.0  # Share of a cell's work that is expected anywhere around it
    side: int = 1  # Rows and columns of the square of cells that is around it

    def __post_init__(self) -> None:
        number("keep", self.keep, "a weight from 0 up to, but not, 1", least=0.0, below=1.0)
        number("blur", self.blur, "a share from 0 to 1", least=0.0, most=1.0)
        whole("side", self.side, 1, 1 << 12)


GUESSES = (Guess(0.3), Guess(0.0), Guess(0.6), Guess(0.0, 0.3, 3), Guess(0.0, 0.6, 5), Guess(0.0, 1.0, 9))
"""What is there to be guessed by, as a rule."""
_FADE = 0.8
"""Weight of how good guesses were before the last round."""


class Forecast(NamedTuple):
    """A guess, and what has to be known for the next one."""

    work: Floats  # float64 (cells,). Shares of the work of all, expected
    # By name: ``mean``, float64 (k, cells), what the k guesses make of rounds before blurring; ``error``, float64 (k,),
    # how far they were off, the last rounds more
    memory: Mapping[str, NDArray[Any]]


def forecast(
    work: Floats, layout: Layout, memory: Mapping[str, NDArray[Any]], guesses: Sequence[Guess] = GUESSES
) -> Forecast:
    """Return what the next round is expected to cost.

    ``work``: float64 (cells,). Of the round that has ended; ``memory``: of the last call; empty, or of another grid,
    before the first; ``guesses``: at least one; the first is taken as long as nothing is known.

    Cost O(guesses x cells).

    Examples
    --------
    >>> from ceps.balance.cell_layout import of_cells
    >>> forecast(np.array([3.0, 1.0]), of_cells((1, 2), 2, [0, 1]), {}).work.tolist()
    [0.75, 0.25]
    """
    now, shape = _as_shares(work), layout.shape
    mean, error = memory.get("mean"), memory.get("error")
    if mean is None or error is None or mean.shape != (len(guesses), len(work)):
        fresh = np.tile(now, (len(guesses), 1))
        return Forecast(now, {"mean": fresh, "error": np.zeros(len(guesses))})
    had = _of_workers(layout, now)
    missed = [
        np.abs(_of_workers(layout, _blurred(one, guess, shape)) - had).sum()
        for one, guess in zip(mean, guesses, strict=True)
    ]
    error = _FADE * error + (1.0 - _FADE) * np.array(missed)
    keep = np.array([guess.keep for guess in guesses])[:, None]
    mean = keep * mean + (1.0 - keep) * now
    best = int(error.argmin())
    return Forecast(_blurred(mean[best], guesses[best], shape), {"mean": mean, "error": error})


def _as_shares(work: Floats) -> Floats:
    """Return work as shares of all, so that busy rounds do not count more than quiet ones; 0 where there is none."""
    total = float(work.sum())
    return work / total if total > 0.0 else np.zeros(len(work))


def _of_workers(layout: Layout, work: Floats) -> Floats:
    return np.bincount(layout.worker, layout.share * work[layout.cell], layout.workers).astype(np.float64)


def _blurred(work: Floats, guess: Guess, shape: tuple[int, int]) -> Floats:
    """Return work of which a share is spread evenly over a square around each cell; none leaves the grid."""
    if guess.blur == 0.0:
        return work
    from scipy.ndimage import uniform_filter

    around: Floats = uniform_filter(work.reshape(shape), guess.side, mode="reflect").ravel()
    return (1.0 - guess.blur) * work + guess.blur * around


@dataclass(frozen=True)
class Repair:
    """Relief of all workers above the mean, within a budget of bytes."""

    workers: int
    budget: float = 0.5  # Share of all subscriptions' bytes that may move in a round
    # A worker gives away what it has above ``1 + slack`` times the mean, and takes up to half the slack
    slack: float = 0.05
    least_share: float = 0.02  # Part of the mean work below which no cell is shared
    # How the next round is guessed by those that have ended; the one that has lately been best is taken
    guesses: tuple[Guess, ...] = GUESSES
    # Parts of a cell are joined where their worker has no more than so many times the mean then
    merge_up_to: float = 1.0

    def __post_init__(self) -> None:
        whole("workers", self.workers, 1, MOST_WORKERS)
        number("budget", self.budget, "a share of all bytes, 0 or more", least=0.0)
        number("slack", self.slack, "a share of the mean, 0 or more", least=0.0)
        number("least_share", self.least_share, "a part of the mean, 0 or more", least=0.0)
        if not self.guesses:
            raise ValueError("guesses is empty; there must be one at least")
        number("merge_up_to", self.merge_up_to, "times the mean, 0 or more", least=0.0)

    def next_layout(self, layout: Layout | None, loads: Loads, asked: SubscriptionLoad, memory: Memory) -> Decision:
        """Return the layout repaired; see :class:`ceps.balance.strategy.Strategy`.

        Without a layout, or from one in which everybody has everything, a kd-tree is cut and relieved. Of another
        number of workers: what those had who are gone goes to others whatever it costs, and new ones are filled by
        repair. Cost O(cells log cells) for each worker above the mean, with few cells moved.
        """
        if layout is None or self._anew(layout, loads):
            # what it begins with may be a guess, and is not remembered
            begun = Parts.of(kd_cut(loads, asked, self.workers), self.workers, loads.work, loads.bytes)
            begun.relieve(0.0, self.least_share, np.inf)
            return Decision(begun.layout())
        expected = forecast(loads.work, layout, memory, self.guesses)
        parts = Parts.of(layout, self.workers, expected.work, loads.bytes)
        parts.merge(self.merge_up_to)
        parts.relieve(self.slack, self.least_share, self.budget * float(loads.bytes.sum()))
        return Decision(parts.layout() if parts.changed else layout, expected.memory, loads.message_bytes)

    def _anew(self, layout: Layout, loads: Loads) -> bool:
        everything = layout.everywhere and layout.workers > 1
        return layout.shape != loads.shape or len(layout.words) > 0 or everything


@dataclass(frozen=True)
class Auto:
    """Replicated while the index fits, else ours."""

    workers: int
    memory_bytes: float  # That the subscriptions of a worker may take

    def __post_init__(self) -> None:
        whole("workers", self.workers, 1, MOST_WORKERS)
        number("memory_bytes", self.memory_bytes, "bytes above 0", above=0.0)

    def next_layout(self, layout: Layout | None, loads: Loads, asked: SubscriptionLoad, memory: Memory) -> Decision:
        """Return the layout of one of the two; see :class:`ceps.balance.strategy.Strategy`."""
        if float(asked.bytes.sum()) > self.memory_bytes:
            return Repair(self.workers).next_layout(layout, loads, asked, memory)
        everywhere = layout is not None and layout.everywhere
        return FixedLayout(self.workers, everything).next_layout(layout if everywhere else None, loads, asked, memory)
