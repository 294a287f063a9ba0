"""How much of a cycle the process that runs it does itself: where there is little, a job of Spark's costs more."""

from __future__ import annotations

from typing import NamedTuple


class Here(NamedTuple):
    """Up to how much of each step is done here; with -1 nothing is. What comes out is the same."""

    # Of updates, as far as Spark can estimate them, that come to this process: shuffling so few costs more
    update_bytes: int = 64 << 20
    compared: int = 4_000_000  # Objects whose partitions are compared with the updates, where their files are local
    built: int = 100_000  # Objects of partitions that are built, where files are local
    copies: int = 1_000_000  # Replicas from which the border table is made, where files are local


USUAL = Here()
NOTHING = Here(-1, -1, -1, -1)
"""All is done by Spark's tasks."""
