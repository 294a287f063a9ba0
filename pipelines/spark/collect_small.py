"""Few rows are brought to this process, which costs less than a shuffle and tasks elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_LIMIT = "spark.driver.maxResultSize"


def collect_small(frame: DataFrame, most: int) -> pa.Table | None:
    """Return rows; None where they are too many to come here.

    ``most``: bytes up to which they come, as far as Spark can tell beforehand. What a file says in few bytes may be far
    more than that: where Spark finds more than it lets a process have, they stay as well.
    """
    if most < 0 or _expected_bytes(frame) > most:
        return None
    try:
        return frame.toArrow()
    except Exception as error:
        if _LIMIT in str(error):
            return None
        raise


def _expected_bytes(frame: DataFrame) -> int:
    """Return how large Spark expects rows to be; very large where it does not know."""
    java: object = frame._jdf
    return int(str(java.queryExecution().optimizedPlan().stats().sizeInBytes()))  # type: ignore[attr-defined]
