"""Packing a problem onto a given fleet: the largest relative peak made as small as it gets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from ceps.model.problem import TOLERANCE, Floats, Ints, Problem, sum_by_label

Tick = Callable[[float], None]


@dataclass(frozen=True)
class Effort:
    """How long a search goes on."""

    idle: int = 100  # Tabu stops after this many steps without a better best
    steps: int = 20_000  # And after this many steps in all
    pairs: int = 20_000  # Swaps looked at in a step, about
    # Clock time (`time.monotonic`) at which to stop, or None. With a deadline, two runs may differ
    deadline: float | None = None

    @property
    def over(self) -> bool:
        """Whether the deadline has passed."""
        return self.deadline is not None and monotonic() >= self.deadline


@dataclass(eq=False)
class Packing:
    """A placement on a fleet while it is searched; changed in place.

    `types` int64 (K,) is the fleet; `label` int64 (M,) the server of each item, -1 = none.
    """

    problem: Problem
    types: Ints
    label: Ints
    columns: Floats = field(init=False)
    load: Floats = field(init=False)
    peak: Floats = field(init=False)
    slot: Ints = field(init=False)
    scale: Floats = field(init=False)
    held: Ints = field(init=False)

    def __post_init__(self) -> None:
        problem = self.problem
        self.label = np.array(self.label, dtype=np.int64)
        self.scale = np.column_stack([1 / problem.rates[self.types], 1 / problem.room[self.types]])
        # Busy slots first: sums that are cut short at a bound are cut sooner.
        busy = np.argsort(-problem.total[:-1], kind="stable")
        # Empty slots fill them up to a multiple of 8, for the vector code.
        self.columns = np.zeros((len(problem), len(busy) + -len(busy) % 8 + 1))
        self.columns[:, : len(busy)] = problem.columns[:, busy]
        self.columns[:, -1] = problem.bytes
        self.refresh()

    def refresh(self) -> None:
        """Sum loads, peaks and groups afresh from the labels, so that no rounding of moves is left."""
        from ceps.kernels.pack import find_peak

        servers = len(self.types)
        self.load = np.zeros((servers, self.columns.shape[1]))
        placed = np.flatnonzero(self.label >= 0)
        sums = sum_by_label(self.columns[placed], self.label[placed])
        self.load[: len(sums)] = sums
        self.peak, self.slot = np.zeros(servers), np.zeros(servers, dtype=np.int64)
        for k in range(servers):
            find_peak(self.load, self.scale, k, self.peak, self.slot)
        group_of, starts = self.problem.group_of, self.problem.group_start
        self.held = np.zeros((servers, int(group_of.max(initial=-1)) + 1), dtype=np.int64)
        item = np.repeat(np.arange(len(self.label)), np.diff(starts))
        here = self.label[item] >= 0
        np.add.at(self.held, (self.label[item[here]], group_of[here]), 1)

    @property
    def worst(self) -> float:
        """Largest relative peak: at most 1 when everything fits; infinite while an item has no server."""
        if (self.label < 0).any():
            return np.inf
        return float(self.peak.max(initial=0.0))

    @property
    def fits(self) -> bool:
        """Whether no server is overloaded in any slot."""
        return self.worst <= 1 + TOLERANCE

    def fill(self) -> int:
        """Place the items without a server, largest relative peak first; returns how many found none."""
        from ceps.kernels.pack import fill

        problem = self.problem
        size = np.maximum(problem.peaks / problem.rates.max(), problem.bytes / problem.room.max())
        order = np.argsort(-size, kind="stable")
        return int(
            fill(
                self.columns, self.scale, order, self.label, self.load, self.peak, self.slot, self.held,
                problem.group_start, problem.group_of,
            )
        )  # fmt: skip

    def balance(self, rng: np.random.Generator, effort: Effort, target: float = 0.0, tick: Tick | None = None) -> float:
        """Tabu search for the smallest largest peak, down to `target`; keeps the best and returns it.

        `tick`, if given, is called now and then with the best so far.
        """
        from ceps.kernels.pack import tabu

        return self._search(tabu, self.worst, rng, effort, tick, target)

    def relieve(
        self,
        rng: np.random.Generator,
        effort: Effort,
        home: Ints | None = None,
        burden: Floats | None = None,
        tick: Tick | None = None,
    ) -> float:
        """Tabu search until no server is overloaded or the effort is spent; keeps the best; returns `worst`.

        With `home` (M,), servers the items are at now (-1: nowhere), each item that leaves its home counts as
        `burden` (M,) times the present overload: little is moved.
        """
        from ceps.kernels.overload_search import overload, relieve

        if (self.label < 0).any():
            return np.inf
        nothing = np.zeros(self.load.shape[1])
        total = sum(overload(self.load, self.scale, k, nothing, nothing, np.inf) for k in range(len(self.types)))
        home = np.full(len(self.label), -1) if home is None else home
        burden = np.zeros(len(self.label)) if burden is None else burden
        return self._search(relieve, total, rng, effort, tick, extra=(home, burden))

    def send_home(self, home: Ints) -> None:
        """Put items back on their servers `home` wherever that overloads nothing, most bytes first."""
        from ceps.kernels.overload_search import send_home

        problem = self.problem
        away = np.flatnonzero((home >= 0) & (self.label != home))
        order = away[np.argsort(-problem.bytes[away], kind="stable")]
        send_home(
            self.columns, self.scale, self.label, self.load, self.peak, self.slot, self.held, problem.group_start,
            problem.group_of, home, order, 1 + TOLERANCE / 2,
        )  # fmt: skip
        self.refresh()

    def _search(
        self,
        kernel: Callable[..., tuple[float, int, int]],
        best: float,
        rng: np.random.Generator,
        effort: Effort,
        tick: Tick | None,
        target: float | None = None,
        extra: tuple[NDArray, ...] = (),
    ) -> float:
        problem, step, found_at = self.problem, 0, 0
        best_label = self.label.copy()
        forbidden = np.zeros((len(self.types), len(problem)), dtype=np.int32)
        state = rng.integers(1, 2**63, size=1, dtype=np.uint64)
        chunk = effort.steps if effort.deadline is None and tick is None else 20
        last = () if target is None else (target,)
        peaks = () if target is None else (self.peak, self.slot)
        while best > (target or 0.0) and step - found_at < effort.idle and not effort.over:
            before = step
            idle = effort.idle - (step - found_at)
            best, step, found = kernel(
                self.columns, self.scale, self.label, self.load, *peaks, self.held, problem.group_start,
                problem.group_of, *extra, forbidden, state, best_label, best, step,
                min(chunk, effort.steps - step), idle, effort.pairs, *last,
            )  # fmt: skip
            found_at = found if found > before else found_at
            if step == before or step >= effort.steps:
                break
            if tick is not None:
                tick(best)
        self.label = best_label
        self.refresh()
        return self.worst
