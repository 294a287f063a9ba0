"""Flow and bins of speeds: a number for each move, sorted and counted, since there are as many as moves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoss.windows.patches import GROUPS, NO_KEY, Patch
from dtoss.windows.tracks.cells import Groups
from dtoss.windows.tracks.cells_kernel import counted_codes, sort_codes
from dtoss.windows.tracks.labels import Numbers
from dtoss.windows.tracks.walk_kernel import BIN_COUNT

_BITS = 62


@dataclass(frozen=True)
class Codes:
    """How a group, a pane and two labels are a number.

    Parameters
    ----------
    place
        int64 (n,). What stands for the pane of each row.
    places
        How many there are.
    ranks
        One more than there are labels: 0 is none.
    panes
        int64 (places,). The pane of each place; or its first one, where they follow one another.
    """

    place: Numbers
    places: int
    ranks: int
    panes: Numbers | int

    def patch(self, codes: Numbers, groups: Groups, room: int) -> Patch:
        """Return the sums of codes as a patch. Cost O(n) a digit; the codes are written over.

        Parameters
        ----------
        codes
            int64 (n,). Twice the number, and one more where it is taken back.
        groups
            The labels.
        room
            How many values the second label has: ranks, where it is a label, or bins.
        """
        if len(codes) == 0:
            return Patch.none(2, 1)
        sort_codes(codes, np.empty_like(codes), int(codes.max()).bit_length())
        found, count = np.empty_like(codes), np.empty_like(codes)
        total = counted_codes(codes, found, count)
        found, count = found[:total], count[:total]
        found, second = _parted(found, room)
        found, first = _parted(found, self.ranks)
        group, place = _parted(found, self.places)
        labels = np.empty((total, 2), np.int64)
        labels[:, 0] = _keys(groups, first)
        labels[:, 1] = _keys(groups, second) if room != BIN_COUNT else second
        pane = place + self.panes if isinstance(self.panes, int) else self.panes[place]
        return Patch(np.searchsorted(group, np.arange(GROUPS + 1)).astype(np.int64), pane, labels, count[:, None])


def _parted(numbers: Numbers, room: int) -> tuple[Numbers, Numbers]:
    whole = numbers // room
    return whole, numbers - whole * room


def _keys(groups: Groups, ranks: Numbers) -> Numbers:
    return np.where(ranks == 0, NO_KEY, groups.of(np.maximum(ranks - 1, 0)))


def codes_of(pane: NDArray[np.int64], groups: Groups) -> Codes:
    """Return how the panes of rows and so many labels are numbers.

    Raises
    ------
    ValueError
        If there are more than numbers of 62 bits.
    """
    ranks = len(groups) + 1
    first, last = int(pane.min()), int(pane.max())
    most = GROUPS * ranks * max(ranks, BIN_COUNT)
    if most * (last - first + 1) < 1 << _BITS:
        return Codes(pane - first, last - first + 1, ranks, first)
    panes, place = np.unique(pane, return_inverse=True)
    if most * len(panes) >= 1 << _BITS:
        raise ValueError(f"{len(panes):,} panes and {len(groups):,} keys are too many for one batch: give fewer rows")
    return Codes(place.astype(np.int64), len(panes), ranks, panes)
