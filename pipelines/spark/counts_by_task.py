"""What Spark does with counts that its tasks send: those of a task count once, however often it was tried."""

from __future__ import annotations

from pyspark.accumulators import AccumulatorParam


class _ByTask(AccumulatorParam[dict[int, int]]):
    def zero(self, value: dict[int, int]) -> dict[int, int]:
        """Return no counts."""
        return {}

    def addInPlace(self, value1: dict[int, int], value2: dict[int, int]) -> dict[int, int]:
        """Return the counts of both."""
        return {**value1, **value2}


BY_TASK = _ByTask()
