"""When to split and when to combine (section 5.1.1), by the formulas as written and as they must be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.windows.enorm.spans import Window, instances_of_a_row

WRITTEN, INSTANCES, PANES = "as written", "W = sum of length / frequency", "on panes, merging counted"
READINGS = (WRITTEN, INSTANCES, PANES)


@dataclass(frozen=True)
class Load:
    """What a component has to do in the longest window p; seconds of a processor.

    Parameters
    ----------
    rows : T_p.
    a_row : E, the user's code of a row.
    panes : PW_p.
    groups : key groups.
    a_group : K_1, a key group's state of a pane as bytes and back.
    moved : MK_p, key groups that are migrated.
    latency : L, the pause of one that is migrated with its state.
    windows : what is made.
    merging : what making all windows of p of panes costs; in neither formula of the paper.
    """

    rows: float
    a_row: float
    panes: int
    groups: int
    a_group: float
    moved: float
    latency: float
    windows: tuple[Window, ...]
    merging: float = 0.0

    def overlapping(self, reading: str) -> float:
        """Return W: the windows' number as written; else how many instances a row falls into."""
        return len(self.windows) if reading == WRITTEN else instances_of_a_row(self.windows)

    def split_cpu(self, reading: str = WRITTEN) -> float:
        """Return T E + PW K_1 G + MK K_1, with the merging where it is counted."""
        extra = self.merging if reading == PANES else 0.0
        return self.rows * self.a_row + self.panes * self.a_group * self.groups + self.moved * self.a_group + extra

    def combine_cpu(self, reading: str = WRITTEN) -> float:
        """Return T W E + MK K_1 PW; on panes T E + MK K_1 PW and the merging, which is what 7.1 and 7.7 run."""
        moves = self.moved * self.a_group * self.panes
        if reading == PANES:
            return self.rows * self.a_row + moves + self.merging
        return self.rows * self.overlapping(reading) * self.a_row + moves

    def latency_of(self, action: str) -> float:
        """Return the pauses in p: none where split, MK L where combined."""
        return self.moved * self.latency if action == "combine" else 0.0

    def best(self, reading: str = WRITTEN, most_latency: float = float("inf")) -> str:
        """Return "split" or "combine": the cheaper of those that pause no longer than allowed (5.1.2)."""
        costs = {"split": self.split_cpu(reading), "combine": self.combine_cpu(reading)}
        allowed = [action for action in costs if self.latency_of(action) <= most_latency]
        return min(allowed, key=lambda action: costs[action])


def rows_to_share(a_row: float, a_state: float, windows: Sequence[Window]) -> float:
    """Return how many rows a key and pane must have before panes are cheaper than one update a window.

    Parameters
    ----------
    a_row, a_state : seconds of the user's code of a row; of one key's state of a pane as bytes, back, and merged.
    windows : W = the sum of length / frequency.
    """
    return a_state / (a_row * (instances_of_a_row(windows) - 1))
