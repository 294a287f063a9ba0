"""Files of state: bases, and patches since; what is merged or written anew, and what a commit lists then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dtoss.commits.file_entry import merged_from
from dtoss.windows.storage.window_document import Part

Numbers = NDArray[np.int64]
PATCHED = 4
"""A base is due to be written anew when its patches exceed this part of it: a quarter."""


@dataclass(frozen=True)
class Change:
    """What a task changes in the files of state."""

    of: tuple[int, ...]  # The buckets, or parts of panes, that the task has
    bases: tuple[Part, ...] = ()  # States that it has written whole: they stand for all that was known of theirs
    patch: Part | None = None  # What it has written of the others; None where nothing has changed
    # How many patches of before that have any of its buckets stay, oldest first: the others are in the new one
    stay: int | None = None

    @property
    def anew(self) -> frozenset[int]:
        """The buckets whose state is written whole."""
        return frozenset(one for base in self.bases for one in base.of)


def with_any(parts: Sequence[Part], of: Sequence[int]) -> list[Part]:
    """Return the files that have any of some buckets, in their order."""
    wanted = set(of)
    return [part for part in parts if not wanted.isdisjoint(part.of)]


def listed_after(before: Sequence[Part], changes: Sequence[Change]) -> list[Part]:
    """Return the files of state after a batch: bases, then patches from the oldest on.

    ``changes``: of all tasks that ran; each bucket is of one of them, at most.

    Of a bucket there is one base, and any patches are later. A file is left out where nothing of it counts any more.
    """
    anew = frozenset(one for change in changes for one in change.anew)
    found = [replace(part, of=tuple(one for one in part.of if one not in anew)) for part in before]
    for change in changes:
        if change.patch is None or change.stay is None:
            continue
        mine = [i for i, part in enumerate(before) if part.patch and not set(change.of).isdisjoint(part.of)]
        for i in mine[change.stay :]:
            found[i] = replace(found[i], of=tuple(one for one in found[i].of if one not in change.of))
    made = [base for change in changes for base in change.bases]
    patches = [change.patch for change in changes if change.patch is not None]
    bases = [part for part in found if part.of and not part.patch]
    return bases + made + [part for part in found if part.of and part.patch] + patches


def too_many(came: int, held: int) -> bool:
    """Return whether rows are so many of those held that a patch of them does not pay."""
    return PATCHED * came >= held


def due(bases: Numbers, patches: Numbers, came: int) -> Numbers:
    """Return which bases are written anew in a batch, int64, rising: of those that are due the most patched ones.

    They take turns, so that no batch writes all of them where a few are enough: twice as many, of all, as the batch
    has of them. So none ever has patches of its own size.

    ``bases``, ``patches``: int64 (n,). Rows of each base, and of its patches with those of the batch.

    Examples
    --------
    >>> due(np.array([100, 100, 100, 100]), np.array([26, 30, 25, 28]), 5).tolist()
    [1]
    >>> due(np.array([100, 0]), np.array([25, 1]), 1).tolist()
    [1]
    """
    over = np.flatnonzero(PATCHED * patches > bases)
    most = max(1, -(-2 * len(bases) * came // max(int(bases.sum()), 1)))
    share = patches[over] / np.maximum(bases[over], 1)
    return np.sort(over[np.argsort(-share, kind="stable")[:most]])


def staying(patches: Sequence[Part], came: int) -> int:
    """Return how many patches stay, oldest first, when so many rows come; the others are merged with these."""
    return merged_from([part.file.rows for part in patches], came)
