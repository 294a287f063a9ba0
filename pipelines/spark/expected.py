"""How large Spark expects rows to be: few are brought here, which costs less than a shuffle and tasks elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def expected_bytes(frame: DataFrame) -> int:
    """Return how large Spark expects rows to be; very large where it does not know."""
    java: object = frame._jdf
    return int(str(java.queryExecution().optimizedPlan().stats().sizeInBytes()))  # type: ignore[attr-defined]
