"""When a loop lets go of its Spark and starts another one: where it has gone, or fails for no reason that is known."""

from __future__ import annotations

from collections.abc import Callable

from pipelines.spark.causes import cause_of
from pipelines.spark.session import alive


def renew_session(
    renew: Callable[[], None] | None, error: Exception, in_a_row: int, warn: Callable[[str], None]
) -> None:
    """Let go of a session that has ended, or with which two rounds have failed for no reason that we know.

    ``renew``: lets go of it; None where somebody else has started it.
    """
    from pyspark.sql import SparkSession

    try:
        session = SparkSession.getActiveSession()
        gone = session is not None and not alive(session)
    except Exception:
        gone = True  # Java does not answer
    if renew is not None and (gone or (in_a_row > 1 and cause_of(error) is None)):
        warn("Spark is started anew")
        renew()
