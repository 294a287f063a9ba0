"""What stays the same from beat to beat of a loop that makes snapshots, and what is remembered of the folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dtoss.snapshots.store import Store
from pipelines.loop.arriving import Patience
from pipelines.loop.disposal import Disposal
from pipelines.loop.loop_metrics import Metrics
from pipelines.loop.odd_columns import REFUSE
from pipelines.loop.stopping import Stopping
from pipelines.windowing.feed_windows import Feed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Steady:
    """What stays the same from beat to beat."""

    updates: str
    home: Store
    sessions: Callable[[], SparkSession]
    columns: Mapping[str, Any]
    schema: str
    disposal: Disposal | None
    pivots_hash: str | None
    metrics: Metrics
    stopping: Stopping
    say: Callable[[dict[str, Any], float | None], None]
    warn: Callable[[str], None]
    lease: bool
    history: str | None
    feeds: Sequence[Feed]  # Windows that get the rows, too
    options: Mapping[str, Any]
    on_odd_file: str = REFUSE
    patience: Patience = field(default_factory=Patience)  # What is remembered of files that were not read
