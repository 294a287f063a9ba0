"""How the builder of a server gets on, in memory that all its processes share.

Whole numbers of 8 bytes. Each is written by one process: who writes the log, who makes generations, or who waits to be
both; but the last sequence number by whoever knows it first. Moments are microseconds since 1970.
"""

from __future__ import annotations

import mmap
import time
from collections.abc import Mapping

FIELDS = (
    "acknowledged", "refused", "seq", "seen", "generations", "microseconds", "commit", "hand_overs", "not_taken",
    "made", "groups", "begun", "unusable", "builds",
)  # fmt: skip
_KEPT = 1024
"""Acknowledgements whose moments are kept: of some ten seconds."""
_FIRST = len(FIELDS)
_WORDS = _FIRST + 2 * _KEPT


class FreshCounts:
    """Counts of a server's builder, which the next one goes on with."""

    def __init__(self) -> None:
        self._words = memoryview(mmap.mmap(-1, 8 * _WORDS)).cast("q")

    # -- writing ----------------------------------------------------------------------------------------------------

    def _add(self, field: str, by: int) -> None:
        self._words[FIELDS.index(field)] += by

    def _set(self, field: str, value: int) -> None:
        self._words[FIELDS.index(field)] = value

    def begin(self) -> None:
        """Count a builder that begins."""
        self._add("begun", 1)
        self._set("builds", 1)

    def follow(self, last: int, fresh: Mapping[str, int], made: float) -> None:
        """Take over how another server of the plan gets on.

        ``last``: of the log; ``fresh``: what the newest generation says; ``made``: when, seconds since 1970.
        """
        said = {"builds": 0, "seq": last, "seen": fresh["seq"], "commit": fresh["commit"], "made": int(made * 1e6)}
        for field, value in said.items():
            self._set(field, value)

    def add_acknowledged(self, seq: int, rows: int) -> None:
        """Count rows that are durable now, ``seq`` of the last."""
        place = _FIRST + 2 * (self.of("groups") % _KEPT)
        self._words[place + 1] = int(time.time() * 1e6)
        self._words[place] = seq
        self._add("groups", 1)
        self._add("acknowledged", rows)
        self.note_seq(seq)

    def note_seq(self, seq: int) -> None:
        """Say the sequence number of the last row of the log."""
        self._set("seq", seq)

    def add_refused(self, rows: int) -> None:
        """Count rows that were refused, as too many wait."""
        self._add("refused", rows)

    def add_generation(self, seq: int, commit: int, seconds: float) -> None:
        """Count a generation of all rows up to ``seq``, upon a commit of the store."""
        before = self.of("commit")
        self._add("hand_overs", before not in (0, commit))
        for field, value in (("seen", seq), ("commit", commit), ("made", int(time.time() * 1e6))):
            self._set(field, value)
        self._add("generations", 1)
        self._add("microseconds", int(seconds * 1e6))

    def add_unusable(self, rows: int) -> None:
        """Count rows of the log that are in no generation, as a cycle sets them aside, or who is meant is forgotten."""
        self._add("unusable", rows)

    def add_base_refused(self) -> None:
        """Count a snapshot upon which no generation could be made."""
        self._add("not_taken", 1)

    # -- reading ----------------------------------------------------------------------------------------------------

    def of(self, field: str) -> int:
        """Return one of :data:`FIELDS`."""
        return int(self._words[FIELDS.index(field)])

    @property
    def unseen(self) -> int:
        """Rows of the log that are in no generation yet."""
        return max(self.of("seq") - self.of("seen"), 0)

    def acknowledged_between(self, after: int, upto: int) -> list[float]:
        """Return when rows of the sequence numbers after ``after`` up to ``upto`` were acknowledged, a moment a group.

        Seconds since 1970; of those that are long ago nothing is known.
        """
        kept = self._words[_FIRST:].tolist()
        return [made / 1e6 for seq, made in zip(kept[::2], kept[1::2], strict=True) if after < seq <= upto]
