"""Flow and bins of speeds: a number for each move, sorted and counted, since there are as many as moves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoss.windows.labels import Numbers
from dtoss.windows.patches import KEY_GROUPS, Patch
from dtoss.windows.trajectories.cell_table import Groups
from dtoss.windows.trajectories.codes_kernel import counted_codes, sort_codes
from dtoss.windows.trajectories.walk_kernel import BIN_BITS

_MOST_BITS = 63


@dataclass(frozen=True)
class Codes:
    """How a group, a pane and two labels are a number: by their bits."""

    place: Numbers  # int64 (n,). What stands for the pane of each row
    place_bits: int  # place_bits, rank_bits: how many it takes to tell places apart, and labels: 0 is none of them
    rank_bits: int
    panes: Numbers | int  # int64 (places,). The pane of each place; or the first one, where they follow one another

    def flow(self, codes: Numbers, groups: Groups) -> Patch:
        """Return the sums of codes of moves from label to label. Cost O(n) a digit; the codes are written over."""
        found = self._counted(codes, self.rank_bits)
        found.labels[:] = groups.of_ranks(found.labels)
        return found

    def bins(self, codes: Numbers, groups: Groups) -> Patch:
        """Return the sums of codes of moves by label and bin. Cost O(n) a digit; the codes are written over."""
        found = self._counted(codes, BIN_BITS)
        found.labels[:, 0] = groups.of_ranks(found.labels[:, 0])
        return found

    def _counted(self, codes: Numbers, second_bits: int) -> Patch:
        if len(codes) == 0:
            return Patch.none(2, 1)
        spare = np.empty_like(codes)
        if sort_codes(codes, spare, int(codes.max()).bit_length()):
            codes, spare = spare, codes
        labels, ends = np.empty((len(codes), 2), np.int64), np.zeros(KEY_GROUPS, np.int64)
        # no code is read after its place has been written over it: memory that is new costs more than the counting
        total = counted_codes(codes, second_bits, self.rank_bits, self.place_bits, ends, codes, labels, spare)
        pane = codes[:total]
        if isinstance(self.panes, int):
            pane += self.panes
        else:
            pane = self.panes[pane]
        return Patch(np.append(0, ends), pane, labels[:total], spare[:total, None])


def codes_of(pane: NDArray[np.int64], groups: Groups) -> Codes:
    """Return how the panes of rows and so many labels are numbers."""
    ranks = len(groups).bit_length()
    most = KEY_GROUPS.bit_length() + ranks + max(ranks, BIN_BITS)
    first, last = int(pane.min()), int(pane.max())
    if most + (last - first).bit_length() <= _MOST_BITS:
        return Codes(pane - first, (last - first).bit_length(), ranks, first)
    panes, place = np.unique(pane, return_inverse=True)
    if most + len(panes).bit_length() > _MOST_BITS:
        raise ValueError(f"{len(panes):,} panes and {len(groups):,} keys are too many for one batch: give fewer rows")
    return Codes(place.astype(np.int64), len(panes).bit_length(), ranks, panes)
