"""Flow and bins of speeds: a number for each move, sorted and counted, since there are as many as moves.

Codes of moves, sorted and counted: as many as moves, so nothing is looked up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoss.compiled.kernel import kernel
from dtoss.compiled.pointers import pointer
from dtoss.windows.keys import Numbers
from dtoss.windows.patches import KEY_GROUPS, Patch
from dtoss.windows.trajectories.cell_table import Groups
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


_BITS, _VALUES = 11, 2048
_READ = "Array(int64, 1, 'C', readonly=True)"


@kernel("boolean(int64[::1], int64[::1], int64)")
def sort_codes(codes, spare, bits):
    """Sort numbers of at most so many bits, none negative, into one of two arrays; return whether it is the second.

    ``codes``: int64 (n,). Written over; ``spare``: int64 (n,).
    """
    digits = (bits + _BITS - 1) // _BITS
    counts = np.zeros((digits, _VALUES), np.int64)
    for i in range(codes.size):
        code = codes[i]
        for digit in range(digits):
            counts[digit, (code >> (_BITS * digit)) & (_VALUES - 1)] += 1
    read, write, swapped = pointer(codes), pointer(spare), False
    for digit in range(digits):
        shift, count = _BITS * digit, counts[digit]
        if codes.size == 0 or count[(read[0] >> shift) & (_VALUES - 1)] == codes.size:
            continue
        place = 0
        for value in range(_VALUES):
            place, count[value] = place + count[value], place
        for i in range(codes.size):
            value = (read[i] >> shift) & (_VALUES - 1)
            write[count[value]] = read[i]
            count[value] += 1
        read, write, swapped = write, read, not swapped
    return swapped


@kernel(f"int64({_READ}, int64, int64, int64, int64[::1], int64[::1], int64[:, ::1], int64[::1])")
def counted_codes(codes, second_bits, first_bits, place_bits, ends, place, labels, count):
    """Write the parts of each different code and its sum: +1 of each whose lowest bit is 0, -1 of each where it is 1.

    ``codes``: int64 (n,), ascending: the bits of group, place, first and second label, and the lowest one; ``ends``:
    int64 (groups,). Where those of each group end; ``place``, ``labels``, ``count``: int64 (n,), (n, 2) and (n,). Sums
    of 0 are left out; how many others there are is returned.
    """
    at = found = group = 0
    while at < codes.size:
        code, total = codes[at] >> 1, 0
        while at < codes.size and codes[at] >> 1 == code:
            total += 1 - 2 * (codes[at] & 1)
            at += 1
        if total == 0:
            continue
        labels[found, 1] = code & ((1 << second_bits) - 1)
        code >>= second_bits
        labels[found, 0] = code & ((1 << first_bits) - 1)
        code >>= first_bits
        while group < code >> place_bits:
            ends[group] = found
            group += 1
        place[found], count[found] = code & ((1 << place_bits) - 1), total
        found += 1
    for later in range(group, ends.size):
        ends[later] = found
    return found
