"""What a question has read, as facts: for ``explain``, and for those who learn from what is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from dtoss.history.query.block_queries import BlockQueries
from dtoss.history.query.scan_blocks import Scan

QUESTIONS = ("range", "box", "within", "knn", "trajectory", "at", "count", "count_box", "count_within")


@dataclass(frozen=True)
class Told:
    """A question that was answered."""

    question: str
    asked: BlockQueries  # Which places and times it was about; of the nearest ones the disc of the furthest hit
    facts: Mapping[str, Any]  # Of its plan: what each order would read, and which of them were used
    scan: Scan  # What was looked at, with what was read
    hits: int  # How many answers it had; -1 where they were only counted
    seconds: float  # How long it took

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        version = self.scan.version
        reads = self.scan.reads
        all_blocks = int(version.leaves.count[version.leaves.order == 0].sum())
        return {
            "question": self.question,
            "version": version.number,
            "hits": None if self.hits < 0 else self.hits,
            "milliseconds": round(1e3 * self.seconds, 3),
            "read": asdict(reads),
            "pruned": {"blocks": all_blocks - reads.blocks, "of": all_blocks},
            **self.facts,
        }
