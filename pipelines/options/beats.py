"""When a loop of cycles looks for what has arrived."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

from dtoss.option import Option, check_count
from pipelines.options.said_amounts import duration


@dataclass(frozen=True)
class Beats:
    """When a loop looks for what has arrived."""

    title: ClassVar[str] = "When"
    # Seconds; a beat that is missed is left out
    every: Annotated[float, Option("From cycle to cycle: 60s, 5min.", "TIME", parse=duration(None), shown="60s")] = 60.0
    cycles: Annotated[int | None, Option("Looks after which to end; 1 for cron.", more={"min": 1})] = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.every) and self.every > 0.0):
            raise ValueError(f"every is {self.every!r}: seconds above 0 are wanted")
        check_count("cycles", self.cycles, 1)
