"""What a user would write with Spark's own state: the last hour's counts of each minute, kept by region."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

MINUTE_US = 60_000_000
HOUR, LATE = 60, 10
"""Minutes of the window, and of rows that come late."""


class HourOfCounts(StatefulProcessor):
    """Rows of the hour before each minute, of one region; a batch tells of the minutes that it has touched."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state: the last minute there is, and the counts of the minutes up to it."""
        self.ring = handle.getValueState("ring", "last bigint, counts array<bigint>")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        """Add rows, and yield each hour that ends with a minute of them."""
        import pandas as pd

        minutes = np.concatenate([one["t"].to_numpy().astype("datetime64[us]").astype(np.int64) for one in rows])
        minutes //= MINUTE_US
        room = HOUR + LATE
        newest = int(minutes.max())
        counts = np.zeros(room, np.int64)
        if self.ring.exists():
            last, before = self.ring.get()
            newest = max(newest, last)
            by = newest - last
            if by < room:
                counts[: room - by] = before[by:]
        first = newest - room + 1
        kept = minutes[minutes >= first]
        np.add.at(counts, kept - first, 1)
        self.ring.update((newest, counts.tolist()))
        sums = np.concatenate([[0], np.cumsum(counts)])
        touched = np.arange(max(int(kept.min(initial=newest)), first + HOUR - 1), newest + 1) - first
        yield pd.DataFrame(
            {
                "region": np.full(len(touched), key[0], np.int32),
                "end": (touched + first + 1) * MINUTE_US,
                "n": sums[touched + 1] - sums[touched + 1 - HOUR],
            }
        )

    def close(self) -> None:
        """Nothing is open."""
